package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// Verifier tells who sent a token. Unavailable: it cannot be told now; any other error: the token is not good.
type Verifier interface {
	Verify(ctx context.Context, token dispatch.Secret) (identity.Caller, error)
}

// authenticate lets nothing pass without a good token but operations that the document declares open.
func (a *api) authenticate(ctx huma.Context, next func(huma.Context)) {
	if open(ctx.Operation()) {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	caller, err := a.caller(r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	callIn(r.Context()).caller = caller
	if a.SignedIn != nil {
		a.SignedIn(r.Context(), caller)
	}
	next(ctx)
}

// open reports whether an operation says that it needs no sign-in, by an empty list. One that says nothing needs it.
func open(op *huma.Operation) bool { return op.Security != nil && len(op.Security) == 0 }

// caller verifies the token of r, which only the header may carry (RFC 6750 section 2.1).
func (a *api) caller(r *http.Request) (identity.Caller, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return identity.Caller{}, errNoToken
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return identity.Caller{}, errNoToken
	}
	return a.verified(r.Context(), token)
}

func (a *api) verified(ctx context.Context, token string) (identity.Caller, error) {
	caller, err := a.Verifier.Verify(ctx, dispatch.Secret(token))
	switch {
	case dispatch.Is(err, dispatch.Unavailable):
		a.Log.WarnContext(ctx, "token not verified", "error", err)
		return identity.Caller{}, errNoIssuer
	case err != nil:
		a.Log.DebugContext(ctx, "token refused", "error", err)
		return identity.Caller{}, errNoToken
	}
	return caller, nil
}
