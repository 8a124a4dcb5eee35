package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// turnOfRequest is how long a request waits for those of its user or address that came before.
const turnOfRequest = 10 * time.Second

// underWay bounds the requests of each of many clients that are worked on at once. More wait in the order in which they came.
type underWay[K comparable] struct{ shares[K] }

// enter waits for a turn of a client, for turnOfRequest at most. The error is that of ctx, or [context.DeadlineExceeded].
func (u *underWay[K]) enter(ctx context.Context, client K) (release func(), err error) {
	if release = u.tryAcquire(client, 1); release != nil {
		return release, nil
	}
	waiting, cancel := context.WithTimeout(ctx, turnOfRequest)
	defer cancel()
	return u.acquire(waiting, client, 1)
}

// turn is what a request has of a bound. It is given back while the request waits for others than the broker, and at its end.
type turn struct {
	enter func(context.Context) (release func(), err error)

	mu      sync.Mutex
	release func() // nil: given back
	waits   int    // of the request, that are under way
	ended   bool
}

// take waits for a turn.
func take[K comparable](ctx context.Context, u *underWay[K], client K) (*turn, error) {
	t := &turn{enter: func(ctx context.Context) (func(), error) { return u.enter(ctx, client) }}
	var err error
	t.release, err = t.enter(ctx)
	return t, err
}

// pause gives the turn back until resume is called as often. A nil turn is that of a request that is not counted.
func (t *turn) pause() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.waits++
	t.giveBack()
	t.mu.Unlock()
}

// resume waits for the turn again. A request that gets none within turnOfRequest goes on without: what it did may have been
// recorded already, so it must be answered.
func (t *turn) resume(ctx context.Context) {
	if t == nil || !t.lacks(-1) {
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

// lacks changes the number of waits and reports whether the turn is to be taken again.
func (t *turn) lacks(more int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits += more
	return t.waits == 0 && !t.ended && t.release == nil
}

// end gives the turn back for good. It may be repeated.
func (t *turn) end() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.ended = true
	t.giveBack()
	t.mu.Unlock()
}

func (t *turn) giveBack() {
	if t.release != nil {
		t.release()
		t.release = nil
	}
}

// idle gives the turn of a call back until resume is called.
func (c *call) idle() (resume func(context.Context)) {
	t := c.turn
	t.pause()
	return t.resume
}

// countAddress bounds the requests of one address whose user is not known yet, and those that need none. Those of a known user
// count for the user alone: one who has many under way keeps no other waiting behind the same address.
func (a *api) countAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callIn(r.Context())
		if r.URL.Path != "/health" {
			t, err := take(r.Context(), &a.ofAddress, network(c.address))
			if err != nil {
				a.refuse(w, r, errUnderWay("your address", "limits.address_requests", a.ofAddress.most))
				return
			}
			c.turn = t
		}
		defer func() { c.turn.end() }()
		next.ServeHTTP(w, r)
	})
}

// countUser has the request of a known user count for the user, and no longer for its address. The turn ends with the request.
func (a *api) countUser(ctx context.Context) error {
	c := callIn(ctx)
	c.turn.end()
	t, err := take(ctx, &a.ofUser, c.caller.User)
	if err != nil {
		return errUnderWay("yours", "limits.user_requests", a.ofUser.most)
	}
	c.turn = t
	return nil
}

func errUnderWay(whose, bound string, most int64) refusal {
	return refusal{status: http.StatusTooManyRequests, code: "RATE_LIMITED", header: retryAfter(turnOfRequest),
		message: fmt.Sprintf("Too many requests of %s are under way: %s is %d, and more wait for %.0f seconds at most.", whose, bound, most, turnOfRequest.Seconds())}
}
