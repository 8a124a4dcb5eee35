package store

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestForget_FindsRowsOfJobsByAnIndex: in no table with rows of jobs are all rows read for each job.
func TestForget_FindsRowsOfJobsByAnIndex(t *testing.T) {
	for name, dsn := range map[string]string{"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "d.db"),
		"PostgreSQL": postgres.Database(t)} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), dsn, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, table := range tablesOfJobs {
				if plan := deletionPlan(t, s, table); !strings.Contains(plan, "SEARCH "+table) &&
					!strings.Contains(plan, "Index") {
					t.Errorf("%s: %s", table, plan)
				}
			}
		})
	}
}

// TestForget_KnowsAllTables: no table with a column that tells whose its rows are is left out.
func TestForget_KnowsAllTables(t *testing.T) {
	s, err := Open(t.Context(), "sqlite::memory:", conformance.WallClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	type column struct{ table, name string }
	found, err := list(t.Context(), s.on(s.read), func(c *column) []any { return []any{&c.table, &c.name} }, `
		SELECT m.name, c.name
		FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND c.name IN ('owner', 'job', 'task')
		ORDER BY m.name`)
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string][]string{}
	for _, c := range found {
		columns[c.table] = append(columns[c.table], c.name)
	}
	var ofUsers, ofJobs, ofTasks []string
	for _, table := range slices.Sorted(maps.Keys(columns)) {
		switch {
		case slices.Contains(columns[table], "owner"):
			ofUsers = append(ofUsers, table)
		case slices.Contains(columns[table], "job"):
			ofJobs = append(ofJobs, table)
		default:
			ofTasks = append(ofTasks, table)
		}
	}
	for name, lists := range map[string][2][]string{"users": {ofUsers, tablesOfUsers}, "jobs": {ofJobs, tablesOfJobs},
		"tasks": {ofTasks, tablesOfTasks}} {
		if !slices.Equal(lists[0], lists[1]) {
			t.Errorf("tables of %s: %v, want %v", name, lists[1], lists[0])
		}
	}
}

// deletionPlan returns the plan of the deletion of a job's rows. PostgreSQL does not read a whole table, as it would a
// small one, if an index serves.
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

// TestForget_DeliveriesOfNoJob: what a hook gets about tasks, of sign-ins, as tests, and got about jobs that were
// purged since, belongs to its owner, too.
func TestForget_DeliveriesOfNoJob(t *testing.T) {
	for name, dsn := range map[string]string{"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "d.db"),
		"PostgreSQL": postgres.Database(t)} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), dsn, conformance.WallClock{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, text := range []string{
				"INSERT INTO hooks (id, owner, url, statuses, key, sealed, created) VALUES ('h', 'ann', '', '', '', " +
					"'', 1), ('o', 'bob', '', '', '', '', 1)",
				`INSERT INTO deliveries (hook, job, epoch, status, task, number, happened, queued, due) VALUES ('h', 0, 101, 'task_ended', 3, 0, 1, 1, 0),
				('h', 0, 1, 'sign_in_required', 0, 0, 1, 1, 0), ('h', 0, 1, 'test', 0, 0, 1, 1, 0),
				('h', 77, 1, 'finished', 0, 0, 1, 1, 0), ('o', 0, 1, 'test', 0, 0, 1, 1, 0)`,
			} {
				if _, err := s.write.ExecContext(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
			exported := map[string]int{}
			err = s.Export(t.Context(), "ann", func(o Owned) error { exported[o.Table]++; return nil })
			if err != nil || exported["deliveries"] != 4 {
				t.Errorf("exported: %v, %v", exported, err)
			}
			if deleted, _, err := s.Forget(t.Context(), "ann"); err != nil || deleted["deliveries"] != 4 ||
				deleted["hooks"] != 1 {
				t.Errorf("deleted: %v, %v", deleted, err)
			}
		})
	}
}
