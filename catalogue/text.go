package catalogue

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on what is kept of a record.
const (
	mostTitle       = 300      // characters
	mostDescription = 16 << 10 // bytes; the time to render hostile Markdown grows with the square
	mostKeywords    = 50
	mostFormats     = 50
	mostLinks       = 100
	mostHref        = 2048 // bytes
)

// plain returns a text in one line: valid UTF-8, without control characters and marks that change the direction of what
// follows.
func plain(text string) string {
	return strings.Join(strings.Fields(clean(text)), " ")
}

// clean removes control characters, except line breaks and tabs, and marks that change the direction of what follows.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		case unicode.Is(unicode.Bidi_Control, r), r == '\ufeff':
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// clip cuts a text after a number of characters.
func clip(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// description returns a Markdown text without what no Markdown needs, and cut if it is too long.
func description(text string) string {
	text = clean(strings.ReplaceAll(text, "\r\n", "\n"))
	if len(text) > mostDescription {
		text = strings.ToValidUTF8(text[:mostDescription], "") + "…"
	}
	return text
}

func keywords(given []string) (kept []string) {
	seen := map[string]bool{}
	for _, word := range given {
		word = clip(plain(word), mostTitle)
		if folded := strings.ToLower(word); word != "" && !seen[folded] && len(kept) < mostKeywords {
			seen[folded], kept = true, append(kept, word)
		}
	}
	return kept
}

// links returns the links that are safe to show, with absolute addresses.
func links(given []recordLink, base *url.URL) (kept []Link) {
	for _, l := range given {
		if href := address(l.Href, base); href != "" && len(kept) < mostLinks {
			kept = append(kept, Link{Rel: clip(plain(l.Rel), mostTitle), Href: href,
				Title: clip(plain(l.Title), mostTitle), Type: clip(plain(l.Type), mostTitle)})
		}
	}
	return kept
}

// address returns the absolute form of an address that a record names; "" if it is not one of the web or of mail.
func address(href string, base *url.URL) string {
	u, err := url.Parse(strings.TrimSpace(href))
	if err == nil && base != nil {
		u = base.ResolveReference(u)
	}
	if err != nil || plain(href) != strings.TrimSpace(href) || u.User != nil {
		return ""
	}
	switch text := u.String(); {
	case len(text) > mostHref:
		return ""
	case (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "", u.Scheme == "mailto" && u.Opaque != "":
		return text
	}
	return ""
}

func firstText(texts ...string) string {
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}
