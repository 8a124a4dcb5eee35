package openeo

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/platform/stac"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/conformance"
)

func TestChoose(t *testing.T) {
	cases := []struct {
		versions []version
		want     string // URL; "": none
	}{
		{nil, ""},
		{[]version{{"a", "1.0.0", true}, {"b", "1.10.0", true}, {"c", "1.9.0", true}}, "b"},
		{[]version{{"a", "1.0.0", true}, {"b", "1.2.0", false}}, "a"},
		{[]version{{"a", "1.0.0", false}, {"b", "1.2.0", false}}, "b"},
		{[]version{{"a", "1.3.0-rc.1", true}, {"b", "1.3.0", true}, {"c", "1.3.0-rc.10", true}}, "b"},
		{[]version{{"a", "1.3.0-rc.2", true}, {"c", "1.3.0-rc.10", true}, {"b", "1.3.0-beta", true}}, "c"},
		{[]version{{"a", "1.3.0-rc", true}, {"c", "1.3.0-9", true}}, "a"},
		{[]version{{"a", "1.2", true}, {"b", "1.1.9", true}}, "a"},
		{[]version{{"a", "0.4.2", true}, {"b", "2.0.0", true}, {"c", "1.0.0", false}}, "c"},
		{[]version{{"a", "0.4.2", true}, {"b", "latest", true}, {"c", "", true}}, ""},
	}
	for _, c := range cases {
		got, ok := newestVersion(c.versions)
		if got.URL != c.want || ok != (c.want != "") {
			t.Errorf("%v: got %v", c.versions, got)
		}
	}
}

func FuzzTag(f *testing.F) {
	f.Add("Field 12", "inst.7.1")
	f.Add("a [b] ", "x")
	f.Add("line\nbreak", "x")
	f.Fuzz(func(t *testing.T, title, tag string) {
		tagOf(title) // must not panic
		if tag == "" || strings.ContainsAny(tag, " []") || strings.Join(strings.Fields(tag), "") != tag {
			return
		}
		if got := tagOf(withTag(title, tag)); got != tag {
			t.Errorf("title %q: got tag %q, want %q", title, got, tag)
		}
	})
}

func FuzzCollection(f *testing.F) {
	for _, seed := range []string{
		`{"type":"Feature","bbox":[1,2,3,4],"properties":{"datetime":null},"assets":{"a":{"href":"x"}}}`,
		`{"type":"Collection","links":[{"href":"../x"}],"assets":[]}`,
		`{"type":"Feature","geometry":{"coordinates":[[1,"a"],[]],"geometries":[{}]},"links":[null]}`,
	} {
		f.Add([]byte(seed))
	}
	base, _ := url.Parse("https://h.example/openeo/jobs/j/results")
	f.Fuzz(func(t *testing.T, data []byte) {
		used := conformance.Allocated()
		got, err := collection("fuzz", "j", &upstream.Answer{Status: 200, Body: data, URL: base}, func([]string) {},
			func(string) (stac.Object, *url.URL, error) { return nil, nil, nil })
		if used = conformance.Allocated() - used; used > 1<<20+1_000*int64(len(data)) || len(got) > 1_000+20*len(data) {
			t.Errorf("%d bytes cost %d and became %d", len(data), used, len(got))
		}
		if err != nil {
			return
		}
		var c struct {
			Type   string
			Extent any
		}
		if json.Unmarshal(got, &c) != nil || c.Type != "Collection" {
			t.Errorf("%s became %s", data, got)
		}
	})
}

func FuzzInline(f *testing.F) {
	f.Add([]byte(
		`{"id":"p","parameters":[{"name":"a"}],"process_graph":{"n":{"process_id":"x","arguments":{"v":{"from_parameter":"a"}}}}}`), []byte(`{"a":1}`))
	f.Add(
		[]byte(`{"id":"p","process_graph":{"n":{"process_id":"x","result":true,"process_graph":{"parameters":[1]}}}}`),
		[]byte(`null`))
	f.Fuzz(func(t *testing.T, definition, arguments []byte) {
		o, last, err := inline(definition, "", arguments)
		if err != nil {
			return
		}
		o.appendSave(last, "JSON")
		body, err := o.body("T", nil)
		if most := int(bounds.GraphBytes.Most) + 2*len(definition) + 1_000; len(body) > most {
			t.Errorf("the request has %d bytes", len(body))
		}
		if err != nil || !json.Valid(body) {
			t.Errorf("got %s, %v", body, err)
		}
	})
}

// Where nothing is hidden, each parameter's place gets its value and all else stays.
func TestSubstitute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"alpha", "beta", "gamma"}
		values, given := map[string]json.RawMessage{}, map[string]any{}
		for _, n := range names {
			v := rapid.Float64Range(-1e6, 1e6).Draw(t, n)
			values[n], _ = json.Marshal(v)
			given[n] = v
		}
		var tree func(depth int) (before, after any)
		tree = func(depth int) (any, any) {
			kind := rapid.IntRange(0, 3).Draw(t, "kind")
			if depth > 4 {
				kind %= 2
			}
			switch kind {
			case 0:
				n := rapid.SampledFrom(names).Draw(t, "name")
				return map[string]any{"from_parameter": n}, given[n]
			case 1:
				v := rapid.StringMatching(`[a-z]{0,4}`).Draw(t, "leaf")
				return v, v
			case 2:
				a, wantA := tree(depth + 1)
				b, wantB := tree(depth + 1)
				return []any{a, b}, []any{wantA, wantB}
			}
			a, want := tree(depth + 1)
			return map[string]any{"k": a}, map[string]any{"k": want}
		}
		before, want := tree(0)
		got, _ := json.Marshal(substitute(before, values))
		wanted, _ := json.Marshal(want)
		if string(got) != string(wanted) {
			t.Fatalf("got %s, want %s", got, wanted)
		}
	})
}

// TestIsPublic_SpellingsOfJobResults: no spelling that a back-end may read as the URL of a job's results passes for a
// public document.
func TestIsPublic_SpellingsOfJobResults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spell := func(word string) string {
			var b strings.Builder
			for _, c := range word {
				switch rapid.IntRange(0, 5).Draw(t, "spelling") {
				case 0:
					fmt.Fprintf(&b, "%%%02x", c)
				case 1:
					b.WriteString(strings.ToUpper(string(c)))
				case 2:
					fmt.Fprintf(&b, "%%25%02x", c)
				default:
					b.WriteRune(c)
				}
			}
			return b.String()
		}
		slash := rapid.SampledFrom([]string{"/", "//", "/./", "/x/../", ";a=b/", ";/", `\`, "%2f", "%5C", "/%2e/"})
		end := rapid.SampledFrom([]string{"", "/", "//", ";", ";x", ";x=1;y", "?", "?a=b", "#", "#x", "/.", "%09",
			"\t", " ", "%20", "%00", "/x/.."})
		scheme := rapid.SampledFrom([]string{"https://", "HTTPS://", "http://", `https:\\`, "https:///",
			" https://"}).Draw(t, "scheme")
		host := rapid.SampledFrom([]string{"a.example", "A.EXAMPLE.", "a.example:443", "u:p@a.example", "[::1]",
			"127.1", "m\u00fcnchen.example"}).Draw(t, "host")
		raw := scheme + host + slash.Draw(t, "root") + spell("jobs") + slash.Draw(t, "slash") + "j-7" +
			slash.Draw(t, "slash") + spell("results") + end.Draw(t, "end")
		if isPublic(raw) {
			t.Fatalf("%q is taken for a public URL", raw)
		}
	})
}
