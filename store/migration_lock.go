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

// patientLocker makes a migration give up a lock on a table that it does not get soon. Programs of the previous version go on meanwhile, and
// whoever wants a table waits behind a migration that waits for it.
type patientLocker struct{ lock.SessionLocker }

// SessionLock implements lock.SessionLocker. The connection is that of the migrations.
func (l patientLocker) SessionLock(ctx context.Context, c *sql.Conn) error {
	if err := l.SessionLocker.SessionLock(ctx, c); err != nil {
		return err
	}
	_, err := c.ExecContext(ctx, fmt.Sprintf("SET lock_timeout = %d", migrationWaits.Milliseconds()))
	return err
}

// SessionUnlock implements lock.SessionLocker.
func (l patientLocker) SessionUnlock(ctx context.Context, c *sql.Conn) error {
	_, err := c.ExecContext(ctx, "RESET lock_timeout")
	return errors.Join(err, l.SessionLocker.SessionUnlock(ctx, c))
}

// patiently calls migrate again while it does not get its locks. What it migrated before is kept.
func patiently(ctx context.Context, migrate func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, allowed(ctx))
	defer cancel()
	for {
		err := migrate(ctx)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != stateLocked {
			return err
		}
		select {
		case <-time.After(migrationRests):
		case <-ctx.Done():
			return err
		}
	}
}
