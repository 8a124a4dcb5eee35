package limits

import (
	"context"
	"fmt"
	"net/http"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// RequestsAtOnce bounds how many requests of each client are served at once. Further ones wait in the order of their
// arrival.
type RequestsAtOnce[K comparable] struct{ bounds.Shares[K] }

// AcquireInTime waits for a turn of the client, for TurnOfRequest at most. It returns the error of ctx or
// [context.DeadlineExceeded].
func (u *RequestsAtOnce[K]) AcquireInTime(ctx context.Context, client K) (release func(), err error) {
	if release = u.TryAcquire(client, 1); release != nil {
		return release, nil
	}
	waiting, cancel := context.WithTimeout(ctx, call.TurnOfRequest)
	defer cancel()
	return u.Acquire(waiting, client, 1)
}

// turnsOf returns a function that waits for a turn of the client.
func (u *RequestsAtOnce[K]) turnsOf(client K) func(context.Context) (release func(), err error) {
	return func(ctx context.Context) (func(), error) { return u.AcquireInTime(ctx, client) }
}

// CountAddress bounds the requests of one address, until their user is known or if they need none. Requests of a known
// user count for that user alone, so that a user with many requests does not delay others behind the same address.
func (a *Admission) CountAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := call.In(r.Context())
		if r.URL.Path != "/health" {
			t, err := call.NewTurn(r.Context(), a.OfAddress.turnsOf(Network(c.Address)))
			if err != nil {
				a.Refuse(w, r, errTooManyAtOnce("your address", "limits.address_requests", a.OfAddress.Most))
				return
			}
			c.Turn = t
		}
		defer func() { c.Turn.End() }()
		next.ServeHTTP(w, r)
	})
}

// CountUser counts a request for its user instead of its address, until the request ends.
func (a *Admission) CountUser(ctx context.Context) error {
	c := call.In(ctx)
	c.Turn.End()
	t, err := call.NewTurn(ctx, a.OfUser.turnsOf(c.Caller.User))
	if err != nil {
		return errTooManyAtOnce("yours", "limits.user_requests", a.OfUser.Most)
	}
	c.Turn = t
	return nil
}

func errTooManyAtOnce(client, bound string, most int64) call.Refusal {
	return call.Refusal{Status: http.StatusTooManyRequests, Code: "RATE_LIMITED",
		Header: call.RetryAfter(call.TurnOfRequest),
		Message: fmt.Sprintf(
			"Too many requests of %s are being served: %s is %d, and further requests wait %.0f seconds at most. "+
				"Repeat the request later.", client, bound, most, call.TurnOfRequest.Seconds())}
}
