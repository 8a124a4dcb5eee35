package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	channel   = "eodispatch"
	payload   = 7900 // bytes; PostgreSQL takes fewer than 8,000
	reconnect = time.Second
	backlog   = 10_000 // news that are kept for a database that does not answer
)

// Postgres gives hints by LISTEN and NOTIFY, over two connections of its own. What is told while a notification is on
// its way goes together in the next.
type Postgres struct {
	url  string
	log  *slog.Logger
	self string

	mu    sync.Mutex
	woken map[dispatch.Account]bool
	saved map[dispatch.JobID]bool
	shown map[dispatch.UserID]bool
	some  chan struct{}
}

var _ Hints = (*Postgres)(nil)

// NewPostgres returns hints between all that use the database with that URL.
func NewPostgres(url string, log *slog.Logger) *Postgres {
	p := &Postgres{url: url, log: log, self: rand.Text(), some: make(chan struct{}, 1)}
	p.clear()
	return p
}

// notice is a notification's payload.
type notice struct {
	From string `json:"from"`
	News
}

// Tell is of Hints.
func (p *Postgres) Tell(n News) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.woken)+len(p.saved)+len(p.shown) > backlog {
		p.clear()
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
	select {
	case p.some <- struct{}{}:
	default:
	}
}

func (p *Postgres) clear() {
	p.woken, p.saved, p.shown = map[dispatch.Account]bool{}, map[dispatch.JobID]bool{}, map[dispatch.UserID]bool{}
}

// pending takes what is to be told, in payloads that PostgreSQL takes.
func (p *Postgres) pending() (payloads []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, size := notice{From: p.self}, 0
	flush := func(more int) {
		if size += more; size > payload-100 && more < size {
			payloads = append(payloads, encode(n))
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
		payloads = append(payloads, encode(n))
	}
	return payloads
}

func encode(v any) string {
	b, _ := json.Marshal(v) // of texts and numbers
	return string(b)
}

// Run is of Hints.
func (p *Postgres) Run(ctx context.Context, hear func(News)) {
	var both sync.WaitGroup
	both.Go(func() { p.keep(ctx, p.send) })
	both.Go(func() { p.keep(ctx, func(ctx context.Context, c *pgx.Conn) error { return p.listen(ctx, c, hear) }) })
	both.Wait()
}

// keep runs f on a connection, and again on another when that one breaks, until ctx is done.
func (p *Postgres) keep(ctx context.Context, f func(context.Context, *pgx.Conn) error) {
	for ctx.Err() == nil {
		if err := p.once(ctx, f); ctx.Err() == nil {
			p.log.WarnContext(ctx, "hints are cut off", "err", err)
		}
		select {
		case <-time.After(reconnect):
		case <-ctx.Done():
		}
	}
}

func (p *Postgres) once(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	return f(ctx, c)
}

func (p *Postgres) send(ctx context.Context, c *pgx.Conn) error {
	for {
		select {
		case <-p.some:
		case <-ctx.Done():
			return nil
		}
		for _, text := range p.pending() {
			if _, err := c.Exec(ctx, `SELECT pg_notify($1, $2)`, channel, text); err != nil {
				return err
			}
		}
	}
}

func (p *Postgres) listen(ctx context.Context, c *pgx.Conn, hear func(News)) error {
	if _, err := c.Exec(ctx, `LISTEN `+channel); err != nil {
		return err
	}
	hear(News{}) // what was told before
	for {
		got, err := c.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		var n notice
		if err := json.Unmarshal([]byte(got.Payload), &n); err == nil && n.From != p.self {
			hear(n.News)
		}
	}
}
