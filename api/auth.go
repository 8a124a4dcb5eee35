package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/limits"
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
	if anonymous(ctx.Operation()) && len(r.Header.Values("Authorization")) == 0 && (!a.HasSession(r) ||
		!a.FromOwnPage(r)) {
		next(ctx)
		return
	}
	caller, err := a.callerOf(r)
	// the browser still has the cookie of a session that has ended
	if errors.Is(err, identity.ErrSignedOut) && anonymous(ctx.Operation()) {
		next(ctx)
		return
	}
	if err != nil {
		a.Refuse(w, r, err)
		return
	}
	if err := a.admit(r.Context(), caller); err != nil {
		a.Refuse(w, r, err)
		return
	}
	next(ctx)
}

// admit notes the caller of a request, and counts the request among the caller's.
func (a *api) admit(ctx context.Context, caller identity.Caller) error {
	call.In(ctx).Caller = caller
	if err := a.CountUser(ctx); err != nil {
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
	if len(r.Header.Values("Authorization")) == 0 && a.HasSession(r) {
		return a.SessionCaller(r)
	}
	return a.verifyIfSent(r.Context(), facade.Bearer(r.Header))
}

// verifyIfSent verifies the token of a request; "": it has none.
func (a *api) verifyIfSent(ctx context.Context, token dispatch.Secret) (identity.Caller, error) {
	if token == "" {
		return identity.Caller{}, call.ErrNoToken
	}
	return a.verifyToken(ctx, token)
}

func (a *api) verifyToken(ctx context.Context, token dispatch.Secret) (identity.Caller, error) {
	caller, err := a.Verifier.Verify(ctx, token)
	switch {
	case dispatch.Is(err, dispatch.Unavailable):
		a.Log.WarnContext(ctx, "token not verified", "error", err)
		return identity.Caller{}, call.ErrNoIssuer
	case err != nil:
		if n := a.refusals.Count(err.Error(), time.Now()); n > 0 {
			a.Log.InfoContext(ctx, "token refused", "error", err, "refused", n)
		}
		return identity.Caller{}, refusalOfToken(err)
	}
	if wait := a.ByUser.Wait(caller.User); wait > 0 {
		return identity.Caller{}, limits.ErrTooFast("yours", wait)
	}
	return caller, nil
}

// refusalOfToken returns the response to a token that is not valid. It is the same for every cause except those that a
// client can act upon: the token has expired, or a new sign-in does not help.
func refusalOfToken(err error) call.Refusal {
	switch {
	case errors.Is(err, identity.ErrExpired):
		return call.ErrOldToken
	case errors.Is(err, identity.ErrNoSubject):
		return call.ErrNoSubject
	case errors.Is(err, identity.ErrTooLong):
		return call.ErrLongToken
	}
	return call.ErrBadToken
}
