package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"regexp"
	"strings"
	"unicode"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

const (
	maxText = 500  // runes of a message that is shown
	maxRaw  = 8000 // bytes that are searched for a message
)

// Bounded returns an error if a JSON text has numbers, or as many values, as cost too much to decode.
func Bounded(body []byte) error {
	if err := bounds.Numbers(body); err != nil {
		return fmt.Errorf("a number of %w", err)
	}
	return bounds.AnswerValues.Check(bounds.Values(body))
}

// JSON decodes the response body into v. A body that is not JSON, or does not fit v, is BadUpstream.
func JSON(a *Answer, op string, into any) error {
	err := Bounded(a.Body)
	if err == nil {
		err = json.Unmarshal(a.Body, into)
	}
	if err == nil {
		return nil
	}
	return &dispatch.Error{Kind: dispatch.BadUpstream, Op: op,
		Text: "The server's response cannot be read: " + unexpected(a, err), Err: err}
}

func unexpected(a *Answer, err error) string {
	media, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	_, over := errors.AsType[*bounds.Exceeded](err)
	switch _, shape := err.(*json.UnmarshalTypeError); {
	case len(a.Body) == 0:
		return "it is empty."
	case over:
		return "it has " + err.Error() + "."
	case shape:
		return "its JSON does not have the expected structure."
	case media != "" && media != "application/json":
		return fmt.Sprintf("it is %s instead of JSON.", Text(media))
	}
	return "it is not valid JSON."
}

var tag = regexp.MustCompile(`<[A-Za-z/!?][^<>]*>?`)

// Text makes a server's message safe to show: plain text in one line of at most 500 runes, without markup or control
// characters.
func Text(s string) string {
	s = strings.Map(visible, strings.ToValidUTF8(s[:min(len(s), maxRaw)], ""))
	for stripped := tag.ReplaceAllString(s, " "); stripped != s; stripped = tag.ReplaceAllString(s, " ") {
		s = stripped
	}
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > maxText {
		return string(runes[:maxText-1]) + "…"
	}
	return s
}

// maxVersion limits a version in characters.
const maxVersion = 100

// Version returns a version in the words of a server, bounded.
func Version(s string) string {
	name := []rune(Text(s))
	return string(name[:min(maxVersion, len(name))])
}

// visible turns control characters into spaces and drops characters that only change how others are displayed.
func visible(r rune) rune {
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return ' '
	case unicode.Is(unicode.Cf, r):
		return -1
	}
	return r
}
