package store

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestForget_FindsRowsOfJobsByAnIndex: in no table with rows of jobs are all rows read for each job.
func TestForget_FindsRowsOfJobsByAnIndex(t *testing.T) {
	for name, dsn := range map[string]string{"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "d.db"), "PostgreSQL": postgres.Database(t)} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), dsn, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			own, err := s.ownTables(t.Context())
			if err != nil || len(own.ofJobs) < 4 || len(own.ofTasks) < 2 {
				t.Fatalf("%+v, %v", own, err)
			}
			for _, table := range own.ofJobs {
				if plan := deletionPlan(t, s, table); !strings.Contains(plan, "SEARCH "+table) && !strings.Contains(plan, "Index") {
					t.Errorf("%s: %s", table, plan)
				}
			}
		})
	}
}

// deletionPlan returns the plan of the deletion of a job's rows. PostgreSQL does not read a whole table, as it would a small one, if an index serves.
func deletionPlan(t *testing.T, s *Store, table string) string {
	t.Helper()
	text := "DELETE FROM " + table + " WHERE job = 1"
	if !s.remote {
		return planOf(t, s, text)
	}
	c, err := s.write.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(t.Context(), "SET enable_seqscan = off"); err != nil {
		t.Fatal(err)
	}
	return linesOf(t, c, "EXPLAIN "+text)
}
