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
)

const (
	noSessions   = time.Hour      // until a provider that gave a user no session grant is asked again for that user
	maxRefused   = 10_000         // users for whom that is remembered
	offlineRests = 24 * time.Hour // until an offline grant is used to keep it: providers forget those that are not used
)

// grants get access tokens for users who are away, with the refresh tokens in the vault. Those are used by one process at
// a time: a provider that changes them at each use takes a second use for theft, and ends the grant.
type grants struct {
	vault    dispatch.Vault
	ring     *Keyring
	client   *exchangeClient
	locker   Locker // nil: there is no other process
	now      func() time.Time
	log      *slog.Logger
	sessions bool // grants may come from users' sessions
	gate     *gate

	turns keyed

	mu      sync.Mutex
	refused *lru[dispatch.UserID, time.Time] // when the provider last gave a user no session grant
}

// permission is what is sealed of a grant.
type permission struct {
	Refresh string `json:"refresh_token"`
	Session string `json:"session,omitempty"` // that it comes from
}

// obtain gives an access token of a user who has a grant, and keeps it among the others. Errors: errSubjectEnded where
// there is no grant, or no more.
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
	if other := known.of(u); other != "" { // came while we waited
		return other, nil
	}
	got, err := g.use(ctx, u)
	if err != nil {
		return "", err
	}
	known.offer(u, got)
	return got.token, nil
}

// use asks for an access token. Who calls it holds the user's lock.
func (g *grants) use(ctx context.Context, u dispatch.UserID) (subject, error) {
	row, l, err := g.read(ctx, u)
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return subject{}, errSubjectEnded
	case err != nil:
		return subject{}, err
	}
	a, err := g.refresh(ctx, l)
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
	g.log.InfoContext(ctx, "audit", "action", "grant_ended", "user", string(u), "kind", string(row.Kind), "grant", row.ID, "why", r.Description)
	if err := g.vault.EraseGrant(ctx, u, row.ID); err != nil && !dispatch.Is(err, dispatch.NotFound) {
		return subject{}, err
	}
	return subject{}, errSubjectEnded
}

// refresh asks the provider for an access token. While it answers nobody, it is only asked now and then, for one.
func (g *grants) refresh(ctx context.Context, l permission) (a answer, err error) {
	_, err = g.gate.through(ctx, func() (issued, error) {
		var err error
		a, err = g.client.form(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {l.Refresh}})
		if err != nil {
			return issued{}, unavailable(err)
		}
		if failed := a.failed("identity.Grant", a.refusal(g.client.Secret, dispatch.Secret(l.Refresh))); dispatch.Is(failed, dispatch.Unavailable) {
			return issued{}, failed
		}
		return issued{}, nil
	})
	return a, err
}

// renewed keeps what an answer says about a grant, and gives its access token only after that: the refresh token of
// before may be good for nothing now.
func (g *grants) renewed(ctx context.Context, row dispatch.Grant, l permission, a answer) (subject, error) {
	got, next, err := g.readPermission(a, row.Owner)
	if err != nil {
		return subject{}, err
	}
	if next.Refresh == "" {
		next.Refresh = l.Refresh
	}
	next.Session = l.Session
	row.Renewed, row.Expires = g.now(), next.expires
	if err := g.seal(&row, next.permission); err != nil {
		return subject{}, err
	}
	// Whoever asked may be gone; what the provider changed must be kept.
	if _, err := g.vault.RenewGrant(context.WithoutCancel(ctx), row); err != nil {
		return subject{}, unavailable(fmt.Errorf("the grant was not kept: %w", err))
	}
	return subject{got.token, got.expires}, nil
}

// expiringPermission is a permission with its end, zero where none is told.
type expiringPermission struct {
	permission
	expires time.Time
}

// readPermission reads the tokens in a token endpoint's answer, which must be a user's.
func (g *grants) readPermission(a answer, u dispatch.UserID) (issued, expiringPermission, error) {
	got, err := g.client.provider.client.readIssued(a)
	if err != nil {
		return issued{}, expiringPermission{}, err
	}
	var m struct {
		Refresh string      `json:"refresh_token"`
		Expires json.Number `json:"refresh_expires_in"`
	}
	if json.Unmarshal(a.body, &m) != nil || len(m.Refresh) > maxToken || m.Refresh != "" && !sendable(m.Refresh) {
		return issued{}, expiringPermission{}, unavailable(errors.New("the refresh token cannot be read"))
	}
	issuer, who, session := whose(got.token)
	if dispatch.UserID(issuer+" "+who) != u {
		return issued{}, expiringPermission{}, misconfigured(errors.New("the token is another user's"))
	}
	next := expiringPermission{permission: permission{m.Refresh, session}}
	if seconds, err := m.Expires.Int64(); err == nil && seconds > 0 {
		next.expires = g.now().Add(time.Duration(seconds) * time.Second)
	}
	return got, next, nil
}

// whose reads a JWT that came from its issuer itself, so that its signature says nothing new.
func whose(token dispatch.Secret) (issuer, user, session string) {
	m, err := payload(token.Reveal())
	if err != nil {
		return "", "", ""
	}
	issuer, _ = m.text("iss")
	user, _ = m.text("sub")
	session, _ = m.text("sid")
	return issuer, user, session
}

