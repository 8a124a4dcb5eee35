package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	signInWithin = 15 * time.Minute // from the redirect to the provider until the user returns
	inviteLasts  = 15 * time.Minute
)

// SignIns signs users in by their browsers with the broker's own client: OAuth's authorization code (RFC 6749, section
// 4.1) with PKCE (RFC 7636) and a nonce. The browser keeps the encrypted state of the sign-in, so that any process that
// shares the database can finish it.
type SignIns struct {
	tokens   *Tokens
	client   *exchangeClient
	keys     *keySet
	ring     *Keyring
	redirect string
	now      func() time.Time
	vault    Vault
	sessions *Sessions // nil: browsers are not kept signed in
}

// Purpose is why a user signs in: to link an account, to give permission to run jobs after they have signed out, or to
// stay signed in.
type Purpose struct {
	Platform string          // platform whose account is to be linked
	Away     bool            // permission is to be given
	Session  bool            // the browser is to stay signed in
	Return   string          // path of this service at which the browser continues; "": none
	User     dispatch.UserID // the user who must sign in; "": any
}

// Arrival is the outcome of a completed sign-in redirect.
type Arrival struct {
	Purpose
	User   dispatch.UserID
	Name   string          // display name; may be any text
	Cookie dispatch.Secret // what the browser needs to use its session; "": there is none
}

// signInState is the state of a sign-in that the browser keeps.
type signInState struct {
	Purpose
	State, Nonce, Verifier string
	Until                  time.Time
}

// SignIns returns sign-ins that end on the page redirect of this service. ring encrypts the state that browsers keep,
// and v stores which of these has returned.
func (t *Tokens) SignIns(redirect string, ring *Keyring, v Vault) *SignIns {
	return &SignIns{tokens: t, client: t.own, keys: newKeySet(t.own.provider, t.now), ring: ring.derived("sign-in"),
		redirect: redirect, now: t.now, vault: v}
}

// Begin returns the provider's page to which the browser must be redirected, and the state that it must bring back.
// NotFound: no such platform has accounts to link. Unsupported: permissions cannot be stored.
func (s *SignIns) Begin(ctx context.Context, p Purpose) (address string, remember dispatch.Secret, err error) {
	action, err := s.action(p)
	if err != nil {
		return "", "", err
	}
	at, err := s.client.provider.endpoints(ctx)
	switch {
	case err != nil:
		return "", "", providerUnavailable(err)
	case at.Authorization == "":
		return "", "", misconfigured(errors.New("the provider has no authorization endpoint"))
	}
	m := signInState{p, rand.Text(), rand.Text(), rand.Text() + rand.Text(), s.now().Add(signInWithin)}
	text, err := json.Marshal(m)
	if err != nil {
		return "", "", err
	}
	challenge := sha256.Sum256([]byte(m.Verifier))
	query := url.Values{"response_type": {"code"}, "client_id": {s.client.ID}, "redirect_uri": {s.redirect},
		"scope": {"openid"}, "state": {m.State}, "nonce": {m.Nonce},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"}}
	if action != "" {
		query.Set("kc_action", action)
	}
	switch {
	case p.Session:
		query.Set("scope", "openid profile email")
	case p.Away:
		query.Set("scope", "openid offline_access")
		query.Set("prompt", "consent") // the provider must ask the user (OpenID Connect Core 1.0, section 11)
	}
	return withQuery(at.Authorization, query), dispatch.Secret(s.ring.lend(string(text), m.Until, "sign-in")), nil
}

// Finish completes the sign-in of a user whose browser returned with a query, and acts on its purpose. Its errors may
// be shown: Invalid if the browser does not bring back its state, Forbidden if the user or the provider refused or
// another user signed in. Arrival contains what is known by then.
func (s *SignIns) Finish(ctx context.Context, query url.Values, remembered dispatch.Secret) (Arrival, error) {
	m, err := s.openState(query, remembered)
	if err != nil {
		return Arrival{}, err
	}
	arrived := Arrival{Purpose: m.Purpose}
	if err := s.checkIssuer(ctx, query); err != nil {
		return arrived, err
	}
	if err := s.useOnce(ctx, m); err != nil {
		return arrived, err
	}
	if err := refusedBy(query, m); err != nil {
		return arrived, err
	}
	a, err := s.client.form(ctx, url.Values{"grant_type": {"authorization_code"}, "code": {query.Get("code")},
		"redirect_uri": {s.redirect}, "code_verifier": {m.Verifier}})
	switch {
	case err != nil:
		return arrived, providerUnavailable(err)
	case a.status != http.StatusOK:
		return arrived, codeRefused(a, a.refusal(s.client.Secret, dispatch.Secret(query.Get("code")),
			dispatch.Secret(m.Verifier)))
	}
	if arrived, err = s.accept(ctx, m, a); err != nil && (m.Away || m.Session) {
		s.discard(context.WithoutCancel(ctx), a)
	}
	return arrived, err
}

// accept acts on the provider's response to a code, if the right user signed in.
func (s *SignIns) accept(ctx context.Context, m signInState, a answer) (arrived Arrival, err error) {
	arrived.Purpose = m.Purpose
	if arrived.User, arrived.Name, err = s.signedInUser(ctx, a, m.Nonce); err != nil {
		return arrived, err
	}
	if m.User != "" && m.User != arrived.User {
		return arrived, &dispatch.Error{Kind: dispatch.Forbidden, Op: "identity.SignIn",
			Text: "You signed in as a different user than the one who requested this page. Nothing was changed."}
	}
	if m.Session {
		arrived.Cookie, err = s.sessions.begin(ctx, arrived.User, a)
		return arrived, err
	}
	return arrived, s.carryOut(ctx, arrived, a)
}

// action returns the provider's action for a purpose; "" if a sign-in is enough.
func (s *SignIns) action(p Purpose) (string, error) {
	switch {
	case !p.Session:
		return s.tokens.linkAction(p)
	case s.sessions == nil:
		return "", &dispatch.Error{Kind: dispatch.Unsupported, Op: "identity.SignIn",
			Text: "This service does not keep browsers signed in."}
	}
	return "", nil
}

// discard revokes a permission that was given but not stored. If its user has one that is in use, it does nothing,
// because providers may revoke all permissions of a session at once.
func (s *SignIns) discard(ctx context.Context, a answer) {
	g := s.tokens.grants
	var m struct {
		Refresh dispatch.Secret `json:"refresh_token"`
	}
	got, err := s.client.provider.client.readIssued(a)
	if g == nil || err != nil || json.Unmarshal(a.body, &m) != nil || m.Refresh == "" || !sendable(m.Refresh.Reveal()) {
		return
	}
	issuer, user, _ := subjectOf(got.token)
	u := dispatch.UserID(issuer + " " + user)
	unlock, err := g.lock(ctx, u)
	if err != nil {
		return
	}
	defer unlock()
	if _, err := g.vault.Grant(ctx, u, s.client.provider.issuer); !dispatch.Is(err, dispatch.NotFound) {
		return
	}
	err = s.client.revoke(ctx, m.Refresh)
	s.tokens.log.InfoContext(ctx, "audit", "action", "discard", "user", string(u), "at_provider", err == nil, "error",
		err)
}

// openState decrypts the browser's state and compares it with the query, before the query is used.
func (s *SignIns) openState(query url.Values, remembered dispatch.Secret) (signInState, error) {
	text, _, err := s.ring.lent(remembered.Reveal(), s.now(), "sign-in")
	if err != nil {
		return signInState{}, invalidReturn(err)
	}
	var m signInState
	if json.Unmarshal([]byte(text), &m) != nil || m.State == "" ||
		subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(m.State)) != 1 {
		return signInState{}, invalidReturn(errors.New("it was not begun here, or too long ago"))
	}
	return m, nil
}

