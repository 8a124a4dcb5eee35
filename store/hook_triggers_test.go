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
	values := strings.NewReplacer("NEW.owner", "'ann'", "NEW.id", "5", "NEW.task", "7", "NEW.status", "'failed'",
		"NEW.attention", "'stalled'", "NEW.turn", "1", "NEW.number", "1", "NEW.updated", "1")
	for _, trigger := range []string{"add_deliveries", "mark_task", "add_attention"} {
		var text string
		err := s.read.QueryRow("SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = ?", trigger).Scan(&text)
		if err != nil {
			t.Fatal(trigger, err)
		}
		_, body, _ := strings.Cut(text, "BEGIN")
		body, _, _ = strings.Cut(body, ";")
		if plan := planOf(t, s, values.Replace(body)); !strings.Contains(plan, "owner=? AND job=? AND task=?") {
			t.Errorf("%s\n%s", body, plan)
		}
	}
}
