package identity

import (
	"context"
	"errors"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Locker provides locks between the processes that share a database.
type Locker interface {
	// Lock waits for the lock of a name and takes it. The lock is released by unlock, or when the process ends.
	Lock(ctx context.Context, name string) (unlock func(), err error)
}

// TokenStore shares tokens between the processes that share a database. It stores them encrypted until they expire.
type TokenStore interface {
	// Find returns the token that is stored under a name; "" if there is none.
	Find(ctx context.Context, name string) (dispatch.Secret, time.Time, error)
	// Put stores a token in place of the one under its name.
	Put(context.Context, SharedToken) error
	// Erase deletes the token under a name if it expires at that time.
	Erase(ctx context.Context, name string, expires time.Time) error
}

// SharedToken is a token that processes share.
type SharedToken struct {
	Name    string
	Owner   dispatch.UserID // the user whose token it is; "": nobody's
	Token   dispatch.Secret
	Expires time.Time
	Longest bool // keep the stored token if it expires later
}

// exchange obtains users' tokens by one kind of exchange, for platforms with equal settings.
type exchange struct {
	exchanger
	source *source // its cached tokens
	name   string  // the same in all processes
	gate   *gate
	locker Locker     // nil: there is no other process
	tokens TokenStore // nil: there is no other process
}

// obtain exchanges the user's token, unless another process has just done so. For a user who has just linked their
// account it is exchanged even if the gate is closed: no link is at risk, as the provider has just received the token
// that it stores.
func (x *exchange) obtain(ctx context.Context, w wanted) (issued, error) {
	enter, run := x.gate.enter, x.gate.run
	if w.justLinked {
		enter, run = x.gate.wait, x.gate.pass
	}
	release, err := enter(ctx)
	if err != nil {
		return issued{}, err
	}
	defer release()
	if x.locker != nil {
		unlock, err := x.locker.Lock(ctx, x.lockName(w.id))
		if err != nil {
			return issued{}, unavailable(err)
		}
		defer unlock()
	}
	if got, err := x.obtainedElsewhere(ctx, w); err != nil || got.token != "" {
		return got, err
	}
	if err := x.closeGateOnAlarm(ctx); err != nil {
		return issued{}, err
	}
	got, err := run(ctx, func() (issued, error) { return x.exchange(ctx, w.subject) })
	switch {
	case err == nil:
		x.share(ctx, SharedToken{Name: x.name + " " + string(w.id), Owner: w.id, Token: got.token,
			Expires: got.expires})
	case errors.Is(err, errLinkEnded):
		at := x.gate.lossTime()
		x.share(ctx, SharedToken{Name: x.name + alarm, Token: dispatch.Secret(at.Format(time.RFC3339Nano)),
			Expires: at.Add(lastLoss)})
	}
	return got, err
}

// alarm is the suffix of the name under which processes share the time when a link last ended.
const alarm = " alarm"

// share shares a text with the other processes. If that fails, they exchange tokens themselves.
func (x *exchange) share(ctx context.Context, t SharedToken) {
	if x.tokens == nil {
		return
	}
	if err := x.tokens.Put(ctx, t); err != nil {
		x.gate.log.Log(ctx, dispatch.LogLevel(err), "sharing a token with other processes failed", "error", err)
	}
}

// closeGateOnAlarm closes the gate if another process has seen a link end.
func (x *exchange) closeGateOnAlarm(ctx context.Context) error {
	if x.tokens == nil || cap(x.gate.lanes) > 1 {
		return nil
	}
	text, _, err := x.tokens.Find(ctx, x.name+alarm)
	if err != nil || text == "" {
		return err
	}
	if at, err := time.Parse(time.RFC3339Nano, text.Reveal()); err == nil { // another version may store something else
		x.gate.recordLossElsewhere(at)
	}
	return nil
}

// lockName returns the name of the lock for an exchange: one for each user, or one for the whole platform if links can
// be lost, so that an outage costs at most one link.
func (x *exchange) lockName(id dispatch.UserID) string {
	if cap(x.gate.lanes) == 1 {
		return "exchange " + x.name
	}
	return "exchange " + x.name + " " + string(id)
}

// obtainedElsewhere returns a token that another process obtained; zero if there is no new one, or if only an exchange
// shows whether the user's new link works.
func (x *exchange) obtainedElsewhere(ctx context.Context, w wanted) (issued, error) {
	if x.tokens == nil || w.justLinked {
		return issued{}, nil
	}
	token, expires, err := x.tokens.Find(ctx, x.name+" "+string(w.id))
	if err != nil || token == "" || token == w.held || token == w.refused || !x.gate.now().Before(expires.Add(-spare)) {
		return issued{}, err
	}
	issuer, _ := selfDescription(token.Reveal())
	return issued{token, issuer, expires}, nil
}
