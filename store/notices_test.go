package store

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestNotices_ReadOnlyTheHooksOfTheJob: the end of a job does not read the hooks of its owner's other jobs.
func TestNotices_ReadOnlyTheHooksOfTheJob(t *testing.T) {
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "d.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	query, _ := hooksOfSome("ann", []int64{0, 5}, []int64{0})
	if plan := planOf(t, s, query); !strings.Contains(plan, "owner=? AND job=? AND task=?") {
		t.Error(plan)
	}
}
