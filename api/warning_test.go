package api

import (
	"encoding/json"
	"strings"
	"testing"
)

// The warning is shown for a job, for a task and for its jobs, alone and in lists. Without one the member is absent.
func TestWarning_IsShown(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
	addresses := []string{"/unit_jobs/1", "/upscale_tasks/1", "/jobs_status", "/jobs_status?limit=9",
		"/jobs_status?parameters=false"}
	for _, address := range addresses {
		if text := ask(h, "GET", address, "").Body.String(); strings.Contains(text, "warning") {
			t.Errorf("%s: %s", address, text)
		}
	}
	const warning = `Not checked in full: "odd".`
	for id, r := range w.jobs {
		r.Request.Warning = warning
		w.jobs[id] = r
	}
	task := w.tasks[1]
	task.Request.Warning = warning
	w.tasks[1] = task
	for _, address := range addresses[:2] {
		if got := decode[struct{ Warning string }](t, ask(h, "GET", address, ""), 200); got.Warning != warning {
			t.Errorf("%s has %q", address, got.Warning)
		}
	}
	shown, _ := json.Marshal(warning)
	for _, address := range addresses[2:] {
		text := ask(New(w.config()), "GET", address, "").Body.String()
		if n := strings.Count(text, `"warning":`+string(shown)); n != 2 {
			t.Errorf("%s has %d warnings: %s", address, n, text)
		}
	}
}
