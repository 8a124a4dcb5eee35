package store_test

import (
	"os"
	"regexp"
	"strings"
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

// TestSchema_TablesAreTheSameOnBothDatabases, with their comments, but for the type of keys: each is changed in two
// files.
func TestSchema_TablesAreTheSameOnBothDatabases(t *testing.T) {
	tables := func(database string) []string {
		text, err := os.ReadFile("schema/" + database + "/00001_schema.sql")
		if err != nil {
			t.Fatal(err)
		}
		statement := regexp.MustCompile(`(?s)CREATE TABLE .*?\n\);`)
		return statement.FindAllString(strings.ReplaceAll(string(text), " INTEGER PRIMARY KEY", " BIGINT PRIMARY KEY"),
			-1)
	}
	lite, server := tables("sqlite"), tables("postgres")
	if len(lite) < 10 || len(lite) != len(server) {
		t.Fatalf("%d tables on SQLite, %d on PostgreSQL", len(lite), len(server))
	}
	for i := range lite {
		if lite[i] != server[i] {
			t.Errorf("on SQLite\n%s\nand on PostgreSQL\n%s", lite[i], server[i])
		}
	}
}
