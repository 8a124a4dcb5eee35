package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	sessionsOfUser = 50          // sessions of one user that are kept; a further sign-in ends the oldest
	extendEvery    = time.Minute // minimum time between two extensions of a session that is in use
	// before its end, or a quarter of its life if that is less, a session's access token is renewed
	renewSession = 30 * time.Second
	maxHint      = 4 << 10 // bytes of an ID token that is passed on in an address
)

// LeaveWithin is the time from a sign-out here until the browser must be sent to the provider.
const LeaveWithin = 5 * time.Minute

// Sessions keeps browsers signed in. A browser has a random secret, of which the database has the hash; the user's
// tokens are in the database, encrypted, so that every process that shares it can serve the session.
type Sessions struct {
	SessionsConfig
	signIns *SignIns
	client  *exchangeClient
	ring    *Keyring
	gate    *gate
	log     *slog.Logger
	now     func() time.Time
	turns   keyed
}

// SessionsConfig configures sessions.
type SessionsConfig struct {
	Store  SessionStore
	Life   time.Duration // after a sign-in the user must sign in again
	Idle   time.Duration // after this time without a request too
	Home   string        // address to which the provider sends the browser after a sign-out
	Locker Locker        // nil: there is no other process
}

// Session is the sign-in of one browser, opened for one request.
type Session struct {
	Caller // the user, with an access token
	Cookie dispatch.Secret
	Ends   time.Time // unless it is used
}

// ErrSignedOut is wrapped by the error for a browser whose session does not exist or has ended.
var ErrSignedOut = errors.New("signed out")

func signedOut(cause error) error {
	return &dispatch.Error{Kind: dispatch.SignInRequired, Op: "identity.Session",
		Text: "You are not signed in, or your session has ended. Sign in again.",
		Err:  fmt.Errorf("%w: %w", ErrSignedOut, cause)}
}

// sessionTokens is the secret part of a session, which is stored encrypted.
type sessionTokens struct {
	Access  string    `json:"access_token"`
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
	Renewal string    `json:"refresh_token,omitempty"`
	ID      string    `json:"id_token,omitempty"` // names the provider's session at its end
}

// Sessions returns the sessions of browsers that sign in with s for the purpose of a session.
func (s *SignIns) Sessions(ring *Keyring, c SessionsConfig) *Sessions {
	log := s.tokens.log
	s.sessions = &Sessions{SessionsConfig: c, signIns: s, client: s.client, ring: ring.derived(sessionKeys), log: log,
		now: s.now,
		gate: &gate{now: s.now, log: log.With("sessions_of", s.client.provider.issuer),
			lanes: make(chan struct{}, abreast)}}
	return s.sessions
}

// begin stores a session for the response to a code, and returns what the browser needs to use it.
func (s *Sessions) begin(ctx context.Context, u dispatch.UserID, a answer) (dispatch.Secret, error) {
	got, l, err := s.client.readPermission(a, u)
	if err != nil {
		return "", err
	}
	var m struct {
		ID string `json:"id_token"`
	}
	if err := json.Unmarshal(a.body, &m); err != nil {
		return "", unavailable(err)
	}
	_, _, sid := subjectOf(dispatch.Secret(m.ID))
	now, cookie := s.now(), dispatch.Secret(rand.Text()+rand.Text())
	row := dispatch.Session{ID: sessionID(cookie), Owner: u, Issuer: s.client.provider.issuer, SID: sid, Created: now,
		Ends: now.Add(min(s.Life, s.Idle))}
	row.Sealed = s.ring.sealJSON(sessionTokens{Access: got.token.Reveal(), Issued: now, Expires: got.expires,
		Renewal: l.Refresh, ID: m.ID}, placeOfSession(row)...)
	if err := s.Store.AddSession(context.WithoutCancel(ctx), row, sessionsOfUser); err != nil {
		return "", err
	}
	s.signIns.tokens.StoreUserToken(ctx, u, got.token, got.expires)
	s.log.InfoContext(ctx, "audit", "action", "session", "user", string(u), "session", row.ID[:16])
	return cookie, nil
}

// Open returns the session of a browser for one request of its user. Errors: SignInRequired, which wraps
// [ErrSignedOut], if there is none or it has ended; Unavailable if its tokens cannot be renewed now.
func (s *Sessions) Open(ctx context.Context, cookie dispatch.Secret) (Session, error) {
	row, t, err := s.read(ctx, sessionID(cookie))
	if err != nil {
		return Session{}, err
	}
	if s.renewalDue(t) {
		if t, err = s.renew(ctx, row.ID); err != nil {
			return Session{}, err
		}
	}
	if ends := s.end(row); ends.Sub(row.Ends) >= extendEvery {
		if err := s.Store.ExtendSession(ctx, row.ID, ends); err != nil {
			return Session{}, err
		}
		row.Ends = ends
	}
	caller, err := callerWith(row, t)
	return Session{Caller: caller, Cookie: cookie, Ends: row.Ends}, err
}

