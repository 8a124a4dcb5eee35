package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

const askParams = `{"label":"openeo","service":{"endpoint":"https://openeo.example.org","namespace":null,"application":"ndvi"}}`

func TestParameters(t *testing.T) {
	w := newWorld()
	w.parameters = map[string][]dispatch.Parameter{"ndvi": {
		{Name: "extent", Type: dispatch.BoundingBox, Description: "Where", Nullable: true,
			Schema: json.RawMessage(`[{"type":"object"},{"type":"null"}]`)},
		{Name: "cloud", Type: dispatch.Double, Optional: true, Default: json.RawMessage(`0.150`),
			Minimum: new(json.Number("0")), Schema: json.RawMessage(`{"type":"number"}`)},
		{Name: "band", Type: dispatch.String, Options: []json.RawMessage{json.RawMessage(`"VV"`), json.RawMessage(`"VH"`)},
			Schema: json.RawMessage(`{}`)},
	}}
	got := strings.TrimSpace(ask(New(w.config()), "POST", "/params", askParams).Body.String())
	want := `[{"name":"extent","type":"bounding-box","optional":false,"description":"Where","default":null,"options":[],"schema":[{"type":"object"},{"type":"null"}],"nullable":true},` +
		`{"name":"cloud","type":"double","optional":true,"description":"","default":0.150,"options":[],"schema":{"type":"number"},"minimum":0,"nullable":false},` +
		`{"name":"band","type":"string","optional":false,"description":"","default":null,"options":["VV","VH"],"schema":{},"nullable":false}]`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Clients of the deployed service know nine types, and lose the whole list if there is another one.
func TestParameters_OfOwnTypesAreStringsForClientsOfTheDeployedService(t *testing.T) {
	w := newWorld()
	w.parameters = map[string][]dispatch.Parameter{"ndvi": {
		{Name: "o", Type: dispatch.Object}, {Name: "a", Type: dispatch.Array}, {Name: "d", Type: dispatch.Double}}}
	for compat, want := range map[bool]string{false: "object array double", true: "string string double"} {
		c := w.config()
		c.Compat.ObjectAsString = compat
		var types []string
		for _, p := range decode[[]wire.Parameter](t, ask(New(c), "POST", "/params", askParams), 200) {
			types = append(types, p.Type)
		}
		if got := strings.Join(types, " "); got != want {
			t.Errorf("compat %v: %s", compat, got)
		}
	}
}

func TestParameters_RefusesInvalidRequests(t *testing.T) {
	h := New(newWorld().config())
	f := failed(t, ask(h, "POST", "/params", `{"label":"wps","service":{"endpoint":5}}`), 422, "VALIDATION_ERROR")
	want := []string{`["body","label"] enum`, `["body","service","application"] missing`,
		`["body","service","endpoint"] string_type`}
	if d := cmp.Diff(want, locs(f.Detail)); d != "" {
		t.Error(d)
	}
	decode[[]wire.Parameter](t, ask(h, "POST", "/params", askParams), 200)
}

func TestLogs(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.PublicURL = "https://dispatch.example.org/broker"
	h := New(c)
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	for _, m := range []string{"a", "b", "c"} {
		w.logs = append(w.logs, dispatch.LogEntry{Time: moment, Level: "info", Message: m})
	}
	a := ask(h, "GET", "/unit_jobs/1/logs?limit=2", "")
	if got := decode[wire.LogPage](t, a, 200); len(got.Logs) != 2 || got.Logs[1].Message != "b" {
		t.Errorf("%+v", got)
	}
	if link := a.Header().Get(
		"Link"); link != `<https://dispatch.example.org/broker/unit_jobs/1/logs?limit=2&offset=2>; rel="next"` {
		t.Errorf("Link %q", link)
	}
	a = ask(h, "GET", "/unit_jobs/1/logs?limit=2&offset=2", "")
	if got := decode[wire.LogPage](t, a, 200); len(got.Logs) != 1 || a.Header().Get("Link") != "" {
		t.Errorf("%+v, Link %q", got, a.Header().Get("Link"))
	}
	failed(t, ask(h, "GET", "/unit_jobs/1/logs?limit=0&offset=-1", ""), 422, "VALIDATION_ERROR")
	failed(t, ask(h, "GET", "/unit_jobs/2/logs", ""), 404, "JOB_NOT_FOUND")
}