// useOnce returns nil the first time that a state returns to any process, so that one sign-in cannot cause repeated
// requests to the provider.
func (s *SignIns) useOnce(ctx context.Context, m signInState) error {
	first, err := s.vault.UseOnce(ctx, "state "+m.State, m.Until)
	switch {
	case err != nil:
		return err
	case !first:
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "identity.SignIn",
			Text: "This sign-in was already completed, so nothing was changed. " + startAgain}
	}
	return nil
}

// wasUsed reports whether UseOnce has stored a name.
func (s *SignIns) wasUsed(ctx context.Context, name string) (bool, error) {
	_, _, err := s.vault.FindToken(ctx, name)
	if dispatch.Is(err, dispatch.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// checkIssuer returns nil if the response comes from the provider that was asked. A provider that announces to name
// itself must do so, and no other may (RFC 9207, section 2.4); otherwise a second provider could receive the code of
// the first.
func (s *SignIns) checkIssuer(ctx context.Context, query url.Values) error {
	at, err := s.client.provider.endpoints(ctx)
	if err != nil {
		return providerUnavailable(err)
	}
	iss, named := query["iss"]
	if !named && !at.NamesItself || len(iss) == 1 && iss[0] == s.client.provider.issuer {
		return nil
	}
	return invalidReturn(errors.New("the response is from another provider, or does not name one"))
}

// startAgain tells a user how to repeat a sign-in. The broker cannot link to it, because it does not know for what the
// user signed in.
const startAgain = "To sign in again, open the link that brought you here, such as the one that your job shows, or " +
	"go back to the application that sent you here."

// invalidReturn returns the error for a browser that returns without a sign-in that it began here less than 15 minutes
// ago.
func invalidReturn(err error) error {
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "identity.SignIn", Err: err,
		Text: "This page completes a sign-in, once and within 15 minutes of its start. " + startAgain}
}

// refusedBy returns the error for a user or a provider that refused.
func refusedBy(query url.Values, m signInState) error {
	refused := func(text string) error {
		return &dispatch.Error{Kind: dispatch.Forbidden, Op: "identity.SignIn", Text: text,
			Err: errors.New(printable(query.Get("error")+" "+query.Get("error_description")+" "+
				query.Get("kc_action_status"), 200))}
	}
	status := query.Get("kc_action_status")
	switch {
	case query.Get("error") == "access_denied", status == "cancelled":
		return refused("You did not give permission. Nothing was changed.")
	case query.Get("error") != "" || query.Get("code") == "":
		return refused("The identity provider refused the sign-in. Nothing was changed.")
	case m.Platform != "" && status != "" && status != "success":
		return refused("The identity provider could not link your account. Try again; if it fails again, tell the " +
			"operator of this service.")
	}
	return nil
}

// codeRefused returns the error for a code that was not accepted: it was used before or is too old, else the operator
// must act.
func codeRefused(a answer, r refusal) error {
	if a.status == http.StatusBadRequest && r.Code == "invalid_grant" {
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "identity.SignIn", Err: errors.New(r.Description),
			Text: "This sign-in was already completed, or took too long. " + startAgain}
	}
	return a.failed("identity.SignIn", r)
}

