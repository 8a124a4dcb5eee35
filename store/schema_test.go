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
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestOpen_RefusesANewerSchema, and names the required version of the program.
func TestOpen_RefusesANewerSchema(t *testing.T) {
	const newer = `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, TRUE)`
	file := filepath.Join(t.TempDir(), "d.db")
	databases := map[string]func(){
		"sqlite:" + file: func() {
			if _, err := raw(t, file).Exec(newer); err != nil {
				t.Fatal(err)
			}
		},
	}
	server := postgres.Database(t)
	databases[server] = func() { postgres.Exec(t, server, newer) }
	for dsn, update := range databases {
		s, err := store.Open(t.Context(), dsn, &clock{now: start}, "9.9.9")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		update()
		_, err = store.Open(t.Context(), dsn, &clock{now: start}, "1.0.0")
		if !dispatch.Is(err, dispatch.Misconfigured) || !strings.Contains(dispatch.TextFor(err), "has schema 99999") ||
			!strings.Contains(dispatch.TextFor(err), "Start eodispatch 9.9.9, or a newer one.") {
			t.Errorf("error %v", err)
		}
	}
}

// TestCursorKey_IsSharedByAllProcesses: the key is the same for all who use the database, and differs between databases.
func TestCursorKey_IsSharedByAllProcesses(t *testing.T) {
	dsn := postgres.Database(t)
	first, second, other := open(t, dsn, nil).CursorKey(), open(t, dsn, nil).CursorKey(), open(t, "sqlite::memory:", &clock{now: start}).CursorKey()
	if first != second || len(first.Reveal()) < 20 || first == other {
		t.Errorf("keys of %d, %d and %d characters", len(first.Reveal()), len(second.Reveal()), len(other.Reveal()))
	}
}

// TestOpen_MigratesWithoutBlockingOthers: while a transaction writes to a table that a migration wants to change, others write to that table too. A
// migration that waited for its lock would block them until the transaction ends.
func TestOpen_MigratesWithoutBlockingOthers(t *testing.T) {
	url := postgres.Database(t)
	store.MigrateTo(t, url, 41)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert := func(on interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
	}, name string) {
		t.Helper()
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := on.ExecContext(within, "INSERT INTO tokens (name, key, sealed, expires) VALUES ($1, '', '', 1)", name); err != nil {
			t.Fatal(err)
		}
	}
	holder, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback()
	insert(holder, "holder")
	opened := make(chan error)
	go func() {
		s, err := store.Open(t.Context(), url, nil)
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	for waits := false; !waits; {
		if err := db.QueryRowContext(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'tokens'::regclass AND NOT granted)").Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	insert(db, "other")
	if err := holder.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
