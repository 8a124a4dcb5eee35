package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

func TestTaskProvenance_NamesEachJob(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.PublicURL = "https://broker.example.org"
	h := New(c)
	finishedTask(t, w, h)
	w.set(1, func(r *dispatch.Record) {
		r.Ref, r.Versions = dispatch.Ref{ID: "j-7"}, dispatch.Versions{Software: "pygeoapi", Version: "0.20.0", Process: "1.2"}
	})
	got := decode[Provenance](t, ask(h, "GET", "/upscale_tasks/1/provenance", ""), 200)
	const task = "broker:upscale_tasks/1"
	if len(got.Activity) != 1+4 || got.Activity[task]["task:status"] != "running" || got.Activity[task]["prov:endTime"] != nil || got.Activity[task]["prov:label"] != "NDVI" {
		t.Errorf("%v", got.Activity)
	}
	first := got.Activity["broker:unit_jobs/1"]
	for name, want := range map[string]any{"prov:label": "NDVI - Processing Job 1", "job:platform_job_id": "j-7", "schema:softwareVersion": "0.20.0",
		"schema:runtimePlatform": "pygeoapi 0.20.0", "job:status": "finished", "schema:url": "https://broker.example.org/unit_jobs/1/provenance"} {
		if first[name] != want {
			t.Errorf("%s is %v, want %v", name, first[name], want)
		}
	}
	if len(got.WasStartedBy) != 4 || got.WasStartedBy["_:wasStartedBy-4"]["prov:starter"] != task || len(got.WasGeneratedBy) != 3 || len(got.HadMember) != 3 ||
		got.HadMember["_:hadMember-3"]["prov:collection"] != task+"/results" || got.Entity["broker:unit_jobs/3/results"] == nil || got.Entity["broker:unit_jobs/4/results"] != nil {
		t.Errorf("%+v", got)
	}
	if got.Entity[task+"#parameters"]["prov:value"] == nil || got.Entity[task+"#service"]["schema:identifier"] == "" || len(got.Used) != 2 {
		t.Errorf("%+v", got.Entity)
	}
	if all := fmt.Sprint(got); strings.Contains(all, string(anna)) {
		t.Errorf("the owner is named: %s", all)
	}
	failed(t, ask(h, "GET", "/upscale_tasks/1/provenance", "", "Authorization", "Bearer token-bert"), 404, "TASK_NOT_FOUND")
	failed(t, ask(h, "GET", "/upscale_tasks/x/provenance", ""), 422, "VALIDATION_ERROR")
}

// A task of which nothing has finished has generated nothing.
func TestTaskProvenance_OfAnUnfinishedTask(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
	got := decode[Provenance](t, ask(h, "GET", "/upscale_tasks/1/provenance", ""), 200)
	if len(got.Activity) != 1+3 || got.WasGeneratedBy != nil || got.HadMember != nil || len(got.WasStartedBy) != 3 {
		t.Errorf("%+v", got)
	}
}
