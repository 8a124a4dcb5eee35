package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// FillItems inserts Items of an owner whose jobs do not exist: tiles of a tenth of a degree in the north, each of a day
// of three years, 10,000 for each task, of which a tenth are in none. The label project is alps of a task and of 100
// single jobs, and the label all is yes of everything.
func FillItems(t testing.TB, s *Store, u dispatch.UserID, n int) {
	t.Helper()
	ctx, random := t.Context(), rand.New(rand.NewPCG(3, 4))
	off := "PRAGMA foreign_keys = OFF"
	if s.remote {
		off = `ALTER TABLE items DROP CONSTRAINT items_job_fkey; ALTER TABLE results DROP CONSTRAINT results_job_fkey;
			ALTER TABLE job_labels DROP CONSTRAINT job_labels_job_fkey;
			ALTER TABLE task_labels DROP CONSTRAINT task_labels_task_fkey`
	}
	if _, err := s.write.ExecContext(ctx, off); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"type":"Collection","assets":{"a":{"href":"https://x.example/a.tif","title":%q}}}`,
		make([]byte, 300))
	for first := 1; first <= n; first += 50_000 {
		err := s.in(allow(ctx, upkeepWithin), s.write, "FillItems", func(q tx, _ int64) error {
			items := newBulk(q, "items", "job", "owner", "task", "account", "platform", "service", "due", "place",
				"period", "west", "south", "east", "north", "begins", "ends")
			results := newBulk(q, "results", "job", "body", "head", "until")
			for id := first; id < first+50_000; id++ {
				west, south := float64(random.IntN(3600))/10-180, float64(random.IntN(600))/10
				at := time.Date(2023, 1, 1+random.IntN(1000), 0, 0, 0, 0, time.UTC).UnixMicro()
				if err := items.add(ctx, int64(id), string(u), taskOf(id), "p/shared", "p", int64(id%7), int64(0),
					placeOf([]float64{west, south, west + .1, south + .1}), cellOf(inTime(at), inTime(at)), west, south,
					west+.1, south+.1, at, at); err != nil {
					return err
				}
				if err := results.add(ctx, int64(id), body, `{"properties":{}}`, int64(0)); err != nil {
					return err
				}
			}
			if err := items.flush(ctx); err != nil {
				return err
			}
			return results.flush(ctx)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{
		`INSERT INTO task_labels (task, owner, name, value, created)
			SELECT DISTINCT task, owner, 'all', 'yes', 0 FROM items WHERE task > 0`,
		`INSERT INTO job_labels (job, owner, name, value, created)
			SELECT job, owner, 'all', 'yes', 0 FROM items WHERE task = 0`,
		"INSERT INTO task_labels (task, owner, name, value, created) SELECT 50, 'ann', 'project', 'alps', 0",
		`INSERT INTO job_labels (job, owner, name, value, created)
			SELECT job, owner, 'project', 'alps', 0 FROM items WHERE task = 0 AND job <= 1000`,
	} {
		if _, err := s.write.ExecContext(allow(ctx, upkeepWithin), text); err != nil {
			t.Fatal(err)
		}
	}
}

func taskOf(id int) int64 {
	if id%10 == 0 {
		return 0
	}
	return int64(1 + id/10_000)
}
