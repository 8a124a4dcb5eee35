package store_test

import (
	"path/filepath"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestAccept_SkipsIDsInUse: the counter of ids is behind, as after a failover that lost commits, both for the next process and
// for one with reserved ids. No request is refused because of that.
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
			s := open(t, dsn, &clock{now: start})
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

// accept stores a job, and a task of 40, whose ids must be new.
func accept(t *testing.T, s *store.Store, given map[dispatch.JobID]bool) {
	t.Helper()
	for n, task := range map[int]*dispatch.Task{1: nil, 40: {Owner: "ann", Account: "p/shared", Request: dispatch.Request{Parameters: []byte(`{}`)}, Dimension: "d"}} {
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
