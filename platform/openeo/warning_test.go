package openeo_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TestCheck_WarnsOfOddSchemas: what is not checked, because its schema is not understood, is named, and nothing else is.
func TestCheck_WarnsOfOddSchemas(t *testing.T) {
	b := newBackend(t)
	b.json("GET /udp.json", 200, `{"id":"u","process_graph":`+oneNode(`"x"`, `{}`)+`,"parameters":[{"name":"whole","schema":{"type":"string"}},
		{"name":"odd","optional":true,"schema":{"type":"string","required":1}},{"name":"tile","optional":true,"schema":{"$ref":"#/nowhere"}}]}`)
	r := dispatch.Request{Service: dispatch.Service{Application: b.URL + "/udp.json"}}
	tile := &dispatch.Dimension{Name: "tile", Values: []json.RawMessage{[]byte(`1`)}}
	for _, row := range []struct {
		parameters, options string
		of                  *dispatch.Dimension
		named               string
	}{
		{`{"whole":"a"}`, "", nil, ""},
		{`{"whole":"a","odd":"b"}`, "", nil, `in full: "odd". `},
		{`{"whole":"a"}`, "", tile, `in full: "tile". `},
		{`{"whole":"a","odd":"b"}`, "", tile, `in full: "odd", "tile". `},
		{`{"whole":"a","odd":"b"}`, `{"validate":false}`, nil, ""},
	} {
		r.Parameters, r.Options = json.RawMessage(row.parameters), json.RawMessage(row.options)
		warning, err := b.platform().Check(t.Context(), dispatch.Token{}, r, row.of)
		if err != nil || (warning == "") != (row.named == "") || !strings.Contains(warning, row.named) {
			t.Errorf("%s %s: warning %q, %v", row.parameters, row.options, warning, err)
		}
	}
}
