package store

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	_ "embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Store implements the ports of all that keep something: broker.Stores, engine.Store, identity.Vault and others.
type Store struct {
	write   *sql.DB // clients' writes
	visit   *sql.DB // writes of visits, so that the renewal of a lease does not queue behind clients
	agendas *sql.DB // reads of visits
	read    *sql.DB // clients' reads
	ping    *sql.DB
	// waits for locks, and holds them; nil: there is no other process
	locks *sql.DB
	now   func(context.Context, querier) (int64, error) // microseconds since 1970, by the clock of the database
	// beginTx begins a transaction, and returns the time as now does.
	beginTx func(context.Context, *sql.DB, *sql.TxOptions) (transaction, int64, error)
	adapt   func(*sql.DB, querier) querier // adapts the queries, which run on the second argument, to this database
	ready   func(context.Context, *sql.DB) // called before each transaction
	close   func() error
	pools   *pools // of PostgreSQL; nil: there are none

	remote bool // the database is a server, which may not respond
	turns  lockQueues

	batches batches

	dialect *dialect

	ids          map[string]*block
	installation string
	cursorKey    dispatch.Secret
	program      string // version of the program

	migrations        fs.FS // after the schema, see provider; nil: none
	schemaWas, schema int64 // versions: as it was found, and now

	changeRange int                   // how many jobs of a task a transaction changes; 0: as many as it may
	beforeRange func(context.Context) // called before each such transaction after the first; nil: nothing is

	trace   TraceFunc     // nil: nothing is traced
	keyLife time.Duration // of idempotency keys
	removed func(kind string, n int64)

	direct string // address of the server behind a pooler; "": none is named
	pooled bool   // connections lead to a pooler, such as pgbouncer
}

// Open opens the database named by dsn and migrates it: "sqlite:FILE", "sqlite::memory:", or "postgres://…". On
// SQLite the time is that of c, and a second process is refused with Conflict; on PostgreSQL it is that of the
// server. program is the version of the program: it is stored, so that an older version that opens a newer schema,
// which is Misconfigured, can name the version it needs.
func Open(ctx context.Context, dsn string, c dispatch.Clock, program ...string) (*Store, error) {
	return OpenBehindPooler(ctx, dsn, "", c, program...)
}

// OpenBehindPooler is Open for a PostgreSQL server behind a pooler in transaction mode. direct is the address of the
// server itself, over which the schema is migrated; "": none is known, and migrations go through the pooler, too.
func OpenBehindPooler(ctx context.Context, dsn, direct string, c dispatch.Clock, program ...string) (*Store, error) {
	s := &Store{program: strings.Join(program, " "), direct: direct, keyLife: dispatch.KeyLife}
	return s.open(ctx, dsn, c)
}

func (s *Store) open(ctx context.Context, dsn string, c dispatch.Clock) (*Store, error) {
	if file, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		return s.openSQLite(ctx, file, c)
	}
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		return s.openPostgreSQL(ctx, dsn)
	}
	return nil, &dispatch.Error{Kind: dispatch.Misconfigured, Op: "store.Open",
		Text: "The database must have the form sqlite:FILE or postgres://USER@HOST/NAME."}
}

//go:embed schema.sql
var schema string

// provider returns the provider of the migrations: the schema, and those in files, in a folder for each database; nil:
// there are none.
func provider(
	files fs.FS, dialect goose.Dialect, db *sql.DB, options ...goose.ProviderOption,
) (*goose.Provider, error) {
	text, folder := schema, "sqlite"
	if dialect == goose.DialectPostgres {
		text, folder = strings.ReplaceAll(schema, "INTEGER PRIMARY KEY", "BIGINT PRIMARY KEY"), "postgres"
	}
	if files != nil {
		var err error
		if files, err = fs.Sub(files, folder); err != nil {
			return nil, err
		}
	}
	create := func(ctx context.Context, q *sql.Tx) error { return run(ctx, q, text) }
	options = append(options, goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunTx: create}, nil)))
	return goose.NewProvider(dialect, db, files, options...)
}

// prepare migrates the schema and reads the settings that never change.
// The migrations use db, and everything else the pool for writes.
func (s *Store) prepare(ctx context.Context, db *sql.DB, dialect goose.Dialect, options ...goose.ProviderOption) error {
	p, err := provider(s.migrations, dialect, db, options...)
	if err != nil {
		return err
	}
	if err := s.update(ctx, p); err != nil {
		return err
	}
	s.ids = map[string]*block{"job": {}, "task": {}}
	q := s.on(s.write)
	err = run(ctx, q, `
		INSERT INTO settings (name, value)
		VALUES ($1, $2), ($3, $4)
		ON CONFLICT (name) DO NOTHING`, installation, strings.ToLower(rand.Text()[:10]), cursorKey, rand.Text())
	if err != nil {
		return err
	}
	if s.installation, err = setting(ctx, q, installation); err != nil {
		return err
	}
	key, err := setting(ctx, q, cursorKey)
	s.cursorKey = dispatch.Secret(key)
	return err
}

