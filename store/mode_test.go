package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance"
)

// TestSQLite_FilesAreTheOwnersOnly, including files that were readable for everybody.
func TestSQLite_FilesAreTheOwnersOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "eodispatch.db")
	for _, made := range []string{"new", "open to all"} {
		s, err := Open(t.Context(), "sqlite:"+file, conformance.WallClock{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.take(t.Context(), "job", 1); err != nil { // so that there is a log
			t.Fatal(err)
		}
		for _, name := range []string{file, file + "-wal", file + "-shm", file + ".lock"} {
			info, err := os.Stat(name)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %s: %v, %v", made, filepath.Base(name), info.Mode(), err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
