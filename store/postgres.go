package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/eodispatch/eodispatch/store/query"
)

// leasing is how many connections are kept for what keeps leases.
const leasing = 8

func openPostgreSQL(ctx context.Context, dsn string) (*Store, error) {
	clients, err := pool(ctx, dsn, 0)
	if err != nil {
		return nil, fail("Open", err)
	}
	visits, err := pool(ctx, dsn, leasing)
	if err != nil {
		clients.Close()
		return nil, fail("Open", err)
	}
	s := &Store{now: postgresNow, ready: func(context.Context, *sql.DB) {},
		adapt: func(_ *sql.DB, on query.DBTX) query.DBTX { return on }}
	s.write, s.visit = stdlib.OpenDBFromPool(clients), stdlib.OpenDBFromPool(visits)
	s.read = s.write
	s.close = func() error {
		err := closeAll(s.write, s.visit)
		clients.Close()
		visits.Close()
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fail("Open", err), s.close())
	}
	return s, nil
}

// pool of at most n connections; 0: what the address says.
func pool(ctx context.Context, dsn string, n int32) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, misspelt(err)
	}
	if n > 0 {
		c.MaxConns = n
	}
	return pgxpool.NewWithConfig(ctx, c)
}

// migrate lets one replica after the other bring the tables up to date.
func (s *Store) migrate(ctx context.Context) error {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	return s.prepare(ctx, goose.DialectPostgres, goose.WithSessionLocker(locker))
}

// postgresNow is not among the queries because SQLite has no such functions.
func postgresNow(ctx context.Context, db query.DBTX) (us int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)`).Scan(&us)
	return us, err
}
