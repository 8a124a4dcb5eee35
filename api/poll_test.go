package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
)

// polled are requests that accept wait, with every other parameter. The world has job 1, and task 1 with jobs 2, 3 and
// 4.
var polled = []string{"/unit_jobs/1", "/unit_jobs/2", "/jobs_status", "/jobs_status?filter=processing",
	"/jobs_status?filter=upscaling",
	"/jobs_status?limit=1", "/jobs_status?status=created&status=finished", "/jobs_status?platform=cdse",
	"/jobs_status?platform=nowhere",
	"/jobs_status?since=2026-01-01T00:00:00Z", "/jobs_status?since=2027-01-01T00:00:00Z",
	"/jobs_status?filter=processing&limit=5",
	"/upscale_tasks/1", "/upscale_tasks/1?limit=2", "/upscale_tasks/1?status=failed", "/upscale_tasks/1?platform=cdse",
	"CURSOR /jobs_status", "CURSOR /upscale_tasks/1"}

// inWorld runs a test on polled requests, each in a bubble of its own.
func inWorld(t *testing.T, test func(t *testing.T, w *world, h API, path string)) {
	for _, path := range polled {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			h := New(w.config())
			defer h.Close()
			decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
			decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
			if of, ok := strings.CutPrefix(path, "CURSOR "); ok {
				link := ask(h, "GET", of+"?limit=1", "").Header().Get("Link")
				path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
			}
			test(t, w, h, path)
		})
	}
}

func with(path, parameter string) string {
	if strings.Contains(path, "?") {
		return path + "&" + parameter
	}
	return path + "?" + parameter
}

// touch changes a job in a way that changes no ETag.
func touch(w *world, id dispatch.JobID) {
	w.set(id, func(r *dispatch.Record) {
		n := int(time.Since(moment).Seconds())
		r.Updated, r.Checked, r.Ahead = r.Updated.Add(-time.Second), time.Now(), &n
	})
}

// A request waits with every other parameter, whether or not anything is live. It does not end for changes that it does
// not show: the time of the check, and the position in the queue.
func TestWait_OnEveryStatus(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, h API, path string) {
		for _, status := range []dispatch.Status{dispatch.Running, dispatch.Unknown} {
			for id := range dispatch.JobID(4) {
				w.set(id+1, func(r *dispatch.Record) { r.Status = status })
			}
			begin := time.Now()
			answers := later(h, with(path, "wait=25"))
			for id := range dispatch.JobID(4) {
				time.Sleep(3 * time.Second)
				touch(w, id+1)
			}
			if a := <-answers; a.Code != 200 || time.Since(begin) != 25*time.Second || a.Header().Get("ETag") == "" {
				t.Errorf("%s, all %s: %d after %v, ETag %q", path, status, a.Code, time.Since(begin),
					a.Header().Get("ETag"))
			}
		}
	})
}

// An ETag that is still current gets 304 without a body, at once or after the wait. It is valid for other replicas.
func TestWait_NotModified(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, h API, path string) {
		replica := New(w.config())
		defer replica.Close()
		replica.(*api).CursorKey = h.(*api).CursorKey
		tag := ask(h, "GET", path, "").Header().Get("ETag")
		for id := range dispatch.JobID(4) {
			touch(w, id+1)
		}
		for wait, query := range map[time.Duration]string{0: path, 40 * time.Second: with(path, "wait=40")} {
			for _, known := range []string{tag, `"other", ` + tag + `,"more"`, strings.TrimPrefix(tag, "W/"), "*",
				` , "a,b"  ,` + tag} {
				begin := time.Now()
				a := <-later(replica, query, "If-None-Match", known)
				if a.Code != http.StatusNotModified || a.Body.Len() > 0 || a.Header().Get("ETag") != tag ||
					a.Header().Get("Cache-Control") != openapi.Revalidate || time.Since(begin) != wait {
					t.Errorf("%s with %s: %d %q after %v, %v", query, known, a.Code, a.Body, time.Since(begin),
						a.Header())
				}
			}
		}
		for _, known := range []string{`"other"`, `W/"other", "more"`, `"*"`, "x"} {
			begin := time.Now()
			if a := <-later(h, path, "If-None-Match", known); a.Code != 200 || a.Body.Len() == 0 ||
				a.Header().Get("ETag") != tag || time.Since(begin) > 0 {
				t.Errorf("%s with %s: %d after %v", path, known, a.Code, time.Since(begin))
			}
		}
	})
}

