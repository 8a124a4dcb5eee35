package histories

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// shownOf returns the view that the owner has of a task and its jobs, without the times of checks and queue positions.
// unsure means that the view depends on the time of the read.
func shownOf(t *testing.T, p *process, u dispatch.UserID, id dispatch.TaskID) (text string, unsure bool, err error) {
	var b strings.Builder
	task, err := p.Task(t.Context(), u, id)
	if err != nil {
		return "", false, err
	}
	fmt.Fprintln(&b, task.Counts, task.Progress, task.Attention)
	for j, err := range p.TaskJobs(t.Context(), u, id, dispatch.Page{}) {
		if err != nil {
			return "", false, err
		}
		unsure = unsure || j.TimeDependent()
		progress, costs := -1.0, -1.0
		if j.Progress != nil {
			progress = *j.Progress
		}
		if j.Costs != nil {
			costs = *j.Costs
		}
		fmt.Fprintln(&b, j.ID, j.Status, j.Ref, j.Attention, j.Notice, j.Failure, j.Updated, progress, costs)
	}
	return b.String(), unsure, nil
}

// TestRevisions_InRandomHistories checks that equal revisions of a task always have equal views.
func TestRevisions_InRandomHistories(t *testing.T) {
	equal, different := 0, 0
	for s := range share(30) {
		synctest.Test(t, func(t *testing.T) {
			r := &restoring{history: newHistory(t, s+1)}
			r.choose(3)
			r.jumps = false
			r.store = conformance.NewMemStore(r.clock)
			r.launch()
			var mu sync.Mutex
			shown := map[dispatch.TaskID]map[dispatch.Revision]string{}
			look := func(p *process, u dispatch.UserID, id dispatch.TaskID) {
				before, err := p.TaskRevision(t.Context(), u, id)
				text, unsure, failed := shownOf(t, p, u, id)
				after, again := p.TaskRevision(t.Context(), u, id)
				if err != nil || failed != nil || again != nil || unsure || before != after || after.TimeDependent > 0 {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if shown[id] == nil {
					shown[id] = map[dispatch.Revision]string{}
				}
				switch was, known := shown[id][after.Revision]; {
				case known && was != text:
					t.Errorf("seed %d: task %d has two views at revision %+v:\n%s\nand\n%s", s+1, id, after, was, text)
				case known:
					equal++
				default:
					different++
				}
				shown[id][after.Revision] = text
			}
			for range 12 {
				r.act(1)
				for range 40 {
					time.Sleep(700 * time.Millisecond)
					r.onTask(look)
					time.Sleep(time.Millisecond)
				}
			}
			r.rest()
			r.end()
		})
		if t.Failed() {
			return
		}
	}
	if equal == 0 || different == 0 {
		t.Errorf("%d reads returned a known revision and %d a new one, want some of each", equal, different)
	}
}
