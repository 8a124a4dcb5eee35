package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/dispatch"
)

func TestTaskProvenance_NamesEachJob(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.PublicURL = "https://broker.example.org"
	h := New(c)
	finishedTask(t, w, h)
	w.set(1, func(r *dispatch.Record) {
		r.Ref, r.Versions = dispatch.Ref{ID: "j-7"}, dispatch.Versions{Software: "pygeoapi", Version: "0.20.0",
			Process: "1.2"}
	})
	got := decode[Provenance](t, ask(h, "GET", "/upscale_tasks/1/provenance", ""), 200)
	const task = "broker:upscale_tasks/1"
	if len(got.Activity) != 1+4 || got.Activity[task]["task:status"] != "running" ||
		got.Activity[task]["prov:endTime"] != nil || got.Activity[task]["prov:label"] != "NDVI" {
		t.Errorf("%v", got.Activity)
	}
	first := got.Activity["broker:unit_jobs/1"]
	for name, want := range map[string]any{"prov:label": "NDVI - Processing Job 1", "job:platform_job_id": "j-7",
		"schema:softwareVersion": "0.20.0", "schema:runtimePlatform": "pygeoapi 0.20.0", "job:status": "finished",
		"schema:url": "https://broker.example.org/unit_jobs/1/provenance"} {
		if first[name] != want {
			t.Errorf("%s is %v, want %v", name, first[name], want)
		}
	}
	if len(got.WasStartedBy) != 4 || got.WasStartedBy["_:wasStartedBy-4"]["prov:starter"] != task ||
		len(got.WasGeneratedBy) != 3 || len(got.HadMember) != 3 ||
		got.HadMember["_:hadMember-3"]["prov:collection"] != task+"/results" ||
		got.Entity["broker:unit_jobs/3/results"] == nil || got.Entity["broker:unit_jobs/4/results"] != nil {
		t.Errorf("%+v", got)
	}
	if got.Entity[task+"#parameters"]["prov:value"] == nil || got.Entity[task+"#service"]["schema:identifier"] == "" ||
		len(got.Used) != 2 {
		t.Errorf("%+v", got.Entity)
	}
	if all := fmt.Sprint(got); strings.Contains(all, string(anna)) {
		t.Errorf("the owner is named: %s", all)
	}
	failed(t, ask(h, "GET", "/upscale_tasks/1/provenance", "", "Authorization", "Bearer token-bert"), 404,
		"TASK_NOT_FOUND")
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

// spreadTask makes the task of [finishedTask] one at the platforms a, b and c, of which b has jobs 2 and 3, and c has
// none.
func spreadTask(t *testing.T, w *world, h http.Handler) {
	t.Helper()
	finishedTask(t, w, h)
	task := w.tasks[1]
	for _, platform := range []string{"a", "b", "c"} {
		task.Request.Placements = append(task.Request.Placements, dispatch.Placement{Label: dispatch.OpenEO,
			Account: dispatch.Account(platform + "/shared"),
			Service: dispatch.Service{Endpoint: "https://" + platform + ".example",
				Application: "https://apps.example.org/" + platform + ".json"}})
	}
	task.Account, task.Request.Service = "a/shared", task.Request.Placements[0].Service
	w.tasks[1] = task
	for id, platform := range map[dispatch.JobID]string{1: "a", 2: "b", 3: "b", 4: "a"} {
		w.set(id, func(r *dispatch.Record) { r.Account = dispatch.Account(platform + "/shared") })
	}
}

// TestTaskProvenance_OfSeveralPlatforms names the platform and the service of each job, and no platform at which none
// is.
func TestTaskProvenance_OfSeveralPlatforms(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	spreadTask(t, w, h)
	got := decode[Provenance](t, ask(h, "GET", "/upscale_tasks/1/provenance", ""), 200)
	const task, a, b = "broker:upscale_tasks/1", "broker:platforms#a", "broker:platforms#b"
	if len(got.Agent) != 2 || got.Agent[a]["schema:url"] != "https://a.example" ||
		got.Agent[b]["schema:url"] != "https://b.example" {
		t.Errorf("agents: %v", got.Agent)
	}
	plan := func(platform string) string { return task + "#service-" + platform }
	for _, platform := range []string{"a", "b"} {
		if got.Entity[plan(platform)]["schema:identifier"] != "https://apps.example.org/"+platform+".json" {
			t.Errorf("%s: %v", platform, got.Entity)
		}
	}
	want := map[string]provenanceRecord{
		"_:platform-a":          {"prov:activity": task, "prov:agent": a, "prov:plan": plan("a")},
		"_:platform-b":          {"prov:activity": task, "prov:agent": b, "prov:plan": plan("b")},
		"_:wasAssociatedWith-1": {"prov:activity": "broker:unit_jobs/1", "prov:agent": a, "prov:plan": plan("a")},
		"_:wasAssociatedWith-2": {"prov:activity": "broker:unit_jobs/2", "prov:agent": b, "prov:plan": plan("b")},
		"_:wasAssociatedWith-3": {"prov:activity": "broker:unit_jobs/3", "prov:agent": b, "prov:plan": plan("b")},
		"_:wasAssociatedWith-4": {"prov:activity": "broker:unit_jobs/4", "prov:agent": a, "prov:plan": plan("a")},
	}
	if d := cmp.Diff(want, got.WasAssociatedWith); d != "" {
		t.Error(d)
	}
	if got.Used["_:service-a"]["prov:entity"] != plan("a") || got.Used["_:service-b"]["prov:entity"] != plan("b") ||
		len(got.Used) != 3 || len(got.Entity) != 2+1+1+3 {
		t.Errorf("%v, %v", got.Used, got.Entity)
	}
}
