package openeo_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TestCheck_WarnsOfOddSchemas: what is not checked, because its schema is not understood, is named, and nothing else
// is.
func TestCheck_WarnsOfOddSchemas(t *testing.T) {
	b := newBackend(t)
	b.json("GET /udp.json", 200, `{"id":"u","process_graph":`+oneNode(`"x"`, `{}`)+
		`,"parameters":[{"name":"whole","schema":{"type":"string"}},
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

// openEO leaves the end of a time span out. Some back-ends take a span that ends when it begins for a day, others find
// it empty, so that it is accepted with a warning.
func TestCheck_WarnsOfEmptySpans(t *testing.T) {
	b := newBackend(t)
	b.json("GET /udp.json", 200, `{"id":"u","process_graph":`+oneNode(`"x"`, `{}`)+`,"parameters":[
		{"name":"when","optional":true,"schema":{"type":"array","subtype":"temporal-interval"}},
		{"name":"names","optional":true,"schema":{"type":"array"}}]}`)
	const day, later = `["2024-06-01","2024-06-01"]`, `["2024-06-01","2024-06-02"]`
	r := dispatch.Request{Service: dispatch.Service{Application: b.URL + "/udp.json"}}
	task := &dispatch.Dimension{Name: "when", Values: []json.RawMessage{[]byte(later), []byte(day)}}
	for _, row := range []struct {
		parameters string
		of         *dispatch.Dimension
		warned     bool
	}{
		{`{"when":` + day + `}`, nil, true},
		{`{"when":["2024-06-01T00:00:00Z","2024-06-01"]}`, nil, true},
		{`{"when":` + later + `}`, nil, false},
		{`{"when":["2024-06-01",null]}`, nil, false},
		{`{"names":` + day + `}`, nil, false},
		{`{}`, nil, false},
		{`{}`, task, true},
	} {
		r.Parameters = json.RawMessage(row.parameters)
		warning, err := b.platform().Check(t.Context(), dispatch.Token{}, r, row.of)
		if err != nil || strings.Contains(warning, `ends when it begins: "when".`) != row.warned ||
			!row.warned && warning != "" {
			t.Errorf("%s: warning %q, %v", row.parameters, warning, err)
		}
	}
}

// A process that saves its results itself decides about their format, which is the only one that it offers. A request
// for another is warned.
func TestCheck_FormatOfAProcessThatSaves(t *testing.T) {
	b := newBackend(t)
	s := b.submission().Request
	s.Parameters = json.RawMessage(`{}`)
	for format, want := range map[string]string{`"PNG"`: "itself, as PNG, so", `"GTIFF"`: "",
		`{"from_parameter":"f"}`: "itself, so"} {
		b.json("GET /udp.json", 200,
			`{"id":"u","process_graph":{"save":{"process_id":"save_result","arguments":{"data":1,"format":`+format+
				`},"result":true}}}`)
		p := b.platform()
		warning, err := p.Check(t.Context(), dispatch.Token{}, s, nil)
		if err != nil || (warning == "") != (want == "") || !strings.Contains(warning, want) {
			t.Errorf("%s: %q, %v", format, warning, err)
		}
		formats, err := p.Formats(t.Context(), dispatch.Token{}, s.Service)
		if err != nil || format == `"PNG"` && (len(formats) != 1 || formats[0].Name != "PNG") || format == `"GTIFF"` &&
			(len(formats) != 1 || formats[0].Name != "GTiff") || strings.HasPrefix(format, "{") && len(formats) != 4 {
			t.Errorf("%s: formats %v, %v", format, formats, err)
		}
	}
}

// A request that names no format is saved in the usual one of those that the back-end offers.
func TestSubmit_WithoutAFormat(t *testing.T) {
	for offered, want := range map[string]string{`{"CSV":{},"GeoTiff":{},"netCDF":{}}`: "GeoTiff",
		`{"CSV":{},"netCDF":{}}`: "netCDF", `{"Zarr":{},"CSV":{}}`: "CSV", `{}`: "GTiff"} {
		b := newBackend(t)
		b.json("GET /file_formats", 200, `{"output":`+offered+`}`)
		b.json("GET /udp.json", 200, `{"id":"u","process_graph":`+oneNode(`"x"`, `{}`)+`}`)
		s := b.submission()
		s.Format = ""
		if _, err := b.platform().Submit(t.Context(), token, s); err != nil ||
			!strings.Contains(b.body("POST /jobs"), `"format":"`+want+`"`) {
			t.Errorf("%s: %v: %s", offered, err, b.body("POST /jobs"))
		}
	}
}

// A job or a task with a format that the back-end does not offer is refused before anything of it is stored, and the
// fault is in its format. A process that saves its results itself is asked for none.
func TestCheck_FormatThatIsNotOffered(t *testing.T) {
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
		"of a job":        {oneNode(`"x"`, `{}`), `{"output":{"GTiff":{}}}`, "netcdf", 200, nil, true},
		"saves itself":    {saves, `{"output":{"GTiff":{}}}`, "netcdf", 200, task, false},
		"no description":  {oneNode(`"x"`, `{}`), `{}`, "netcdf", 404, task, false},
		"out of order":    {oneNode(`"x"`, `{}`), `{}`, "netcdf", 500, task, false},
		"none asked for":  {oneNode(`"x"`, `{}`), `{"output":{"GTiff":{}}}`, "", 200, task, false},
		"none is offered": {oneNode(`"x"`, `{}`), `{"output":{}}`, "netcdf", 200, task, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.json("GET /file_formats", c.status, c.formats)
			b.json("GET /udp.json", 200, `{"id":"u","process_graph":`+c.graph+
				`,"parameters":[{"name":"tile","schema":{"type":"integer"},"optional":true}]}`)
			r := dispatch.Request{Service: dispatch.Service{Application: b.URL + "/udp.json"},
				Parameters: json.RawMessage(`{}`),
				Format:     c.format}
			_, err := b.platform().Check(t.Context(), dispatch.Token{}, r, c.of)
			e, _ := errors.AsType[*dispatch.Error](err)
			if refused := e != nil && e.Kind == dispatch.Invalid && strings.Contains(e.Text, "It supports: GTiff") &&
				slices.Equal(e.Faults[0].Loc, []any{"body", "format"}); refused != c.refused || !refused && err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}
