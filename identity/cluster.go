package identity

import (
	"context"
	"errors"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Locker keeps the processes that serve together apart.
type Locker interface {
	// Lock waits until no other process has the lock of a name, takes it, and gives the way to leave it, which happens by
	// itself when the process ends.
	Lock(ctx context.Context, name string) (unlock func(), err error)
}

// TokenStore is where the processes that serve together leave platform tokens for each other. It keeps them sealed, and no
// longer than they last.
type TokenStore interface {
	// Find gives the token that was put under a name last, "" if there is none.
	Find(ctx context.Context, name string) (dispatch.Secret, time.Time, error)
	Put(ctx context.Context, name string, token dispatch.Secret, expires time.Time) error
}

// exchange gets users' tokens for platforms of one exchange.
type exchange struct {
	exchanger
	name   string // the same in all processes
	gate   *gate
	locker Locker     // nil: there is no other process
	tokens TokenStore // nil: likewise
}

// obtain exchanges, unless another process just did for the same user.
func (x *exchange) obtain(ctx context.Context, w wanted) (issued, error) {
	release, err := x.gate.enter(ctx)
	if err != nil {
		return issued{}, err
	}
	defer release()
	if x.locker != nil {
		unlock, err := x.locker.Lock(ctx, x.lane(w.id))
		if err != nil {
			return issued{}, unavailable(err)
		}
		defer unlock()
	}
	if got, err := x.found(ctx, w); err != nil || got.token != "" {
		return got, err
	}
	if err := x.heed(ctx); err != nil {
		return issued{}, err
	}
	got, err := x.gate.through(ctx, func() (issued, error) { return x.exchange(ctx, w.subject) })
	switch {
	case err == nil:
		x.tell(ctx, x.name+" "+string(w.id), got.token, got.expires)
	case errors.Is(err, errLinkEnded):
		at := x.gate.lost()
		x.tell(ctx, x.name+alarm, dispatch.Secret(at.Format(time.RFC3339Nano)), at.Add(lastLoss))
	}
	return got, err
}

// alarm is the end of the name under which processes tell each other when a link ended last.
const alarm = " alarm"

// tell tells the other processes. If it cannot be told, they find out for themselves.
func (x *exchange) tell(ctx context.Context, name string, text dispatch.Secret, until time.Time) {
	if x.tokens == nil {
		return
	}
	if err := x.tokens.Put(ctx, name, text, until); err != nil {
		x.gate.log.WarnContext(ctx, "other processes were not told", "error", err)
	}
}

// heed heeds what another process learnt from the end of a link.
func (x *exchange) heed(ctx context.Context) error {
	if x.tokens == nil || cap(x.gate.lanes) > 1 {
		return nil
	}
	text, _, err := x.tokens.Find(ctx, x.name+alarm)
	if err != nil || text == "" {
		return err
	}
	if at, err := time.Parse(time.RFC3339Nano, text.Reveal()); err == nil { // another version may write something else
		x.gate.hear(at)
	}
	return nil
}

// lane is what the lock is on: the user, or where links can be lost the whole platform, so that an outage costs one.
func (x *exchange) lane(id dispatch.UserID) string {
	if cap(x.gate.lanes) == 1 {
		return "exchange " + x.name
	}
	return "exchange " + x.name + " " + string(id)
}

// found is what another process got meanwhile; zero: nothing that is new to us.
func (x *exchange) found(ctx context.Context, w wanted) (issued, error) {
	if x.tokens == nil {
		return issued{}, nil
	}
	token, expires, err := x.tokens.Find(ctx, x.name+" "+string(w.id))
	if err != nil || token == "" || token == w.held || token == w.refused || !x.gate.now().Before(expires.Add(-spare)) {
		return issued{}, err
	}
	issuer, _ := selfDescription(token.Reveal())
	return issued{token, issuer, expires}, nil
}
