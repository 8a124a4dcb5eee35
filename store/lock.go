package store

import (
	"context"
	"strconv"
)

const (
	takeLock = `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`
	holdLock = `SELECT set_config('idle_in_transaction_session_timeout', $2, true), pg_advisory_xact_lock(hashtextextended($1, 0))`
)

// lockInTransaction serializes the transactions that use the same name. On SQLite all writers are serialized anyway.
func (s *Store) lockInTransaction(ctx context.Context, q tx, name string) error {
	if s.locks == nil {
		return nil
	}
	_, err := q.ExecContext(ctx, takeLock, name)
	return err
}

// Lock acquires the lock of a name and returns the function that releases it. It excludes the other processes that use
// the database. The lock is also released when ctx ends, when the process or its connection ends, and after a minute.
// On SQLite there is no other process, and Lock does nothing.
func (s *Store) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if s.locks == nil {
		return func() {}, nil
	}
	// A lock of a transaction, not of a session, also works behind a pooler that shares connections.
	tx, err := s.locks.BeginTx(ctx, nil)
	if err != nil {
		return nil, fail("Lock", err)
	}
	if _, err := tx.ExecContext(allow(ctx, lockWithin), holdLock, name, strconv.FormatInt(heldWithin.Milliseconds(),
		10)); err != nil {
		_ = tx.Rollback() // report the error of the wait
		return nil, fail("Lock", err)
	}
	return func() { _ = tx.Rollback() }, nil // it changed nothing, and a lost connection has released the lock
}
