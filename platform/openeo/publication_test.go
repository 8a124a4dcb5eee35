package openeo

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestCut: links to what the façade serves are cut out, in both spellings of a slash; all else stays byte for byte.
func TestCut(t *testing.T) {
	const base = "https://openeo.example.org/openeo/1.2"
	for text, want := range map[string]string{
		`{"href":"` + base + `/collections/A"}`:                             `{"href":"@/collections/A"}`,
		`{"href":"` + base + `"}`:                                           `{"href":"@"}`,
		`{"href":"` + base + `/"}`:                                          `{"href":"@/"}`,
		`{"href":"` + base + `/collections?limit=5&page=\u0032"}`:           `{"href":"@/collections?limit=5&page=\u0032"}`,
		`{"href":"` + strings.ReplaceAll(base, "/", `\/`) + `\/processes"}`: `{"href":"@\/processes"}`,
		`["` + base + `/conformance","` + base + `/file_formats"]`:          `["@/conformance","@/file_formats"]`,
		`{"href":"` + base + `/collections/A/thumbnail"}`:                   "",
		`{"href":"` + base + `/jobs"}`:                                      "",
		`{"href":"` + base + `0/collections"}`:                              "",
		`{"text":"see ` + base + `/collections"}`:                           "",
		`{"text":"\"` + base + `/collections\""}`:                           "",
		`{"href":"` + base + `/collections/../../secret"}`:                  "",
	} {
		got := string(bytes.Join(cut([]byte(text), base), []byte("@")))
		if want == "" {
			want = text
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// FuzzCut: joined with the address of the platform, the pieces are the text again, up to the spelling of slashes;
// joined with another one they are JSON, if the text was.
func FuzzCut(f *testing.F) {
	const base = "https://a.example"
	f.Add([]byte(`{"a":"https://a.example/collections","b":["https:\/\/a.example\/"]}`))
	f.Add([]byte(`"https://a.example`))
	f.Add([]byte(`"\\"https://a.example"`))
	f.Fuzz(func(t *testing.T, text []byte) {
		parts := cut(text, base)
		plain := func(b []byte) string { return strings.ReplaceAll(string(b), `\/`, "/") }
		if got := bytes.Join(parts, []byte(base)); plain(got) != plain(text) {
			t.Errorf("%q became %q", text, got)
		}
		if json.Valid(text) && !json.Valid(bytes.Join(parts, []byte("https://b.example/x"))) {
			t.Errorf("%q is no longer JSON", text)
		}
	})
}

// A document is read with the token of an account, so its path must not lead elsewhere in any spelling.
func TestLeavesItsFolder(t *testing.T) {
	for path, want := range map[string]bool{
		"/": false, "/collections": false, "/collections/SENTINEL2_L2A/queryables": false, "/processes/a%20b": false,
		"/collections?x=../%2e%2e": false,
		"/processes/../jobs":       true, "/processes/%2e%2e/jobs": true, "/processes/%2E./jobs": true,
		"/collections/..%2fjobs": true, "/collections/a%5c..%5cjobs": true,
		"/collections/.": true, "/processes/%252e%252e/jobs": true, "/collections/%zz": true,
	} {
		if got := leavesItsFolder(path); got != want {
			t.Errorf("%s: %t, want %t", path, got, want)
		}
	}
}
