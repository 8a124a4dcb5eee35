package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// Sizes of the connection pools for visits, for locks, and for Ping. The pools for clients' writes and for clients'
// reads have pool_max_conns connections each; default: the number of CPUs, and at least 4.
const visiting, locking, pinging = 8, 6, 2

// listening is the connection for notifications, which is outside of the pools.
const listening = 1

// postgresPools are the names of the pools, in the order in which they are opened.
var postgresPools = []string{"write", "read", "visit", "locks", "ping"}

func (s *Store) openPostgreSQL(ctx context.Context, dsn string) (*Store, error) {
	err := s.openPools(ctx, dsn, poolFor{&s.write, 0}, poolFor{&s.read, 0}, poolFor{&s.visit, visiting},
		poolFor{&s.locks, locking}, poolFor{&s.ping, pinging})
	if err != nil {
		return nil, errors.Join(fail("Open", err), s.close())
	}
	s.agendas = s.visit
	if err := s.migrate(allow(ctx, upkeepWithin)); err != nil {
		return nil, errors.Join(fail("Open", err), s.close())
	}
	return s, nil
}

// poolFor is where a pool of n connections is needed; 0: pool_max_conns of the address.
type poolFor struct {
	db **sql.DB
	n  int32
}

// openPools sets how the store uses a PostgreSQL database, and opens pools of connections to it.
func (s *Store) openPools(ctx context.Context, dsn string, all ...poolFor) (err error) {
	s.remote, s.now, s.beginTx, s.ready = true, postgresNow, beginPostgres, func(context.Context, *sql.DB) {}
	s.dialect, s.batches = postgresDialect, batches{store: s, within: 250 * time.Millisecond}
	s.adapt = func(_ *sql.DB, on querier) querier { return on }
	s.pools = &pools{}
	s.close = func() (err error) {
		for _, use := range all {
			err = errors.Join(err, closeAll(*use.db))
		}
		s.pools.close()
		return err
	}
	if s.pooled, err = leadsToPooler(ctx, dsn); err != nil {
		return err
	}
	s.pools.pooled = s.pooled
	for _, use := range all {
		p, err := s.pools.open(ctx, dsn, use.n)
		if err != nil {
			return err
		}
		*use.db = stdlib.OpenDBFromPool(p)
	}
	return nil
}

var postgresDialect = newDialect(func(n int) string { return "$" + strconv.Itoa(n) }, true)

// pools holds the connection pools of one database. A pool for each use keeps one that waits, for a standby or for a
// lock, from blocking the others.
type pools struct {
	all    []*pgxpool.Pool
	pooled bool // the connections lead to a pooler
}

// open adds a pool of at most n connections; 0: pool_max_conns of the address.
func (p *pools) open(ctx context.Context, dsn string, n int32) (*pgxpool.Pool, error) {
	c, err := p.config(dsn)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		c.MaxConns = n
		c.MinConns, c.MinIdleConns = min(c.MinConns, n), min(c.MinIdleConns, n)
	}
	opened, err := pgxpool.NewWithConfig(ctx, c)
	if err == nil {
		p.all = append(p.all, opened)
	}
	return opened, err
}

// config parses an address and adds the time limits.
func (p *pools) config(dsn string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, invalidAddress(err)
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connectWithin
	}
	if c.PingTimeout == 0 {
		c.PingTimeout = pingWithin
	}
	if p.pooled && !strings.Contains(dsn, "default_query_exec_mode") {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = p.applicationName()
	}
	c.ConnConfig.DialFunc = dialer(c.ConnConfig.ConnectTimeout)
	c.AfterConnect = setUpSession
	c.ConnConfig.Tracer = deadlines{demoted: p.reset}
	return c, nil
}

// applicationName names the connections of the next pool in pg_stat_activity: by the machine of the replica, and the
// pool.
func (p *pools) applicationName() string {
	host, _ := os.Hostname() // without one, the name says less
	name := "eodispatch " + host
	if len(p.all) < len(postgresPools) {
		name += " " + postgresPools[len(p.all)]
	}
	return name[:min(len(name), 63)] // longer names are cut by the server, with a notice
}

// leadsToPooler reports whether an address leads to a pooler, such as pgbouncer, instead of a server: the process that
// a pooler names when it is connected to is not the one that executes statements. A pooler in transaction mode may
// execute each transaction by another one, so statements must not rely on what was prepared before.
func leadsToPooler(ctx context.Context, dsn string) (bool, error) {
	c, err := (&pools{}).config(dsn)
	if err != nil {
		return false, err
	}
	conn, err := pgx.ConnectConfig(ctx, c.ConnConfig)
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // nothing depends on how it ends
	var executes uint32
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeExec).Scan(&executes)
	return executes != conn.PgConn().PID(), err
}

// BehindPooler reports whether connections lead to a pooler, and whether the address of the server behind it is known.
func (s *Store) BehindPooler() (pooled, direct bool) { return s.pooled, s.direct != "" }

// setUpSession makes the server end the transaction of a process that sends no further statement, and detect a process
// whose machine vanished. Otherwise their locks could keep all other processes from an account for hours. And the
// server plans each statement once for each connection, for any values: those plans are the ones that tests look at,
// and to plan a statement for its values, five times at least, takes longer than most statements. As such a plan does
// not know how short a page is, it expects a tenth of a list, for which the server would compile the statement or start
// further processes: a page of a list of 500,000 took 110 ms in place of 6. It is a statement because poolers refuse
// most settings in the startup message.
func setUpSession(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, fmt.Sprintf(`SET idle_in_transaction_session_timeout = %d;
		SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3;
		SET plan_cache_mode = force_generic_plan; SET jit = off; SET max_parallel_workers_per_gather = 0`,
		nextWithin.Milliseconds()))
	return err
}

// reset closes all connections, those in use when they are returned: they lead to a server that is no longer the
// primary.
func (p *pools) reset() {
	for _, pool := range p.all {
		pool.Reset()
	}
}

func (p *pools) close() {
	for _, pool := range p.all {
		pool.Close()
	}
}

// migrate migrates the schema: over the direct address, if one is known. A lock makes replicas do so one after the
// other.
func (s *Store) migrate(ctx context.Context) error {
	db, locks := s.visit, s.locks
	if s.direct != "" {
		var own pools
		defer own.close()
		pool, err := own.open(ctx, s.direct, locking)
		if err != nil {
			return err
		}
		db = stdlib.OpenDBFromPool(pool)
		defer db.Close()
		locks = db
	}
	locker := &migrationLock{locks: locks, shared: s.pooled && s.direct == ""}
	return patiently(ctx, func(ctx context.Context) error {
		return s.prepare(ctx, db, goose.DialectPostgres, goose.WithSessionLocker(locker))
	})
}

const selectNow = `SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)`

func postgresNow(ctx context.Context, db querier) (us int64, err error) {
	err = db.QueryRowContext(ctx, selectNow).Scan(&us)
	return us, err
}

// Connections returns how many connections one process opens at most, and how many the server allows its user at
// once, for all processes together; 0 for a server that is not known, such as a pooler, and for SQLite.
func (s *Store) Connections(ctx context.Context) (own, allowed int, err error) {
	if s.pools == nil || s.pooled {
		return 0, 0, nil
	}
	own = listening
	for _, p := range s.pools.all {
		own += int(p.Stat().MaxConns())
	}
	err = s.ping.QueryRowContext(ctx, `SELECT least(
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
		(SELECT NULLIF(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user),
		(SELECT NULLIF(datconnlimit, -1) FROM pg_database WHERE datname = current_database()))`).Scan(&allowed)
	return own, allowed, fail("Connections", err)
}
