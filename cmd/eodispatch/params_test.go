package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// shapes lists the forms of parameter schemas in the field, and what a form builder receives for each: type, options,
// default, bounds, and whether null is a value. Only openEO has arrays of schemas.
var shapes = []struct{ name, schema, want string }{
	{"number", `{"type":"number"}`, `double [] null`},
	{"bounded", `{"type":"number","minimum":0.10,"maximum":100,"default":80.50}`, `double [] 80.50 0.10..100`},
	{"box",
		`{"type":"object","subtype":"bounding-box","required":["west","south","east","north"],"properties":{"west":{"type":"number"},"south":{"type":"number"},"east":{"type":"number"},"north":{"type":"number"},"base":{"type":["number","null"],"default":null},"crs":{"anyOf":[{"type":"integer","subtype":"epsg-code","minimum":1000},{"type":"string","subtype":"wkt2-definition"}],"default":4326}}}`, `bounding-box [] null`},
	{"interval",
		`{"type":"array","subtype":"temporal-interval","minItems":2,"maxItems":2,"items":{"anyOf":[{"type":"string","format":"date-time","subtype":"date-time"},{"type":"string","format":"date","subtype":"date"},{"type":"null"}]}}`, `date-interval [] null`},
	{"closed",
		`{"type":"array","subtype":"temporal-interval","items":{"anyOf":[{"type":"string","format":"date-time"},{"type":"string","format":"date"}]},"default":["2026-01-01","2026-02-01"]}`, `date-interval [] ["2026-01-01","2026-02-01"]`},
	{"plain_interval", `{"type":"array","subtype":"temporal-interval"}`, `date-interval [] null`},
	{"integer", `{"type":"integer","default":12345678901234567890}`, `integer [] 12345678901234567890`},
	{"choice", `{"type":"string","enum":["VV","VH"],"default":"VV"}`, `string ["VV" "VH"] "VV"`},
	{"box_cube_null",
		`[{"type":"object","subtype":"bounding-box"},{"type":"object","subtype":"datacube","dimensions":[{"type":"geometry"}]},{"type":"null"}]`, `bounding-box [] null nullable`},
	{"geojson", `{"type":"object","subtype":"geojson"}`, `polygon [] null`},
	{"text", `{"type":"string"}`, `string [] null`},
	{"flag", `{"type":"boolean","default":false}`, `boolean [] false`},
	{"date", `{"type":"string","subtype":"date","format":"date"}`, `datetime [] null`},
	{"date_by_format", `{"type":"string","format":"date"}`, `datetime [] null`},
	{"moment", `{"type":"string","format":"date-time"}`, `datetime [] null`},
	{"bands", `{"type":"array","items":{"type":"string","enum":["B02","B03"]},"default":["B02"]}`,
		`array-string ["B02" "B03"] ["B02"]`},
	{"box_null", `[{"type":"object","subtype":"bounding-box"},{"type":"null"}]`, `bounding-box [] null nullable`},
	{"names_null", `[{"type":"array","items":{"type":"string","subtype":"band-name"}},{"type":"null"}]`,
		`array-string [] null nullable`},
	{"names", `{"type":"array","items":{"type":"string"}}`, `array-string [] null`},
	{"pairs", `{"type":"array","items":{"type":"array","items":{"type":"string"}}}`, `array [] null`},
	{"windows", `{"type":"object"}`, `object [] null`},
	{"whole_of", `{"type":"integer","allOf":[{"minimum":3}]}`, `integer [] null 3..`},
	{"months", `{"type":"array","items":{"type":"integer"},"default":[1,2]}`, `array [] [1,2]`},
	{"several_types", `{"type":["number","null"],"default":null}`, `double [] null nullable`},
	{"any_of", `{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}`, `array-string [] null`},
	{"one_of", `{"oneOf":[{"type":"integer","minimum":1},{"type":"null"}],"default":7}`, `integer [] 7 1.. nullable`},
	{"nullable", `{"type":"number","nullable":true,"default":1.50}`, `double [] 1.50 nullable`},
	{"ogc_box", `{"allOf":[{"format":"ogc-bbox"},{"$ref":"../../openapi/schemas/bbox.yaml"}]}`, `bounding-box [] null`},
	{"ogc_box_by_members",
		`{"type":"object","required":["bbox"],"properties":{"bbox":{"type":"array"},"crs":{"type":"string"}}}`,
		`bounding-box [] null`},
	{"feature",
		`{"oneOf":[{"type":"string","contentMediaType":"application/gml+xml"},{"allOf":[{"format":"geojson-geometry"},{"$ref":"../../openapi/schemas/geometryGeoJSON.yaml"}]}]}`, `polygon [] null`},
	{"file", `{"type":"string","contentEncoding":"binary","contentMediaType":"image/tiff; application=geotiff"}`,
		`string [] null`},
	{"by_reference", `{"$ref":"#/definitions/d","definitions":{"d":{"type":"boolean","default":true}}}`,
		`boolean [] true`},
	{"anything", `{}`, `object [] null`},
	{"no_schema", `null`, `object [] null`},
}

