package store

import (
	"context"
	"database/sql"
	_ "embed"
)

// baseline holds the statements that make the schema of an SQLite database as the migrations up to some version make it, in a tenth of the time.
// Later migrations follow it. A test compares both and writes the file anew, see docs/testing.md.
//
//go:embed baseline.sql
var baseline string

// create makes the schema of an empty SQLite database, and reports whether it was empty.
func create(ctx context.Context, db *sql.DB) (empty bool, err error) {
	if err := db.QueryRowContext(ctx, "SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)").Scan(&empty); err != nil || !empty {
		return false, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // fails after the commit
	if _, err := tx.ExecContext(ctx, baseline); err != nil {
		return false, err
	}
	return true, tx.Commit()
}
