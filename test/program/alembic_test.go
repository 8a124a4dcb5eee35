package program

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestAlembic_Migrates: the command of the chart's migration migrates, with the variable that the chart gives it.
func TestAlembic_Migrates(t *testing.T) {
	t.Parallel()
	environ := []string{"DATABASE_URL=sqlite:///" + filepath.Join(t.TempDir(), "a.db")}
	for _, want := range []string{"was migrated from schema 0 to schema", "is up to date"} {
		if code, said := try(t, environ, "alembic", "upgrade", "head"); code != exitDone ||
			!strings.Contains(said, want) {
			t.Errorf("exit %d: %s", code, said)
		}
	}
	for _, args := range [][]string{{"alembic"}, {"alembic", "downgrade", "base"}, {"alembic", "upgrade", "abc"},
		{"alembic", "upgrade"}} {
		if code, said := try(t, environ, args...); code != exitUsage {
			t.Errorf("%q: exit %d: %s", args, code, said)
		}
	}
	if code, said := try(t, nil, "alembic", "upgrade", "head"); code != exitUsage ||
		!strings.Contains(said, "set DATABASE_URL") {
		t.Errorf("exit %d: %s", code, said)
	}
}
