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

// manyJobs inserts jobs as a program that keeps no counts does, of which every tenth waits, every tenth runs, and the others have
// ended; some belong to no task or are hidden, and they differ in progress, costs and bytes. %d: from and to which id, and when they were
// created, in microseconds.
const manyJobs = `WITH RECURSIVE n (id) AS (SELECT CAST(%[1]d AS BIGINT) UNION ALL SELECT id + 1 FROM n WHERE id < %[2]d)
	INSERT INTO jobs (id, task, number, owner, account, base, desired, phase, status, due, awaited, created, updated, moved, hidden, progress, costs, bytes)
	SELECT id, CASE id %% 7 WHEN 0 THEN 0 ELSE id / 10000 + 1 END, id, 'ann', 'p/shared', '', 'run',
		CASE id %% 10 WHEN 0 THEN 'waiting' WHEN 1 THEN 'started' ELSE 'ended' END,
		CASE id %% 10 WHEN 0 THEN 'created' WHEN 1 THEN 'running' ELSE 'finished' END, 0, FALSE, %[3]d, 1, 1, id %% 13 = 2,
		CASE WHEN id %% 3 = 0 THEN (id %% 101) * 0.37 END, CASE WHEN id %% 5 = 2 THEN id * 0.1 END, id %% 11 FROM n`

// lastVersion is the schema before counts were kept, and triggered the one that installs the triggers that keep them.
const lastVersion, triggered = 28, 49

// oldDatabase is a database of an earlier version.
type oldDatabase struct {
	dsn  string
	now  time.Time // on the clock of its store
	exec func(statement string)
}

// insert inserts many jobs that were just created.
func (d oldDatabase) insert(from, to int) {
	d.exec(fmt.Sprintf(manyJobs, from, to, d.now.Add(-time.Hour).UnixMicro()))
}

