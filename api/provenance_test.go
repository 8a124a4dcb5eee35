package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/dispatch"
)

func TestProvenance_OfAFinishedJob(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.PublicURL = "https://broker.example.org"
	h := New(c)
	w.document = []byte(`{"id": "ndvi"}`)
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	costs := 1.5
	begin := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	w.set(1, func(r *dispatch.Record) {
		r.Phase, r.Status, r.Created, r.Moved = dispatch.Ended, dispatch.Finished, begin, begin.Add(time.Hour)
		r.Ref, r.Costs, r.Unit, r.Spent, r.Retried, r.Duration = dispatch.Ref{ID: "j-7"}, &costs, "credits", 1, 1,
			90*time.Second
		r.Request.Options = json.RawMessage(`{"memory": "4G"}`)
		r.Versions = dispatch.Versions{Version: "0.31.0", API: "1.2.0", Process: "7"}
		r.Past = []dispatch.Ref{{ID: "j-5"}}
		r.Task = 3
	})
	got := decode[Provenance](t, ask(h, "GET", "/unit_jobs/1/provenance", ""), 200)
	const job = "broker:unit_jobs/1"
	want := map[string]any{"prov:label": "NDVI", "prov:startTime": "2026-05-01T12:00:00Z",
		"prov:endTime": "2026-05-01T13:00:00Z", "job:status": "finished",
		"schema:softwareVersion": "0.31.0", "schema:runtimePlatform": "0.31.0 (API 1.2.0)",
		"job:platform_job_id": "j-7",
		"job:costs":           2.5, "job:cost_unit": "credits", "job:duration": 90.0, "job:retries": 1.0,
		"job:options": `{"memory": "4G"}`}
	if d := cmp.Diff(want, got.Activity[job]); d != "" {
		t.Error(d)
	}
	plan := got.Entity[job+"#service"]
	if plan["schema:sha256"] != (dispatch.Document{Body: w.document}).Hash() ||
		plan["schema:contentUrl"] != "https://broker.example.org/unit_jobs/1/document" {
		t.Errorf("%v", plan)
	}
	if plan["schema:version"] != "7" || got.WasStartedBy["_:task"]["prov:starter"] != "broker:upscale_tasks/3" ||
		got.Activity["broker:upscale_tasks/3"] == nil {
		t.Errorf("%v %v", plan, got.WasStartedBy)
	}
	if was := got.Activity[job+"#attempt-1"]; was["job:platform_job_id"] != "j-5" ||
		got.WasInformedBy["_:attempt-1"]["prov:informant"] != job+"#attempt-1" {
		t.Errorf("%v %v", was, got.WasInformedBy)
	}
	if got.Entity[job+
		"#parameters"]["prov:value"] != `{"n":12345678901234567890.00100,"e":1e99,"z":-0,"none":null,"html":"<b>&"}` {
		t.Errorf("%v", got.Entity)
	}
	if got.WasGeneratedBy["_:results"]["prov:entity"] != job+"/results" || got.Entity[job+"/results"] == nil ||
		len(got.Used) != 2 {
		t.Errorf("%+v", got)
	}
	if all := fmt.Sprint(got); strings.Contains(all, string(anna)) {
		t.Errorf("the owner is named: %s", all)
	}
	failed(t, ask(h, "GET", "/unit_jobs/1/provenance", "", "Authorization", "Bearer token-bert"), 404, "JOB_NOT_FOUND")
	failed(t, ask(h, "GET", "/unit_jobs/x/provenance", ""), 422, "VALIDATION_ERROR")
}

// The hash of the definition is that with which the job ran. Where that is not known, the document says as of when it
// is.
func TestProvenance_OfTheDefinition(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	w.document = []byte(`{"id": "ndvi"}`)
	accepted, later := (dispatch.Document{Body: w.document}).Hash(), strings.Repeat("ab", 32)
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	for name, c := range map[string]struct{ pin, submitted, says, hash string }{
		"not submitted":        {says: "at the acceptance of the job, 2026-05-01T12:00:00Z", hash: accepted},
		"pinned":               {pin: accepted, says: "that the job runs", hash: accepted},
		"submitted unchanged":  {submitted: accepted, says: "when it submitted the job", hash: accepted},
		"changed while it was": {submitted: later, says: "when it submitted the job", hash: later},
	} {
		w.set(1, func(r *dispatch.Record) {
			r.Created, r.Request.Pin, r.Versions.Definition = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), c.pin,
				c.submitted
		})
		plan := decode[Provenance](t, ask(h, "GET", "/unit_jobs/1/provenance", ""),
			200).Entity["broker:unit_jobs/1#service"]
		if says, _ := plan["schema:description"].(string); plan["schema:sha256"] != c.hash ||
			!strings.Contains(says, c.says) {
			t.Errorf("%s: %v", name, plan)
		}
		if (plan["schema:contentUrl"] != nil) != (c.hash == accepted) { // the stored document is that of the acceptance
			t.Errorf("%s: %v", name, plan)
		}
	}
}

// A job that runs has generated nothing, and one whose parameters were deleted names none.
func TestProvenance_SaysOnlyWhatIsKnown(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	got := decode[Provenance](t, ask(h, "GET", "/unit_jobs/1/provenance", ""), 200)
	const job = "broker:unit_jobs/1"
	if is := got.Activity[job]; is["prov:endTime"] != nil || is["job:costs"] != nil || len(got.WasGeneratedBy) != 0 ||
		len(got.WasDerivedFrom) != 0 {
		t.Errorf("%+v", got)
	}
	if got.Entity[job+"#service"]["schema:sha256"] != nil {
		t.Errorf("%+v", got.Entity)
	}
	w.set(1, func(r *dispatch.Record) {
		r.Phase, r.Status, r.Pruned, r.Request.Parameters = dispatch.Ended, dispatch.Finished, true,
			json.RawMessage("{}")
	})
	got = decode[Provenance](t, ask(h, "GET", "/unit_jobs/1/provenance", ""), 200)
	if len(got.Entity) != 2 || len(got.Used) != 1 || len(got.WasDerivedFrom) != 0 || len(got.WasGeneratedBy) != 1 {
		t.Errorf("%+v", got)
	}
}
