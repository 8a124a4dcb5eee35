package identity

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

const (
	noSessions = time.Hour // before a provider that refused a user a session grant is asked again for that user
	maxRefused = 10_000    // users for whom a refusal is remembered
	// before an offline grant is used only to keep it, because providers delete unused ones
	offlineRests = 24 * time.Hour
)

// grants obtains access tokens for users who are not connected, using the refresh tokens stored in the vault. A grant
// is used by one process at a time: a provider that changes refresh tokens at each use takes a second use for theft and
// ends the grant.
type grants struct {
	vault    Vault
	ring     *Keyring
	client   *exchangeClient
	locker   Locker // nil: there is no other process
	now      func() time.Time
	log      *slog.Logger
	sessions bool // grants may be taken from users' sessions
	gate     *gate

	turns keyed

	mu      sync.Mutex
	refused *lru[dispatch.UserID, time.Time] // when the provider last refused a user a session grant
}

// permission is the secret part of a grant, which the vault stores encrypted.
type permission struct {
	Refresh string    `json:"refresh_token"`
	Session string    `json:"session,omitempty"` // the session that it was taken from
	expires time.Time // zero: not known, or from the vault
}

// obtain obtains an access token of a user who has a grant, and adds it to known. Errors: errSubjectEnded if there is
// no valid grant.
func (g *grants) obtain(ctx context.Context, u dispatch.UserID, known *subjects) (dispatch.Secret, error) {
	release, err := g.gate.enter(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	unlock, err := g.lock(ctx, u)
	if err != nil {
		return "", err
	}
	defer unlock()
	if other := known.of(u); other != "" { // arrived while this call waited
		return other, nil
	}
	got, err := g.use(ctx, u)
	if err != nil {
		return "", err
	}
	known.store(u, got)
	return got.token, nil
}

// use obtains an access token with the user's grant. The caller holds the user's lock.
func (g *grants) use(ctx context.Context, u dispatch.UserID) (subject, error) {
	row, l, err := g.read(ctx, u)
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return subject{}, errSubjectEnded
	case err != nil:
		return subject{}, err
	}
	a, err := g.client.refresh(ctx, g.gate, dispatch.Secret(l.Refresh))
	switch {
	case err != nil:
		return subject{}, err
	case a.status == http.StatusOK:
		return g.renewed(ctx, row, l, a)
	}
	r := a.refusal(g.client.Secret, dispatch.Secret(l.Refresh))
	if a.status != http.StatusBadRequest || r.Code != "invalid_grant" {
		return subject{}, a.failed("identity.Grant", r)
	}
	g.log.InfoContext(ctx, "audit", "action", "grant_ended", "user", string(u), "kind", string(row.Kind), "grant",
		row.ID, "why", r.Description)
	if err := g.vault.EraseGrant(ctx, u, row.ID); err != nil && !dispatch.Is(err, dispatch.NotFound) {
		return subject{}, err
	}
	return subject{}, errSubjectEnded
}

// refresh asks the provider for an access token. While the provider does not respond, it is only asked from time to
// time, for one user.
func (c exchangeClient) refresh(ctx context.Context, g *gate, token dispatch.Secret) (a answer, err error) {
	_, err = g.run(ctx, func() (issued, error) {
		var err error
		a, err = c.form(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.Reveal()}})
		if err != nil {
			return issued{}, unavailable(err)
		}
		if failed := a.failed("identity.Grant", a.refusal(c.Secret, token)); dispatch.Is(failed, dispatch.Unavailable) {
			return issued{}, failed
		}
		return issued{}, nil
	})
	return a, err
}

// renewed stores the new refresh token before it returns the access token, because the old refresh token may no longer
// be valid.
func (g *grants) renewed(ctx context.Context, row dispatch.Grant, l permission, a answer) (subject, error) {
	got, next, err := g.client.readPermission(a, row.Owner)
	if err != nil {
		return subject{}, err
	}
	if next.Refresh == "" {
		next.Refresh = l.Refresh
	}
	next.Session = l.Session
	row.Renewed, row.Expires = g.now(), next.expires
	row.Sealed = g.ring.sealJSON(next, placeOf(row)...)
	// The caller may have gone, but the provider's change must be stored.
	if _, err := g.vault.RenewGrant(context.WithoutCancel(ctx), row); err != nil {
		return subject{}, unavailable(fmt.Errorf("storing the renewed grant failed: %w", err))
	}
	return subject{got.token, got.expires}, nil
}

