package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	memory  = ":memory:"
	readers = 4

	writerCache, readerCache = 2000, 400 // kB for each connection
)

// openSQLite opens a file. Writers share one connection, so that they queue in this process and never see SQLITE_BUSY;
// readers have connections of their own and do not wait for a writer's disk.
func (s *Store) openSQLite(ctx context.Context, file string, c dispatch.Clock) (*Store, error) {
	lock, err := lockFile(file)
	if err != nil {
		return nil, err
	}
	if err := ownerOnly(file); err != nil {
		return nil, errors.Join(withFileName(file, fail("Open", err)), lock.Close())
	}
	prepared := s.speakSQLite(c)
	s.close = func() error { return errors.Join(closeAll(s.read, s.write), lock.Close()) }
	if s.write, err = sqliteDB(file, "immediate", 1, writerCache); err == nil {
		s.visit, s.read = s.write, s.write
	}
	if err == nil && file != memory {
		s.read, err = sqliteDB(file, "deferred", readers, readerCache)
	}
	s.agendas, s.ping = s.read, s.read
	prepared[s.write], prepared[s.read] = &statements{db: s.write}, &statements{db: s.read}
	if err == nil {
		err = s.prepare(ctx, s.write, goose.DialectSQLite3)
	}
	if err != nil {
		return nil, errors.Join(withFileName(file, fail("Open", err)), s.close())
	}
	return s, nil
}

// liteDialect has no names of parameters in long statements: the driver looks up each among all.
var liteDialect = newDialect(func(int) string { return "?" }, false)

// speakSQLite sets how the store uses an SQLite database. It returns where the prepared statements of each connection
// pool are to be registered.
func (s *Store) speakSQLite(c dispatch.Clock) map[*sql.DB]*statements {
	s.now = func(context.Context, querier) (int64, error) { return micros(c.Now()), nil }
	s.beginTx = func(ctx context.Context, db *sql.DB, o *sql.TxOptions) (transaction, int64, error) {
		begun, err := db.BeginTx(ctx, o)
		return begun, micros(c.Now()), err
	}
	s.dialect, s.batches = liteDialect, batches{store: s, within: time.Millisecond}
	prepared := map[*sql.DB]*statements{}
	s.adapt = func(db *sql.DB, on querier) querier { return oneWriter{on, prepared[db]} }
	s.ready = func(ctx context.Context, db *sql.DB) { prepared[db].fill(ctx) }
	return prepared
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

// sqliteDB opens connections that each keep up to cache kB of the file's pages, never to be returned. The system keeps
// the file's pages as well, so that a page that a reader misses costs a copy. Each page with a change is written to the
// log as a whole, so pages are half as long as by default; the entries of indexes with long names of users and accounts
// still fit four times. The journal mode is set after the length of pages, which it fixes.
func sqliteDB(file, begin string, connections, cache int) (*sql.DB, error) {
	settings := url.Values{"_txlock": {begin}, "_journal_mode": {"WAL"}, "_pragma": {"busy_timeout(5000)",
		"page_size(2048)", "synchronous(FULL)", "foreign_keys(ON)", "temp_store(MEMORY)", fmt.Sprintf("cache_size(-%d)",
			cache)}}
	return openSQLiteFile(file, settings, connections)
}

func openSQLiteFile(file string, settings url.Values, connections int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+settings.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// lockFile locks a separate file beside the database, which keeps a second process out, whatever symbolic links lead to
// the database. The lock ends with the process in any case. The database itself must not be locked: a lock of flock(2)
// keeps out SQLite's own locks, those of the same process too, on every system but Linux, and on network file systems
// also there.
func lockFile(file string) (io.Closer, error) {
	if file == memory {
		return os.Open(os.DevNull)
	}
	path, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err = ownerOnly(file); err == nil {
			path, err = filepath.EvalSymlinks(file)
		}
	}
	if err != nil {
		return nil, unwritable(file, err)
	}
	if hasHardLinks(path) {
		return nil, &dispatch.Error{Kind: dispatch.Misconfigured, Op: "store.Open",
			Text: fmt.Sprintf("The database file %s has another name by a hard link. SQLite keeps changes in a file "+
				"beside the name by which it is opened, so that changes made by one name can be missing by another. "+
				"Remove all names but one.", file)}
	}
	return tryLock(file, flock.New(path+".lock", flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600)))
}

func unwritable(file string, err error) error {
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: "store.Open", Err: err,
		Text: fmt.Sprintf("The database file %s cannot be written: its folder is missing, read-only, or another "+
			"user's.", file)}
}

