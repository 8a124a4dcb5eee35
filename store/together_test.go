package store_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// counting opens a store whose statements are counted.
func counting(t *testing.T) (*store.Store, *int) {
	t.Helper()
	s := open(t, "sqlite:"+filepath.Join(t.TempDir(), "d.db"), conformance.NewStillClock(start))
	n := new(int)
	s.Trace(func(ctx context.Context, name string) (context.Context, func(error)) {
		*n++
		return ctx, func(error) {}
	})
	return s, n
}

// TestTasks_ReadsBudgetsTogether: what the tasks of a page have spent takes no statements for each of them.
func TestTasks_ReadsBudgetsTogether(t *testing.T) {
	s, statements := counting(t)
	var took []int
	for _, more := range []int{3, 30} {
		for range more {
			task := tasked()
			task.Budget = dispatch.Budget{Amount: 1, Unit: "credits"}
			jobs := drafts(1)
			jobs[0].Budgeted = true
			if _, err := s.Accept(t.Context(), dispatch.Key{}, task, jobs); err != nil {
				t.Fatal(err)
			}
		}
		*statements = 0
		page, err := s.Tasks(t.Context(), "ann", dispatch.Page{Limit: 100, Most: -1})
		if err != nil || page[0].Spending == nil {
			t.Fatalf("%+v, %v", page, err)
		}
		took = append(took, *statements)
	}
	if took[0] != took[1] {
		t.Errorf("3 tasks took %d statements, 33 took %d", took[0], took[1])
	}
}

// TestRetryTask_ReadsNamedJobsTogether: the jobs that a change of a task names take one statement each, which
// writes it: all that is read and counted of them takes statements for all.
func TestRetryTask_ReadsNamedJobsTogether(t *testing.T) {
	s, statements := counting(t)
	task, jobs := tasked(), drafts(300)
	for i := range jobs {
		jobs[i].Phase, jobs[i].Status = dispatch.Ended, dispatch.Failed
	}
	if _, err := s.Accept(t.Context(), dispatch.Key{}, task, jobs); err != nil {
		t.Fatal(err)
	}
	var all dispatch.Choice
	for _, j := range jobs {
		all.Jobs = append(all.Jobs, j.ID)
	}
	*statements = 0
	if _, n, err := s.RetryTask(t.Context(), "ann", task.ID, all); err != nil || n != len(jobs) {
		t.Fatalf("%d jobs were retried: %v", n, err)
	}
	if *statements > len(jobs)+100 {
		t.Errorf("%d statements for %d jobs", *statements, len(jobs))
	}
}