// services serves the shapes as an openEO process at a URL, whose back-end is down, and as an OGC process that runs.
func services(t *testing.T) *httptest.Server {
	var parameters, inputs []string
	for _, s := range shapes {
		parameters = append(parameters, fmt.Sprintf(`{"name":%q,"description":"d","optional":true,"schema":%s}`, s.name,
			s.schema))
		if s.schema[0] != '[' {
			inputs = append(inputs, fmt.Sprintf(`%q:{"description":"d","minOccurs":0,"schema":%s}`, s.name, s.schema))
		}
	}
	mux := http.NewServeMux()
	answer := func(pattern string, status int, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	answer("GET /shapes.json", 200,
		`{"id":"shapes","process_graph":{"a":{"process_id":"x","arguments":{},"result":true}},"parameters":[`+
			strings.Join(parameters, ",")+`]}`)
	answer("GET /ogc/processes/shapes", 200,
		`{"id":"shapes","version":"1","jobControlOptions":["async-execute"],"inputs":{`+strings.Join(inputs, ",")+
			`},"outputs":{}}`)
	var ran atomic.Int64
	mux.HandleFunc("POST /ogc/processes/shapes/execution", func(w http.ResponseWriter, r *http.Request) {
		id := ran.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", fmt.Sprintf("http://%s/ogc/jobs/%d", r.Host, id))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"jobID":"%d","status":"accepted","type":"process"}`, id)
	})
	mux.HandleFunc("GET /ogc/jobs/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jobID":%q,"status":"running","type":"process"}`, r.PathValue("id"))
	})
	answer("/", 503, `{}`)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// anybody verifies every token as the same user, and has no token for platforms.
type anybody struct{}

func (anybody) Verify(context.Context, dispatch.Secret) (identity.Caller, error) {
	return identity.Caller{User: "https://idp.example ann"}, nil
}
func (anybody) Token(context.Context, dispatch.Account) (dispatch.Token, error) {
	return dispatch.Token{}, nil
}
func (anybody) Invalidate(dispatch.Account, dispatch.Token) {}

// brokerOf returns the API over a real broker, engine, store and adapters.
func brokerOf(t *testing.T, s *httptest.Server) http.Handler {
	limits := config.PlatformLimits{Jobs: 4, Requests: 2, Send: 5 * time.Second, MinPoll: time.Second}
	backends := platforms(&config.Config{Development: true, Platforms: []config.Platform{
		{Name: "openeo", Protocol: config.OpenEO, Endpoint: s.URL, Access: dispatch.AccessOpen, Limits: limits},
		{Name: "ogc", Protocol: config.OGCProcess, Endpoint: s.URL + "/ogc", Access: dispatch.AccessOpen,
			Limits: limits},
	}}, nil)
	kept, err := store.Open(t.Context(), "sqlite:"+t.TempDir()+"/jobs.db", wallClock{})
	if err != nil {
		t.Fatal(err)
	}
	b := conformance.NewBroker(kept, anybody{}, backends...)
	stop := conformance.RunBroker(b)
	t.Cleanup(func() { stop(); kept.Close() })
	return api.New(api.Config{Broker: b, Verifier: anybody{}, Health: kept.Ping, Log: b.Log})
}

func post(t *testing.T, h http.Handler, path, body string, status int, into any) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer x")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != status {
		t.Fatalf("POST %s answered %d: %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatal(err)
	}
}

// protocols lists the labels, with the service that has the shapes.
func protocols(s *httptest.Server) map[dispatch.Label]string {
	return map[dispatch.Label]string{
		dispatch.OpenEO: `"label":"openeo","service":{"endpoint":"` + s.URL + `","namespace":null,"application":"` +
			s.URL + `/shapes.json"}`,
		dispatch.OGCProcess: `"label":"ogc_api_process","service":{"endpoint":"` + s.URL +
			`/ogc/processes/shapes","application":"shapes"}`,
	}
}

type described struct {
	Name, Type, Description string
	Optional, Nullable      bool
	Default, Schema         json.RawMessage
	Options                 []json.RawMessage
	Minimum, Maximum        *json.Number
}

func (d described) String() string {
	text := fmt.Sprintf("%s %s %s", d.Type, d.Options, d.Default)
	if d.Minimum != nil || d.Maximum != nil {
		text += " "
		for i, bound := range []*json.Number{d.Minimum, d.Maximum} {
			if i == 1 {
				text += ".."
			}
			if bound != nil {
				text += bound.String()
			}
		}
	}
	if d.Nullable {
		text += " nullable"
	}
	return text
}

// TestParams_EverySchemaFormIsDescribed requests the parameters over HTTP, in both protocols.
func TestParams_EverySchemaFormIsDescribed(t *testing.T) {
	s := services(t)
	h := brokerOf(t, s)
	for label, service := range protocols(s) {
		var got []described
		post(t, h, "/params", "{"+service+"}", 200, &got)
		i := 0
		for _, want := range shapes {
			if want.schema[0] == '[' && label == dispatch.OGCProcess {
				continue
			}
			if i == len(got) {
				t.Fatalf("%s: %d are described", label, len(got))
			}
			d := got[i]
			i++
			if d.Name != want.name || d.String() != want.want || !d.Optional || d.Description != "d" ||
				!bytes.Equal(d.Schema, []byte(want.schema)) {
				t.Errorf("%s: %s is %q (%+v), want %q", label, want.name, d, d, want.want)
			}
		}
		if i != len(got) {
			t.Errorf("%s: %d are described, not %d", label, len(got), i)
		}
	}
}

// TestParams_WrongValuesAreRefused: jobs and tasks are refused with all their faults, unless the client disabled the
// check.
func TestParams_WrongValuesAreRefused(t *testing.T) {
	s := services(t)
	h := brokerOf(t, s)
	const parameters = `"parameters":{"number":"x","bounded":100.5,"choice":"HH","flag":null,"nothing":1,"geojson":{"west":1,"south":2,"east":3,"north":4}}`
	want := []string{"[body parameters bounded]", "[body parameters choice]", "[body parameters flag]",
		"[body parameters nothing]", "[body parameters number]"}
	for label, service := range protocols(s) {
		for path, dimension := range map[string]string{"/unit_jobs": "", "/sync_jobs": "",
			"/upscale_tasks": `,"dimension":{"name":"box","values":[{"west":1,"south":2,"east":3,"north":4},7,{"type":"Point","coordinates":[1,2]},"x"]}`} {
			body := `{"title":"t","format":"json",` + service + `,` + parameters + dimension + `%s}`
			var refused struct{ Detail []struct{ Loc []any } }
			post(t, h, path, fmt.Sprintf(body, ""), 422, &refused)
			var got []string
			for _, d := range refused.Detail {
				got = append(got, fmt.Sprint(d.Loc))
			}
			all := want
			if dimension != "" {
				all = append(slices.Clone(want), "[body dimension values 1]", "[body dimension values 3]")
			}
			slices.Sort(got)
			slices.Sort(all)
			if !slices.Equal(slices.Compact(got), all) {
				t.Errorf("%s %s: faults at %v", label, path, got)
			}
			if path == "/sync_jobs" {
				continue
			}
			var kept struct{ Status, Failure string }
			post(t, h, path, fmt.Sprintf(body, `,"options":{"validate":false}`), 201, &kept)
			if kept.Status == "" || kept.Status == "failed" {
				t.Errorf("%s %s unchecked is %q: %s", label, path, kept.Status, kept.Failure)
			}
		}
	}
}
