package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestMigration_CountsBytesOfExistingJobs checks that the migration counts the request bytes of jobs stored by an earlier version.
func TestMigration_CountsBytesOfExistingJobs(t *testing.T) {
	text, err := os.ReadFile("migrations/00025_bytes.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, update, _ := strings.Cut(string(text), "UPDATE jobs")
	update, _, _ = strings.Cut(update, ";")
	forget, update := "UPDATE jobs SET bytes = 0", "UPDATE jobs"+update
	file, server := filepath.Join(t.TempDir(), "d.db"), postgres.Database(t)
	for dsn, exec := range map[string]func(string){
		"sqlite:" + file: func(statement string) {
			if _, err := raw(t, file).Exec(statement); err != nil {
				t.Fatal(err)
			}
		},
		server: func(statement string) { postgres.Exec(t, server, statement) },
	} {
		s := open(t, dsn, &clock{now: start})
		jobs := drafts(3)
		if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, jobs); err != nil {
			t.Fatal(err)
		}
		want := heldBytes(t, s)
		if want < 3 {
			t.Fatalf("%d bytes are held", want)
		}
		exec(forget)
		if got := heldBytes(t, s); got != 0 {
			t.Fatalf("%d bytes are held after the reset, want 0", got)
		}
		exec(update)
		if got := heldBytes(t, s); got != want {
			t.Errorf("after the migration %d bytes are held, want %d", got, want)
		}
	}
}

// heldBytes returns the size in bytes of the requests of ann's unfinished jobs.
func heldBytes(t *testing.T, s dispatch.Store) int64 {
	t.Helper()
	infos, err := s.AccountInfo(t.Context(), "ann", []dispatch.Account{""}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return infos[0].Bytes
}

// BenchmarkCountOwned accepts a job of a user with 100,000 jobs, without a quota and with different quotas.
func BenchmarkCountOwned(b *testing.B) {
	eachDatabase(b, func(b *testing.B, s dispatch.Store, analyze func()) {
		fill(b, s, 10)
		analyze()
		for name, within := range map[string][]dispatch.Quota{"none": nil, "jobs": {{Live: 1 << 40}}, "day": {{Daily: 1 << 40}}, "jobs and bytes": {{Live: 1 << 40, Bytes: 1 << 40}}} {
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					if _, err := s.Accept(b.Context(), dispatch.Key{}, nil, drafts(1), within...); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}