// readPermission reads the tokens in a response of the token endpoint. They must belong to the user.
func (c exchangeClient) readPermission(a answer, u dispatch.UserID) (issued, permission, error) {
	got, err := c.provider.client.readIssued(a)
	if err != nil {
		return issued{}, permission{}, err
	}
	var m struct {
		Refresh string          `json:"refresh_token"`
		Expires json.RawMessage `json:"refresh_expires_in"`
	}
	if json.Unmarshal(a.body, &m) != nil || len(m.Refresh) > MaxToken || m.Refresh != "" && !sendable(m.Refresh) {
		return issued{}, permission{}, unavailable(errors.New("the refresh token cannot be read"))
	}
	issuer, who, session := subjectOf(got.token)
	if dispatch.UserID(issuer+" "+who) != u {
		return issued{}, permission{}, misconfigured(errors.New("the token is another user's"))
	}
	next := permission{Refresh: m.Refresh, Session: session}
	if life := lifetime(m.Expires, 0); life > 0 {
		next.expires = c.provider.client.now().Add(life)
	}
	return got, next, nil
}

// subjectOf reads the payload of a JWT that was received from its issuer itself, so that its signature need not be
// verified.
func subjectOf(token dispatch.Secret) (issuer, user, session string) {
	m, err := payload(token.Reveal())
	if err != nil {
		return "", "", ""
	}
	issuer, _ = m.text("iss")
	user, _ = m.text("sub")
	session, _ = m.text("sid")
	return issuer, user, session
}

// keep stores a new grant in place of the user's earlier one.
func (g *grants) keep(ctx context.Context, u dispatch.UserID, kind dispatch.GrantKind, l permission) error {
	now := g.now()
	row := dispatch.Grant{ID: strings.ToLower(rand.Text()), Owner: u, Issuer: g.client.provider.issuer, Kind: kind,
		Created: now, Renewed: now, Expires: l.expires}
	row.Sealed = g.ring.sealJSON(l, placeOf(row)...)
	if err := g.vault.KeepGrant(context.WithoutCancel(ctx), row); err != nil {
		return err
	}
	g.log.InfoContext(ctx, "audit", "action", "grant", "user", string(u), "kind", string(kind), "grant", row.ID)
	return nil
}

// replace stores an offline grant in place of any earlier one, while nobody uses that.
func (g *grants) replace(ctx context.Context, u dispatch.UserID, l permission) error {
	unlock, err := g.lock(ctx, u)
	if err != nil {
		return err
	}
	defer unlock()
	return g.keep(ctx, u, dispatch.OfflineGrant, l)
}

// read returns a user's grant and its permission. NotFound.
func (g *grants) read(ctx context.Context, u dispatch.UserID) (row dispatch.Grant, l permission, err error) {
	if row, err = g.vault.Grant(ctx, u, g.client.provider.issuer); err == nil {
		err = g.ring.openJSON(row.Sealed, &l, placeOf(row)...)
	}
	return row, l, err
}

// fromSession stores a grant taken from the session of a user's own token, if the provider issues one (Keycloak's
// standard token exchange with a refresh token of the same session). Failures are only logged; the user is asked when
// the permission is needed. For a user who withdrew their permission it does nothing until they give it again.
func (g *grants) fromSession(ctx context.Context, u dispatch.UserID, token dispatch.Secret) {
	if !g.sessions || g.refusedLately(u) {
		return
	}
	unlock, err := g.lock(ctx, u)
	if err != nil {
		return
	}
	defer unlock()
	if withdrawn, err := g.vault.HasWithdrawn(ctx, u, g.client.provider.issuer); withdrawn || err != nil {
		return
	}
	_, _, session := subjectOf(token)
	row, l, err := g.read(ctx, u)
	if err == nil && (row.Kind == dispatch.OfflineGrant || l.Session == session) || err != nil &&
		!dispatch.Is(err, dispatch.NotFound) {
		return
	}
	if err := g.askSession(ctx, u, token); err != nil {
		g.mu.Lock()
		g.refused.Add(u, g.now())
		g.mu.Unlock()
		g.log.InfoContext(ctx, "no session grant", "user", string(u), "error", err, "again_after", noSessions.String())
	}
}

