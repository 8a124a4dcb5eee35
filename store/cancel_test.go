package store_test

import (
	"database/sql"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestCancelJobs_StatusChangesMeanwhile: a job that leaves the wanted status while the choice is read is not canceled.
// On SQLite no other process can write in between.
func TestCancelJobs_StatusChangesMeanwhile(t *testing.T) {
	dsn := postgres.Database(t)
	s := open(t, dsn, nil)
	task := &dispatch.Task{Owner: "ann", Account: "p/shared", Request: dispatch.Request{Parameters: []byte(`{}`)},
		Dimension: "d"}
	jobs := drafts(2)
	if _, err := s.Accept(t.Context(), dispatch.Key{}, task, jobs); err != nil {
		t.Fatal(err)
	}
	begun := begunElsewhere(t, dsn)
	if _, err := begun.Exec("UPDATE jobs SET phase = 'started', status = 'running', version = version + 1 WHERE id = "+
		"$1", jobs[0].ID); err != nil {
		t.Fatal(err)
	}
	canceled := make(chan int)
	go func() {
		c := dispatch.Choice{Jobs: []dispatch.JobID{jobs[0].ID, jobs[1].ID},
			Statuses: []dispatch.Status{dispatch.Accepted}}
		_, n, err := s.CancelJobs(t.Context(), "ann", task.ID, c)
		if err != nil {
			t.Error(err)
		}
		canceled <- n
	}()
	awaitBlocked(t, dsn)
	if err := begun.Commit(); err != nil {
		t.Fatal(err)
	}
	n := <-canceled
	records, err := s.TaskJobs(t.Context(), "ann", task.ID, dispatch.Page{})
	if err != nil || n != 1 || records[0].Desired != dispatch.WantRun || records[1].Status != dispatch.Canceled {
		t.Errorf("%d canceled, %v: %+v", n, err, records)
	}
}

// begunElsewhere returns a transaction of another process, which is rolled back when the test ends.
func begunElsewhere(t *testing.T, dsn string) *sql.Tx {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	begun, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = begun.Rollback() })
	return begun
}

// awaitBlocked waits until a transaction waits for the end of another.
func awaitBlocked(t *testing.T, dsn string) {
	t.Helper()
	postgres.Exec(t, dsn, `DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'transactionid' AND NOT l.granted AND a.datname = current_database()) LOOP
		PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$`)
}
