package ogcapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TestCheck_WarnsOfOddSchemas: what is not checked, because its schema is not understood, is named, and nothing else
// is. An input that may occur several times is warned of where its references do not hold in the schema of the array.
func TestCheck_WarnsOfOddSchemas(t *testing.T) {
	s := serve(t, map[string][]reply{"GET /processes/p": {ok(
		`{"id":"p","version":"1","jobControlOptions":["async-execute"],"inputs":{
		"whole":{"schema":{"type":"string"}},
		"odd":{"minOccurs":0,"schema":{"type":"string","required":1}},
		"many":{"minOccurs":0,"maxOccurs":3,"schema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"$ref":"#/properties/a"}}}}}}`)}})
	p := s.platform()
	service := dispatch.Service{Endpoint: s.URL, Application: "p"}
	for _, row := range []struct{ parameters, options, named string }{
		{`{"whole":"a"}`, "", ""},
		{`{"whole":"a","odd":"b"}`, "", `in full: "odd". `},
		{`{"whole":"a","many":{"b":1},"odd":"b"}`, "", `in full: "odd", "many". `},
		{`{"whole":"a","odd":"b"}`, `{"validate":false}`, ""},
	} {
		r := dispatch.Request{Service: service, Parameters: json.RawMessage(row.parameters),
			Options: json.RawMessage(row.options)}
		warning, err := p.Check(t.Context(), token, r, nil)
		if err != nil || (warning == "") != (row.named == "") || !strings.Contains(warning, row.named) {
			t.Errorf("%s %s: warning %q, %v", row.parameters, row.options, warning, err)
		}
	}
	all, err := p.Parameters(t.Context(), token, service)
	if err != nil || all[0].Warning != "" || all[1].Warning == "" || all[2].Warning == "" {
		t.Errorf("described as %+v, %v", all, err)
	}
}
