package store

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/dispatch"
)

// decoded returns what is stored as JSON; zero if the text is empty. It takes no pointer to it, by which the decoder
// would force the whole that it belongs to to the heap.
func decoded[T any](text string) (v T, err error) {
	if text == "" {
		return v, nil
	}
	into := new(T)
	err = json.Unmarshal([]byte(text), into)
	return *into, err
}

// encodedIn is where JSON is scanned to.
type encodedIn[T any] struct{ to *T }

// Scan implements [sql.Scanner].
func (e encodedIn[T]) Scan(from any) (err error) {
	text, err := given[string](from)
	if err != nil {
		return err
	}
	*e.to, err = decoded[T](text)
	return err
}

// encoded is the inverse of decoded.
func encoded[T any](v T, empty func(T) bool) string {
	if empty(v) {
		return ""
	}
	text, _ := encode(v) // cannot fail: texts, finite numbers and times
	return text
}

// encode does not escape HTML, so that a RawMessage stays as it is.
func encode(v any) (string, error) {
	text, err := dispatch.Encode(v)
	return string(text), err
}

// storableText replaces the characters that PostgreSQL cannot store in a text, so that no response is lost because of
// them.
func storableText(s string) string {
	if storable(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// allStorable returns Invalid for texts that PostgreSQL cannot store.
func allStorable(op string, texts ...string) error {
	if slices.ContainsFunc(texts, func(s string) bool { return !storable(s) }) {
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "store." + op, Text: notText}
	}
	return nil
}

func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
