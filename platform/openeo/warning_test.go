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

// A task with a format that the back-end does not offer is refused before anything of it is stored. A process that saves its results itself is asked for none.
func TestCheck_FormatOfATask(t *testing.T) {
	const saves = `{"save":{"process_id":"save_result","arguments":{"data":1,"format":"PNG"},"result":true}}`
	task := &dispatch.Dimension{Name: "tile", Values: []json.RawMessage{[]byte(`1`)}}
	for name, c := range map[string]struct {
		graph, formats, format string
		status                 int
		of                     *dispatch.Dimension
		refused                bool
	}{
		"offered":         {oneNode(`"x"`, `{}`), `{"output":{"GTiff":{}}}`, "gtiff", 200, task, false},
		"not offered":     {oneNode(`"x"`, `{}`), `{"output":{"GTiff":{}}}`, "netcdf", 200, task, true},
		"of a job":        {oneNode(`"x"`, `{}`), `{"output":{"GTiff":{}}}`, "netcdf", 200, nil, false},
		"saves itself":    {saves, `{"output":{"GTiff":{}}}`, "netcdf", 200, task, false},
		"not told":        {oneNode(`"x"`, `{}`), `{}`, "netcdf", 404, task, false},
		"out of order":    {oneNode(`"x"`, `{}`), `{}`, "netcdf", 500, task, false},
		"none asked for":  {oneNode(`"x"`, `{}`), `{"output":{"GTiff":{}}}`, "", 200, task, false},
		"none is offered": {oneNode(`"x"`, `{}`), `{"output":{}}`, "netcdf", 200, task, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.json("GET /file_formats", c.status, c.formats)
			b.json("GET /udp.json", 200, `{"id":"u","process_graph":`+c.graph+`,"parameters":[{"name":"tile","schema":{"type":"integer"},"optional":true}]}`)
			r := dispatch.Request{Service: dispatch.Service{Application: b.URL + "/udp.json"}, Parameters: json.RawMessage(`{}`), Format: c.format}
			_, err := b.platform().Check(t.Context(), dispatch.Token{}, r, c.of)
			if refused := dispatch.Is(err, dispatch.Invalid) && strings.Contains(err.Error(), "It supports: GTiff"); refused != c.refused || !refused && err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}