// Close closes the database.
func (s *Store) Close() error { return s.close() }

// Ping returns nil if the database responds.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := s.bounded(allow(ctx, pingWithin))
	defer cancel()
	var one int
	return fail("Ping", s.ping.QueryRowContext(ctx, `SELECT 1`).Scan(&one))
}

// Installation returns an identifier of letters and digits that is unique to this database.
func (s *Store) Installation(context.Context) (string, error) { return s.installation, nil }

// CursorKey returns a random key, unique to this database, by which all processes that use it sign the cursors of
// lists.
func (s *Store) CursorKey() dispatch.Secret { return s.cursorKey }

// OperatorKey returns a key by which a command proves to the broker that it can read the database.
func (s *Store) OperatorKey() dispatch.Secret { return operatorKeyOf(s.cursorKey) }

func operatorKeyOf(cursorKey dispatch.Secret) dispatch.Secret {
	mac := hmac.New(sha256.New, []byte(cursorKey.Reveal()))
	mac.Write([]byte("operator"))
	return dispatch.Secret(hex.EncodeToString(mac.Sum(nil)))
}

// on returns what runs statements on a database, each by itself.
func (s *Store) on(db *sql.DB) tx { return tx{querier: s.traced(s.adapt(db, db)), dialect: s.dialect} }

// tx is a transaction, or what reads without one.
type tx struct {
	querier
	*dialect
	runAll func(context.Context, []command) error // runs statements one after the other

	now     int64
	numbers *numbers // that are to be taken, see number

	// copy inserts rows, whose values stand one after the other, faster than a statement; nil on SQLite.
	copy func(ctx context.Context, table string, columns []string, values []any) error
}

// dialect is how the SQL of a database differs from that of the other.
type dialect struct {
	parameter func(n int) string  // placeholder of the nth parameter
	locks     bool                // it locks rows; else a transaction that writes is the only one
	adds      map[*tally][]string // that add to the sums of one key, of two, …
	updates   []string            // that write some groups of the columns of a job, by the bits of these
}

// lock is the end of a query that locks the rows of a table until the end of the transaction.
func (d *dialect) lock(table string) string {
	if d.locks {
		return " FOR UPDATE OF " + table
	}
	return ""
}

// skipLocked ends a query that passes over the rows that others may be changing.
func (d *dialect) skipLocked() string {
	if d.locks {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// attempts is how often a transaction is tried that PostgreSQL aborted to resolve a deadlock.
const attempts = 5

// in runs f in a transaction, with the store's time, and commits if f returns no error. It may call f more than once.
func (s *Store) in(ctx context.Context, db *sql.DB, op string, f func(q tx, now int64) error) error {
	return s.inIsolated(ctx, db, op, nil, f)
}

// inSnapshot is in for a transaction that only reads, and all of whose reads see the database at one moment. On
// SQLite all do.
func (s *Store) inSnapshot(ctx context.Context, db *sql.DB, op string, f func(q tx, now int64) error) error {
	if !s.remote {
		return s.in(ctx, db, op, f)
	}
	return s.inIsolated(ctx, db, op, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, f)
}

func (s *Store) inIsolated(
	ctx context.Context, db *sql.DB, op string, o *sql.TxOptions, f func(q tx, now int64) error,
) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	ctx, end := s.begin(ctx, op)
	var err error
	for range attempts {
		if err = s.once(ctx, db, o, f); !retryable(err) {
			break
		}
	}
	end(err)
	return fail(op, err)
}

// readOnly runs f, which only reads, with the store's time. Each of its statements sees the latest commits: a
// transaction would not change that on PostgreSQL, and would take longer than most reads.
func (s *Store) readOnly(ctx context.Context, db *sql.DB, op string, f func(q tx, now int64) error) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	ctx, end := s.begin(ctx, op)
	now, err := s.now(ctx, db)
	if err == nil {
		err = f(s.tx(ctx, db, db, now), now)
	}
	end(err)
	return fail(op, err)
}

// runner is in, inSnapshot or readOnly of a store.
type runner func(ctx context.Context, db *sql.DB, op string, f func(q tx, now int64) error) error

