package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	channel    = "eodispatch"
	payload    = 7900 // bytes; PostgreSQL's limit is 8,000
	reconnect  = time.Second
	backlog    = 10_000           // accounts, jobs and users kept while the database does not answer
	statement  = 10 * time.Second // time limit of a statement
	connecting = 5 * time.Second  // time limit of a connection attempt, unless the address sets connect_timeout
	echoEvery  = 30 * time.Second // interval of the checks that notifications arrive
	echoWithin = 5 * time.Second  // time limit for one's own notification to arrive
	polling    = 2 * time.Second  // polling interval while notifications do not arrive
)

// Postgres is a Notifier on LISTEN and NOTIFY, with a connection of its own. Changes that arise while a notification
// is being sent are combined in the next; what could not be sent is kept and sent later. Where notifications do not
// arrive, as behind a pooler in transaction mode, it makes its process poll every 2 s instead.
type Postgres struct {
	address string
	log     *slog.Logger
	self    string

	mu      sync.Mutex
	woken   map[dispatch.Account]bool
	saved   map[dispatch.JobID]bool
	shown   map[dispatch.UserID]bool
	lost    bool // changes were dropped, or may have been: all processes must look at everything
	pending chan struct{}

	listening atomic.Bool // notifications arrive

	failures int       // of connections, in a row; used only by Run, like since
	since    time.Time // the first of them
}

var _ Notifier = (*Postgres)(nil)

// NewPostgres returns a notifier between all processes that use the database at url. It ignores the pool settings in
// url.
func NewPostgres(url string, log *slog.Logger) *Postgres {
	p := &Postgres{address: url, log: log, self: rand.Text(), pending: make(chan struct{}, 1)}
	p.clear()
	return p
}

// notice is the payload of a notification. An empty Notification tells the receivers to look at everything.
type notice struct {
	From string `json:"from"`
	Echo bool   `json:"echo,omitempty"` // sent to the sender itself, to check the connection
	Notification
}

// Notify implements Notifier.
func (p *Postgres) Notify(n Notification) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.woken)+len(p.saved)+len(p.shown) > backlog {
		p.clear()
		p.lost = true
	}
	for _, a := range n.Woken {
		p.woken[a] = true
	}
	for _, id := range n.Saved {
		p.saved[id] = true
	}
	for _, u := range n.Shown {
		p.shown[u] = true
	}
	p.signal()
}

// notifyLost makes the other processes look at everything.
func (p *Postgres) notifyLost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = true
	p.signal()
}

func (p *Postgres) signal() {
	select {
	case p.pending <- struct{}{}:
	default:
	}
}

func (p *Postgres) clear() {
	p.woken, p.saved, p.shown = map[dispatch.Account]bool{}, map[dispatch.JobID]bool{}, map[dispatch.UserID]bool{}
}

// takeNotices takes the collected changes as notices that each fit into a payload.
func (p *Postgres) takeNotices() (notices []notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, size := notice{From: p.self}, 0
	if p.lost {
		notices, p.lost = append(notices, n), false
	}
	flush := func(more int) {
		if size += more; size > payload-100 && more < size {
			notices = append(notices, n)
			n, size = notice{From: p.self}, more
		}
	}
	for a := range p.woken {
		flush(len(encode(a)) + 1)
		n.Woken = append(n.Woken, a)
	}
	for id := range p.saved {
		flush(20)
		n.Saved = append(n.Saved, id)
	}
	for u := range p.shown {
		flush(len(encode(u)) + 1)
		n.Shown = append(n.Shown, u)
	}
	p.clear()
	if size > 0 {
		notices = append(notices, n)
	}
	return notices
}

func encode(v any) string {
	b, _ := json.Marshal(v) // cannot fail: strings and numbers only
	return string(b)
}

// Run implements Notifier. It opens a new connection when one breaks.
func (p *Postgres) Run(ctx context.Context, receive func(Notification)) {
	for ctx.Err() == nil {
		err := p.useConnection(ctx, receive)
		p.listening.Store(false)
		if ctx.Err() == nil {
			p.broken(ctx, err)
		}
		_ = dispatch.Sleep(ctx, reconnect)
	}
}

// Listening reports whether notifications of other processes arrive at present.
func (p *Postgres) Listening() bool { return p.listening.Load() }

// errSilent reports a connection on which notifications do not arrive.
var errSilent = errors.New("the connection's own notification did not arrive")

// broken logs that notifications do not arrive: once for each outage.
func (p *Postgres) broken(ctx context.Context, err error) {
	if p.failures++; p.failures > 1 {
		return
	}
	p.since = time.Now()
	text := "lost the connection for notifications; polling every 2 s until it is back"
	if errors.Is(err, errSilent) {
		text = "LISTEN is silent behind a pooler; falling back to polling every 2 s"
	}
	p.log.WarnContext(ctx, text, "error", err)
}

// works logs that notifications arrive again.
func (p *Postgres) works(ctx context.Context) {
	p.listening.Store(true)
	if p.failures > 0 {
		p.log.InfoContext(ctx, "the connection for notifications is back", "failures", p.failures, "after",
			time.Since(p.since).Round(time.Second))
	}
	p.failures = 0
}

