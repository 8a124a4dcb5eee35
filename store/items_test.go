package store_test

import (
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestKeepItem_OfAJobThatIsDeletedMeanwhile: a job that its owner deletes while its results are stored has no Item. On
// SQLite nothing else is written meanwhile.
func TestKeepItem_OfAJobThatIsDeletedMeanwhile(t *testing.T) {
	dsn := postgres.Database(t)
	s := open(t, dsn, nil)
	job := acceptEnded(t, s, nil, 1, day)[0]
	end(t, s, &job.Job, dispatch.Finished, day)
	begun := begunElsewhere(t, dsn)
	for _, text := range []string{"UPDATE jobs SET hidden = TRUE", "DELETE FROM items"} {
		if _, err := begun.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	kept := make(chan error, 1)
	go func() {
		now := time.Now()
		kept <- s.KeepItem(t.Context(), dispatch.Item{Job: job.ID, Account: job.Account, First: now, Last: now})
	}()
	awaitBlocked(t, dsn)
	if err := begun.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-kept; err != nil {
		t.Fatal(err)
	}
	if n := store.Rows(t, s, "items"); n != 0 {
		t.Errorf("%d Items of a deleted job", n)
	}
}
