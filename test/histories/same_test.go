package histories

import (
	"context"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// inSQLite returns an SQLite database in memory.
func inSQLite(c dispatch.Clock) (conformance.Store, func()) {
	s, err := store.Open(context.Background(), "sqlite::memory:", c)
	if err != nil {
		panic(err)
	}
	return s, func() { s.Close() }
}

// sameSeeds are the seeds of the histories that also run on SQLite.
var sameSeeds = []uint64{1, 4, 6, 8}

// TestRandomHistories_OnSQLite checks that equal seeds produce equal histories, event by event with equal times, on the
// store in memory and on SQLite.
func TestRandomHistories_OnSQLite(t *testing.T) {
	for _, s := range sameSeeds {
		a, again, b := play(t, s, inMemory), play(t, s, inMemory), play(t, s, inSQLite)
		same(t, s, "again", a, again)
		same(t, s, "on SQLite", a, b)
		if !report(t, b) || t.Failed() {
			return
		}
	}
}

func same(t *testing.T, seed uint64, what string, a, b *history) {
	t.Helper()
	if a.digest == b.digest {
		return
	}
	for i := range min(len(a.lines), len(b.lines)) {
		if a.lines[i] != b.lines[i] {
			t.Errorf("seed %d %s differs at event %d:\n%s\n%s", seed, what, i, a.lines[i], b.lines[i])
			return
		}
	}
	t.Errorf("seed %d %s: %d events, want %d", seed, what, len(a.lines), len(b.lines))
}