// oldDatabases returns a database of each kind with the schema of a version.
func oldDatabases(t testing.TB, version int64) map[string]oldDatabase {
	file, server := filepath.Join(t.TempDir(), "d.db"), postgres.Database(t)
	of := map[string]oldDatabase{
		"PostgreSQL": {server, time.Now(), func(statement string) { postgres.Exec(t, server, statement) }},
		"SQLite": {"sqlite:" + file, start, func(statement string) {
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
	for _, db := range of {
		store.MigrateTo(t, db.dsn, version)
	}
	return of
}

// TestMigration_CountsJobsOfTheLastVersion, including those that its program stores until the migration is complete.
func TestMigration_CountsJobsOfTheLastVersion(t *testing.T) {
	for name, db := range oldDatabases(t, lastVersion) {
		t.Run(name, func(t *testing.T) {
			db.insert(1, 1000)
			store.MigrateTo(t, db.dsn, triggered)
			db.insert(1001, 2000)
			db.exec("UPDATE jobs SET phase = 'ended', status = 'canceled' WHERE id % 20 = 0; DELETE FROM jobs WHERE id % 50 = 3")
			s := open(t, db.dsn, &clock{now: start})
			checkMany(t, s, 100, 200)
			checkLately(t, s, 2000-40)
		})
	}
}

// TestMigration_ReplacesTriggers of a database that has triggers and counts already.
func TestMigration_ReplacesTriggers(t *testing.T) {
	for name, db := range oldDatabases(t, triggered+1) {
		t.Run(name, func(t *testing.T) {
			db.insert(1, 1000)
			db.exec(fmt.Sprintf("DELETE FROM goose_db_version WHERE version_id >= %d", triggered))
			store.MigrateTo(t, db.dsn, triggered)
			db.insert(1001, 2000)
			db.exec("UPDATE jobs SET paused = TRUE WHERE id % 20 = 0")
			checkMany(t, open(t, db.dsn, &clock{now: start}), 100, 200)
		})
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
	if got, want := fmt.Sprint(infos[0].Waiting, infos[0].Held, infos[0].Queue), fmt.Sprint(waiting, running, waiting); got != want {
		t.Errorf("waiting, held, queue: %s, want %s", got, want)
	}
}

// checkLately checks how many jobs count for a quota of a day.
func checkLately(t *testing.T, s *store.Store, want int) {
	t.Helper()
	infos, err := s.AccountInfo(t.Context(), "ann", []dispatch.Account{""}, nil)
	if err != nil || infos[0].Lately != want {
		t.Errorf("%d jobs of the last day, want %d; error %v", infos[0].Lately, want, err)
	}
}

// TestCounts_OfStatementsWithAnotherSearchPath, as a restore from a dump sends them.
func TestCounts_OfStatementsWithAnotherSearchPath(t *testing.T) {
	db := oldDatabases(t, lastVersion)["PostgreSQL"]
	db.insert(1, 1000)
	s := open(t, db.dsn, nil)
	db.exec("SET search_path = ''; UPDATE public.jobs SET phase = 'ended', status = 'canceled' WHERE id % 20 = 0")
	checkMany(t, s, 50, 100)
}

// TestCorrectCounts_TwoAtOnce: each adds only what is missing after the other.
func TestCorrectCounts_TwoAtOnce(t *testing.T) {
	db := oldDatabases(t, lastVersion)["PostgreSQL"]
	db.insert(1, 1000)
	s := open(t, db.dsn, nil)
	db.exec("UPDATE line_counts SET held = held + 7; UPDATE account_counts SET held = held - 7")
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
	if _, err := begun.Exec("LOCK TABLE line_counts IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	for range 2 {
		go func() { _, err := s.CorrectCounts(t.Context()); ended <- err }()
	}
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	for n, deadline := 0, time.Now().Add(time.Minute); n < 2; {
		if err := blocker.QueryRow(waiting).Scan(&n); err != nil || time.Now().After(deadline) {
			t.Fatal("the corrections were not found waiting", err)
		}
	}
	if err := errors.Join(begun.Rollback(), <-ended, <-ended); err != nil {
		t.Fatal(err)
	}
	checkMany(t, s, 100, 100)
}

// TestMigration_OfCountsIsInterrupted ends the connection that counts the jobs, and lets another process store jobs before the
// migration is repeated.
func TestMigration_OfCountsIsInterrupted(t *testing.T) {
	db := oldDatabases(t, lastVersion)["PostgreSQL"]
	db.insert(1, 1000)
	store.MigrateTo(t, db.dsn, triggered)
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
	if _, err := begun.Exec("LOCK TABLE task_counts IN EXCLUSIVE MODE"); err != nil { // the counting of the other tables is done by then
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		s, err := store.Open(t.Context(), db.dsn, nil)
		if err == nil {
			_ = s.Close()
		}
		ended <- err
	}()
	const terminate = `SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO task_counts%') AS t`
	for n, deadline := 0, time.Now().Add(time.Minute); n == 0; {
		if err := blocker.QueryRow(terminate).Scan(&n); err != nil || time.Now().After(deadline) {
			t.Fatal("the migration was not found waiting", err)
		}
	}
	if err := <-ended; err == nil {
		t.Fatal("an interrupted migration succeeded")
	}
	if err := begun.Rollback(); err != nil {
		t.Fatal(err)
	}
	db.insert(1001, 2000)
	checkMany(t, open(t, db.dsn, nil), 200, 200)
}

// TestCorrectCounts_MendsWhatWasChangedByHand, on a database that is in use.
func TestCorrectCounts_MendsWhatWasChangedByHand(t *testing.T) {
	for name, db := range oldDatabases(t, lastVersion) {
		t.Run(name, func(t *testing.T) {
			db.insert(1, 100)
			s := open(t, db.dsn, &clock{now: start})
			db.exec(`UPDATE line_counts SET held = held + 7; DELETE FROM account_counts; UPDATE owner_counts SET bytes = bytes - 1, priced = 3;
				UPDATE task_counts SET progress = 5 WHERE status = 'running'; INSERT INTO task_counts VALUES (77, 'failed', 0, 1, 0, 0, 0, 0)`)
			wrong, err := s.WrongCounts(t.Context())
			if err != nil || wrong != 6 {
				t.Errorf("%d counts are wrong, want 6; error %v", wrong, err)
			}
			if corrected, err := s.CorrectCounts(t.Context()); err != nil || corrected != 6 {
				t.Errorf("%d counts were corrected, want 6; error %v", corrected, err)
			}
			checkMany(t, s, 10, 10)
		})
	}
}

// BenchmarkPerformanceOfCounting migrates a database of the last version with 1,000,000 jobs, which counts them, and counts them again.
func BenchmarkPerformanceOfCounting(b *testing.B) {
	for name, db := range oldDatabases(b, lastVersion) {
		db.insert(1, 1_000_000)
		b.Run(name, func(b *testing.B) {
			begun := time.Now()
			s := open(b, db.dsn, &clock{now: start})
			b.ReportMetric(time.Since(begun).Seconds(), "s-to-migrate")
			begun = time.Now()
			wrong, err := s.WrongCounts(b.Context())
			if b.ReportMetric(time.Since(begun).Seconds(), "s-to-check"); wrong != 0 || err != nil {
				b.Errorf("%d counts are wrong; error %v", wrong, err)
			}
		})
	}
}
