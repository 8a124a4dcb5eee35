package broker

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

const (
	callsAtOnce = 8 // concurrent calls outside visits, for each platform
	// of these for each user, so that calls of one user that get no response do not block others
	callsOfUser  = 4
	callWithin   = time.Minute // for a call; a synchronous run has runWithin
	comeBackSoon = 30 * time.Second
)

// call sends a user's request to an account's platform outside its visits.
func call[T any](ctx context.Context, b *Broker, u dispatch.UserID, a dispatch.Account,
	ask func(context.Context, dispatch.Platform, dispatch.Token) (T, error)) (none T, err error) {
	backend := b.BackendNamed(a.Platform())
	if backend == nil {
		return none, &dispatch.Error{Kind: dispatch.Misconfigured, Op: "dispatch.call", Text: dispatch.NoPlatformText}
	}
	defer idle(ctx)()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	releaseOwn, err := b.limits.acquire(ctx, "calls of "+backend.Name+"/"+string(u), callsOfUser)
	if err != nil {
		return none, err
	}
	defer releaseOwn()
	release, err := b.limits.acquire(ctx, "calls at "+backend.Name, callsAtOnce)
	if err != nil {
		return none, err
	}
	defer release()
	return withToken(ctx, b, backend, a, func(ctx context.Context, t dispatch.Token) (T, error) {
		return ask(ctx, backend.Platform, t)
	})
}

// callOpenly asks a platform without a token and, if it refuses that, with the user's. User "" has not signed in.
func callOpenly[T any](ctx context.Context, b *Broker, u dispatch.UserID, backend *dispatch.Backend,
	ask func(context.Context, dispatch.Token) (T, error)) (T, error) {
	defer idleIfSlow(ctx)()
	limited, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	open, err := ask(limited, dispatch.Token{})
	if u == "" || !dispatch.Is(err, dispatch.SignInRequired) && !dispatch.Is(err, dispatch.Forbidden) {
		return open, err
	}
	if err := backend.CheckEntitled(ctx); err != nil {
		return open, err
	}
	return call(ctx, b, u, backend.Account(u), func(ctx context.Context, _ dispatch.Platform,
		t dispatch.Token) (T, error) {
		return ask(ctx, t)
	})
}

// withToken calls ask with the account's token, and once more with another token if the platform refuses the first.
func withToken[T any](ctx context.Context, b *Broker, backend *dispatch.Backend, a dispatch.Account,
	ask func(context.Context, dispatch.Token) (T, error)) (none T, err error) {
	for again := false; ; again = true {
		t, err := b.Token(ctx, a)
		if err != nil {
			return none, backend.TokenError(err)
		}
		if err := b.AwaitSendTime(ctx, backend, a); err != nil {
			return none, err
		}
		begun := time.Now()
		got, err := ask(ctx, t)
		b.Observing().RequestEnded(backend.Name, "call", time.Since(begun), err)
		if again || !dispatch.Is(err, dispatch.SignInRequired) {
			return got, backend.TokenError(err)
		}
		b.Tokens.Invalidate(a, t)
	}
}

// withTokenIfAsked asks a platform without a token and, if it refuses that, or hides the service from strangers, with
// the user's.
func withTokenIfAsked[T any](ctx context.Context, b *Broker, u dispatch.UserID, backend *dispatch.Backend,
	ask func(context.Context, dispatch.Token) (T, error)) (T, error) {
	got, err := ask(ctx, dispatch.Token{})
	switch dispatch.KindOf(err) {
	case dispatch.SignInRequired, dispatch.Forbidden, dispatch.NotFound:
		return withToken(ctx, b, backend, backend.Account(u), ask)
	}
	return got, err
}

// callLimits bounds how many calls with the same name are under way at once. The zero value is ready to use.
type callLimits struct{ bounds.Shares[string] }

// acquire waits until fewer than n calls with the name are under way and counts one more, until release is called,
// which may be called repeatedly. Busy if it waited for EnterWithin.
func (l *callLimits) acquire(ctx context.Context, name string, n int64) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, dispatch.EnterWithin)
	defer cancel()
	if release, err = l.AcquireOf(ctx, name, 1, n); err != nil {
		return nil, &dispatch.Error{Kind: dispatch.Busy, Op: "dispatch.enter",
			Text:       "Too many requests to this platform are under way.",
			RetryAfter: comeBackSoon}
	}
	return sync.OnceFunc(release), nil
}
