package api

import (
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/client/wire"
)

// A synchronous request with Prefer: wait becomes a job: its results within the wait, else 202, and the job goes on.
func TestSync_BecomesAJob(t *testing.T) {
	p := &platform{}
	h := newRealAPI(t, p)
	went := ask(h, "POST", "/sync_jobs", goodBody, "Prefer", "wait=1", "Idempotency-Key", "once")
	c, responses := compiler(t, h), read(t, h).Paths["/sync_jobs"]["post"].Responses
	check(t, c, "going on", responses, went, "/sync_jobs", "post")
	job := decode[wire.ProcessingJobSummary](t, went, 202)
	if went.Header().Get("Location") != "/unit_jobs/1" || went.Header().Get("Preference-Applied") != "wait=1" ||
		job.ID != 1 || job.Status == "finished" {
		t.Fatalf("%v %+v", went.Header(), job)
	}
	p.mu.Lock()
	p.finished = true
	p.mu.Unlock()
	again := ask(h, "POST", "/sync_jobs", goodBody, "Prefer", "wait=60", "Idempotency-Key", "once")
	check(t, c, "finished", responses, again, "/sync_jobs", "post")
	if c := decode[map[string]any](t, again, 200); c["type"] != "Collection" ||
		again.Header().Get("Location") != "/unit_jobs/1" {
		t.Errorf("%v %v", again.Header(), c)
	}
	if !strings.Contains(again.Body.String(), `"href":"http://example.com/unit_jobs/1/provenance"`) {
		t.Errorf("links without the address of the broker: %s", again.Body)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs != 1 {
		t.Errorf("%d jobs at the platform", p.jobs)
	}
	if list := decode[wire.JobsStatusResponse](t, ask(h, "GET", "/jobs_status?filter=sync", ""),
		200); len(list.ProcessingJobs) != 0 {
		t.Errorf("listed as synchronous runs: %+v", list.ProcessingJobs)
	}
}

// What a platform cannot run synchronously becomes a job without being asked.
func TestSync_OfAPlatformThatHasJobsOnly(t *testing.T) {
	h := newRealAPI(t, &platform{failure: "There is no data."})
	a := ask(h, "POST", "/sync_jobs", goodBody)
	check(t, compiler(t, h), "failed", read(t, h).Paths["/sync_jobs"]["post"].Responses, a, "/sync_jobs", "post")
	if f := failed(t, a, 502, "PLATFORM_ERROR"); !strings.Contains(f.Message, "Job 2 failed: There is no data.") ||
		a.Header().Get("Location") != "/unit_jobs/2" { // the run that the platform refused has the first number
		t.Errorf("%v %s", a.Header(), f.Message)
	}
	for _, body := range []string{`{}`, goodBody + "x"} {
		failed(t, ask(h, "POST", "/sync_jobs", body, "Prefer", "wait=1"), 422, "VALIDATION_ERROR")
	}
}
