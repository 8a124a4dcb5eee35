package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// turnOfRequest bounds how long a request waits for earlier requests of its user or address.
const turnOfRequest = 10 * time.Second

// requestsAtOnce bounds how many requests of each client are served at once. Further ones wait in the order of their
// arrival.
type requestsAtOnce[K comparable] struct{ bounds.Shares[K] }

// acquireInTime waits for a turn of the client, for turnOfRequest at most. It returns the error of ctx or
// [context.DeadlineExceeded].
func (u *requestsAtOnce[K]) acquireInTime(ctx context.Context, client K) (release func(), err error) {
	if release = u.TryAcquire(client, 1); release != nil {
		return release, nil
	}
	waiting, cancel := context.WithTimeout(ctx, turnOfRequest)
	defer cancel()
	return u.Acquire(waiting, client, 1)
}

// turn is a request's place among those that are served at once. It is released while the request waits for something
// outside the broker, and at its end.
type turn struct {
	enter func(context.Context) (release func(), err error)

	mu      sync.Mutex
	release func() // nil: the turn is released
	waits   int    // waits of this request that have begun and not ended
	ended   bool
}

// newTurn waits for a turn.
func newTurn[K comparable](ctx context.Context, u *requestsAtOnce[K], client K) (*turn, error) {
	t := &turn{enter: func(ctx context.Context) (func(), error) { return u.acquireInTime(ctx, client) }}
	var err error
	t.release, err = t.enter(ctx)
	return t, err
}

// pause releases the turn until resume was called as often as pause. A nil turn belongs to a request that is not
// counted.
func (t *turn) pause() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.waits++
	t.releaseLocked()
	t.mu.Unlock()
}

// resume waits for the turn again. A request that gets no turn within turnOfRequest continues without one: its effects
// may already be stored, so it must be answered.
func (t *turn) resume(ctx context.Context) {
	if t == nil || !t.addWaits(-1) {
		return
	}
	release, err := t.enter(ctx)
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.waits > 0 || t.release != nil {
		release()
		return
	}
	t.release = release
}

// addWaits adds to the number of waits and reports whether the turn must be taken again.
func (t *turn) addWaits(more int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits += more
	return t.waits == 0 && !t.ended && t.release == nil
}

// end releases the turn for good. It may be called more than once.
func (t *turn) end() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.ended = true
	t.releaseLocked()
	t.mu.Unlock()
}

func (t *turn) releaseLocked() {
	if t.release != nil {
		t.release()
		t.release = nil
	}
}

// pauseTurn releases the turn of a call until resume is called.
func (c *call) pauseTurn() (resume func(context.Context)) {
	t := c.turn
	t.pause()
	return t.resume
}

// countAddress bounds the requests of one address, until their user is known or if they need none. Requests of a known
// user count for that user alone, so that a user with many requests does not delay others behind the same address.
func (a *api) countAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callIn(r.Context())
		if r.URL.Path != "/health" {
			t, err := newTurn(r.Context(), &a.ofAddress, network(c.address))
			if err != nil {
				a.refuse(w, r, errTooManyAtOnce("your address", "limits.address_requests", a.ofAddress.Most))
				return
			}
			c.turn = t
		}
		defer func() { c.turn.end() }()
		next.ServeHTTP(w, r)
	})
}

// countUser counts a request for its user instead of its address, until the request ends.
func (a *api) countUser(ctx context.Context) error {
	c := callIn(ctx)
	c.turn.end()
	t, err := newTurn(ctx, &a.ofUser, c.caller.User)
	if err != nil {
		return errTooManyAtOnce("yours", "limits.user_requests", a.ofUser.Most)
	}
	c.turn = t
	return nil
}

func errTooManyAtOnce(whose, bound string, most int64) refusal {
	return refusal{status: http.StatusTooManyRequests, code: "RATE_LIMITED", header: retryAfter(turnOfRequest),
		message: fmt.Sprintf(
			"Too many requests of %s are being served: %s is %d, and further requests wait %.0f seconds at most. Repeat the "+
				"request later.", whose, bound, most, turnOfRequest.Seconds())}
}
