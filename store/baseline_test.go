package store_test

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/store"
)

var writeBaseline = flag.Bool("write-baseline", false, "write baseline.sql anew, up to the last migration")

// TestBaseline_IsWhatMigrationsMake compares a database that the baseline made with one that the migrations made: schema and rows.
func TestBaseline_IsWhatMigrationsMake(t *testing.T) {
	version := store.LastMigration(t)
	if !*writeBaseline {
		version = store.BaselineVersion(t)
	}
	migrated := filepath.Join(t.TempDir(), "migrated.db")
	store.MigrateTo(t, "sqlite:"+migrated, version)
	want := statementsOf(t, raw(t, migrated))
	if *writeBaseline {
		if err := os.WriteFile("baseline.sql", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	created := filepath.Join(t.TempDir(), "created.db")
	db := raw(t, created)
	if err := store.Create(t, db); err != nil {
		t.Fatal(err)
	}
	if got := statementsOf(t, db); got != want {
		t.Errorf("the baseline makes\n%s\nand the migrations up to %d\n%s", got, version, want)
	}
}

// TestOpen_NewAndMigratedSchemasAreEqual: a database that Open made has the schema of one that the migrations made.
func TestOpen_NewAndMigratedSchemasAreEqual(t *testing.T) {
	made, migrated := filepath.Join(t.TempDir(), "made.db"), filepath.Join(t.TempDir(), "migrated.db")
	store.MigrateTo(t, "sqlite:"+migrated, store.LastMigration(t))
	s := open(t, "sqlite:"+made, &clock{now: start})
	if was, is := s.Schema(); was != 0 || is != store.LastMigration(t) {
		t.Errorf("schema %d, was %d", is, was)
	}
	if got, want := schemaOf(t, raw(t, made)), schemaOf(t, raw(t, migrated)); got != want {
		t.Errorf("the schema of a new database is\n%s\nand that of a migrated one\n%s", got, want)
	}
}

// statementsOf returns statements that make the database anew.
func statementsOf(t *testing.T, db *sql.DB) string {
	var b strings.Builder
	b.WriteString(schemaOf(t, db))
	for _, table := range texts(t, db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name") {
		columns := texts(t, db, "SELECT name FROM pragma_table_info('"+table+"') WHERE name <> 'tstamp' ORDER BY cid")
		values := "quote(" + strings.Join(columns, ") || ', ' || quote(") + ")"
		for _, row := range texts(t, db, "SELECT "+values+" FROM "+table+" ORDER BY rowid") {
			fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES (%s);\n", table, strings.Join(columns, ", "), row)
		}
	}
	return b.String()
}

func schemaOf(t *testing.T, db *sql.DB) string {
	statements := texts(t, db, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid")
	return strings.Join(statements, ";\n") + ";\n"
}

func texts(t *testing.T, db *sql.DB, query string) (texts []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return texts
}
