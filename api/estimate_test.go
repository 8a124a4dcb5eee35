package api

import (
	"strings"
	"testing"
)

// A request for a job or for a task is estimated, nothing is stored, and faults are reported as for its submission.
func TestEstimate_OfJobsAndTasks(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	job := strings.TrimSuffix(strings.TrimSpace(goodBody), "}")
	is := decode[Estimate](t, ask(h, "POST", "/estimate", goodBody), 200)
	if is.Jobs != 1 || is.Costs == nil || *is.Costs != (Spread{1, 2, 4}) || is.CostUnit != "credits" || is.CostRuns != 7 || is.Seconds != nil || is.SecondsRuns != 2 {
		t.Errorf("job %+v", is)
	}
	is = decode[Estimate](t, ask(h, "POST", "/estimate", job+`, "dimension": {"name": "tile", "values": [1, 2, 3]}}`), 200)
	if is.Jobs != 3 || len(w.jobs) != 0 {
		t.Errorf("task %+v, %d jobs stored", is, len(w.jobs))
	}
	failed(t, ask(h, "POST", "/estimate", job+`, "dimension": {"name": "tile", "values": []}}`), 422, "VALIDATION_ERROR")
}
