package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3/lock"
)

const (
	migrationWaits = 2 * time.Second // for a lock on a table; all who want the table meanwhile wait behind it
	migrationRests = time.Second     // before it tries again
	stateLocked    = "55P03"         // SQLSTATE lock_not_available
)

// migrationLock makes processes migrate one after the other. The lock is one of a transaction, on a connection of its
// own, because a lock of a session stays with a connection of a pooler. Its key is that of goose.
//
// It also makes a migration give up a lock on a table that it does not get soon. Programs of the previous version go on
// meanwhile, and whoever wants a table waits behind a migration that waits for it.
type migrationLock struct {
	locks  *sql.DB
	shared bool // connections are shared with others by a pooler, so their settings must not be changed
	held   *sql.Tx
}

var _ lock.SessionLocker = (*migrationLock)(nil)

// SessionLock implements lock.SessionLocker. The connection is that of the migrations.
func (l *migrationLock) SessionLock(ctx context.Context, c *sql.Conn) error {
	for {
		taken, err := l.take(ctx)
		if err != nil {
			return err
		}
		if taken {
			break
		}
		select {
		case <-time.After(migrationRests):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if l.shared {
		return nil
	}
	_, err := c.ExecContext(ctx, fmt.Sprintf("SET lock_timeout = %d", migrationWaits.Milliseconds()))
	return err
}

// take tries to take the lock, without waiting in the database: a statement that waits keeps old rows from being
// removed.
func (l *migrationLock) take(ctx context.Context) (taken bool, err error) {
	tx, err := l.locks.BeginTx(context.WithoutCancel(ctx), nil) // the end of a context would release the lock
	if err != nil {
		return false, err
	}
	err = tx.QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock($1)`, lock.DefaultLockID).Scan(&taken)
	if err == nil && taken {
		// Sent without parameters, this also ends the portal of the query before, whose snapshot would hold up CREATE
		// INDEX CONCURRENTLY for ever.
		_, err = tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d",
			upkeepWithin.Milliseconds()))
	}
	if err != nil || !taken {
		return false, errors.Join(err, tx.Rollback())
	}
	l.held = tx
	return true, nil
}

// SessionUnlock implements lock.SessionLocker.
func (l *migrationLock) SessionUnlock(ctx context.Context, c *sql.Conn) (err error) {
	if !l.shared {
		_, err = c.ExecContext(ctx, "RESET lock_timeout")
	}
	return errors.Join(err, l.held.Rollback()) // it changed nothing
}

// patiently calls migrate again while it does not get its locks, or the server aborts it to resolve a deadlock with
// brokers at work. What it migrated before is kept.
func patiently(ctx context.Context, migrate func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, allowed(ctx))
	defer cancel()
	for {
		err := migrate(ctx)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != stateLocked && !deadlock(e.Code) {
			return err
		}
		select {
		case <-time.After(migrationRests):
		case <-ctx.Done():
			return err
		}
	}
}
