package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	channel    = "eodispatch"
	payload    = 7900 // bytes; PostgreSQL takes fewer than 8,000
	reconnect  = time.Second
	backlog    = 10_000           // news that are kept for a database that does not answer
	statement  = 10 * time.Second // bound of a statement
	connecting = 5 * time.Second  // bound of a new connection, where the address sets no connect_timeout
	echoEvery  = 30 * time.Second // between two checks that notifications arrive
	echoWithin = 5 * time.Second  // how long a notification of one's own may take
	polling    = 2 * time.Second  // between two looks while notifications do not arrive
)

// Postgres gives hints by LISTEN and NOTIFY, over two connections of its own. What is told while a notification is on
// its way goes together in the next; what could not be sent is kept and sent later. Where notifications do not arrive, as behind a
// pooler in transaction mode, it tells its process to look every 2 seconds instead.
type Postgres struct {
	address string
	log     *slog.Logger
	self    string

	mu    sync.Mutex
	woken map[dispatch.Account]bool
	saved map[dispatch.JobID]bool
	shown map[dispatch.UserID]bool
	lost  bool // news were dropped, or may have been: all must look
	some  chan struct{}
}

var _ Notifier = (*Postgres)(nil)

// NewPostgres returns hints between all that use the database with that URL. Settings of pools in it are left out.
func NewPostgres(url string, log *slog.Logger) *Postgres {
	p := &Postgres{address: url, log: log, self: rand.Text(), some: make(chan struct{}, 1)}
	p.clear()
	return p
}

// notice is a notification's payload. One without news tells all to look.
type notice struct {
	From string `json:"from"`
	Echo bool   `json:"echo,omitempty"` // for the sender itself
	Notification
}

// Tell is of Notifier.
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

// lookAll has all told to look.
func (p *Postgres) lookAll() {
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

// pending takes what is to be told, in notices that fit into payloads.
func (p *Postgres) pending() (notices []notice) {
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
			p.lookAll()
			continue
		}
		p.Notify(n.Notification)
	}
}

func encode(v any) string {
	b, _ := json.Marshal(v) // of texts and numbers
	return string(b)
}

// Run is of Notifier.
func (p *Postgres) Run(ctx context.Context, hear func(Notification)) {
	var both sync.WaitGroup
	both.Go(func() { p.keep(ctx, &link{of: "sending", use: p.send}) })
	both.Go(func() {
		p.keep(ctx, &link{of: "listening", use: func(ctx context.Context, c *pgx.Conn, works func()) error { return p.listen(ctx, c, hear, works) },
			instead: func(ctx context.Context) { poll(ctx, hear) }})
	})
	both.Wait()
}

// errSilent is the error of a connection on which notifications do not arrive.
var errSilent = errors.New("a notification to oneself did not arrive")

// link is one of the two connections.
type link struct {
	of      string
	use     func(ctx context.Context, c *pgx.Conn, works func()) error // calls works once the connection has proved to work
	instead func(context.Context)                                      // stands in for a while where notifications do not arrive

	failures int // since it worked last
	since    time.Time
}

// keep uses a connection, and another when that one breaks, until ctx is done.
func (p *Postgres) keep(ctx context.Context, l *link) {
	for {
		err := p.once(ctx, func(ctx context.Context, c *pgx.Conn) error { return l.use(ctx, c, func() { p.back(ctx, l) }) })
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

// broken logs that hints are lost: once, and not each try.
func (p *Postgres) broken(ctx context.Context, l *link, err error) {
	if l.failures++; l.failures > 1 {
		return
	}
	l.since = time.Now()
	if errors.Is(err, errSilent) {
		p.log.WarnContext(ctx, "LISTEN is silent behind a pooler; falling back to polling every 2 s", "error", err)
		return
	}
	p.log.WarnContext(ctx, "hints are cut off", "of", l.of, "error", err)
}

// back logs that hints are there again.
func (p *Postgres) back(ctx context.Context, l *link) {
	if l.failures > 0 {
		p.log.InfoContext(ctx, "hints are back", "of", l.of, "failures", l.failures, "after", time.Since(l.since).Round(time.Second))
	}
	l.failures = 0
}

// poll tells to look, again and again, until it is time to try whether notifications arrive.
func poll(ctx context.Context, hear func(Notification)) {
	for end := time.Now().Add(echoEvery); time.Now().Before(end) && ctx.Err() == nil; {
		hear(Notification{})
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

func (p *Postgres) once(ctx context.Context, f func(context.Context, *pgx.Conn) error) (err error) {
	defer dispatch.Caught(ctx, p.log, "hints", &err) // of who hears; the connection is made anew
	pool, err := pgxpool.ParseConfig(p.address)      // it knows the settings of pools, which pgx would send to the server
	if err != nil {
		return errors.New("the database's address cannot be read") // the cause may hold the password
	}
	if pool.ConnConfig.ConnectTimeout == 0 {
		pool.ConnConfig.ConnectTimeout = connecting
	}
	c, err := pgx.ConnectConfig(ctx, pool.ConnConfig)
	if err != nil {
		return err
	}
	defer leave(ctx, c)
	return f(ctx, c)
}

func leave(ctx context.Context, c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connecting)
	defer cancel()
	_ = c.Close(ctx) // it is not used any more
}

// send tells the others what there is to tell. After an error it tells them to look, too: what was sent may have been lost.
func (p *Postgres) send(ctx context.Context, c *pgx.Conn, works func()) error {
	if err := notify(ctx, c, notice{From: p.self, Echo: true}); err != nil { // a standby takes connections and refuses this
		return err
	}
	works()
	for {
		select {
		case <-p.some:
		case <-ctx.Done():
			return nil
		}
		notices := p.pending()
		for i, n := range notices {
			if err := notify(ctx, c, n); err != nil {
				p.putBack(notices[i:])
				p.lookAll()
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

// listen hears the others until the connection breaks, or is silent: it sends itself a notification now and then.
func (p *Postgres) listen(ctx context.Context, c *pgx.Conn, hear func(Notification), works func()) error {
	if err := listenTo(ctx, c); err != nil {
		return err
	}
	hear(Notification{}) // what was told before
	for ctx.Err() == nil {
		if err := notify(ctx, c, notice{From: p.self, Echo: true}); err != nil {
			return err
		}
		echoed, err := p.hearFor(ctx, c, echoWithin, true, hear)
		if err != nil {
			return err
		}
		if !echoed && ctx.Err() == nil {
			return errSilent
		}
		works()
		if _, err := p.hearFor(ctx, c, echoEvery, false, hear); err != nil {
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

// hearFor hears the others for a time, or where that is wanted until the echo arrived.
func (p *Postgres) hearFor(ctx context.Context, c *pgx.Conn, d time.Duration, untilEcho bool, hear func(Notification)) (echoed bool, err error) {
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
			hear(n.Notification)
		}
	}
}
