package openeo

import (
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TestBatchJob_UpdatedIsTheLastChangeOfTheStatus: what a platform reports after the end, such as costs, is no change of the status.
func TestBatchJob_UpdatedIsTheLastChangeOfTheStatus(t *testing.T) {
	ended, late := time.Unix(600, 0).UTC(), time.Unix(9000, 0).UTC()
	one := dispatch.Job{ID: 1, Status: dispatch.Finished, Moved: ended, Updated: late}
	var tally dispatch.Tally
	tally.Add(one)
	task := tally.CountsFor(dispatch.TaskRecord{})
	running := dispatch.Job{ID: 2, Status: dispatch.Running, Moved: ended, Updated: late}
	for name, c := range map[string]struct {
		is   entry
		want time.Time
	}{
		"job":           {entry{job: &dispatch.Record{Job: one}}, ended},
		"task":          {entry{task: &task}, ended},
		"a running job": {entry{job: &dispatch.Record{Job: running}}, late},
	} {
		if got := New(Config{}).batchJob(&request{}, c.is).Updated; !got.Equal(c.want) {
			t.Errorf("%s: updated %v, want %v", name, got, c.want)
		}
	}
}