func (p *Postgres) useConnection(ctx context.Context, receive func(Notification)) (err error) {
	// a panic becomes an error, and the connection is opened again
	defer dispatch.RecoverAsError(ctx, p.log, "hints", &err)
	// pgxpool knows the pool settings, which pgx would send to the server
	pool, err := pgxpool.ParseConfig(p.address)
	if err != nil {
		return errors.New("the address of the database cannot be parsed") // the cause may hold the password
	}
	if pool.ConnConfig.ConnectTimeout == 0 {
		pool.ConnConfig.ConnectTimeout = connecting
	}
	if pool.ConnConfig.RuntimeParams["application_name"] == "" {
		host, _ := os.Hostname() // without one, the name says less
		name := "eodispatch " + host + " hints"
		pool.ConnConfig.RuntimeParams["application_name"] = name[:min(len(name), 63)] // as store does
	}
	pool.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // a pooler loses prepared statements
	c, err := pgx.ConnectConfig(ctx, pool.ConnConfig)
	if err != nil {
		return err
	}
	defer closeConn(ctx, c)
	return p.talk(ctx, c, receive)
}

func closeConn(ctx context.Context, c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connecting)
	defer cancel()
	_ = c.Close(ctx) // the connection is not used any more
}

// talk sends and receives until the connection breaks or goes silent, which it finds out by notifying itself every
// 30 s.
func (p *Postgres) talk(ctx context.Context, c *pgx.Conn, receive func(Notification)) error {
	if err := execute(ctx, c, `LISTEN `+channel); err != nil {
		return err
	}
	receive(Notification{}) // notifications sent before LISTEN were missed
	for ctx.Err() == nil {
		// fails on a standby, which accepts connections
		if err := notify(ctx, c, notice{From: p.self, Echo: true}); err != nil {
			return err
		}
		echoed, err := p.exchange(ctx, c, echoWithin, true, receive)
		if err != nil {
			return err
		}
		if !echoed && ctx.Err() == nil {
			return p.poll(ctx, c, receive)
		}
		p.works(ctx)
		if _, err := p.exchange(ctx, c, echoEvery, false, receive); err != nil {
			return err
		}
	}
	return nil
}

// poll makes its process look at everything every 2 s, until it is time to try notifications again. It sends as usual.
func (p *Postgres) poll(ctx context.Context, c *pgx.Conn, receive func(Notification)) error {
	p.broken(ctx, errSilent)
	for end := time.Now().Add(echoEvery); time.Now().Before(end) && ctx.Err() == nil; {
		receive(Notification{})
		if _, err := p.exchange(ctx, c, polling, false, receive); err != nil {
			return err
		}
	}
	return errSilent
}

// exchange sends and receives for d or, with untilEcho, until the echo arrives.
func (p *Postgres) exchange(ctx context.Context, c *pgx.Conn, d time.Duration, untilEcho bool,
	receive func(Notification)) (echoed bool, err error) {
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for within.Err() == nil && !(echoed && untilEcho) {
		if err := p.send(ctx, c); err != nil {
			return false, err
		}
		got, err := p.await(within, c)
		if err != nil {
			return false, err
		}
		var n notice
		switch {
		case got == nil || json.Unmarshal([]byte(got.Payload), &n) != nil:
		case n.Echo:
			echoed = echoed || n.From == p.self
		case n.From != p.self:
			receive(n.Notification)
		}
	}
	return echoed, nil
}

// await returns the next notification; nil if there is something to send, or ctx is done.
func (p *Postgres) await(ctx context.Context, c *pgx.Conn) (*pgconn.Notification, error) {
	var sending sync.WaitGroup
	defer sending.Wait() // otherwise it could take the next signal
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sending.Go(func() {
		select {
		case <-p.pending:
			cancel()
		case <-ctx.Done():
		}
	})
	got, err := c.WaitForNotification(ctx)
	if got != nil || ctx.Err() != nil && !c.IsClosed() {
		return got, nil
	}
	return nil, err
}

// send sends the collected changes. After an error it keeps those that were not sent, and makes the others look at
// everything, since what was sent may be lost.
func (p *Postgres) send(ctx context.Context, c *pgx.Conn) error {
	notices := p.takeNotices()
	for i, n := range notices {
		if err := notify(ctx, c, n); err != nil {
			for _, unsent := range notices[i:] {
				p.Notify(unsent.Notification)
			}
			p.notifyLost()
			return err
		}
	}
	return nil
}

func notify(ctx context.Context, c *pgx.Conn, n notice) error {
	return execute(ctx, c, `SELECT pg_notify($1, $2)`, channel, encode(n))
}

func execute(ctx context.Context, c *pgx.Conn, sql string, arguments ...any) error {
	ctx, cancel := context.WithTimeout(ctx, statement)
	defer cancel()
	_, err := c.Exec(ctx, sql, arguments...)
	return err
}