// Check returns nil while a session lasts, else an error that wraps [ErrSignedOut]. It does not count as a use.
func (s *Sessions) Check(ctx context.Context, cookie dispatch.Secret) error {
	_, _, err := s.read(ctx, sessionID(cookie))
	return err
}

// End ends a session. leave is what [Sessions.Leave] needs to end the provider's session too, with remember, which the
// browser keeps until then; "" if the provider cannot do that, or there was no session.
func (s *Sessions) End(ctx context.Context, cookie dispatch.Secret) (leave string, remember dispatch.Secret,
	err error) {
	row, t, err := s.read(ctx, sessionID(cookie))
	switch {
	case errors.Is(err, ErrSignedOut):
		return "", "", nil
	case err != nil:
		return "", "", err
	}
	if err := s.Store.EndSession(context.WithoutCancel(ctx), row.ID); err != nil {
		return "", "", err
	}
	s.signIns.tokens.subjects.drop(ctx, row.Owner, dispatch.Secret(t.Access))
	s.log.InfoContext(ctx, "audit", "action", "sign_out", "user", string(row.Owner), "session", row.ID[:16])
	at, err := s.client.provider.endpoints(ctx)
	if err != nil || at.EndSession == "" {
		if err != nil {
			s.log.WarnContext(ctx, "sign-out at the identity provider not offered", "error", err)
		}
		return "", "", nil
	}
	hint := t.ID
	if len(hint) > maxHint {
		hint = "" // the provider asks the user
	}
	remember = dispatch.Secret(rand.Text())
	return s.ring.lend(hint, s.now().Add(LeaveWithin), "leave", remember.Reveal()), remember, nil
}

// Leave returns the provider's page that ends its session (OpenID Connect RP-Initiated Logout 1.0). Invalid if leave
// and remembered were not returned together by [Sessions.End] in the last five minutes, or were used before.
func (s *Sessions) Leave(ctx context.Context, leave string, remembered dispatch.Secret) (address string, err error) {
	hint, end, err := s.ring.lent(leave, s.now(), "leave", remembered.Reveal())
	if err != nil {
		return "", notLeaving(err)
	}
	at, err := s.client.provider.endpoints(ctx)
	if err != nil {
		return "", providerUnavailable(err)
	}
	switch first, err := s.signIns.vault.UseOnce(ctx, "leave "+sessionID(remembered), end); {
	case err != nil:
		return "", err
	case !first:
		return "", notLeaving(errors.New("the address was used before"))
	}
	query := url.Values{"client_id": {s.client.ID}, "post_logout_redirect_uri": {s.Home}}
	if hint != "" {
		query.Set("id_token_hint", hint)
	}
	return withQuery(at.EndSession, query), nil
}

func notLeaving(cause error) error {
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "identity.Leave", Err: cause,
		Text: "This address ends a sign-in at the identity provider once, in the browser that signed out here, " +
			"within five minutes. You are signed out here."}
}

// withQuery adds a query to an address, which may have one.
func withQuery(address string, query url.Values) string {
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	return address + separator + query.Encode()
}

// sessionID returns the name under which a browser's session is stored.
func sessionID(cookie dispatch.Secret) string {
	sum := sha256.Sum256([]byte(cookie.Reveal()))
	return hex.EncodeToString(sum[:])
}

// end returns when a session ends that is used now.
func (s *Sessions) end(row dispatch.Session) time.Time {
	ends, idle := row.Created.Add(s.Life), s.now().Add(s.Idle)
	if idle.Before(ends) {
		return idle
	}
	return ends
}

// renewalDue reports whether a session needs a new access token.
func (s *Sessions) renewalDue(t sessionTokens) bool {
	return t.Expires.Sub(s.now()) <= min(renewSession, t.Expires.Sub(t.Issued)/4)
}

// read returns a session that has not ended.
func (s *Sessions) read(ctx context.Context, id string) (row dispatch.Session, t sessionTokens, err error) {
	row, err = s.Store.Session(ctx, id)
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return row, t, signedOut(err)
	case err != nil:
		return row, t, err
	case !s.now().Before(row.Ends) || !s.now().Before(row.Created.Add(s.Life)):
		return row, t, signedOut(errors.New("the session has ended"))
	}
	if err := s.ring.openJSON(row.Sealed, &t, placeOfSession(row)...); err != nil {
		return row, t, signedOut(err) // the key was removed, or the process that had it has ended
	}
	return row, t, nil
}

