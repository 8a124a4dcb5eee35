package store_test

import (
	"path/filepath"
	"strings"
	"testing"

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