// signedInUser reads the ID token in a response (OpenID Connect Core 1.0, section 3.1.3.7).
func (s *SignIns) signedInUser(ctx context.Context, a answer, nonce string) (dispatch.UserID, string, error) {
	var m struct {
		ID string `json:"id_token"`
	}
	bad := func(err error) error {
		return &dispatch.Error{Kind: dispatch.BadUpstream, Op: "identity.SignIn", Err: err,
			Text: "The identity provider did not return a valid identity. Try again; if it fails again, tell the " +
				"operator of this service."}
	}
	if json.Unmarshal(a.body, &m) != nil || m.ID == "" || len(m.ID) > 2*MaxToken {
		return "", "", bad(errors.New("no ID token"))
	}
	h, err := parseHeader(m.ID)
	if err != nil {
		return "", "", bad(err)
	}
	verified, raw, _, err := s.keys.verify(ctx, dispatch.Secret(m.ID), h,
		oidc.Config{ClientID: s.client.ID, Now: s.now})
	if err != nil {
		return "", "", bad(err)
	}
	c, err := parseClaims(raw)
	switch {
	case err != nil:
		return "", "", bad(err)
	case subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(nonce)) != 1:
		return "", "", bad(errors.New("the nonce is not the one of this sign-in"))
	case !validSubject(c.subject):
		return "", "", bad(errors.New("the sub cannot identify a user"))
	}
	return dispatch.UserID(c.issuer + " " + c.subject), c.name, nil
}

// carryOut carries out the purpose of a sign-in. A link is proven by exchanging the access token, because a listed link
// proves nothing.
func (s *SignIns) carryOut(ctx context.Context, arrived Arrival, a answer) error {
	g := s.tokens.grants
	if arrived.Away {
		got, l, err := g.client.readPermission(a, arrived.User)
		switch {
		case err != nil:
			return err
		case l.Refresh == "":
			return misconfigured(errors.New("the provider gave no offline token"))
		}
		s.tokens.subjects.store(arrived.User, subject{got.token, got.expires})
		return g.replace(ctx, arrived.User, l)
	}
	got, err := s.client.provider.client.readIssued(a)
	if err != nil {
		return err
	}
	if issuer, user, _ := subjectOf(got.token); dispatch.UserID(issuer+" "+user) != arrived.User {
		return misconfigured(errors.New("the token is another user's"))
	}
	s.tokens.subjects.store(arrived.User, subject{got.token, got.expires})
	err = s.tokens.tryLink(ctx, arrived.Platform, arrived.User)
	s.tokens.log.InfoContext(ctx, "audit", "action", "link", "user", string(arrived.User), "platform", arrived.Platform,
		"ok", err == nil, "error", err)
	return err
}

// Invite returns a text that opens a page for one user, for 15 minutes. It grants nothing else.
func (s *SignIns) Invite(u dispatch.UserID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(s.ring.lend(string(u), s.now().Add(inviteLasts), "invite")))
}

// Invited returns the user of an invitation. Invalid if it is malformed or too old.
func (s *SignIns) Invited(invitation string) (dispatch.UserID, error) {
	user := ""
	raw, err := base64.RawURLEncoding.DecodeString(invitation)
	if err == nil {
		user, _, err = s.ring.lent(string(raw), s.now(), "invite")
	}
	if err != nil {
		return "", &dispatch.Error{Kind: dispatch.Invalid, Op: "identity.Invited", Err: err,
			Text: "This link is incomplete or has expired. Request a new one."}
	}
	return dispatch.UserID(user), nil
}

func providerUnavailable(err error) error {
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: "identity.SignIn", Err: err,
		Text: "The identity provider does not respond. Try again in a few minutes."}
}
