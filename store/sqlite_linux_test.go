package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"

	"github.com/eodispatch/eodispatch/test/conformance"
)

// TestSQLite_LocksNotTheDatabase checks that nothing takes a lock of flock(2) on the database itself: on macOS and on
// network file systems it would keep out SQLite in the same process. Only elsewhere the two kinds of locks can be told
// apart.
func TestSQLite_LocksNotTheDatabase(t *testing.T) {
	file, link := filepath.Join(t.TempDir(), "d.db"), filepath.Join(t.TempDir(), "new.db")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	open(t, "sqlite:"+link, conformance.NewStillClock(start))
	database, beside := flock.New(file, flock.SetFlag(os.O_RDONLY)), flock.New(file+".lock")
	if free, err := database.TryLock(); err != nil || !free {
		t.Errorf("the database: free %t, %v", free, err)
	}
	if free, err := beside.TryLock(); err != nil || free {
		t.Errorf("the file beside it: free %t, %v", free, err)
	}
}
