package crashes

import (
	"database/sql"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/eodispatch/eodispatch/dispatch"
)

// row is the part of a job's row that the tests need.
type row struct {
	id        dispatch.JobID
	desired   dispatch.Desired
	phase     dispatch.Phase
	status    dispatch.Status
	attention dispatch.Attention
	ref       string
	orphans   string
}

// rests reports whether the job does not change any more without its owner: it has ended, or it is shown as
// submission_unknown because the broker cannot determine its outcome.
func (r row) rests() bool {
	return r.phase == dispatch.Ended && r.orphans == "" || r.attention == dispatch.SubmissionUnknown &&
		r.desired == dispatch.WantRun
}

// database opens a broker's database while the broker works.
func database(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	driver := "pgx"
	if file, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, dsn = "sqlite", "file:"+file+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func rowsOf(t testing.TB, db *sql.DB) (rows []row) {
	t.Helper()
	found, err := db.QueryContext(t.Context(),
		`SELECT id, desired, phase, status, attention, ref_id, orphans FROM jobs ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var r row
		if err := found.Scan(&r.id, &r.desired, &r.phase, &r.status, &r.attention, &r.ref, &r.orphans); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}