// tryLock takes a lock that guards a database file.
func tryLock(file string, lock *flock.Flock) (io.Closer, error) {
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, unwritable(file, err)
	case !locked:
		return nil, errors.Join(&dispatch.Error{Kind: dispatch.Conflict, Op: "store.Open",
			Text: fmt.Sprintf("The database file %s is in use by another process. Stop that one, or use PostgreSQL "+
				"for several.", file)}, lock.Close())
	}
	return lock, nil
}

// ownerOnly keeps other users of the machine from the database: its file, which is created if missing, its log and its
// index get mode 0600 if they belong to this user. SQLite gives new logs the mode of the file.
func ownerOnly(file string) error {
	if file == memory {
		return nil
	}
	made, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = made.Close()
	}
	for _, name := range []string{file, file + "-wal", file + "-shm"} {
		if changed := os.Chmod(name, 0o600); !errors.Is(changed, fs.ErrNotExist) &&
			!errors.Is(changed, fs.ErrPermission) {
			err = errors.Join(err, changed)
		}
	}
	if err != nil {
		return &dispatch.Error{Kind: dispatch.Unavailable, Op: "store.Open", Text: "The database cannot be written.",
			Err: err}
	}
	return nil
}

// withFileName adds the file name to an error.
func withFileName(file string, err error) error {
	e, ok := errors.AsType[*dispatch.Error](err)
	if !ok || e.Text == "" {
		return err
	}
	named := *e
	named.Text = fmt.Sprintf("%s (%s)", e.Text, file)
	return &named
}

// oneWriter runs queries on a database or on a transaction of one. It removes row locks, which SQLite does not have and
// one writer does not need, and it uses prepared statements, since parsing takes longer than running.
type oneWriter struct {
	on       querier
	prepared *statements
}

// uninterrupted returns ctx without its end, unless that has come. To wait for an end, database/sql and the driver
// start a goroutine each for a statement, which takes as long as most statements do; these wait only for the local
// disk.
func uninterrupted(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

func (w oneWriter) ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error) {
	ctx = uninterrupted(ctx)
	if s := w.statement(ctx, q); s != nil {
		return s.ExecContext(ctx, args...)
	}
	return w.on.ExecContext(ctx, q, args...)
}

func (w oneWriter) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	ctx = uninterrupted(ctx)
	if s := w.statement(ctx, q); s != nil {
		return s.QueryContext(ctx, args...)
	}
	return w.on.QueryContext(ctx, q, args...)
}

func (w oneWriter) QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row {
	ctx = uninterrupted(ctx)
	if s := w.statement(ctx, q); s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return w.on.QueryRowContext(ctx, q, args...)
}

// statement returns q prepared; nil if it is not, and must be run as text.
func (w oneWriter) statement(ctx context.Context, q string) *sql.Stmt {
	begun, inside := w.on.(*sql.Tx)
	s := w.prepared.get(ctx, q, !inside)
	if s == nil || !inside {
		return s
	}
	return begun.StmtContext(ctx, s)
}

// statements holds the prepared statements for the connections of one database. Each is prepared after its first use.
type statements struct {
	db      *sql.DB
	mu      sync.Mutex
	kept    map[string]*sql.Stmt
	missing []string
}

// get returns q prepared; nil if it is not. Within a transaction that holds the only connection nothing can be
// prepared: the missing statement is noted for the next caller with a spare connection.
func (s *statements) get(ctx context.Context, q string, spare bool) *sql.Stmt {
	found := s.find(q)
	if found == nil && spare {
		s.fill(ctx)
		found = s.find(q)
	}
	return found
}

func (s *statements) find(q string) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[q] == nil {
		s.missing = append(s.missing, q)
	}
	return s.kept[q]
}

// fill prepares the missing statements. It must not hold the lock meanwhile: the connection that it waits for may be
// held by a caller that waits for the lock. A statement that cannot be prepared will be missed again.
func (s *statements) fill(ctx context.Context) {
	s.mu.Lock()
	missing := s.missing
	s.missing = nil
	s.mu.Unlock()
	slices.Sort(missing)
	for _, q := range slices.Compact(missing) {
		if prepared, err := s.db.PrepareContext(ctx, q); err == nil {
			s.keep(q, prepared)
		}
	}
}

func (s *statements) keep(q string, prepared *sql.Stmt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[q] != nil {
		_ = prepared.Close() // another caller was faster
		return
	}
	if s.kept == nil {
		s.kept = map[string]*sql.Stmt{}
	}
	s.kept[q] = prepared
}