// result has in run f, and returns what f returns; the zero value with an error.
func result[T any](
	ctx context.Context, in runner, db *sql.DB, op string, f func(q tx, now int64) (T, error),
) (v T, err error) {
	err = in(ctx, db, op, func(q tx, now int64) error {
		v, err = f(q, now)
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return v, nil
}

func (s *Store) once(ctx context.Context, db *sql.DB, o *sql.TxOptions, f func(q tx, now int64) error) error {
	s.ready(ctx, db)
	begun, now, err := s.beginTx(ctx, db, o)
	if err != nil {
		return err
	}
	defer begun.Rollback()
	q := s.tx(ctx, db, begun, now)
	if err = f(q, now); err == nil {
		err = q.number(ctx)
	}
	if errors.Is(err, driver.ErrBadConn) && ctx.Err() != nil {
		// the driver also calls a connection bad whose statement was not sent because the context had ended
		return ctx.Err()
	} else if err != nil {
		return err
	}
	return committed(begun.Commit())
}

// tx returns what runs statements of db in a transaction, whose context is ctx, or on db itself. The time is now.
func (s *Store) tx(ctx context.Context, db *sql.DB, on querier, now int64) tx {
	adapted := s.tracedWithin(ctx, s.adapt(db, on))
	q := tx{querier: adapted, dialect: s.dialect, now: now, numbers: &numbers{}}
	q.runAll = func(ctx context.Context, all []command) error { return runEach(ctx, adapted, all) }
	if t, remote := on.(*postgresTx); remote {
		q.runAll, q.copy = s.tracedBatch(ctx, t.sendAll), t.copy
	}
	return q
}

// runEach runs statements one after the other.
func runEach(ctx context.Context, q querier, all []command) error {
	for _, s := range all {
		if _, err := q.ExecContext(ctx, s.text, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// block holds reserved ids that are not used yet. Those left when the process ends are lost.
type block struct {
	sync.Mutex
	next, last int64
}

// reserved is how many ids are reserved at a time, so that processes rarely wait for the counter's row.
const reserved = 32

// take returns the first of n new consecutive ids.
func (s *Store) take(ctx context.Context, name string, n int) (first int64, err error) {
	b := s.ids[name]
	b.Lock()
	defer b.Unlock()
	if b.next == 0 || b.next+int64(n)-1 > b.last {
		size := max(int64(n), reserved)
		last, err := value[int64](ctx, s.on(s.write), `
			UPDATE ids
			SET last = last + $1
			WHERE name = $2
			RETURNING last`, size, name)
		if err != nil {
			return 0, err
		}
		if b.next == 0 || last-size != b.last { // another process reserved ids in between
			b.next = last - size + 1
		}
		b.last = last
	}
	first = b.next
	b.next += int64(n)
	return first, nil
}

// withNewIDs calls store, which takes ids. If one of them is in use already, it skips those in use and calls store
// again.
func (s *Store) withNewIDs(ctx context.Context, store func() error) error {
	err := store()
	if !isDuplicateID(err) {
		return err
	}
	if err := s.SkipIDs(ctx); err != nil {
		return err
	}
	return store()
}

// SkipIDs moves the id counters behind the last id in use and drops reserved ids. The counters lag behind after the
// database was restored, or after a standby took over that lacked the last commits.
func (s *Store) SkipIDs(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(s.ids)) { // in one order, so that two callers do not deadlock
		b := s.ids[name]
		b.Lock()
		defer b.Unlock()
	}
	err := s.in(ctx, s.write, "SkipIDs", func(q tx, _ int64) error {
		err := raiseIDs(ctx, q, "job", `
			SELECT max(id) AS id FROM jobs
			UNION ALL SELECT max(id) FROM sync_runs
			UNION ALL SELECT max(job) FROM unstarted`)
		if err != nil {
			return err
		}
		return raiseIDs(ctx, q, "task", `
			SELECT max(id) AS id FROM tasks
			UNION ALL SELECT max(task) FROM unstarted`)
	})
	if err != nil {
		return err
	}
	for _, b := range s.ids {
		b.next, b.last = 0, 0
	}
	return nil
}

// raiseIDs moves the counter of some ids behind the last that is in use, which is among those that a query lists.
func raiseIDs(ctx context.Context, q tx, name, used string) error {
	return run(ctx, q, `
		UPDATE ids
		SET last = l.last
		FROM (SELECT COALESCE(max(id), 0) AS last FROM (`+used+`) AS used) AS l
		WHERE ids.name = $1 AND ids.last < l.last`, name)
}

func conflict(op string) error {
	return &dispatch.Error{Kind: dispatch.Conflict, Op: "store." + op,
		Text: "The record was changed by another request."}
}

// changed returns Conflict for sql.ErrNoRows: the row is not as it was read.
func changed(op string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return conflict(op)
	}
	return err
}

// missing returns nil for sql.ErrNoRows.
func missing(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func span(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

func at(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
