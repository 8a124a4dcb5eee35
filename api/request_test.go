package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/api/openapi"
)

func TestRequest_ListsAllFaults(t *testing.T) {
	h := New(newWorld().config())
	for body, want := range map[string][]string{
		``:                      {`["body"] missing`},
		`{`:                     {`["body",1] json_invalid`},
		`{"title":}`:            {`["body",9] json_invalid`},
		`{"title":"a"} x`:       {`["body",14] json_invalid`},
		"{\"title\":\"a\xff\"}": {`["body",11] json_invalid`},
		"{\"title\":\"a\x00\"}": {`["body",11] json_invalid`},
		"{\"title\":\"a\n\"}":   {`["body",11] json_invalid`},
		"\xef\xbb\xbf{}":        {`["body",0] json_invalid`},
		`[1]`:                   {`["body"] model_attributes_type`},
		`null`:                  {`["body"] model_attributes_type`},
		`"x"`:                   {`["body"] model_attributes_type`},
		`7`:                     {`["body"] model_attributes_type`},
		` {} `:                  {`["body","parameters"] missing`, `["body","service"] missing`, `["body","title"] missing`},
		`{"title":1,"label":"OPENEO","format":7,"parameters":[],"service":{"endpoint":null,"namespace":3},"options":"x"}`: {
			`["body","format"] string_type`, `["body","label"] enum`, `["body","options"] model_attributes_type`,
			`["body","parameters"] dict_type`, `["body","service","application"] missing`,
			`["body","service","endpoint"] string_type`, `["body","service","namespace"] string_type`,
			`["body","title"] string_type`},
		`{"title":null,"label":null,"format":null,"parameters":null,"service":null}`: {
			`["body","format"] string_type`, `["body","label"] string_type`, `["body","parameters"] dict_type`,
			`["body","service"] model_attributes_type`, `["body","title"] string_type`},
		`{"Title":"a","LABEL":"openeo","Format":"json","Parameters":{},"sErvice":{}}`: {
			`["body","parameters"] missing`, `["body","service"] missing`, `["body","title"] missing`},
		`{"title":"a","parameters":{},"service":{"endpoint":"https://h.example"}}`: {`["body","label"] missing`,
			`["body","service","application"] missing`},
		strings.Replace(goodBody, `{"title"`, `{"title":"x","title"`, 1):      {`["body","title"] duplicate_member`},
		strings.Replace(goodBody, `{"title"`, `{"titl\u0065":"x","title"`, 1): {`["body","title"] duplicate_member`},
		strings.Replace(goodBody, `"n":`, `"n":[0,{"a":1,"b":2,"a":3}],"n":`,
			1): {`["body","parameters","n",1,"a"] duplicate_member`, `["body","parameters","n"] duplicate_member`},
		strings.Replace(goodBody, `"NDVI"`, `"`+strings.Repeat("ü", 1001)+`"`, 1): {`["body","title"] string_too_long`},
		strings.Replace(goodBody, `"NDVI"`, `"a\u0000b"`, 1):                      {`["body","title"] value_error`},
		strings.Replace(goodBody, `"n":`, `"deep":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)+`,"n":`,
			1): {`["body",0] json_invalid`},
		strings.Replace(goodBody, `"n":`, `"deep":`+strings.Repeat("[", 63)+strings.Repeat("]", 63)+`,"n":`,
			1): {`["body"] json_too_deep`},
	} {
		for _, path := range []string{"/unit_jobs", "/sync_jobs"} {
			r := httptest.NewRequest("POST", path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer token-anna")
			f := failed(t, send(h, r), 422, "VALIDATION_ERROR")
			got := locs(f.Detail)
			if strings.HasPrefix(want[0], `["body",0] json_invalid`) && strings.Contains(body, "[[") {
				got[0] = strings.Replace(got[0], fmt.Sprint(deepest(body)), "0", 1)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%.200q: %s", body, d)
			}
			details, _ := json.Marshal(f.Details["errors"])
			detail, _ := json.Marshal(f.Detail)
			var a, b any
			json.Unmarshal(details, &a)
			json.Unmarshal(detail, &b)
			if d := cmp.Diff(b, a); d != "" {
				t.Errorf("details.errors and detail differ: %s", d)
			}
		}
	}
}

// deepest is the nesting at which encoding/json stops.
func deepest(body string) int {
	var v json.RawMessage
	if e, ok := json.Unmarshal([]byte(body), &v).(*json.SyntaxError); ok {
		return int(e.Offset) - 1
	}
	return -1
}

func TestRequest_BodyHasLimits(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	decode[any](t, ask(h, "POST", "/unit_jobs", strings.Replace(goodBody, `"n":`, `"deep":`+strings.Repeat("[", 62)+
		strings.Repeat("]", 62)+`,"n":`, 1)), 201)
	decode[any](t, ask(h, "POST", "/unit_jobs", strings.Replace(goodBody, `"NDVI"`, `"`+strings.Repeat("ü", 1000)+`"`,
		1)), 201)
	var many strings.Builder
	for i := range 10_001 {
		fmt.Fprintf(&many, `"m%d":0,`, i)
	}
	f := failed(t, ask(h, "POST", "/unit_jobs", strings.Replace(goodBody, `"n":`, many.String()+`"n":`, 1)), 422,
		"VALIDATION_ERROR")
	if d := cmp.Diff([]string{`["body","parameters"] too_many_members`}, locs(f.Detail)); d != "" {
		t.Error(d)
	}
	f = failed(t, ask(h, "POST", "/unit_jobs", `{`+strings.Repeat(`"a":0,`, 5_000)+`"a":0}`), 422, "VALIDATION_ERROR")
	if len(f.Detail) != openapi.MaxFaults+3 {
		t.Errorf("%d faults", len(f.Detail))
	}
}

// endless is a body without a length.
type endless struct{ io.Reader }

func TestRequest_TooLargeBodyIsRefused(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.Limits.Body = 2_000
	h := New(c)
	for _, path := range []string{"/unit_jobs", "/sync_jobs"} {
		for _, length := range []int64{2_001, -1} {
			r := httptest.NewRequest("POST", path,
				endless{strings.NewReader(goodBody + strings.Repeat(" ", 2_001-len(goodBody)))})
			r.ContentLength = length
			r.Header.Set("Authorization", "Bearer token-anna")
			failed(t, send(h, r), 413, "PAYLOAD_TOO_LARGE")
		}
	}
	untouched := endless{iotest.ErrReader(errors.New("was read, though too long"))}
	said := httptest.NewRequest("POST", "/unit_jobs", untouched)
	said.ContentLength = 2_001
	said.Header.Set("Authorization", "Bearer token-anna")
	failed(t, send(h, said), 413, "PAYLOAD_TOO_LARGE")
	r := httptest.NewRequest("POST", "/unit_jobs",
		endless{strings.NewReader(goodBody + strings.Repeat(" ", 2_000-len(goodBody)))})
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer token-anna")
	decode[any](t, send(h, r), 201)
	if len(w.jobs) != 1 {
		t.Errorf("%d jobs", len(w.jobs))
	}
}

func TestRequest_MediaTypes(t *testing.T) {
	h := New(newWorld().config())
	for kind, good := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "Application/JSON;charset=UTF-8": true,
		"":                     true,
		"application/geo+json": true, "text/plain": false, "application/x-www-form-urlencoded": false,
		"text/json":                        false,
		"application/json; charset=latin1": false, "multipart/form-data; boundary=x": false, "nonsense/": false,
		"application/xml": false,
	} {
		a := ask(h, "POST", "/unit_jobs", goodBody, "Content-Type", kind)
		if good {
			decode[any](t, a, 201)
		} else {
			failed(t, a, 415, "UNSUPPORTED_MEDIA_TYPE")
		}
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, goodBody)
	z.Close()
	for _, coding := range []string{"gzip", "br", "deflate", "identity, gzip"} {
		a := ask(h, "POST", "/unit_jobs", packed.String(), "Content-Encoding", coding)
		failed(t, a, 415, "UNSUPPORTED_MEDIA_TYPE")
	}
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody, "Content-Encoding", "identity"), 201)
}

func TestRequest_IdempotencyKey(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	longest := strings.Repeat("k", 255)
	for _, key := range []string{"a", "a b-c~", longest} {
		decode[any](t, ask(h, "POST", "/unit_jobs", goodBody, "Idempotency-Key", key), 201)
	}
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody+" ", "Idempotency-Key", "a"), 201)
	if w.keys[0].Text != "a" || w.keys[2].Text != longest || len(w.keys[0].Fingerprint) != 64 {
		t.Errorf("keys %v", w.keys)
	}
	if sum := sha256.Sum256([]byte("POST /unit_jobs\n" + goodBody)); w.keys[0].Fingerprint != hex.EncodeToString(
		sum[:]) {
		t.Errorf("fingerprint %s", w.keys[0].Fingerprint)
	}
	if w.keys[0].Fingerprint != w.keys[1].Fingerprint || w.keys[0].Fingerprint == w.keys[3].Fingerprint {
		t.Errorf("fingerprints %v", w.keys)
	}
	for _, key := range []string{longest + "k", "a\tb", "schlüssel"} {
		f := failed(t, ask(h, "POST", "/unit_jobs", `{}`, "Idempotency-Key", key), 422, "VALIDATION_ERROR")
		if got := locs(f.Detail); len(got) != 4 || got[3] != `["header","Idempotency-Key"] value_error` {
			t.Errorf("%q: %v", key, got)
		}
	}
	r := httptest.NewRequest("POST", "/unit_jobs", strings.NewReader(goodBody))
	r.Header = http.Header{"Authorization": {"Bearer token-anna"}, "Idempotency-Key": {"a", "b"}}
	failed(t, send(h, r), 422, "VALIDATION_ERROR")
	decode[any](t, ask(h, "GET", "/jobs_status", "", "Idempotency-Key", strings.Repeat("x", 999)), 200)
}

// The document's schema accepts what parse accepts, and the reverse. Only that label is required with an endpoint is
// left to the description: as a schema of two alternatives, it would give generated clients two types of request.
func TestRequest_AgreesWithItsSchema(t *testing.T) {
	h := New(newWorld().config())
	schema := schemaOf(t, h, "BaseJobRequest")
	broken := []any{nil, "", "x", "openeo", "gtiff", 1, true, []any{}, map[string]any{}, map[string]any{"a": 1}}
	rapid.Check(t, func(rt *rapid.T) {
		var body map[string]any
		if err := json.Unmarshal([]byte(goodBody), &body); err != nil {
			rt.Fatal(err)
		}
		body["options"] = map[string]any{}
		for range rapid.IntRange(0, 3).Draw(rt, "changes") {
			at := body
			if s, ok := body["service"].(map[string]any); ok && rapid.Bool().Draw(rt, "inside") {
				at = s
			}
			name := rapid.SampledFrom([]string{"title", "label", "format", "service", "parameters", "options",
				"endpoint", "namespace", "application", "more"}).Draw(rt, "name")
			if rapid.Bool().Draw(rt, "drop") {
				delete(at, name)
			} else {
				at[name] = rapid.SampledFrom(broken).Draw(rt, "value")
			}
		}
		text, _ := json.Marshal(body)
		a := ask(h, "POST", "/unit_jobs", string(text))
		var plain any
		json.Unmarshal(text, &plain)
		if _, has := body["label"]; !has && a.Code == 422 {
			return
		}
		if valid := schema.Validate(plain); (valid == nil) != (a.Code == 201) {
			rt.Errorf("%s: answered %d %s, schema says %v", text, a.Code, a.Body, valid)
		}
	})
}

// FuzzParse checks what holds for any body: no panic, faults or a request, and parameters byte for byte.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{goodBody, `{}`, `{"a":{"a":[1,{"b":"\"\\"}]}}`, `[[[`, `{"a":1,"a":2}`, "\"\\u0000\"",
		` { "title" : "x" } `, `{"\ud800":1,"\ud800":2}`} {
		f.Add([]byte(seed))
	}
	a := New(newWorld().config()).(*api)
	f.Fuzz(func(t *testing.T, body []byte) {
		r, faults := a.parse(t.Context(), body)
		if !json.Valid(body) && len(faults) != 1 {
			t.Fatalf("not JSON, %d faults", len(faults))
		}
		for _, fault := range faults {
			if len(fault.Loc) == 0 || fault.Loc[0] != "body" || fault.Msg == "" || fault.Type == "" {
				t.Fatalf("fault %+v", fault)
			}
		}
		if len(faults) == 0 && !bytes.Contains(body, r.Parameters) {
			t.Fatalf("parameters %s", r.Parameters)
		}
	})
}

// FuzzInspect compares with a slower and simpler reader of tokens.
func FuzzInspect(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `[[{"a":{"b":[]}}]]`, ` [ 1 , "\\\"" , { } ] `, `{"\u0061":0,"a":0}`,
		`0`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if openapi.Malformed(text) != nil {
			return
		}
		faults, whole := openapi.Inspect(text, 5, 1_000)
		twice, deep := simply(text, 5)
		if deep == whole {
			t.Fatalf("%s: whole %v, too deep %v", text, whole, deep)
		}
		if whole && len(faults) != min(twice, openapi.MaxFaults) {
			t.Fatalf("%s: %v, want %d", text, faults, twice)
		}
	})
}

// simply counts duplicate members, and reports whether values are nested deeper than depth.
func simply(text []byte, depth int) (twice int, deep bool) {
	type level struct {
		seen map[string]bool // nil: an array
		name bool            // a name comes next
	}
	var levels []level
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return twice, deep
		}
		top := len(levels) - 1
		if name, ok := token.(string); ok && top >= 0 && levels[top].name {
			if levels[top].seen[name] {
				twice++
			}
			levels[top].seen[name], levels[top].name = true, false
			continue
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{map[string]bool{}, true})
		case json.Delim('['):
			levels = append(levels, level{})
		case json.Delim('}'), json.Delim(']'):
			levels, top = levels[:top], top-1
		}
		if token != json.Delim('{') && token != json.Delim('[') && top >= 0 && levels[top].seen != nil {
			levels[top].name = true
		}
		deep = deep || len(levels) > depth
	}
}

func TestInspect_IsLinear(t *testing.T) {
	big := []byte(`{"a":[` + strings.Repeat(`{"x":[1,2,3],"y":"`+strings.Repeat("z", 50)+`"},`, 100_000) + `0]}`)
	if faults, whole := openapi.Inspect(big, 64, 10_000); len(faults) > 0 || !whole {
		t.Errorf("faults %v", faults)
	}
	var keys strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&keys, `"%d":%d,`, rand.Uint64(), i)
	}
	if faults, whole := openapi.Inspect([]byte("{"+keys.String()+`"":0}`), 64, 10_001); !whole {
		t.Errorf("faults %v", faults)
	}
}
