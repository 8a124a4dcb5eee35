package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// shelf is a catalogue of a list of services.
type shelf []catalogue.Service

func (s shelf) Find(id string) (catalogue.Service, bool) {
	for _, one := range s {
		if one.ID == id {
			return one, true
		}
	}
	return catalogue.Service{}, false
}

func (s shelf) Search(q catalogue.Query) (catalogue.Page, bool) {
	if q.After == "forged" {
		return catalogue.Page{}, false
	}
	page := catalogue.Page{Total: len(s), Services: s[:min(len(s), q.Limit)],
		Platforms: []catalogue.Count{{Name: "cdse", Services: len(s)}}, Keywords: []catalogue.Count{{Name: q.Words +
			strings.Join(q.Keywords, "") + strings.Join(q.Platforms, ""), Services: 1}}}
	if len(s) > q.Limit {
		page.Next = "more"
	}
	return page, true
}

var shelved = shelf{
	{ID: "ndvi composite", Title: "NDVI", Summary: "Greenness.", Description: "*Greenness*.",
		HTML: "<p><em>Greenness</em>.</p>", Keywords: []string{"ndvi"},
		Provider: catalogue.Provider{Name: "P", URL: "https://p.example.org"}, Licence: "MIT",
		Thumbnail: "https://p.example.org/t.png", Formats: []string{"PNG"},
		Links:   []catalogue.Link{{Rel: "code", Href: "https://p.example.org/c", Title: "C", Type: "text/html"}},
		Cost:    catalogue.Cost{Estimate: new(1.5), Unit: "credits"},
		Example: json.RawMessage(`{"a":1}`), Updated: moment, StaleSince: moment.Add(time.Hour),
		Label: dispatch.OpenEO, Platform: "cdse", Service: dispatch.Service{Endpoint: "https://openeo.example.org",
			Application: "https://apps.example.org/ndvi.json"}},
	{ID: "fire", Title: "Fire", Label: dispatch.OGCProcess, Platform: "ogc",
		Service: dispatch.Service{Endpoint: "https://ogc.example.org", Namespace: new("ns"), Application: "fire"}},
}

func withCatalogue(w *world) Config {
	c := w.config()
	c.Services = shelved
	return c
}

func TestServices_List(t *testing.T) {
	h := New(withCatalogue(newWorld()))
	got := ask(h, "GET", "/services?q=Wasser+%C3%BC&platform=a&platform=b&keyword=k&limit=1", "")
	want :=
		`{"services":[{"id":"ndvi composite","title":"NDVI","summary":"Greenness.","keywords":["ndvi"],"platform":"cdse","platform_state":"sign_in_required","label":"openeo","protocol":"openeo",` +
			`"provider":{"name":"P","url":"https://p.example.org"},"licence":"MIT","thumbnail":"https://p.example.org/t.png","updated":"2026-05-01T10:30:00Z","stale_since":"2026-05-01T11:30:00Z"}],` +
			`"next":"more","total":2,"platforms":[{"id":"cdse","title":"cdse","services":2}],"keywords":[{"keyword":"Wasser ükab","services":1}]}`
	if d := cmp.Diff(want, strings.TrimSpace(got.Body.String())); d != "" || got.Code != 200 {
		t.Error(got.Code, d)
	}
	list := decode[wire.ServiceList](t, ask(h, "GET", "/services", ""), 200)
	if len(list.Services) != 2 || list.Next != "" || list.Services[1].Protocol != "ogcapi" ||
		list.Services[1].Label != "ogc_api_process" || list.Services[1].PlatformState != "unknown" ||
		list.Services[1].Provider != nil {
		t.Errorf("%+v", list)
	}
	empty := ask(New(newWorld().config()), "GET", "/services", "").Body.String()
	if strings.TrimSpace(empty) != `{"services":[],"total":0,"platforms":[],"keywords":[]}` {
		t.Errorf("empty: %s", empty)
	}
	f := failed(t, ask(h, "GET", "/services?limit=0&q="+strings.Repeat("x", 301)+"&platform="+
		strings.Repeat("&platform=", 50), ""), 422, "VALIDATION_ERROR")
	if d := cmp.Diff([]string{`["query","q"] string_too_long`, `["query","platform"] too_long`,
		`["query","limit"] greater_than_equal`}, locs(f.Detail)); d != "" {
		t.Error(d)
	}
	failed(t, ask(h, "GET", "/services?cursor=forged", ""), 422, "VALIDATION_ERROR")
}

