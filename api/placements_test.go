package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// TestServiceID_OfSeveralPlatforms: a service that several platforms offer is named by one id. A task runs at all of
// them, and a job at the first that can run it.
func TestServiceID_OfSeveralPlatforms(t *testing.T) {
	w := newWorld()
	c := w.config()
	first := dispatch.Service{Endpoint: "https://openeo.example.org", Application: "https://apps.example.org/ndvi.json"}
	second := dispatch.Service{Endpoint: "https://ogc.example.org", Application: "ndvi"}
	c.Services = shelf{{ID: "ndvi", Title: "NDVI", Label: dispatch.OpenEO, Service: first, Platform: "cdse",
		Also: []catalogue.Placement{{Label: dispatch.OGCProcess, Service: second, Platform: "ogc"}}}, shelved[1]}
	h := New(c)
	for reference, want := range map[string]struct{ job, placements string }{
		`"service":{"id":"ndvi"}`:                                   {"ndvi", "https://apps.example.org/ndvi.json,ndvi"},
		`"service":{"id":"ndvi","platform":null}`:                   {"ndvi", "https://apps.example.org/ndvi.json,ndvi"},
		`"service":{"id":"ndvi","platform":"cdse"}`:                 {"https://apps.example.org/ndvi.json", ""},
		`"label":"openeo","service":{"id":"ndvi"}`:                  {"https://apps.example.org/ndvi.json", ""},
		`"options":{"budget":5},"service":{"id":"ndvi"}`:            {"ndvi", ""},
		`"services":[{"id":"ndvi"}]`:                                {"", "https://apps.example.org/ndvi.json,ndvi"},
		`"services":[{"id":"ndvi"},{"id":"fire"}]`:                  {"", "https://apps.example.org/ndvi.json,fire"},
		`"services":[{"id":"ndvi","platform":"ogc"},{"id":"fire"}]`: {"", "ndvi,fire"},
	} {
		const rest = `{"title":"a","format":"json","parameters":{},`
		w.tasks = map[dispatch.TaskID]dispatch.TaskRecord{}
		decode[any](t, ask(h, "POST", "/upscale_tasks", rest+`"dimension":{"name":"n","values":[1,2]},`+reference+"}"), 201)
		var placements []string
		for _, h := range w.tasks[1].Request.Placements {
			placements = append(placements, h.Service.Application)
		}
		if got := strings.Join(placements, ","); got != want.placements {
			t.Errorf("a task with %s has the placements %s", reference, got)
		}
		if want.job == "" {
			continue
		}
		if got := w.tasks[1].Request.Service.Application; want.placements == "" && got != want.job {
			t.Errorf("a task with %s runs %s", reference, got)
		}
		w.jobs = map[dispatch.JobID]dispatch.Record{}
		decode[any](t, ask(h, "POST", "/unit_jobs", rest+reference+"}"), 201)
		for _, j := range w.jobs {
			if got := j.Request.Service.Application; got != want.job || j.Request.Placements != nil {
				t.Errorf("a job with %s runs %s", reference, got)
			}
		}
	}
	for reference, where := range map[string]string{
		`"service":{"id":"ndvi","platform":"gep"}`:                  `["body","service","platform"] value_error`,
		`"service":{"id":"ndvi","platform":7}`:                      `["body","service","platform"] string_type`,
		`"label":"openeo","service":{"id":"ndvi","platform":"ogc"}`: `["body","label"] value_error`,
	} {
		f := failed(t, ask(h, "POST", "/unit_jobs", `{"title":"a","format":"json","parameters":{},`+reference+"}"), 422,
			"VALIDATION_ERROR")
		if d := cmp.Diff([]string{where}, locs(f.Detail)); d != "" {
			t.Errorf("%s: %s", reference, d)
		}
	}
	shown := decode[wire.ServiceList](t, ask(h, "GET", "/services", ""), 200).Services
	if d := cmp.Diff([]wire.ServiceHome{{Platform: "cdse", PlatformState: "sign_in_required", Label: "openeo"},
		{Platform: "ogc", PlatformState: "unknown", Label: "ogc_api_process"}},
		shown[0].Homes); d != "" || shown[1].Homes != nil {
		t.Error(d, shown[1].Homes)
	}
	w.policy.Budget = dispatch.Budget{Amount: 5}
	decode[any](t, ask(h, "POST", "/upscale_tasks",
		`{"title":"a","format":"json","parameters":{},"dimension":{"name":"n","values":[1,2]},"service":{"id":"ndvi"}}`), 201)
	if last := w.tasks[dispatch.TaskID(len(w.tasks))]; last.ID == 0 || last.Request.Placements != nil {
		t.Errorf("with a budget of the operator: %+v", last.Request)
	}
}
