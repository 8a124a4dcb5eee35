package facade

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Limit reads the query parameter limit: a whole number from 1, which is reduced to most if it is larger. If it is
// absent or empty, the limit is the usual one. ok is false for any other text.
func Limit(query url.Values, usual, most int) (limit int, ok bool) {
	text := query.Get("limit")
	if text == "" {
		return usual, true
	}
	n, err := strconv.Atoi(text) // of a number beyond all ints, the greatest or the least one
	return min(n, most), n > 0 && (err == nil || errors.Is(err, strconv.ErrRange))
}

// Interval reads a time of RFC 3339, or two with a slash between them, of which an open one, ".." or empty, is zero.
func Interval(text string) (from, until time.Time, ok bool) {
	first, last, isInterval := strings.Cut(text, "/")
	if from, ok = end(first); !isInterval {
		return from, from, ok
	}
	until, known := end(last)
	return from, until, ok && known
}

func end(text string) (at time.Time, ok bool) {
	if text == "" || text == ".." {
		return at, true
	}
	at, err := time.Parse(time.RFC3339, strings.ToUpper(text))
	return at, err == nil
}
