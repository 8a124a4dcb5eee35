package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/eodispatch/eodispatch/dispatch"
)

// OpenToRead opens a database only to read it, while brokers may be using it, also an SQLite file. It changes
// nothing: a database whose schema is not that of this program is Misconfigured.
func OpenToRead(ctx context.Context, dsn string, c dispatch.Clock) (*Store, error) {
	s, err := openReader(ctx, dsn, c)
	if err != nil {
		return nil, fail("OpenToRead", err)
	}
	if err := s.checkSchema(ctx); err != nil {
		return nil, errors.Join(fail("OpenToRead", err), s.Close())
	}
	return s, nil
}

// openReader opens a database of any schema to read it.
func openReader(ctx context.Context, dsn string, c dispatch.Clock) (*Store, error) {
	s, open := &Store{keyLife: dispatch.KeyLife}, (*Store).readPostgreSQL
	if strings.HasPrefix(dsn, "sqlite:") {
		open = func(s *Store, _ context.Context, dsn string) error {
			return s.readSQLite(strings.TrimPrefix(dsn, "sqlite:"), c)
		}
	}
	if err := open(s, ctx, dsn); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// ReadOperatorKey returns the key of [Store.OperatorKey] of a database that brokers may be using, also one that a
// newer version has brought up to date.
func ReadOperatorKey(ctx context.Context, dsn string, c dispatch.Clock) (dispatch.Secret, error) {
	s, err := openReader(ctx, dsn, c)
	if err != nil {
		return "", fail("ReadOperatorKey", err)
	}
	defer s.Close()
	key, err := setting(ctx, s.on(s.read), cursorKey)
	return operatorKeyOf(dispatch.Secret(key)), fail("ReadOperatorKey", err)
}

func (s *Store) readSQLite(file string, c dispatch.Clock) error {
	s.close = func() error { return closeAll(s.read) }
	if err := mustExist(file); err != nil {
		return err
	}
	prepared := s.speakSQLite(c)
	var err error
	if s.read, err = readerOf(file); err != nil {
		return err
	}
	s.write, s.visit, s.agendas, s.ping = s.read, s.read, s.read, s.read
	prepared[s.read] = &statements{db: s.read}
	return nil
}

// readerOf opens an SQLite file that another process may be writing to.
func readerOf(file string) (*sql.DB, error) {
	return openSQLiteFile(file, url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)"}}, readers)
}

// CheckExists returns Misconfigured for an SQLite file that does not exist, which Open would make.
func CheckExists(dsn string) error {
	if file, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		return mustExist(file)
	}
	return nil
}

func mustExist(file string) error {
	if _, err := os.Stat(file); err != nil {
		whole, _ := filepath.Abs(file) // "" without a working directory
		return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "store.OpenToRead", Err: err,
			Text: fmt.Sprintf("There is no database file %s.", cmp.Or(whole, file))}
	}
	return nil
}

func (s *Store) readPostgreSQL(ctx context.Context, dsn string) error {
	err := s.openPools(ctx, dsn, poolFor{&s.read, readers})
	s.write, s.visit, s.agendas, s.ping = s.read, s.read, s.read, s.read
	return err
}

// checkSchema returns Misconfigured if the schema is not that of this program.
func (s *Store) checkSchema(ctx context.Context) error {
	dialect := goose.DialectSQLite3
	if s.remote {
		dialect = goose.DialectPostgres
	}
	current, err := schemaOf(ctx, s.read)
	if err != nil {
		return err
	}
	known, err := newestSchema(dialect, s.read)
	if err != nil || current == known {
		return err
	}
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "store.OpenToRead", Text: fmt.Sprintf(
		"The database has schema %d, and this program reads schema %d. "+
			"Use the program of the version that serves it, or bring the database up to date by eodispatch migrate.",
		current, known)}
}

// schemaOf returns the schema of a database, which must be one of this program's.
func schemaOf(ctx context.Context, db *sql.DB) (version int64, err error) {
	version, err = value[int64](ctx, db, "SELECT COALESCE(max(version_id), 0) FROM goose_db_version WHERE is_applied")
	if err != nil && !unanswered(err) {
		if kind, _ := meaning(err); kind == dispatch.Internal { // no such table
			return 0, &dispatch.Error{Kind: dispatch.Misconfigured, Op: "store.OpenToRead", Err: err,
				Text: "The database is not one of eodispatch, or it is empty."}
		}
	}
	return version, err
}

// newestSchema returns the schema to which this program migrates.
func newestSchema(dialect goose.Dialect, db *sql.DB) (int64, error) {
	p, err := provider(nil, dialect, db)
	if err != nil {
		return 0, err
	}
	sources := p.ListSources()
	return sources[len(sources)-1].Version, nil
}
