package api

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// later sends a request in a goroutine; in a bubble the test controls the time.
func later(h API, path string, headers ...string) <-chan *httptest.ResponseRecorder {
	answers := make(chan *httptest.ResponseRecorder, 1)
	go func() { answers <- ask(h, "GET", path, "", headers...) }()
	return answers
}

// A job or task that has ended does not change any more: a client that has not seen the end yet sees it at once.
func TestWait_NotForWhatHasEnded(t *testing.T) {
	for path, waits := range map[string]time.Duration{"/unit_jobs/1": 0, "/upscale_tasks/1": 0,
		"/upscale_tasks/1?limit=1": 0, "/jobs_status": 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			h := New(w.config())
			defer h.Close()
			decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
			decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
			for id := range dispatch.JobID(4) {
				w.set(id+1, func(r *dispatch.Record) { r.Status, r.Phase = dispatch.Finished, dispatch.Ended })
			}
			task := w.tasks[1]
			task.Counts = dispatch.Counts{dispatch.Finished: 3}
			w.tasks[1] = task
			begin := time.Now()
			a := <-later(h, with(path, "wait=30"))
			if a.Code != 200 || time.Since(begin) != waits {
				t.Errorf("%s: %d after %v, want %v", path, a.Code, time.Since(begin), waits)
			}
			begin = time.Now()
			if a = <-later(h, with(path, "wait=30"), "If-None-Match", a.Header().Get("ETag")); a.Code != 304 ||
				time.Since(begin) != 30*time.Second {
				t.Errorf("%s, seen already: %d after %v", path, a.Code, time.Since(begin))
			}
		})
	}
}

func TestWait_HasBounds(t *testing.T) {
	for query, want := range map[string]time.Duration{"": 0, "?wait=0": 0, "?wait=-3": 0, "?wait=1e9": time.Minute,
		"?wait=1e999": time.Minute, "?wait=0.5": 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			h := New(newWorld().config())
			defer h.Close()
			decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
			begin := time.Now()
			if <-later(h, "/unit_jobs/1"+query); time.Since(begin) != want {
				t.Errorf("%s: %v", query, time.Since(begin))
			}
		})
	}
	h := New(newWorld().config())
	for _, path := range []string{"/unit_jobs/1?wait=long", "/jobs_status?wait=NaN", "/upscale_tasks/1?wait="} {
		failed(t, ask(h, "GET", path, ""), 422, "VALIDATION_ERROR")
	}
}

func TestCancel_KeepsTheRecord(t *testing.T) {
	h := New(newWorld().config())
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	if j := decode[wire.ProcessingJob](t, ask(h, "POST", "/unit_jobs/1/cancel", ""), 200); j.Status != "canceled" {
		t.Errorf("%+v", j)
	}
	decode[any](t, ask(h, "POST", "/unit_jobs/1/cancel", ""), 200)
	if l := decode[wire.JobsStatusResponse](t, ask(h, "GET", "/jobs_status", ""), 200); len(l.ProcessingJobs) != 1 {
		t.Errorf("%+v", l)
	}
	failed(t, ask(h, "POST", "/unit_jobs/1/cancel", "", "Authorization", "Bearer token-bert"), 404, "JOB_NOT_FOUND")
	failed(t, ask(h, "POST", "/unit_jobs/7/cancel", ""), 404, "JOB_NOT_FOUND")
}
