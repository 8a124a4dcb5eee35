package store

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/eodispatch/eodispatch/store/query"
)

// How many connections are kept for what keeps leases, and for those who hold or wait for a lock.
const leasing, locking = 8, 8

func openPostgreSQL(ctx context.Context, dsn string) (*Store, error) {
	s := &Store{now: postgresNow, parameter: func(n int) string { return "$" + strconv.Itoa(n) }, ready: func(context.Context, *sql.DB) {},
		adapt: func(_ *sql.DB, on query.DBTX) query.DBTX { return on }}
	var pools []*pgxpool.Pool
	s.close = func() error {
		err := closeAll(s.write, s.visit, s.locks)
		for _, p := range pools {
			p.Close()
		}
		return err
	}
	for _, use := range []struct {
		db **sql.DB
		n  int32
	}{{&s.write, 0}, {&s.visit, leasing}, {&s.locks, locking}} {
		p, err := pool(ctx, dsn, use.n)
		if err != nil {
			return nil, errors.Join(fail("Open", err), s.close())
		}
		pools = append(pools, p)
		*use.db = stdlib.OpenDBFromPool(p)
	}
	s.read = s.write
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