// keep puts a new grant in place of the one that the user had.
func (g *grants) keep(ctx context.Context, u dispatch.UserID, kind dispatch.GrantKind, l expiringPermission) error {
	now := g.now()
	row := dispatch.Grant{ID: strings.ToLower(rand.Text()), Owner: u, Issuer: g.client.provider.issuer, Kind: kind,
		Created: now, Renewed: now, Expires: l.expires}
	if err := g.seal(&row, l.permission); err != nil {
		return err
	}
	if err := g.vault.KeepGrant(context.WithoutCancel(ctx), row); err != nil {
		return err
	}
	g.log.InfoContext(ctx, "audit", "action", "grant", "user", string(u), "kind", string(kind), "grant", row.ID)
	return nil
}

// replace keeps an offline grant in place of what there was, which no one may be using just then.
func (g *grants) replace(ctx context.Context, u dispatch.UserID, l expiringPermission) error {
	unlock, err := g.lock(ctx, u)
	if err != nil {
		return err
	}
	defer unlock()
	return g.keep(ctx, u, dispatch.OfflineGrant, l)
}

func (g *grants) seal(row *dispatch.Grant, l permission) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	row.Sealed = g.ring.seal(dispatch.Secret(text), placeOf(*row)...)
	return nil
}

// read gives a user's grant with what is sealed in it; NotFound.
func (g *grants) read(ctx context.Context, u dispatch.UserID) (row dispatch.Grant, l permission, err error) {
	if row, err = g.vault.Grant(ctx, u, g.client.provider.issuer); err != nil {
		return row, l, err
	}
	l, err = g.open(row)
	return row, l, err
}

// open reads what is sealed in a grant.
func (g *grants) open(row dispatch.Grant) (l permission, err error) {
	text, err := g.ring.open(row.Sealed, placeOf(row)...)
	if err != nil {
		return l, err
	}
	if json.Unmarshal([]byte(text.Reveal()), &l) != nil {
		return l, misconfigured(errors.New("a grant in the vault cannot be read"))
	}
	return l, nil
}

// fromSession keeps a grant from the session that a user's own token is of, where the provider gives one (Keycloak's
// standard token exchange, refresh token of the same session). It fails in silence: the user is asked for when it counts.
// A user who took their permission back is left alone until they give it again.
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
	_, _, session := whose(token)
	row, l, err := g.read(ctx, u)
	if err == nil && (row.Kind == dispatch.OfflineGrant || l.Session == session) || err != nil && !dispatch.Is(err, dispatch.NotFound) {
		return
	}
	if err := g.askSession(ctx, u, token); err != nil {
		g.mu.Lock()
		g.refused.put(u, g.now())
		g.mu.Unlock()
		g.log.InfoContext(ctx, "no session grant", "user", string(u), "error", err, "again_after", noSessions.String())
	}
}

// refusedLately reports whether the provider gave this user no session grant a short while ago. It says nothing of
// others: one user's odd session must not cost them theirs.
func (g *grants) refusedLately(u dispatch.UserID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, refused := g.refused.get(u)
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
	_, l, err := g.readPermission(a, u)
	if err != nil {
		return err
	}
	if l.Refresh == "" {
		return misconfigured(errors.New("the provider gave no refresh token"))
	}
	return g.keep(ctx, u, dispatch.SessionGrant, l)
}

// freshen uses a grant that would soon end if it were not used.
func (g *grants) freshen(ctx context.Context, u dispatch.UserID, known *subjects) error {
	if !g.due(ctx, u) {
		return nil
	}
	unlock, err := g.lock(ctx, u)
	if err != nil {
		return err
	}
	defer unlock()
	if !g.due(ctx, u) { // used while we waited
		return nil
	}
	got, err := g.use(ctx, u)
	if err == nil {
		known.offer(u, got)
	}
	return err
}

// due reports whether a user's grant would soon end if it were not used.
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

// lock keeps others from a user's grant, in this process and in all.
func (g *grants) lock(ctx context.Context, u dispatch.UserID) (unlock func(), err error) {
	release, err := g.turns.enter(ctx, string(u))
	if err != nil {
		return nil, unavailable(err)
	}
	if g.locker == nil {
		return release, nil
	}
	others, err := g.locker.Lock(ctx, "grant "+string(u))
	if err != nil {
		release()
		return nil, unavailable(err)
	}
	return func() { others(); release() }, nil
}

// form sends a form to the token endpoint in the client's name.
func (c exchangeClient) form(ctx context.Context, form url.Values) (answer, error) {
	address, err := tokenEndpoint(ctx, c.provider)
	if err != nil {
		return answer{}, err
	}
	return c.post(ctx, address, form)
}

// keyed lets one after the other do something about the same key.
type keyed struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // closed when it is free
}

func (k *keyed) enter(ctx context.Context, key string) (release func(), err error) {
	for {
		k.mu.Lock()
		other, busy := k.busy[key]
		if !busy {
			own := make(chan struct{})
			if k.busy == nil {
				k.busy = map[string]chan struct{}{}
			}
			k.busy[key] = own
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.busy, key)
				k.mu.Unlock()
				close(own)
			}, nil
		}
		k.mu.Unlock()
		if err := await(ctx, other); err != nil {
			return nil, err
		}
	}
}
