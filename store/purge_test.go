package store_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// TestPurge_InSmallTransactions: what users deleted is deleted in many transactions, between which others write, and
// nothing of it is left.
func TestPurge_InSmallTransactions(t *testing.T) {
	eachDatabase(t, func(t *testing.T, s conformance.Store, _ func()) {
		const jobs = 310
		ended := drafts(jobs)
		for i := range ended {
			ended[i].Phase, ended[i].Status = dispatch.Ended, dispatch.Finished
			ended[i].Document = &dispatch.Document{Origin: dispatch.Origin{Platform: "p"},
				Body: []byte(strconv.Itoa(i % 120))}
		}
		if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, ended); err != nil {
			t.Fatal(err)
		}
		for _, j := range ended[1:] {
			if _, err := s.Cancel(t.Context(), "ann", j.ID, true); err != nil {
				t.Fatal(err)
			}
		}
		task := &dispatch.Task{Owner: "ann", Account: "p/shared", Request: dispatch.Request{Parameters: []byte(`{}`)},
			Dimension: "d",
			Document:  &dispatch.Document{Origin: dispatch.Origin{Platform: "p"}, Body: []byte("task")}}
		if _, err := s.Accept(t.Context(), dispatch.Key{}, task, drafts(jobs)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CancelTask(t.Context(), "ann", task.ID, true); err != nil {
			t.Fatal(err)
		}
		_, transactions := store.Count(s.(*store.Store))
		if err := s.Purge(t.Context(), -time.Minute); err != nil {
			t.Fatal(err)
		}
		if n := transactions.Load(); n < 2*jobs/store.PurgedAtOnce {
			t.Errorf("%d jobs were deleted in %d transactions", 2*jobs, n)
		}
		for table, want := range map[string]int{"jobs": 1, "requests": 1, "definitions": 1, "documents": 1, "tasks": 0,
			"queue_counts": 0, "task_counts": 0} {
			if got := store.Rows(t, s.(*store.Store), table); got != want {
				t.Errorf("%d rows of %s", got, table)
			}
		}
	})
}
