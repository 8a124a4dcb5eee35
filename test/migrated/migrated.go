// Package migrated provides tests with PostgreSQL databases of this version, on the server of test/conformance/postgres.
package migrated

import (
	"testing"

	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

var template = postgres.Template{Prepare: Migrate}

// Database creates a database of this version that ends with the test, and returns its URL. Without a server it does as [postgres.Database] does.
func Database(t testing.TB) string {
	t.Helper()
	return template.Database(t)
}

// Migrate migrates a database to this version.
func Migrate(t testing.TB, url string) {
	t.Helper()
	s, err := store.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
