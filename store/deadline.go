package store

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Time limits of database operations. Every statement on PostgreSQL has one of them, whatever the caller's context
// says.
const (
	callWithin    = 10 * time.Second // a statement, or a transaction of a few statements
	listWithin    = time.Minute      // whole lists, and changes of all jobs of a task
	lockWithin    = 30 * time.Second // waiting for a lock that another process holds
	upkeepWithin  = 15 * time.Minute // migrations and Purge
	pingWithin    = 3 * time.Second  // Ping, and the check of an idle connection
	connectWithin = 5 * time.Second  // a new connection, unless the address sets connect_timeout
	leaveWithin   = 3 * time.Second  // closing an abandoned connection, which counts in its pool until then
	// time between two statements of a transaction; after it the server ends the transaction of a frozen or
	// disconnected process
	nextWithin = 15 * time.Second
	// holding a lock of Lock: longer than the requests that are made under it may take together
	heldWithin = time.Minute
	perJob     = time.Millisecond // added for each job that is accepted at once
)

type allowanceKey struct{}

// allow returns a context whose database calls may take d instead of callWithin.
func allow(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, allowanceKey{}, d)
}

func allowed(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(allowanceKey{}).(time.Duration); ok {
		return d
	}
	return callWithin
}

// bounded returns a context that ends after the allowed time. SQLite needs no limit: a statement there waits only for
// the local disk, which nothing can interrupt, and a context that can end costs a goroutine per statement.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if !s.remote {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, allowed(ctx))
}

// deadlines is the tracer of all PostgreSQL connections. It limits each statement and each wait for a connection, so
// that no caller can forget to, and it detects connections to a server that has become read-only.
type deadlines struct {
	demoted func() // called when a server refused a write
}

var (
	_ pgx.QueryTracer       = deadlines{}
	_ pgx.BatchTracer       = deadlines{}
	_ pgxpool.AcquireTracer = deadlines{}
)

type cancelKey struct{}

func start(ctx context.Context) context.Context {
	ctx, cancel := context.WithTimeout(ctx, allowed(ctx))
	return context.WithValue(ctx, cancelKey{}, cancel)
}

func end(ctx context.Context) {
	if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok {
		cancel()
	}
}

// TraceQueryStart implements pgx.QueryTracer.
func (deadlines) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return start(ctx)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (d deadlines) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	end(ctx)
	d.check(data.Err)
}

// TraceBatchStart implements pgx.BatchTracer.
func (deadlines) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return start(ctx)
}

// TraceBatchQuery implements pgx.BatchTracer.
func (d deadlines) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	d.check(data.Err)
}

// TraceBatchEnd implements pgx.BatchTracer.
func (d deadlines) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	end(ctx)
	d.check(data.Err)
}

// check calls demoted if a server refused a write.
func (d deadlines) check(err error) {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == stateReadOnly {
		d.demoted()
	}
}

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (deadlines) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool,
	_ pgxpool.TraceAcquireStartData) context.Context {
	return start(ctx)
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (deadlines) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireEndData) {
	end(ctx)
}

// dialer returns a dial function that connects within the given time and detects a server that vanished without a
// reset: by keepalives while it waits for a response, and by the kernel's limit on unacknowledged data.
func dialer(within time.Duration) pgconn.DialFunc {
	d := &net.Dialer{Timeout: within, Control: boundUnacknowledged,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 3 * time.Second, Count: 3}}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := c.SetDeadline(time.Now().Add(within)); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return &conn{Conn: c, first: true}, nil
	}
}

// conn is a connection whose server must send its first response before the deadline set at dialing. That also covers a
// cancel request, which has a connection of its own. When pgx gives a connection up it waits for the server to close
// it; conn limits that wait to leaveWithin.
type conn struct {
	net.Conn
	mu    sync.Mutex
	first bool // nothing was read yet, and nobody else set a deadline
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.first {
			c.first = false
			return n, errors.Join(err, c.Conn.SetDeadline(time.Time{}))
		}
	}
	return n, err
}

// SetDeadline implements net.Conn. pgx sets deadlines in the past to interrupt a read, and one in the future when it
// gives the connection up.
func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first = false
	if latest := time.Now().Add(leaveWithin); t.After(latest) {
		t = latest
	}
	return c.Conn.SetDeadline(t)
}
