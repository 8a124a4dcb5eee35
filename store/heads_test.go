package store_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestLists_ReadNoLongRequest: lists show the titles of jobs and tasks with long requests without reading these: here
// the requests are not what they were when they were accepted. A read of one reads its request.
func TestLists_ReadNoLongRequest(t *testing.T) {
	for _, dsn := range []string{"sqlite:" + filepath.Join(t.TempDir(), "d.db"), postgres.Database(t)} {
		s := open(t, dsn, conformance.WallClock{})
		long := dispatch.Request{Title: "first",
			Parameters: json.RawMessage(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)}
		alone, ofTask := drafts(1), drafts(1)
		var err error
		if alone[0].Body, err = long.Encode(); err != nil {
			t.Fatal(err)
		}
		task := &dispatch.Task{Owner: "ann", Account: "p/shared", Request: long, Dimension: "d"}
		for parent, jobs := range map[*dispatch.Task][]dispatch.Draft{nil: alone, task: ofTask} {
			if _, err := s.Accept(t.Context(), dispatch.Key{}, parent, jobs); err != nil {
				t.Fatal(err)
			}
		}
		for _, column := range []string{"requests SET body", "tasks SET request"} {
			name := column[strings.LastIndex(column, " ")+1:]
			if err := store.Transact(t.Context(), s, func(q store.Querier) error {
				_, err := q.ExecContext(t.Context(), "UPDATE "+column+" = replace("+name+", 'first', 'later')")
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		page := dispatch.Page{Limit: 10, Most: dispatch.PartMost}
		jobs, err := s.Records(t.Context(), "ann", page)
		if err != nil || len(jobs) != 1 || jobs[0].Request.Title != "first" || !jobs[0].Cut {
			t.Errorf("%s: %+v, %v", dsn, jobs, err)
		}
		tasks, err := s.Tasks(t.Context(), "ann", page)
		if err != nil || len(tasks) != 1 || tasks[0].Request.Title != "first" {
			t.Errorf("%s: %+v, %v", dsn, tasks, err)
		}
		job, err := s.Record(t.Context(), "ann", alone[0].ID)
		if err != nil || job.Request.Title != "later" || len(job.Request.Parameters) != len(long.Parameters) {
			t.Errorf("%s: %.200v, %v", dsn, job, err)
		}
	}
}
