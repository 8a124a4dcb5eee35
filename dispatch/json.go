package dispatch

import (
	"bytes"
	"encoding/json"
)

// Encode returns v in JSON. Unlike [json.Marshal] it does not escape HTML, so that raw JSON of clients and platforms
// keeps its characters; only white space may change.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
