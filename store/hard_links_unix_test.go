//go:build unix

package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// TestSQLite_HardLinks checks that a file with two names is not opened by either: what a killed process committed by
// one of them, but had not moved into the database, would be missing by the other.
func TestSQLite_HardLinks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.db")
	s := open(t, "sqlite:"+file, conformance.NewStillClock(start))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Link(file, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, link} {
		_, err := store.Open(t.Context(), "sqlite:"+name, conformance.NewStillClock(start))
		if !dispatch.Is(err, dispatch.Misconfigured) ||
			!strings.Contains(dispatch.TextFor(err), name+" has another name by a hard link") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	open(t, "sqlite:"+file, conformance.NewStillClock(start))
}
