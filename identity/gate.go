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
	abreast    = 8               // concurrent exchanges if no link can be lost
	firstPause = 2 * time.Second // after a failed exchange; doubled after each further one
	lastPause  = time.Minute
	lossPause  = time.Minute // after a second link in a row has ended; doubled after each further one
	lastLoss   = 10 * time.Minute
	blindPause = 30 * time.Second // after a link has ended and the platform's provider cannot be asked
	probePause = 5 * time.Second  // between two requests that check whether the platform's provider works again
)

// gate guards the exchanges for one platform. While they fail, it lets one through from time to time to find out
// whether they work again. When a link has ended, which Keycloak also reports when the platform's token endpoint fails,
// it risks no other user's link before that endpoint works.
type gate struct {
	now   func() time.Time
	log   *slog.Logger
	lanes chan struct{} // holds one entry for each running exchange
	// checks the platform's token endpoint; nil: it is not known, or no link is at risk
	alive func(context.Context) error

	mu       sync.Mutex
	why      error // the last failure; nil: the gate is open
	failures int   // in a row
	losses   int   // links that ended in a row
	until    time.Time
	trying   bool      // one exchange is let through to find out
	well     time.Time // time of the last successful exchange
	loss     time.Time // time when a link last ended, in any process
}

// enter waits for a lane, which release frees. If the gate is closed it fails at once.
func (g *gate) enter(ctx context.Context) (release func(), err error) {
	if err := g.checkOpen(); err != nil {
		return nil, err
	}
	return g.wait(ctx)
}

// wait waits for a lane, which release frees, even if the gate is closed.
func (g *gate) wait(ctx context.Context) (release func(), err error) {
	select {
	case g.lanes <- struct{}{}:
		return func() { <-g.lanes }, nil
	case <-ctx.Done():
		return nil, unavailable(errors.New("too many exchanges are waiting"))
	}
}

// run runs an exchange, unless it is known or likely to fail. The caller must be in a lane.
func (g *gate) run(ctx context.Context, exchange func() (issued, error)) (issued, error) {
	risk, err := g.beginTry()
	if err != nil {
		return issued{}, err
	}
	returned := false
	defer func() {
		if risk && !returned { // a panic, after which others must be let through again
			g.recordOutcome(unavailable(errors.New("the exchange ended with a panic")), risk)
		}
	}()
	if risk && g.alive != nil {
		if err := g.alive(ctx); err != nil {
			returned = true
			return issued{}, g.postpone()
		}
	}
	got, err := exchange()
	returned = true
	g.recordOutcome(err, risk)
	return got, err
}

// pass runs an exchange even if the gate is closed. Its success opens the gate. The caller must be in a lane.
func (g *gate) pass(_ context.Context, exchange func() (issued, error)) (issued, error) {
	got, err := exchange()
	g.recordOutcome(err, false)
	return got, err
}

// beginTry reports whether this exchange is the one that shows whether exchanges work again. It fails if the gate is
// closed.
func (g *gate) beginTry() (risk bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isClosed() {
		return false, g.closedError()
	}
	g.trying = g.why != nil
	return g.trying, nil
}

// checkOpen returns nil if an exchange may be made now.
func (g *gate) checkOpen() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isClosed() {
		return g.closedError()
	}
	return nil
}

// isClosed reports whether the gate is closed. g.mu is held.
func (g *gate) isClosed() bool { return g.why != nil && (g.trying || g.now().Before(g.until)) }

// closedError returns the error of a closed gate. It does not wrap the cause, which belongs to another user. g.mu is
// held.
func (g *gate) closedError() error {
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: "identity.Exchange",
		RetryAfter: max(g.until.Sub(g.now()), time.Second), Err: fmt.Errorf("no exchange is tried for now: %v", g.why)}
}

// postpone keeps the gate closed because the platform's provider does not respond.
func (g *gate) postpone() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying, g.until = false, g.now().Add(probePause)
	return g.closedError()
}

// recordOutcome opens or closes the gate after an exchange. A user without a link and a fault that the operator must
// resolve change nothing; neither does the failure of an exchange that began before the gate was closed.
func (g *gate) recordOutcome(err error, risk bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = g.trying && !risk
	before := g.why
	switch {
	case err == nil:
		g.why, g.failures, g.losses, g.well = nil, 0, 0, g.now()
	case errors.Is(err, errLinkEnded):
		g.recordLoss(err, g.now())
	case dispatch.Is(err, dispatch.Unavailable) && (risk || before == nil):
		g.failures++
		g.close(err, max(doubling(firstPause, g.failures, lastPause), retryAfter(err)))
	}
	switch {
	case before == nil && g.why != nil:
		g.log.Warn("token exchanges for a platform paused", "error", g.why)
	case before != nil && g.why == nil:
		g.log.Info("token exchanges for a platform resumed")
	}
}

var errElsewhere = errors.New("a link ended in another process")

// recordLossElsewhere closes the gate for a link that ended in another process, unless that is known already or an
// exchange has succeeded since.
func (g *gate) recordLossElsewhere(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.After(g.well) && at.After(g.loss) {
		g.recordLoss(errElsewhere, at)
	}
}

// lossTime returns the time when a link last ended.
func (g *gate) lossTime() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loss
}

func (g *gate) recordLoss(why error, at time.Time) {
	g.losses++
	g.loss = at
	g.close(why, g.pauseAfterLoss())
}

func (g *gate) close(why error, pause time.Duration) { g.why, g.until = why, g.now().Add(pause) }

// pauseAfterLoss returns no pause after the first loss if the platform's provider can be asked instead. If that
// provider seems to work and yet another link ends, its response is not trusted.
func (g *gate) pauseAfterLoss() time.Duration {
	switch {
	case g.alive == nil:
		return doubling(blindPause, g.losses, lastLoss)
	case g.losses == 1:
		return 0
	}
	return doubling(lossPause, g.losses-1, lastLoss)
}

// doubling returns first, doubled n-1 times, and at most last.
func doubling(first time.Duration, n int, last time.Duration) time.Duration {
	for ; n > 1 && first < last; n-- {
		first *= 2
	}
	return min(first, last)
}

func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*dispatch.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}
