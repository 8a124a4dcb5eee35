package store_test

import (
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestCursorKey_IsSharedByAllProcesses: the key is the same for all who use the database, and differs between
// databases.
func TestCursorKey_IsSharedByAllProcesses(t *testing.T) {
	dsn := postgres.Database(t)
	first, second, other := open(t, dsn, nil).CursorKey(), open(t, dsn, nil).CursorKey(), open(t, "sqlite::memory:",
		conformance.NewStillClock(start)).CursorKey()
	if first != second || len(first.Reveal()) < 20 || first == other {
		t.Errorf("keys of %d, %d and %d characters", len(first.Reveal()), len(second.Reveal()), len(other.Reveal()))
	}
}
