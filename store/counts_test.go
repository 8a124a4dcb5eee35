package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// manyJobs inserts jobs of which every tenth waits, every tenth runs, and the others have ended; some belong to no task
// or are hidden, and they differ in progress, costs and bytes. %d: from and to which id, and when they were created, in
// microseconds.
const manyJobs = `INSERT INTO accounts (id, platform) VALUES ('p/shared', 'p') ON CONFLICT (id) DO NOTHING;
	WITH RECURSIVE n (id) AS (SELECT CAST(%[1]d AS BIGINT) UNION ALL SELECT id + 1 FROM n WHERE id < %[2]d)
	INSERT INTO jobs (id, task, number, owner, account, base, desired, phase, status, due, awaited, created, updated, moved, hidden, progress, costs, bytes)
	SELECT id, CASE id %% 7 WHEN 0 THEN 0 ELSE id / 10000 + 1 END, id, 'ann', 'p/shared', '', 'run',
		CASE id %% 10 WHEN 0 THEN 'waiting' WHEN 1 THEN 'started' ELSE 'ended' END,
		CASE id %% 10 WHEN 0 THEN 'created' WHEN 1 THEN 'running' ELSE 'finished' END, 0, FALSE, %[3]d, 1, 1, id %% 13 = 2,
		CASE WHEN id %% 3 = 0 THEN (id %% 101) * 0.37 END, CASE WHEN id %% 5 = 2 THEN id * 0.1 END, id %% 11 FROM n`

// countedDatabase is a database of a working store, and what changes its tables by hand.
type countedDatabase struct {
	*store.Store
	dsn  string
	now  time.Time // on the clock of the store
	exec func(statement string)
}

// insert inserts many jobs that were just created.
func (d countedDatabase) insert(from, to int) {
	d.exec(fmt.Sprintf(manyJobs, from, to, d.now.Add(-time.Hour).UnixMicro()))
}

// countedDatabases returns a new database of each kind.
func countedDatabases(t testing.TB) map[string]countedDatabase {
	file, server := filepath.Join(t.TempDir(), "d.db"), postgres.Database(t)
	lite := "sqlite:" + file
	return map[string]countedDatabase{
		"PostgreSQL": {open(t, server, nil), server, time.Now(), func(statement string) {
			postgres.Exec(t, server, statement)
		}},
		"SQLite": {open(t, lite, conformance.NewStillClock(start)), lite, start, func(statement string) {
			db, err := sql.Open("sqlite", file)
			if err == nil {
				_, err = db.Exec(statement)
				_ = db.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	}
}

// checkMany checks the counts of waiting and of running jobs.
func checkMany(t testing.TB, s *store.Store, waiting, running int) {
	t.Helper()
	conformance.CheckCounts(t, s)
	infos, err := s.AccountInfo(t.Context(), "ann", []dispatch.Account{"p/shared"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(infos[0].Waiting, infos[0].Held, infos[0].Queue), fmt.Sprint(waiting, running,
		waiting); got != want {
		t.Errorf("waiting, held, queue: %s, want %s", got, want)
	}
}

// TestCorrectCounts_TwoAtOnce: each adds only what is missing after the other.
func TestCorrectCounts_TwoAtOnce(t *testing.T) {
	db := countedDatabases(t)["PostgreSQL"]
	db.insert(1, 1000)
	db.exec("UPDATE queue_counts SET held = held + 7; UPDATE account_counts SET held = held - 7")
	blocker, err := sql.Open("pgx", db.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer blocker.Close()
	begun, err := blocker.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer begun.Rollback()
	if _, err := begun.Exec("LOCK TABLE queue_counts IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	for range 2 {
		go func() { _, err := db.CorrectCounts(t.Context()); ended <- err }()
	}
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = " +
		"'Lock'"
	for n, deadline := 0, time.Now().Add(time.Minute); n < 2; {
		if err := blocker.QueryRow(waiting).Scan(&n); err != nil || time.Now().After(deadline) {
			t.Fatal("the corrections were not found waiting", err)
		}
	}
	if err := errors.Join(begun.Rollback(), <-ended, <-ended); err != nil {
		t.Fatal(err)
	}
	checkMany(t, db.Store, 100, 100)
}

// TestCorrectCounts_MendsWhatWasChangedByHand, on a database that is in use.
func TestCorrectCounts_MendsWhatWasChangedByHand(t *testing.T) {
	for name, db := range countedDatabases(t) {
		t.Run(name, func(t *testing.T) {
			db.insert(1, 100)
			if _, err := db.CorrectCounts(t.Context()); err != nil {
				t.Fatal(err)
			}
			db.exec(
				`UPDATE queue_counts SET held = held + 7; DELETE FROM account_counts; UPDATE owner_counts SET bytes = bytes - 1, priced = 3;
				UPDATE task_counts SET progress = 5 WHERE status = 'running'; INSERT INTO task_counts VALUES (77, 'failed', 0, 1)`)
			wrong, err := db.WrongCounts(t.Context())
			if err != nil || wrong != 6 {
				t.Errorf("%d counts are wrong, want 6; error %v", wrong, err)
			}
			if corrected, err := db.CorrectCounts(t.Context()); err != nil || corrected != 6 {
				t.Errorf("%d counts were corrected, want 6; error %v", corrected, err)
			}
			checkMany(t, db.Store, 10, 10)
		})
	}
}

// BenchmarkPerformanceOfCounting inserts 1,000,000 jobs, and compares their counts.
func BenchmarkPerformanceOfCounting(b *testing.B) {
	for name, db := range countedDatabases(b) {
		b.Run(name, func(b *testing.B) {
			db.insert(1, 1_000_000)
			if _, err := db.CorrectCounts(b.Context()); err != nil {
				b.Fatal(err)
			}
			begun := time.Now()
			wrong, err := db.WrongCounts(b.Context())
			if b.ReportMetric(time.Since(begun).Seconds(), "s-to-check"); wrong != 0 || err != nil {
				b.Errorf("%d counts are wrong; error %v", wrong, err)
			}
		})
	}
}
