package pages

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// Sessions keeps browsers signed in. See [identity.Sessions] for the methods.
type Sessions interface {
	Open(ctx context.Context, cookie dispatch.Secret) (identity.Session, error)
	Check(ctx context.Context, cookie dispatch.Secret) error
	End(ctx context.Context, cookie dispatch.Secret) (leave string, remember dispatch.Secret, err error)
	Leave(ctx context.Context, leave string, remembered dispatch.Secret) (address string, err error)
	EndByProvider(ctx context.Context, token dispatch.Secret) error
}

const (
	sessionCookie = "" // the one cookie that is named after the service alone
	leaveCookie   = "sign-out"
	signInPath    = "/session/sign-in"
	leavePath     = "/session/leave"
	MaxReturn     = 512      // characters; a browser keeps up to eight of them, and the head of a request is bounded
	MaxLogout     = 32 << 10 // bytes of a logout request
)

var (
	errSignedOut = call.Refusal{Status: http.StatusUnauthorized, Code: "AUTHENTICATION_FAILED",
		Cause:   identity.ErrSignedOut,
		Header:  map[string]string{"WWW-Authenticate": "Bearer"},
		Message: "You are not signed in, or your session has ended. Sign in again."}
	errForeignPage = call.Refusal{Status: http.StatusForbidden, Code: "FORBIDDEN",
		Message: "A session is used from the page of this service only, and changes need Content-Type: " +
			"application/json. Other clients send a bearer token, without cookies."}
	errNoRenewal = call.Refusal{Status: http.StatusServiceUnavailable, Code: "SERVICE_UNAVAILABLE",
		Header: call.RetryAfter(5 * time.Second),
		Message: "Your sign-in cannot be renewed because the identity provider does not respond. Try again in a few " +
			"seconds."}
	errNoSessions = &dispatch.Error{Kind: dispatch.Unsupported, Op: "api.session",
		Text: "Users cannot sign in to the page of this service: its operator must set public_url, " +
			"identity.client_id with its secret, and on PostgreSQL vault.keys. Other clients send a bearer token."}
)

// sessionRoutes registers the operations on the session of a browser.
func (a *Site) sessionRoutes() {
	openapi.Register(a.Document, huma.Operation{OperationID: "get_session", Method: http.MethodGet, Path: "/session",
		Tags: []string{"access"}, Summary: "Get who is signed in", Responses: a.Errors(401, 503)}, a.getSession)
	openapi.Register(a.Document,
		huma.Operation{OperationID: "end_session", Method: http.MethodPost, Path: "/session/sign-out",
			Tags:          []string{"access"},
			Summary:       "Sign a browser out",
			Description:   "Ends the session of the browser that sends the request, if it has one.",
			DefaultStatus: http.StatusOK, Security: []map[string][]string{}, Responses: a.Errors(403, 503)},
		a.endSession)
	a.mux.HandleFunc("GET "+signInPath, a.limitPageRate(a.signInPage))
	a.mux.HandleFunc("GET "+leavePath, a.limitPageRate(a.leavePage))
	if a.Sessions != nil {
		a.mux.HandleFunc("POST /session/back-channel-sign-out", a.endSessionsByProvider)
	}
}

// HasSession reports whether a browser sends the cookie of a session.
func (a *Site) HasSession(r *http.Request) bool { return a.Sessions != nil && a.sessionIn(r) != "" }

// SessionCookieName returns the name of the cookie of a session; "" if there are no sessions.
func (a *Site) SessionCookieName() string {
	if a.Sessions == nil {
		return ""
	}
	return a.cookie(sessionCookie, "", 0).Name
}

// sessionIn returns the cookie of a browser's session; "" if it has none, or several, of which another site could have
// set one.
func (a *Site) sessionIn(r *http.Request) dispatch.Secret {
	found := r.CookiesNamed(a.cookie(sessionCookie, "", 0).Name)
	if len(found) != 1 {
		return ""
	}
	return dispatch.Secret(found[0].Value)
}

// SessionCaller returns the user of a browser's session, if the page of this service sent the request.
func (a *Site) SessionCaller(r *http.Request) (identity.Caller, error) {
	if !a.FromOwnPage(r) {
		return identity.Caller{}, errForeignPage
	}
	return a.OpenSession(r)
}

// OpenSession returns the user of a browser's session. The caller has checked which page sent the request.
func (a *Site) OpenSession(r *http.Request) (identity.Caller, error) {
	s, err := a.Sessions.Open(r.Context(), a.sessionIn(r))
	switch {
	case errors.Is(err, identity.ErrSignedOut):
		a.Log.DebugContext(r.Context(), "session refused", "error", err)
		return identity.Caller{}, errSignedOut
	case call.IsDatabaseFailure(err):
		return identity.Caller{}, err
	case err != nil:
		a.Log.WarnContext(r.Context(), "session not renewed", "error", err)
		return identity.Caller{}, errNoRenewal
	}
	if wait := a.ByUser.Wait(s.User); wait > 0 {
		return identity.Caller{}, limits.ErrTooFast("yours", wait)
	}
	call.In(r.Context()).Session = s
	return s.Caller, nil
}

