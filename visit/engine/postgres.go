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

// Postgres is a Notifier on LISTEN and NOTIFY, with two connections of its own. Changes that arise while a notification
// is being sent are combined in the next; what could not be sent is kept and sent later. Where notifications do not
// arrive, as behind a pooler in transaction mode, it makes its process poll every 2 s instead.
type Postgres struct {
	address string
	log     *slog.Logger
	self    string

	mu    sync.Mutex
	woken map[dispatch.Account]bool
	saved map[dispatch.JobID]bool
	shown map[dispatch.UserID]bool
	lost  bool // changes were dropped, or may have been: all processes must look at everything
	some  chan struct{}

	listening atomic.Bool // notifications arrive
}

var _ Notifier = (*Postgres)(nil)

// NewPostgres returns a notifier between all processes that use the database at url. It ignores the pool settings in
// url.
func NewPostgres(url string, log *slog.Logger) *Postgres {
	p := &Postgres{address: url, log: log, self: rand.Text(), some: make(chan struct{}, 1)}
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
	case p.some <- struct{}{}:
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

// putBack keeps notices that could not be sent.
func (p *Postgres) putBack(notices []notice) {
	for _, n := range notices {
		if n.empty() {
			p.notifyLost()
			continue
		}
		p.Notify(n.Notification)
	}
}

func encode(v any) string {
	b, _ := json.Marshal(v) // cannot fail: strings and numbers only
	return string(b)
}

// Run implements Notifier.
func (p *Postgres) Run(ctx context.Context, receive func(Notification)) {
	var both sync.WaitGroup
	both.Go(func() { p.keep(ctx, &link{of: "sending", use: p.send}) })
	both.Go(func() {
		p.keep(ctx, &link{of: "listening", use: func(ctx context.Context, c *pgx.Conn, works func()) error {
			defer p.listening.Store(false)
			return p.listen(ctx, c, receive, func() { p.listening.Store(true); works() })
		}, instead: func(ctx context.Context) { poll(ctx, receive) }})
	})
	both.Wait()
}

// Listening reports whether notifications of other processes arrive at present.
func (p *Postgres) Listening() bool { return p.listening.Load() }

// errSilent reports a connection on which notifications do not arrive.
var errSilent = errors.New("the connection's own notification did not arrive")

// link is one of the two connections.
type link struct {
	of  string
	use func(ctx context.Context, c *pgx.Conn, works func()) error // calls works once the connection is proved to work
	// runs for a while where notifications do not arrive
	instead func(context.Context)

	failures int // consecutive
	since    time.Time
}

// keep uses a connection until ctx is done, and opens a new one when it breaks.
func (p *Postgres) keep(ctx context.Context, l *link) {
	for {
		err := p.useConnection(ctx, func(ctx context.Context, c *pgx.Conn) error {
			return l.use(ctx, c, func() { p.back(ctx, l) })
		})
		if ctx.Err() != nil {
			return
		}
		p.broken(ctx, l, err)
		if errors.Is(err, errSilent) {
			l.instead(ctx)
		}
		sleep(ctx, reconnect)
	}
}

// broken logs that the connection was lost: once for each outage.
func (p *Postgres) broken(ctx context.Context, l *link, err error) {
	if l.failures++; l.failures > 1 {
		return
	}
	l.since = time.Now()
	if errors.Is(err, errSilent) {
		p.log.WarnContext(ctx, "LISTEN is silent behind a pooler; falling back to polling every 2 s", "error", err)
		return
	}
	p.log.WarnContext(ctx, "lost the connection for notifications; polling every 2 s until it is back", "connection",
		l.of, "error", err)
}

// back logs that the connection works again.
func (p *Postgres) back(ctx context.Context, l *link) {
	if l.failures > 0 {
		p.log.InfoContext(ctx, "the connection for notifications is back", "connection", l.of, "failures", l.failures,
			"after", time.Since(l.since).Round(time.Second))
	}
	l.failures = 0
}

// poll makes its process look at everything every 2 s, until it is time to try notifications again.
func poll(ctx context.Context, receive func(Notification)) {
	for end := time.Now().Add(echoEvery); time.Now().Before(end) && ctx.Err() == nil; {
		receive(Notification{})
		sleep(ctx, polling)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (p *Postgres) useConnection(ctx context.Context, f func(context.Context, *pgx.Conn) error) (err error) {
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
	return f(ctx, c)
}

func closeConn(ctx context.Context, c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connecting)
	defer cancel()
	_ = c.Close(ctx) // the connection is not used any more
}

// send sends the collected changes. After an error it also makes the others look at everything, since what was sent may
// be lost.
func (p *Postgres) send(ctx context.Context, c *pgx.Conn, works func()) error {
	// fails on a standby, which accepts connections
	if err := notify(ctx, c, notice{From: p.self, Echo: true}); err != nil {
		return err
	}
	works()
	for {
		select {
		case <-p.some:
		case <-ctx.Done():
			return nil
		}
		notices := p.takeNotices()
		for i, n := range notices {
			if err := notify(ctx, c, n); err != nil {
				p.putBack(notices[i:])
				p.notifyLost()
				return err
			}
		}
	}
}

func notify(ctx context.Context, c *pgx.Conn, n notice) error {
	ctx, cancel := context.WithTimeout(ctx, statement)
	defer cancel()
	_, err := c.Exec(ctx, `SELECT pg_notify($1, $2)`, channel, encode(n))
	return err
}

// listen receives notifications until the connection breaks or goes silent, which it finds out by notifying itself
// every 30 s.
func (p *Postgres) listen(ctx context.Context, c *pgx.Conn, receive func(Notification), works func()) error {
	if err := listenTo(ctx, c); err != nil {
		return err
	}
	receive(Notification{}) // notifications sent before LISTEN were missed
	for ctx.Err() == nil {
		if err := notify(ctx, c, notice{From: p.self, Echo: true}); err != nil {
			return err
		}
		echoed, err := p.receiveFor(ctx, c, echoWithin, true, receive)
		if err != nil {
			return err
		}
		if !echoed && ctx.Err() == nil {
			return errSilent
		}
		works()
		if _, err := p.receiveFor(ctx, c, echoEvery, false, receive); err != nil {
			return err
		}
	}
	return nil
}

func listenTo(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, statement)
	defer cancel()
	_, err := c.Exec(ctx, `LISTEN `+channel)
	return err
}

// receiveFor receives notifications for d or, with untilEcho, until the echo arrives.
func (p *Postgres) receiveFor(ctx context.Context, c *pgx.Conn, d time.Duration, untilEcho bool,
	receive func(Notification)) (echoed bool, err error) {
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		got, err := c.WaitForNotification(within)
		if within.Err() != nil && (err == nil || !c.IsClosed()) {
			return echoed, nil
		}
		if err != nil {
			return false, err
		}
		var n notice
		switch err := json.Unmarshal([]byte(got.Payload), &n); {
		case err != nil || n.Echo && n.From != p.self:
		case n.Echo:
			echoed = true
			if untilEcho {
				return true, nil
			}
		case n.From != p.self:
			receive(n.Notification)
		}
	}
}
