package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestAccept_SkipsIDsInUse: the counter of ids is behind, as after a failover that lost commits, both for the next
// process and for one with reserved ids. No request is refused because of that.
func TestAccept_SkipsIDsInUse(t *testing.T) {
	const back = `UPDATE ids SET last = 0`
	file, server := filepath.Join(t.TempDir(), "d.db"), postgres.Database(t)
	databases := map[string]func(){
		server: func() { postgres.Exec(t, server, back) },
		"sqlite:" + file: func() {
			if _, err := raw(t, file).Exec(back); err != nil {
				t.Fatal(err)
			}
		},
	}
	for dsn, setBack := range databases {
		given := map[dispatch.JobID]bool{}
		for range 2 {
			s := open(t, dsn, conformance.NewStillClock(start))
			for range 3 {
				accept(t, s, given)
				setBack()
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSkipIDs_ManyAtOnce: after the counters were set back, all requests at once find that their ids are in use.
func TestSkipIDs_ManyAtOnce(t *testing.T) {
	s := open(t, "sqlite::memory:", conformance.NewStillClock(start))
	skipped := make(chan error)
	const n = 8
	for range n {
		go func() {
			var err error
			for range 50 {
				err = errors.Join(err, s.SkipIDs(t.Context()))
			}
			skipped <- err
		}()
	}
	for range n {
		select {
		case err := <-skipped:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("they wait for each other")
		}
	}
}

// accept stores a job, and a task of 40, whose ids must be new.
func accept(t *testing.T, s *store.Store, given map[dispatch.JobID]bool) {
	t.Helper()
	for n, task := range map[int]*dispatch.Task{1: nil, 40: {Owner: "ann", Account: "p/shared",
		Request: dispatch.Request{Parameters: []byte(`{}`)}, Dimension: "d"}} {
		jobs := drafts(n)
		if _, err := s.Accept(t.Context(), dispatch.Key{}, task, jobs); err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if j.ID == 0 || given[j.ID] {
				t.Errorf("job %d a second time", j.ID)
			}
			given[j.ID] = true
		}
	}
}

// TestStart_SkipsIDsInUse: the counter of ids is behind. A job that waits to be started and whose id was given to
// another one is refused with the reason; those created from then on can be started.
func TestStart_SkipsIDsInUse(t *testing.T) {
	eachDatabase(t, func(t *testing.T, s conformance.Store, _ func()) {
		create := func(task bool) dispatch.Unstarted {
			t.Helper()
			n := dispatch.Unstarted{Owner: "ann", Account: "p/shared", Title: "t", Body: []byte(`{}`)}
			if err := s.CreateUnstarted(t.Context(), &n, task, time.Hour); err != nil {
				t.Fatal(err)
			}
			return n
		}
		lost := create(false)
		d := drafts(1)
		if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, d); err != nil {
			t.Fatal(err)
		}
		// as if the ids had been set back in between
		store.Exec(t, s.(*store.Store), fmt.Sprintf("UPDATE unstarted SET job = %d", d[0].ID))
		lost.ID.Job = d[0].ID
		if err := s.Start(t.Context(), lost, nil, drafts(1)); !dispatch.Is(err, dispatch.Conflict) ||
			!strings.Contains(dispatch.TextFor(err), "Create the job again") {
			t.Errorf("started under an id in use: %v", err)
		}
		for _, task := range []bool{false, true} {
			store.SetIDsBack(t, s.(*store.Store))
			n := create(task)
			if n.ID == lost.ID {
				t.Errorf("the id %v a second time", n.ID)
			}
			var whole *dispatch.Task
			if task {
				whole = &dispatch.Task{Owner: "ann", Account: "p/shared", Request: dispatch.Request{Parameters: []byte(`{}`)},
					Dimension: "d"}
			}
			if err := s.Start(t.Context(), n, whole, drafts(1)); err != nil {
				t.Errorf("task %v: %v", task, err)
			}
		}
		store.SetIDsBack(t, s.(*store.Store))
		for range 2 {
			run := dispatch.SyncRun{Owner: "ann", Account: "p/shared", Request: dispatch.Request{Parameters: []byte(`{}`)},
				Status: dispatch.Running}
			if err := s.BeginSyncRun(t.Context(), &run, time.Minute); err != nil {
				t.Error(err)
			}
			store.SetIDsBack(t, s.(*store.Store))
		}
	})
}