// FromOwnPage reports whether the page of this service sent a request, or for a request that changes nothing, the user
// by an address that they typed. Browsers say so by Sec-Fetch-Site, older ones by Origin; pages cannot set either. A
// request that changes something must be in JSON, which a form of another site cannot send.
func (a *Site) FromOwnPage(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	own := site == "same-origin" || site == "" && origin != "" && origin == dispatch.OriginOf(a.PublicURL)
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return own || site == "none" || site == "" && origin == ""
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return own && err == nil && kind == "application/json"
}

// CheckStreamOrigin returns nil if the page of this service opens a stream. Browsers send Origin with every WebSocket.
func (a *Site) CheckStreamOrigin(r *http.Request) error {
	if origin := r.Header.Get("Origin"); origin == "" || origin != dispatch.OriginOf(a.PublicURL) {
		return errForeignPage
	}
	return nil
}

func (a *Site) getSession(ctx context.Context, _ *openapi.Request) (*openapi.Plain[wire.SignedIn], error) {
	c := call.In(ctx)
	who := wire.SignedIn{User: wire.SignedInUser{ID: c.Caller.Subject, Name: c.Caller.Name,
		Email: c.Caller.Email()}, Expires: c.Caller.Expires.UTC()}
	if c.Session.Cookie != "" {
		who.Expires = c.Session.Ends.UTC()
	}
	return &openapi.Plain[wire.SignedIn]{Body: who}, nil
}

// endSession signs a browser out. It does not return the provider's address, because that holds a token of the user,
// which no script may see: the browser is led there by leavePage.
func (a *Site) endSession(ctx context.Context, in *openapi.Request) (*openapi.Plain[wire.SignedOut], error) {
	r, w := humago.Unwrap(in.HTTP)
	if !a.FromOwnPage(r) {
		return nil, errForeignPage
	}
	answer := openapi.Plain[wire.SignedOut]{Body: wire.SignedOut{Location: a.PagePath("/")}}
	if !a.HasSession(r) {
		return &answer, nil
	}
	leave, remember, err := a.Sessions.End(ctx, a.sessionIn(r))
	if err != nil {
		return nil, err
	}
	http.SetCookie(w, a.cookie(sessionCookie, "", -1))
	if leave != "" {
		http.SetCookie(w, a.cookie(leaveCookie, remember.Reveal(), int(identity.LeaveWithin.Seconds())))
		answer.Body.Location = a.PagePath(leavePath) + "?with=" + url.QueryEscape(leave)
	}
	return &answer, nil
}

// leavePage sends the browser that signed out to the provider's page that ends its session.
func (a *Site) leavePage(w http.ResponseWriter, r *http.Request) {
	address, err := "", error(errNoSessions)
	if a.Sessions != nil {
		var remembered dispatch.Secret
		if c, err := r.Cookie(a.cookie(leaveCookie, "", 0).Name); err == nil {
			remembered = dispatch.Secret(c.Value)
		}
		address, err = a.Sessions.Leave(r.Context(), r.URL.Query().Get("with"), remembered)
	}
	if err != nil {
		a.showError(w, r, Dialog{Title: "Not signed out at the identity provider", Link: &pageLink{a.PagePath("/"),
			"Go to the page"}}, err)
		return
	}
	http.SetCookie(w, a.cookie(leaveCookie, "", -1))
	redirect(w, address)
}

// signInPage sends the browser to the provider to sign in.
func (a *Site) signInPage(w http.ResponseWriter, r *http.Request) {
	if a.Sessions == nil {
		a.showError(w, r, Dialog{Title: "Sign-in failed"}, errNoSessions)
		return
	}
	back := r.URL.Query().Get("return")
	if !isOwnPath(back) {
		back = a.PagePath("/")
	}
	a.redirectToProvider(w, r, identity.Purpose{Session: true, Return: back})
}

// isOwnPath reports whether a text is a path of this service, with a query and fragment, and no address of another
// server in any reading of browsers.
func isOwnPath(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= MaxReturn && strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") &&
		!strings.ContainsAny(text, "\\\r\n\t") && u.Scheme == "" && u.Host == "" && u.User == nil
}

// startSession gives the browser the cookie of its new session, in place of that of any earlier one, and sends it back
// to the page.
func (a *Site) startSession(w http.ResponseWriter, r *http.Request, arrived identity.Arrival) {
	if a.HasSession(r) {
		if _, _, err := a.Sessions.End(r.Context(), a.sessionIn(r)); err != nil {
			a.Log.WarnContext(r.Context(), "earlier session not ended", "error", err)
		}
	}
	http.SetCookie(w, a.cookie(sessionCookie, arrived.Cookie.Reveal(), 0))
	redirect(w, arrived.Return)
}

// redirect sends a browser to an address as it is: [http.Redirect] would change its path.
func redirect(w http.ResponseWriter, address string) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", address)
	w.WriteHeader(http.StatusSeeOther)
}

// endSessionsByProvider ends the sessions that the identity provider names (OpenID Connect Back-Channel Logout 1.0,
// section 2.5). Its signed token is its authentication.
func (a *Site) endSessionsByProvider(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, MaxLogout)
	err := a.Sessions.EndByProvider(r.Context(), dispatch.Secret(r.PostFormValue("logout_token")))
	if err == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	refused := call.RefusalFor(err)
	if dispatch.Is(err, dispatch.Invalid) {
		a.Log.WarnContext(r.Context(), "logout token refused", "error", err)
		refused = call.Refusal{Status: http.StatusBadRequest, Code: "VALIDATION_ERROR", Message: dispatch.TextFor(err)}
	}
	a.Refuse(w, r, refused)
}
