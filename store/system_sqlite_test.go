package store_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/installed"
)

// TestSQLite_SystemsProgramReadsTheFile checks that the sqlite3 of the system, which is 3.40 on Debian 12, opens the
// database and finds it sound.
func TestSQLite_SystemsProgramReadsTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.db")
	s := open(t, "sqlite:"+file, conformance.NewStillClock(start))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	program := installed.Program(t, "sqlite3")
	out, err := exec.CommandContext(t.Context(), program, file,
		"PRAGMA integrity_check; SELECT count(*) FROM jobs").CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil || text != "ok\n0" {
		t.Errorf("it says %q, %v", text, err)
	}
}
