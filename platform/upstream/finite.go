package upstream

import (
	"bytes"
	"encoding/json"
	"regexp"
)

// Finite returns a JSON object or array with null in place of NaN, Infinity and -Infinity: numbers that JSON lacks, and
// that encoders write nevertheless, such as those of Python. It returns any other body as it is, also one that is not
// valid JSON with null either.
func Finite(body []byte) []byte {
	start := bytes.TrimLeft(body, " \t\r\n")
	if len(start) == 0 || start[0] != '{' && start[0] != '[' || !bytes.Contains(body, notANumber) &&
		!bytes.Contains(body, infinity) || json.Valid(body) {
		return body
	}
	finite := textOrNumber.ReplaceAllFunc(body, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return []byte("null")
	})
	if !json.Valid(finite) {
		return body
	}
	return finite
}

var (
	notANumber, infinity = []byte("NaN"), []byte("Infinity")
	textOrNumber         = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|NaN|-?Infinity`)
)
