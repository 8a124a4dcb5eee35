package api

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

func (w *world) listed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists
}

// A task that has not changed is not read again for a client that has its ETag, nor while a client waits for a change.
// A change is sent with the body; the ETags equal those of a replica that has read everything.
func TestRevision_UnchangedTaskIsNotReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const path = "/upscale_tasks/1"
		w := newWorld()
		h := New(w.config())
		defer h.Close()
		decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
		tag := ask(h, "GET", path, "").Header().Get("ETag")
		same := func(query string, wait time.Duration) {
			t.Helper()
			begin := time.Now()
			a := <-later(h, query, "If-None-Match", tag)
			if a.Code != http.StatusNotModified || a.Header().Get("ETag") != tag || time.Since(begin) != wait {
				t.Errorf("%s: %d, ETag %q, after %v", query, a.Code, a.Header().Get("ETag"), time.Since(begin))
			}
			time.Sleep(3 * time.Second) // what was read is not kept for so long
		}
		for i := range dispatch.JobID(2) {
			time.Sleep(3 * time.Second)
			same(path, 0) // reads it with its revision
			before := w.listed()
			for range 5 {
				same(path, 0)
			}
			same(path+"?wait=50", 50*time.Second)
			touch(w, i+1)
			same(path, 0)
			if n := w.listed() - before; n > 0 {
				t.Errorf("a task that has not changed was read %d times", n)
			}
			if a := ask(h, "GET", path+"?wait=1", ""); a.Code != 200 || a.Header().Get("ETag") != tag ||
				len(decode[wire.UpscalingTask](t, a, 200).Jobs) == 0 {
				t.Errorf("without an ETag: %d %q", a.Code, a.Body)
			}

			w.set(i+1, func(r *dispatch.Record) { r.Status = dispatch.Running })
			a := ask(h, "GET", path, "", "If-None-Match", tag)
			if now := a.Header().Get("ETag"); a.Code != 200 || now == tag ||
				decode[wire.UpscalingTask](t, a, 200).Jobs[i].Status != "running" {
				t.Errorf("after a change: %d, ETag %q, %s", a.Code, now, a.Body)
			} else {
				tag = now
			}
			replica := New(w.config())
			if now := ask(replica, "GET", path, "").Header().Get("ETag"); now != tag {
				t.Errorf("another replica's ETag is %q, not %q", now, tag)
			}
			replica.Close()
		}
		if a := ask(h, "GET", "/upscale_tasks/9", "", "If-None-Match", tag); a.Code != 404 {
			t.Errorf("a task that does not exist: %d", a.Code)
		}
	})
}

// Responses that depend on the time of the read are read each time.
func TestRevision_UnsureTaskIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const path = "/upscale_tasks/1"
		w := newWorld()
		h := New(w.config())
		defer h.Close()
		decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
		w.set(1, func(r *dispatch.Record) { r.Phase, r.Status, r.Tries = dispatch.Started, dispatch.Running, 1 })
		tag := ask(h, "GET", path, "").Header().Get("ETag")
		for range 3 {
			time.Sleep(3 * time.Second)
			before := w.listed()
			if a := ask(h, "GET", path, "", "If-None-Match", tag); a.Code != http.StatusNotModified || w.listed() == before {
				t.Errorf("%d, read %d times", a.Code, w.listed()-before)
			}
		}
	})
}

// A task that changes while it is read does not count as unchanged afterwards: here its account's hold begins and ends
// meanwhile.
func TestRevision_ChangedMeanwhileIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const path = "/upscale_tasks/1"
		w := newWorld()
		h := New(w.config())
		defer h.Close()
		decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
		w.onList = func() { w.wakes++ }
		tag := ask(h, "GET", path, "").Header().Get("ETag")
		for range 3 {
			time.Sleep(3 * time.Second)
			before := w.listed()
			if a := ask(h, "GET", path, "", "If-None-Match", tag); a.Code != http.StatusNotModified || w.listed() == before {
				t.Errorf("%d, read %d times", a.Code, w.listed()-before)
			}
		}
	})
}
