package upstream

import (
	"bytes"
	"encoding/json"
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
	finite, rest := make([]byte, 0, len(body)+len(body)/8), body
	for quoted := false; len(rest) > 0; {
		n := 1
		switch {
		case quoted && rest[0] == '\\':
			n = min(2, len(rest))
		case rest[0] == '"':
			quoted = !quoted
		case quoted:
		case bytes.HasPrefix(rest, notANumber):
			finite, rest = append(finite, "null"...), rest[len(notANumber):]
			continue
		case bytes.HasPrefix(bytes.TrimPrefix(rest, minus), infinity):
			finite, rest = append(finite, "null"...), bytes.TrimPrefix(rest, minus)[len(infinity):]
			continue
		}
		finite, rest = append(finite, rest[:n]...), rest[n:]
	}
	if !json.Valid(finite) {
		return body
	}
	return finite
}

var notANumber, infinity, minus = []byte("NaN"), []byte("Infinity"), []byte("-")
