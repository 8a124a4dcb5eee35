package store

import (
	"context"
	"strconv"
)

const (
	takeLock = `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`
	holdLock = `SELECT set_config('idle_in_transaction_session_timeout', $2, true), pg_advisory_xact_lock(hashtextextended($1, 0))`
)

// queue lets transactions of the same name pass one after the other. On SQLite all that write do.
func (s *Store) queue(ctx context.Context, q tx, name string) error {
	if s.locks == nil {
		return nil
	}
	_, err := q.ExecContext(ctx, takeLock, name)
	return err
}

// Lock waits until nobody holds the lock of a name, takes it, and gives the way to leave it. It excludes the other
// processes that use the database, and is left by itself when ctx, the process or its connection ends, and after a minute. On SQLite there is no
// other process, and nothing is excluded.
func (s *Store) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if s.locks == nil {
		return func() {}, nil
	}
	// A lock of a transaction and not of a session: it also holds behind a proxy that shares connections.
	tx, err := s.locks.BeginTx(ctx, nil)
	if err != nil {
		return nil, fail("Lock", err)
	}
	if _, err := tx.ExecContext(allow(ctx, lockWithin), holdLock, name, strconv.FormatInt(heldWithin.Milliseconds(), 10)); err != nil {
		_ = tx.Rollback() // the error is that of the wait
		return nil, fail("Lock", err)
	}
	return func() { _ = tx.Rollback() }, nil // it changed nothing; a connection that is lost has left the lock
}