// A wait ends early only for a change of the job, the task, or the list of which it shows a part.
func TestWait_EndsForItsSubject(t *testing.T) {
	list := map[dispatch.JobID]bool{1: true, 2: true, 3: true, 4: true}
	task := map[dispatch.JobID]bool{2: true, 3: true, 4: true}
	for path, ends := range map[string]map[dispatch.JobID]bool{
		"/unit_jobs/1":                    {1: true},
		"/jobs_status?filter=processing":  list,
		"/jobs_status?status=finished":    list,
		"/upscale_tasks/1":                task,
		"/upscale_tasks/1?limit=2":        task,
		"/upscale_tasks/1?status=created": task,
	} {
		for id := range dispatch.JobID(5) { // the last is another's
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				h := New(w.config())
				defer h.Close()
				decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
				decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
				decode[any](t, ask(h, "POST", "/unit_jobs", goodBody, "Authorization", "Bearer token-bert"), 201)
				tag := ask(h, "GET", path, "").Header().Get("ETag")
				begin := time.Now()
				known, plain := later(h, with(path, "wait=30"), "If-None-Match", tag), later(h, with(path, "wait=30"))
				time.Sleep(5 * time.Second)
				w.set(id+1, func(r *dispatch.Record) { r.Status = dispatch.Running })
				a, b, took := <-known, <-plain, time.Since(begin)
				if ends[id+1] && (a.Code != 200 || b.Header().Get("ETag") == tag || took != 5*time.Second) ||
					!ends[id+1] && (a.Code != http.StatusNotModified || b.Header().Get("ETag") != tag ||
						took != 30*time.Second) {
					t.Errorf("%s, job %d changed: %d and %v after %v", path, id+1, a.Code, b.Header(), took)
				}
				begin = time.Now() // a change between two requests is returned at once to a client that sends its ETag
				if a := <-later(h, with(path, "wait=30"), "If-None-Match", tag); ends[id+1] &&
					(a.Code != 200 || time.Since(begin) > 0) {
					t.Errorf("%s, job %d had changed: %d after %v", path, id+1, a.Code, time.Since(begin))
				}
			})
		}
	}
}

// When the service stops, all waiting requests are answered at once, as if their wait had ended.
func TestWait_EndsWithTheService(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, h API, path string) {
		tag := ask(h, "GET", path, "").Header().Get("ETag")
		plain, known := later(h, with(path, "wait=60")), later(h, with(path, "wait=60"), "If-None-Match", tag)
		time.Sleep(3 * time.Second)
		begin := time.Now()
		h.Close()
		if a := <-plain; a.Code != 200 || a.Header().Get("ETag") != tag || time.Since(begin) > 0 {
			t.Errorf("%s: %d after %v", path, a.Code, time.Since(begin))
		}
		if a := <-known; a.Code != http.StatusNotModified || time.Since(begin) > 0 {
			t.Errorf("%s: %d after %v", path, a.Code, time.Since(begin))
		}
	})
}

// A user has a limited number of waiting requests; further ones are refused. Requests that do not wait, and those of
// other users, are not.
func TestWait_BoundsTheWaitsOfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.config()
		c.Limits.Sockets = 5
		h := New(c)
		defer h.Close()
		decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
		var waits []<-chan *httptest.ResponseRecorder
		for range 5 {
			waits = append(waits, later(h, "/jobs_status?wait=60"))
		}
		synctest.Wait()
		watched := w.watched.Load()
		for _, path := range []string{"/unit_jobs/1?wait=1", "/jobs_status?wait=0.1", "/jobs_status?limit=1&wait=60",
			"/upscale_tasks/1?wait=60"} {
			begin := time.Now()
			a := <-later(h, path)
			failed(t, a, 429, "RATE_LIMITED")
			if a.Header().Get("Retry-After") == "" || time.Since(begin) > 0 || w.watched.Load() > watched {
				t.Errorf("%s: %v after %v, %d more watched", path, a.Header(), time.Since(begin),
					w.watched.Load()-watched)
			}
		}
		decode[any](t, ask(h, "GET", "/jobs_status", ""), 200)
		decode[any](t, <-later(h, "/jobs_status?wait=1", "Authorization", "Bearer token-bert"), 200)
		for _, answers := range waits {
			decode[any](t, <-answers, 200)
		}
		decode[any](t, <-later(h, "/jobs_status?wait=1"), 200)
		for range 5 {
			if _, err := h.(*api).EnterWait(anna); err != nil {
				t.Error("a place stays taken")
			}
		}
	})
}

// Jobs that are polled one by one are read once when one of them changes.
func TestPoll_ManyJobsAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 90
		w := newWorld()
		h := New(w.config())
		defer h.Close()
		var waits []<-chan *httptest.ResponseRecorder
		for n := range many {
			decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
			waits = append(waits, later(h, fmt.Sprintf("/unit_jobs/%d?wait=9", n+1)))
		}
		synctest.Wait()
		for n := range many {
			w.set(dispatch.JobID(n+1), func(r *dispatch.Record) { r.Status = dispatch.Running })
			synctest.Wait()
		}
		for _, answers := range waits {
			decode[any](t, <-answers, 200)
		}
		if w.reads > 2*many {
			t.Errorf("%d reads for %d jobs that changed once", w.reads, many)
		}
	})
}
