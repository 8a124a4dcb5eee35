package store

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/eodispatch/eodispatch/dispatch"
)

// LimitPages makes the database full at so many pages.
func LimitPages(t *testing.T, s *Store, pages int) {
	t.Helper()
	if _, err := s.write.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
		t.Fatal(err)
	}
}

// InVisit runs f between two statements of a transaction that locks the row of an account. As in a frozen process, no
// deadline of the program ends it.
func InVisit(ctx context.Context, s *Store, account dispatch.Account, f func()) error {
	lock := "UPDATE accounts SET due = due WHERE id = $1"
	return fail("InVisit", s.once(ctx, s.visit, nil, func(q tx, _ int64) error {
		if _, err := q.ExecContext(ctx, lock, account); err != nil {
			return err
		}
		f()
		_, err := q.ExecContext(ctx, lock, account)
		return err
	}))
}

// Querier is querier.
type Querier = querier

// Transact runs f in a transaction of clients.
func Transact(ctx context.Context, s *Store, f func(querier) error) error {
	return s.once(ctx, s.write, nil, func(q tx, _ int64) error { return f(q) })
}

// TransactionLimits returns, for each pool of connections to PostgreSQL, after which time without a statement the
// server ends a transaction.
func TransactionLimits(t *testing.T, s *Store) map[string]string {
	t.Helper()
	limits := map[string]string{}
	for name, pool := range map[string]*sql.DB{"write": s.write, "visit": s.visit, "agendas": s.agendas, "read": s.read,
		"ping": s.ping, "locks": s.locks} {
		var limit string
		if err := pool.QueryRowContext(t.Context(), "SHOW "+
			"idle_in_transaction_session_timeout").Scan(&limit); err != nil {
			t.Fatal(err)
		}
		limits[name] = limit
	}
	return limits
}

// Count counts the queries and transactions of a store that is not in use yet. Transactions on PostgreSQL also read the
// clock.
func Count(s *Store) (queries, transactions *atomic.Int64) {
	queries, transactions = new(atomic.Int64), new(atomic.Int64)
	adapt, now, begin := s.adapt, s.now, s.beginTx
	s.adapt = func(db *sql.DB, on querier) querier { return counted{adapt(db, on), queries} }
	s.now = func(ctx context.Context, db querier) (int64, error) {
		transactions.Add(1)
		return now(ctx, db)
	}
	s.beginTx = func(ctx context.Context, db *sql.DB, o *sql.TxOptions) (transaction, int64, error) {
		transactions.Add(1)
		return begin(ctx, db, o)
	}
	return queries, transactions
}

type counted struct {
	querier
	n *atomic.Int64
}

func (c counted) ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error) {
	c.n.Add(1)
	return c.querier.ExecContext(ctx, q, args...)
}

func (c counted) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	c.n.Add(1)
	return c.querier.QueryContext(ctx, q, args...)
}

func (c counted) QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row {
	c.n.Add(1)
	return c.querier.QueryRowContext(ctx, q, args...)
}

// Exec runs a statement.
func Exec(t testing.TB, s *Store, statement string) {
	t.Helper()
	if _, err := s.write.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// PurgedAtOnce is how many jobs one transaction of Purge deletes.
const PurgedAtOnce = purgedAtOnce

// Rows returns how many rows a table has.
func Rows(t testing.TB, s *Store, table string) (n int) {
	t.Helper()
	if err := s.write.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Until is until.
var Until = until

// SetIDsBack sets the counters of ids back to their beginning, for a process that has none reserved.
func SetIDsBack(t testing.TB, s *Store) {
	t.Helper()
	Exec(t, s, "UPDATE ids SET last = 0")
	s.ids = map[string]*block{"job": {}, "task": {}}
}

// ForgetListed does what Forget does with a job after it was listed as ended.
func ForgetListed(t testing.TB, s *Store, id dispatch.JobID) {
	t.Helper()
	err := s.in(t.Context(), s.write, "Forget", func(q tx, _ int64) error {
		return forgetEnded(t.Context(), q, []dispatch.JobID{id}, map[string]int64{})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ForgetUser does what Forget does after the jobs have been deleted.
func ForgetUser(t testing.TB, s *Store, u dispatch.UserID) error {
	t.Helper()
	_, err := s.forgetUser(t.Context(), u, map[string]int64{})
	return err
}

// OpenWith is Open for a program whose schema has more migrations: file names, as sqlite/00002_column.sql, and their
// texts.
func OpenWith(ctx context.Context, dsn string, c dispatch.Clock, program string, migrations map[string]string) (*Store,
	error) {
	files := fstest.MapFS{}
	for name, text := range migrations {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return (&Store{migrations: files, program: program, keyLife: dispatch.KeyLife}).open(ctx, dsn, c)
}

// Joining returns how many small transactions of an owner wait for others; "": of all, as on SQLite.
func Joining(s *Store, u dispatch.UserID) int {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	return len(s.batches.waiting[string(u)])
}

// Join runs f as a small transaction of a client.
func Join(ctx context.Context, s *Store, f func(querier) error) error {
	return s.inBatch(ctx, "Join", "", &joining{f: func(q tx, _ int64) error { return f(q) }})
}

// AwaitJoining waits until so many acceptances of a user wait for others.
func AwaitJoining(s *Store, u dispatch.UserID, n int) {
	for Joining(s, u) != n {
		runtime.Gosched()
	}
}

// NameOf returns the name of a statement in traces.
var NameOf = nameOf

// ChangeInRanges sets how many jobs of a task one transaction changes at most, and what is called before each
// transaction after the first. Call it before the store is used.
func (s *Store) ChangeInRanges(jobs int, before func(context.Context)) {
	s.changeRange, s.beforeRange = jobs, before
}
