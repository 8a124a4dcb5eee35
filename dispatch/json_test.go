package dispatch

import (
	"encoding/json"
	"testing"
)

func TestEncode_KeepsCharacters(t *testing.T) {
	const text = `{"a":"<b>&\u2028","n":12345678901234567890.00100}`
	got, err := Encode(json.RawMessage(text))
	if err != nil || string(got) != text {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := Encode(func() {}); err == nil {
		t.Error("a function is encoded")
	}
}
