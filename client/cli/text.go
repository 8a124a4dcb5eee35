package cli

import (
	"regexp"
	"strings"
	"unicode"
)

// Marks of Markdown that say nothing on a terminal: of headings, the rules of tables, and emphasis.
var (
	rules    = regexp.MustCompile(`(?m)^#+ +|^\|[-:| ]+\|\n`)
	emphasis = regexp.MustCompile(`(^|[^\w*])\*\*?([^*\s](?:[^*\n]*[^*\s])?)\*\*?`)
)

// withoutMarks returns a text in Markdown as plain text.
func withoutMarks(text string) string {
	return emphasis.ReplaceAllString(rules.ReplaceAllString(text, ""), "$1$2")
}

// printable returns a text of a server without what steers a terminal, and without space around it.
func printable(text string) string { return strings.TrimSpace(Printable(text)) }

// Printable returns a text of a server without what steers a terminal or shows the text in another order: control
// characters, except line ends and tabs, become spaces, and marks of direction are dropped.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		case unicode.Is(unicode.Bidi_Control, r), r == '\ufeff':
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