func TestServices_One(t *testing.T) {
	w := newWorld()
	w.parameters = map[string][]dispatch.Parameter{"https://apps.example.org/ndvi.json": {{Name: "cloud",
		Type: dispatch.Double, Schema: json.RawMessage(`{"type":"number"}`)}}}
	w.formats = []dispatch.OutputFormat{{Name: "GTiff", GISDataTypes: []string{"raster"}},
		{Name: "CSV", Title: "Table"}}
	h := New(withCatalogue(w))
	path := "/services/" + url.PathEscape("ndvi composite")
	got := decode[map[string]json.RawMessage](t, ask(h, "GET", path, ""), 200)
	for name, want := range map[string]string{
		"description": `"*Greenness*."`, "cost": `{"estimate":1.5,"unit":"credits","note":null}`, "example": `{"a":1}`,
		"links":    `[{"rel":"code","href":"https://p.example.org/c","title":"C","type":"text/html"}]`,
		"endpoint": `"https://openeo.example.org"`, "application": `"https://apps.example.org/ndvi.json"`,
		"namespace": `null`, "parameters_error": `null`,
		"formats": `[{"name":"GTiff","title":"GTiff","gis_data_types":["raster"]},{"name":"CSV","title":"Table","gis_data_types":[]}]`,
	} {
		if string(got[name]) != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	var shown string
	if err := json.Unmarshal(got["description_html"], &shown); err != nil || shown != shelved[0].HTML {
		t.Errorf("%s %v", shown, err)
	}
	same := ask(h, "POST", "/params", `{"label":"openeo","service":{"id":"ndvi composite"}}`)
	if d := cmp.Diff(string(got["parameters"]), strings.TrimSpace(same.Body.String())); d != "" || same.Code != 200 {
		t.Error(same.Code, d)
	}
	fire := decode[wire.CatalogueService](t, ask(h, "GET", "/services/fire", ""), 200)
	if fire.Example != nil || fire.Namespace == nil || *fire.Namespace != "ns" || fire.Links == nil {
		t.Errorf("%+v", fire)
	}
	failed(t, ask(h, "GET", "/services/none", ""), 404, "SERVICE_NOT_FOUND")
	failed(t, ask(h, "GET", "/services/..%2Fplatforms", ""), 404, "NOT_FOUND")
}

// The rules of the operator for a service are part of its description. A request needs no format, whatever they are.
func TestServices_Rules(t *testing.T) {
	w := newWorld()
	h := New(withCatalogue(w))
	if got := decode[wire.CatalogueService](t, ask(h, "GET", "/services/fire", ""), 200); got.Rules != nil {
		t.Errorf("%+v", got.Rules)
	}
	const bare = `{"title":"t","label":"openeo","service":{"endpoint":"https://openeo.example.org","namespace":null,"application":"x"},"parameters":{}}`
	decode[any](t, ask(h, "POST", "/unit_jobs", bare), 201)
	w.policy = dispatch.Policy{Format: "gtiff", MaxDuration: time.Hour, Budget: dispatch.Budget{Amount: 10,
		Unit: "credits"}, Options: map[string]json.RawMessage{"memory": []byte(`"4g"`)},
		Entitled: func(context.Context) bool { return false }}
	got := decode[map[string]json.RawMessage](t, ask(h, "GET", "/services/fire", ""), 200)
	if want :=
		`{"permitted":false,"format":"gtiff","max_duration":3600,"budget":{"amount":10,"unit":"credits"},"options":{"memory":"4g"}}`; string(got["rules"]) != want {
		t.Errorf("rules %s, want %s", got["rules"], want)
	}
	decode[any](t, ask(h, "POST", "/unit_jobs", bare), 201)
	failed(t, ask(h, "POST", "/unit_jobs", strings.Replace(bare, `"title"`, `"format":7,"title"`, 1)), 422,
		"VALIDATION_ERROR")
}

// TestServices_PlatformThatIsDown: the service is shown all the same, with the reason why its parameters are not known.
func TestServices_PlatformThatIsDown(t *testing.T) {
	w := newWorld()
	c := withCatalogue(w)
	c.Broker = silent{w}
	got := decode[wire.CatalogueService](t, ask(New(c), "GET", "/services/ndvi%20composite", ""), 200)
	if got.Parameters != nil || got.ParametersError == nil ||
		got.ParametersError.ErrorCode != "APPLICATION_UNREACHABLE" || got.ParametersError.Message != "It is down." ||
		got.ParametersError.RequestID == nil || len(got.Formats) != 1 || got.Formats[0].Name != "PNG" {
		t.Errorf("%+v, %+v", got, got.ParametersError)
	}
}

// silent is a broker whose platforms do not respond.
type silent struct{ *world }

func (silent) Parameters(context.Context, dispatch.UserID, dispatch.Service, dispatch.Label) ([]dispatch.Parameter,
	error) {
	return nil, &dispatch.Error{Kind: dispatch.DocumentUnreachable, Text: "It is down."}
}

func (silent) Formats(context.Context, dispatch.UserID, dispatch.Service, dispatch.Label) ([]dispatch.OutputFormat,
	error) {
	return nil, &dispatch.Error{Kind: dispatch.Unavailable}
}

// TestServices_SignIn: without a token the catalogue is shown only if it is open. A token that is sent must be valid.
func TestServices_SignIn(t *testing.T) {
	c := withCatalogue(newWorld())
	for _, path := range []string{"/services", "/services/fire"} {
		c.OpenCatalogue = false
		failed(t, ask(New(c), "GET", path, "", "Authorization", ""), 401, "AUTHENTICATION_FAILED")
		c.OpenCatalogue = true
		for header, want := range map[string]int{"": 200, "Bearer token-anna": 200, "Bearer wrong": 401,
			"Basic x": 401} {
			if got := ask(New(c), "GET", path, "", "Authorization", header); got.Code != want {
				t.Errorf("%s with %q: %d", path, header, got.Code)
			}
		}
	}
}

// TestServiceID_IsTheSameAsByHand sends each request that names a service with its id, and with its endpoint and
// application.
func TestServiceID_IsTheSameAsByHand(t *testing.T) {
	const job = `"title":"a","format":"json","parameters":{}`
	for path, rest := range map[string]string{"/params": "", "/unit_jobs": job + ",", "/sync_jobs": job + ",",
		"/upscale_tasks": job + `,"dimension":{"name":"n","values":[1,2]},`} {
		for _, s := range shelved {
			byHand, _ := json.Marshal(wire.ServiceDetails(s.Service))
			var answers []string
			label, byID := fmt.Sprintf(`"label":%q,`, s.Label), fmt.Sprintf(`{"id":%q}`, s.ID)
			for _, named := range []string{label + `"service":` + string(byHand), label + `"service":` + byID,
				`"service":` + byID,
				label + `"service":{"id":"ignored",` + string(byHand[1:]), fmt.Sprintf(`"label":%q,"service":%s`,
					openapi.ProtocolOf[s.Label], byID)} {
				w := newWorld()
				w.sync = func(_ context.Context, r dispatch.Request) (*dispatch.SyncResult, error) {
					return nil, &dispatch.Error{Kind: dispatch.Forbidden, Text: fmt.Sprint(r.Service.Endpoint,
						*orNone(r.Service.Namespace), r.Service.Application)}
				}
				a := ask(New(withCatalogue(w)), "POST", path, fmt.Sprintf(`{%s%s}`, rest, named))
				answers = append(answers, withoutID(a.Body.String()))
				if path == "/sync_jobs" && !strings.Contains(a.Body.String(), s.Service.Application) {
					t.Errorf("%s with %s ran something else: %d %s", path, named, a.Code, a.Body)
				}
				if a.Code >= 300 && path != "/sync_jobs" {
					t.Errorf("%s with %s: %d %s", path, named, a.Code, a.Body)
				}
			}
			if slices.ContainsFunc(answers, func(a string) bool { return a != answers[0] }) {
				t.Errorf("%s: %q", path, answers)
			}
		}
	}
}

func orNone(s *string) *string {
	if s == nil {
		return new("")
	}
	return s
}

// withoutID returns an error response without its request_id.
func withoutID(text string) string {
	before, _, _ := strings.Cut(text, `,"request_id"`)
	return before
}

func TestServiceID_Faults(t *testing.T) {
	h := New(withCatalogue(newWorld()))
	for service, want := range map[string]string{
		`{"id":"none"}`:                      `["body","service","id"] value_error`,
		`{"id":7}`:                           `["body","service","id"] string_type`,
		`{"id":null}`:                        `["body","service","id"] string_type`,
		`{"id":"fire"}`:                      `["body","label"] value_error`,
		`{"id":"fire","endpoint":"x"}`:       `["body","service","application"] missing`,
		`{"id":"fire","application":"fire"}`: `["body","service","endpoint"] missing`,
	} {
		f := failed(t, ask(h, "POST", "/params", `{"label":"openeo","service":`+service+`}`), 422, "VALIDATION_ERROR")
		if d := cmp.Diff([]string{want}, locs(f.Detail)); d != "" {
			t.Errorf("%s: %s", service, d)
		}
	}
	for request, want := range map[string]string{
		`{"service":{"endpoint":"x","application":"y"}}`:            `["body","label"] missing`,
		`{"label":null,"service":{"id":"fire"}}`:                    `["body","label"] string_type`,
		`{"label":"openeo","service":{"id":"fire"}}`:                `["body","label"] value_error`,
		`{"label":"ogcapi","service":{"id":"ndvi composite"}}`:      `["body","label"] value_error`,
		`{"label":"OGCAPI","service":{"id":"fire"}}`:                `["body","label"] enum`,
		`{"service":{"id":"none"}}`:                                 `["body","service","id"] value_error`,
		`{"label":["ogcapi"],"service":{"id":"fire","endpoint":2}}`: `["body","label"] string_type`,
	} {
		f := failed(t, ask(h, "POST", "/params", request), 422, "VALIDATION_ERROR")
		if got := locs(f.Detail); got[0] != want {
			t.Errorf("%s: %s", request, got)
		}
	}
}
