package store

import (
	"context"
	"database/sql"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// transaction is what runs the statements of a transaction, and its end. Rollback after Commit does nothing.
type transaction interface {
	querier
	Commit() error
	Rollback() error
}

// postgresTx is a transaction on a connection that is taken from a pool until the end. It is not an sql.Tx because
// database/sql cannot send two statements at once: each transaction needs the server's time, and would wait once more
// for it.
type postgresTx struct {
	*sql.Conn
	ctx   context.Context
	ended bool
}

// beginPostgres begins a transaction and asks for the server's time in one round trip.
func beginPostgres(ctx context.Context, db *sql.DB, o *sql.TxOptions) (begun transaction, us int64, err error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, 0, err
	}
	t := &postgresTx{Conn: c, ctx: ctx}
	err = t.native(func(conn *pgx.Conn) error {
		var both pgx.Batch
		both.Queue(beginText(o))
		both.Queue(selectNow).QueryRow(func(row pgx.Row) error { return row.Scan(&us) })
		return conn.SendBatch(ctx, &both).Close()
	})
	if err != nil {
		_ = t.Rollback() // report the first error
		return nil, 0, err
	}
	return t, us, nil
}

func beginText(o *sql.TxOptions) string {
	text := "BEGIN"
	if o == nil {
		return text
	}
	if o.Isolation != sql.LevelDefault {
		text += " ISOLATION LEVEL " + strings.ToUpper(o.Isolation.String())
	}
	if o.ReadOnly {
		text += " READ ONLY"
	}
	return text
}

// native calls f with the connection of the driver.
func (t *postgresTx) native(f func(*pgx.Conn) error) error {
	return t.Conn.Raw(func(c any) error { return f(c.(*stdlib.Conn).Conn()) })
}

// sendAll sends statements in one round trip.
func (t *postgresTx) sendAll(ctx context.Context, all []command) error {
	if len(all) == 0 {
		return nil
	}
	return t.native(func(conn *pgx.Conn) error {
		var batch pgx.Batch
		for _, s := range all {
			batch.Queue(s.text, s.args...)
		}
		return conn.SendBatch(ctx, &batch).Close()
	})
}

// copy inserts rows, whose values stand one after the other.
func (t *postgresTx) copy(ctx context.Context, table string, columns []string, values []any) error {
	rows := pgx.CopyFromSlice(len(values)/len(columns), func(i int) ([]any, error) {
		return values[i*len(columns) : (i+1)*len(columns)], nil
	})
	return t.native(func(conn *pgx.Conn) error {
		_, err := conn.CopyFrom(ctx, pgx.Identifier{table}, columns, rows)
		return err
	})
}

// Commit implements transaction. The server rolls back a transaction in which a statement failed, and says so.
func (t *postgresTx) Commit() error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	err := t.native(func(c *pgx.Conn) error {
		tag, err := c.Exec(t.ctx, "COMMIT")
		if err == nil && tag.String() == "ROLLBACK" {
			err = pgx.ErrTxCommitRollback
		}
		return err
	})
	if err == nil {
		t.ended = true
		_ = t.Conn.Close() // what was committed stays
	}
	return err
}

// Rollback implements transaction. A connection that cannot be rolled back is closed when it returns to its pool.
func (t *postgresTx) Rollback() error {
	if t.ended {
		return nil
	}
	t.ended = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), leaveWithin)
	defer cancel()
	_ = t.native(func(c *pgx.Conn) error { _, err := c.Exec(ctx, "ROLLBACK"); return err })
	return t.Conn.Close()
}