// renew obtains a new access token for a session, in one process at a time, because a refresh token may be good for one
// use. While the old access token lasts, a provider that does not respond is tolerated.
func (s *Sessions) renew(ctx context.Context, id string) (sessionTokens, error) {
	unlock, err := s.turns.lock(ctx, s.Locker, "session "+id)
	if err != nil {
		return sessionTokens{}, err
	}
	defer unlock()
	row, t, err := s.read(ctx, id)
	if err != nil || !s.renewalDue(t) { // renewed by another request meanwhile
		return t, err
	}
	// the provider's change must be stored even if the browser has gone
	next, err := s.refreshed(context.WithoutCancel(ctx), row, t)
	switch {
	case errors.Is(err, ErrSignedOut):
		return sessionTokens{}, errors.Join(err, s.Store.EndSession(context.WithoutCancel(ctx), id))
	case err != nil && s.now().Before(t.Expires):
		s.log.WarnContext(ctx, "renewing a session's token failed; the present one is used", "error", err)
		return t, nil
	}
	return next, err
}

// refreshed obtains and stores new tokens of a session.
func (s *Sessions) refreshed(ctx context.Context, row dispatch.Session, t sessionTokens) (sessionTokens, error) {
	if t.Renewal == "" {
		return t, signedOut(errors.New("the provider gave no refresh token"))
	}
	release, err := s.gate.enter(ctx)
	if err != nil {
		return t, providerUnavailable(err)
	}
	defer release()
	a, err := s.client.refresh(ctx, s.gate, dispatch.Secret(t.Renewal))
	if err != nil {
		return t, providerUnavailable(err)
	}
	if a.status != http.StatusOK {
		r := a.refusal(s.client.Secret, dispatch.Secret(t.Renewal))
		if a.status == http.StatusBadRequest && r.Code == "invalid_grant" {
			s.log.InfoContext(ctx, "audit", "action", "session_ended", "user", string(row.Owner), "session",
				row.ID[:16], "why", r.Description)
			return t, signedOut(errors.New(r.Description))
		}
		return t, a.failed("identity.Session", r)
	}
	got, l, err := s.client.readPermission(a, row.Owner)
	if err != nil {
		return t, err
	}
	t.Access, t.Issued, t.Expires = got.token.Reveal(), s.now(), got.expires
	if l.Refresh != "" {
		t.Renewal = l.Refresh
	}
	row.Sealed = s.ring.sealJSON(t, placeOfSession(row)...)
	if _, err = s.Store.RenewSession(ctx, row); dispatch.Is(err, dispatch.Conflict) {
		return t, signedOut(err) // it was ended meanwhile
	}
	return t, err
}

func placeOfSession(r dispatch.Session) []string {
	return sessionPlace(r.ID, string(r.Owner), r.Issuer)
}

func sessionPlace(id, owner, issuer string) []string { return []string{"sessions", id, owner, issuer} }

// callerWith returns the user of a session with its access token, which came from the provider itself.
func callerWith(row dispatch.Session, t sessionTokens) (Caller, error) {
	raw, err := rawPayload(t.Access)
	if err != nil {
		return Caller{}, signedOut(err)
	}
	c, err := parseClaims(raw)
	if err != nil {
		return Caller{}, signedOut(err)
	}
	return Caller{User: row.Owner, Issuer: c.issuer, Subject: c.subject, Name: c.name, Expires: t.Expires,
		Token: dispatch.Secret(t.Access)}, nil
}

// SessionStore stores sessions, so that every process can serve every browser. It has no keys. Times are from the clock
// of the process that encrypts.
type SessionStore interface {
	// AddSession stores a new session. Of its owner's sessions it keeps the newest, most of them.
	AddSession(ctx context.Context, s dispatch.Session, most int) error
	// Session returns a session, which may be past its end; NotFound.
	Session(ctx context.Context, id string) (dispatch.Session, error)
	// RenewSession stores the sealed text of a session. Conflict if the session has changed since it was read, or was
	// ended.
	RenewSession(context.Context, dispatch.Session) (dispatch.Session, error)
	// ExtendSession moves the end of a session, if it has not been ended, to a later time.
	ExtendSession(ctx context.Context, id string, ends time.Time) error
	// EndSession deletes a session, if it exists.
	EndSession(ctx context.Context, id string) error
	// EndSessions deletes the sessions that belong to a provider's session and to a user, and returns their number. ""
	// stands for any, in one of the two.
	EndSessions(ctx context.Context, issuer, sid string, u dispatch.UserID) (int, error)
}
