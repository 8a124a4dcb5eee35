package upstream

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance"
)

func TestFinite(t *testing.T) {
	for body, want := range map[string]string{
		`{"mean": NaN, "range": [-Infinity,Infinity ]}`: `{"mean": null, "range": [null,null ]}`,
		` [NaN]`: ` [null]`,
		`{"a":"NaN \" -Infinity \\","b":NaN,"NaN":"\\\""}`: `{"a":"NaN \" -Infinity \\","b":null,"NaN":"\\\""}`,
		`{"a":"NaN","b":1e400}`:                            `{"a":"NaN","b":1e400}`,

		// These stay as they are: nothing else is made valid.
		`NaN`: `NaN`, `{NaN:1}`: `{NaN:1}`, `[-NaN]`: `[-NaN]`, `[+Infinity]`: `[+Infinity]`, `[nan]`: `[nan]`,
		`[NaN,]`: `[NaN,]`, `[1NaN]`: `[1NaN]`, `[NaNNaN]`: `[NaNNaN]`,
		`["NaN`: `["NaN`, `{"a":NaN} {`: `{"a":NaN} {`, `['a',NaN]`: `['a',NaN]`,
		"[NaN // a\n]": "[NaN // a\n]", `{"a":NaN`: `{"a":NaN`, "a,b\nNaN,1": "a,b\nNaN,1", `"\`: `"\`, ``: ``,
	} {
		if got := string(Finite([]byte(body))); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// FuzzFinite: what Finite changes is not JSON before, and is JSON afterwards that has null where the numbers were, and
// all texts as they were.
func FuzzFinite(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"NaN \" ]",NaN,-Infinity],"b":{"c\\":Infinity}}`, `[NaN,{"NaN":"Infinity"}]`,
		`[[[[-Infinity`, `{"a":"\u00e9\"",` + "\n" + `"b":NaN}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		given := bytes.Clone(body)
		used := conformance.Allocated()
		got := Finite(body)
		if used = conformance.Allocated() - used; used > 1<<20+8*int64(len(body)) {
			t.Errorf("%d bytes cost %d", len(body), used)
		}
		if !bytes.Equal(body, given) {
			t.Fatalf("the body was changed: %q", given)
		}
		if bytes.Equal(got, body) {
			return
		}
		if json.Valid(body) || !json.Valid(got) {
			t.Fatalf("%q became %q", body, got)
		}
		// The same with another literal in each place: only they differ, outside texts.
		again := Finite(bytes.ReplaceAll(bytes.ReplaceAll(body, []byte("-Infinity"), []byte("NaN")), []byte("Infinity"),
			[]byte("NaN")))
		if a, b := withoutTexts(t, got), withoutTexts(t, again); a != b {
			t.Errorf("%s and %s", a, b)
		}
	})
}

// withoutTexts returns JSON without white space, with empty texts.
func withoutTexts(t *testing.T, body []byte) string {
	t.Helper()
	var plain bytes.Buffer
	if err := json.Compact(&plain, body); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	var text strings.Builder
	for quoted, escaped := false, false; plain.Len() > 0; {
		b, _ := plain.ReadByte() // there is one
		switch {
		case escaped:
			escaped = false
		case quoted && b == '\\':
			escaped = true
		case b == '"':
			quoted = !quoted
			text.WriteByte(b)
		case !quoted:
			text.WriteByte(b)
		}
	}
	return text.String()
}

func BenchmarkFinite(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	numbers := make([]float64, 1<<19)
	for i := range numbers {
		numbers[i] = random.Float64()
	}
	body, err := json.Marshal(map[string]any{"values": numbers})
	if err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string][]byte{"finite": body, "with NaN": bytes.Replace(body, []byte(","),
		[]byte(",NaN,"), 1)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Finite(text)
			}
		})
	}
}
