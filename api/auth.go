package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// Verifier verifies access tokens. An error of kind Unavailable means that the token could not be checked now; any
// other error means that it is not valid.
type Verifier interface {
	Verify(ctx context.Context, token dispatch.Secret) (identity.Caller, error)
}

// authenticate verifies the token of every request, except of operations that the OpenAPI document declares open.
func (a *api) authenticate(ctx huma.Context, next func(huma.Context)) {
	if open(ctx.Operation()) {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	// a session counts on our page only
	if anonymous(ctx.Operation()) && len(r.Header.Values("Authorization")) == 0 && (!a.hasSession(r) ||
		!a.fromOwnPage(r)) {
		next(ctx)
		return
	}
	caller, err := a.callerOf(r)
	if errors.Is(err, identity.ErrSignedOut) && anonymous(ctx.Operation()) { // the browser still has the cookie of a session that has ended
		next(ctx)
		return
	}
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	if err := a.admit(r.Context(), caller); err != nil {
		a.refuse(w, r, err)
		return
	}
	next(ctx)
}

// admit notes the caller of a request and counts it among those of the caller.
func (a *api) admit(ctx context.Context, caller identity.Caller) error {
	callIn(ctx).caller = caller
	if err := a.countUser(ctx); err != nil {
		return err
	}
	if a.OnRequest != nil {
		a.OnRequest(ctx, caller)
	}
	return nil
}

// open reports whether an operation needs no sign-in. It says so by an empty, non-nil list of security requirements.
func open(op *huma.Operation) bool { return op.Security != nil && len(op.Security) == 0 }

// anonymous reports whether an operation can be used with and without a sign-in. It says so by an empty security
// requirement beside others.
func anonymous(op *huma.Operation) bool {
	return slices.ContainsFunc(op.Security, func(requirement map[string][]string) bool { return len(requirement) == 0 })
}

// callerOf verifies the token of r, which only the Authorization header may carry (RFC 6750, section 2.1), or without
// one the session of the browser.
func (a *api) callerOf(r *http.Request) (identity.Caller, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 && a.hasSession(r) {
		return a.sessionCaller(r)
	}
	if len(headers) != 1 {
		return identity.Caller{}, errNoToken
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return identity.Caller{}, errNoToken
	}
	return a.verifyToken(r.Context(), token)
}

func (a *api) verifyToken(ctx context.Context, token string) (identity.Caller, error) {
	caller, err := a.Verifier.Verify(ctx, dispatch.Secret(token))
	switch {
	case dispatch.Is(err, dispatch.Unavailable):
		a.Log.WarnContext(ctx, "token not verified", "error", err)
		return identity.Caller{}, errNoIssuer
	case err != nil:
		if n := a.refusals.count(err.Error(), time.Now()); n > 0 {
			a.Log.InfoContext(ctx, "token refused", "error", err, "refused", n)
		}
		return identity.Caller{}, refusalOfToken(err)
	}
	if wait := a.byUser.wait(caller.User); wait > 0 {
		return identity.Caller{}, errTooFast("yours", wait)
	}
	return caller, nil
}

// refusalOfToken returns the response to a token that is not valid. It is the same for every cause except those that a
// client can act upon: the token has expired, or a new sign-in does not help.
func refusalOfToken(err error) refusal {
	switch {
	case errors.Is(err, identity.ErrExpired):
		return errOldToken
	case errors.Is(err, identity.ErrNoSubject):
		return errNoSubject
	case errors.Is(err, identity.ErrTooLong):
		return errLongToken
	}
	return errBadToken
}

const (
	reasonEvery  = time.Second // minimum interval between two log lines for one reason
	reasonsKnown = 100         // number of reasons that are counted separately
)

// reasonCounts counts what requests are refused for, so that an operator notices a wrong setting at once and a flood of
// requests does not fill the log: each reason is logged at most once a second, with the number of requests since its
// last line. The zero value is ready to use.
type reasonCounts struct {
	mu sync.Mutex
	of map[string]*tally
}

type tally struct {
	logged time.Time
	since  int
}

// count returns the number of requests to log now; 0 means that no line is due yet.
func (t *reasonCounts) count(reason string, now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil || t.of[reason] == nil && len(t.of) >= reasonsKnown {
		t.of = map[string]*tally{}
	}
	if t.of[reason] == nil {
		t.of[reason] = &tally{}
	}
	is := t.of[reason]
	is.since++
	if now.Sub(is.logged) < reasonEvery {
		return 0
	}
	n := is.since
	is.logged, is.since = now, 0
	return n
}
