package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// changesOf reads what changed of ann's jobs after a number.
func changesOf(t *testing.T, s *store.Store, n int64) dispatch.ChangedPage {
	t.Helper()
	c, err := s.ChangesSince(t.Context(), "ann", 0, dispatch.AfterNumber(n), dispatch.Page{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// accepted returns a new job of an owner.
func accepted(t *testing.T, s *store.Store, u dispatch.UserID) dispatch.Job {
	t.Helper()
	jobs := drafts(1)
	jobs[0].Owner = u
	if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, jobs); err != nil {
		t.Fatal(err)
	}
	return jobs[0].Job
}

// TestNumbers_AnUnreadableRequest: a read of changes that fails after some of them is an error, and does not panic.
func TestNumbers_AnUnreadableRequest(t *testing.T) {
	s := open(t, "sqlite:"+filepath.Join(t.TempDir(), "d.db"), conformance.WallClock{})
	accepted(t, s, "ann")
	n := changesOf(t, s, 0).Number
	accepted(t, s, "ann")
	broken := accepted(t, s, "ann")
	if err := store.Transact(t.Context(), s, func(q store.Querier) error {
		_, err := q.ExecContext(t.Context(), "UPDATE requests SET body = '{' WHERE job = $1", broken.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if c, err := s.ChangesSince(t.Context(), "ann", 0, dispatch.AfterNumber(n), dispatch.Page{}); err == nil {
		t.Errorf("%+v", c)
	}
}

// TestNumbers_BecomeVisibleInOrder: who takes a number while a transaction with an earlier one is not committed waits
// for that, and only the owner's own transactions do. Otherwise a reader would go on from the later number, and miss
// what the earlier one stands for.
func TestNumbers_BecomeVisibleInOrder(t *testing.T) {
	dsn := postgres.Database(t)
	s := open(t, dsn, nil)
	job, others := accepted(t, s, "ann"), accepted(t, s, "bob")
	n := changesOf(t, s, 0).Number
	taken, commit, saved := make(chan bool), make(chan bool), make(chan error, 2)
	go func() {
		saved <- store.Transact(t.Context(), s, func(q store.Querier) error {
			_, err := q.ExecContext(t.Context(), "UPDATE owners SET change = change + 1 WHERE owner = 'ann'")
			close(taken)
			<-commit
			return err
		})
	}()
	<-taken
	save := func(j dispatch.Job) error {
		j.Notice = "n"
		_, err := s.Save(t.Context(), []dispatch.Job{j})
		return err
	}
	if err := save(others); err != nil {
		t.Fatal(err)
	}
	go func() { saved <- save(job) }()
	postgres.Exec(t, dsn, `DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock') LOOP
		PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$`)
	if c := changesOf(t, s, n); c.Number != n || len(c.Changed) > 0 {
		t.Errorf("seen before the commit: %+v", c)
	}
	close(commit)
	for range 2 {
		if err := <-saved; err != nil {
			t.Fatal(err)
		}
	}
	if c := changesOf(t, s, n); c.Number != n+2 || len(c.Changed) != 1 || c.Changed[0].Number != n+2 {
		t.Errorf("after %d: %+v", n, c)
	}
}

// TestNumbers_OfWhatAges: jobs whose parameters were deleted by age have changed, and of those that were deleted
// readers learn that they have to begin anew.
func TestNumbers_OfWhatAges(t *testing.T) {
	c := conformance.NewStillClock(start)
	s := open(t, "sqlite::memory:", c)
	j := accepted(t, s, "ann")
	j.Phase, j.Status, j.Moved = dispatch.Ended, dispatch.Finished, start
	if _, err := s.Save(t.Context(), []dispatch.Job{j}); err != nil {
		t.Fatal(err)
	}
	n := changesOf(t, s, 0).Number
	c.Pass(2 * time.Hour)
	for range 2 { // the second time nothing changes
		if err := s.Retain(t.Context(), dispatch.Retention{Requests: time.Hour}); err != nil {
			t.Fatal(err)
		}
		found := changesOf(t, s, n)
		if found.Number != n+1 || len(found.Changed) != 1 || !found.Changed[0].Record.Pruned {
			t.Errorf("pruned: %+v", found)
		}
	}
	if err := s.Retain(t.Context(), dispatch.Retention{Jobs: time.Hour}); err != nil {
		t.Fatal(err)
	}
	gone := changesOf(t, s, n+1)
	if !gone.Anew || gone.Number <= n+1 {
		t.Errorf("deleted: %+v", gone)
	}

	if _, _, err := s.Forget(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	if c := changesOf(t, s, 0); c.Number != 0 {
		t.Errorf("forgotten: %+v", c)
	}
	accepted(t, s, "ann")
	if c := changesOf(t, s, gone.Number); !c.Anew || c.Number <= gone.Number {
		t.Errorf("after number %d: %+v", gone.Number, c)
	}
}
