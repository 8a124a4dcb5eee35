package dispatch

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestParseRequest_AsTheDecoder: a long request is read as the decoder reads it, whatever its texts have in them, and
// lists read its members before the parameters without the rest.
func TestParseRequest_AsTheDecoder(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	text := func(most int) string {
		const letters = `ab"\{}[],: é` + "\n"
		var b strings.Builder
		for range dice.IntN(most) {
			b.WriteByte(letters[dice.IntN(len(letters))])
		}
		return strings.ToValidUTF8(b.String(), "?")
	}
	long := 0
	for range 500 {
		inner := map[string]any{text(9): text(9), "parameters": []any{1.5, nil, true, map[string]any{}}}
		parameters, err := json.Marshal(map[string]any{text(5): text(1 << 17), text(9): inner, "n": -1e9})
		if err != nil {
			t.Fatal(err)
		}
		want := Request{Title: text(50), Label: Label(text(5)), Service: Service{Application: text(20)},
			Warning: text(9), Parameters: parameters, Format: text(9), Options: json.RawMessage(`{"parameters":[1]}`),
			Pin: text(3)}
		stored, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var decoded Request
		if err := json.Unmarshal(stored, &decoded); err != nil {
			t.Fatal(err)
		}
		read, err := ParseRequest(string(stored))
		if err != nil || !reflect.DeepEqual(read, decoded) {
			t.Fatalf("%v\n%.2000s\n%.2000s", err, stored, read.Parameters)
		}
		head := RequestHead(string(stored))
		if head == "" {
			continue
		}
		if long++; !reflect.DeepEqual(ParseRequestHead(head), ParseRequestHead(string(stored))) ||
			strings.Contains(head, `"parameters":`) {
			t.Fatalf("%s\n%.2000s", head, stored)
		}
	}
	if long < 400 {
		t.Errorf("%d long requests", long)
	}
}

// TestParseRequest_OfAnything: a text that is no request is refused, and stops nothing.
func TestParseRequest_OfAnything(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"`, `{"title":"`, `{"title":"\`, `{"parameters":`, `{"parameters":{"a":[`, "[]]",
		`"`, `{"title"`} {
		for _, text := range []string{text, text + strings.Repeat(" ", 1<<17), text + strings.Repeat("{", 1<<17)} {
			if r, err := ParseRequest(text); err == nil {
				t.Errorf("%.30q is %+v", text, r)
			}
			RequestHead(text)
		}
	}
}
