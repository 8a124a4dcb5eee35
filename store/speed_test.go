package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatchtest/postgres"
)

// A hundred thousand waiting jobs must not slow the look at what is next. The bounds leave room for the race detector
// and for a machine that does other things.
func TestManyJobs(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		s := open(t, "sqlite:"+filepath.Join(t.TempDir(), "d.db"), &clock{now: start})
		fill(t, s, 10)
		look(t, s)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url := postgres.Database(t)
		s := open(t, url, nil)
		fill(t, s, 10)
		postgres.Exec(t, url, "ANALYZE") // as the server does within a minute of such a change
		look(t, s)
	})
}

// fill accepts tasks of 10,000 jobs.
func fill(t testing.TB, s dispatch.Store, tasks int) {
	t.Helper()
	for range tasks {
		task := &dispatch.Task{Owner: "ann", Account: "p/shared", Request: dispatch.Request{Parameters: []byte(`{}`)}, Dimension: "d"}
		jobs := drafts(10_000)
		for i := range jobs {
			jobs[i].Body = []byte(`{"type":"Polygon","coordinates":[[[1,2],[3,4],[5,6],[1,2]]]}`)
		}
		began := time.Now()
		if _, err := s.Accept(t.Context(), dispatch.Key{}, task, jobs); err != nil {
			t.Fatal(err)
		}
		t.Logf("10,000 jobs accepted in %v", time.Since(began))
	}
}

// look looks at an account as a visit does, ten times.
func look(t testing.TB, s dispatch.Store) {
	t.Helper()
	began := time.Now()
	for range 10 {
		g, err := s.Agenda(t.Context(), "p/shared", 100)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Ready(t.Context(), "p/shared", g.Lines[0], 8); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began) / 10
	t.Logf("an agenda in %v", took)
	if took > 200*time.Millisecond {
		t.Errorf("an agenda took %v", took)
	}
}
