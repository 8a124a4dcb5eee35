package store

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestHookTriggers_ReadOnlyTheHooksOfTheJob: the end of a job does not read the hooks of its owner's other jobs.
func TestHookTriggers_ReadOnlyTheHooksOfTheJob(t *testing.T) {
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "d.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	values := strings.NewReplacer("NEW.owner", "'ann'", "NEW.id", "5", "NEW.task", "7", "NEW.status", "'failed'", "NEW.turn", "1", "NEW.number", "1", "NEW.updated", "1")
	for _, statement := range []string{addProgress, markTask, addAttention} {
		if plan := planOf(t, s, values.Replace(strings.TrimRight(statement, ";"))); !strings.Contains(plan, "owner=? AND job=? AND task=?") {
			t.Errorf("%s\n%s", statement, plan)
		}
	}
}
