package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

const (
	memory  = ":memory:"
	readers = 4
)

// openSQLite opens a file. Writers share one connection, so that they queue in this process and never meet a busy
// database; readers have their own, and do not wait for a writer's disk.
func openSQLite(ctx context.Context, file string, c dispatch.Clock) (*Store, error) {
	lock, err := lockFile(file)
	if err != nil {
		return nil, err
	}
	s := &Store{
		now:   func(context.Context, query.DBTX) (int64, error) { return micros(c.Now()), nil },
		adapt: func(db query.DBTX) query.DBTX { return oneWriter{db} },
	}
	s.close = func() error { return errors.Join(closeAll(s.read, s.write), lock.Close()) }
	if s.write, err = sqliteDB(file, "immediate", 1); err == nil {
		s.visit, s.read = s.write, s.write
	}
	if err == nil && file != memory {
		s.read, err = sqliteDB(file, "deferred", readers)
	}
	if err == nil {
		err = s.prepare(ctx, goose.DialectSQLite3)
	}
	if err != nil {
		return nil, errors.Join(naming(file, fail("Open", err)), s.close())
	}
	return s, nil
}

func closeAll(dbs ...*sql.DB) error {
	var errs []error
	for _, db := range dbs {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

func sqliteDB(file, begin string, connections int) (*sql.DB, error) {
	settings := url.Values{"_txlock": {begin}, "_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+settings.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// lockFile takes the lock that keeps a second process out, on a file of its own beside the database. It ends with the
// process, however that ends.
func lockFile(file string) (*os.File, error) {
	if file == memory {
		return os.Open(os.DevNull)
	}
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, &dispatch.Error{Kind: dispatch.Unavailable, Op: "store.Open", Err: err,
			Text: fmt.Sprintf("The database file %s cannot be written: its folder is missing, read-only, or another user's.", file)}
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(&dispatch.Error{Kind: dispatch.Conflict, Op: "store.Open", Err: err,
			Text: fmt.Sprintf("The database file %s is in use by another process. Stop that one, or use PostgreSQL for several.", file)},
			lock.Close())
	}
	return lock, nil
}

// naming says which file an error is about.
func naming(file string, err error) error {
	e, ok := errors.AsType[*dispatch.Error](err)
	if !ok || e.Text == "" {
		return err
	}
	named := *e
	named.Text = fmt.Sprintf("%s (%s)", e.Text, file)
	return &named
}

// oneWriter leaves out of a query what locks rows: SQLite cannot, and with one writer need not.
type oneWriter struct{ query.DBTX }

func (w oneWriter) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	return w.DBTX.QueryContext(ctx, strings.Replace(q, "FOR UPDATE SKIP LOCKED", "", 1), args...)
}
