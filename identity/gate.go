package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	abreast    = 8               // exchanges at once where no link can be lost
	firstPause = 2 * time.Second // after an exchange that failed; twice that after the next
	lastPause  = time.Minute
	lossPause  = time.Minute // after a second link that ended in a row; twice that after the next
	lastLoss   = 10 * time.Minute
	blindPause = 30 * time.Second // after a link that ended, where the platform's provider cannot be asked
	probePause = 5 * time.Second  // between two questions whether the platform's provider is back
)

// gate is before the exchanges for one platform. While they fail it lets one through now and then, to see. When a link
// ends, which Keycloak also says when the platform's token endpoint answers with an error, it lets no other user be risked
// before that endpoint is seen to work.
type gate struct {
	now   func() time.Time
	log   *slog.Logger
	lanes chan struct{}               // a slot for each exchange at once
	alive func(context.Context) error // asks the platform's token endpoint; nil: it is not known, or no link is at risk

	mu       sync.Mutex
	why      error // of the last failure; nil: the gate is open
	failures int   // in a row
	losses   int   // links that ended in a row
	until    time.Time
	trying   bool      // one was let through to see
	well     time.Time // when an exchange succeeded last
	loss     time.Time // when a link ended last, in whatever process
}

// enter waits for a lane, and gives the way to leave it. Nobody waits before a closed gate.
func (g *gate) enter(ctx context.Context) (release func(), err error) {
	if err := g.open(); err != nil {
		return nil, err
	}
	select {
	case g.lanes <- struct{}{}:
		return func() { <-g.lanes }, nil
	case <-ctx.Done():
		return nil, unavailable(errors.New("too many exchanges are waiting"))
	}
}

// through makes an exchange, unless it is known or likely to fail. Who calls it is in a lane.
func (g *gate) through(ctx context.Context, exchange func() (issued, error)) (issued, error) {
	risk, err := g.mayTry()
	if err != nil {
		return issued{}, err
	}
	if risk && g.alive != nil {
		if err := g.alive(ctx); err != nil {
			return issued{}, g.postpone()
		}
	}
	got, err := exchange()
	g.learn(err, risk)
	return got, err
}

// mayTry reports whether this exchange is the one that shows whether they work again.
func (g *gate) mayTry() (risk bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut() {
		return false, g.closed()
	}
	g.trying = g.why != nil
	return g.trying, nil
}

// open is nil when an exchange may be made now.
func (g *gate) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut() {
		return g.closed()
	}
	return nil
}

// shut and closed are for who holds the mutex.
func (g *gate) shut() bool { return g.why != nil && (g.trying || g.now().Before(g.until)) }

// closed is what those learn who are not let through. It does not wrap why the gate was closed: that was another user's.
func (g *gate) closed() error {
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: "identity.Exchange",
		RetryAfter: max(g.until.Sub(g.now()), time.Second), Err: fmt.Errorf("no exchange is tried for now: %v", g.why)}
}

// postpone keeps the gate closed because the platform's provider does not answer.
func (g *gate) postpone() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying, g.until = false, g.now().Add(probePause)
	return g.closed()
}

// learn draws what an exchange says about the next. That a user is not linked, or that the operator must mend something,
// says nothing; nor does the failure of one that began before the gate was closed.
func (g *gate) learn(err error, risk bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = g.trying && !risk
	was := g.why
	switch {
	case err == nil:
		g.why, g.failures, g.losses, g.well = nil, 0, 0, g.now()
	case errors.Is(err, errLinkEnded):
		g.lose(err, g.now())
	case dispatch.Is(err, dispatch.Unavailable) && (risk || was == nil):
		g.failures++
		g.close(err, max(doubling(firstPause, g.failures, lastPause), pauseIn(err)))
	}
	switch {
	case was == nil && g.why != nil:
		g.log.Warn("exchanges for a platform pause", "error", g.why)
	case was != nil && g.why == nil:
		g.log.Info("exchanges for a platform go on")
	}
}

var errElsewhere = errors.New("a link ended in another process")

// hear closes the gate for a link that ended in another process, unless that is known or an exchange succeeded since.
func (g *gate) hear(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.After(g.well) && at.After(g.loss) {
		g.lose(errElsewhere, at)
	}
}

// lost is when a link ended last.
func (g *gate) lost() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loss
}

func (g *gate) lose(why error, at time.Time) {
	g.losses++
	g.loss = at
	g.close(why, g.pauseAfterLoss())
}

func (g *gate) close(why error, pause time.Duration) { g.why, g.until = why, g.now().Add(pause) }

// pauseAfterLoss is none after the first where the platform's provider can be asked instead. If it seems well and yet
// another link ends, its answer is not to be trusted.
func (g *gate) pauseAfterLoss() time.Duration {
	switch {
	case g.alive == nil:
		return doubling(blindPause, g.losses, lastLoss)
	case g.losses == 1:
		return 0
	}
	return doubling(lossPause, g.losses-1, lastLoss)
}

// doubling is first, twice that for n 2, and so on, at most last.
func doubling(first time.Duration, n int, last time.Duration) time.Duration {
	for ; n > 1 && first < last; n-- {
		first *= 2
	}
	return min(first, last)
}

func pauseIn(err error) time.Duration {
	if e, ok := errors.AsType[*dispatch.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}