// refusedLately reports whether the provider refused this user a session grant within noSessions. It is remembered for
// each user, because the reason may be the session of that one user.
func (g *grants) refusedLately(u dispatch.UserID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, refused := g.refused.Get(u)
	return refused && g.now().Sub(at) < noSessions
}

func (g *grants) askSession(ctx context.Context, u dispatch.UserID, token dispatch.Secret) error {
	a, err := g.client.form(ctx, url.Values{"grant_type": {tokenExchangeGrant}, "subject_token": {token.Reveal()},
		"subject_token_type": {accessTokenType}, "requested_token_type": {"urn:ietf:params:oauth:token-type:refresh_token"}})
	if err != nil {
		return unavailable(err)
	}
	if a.status != http.StatusOK {
		return a.failed("identity.Grant", a.refusal(g.client.Secret, token))
	}
	_, l, err := g.client.readPermission(a, u)
	if err != nil {
		return err
	}
	if l.Refresh == "" {
		return misconfigured(errors.New("the provider gave no refresh token"))
	}
	return g.keep(ctx, u, dispatch.SessionGrant, l)
}

// refreshIfDue uses a grant that would otherwise expire unused.
func (g *grants) refreshIfDue(ctx context.Context, u dispatch.UserID, known *subjects) error {
	if !g.due(ctx, u) {
		return nil
	}
	unlock, err := g.lock(ctx, u)
	if err != nil {
		return err
	}
	defer unlock()
	if !g.due(ctx, u) { // used by another caller meanwhile
		return nil
	}
	got, err := g.use(ctx, u)
	if err == nil {
		known.store(u, got)
	}
	return err
}

// due reports whether a user's grant must be used so that it does not expire.
func (g *grants) due(ctx context.Context, u dispatch.UserID) bool {
	row, err := g.vault.Grant(ctx, u, g.client.provider.issuer)
	now := g.now()
	switch {
	case err != nil:
		return false
	case row.Expires.IsZero():
		return now.Sub(row.Renewed) > offlineRests
	}
	return row.Expires.Sub(now) < row.Expires.Sub(row.Renewed)/2
}

// lock keeps others, in all processes, from using a user's grant.
func (g *grants) lock(ctx context.Context, u dispatch.UserID) (unlock func(), err error) {
	return g.lockOf(ctx, u.Hash())
}

// lockOf is lock for the hash of a user.
func (g *grants) lockOf(ctx context.Context, ownerHash string) (unlock func(), err error) {
	return g.turns.lock(ctx, g.locker, "grant "+ownerHash)
}

// form sends a form to the token endpoint with the client's authentication.
func (c exchangeClient) form(ctx context.Context, form url.Values) (answer, error) {
	address, err := tokenEndpoint(ctx, c.provider)
	if err != nil {
		return answer{}, err
	}
	return c.post(ctx, address, form)
}

// keyed runs callers with the same key one after the other.
type keyed struct{ bounds.Shares[string] }

// lock waits for the turn of the caller, in all processes. locker is nil if there is no other.
func (k *keyed) lock(ctx context.Context, locker Locker, key string) (unlock func(), err error) {
	release, err := k.AcquireOf(ctx, key, 1, 1)
	if err != nil {
		return nil, unavailable(err)
	}
	if locker == nil {
		return release, nil
	}
	defer func() {
		if unlock == nil { // an error or a panic
			release()
		}
	}()
	others, err := locker.Lock(ctx, key)
	if err != nil {
		return nil, unavailable(err)
	}
	return func() { defer release(); others() }, nil
}
