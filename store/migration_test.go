package store_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// newer are the migrations of a program that is newer than this one: a column, and an index that is created beside
// work.
var newer = map[string]string{
	"sqlite/00002_made_up.sql": `-- +goose Up
ALTER TABLE jobs ADD COLUMN made_up BIGINT NOT NULL DEFAULT 0;
CREATE INDEX jobs_made_up ON jobs (made_up) WHERE made_up <> 0;`,
	"postgres/00002_made_up.sql": `-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE jobs ADD COLUMN IF NOT EXISTS made_up BIGINT NOT NULL DEFAULT 0;
DROP INDEX CONCURRENTLY IF EXISTS jobs_made_up;
CREATE INDEX CONCURRENTLY jobs_made_up ON jobs (made_up) WHERE made_up <> 0;`,
}

// TestMigrate_SQLite: a newer program brings the database up to date, and this one does not open it any more.
func TestMigrate_SQLite(t *testing.T) {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "d.db")
	s := open(t, dsn, conformance.NewStillClock(start))
	if before, now := s.Schema(); before != 0 || now != 1 {
		t.Errorf("a new database has schema %d, had %d", now, before)
	}
	kept := acceptOne(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkNewer(t, dsn, kept)
	refusesNewer(t, dsn, "Start eodispatch 9.9.9, or a newer one.")
	s, err := store.OpenWith(t.Context(), dsn, conformance.NewStillClock(start), "9.9.9", newer)
	if err != nil {
		t.Fatal(err)
	}
	store.Exec(t, s, "DELETE FROM settings WHERE name = 'migrated by'")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	refusesNewer(t, dsn, "Start a newer eodispatch.")
}

// TestMigrate_PostgreSQLBesideAWorkingStore: while a newer program waits for a lock on a table, and while it creates an
// index, which waits for a transaction that began before, this one accepts jobs. It goes on after that, and is not
// started again.
func TestMigrate_PostgreSQLBesideAWorkingStore(t *testing.T) {
	dsn := postgres.Database(t)
	s := open(t, dsn, nil)
	kept := acceptOne(t, s)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	reader := holding(t, db, sql.LevelRepeatableRead, "SELECT count(*) FROM accounts")
	writer := holding(t, db, sql.LevelDefault, "UPDATE jobs SET notice = 'locked'")

	migrated := make(chan error, 1)
	go func() {
		newer, err := store.OpenWith(t.Context(), dsn, nil, "9.9.9", newer)
		if err == nil {
			err = newer.Close()
		}
		migrated <- err
	}()
	awaitLock(t, db, "ALTER TABLE jobs%")
	acceptOne(t, s)
	if err := writer.Commit(); err != nil {
		t.Fatal(err)
	}
	awaitLock(t, db, "CREATE INDEX CONCURRENTLY%")
	acceptOne(t, s)
	if err := reader.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	var valid bool
	err = db.QueryRow("SELECT indisvalid FROM pg_index WHERE indexrelid = 'jobs_made_up'::regclass").Scan(&valid)
	if err != nil || !valid {
		t.Errorf("the index is valid: %v; error %v", valid, err)
	}
	checkNewer(t, dsn, kept)
	acceptOne(t, s)
	if _, err := s.Record(t.Context(), "ann", kept); err != nil {
		t.Error(err)
	}
	refusesNewer(t, dsn, "Start eodispatch 9.9.9, or a newer one.")
}

// acceptOne stores a job within a minute.
func acceptOne(t *testing.T, s *store.Store) dispatch.JobID {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	jobs := drafts(1)
	if _, err := s.Accept(ctx, dispatch.Key{}, nil, jobs); err != nil {
		t.Fatal(err)
	}
	return jobs[0].ID
}

// holding begins a transaction with a statement.
func holding(t *testing.T, db *sql.DB, level sql.IsolationLevel, statement string) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.Exec(statement); err != nil {
		t.Fatal(err)
	}
	return tx
}

// awaitLock waits until a statement waits for a lock.
func awaitLock(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	const waiting = `SELECT EXISTS (SELECT 1 FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE $1)`
	deadline := time.Now().Add(time.Minute)
	for waits := false; !waits; {
		if err := db.QueryRow(waiting, statement).Scan(&waits); err != nil || time.Now().After(deadline) {
			t.Fatalf("%s does not wait; error %v", statement, err)
		}
	}
}

// checkNewer opens the database by the newer program, and reads a job of this one.
func checkNewer(t *testing.T, dsn string, id dispatch.JobID) {
	t.Helper()
	s, err := store.OpenWith(t.Context(), dsn, conformance.NewStillClock(start), "9.9.9", newer)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, now := s.Schema(); now != 2 {
		t.Errorf("schema %d", now)
	}
	if _, err := s.Record(t.Context(), "ann", id); err != nil {
		t.Error(err)
	}
	store.Exec(t, s, "UPDATE jobs SET made_up = 1")
}

// refusesNewer checks that this program does not open the database, and says which one does.
func refusesNewer(t *testing.T, dsn, advice string) {
	t.Helper()
	_, err := store.Open(t.Context(), dsn, conformance.NewStillClock(start), "1.0.0")
	if text := dispatch.TextFor(err); !dispatch.Is(err, dispatch.Misconfigured) ||
		!strings.Contains(text, "has schema 2") ||
		!strings.Contains(text, "knows schemas up to 1. "+advice) {
		t.Errorf("error %v", err)
	}
	if _, err := store.OpenToRead(t.Context(), dsn, conformance.NewStillClock(start)); !dispatch.Is(err,
		dispatch.Misconfigured) {
		t.Errorf("opened to read: %v", err)
	}
}
