package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// fixture is a simulated provider, a vault, and a clock that the test advances.
type fixture struct {
	t      *testing.T
	idp    *simulator.IdP
	server *httptest.Server
	vault  Vault
	log    bytes.Buffer
	mu     sync.Mutex
	now    time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{t: t, vault: vault(t), now: time.Now()}
	s.idp = &simulator.IdP{Now: s.time, RefreshOnce: true}
	s.server = httptest.NewServer(s.idp)
	t.Cleanup(s.server.Close)
	s.idp.URL = s.server.URL
	return s
}

func (s *fixture) time() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *fixture) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// Write implements [io.Writer] for the log.
func (s *fixture) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

// tokens returns the Tokens of a process that has just started.
func (s *fixture) tokens(change ...func(*TokensConfig)) *Tokens {
	s.t.Helper()
	c := TokensConfig{Issuer: s.idp.Issuer(simulator.BrokerRealm), ClientID: "eodispatch-api",
		ClientSecret: "eodispatch-api-secret",
		Client:       upstream.New(upstream.Config{Transport: s.server.Client().Transport, Development: true}),
		Now:          s.time, Log: slog.New(slog.NewTextHandler(s, nil)), Development: true,
		Vault: s.vault, Keys: ring(s.t, key("k")),
		Platforms: []Platform{{Name: "p", Access: dispatch.AccessUser, Issuer: s.idp.Issuer(simulator.PlatformRealm),
			Link:     "https://broker/link/p",
			LinkLife: time.Hour, Exchange: Exchange{Driver: "keycloak-broker", Alias: simulator.PlatformAlias}}}}
	for _, f := range change {
		f(&c)
	}
	t, err := NewTokens(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

// comes returns a user whose own token is known and lasts five minutes.
func (s *fixture) comes(t *Tokens, name string) dispatch.UserID {
	token := dispatch.Secret(s.idp.Mint(simulator.BrokerRealm, name, "portal", simulator.TokenFaults{}))
	u := s.user(name)
	t.StoreUserToken(s.t.Context(), u, token, s.time().Add(5*time.Minute))
	return u
}

func (s *fixture) user(name string) dispatch.UserID {
	issuer, sub, _ := subjectOf(dispatch.Secret(s.idp.Mint(simulator.BrokerRealm, name, "portal",
		simulator.TokenFaults{})))
	return dispatch.UserID(issuer + " " + sub)
}

const comeBack = "https://broker.test/signed-in"

// signIn walks a browser through a sign-in. The query says how the user responds.
func (s *fixture) signIn(signIns *SignIns, p Purpose, does string) (Arrival, error) {
	s.t.Helper()
	address, remember, err := signIns.Begin(s.t.Context(), p)
	if err != nil {
		s.t.Fatal(err)
	}
	return signIns.Finish(s.t.Context(), s.walk(address, does), remember)
}

func (s *fixture) walk(address, does string) url.Values {
	s.t.Helper()
	c := *s.server.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := c.Get(address + "&" + does)
	if err != nil {
		s.t.Fatal(err)
	}
	response.Body.Close()
	back, err := response.Location()
	if err != nil {
		s.t.Fatalf("%s: %v", response.Status, err)
	}
	if !strings.HasPrefix(back.String(), comeBack+"?") {
		s.t.Fatalf("sent back to %s", back)
	}
	return back.Query()
}

func (s *fixture) signIns(t *Tokens) *SignIns {
	return t.SignIns(comeBack, ring(s.t, key("cookies")), s.vault)
}

// agrees lets a user give permission.
func (s *fixture) agrees(t *Tokens, name string) dispatch.UserID {
	s.t.Helper()
	u := s.user(name)
	if got, err := s.signIn(s.signIns(t), Purpose{Away: true, User: u}, "as="+name); err != nil || got.User != u {
		s.t.Fatalf("%+v %v", got, err)
	}
	return u
}

func of(u dispatch.UserID) dispatch.Account { return dispatch.Account("p/" + string(u)) }

// The user's session has ended, the process was restarted, days pass, and tokens are still obtained.
func TestGrants_UserIsNotConnected(t *testing.T) {
	s := newFixture(t)
	u := s.agrees(s.tokens(), "alice")
	s.idp.Logout(simulator.BrokerRealm, "alice")
	tokens := s.tokens()
	for day := range 20 {
		if got, err := tokens.Token(t.Context(), of(u)); err != nil ||
			got.Issuer != s.idp.Issuer(simulator.PlatformRealm) {
			t.Fatalf("day %d: %v %v", day, got, err)
		}
		s.pass(24 * time.Hour)
	}
	grants, err := tokens.Grants(t.Context(), u)
	if err != nil || len(grants) != 1 || grants[0].Kind != dispatch.OfflineGrant || !grants[0].Expires.IsZero() {
		t.Errorf("grants %+v %v", grants, err)
	}
	if _, err := tokens.Token(t.Context(), of(s.user("carol"))); !dispatch.Is(err, dispatch.SignInRequired) {
		t.Errorf("a user without a grant: %v", err)
	}
	shown := s.log.String() + fmt.Sprintf("%+v %v", grants, grants)
	for _, secret := range []string{"refresh-", "code-", "eodispatch-api-secret"} {
		if strings.Contains(shown, secret) {
			t.Errorf("%s is shown:\n%s", secret, shown)
		}
	}
	if signedToken.MatchString(shown) {
		t.Errorf("a token is shown:\n%s", shown)
	}
}

// If the renewed grant cannot be stored, the token that was obtained with it is not used.
func TestGrants_RenewedGrantIsStoredFirst(t *testing.T) {
	s := newFixture(t)
	u := s.agrees(s.tokens(), "alice")
	s.vault = &broken{Vault: s.vault}
	tokens := s.tokens()
	const exchanges = "POST /realms/{realm}/broker/{alias}/token"
	before := s.idp.Oracle.Requests(exchanges)
	_, err := tokens.Token(t.Context(), of(u))
	if !dispatch.Is(err, dispatch.Unavailable) {
		t.Errorf("error %v", err)
	}
	if e, ok := errors.AsType[*dispatch.Error](err); !ok || !e.Database || e.Text != "The disk is full." {
		t.Errorf("the error of the database is given as another: %#v", err)
	}
	if n := s.idp.Oracle.Requests(exchanges) - before; n != 0 {
		t.Errorf("%d exchanges with a token whose grant was not kept", n)
	}
	// The provider has changed the refresh token, and the new one is lost: the second use is detected, and the user is
	// asked.
	s.vault.(*broken).mended = true
	s.pass(time.Minute)
	if _, err := tokens.Token(t.Context(), of(u)); !dispatch.Is(err, dispatch.SignInRequired) {
		t.Errorf("a grant whose renewal was lost: %v", err)
	}
	if grants, err := tokens.Grants(t.Context(), u); err != nil || len(grants) != 0 {
		t.Errorf("it is still there: %+v %v", grants, err)
	}
}

// broken is a vault that stores no renewals.
type broken struct {
	Vault
	mended bool
}

func (b *broken) RenewGrant(ctx context.Context, g dispatch.Grant) (dispatch.Grant, error) {
	if b.mended {
		return b.Vault.RenewGrant(ctx, g)
	}
	return dispatch.Grant{}, &dispatch.Error{Kind: dispatch.Unavailable, Op: "test", Text: "The disk is full.",
		Database: true}
}

// names are locks that processes share.
type names struct{ keyed }

func (n *names) Lock(ctx context.Context, name string) (func(), error) {
	return n.AcquireOf(ctx, name, 1, 1)
}

// Two processes, and several workers of each, want the grant when a token expires.
func TestGrants_AreUsedByOneAtATime(t *testing.T) {
	s := newFixture(t)
	u := s.agrees(s.tokens(), "alice")
	locks := &names{}
	share := func(c *TokensConfig) { c.Locker, c.SharedTokens = locks, NewTokenStore(s.vault, ring(t, key("k"))) }
	replicas := []*Tokens{s.tokens(share), s.tokens(share)}
	for round := range 5 {
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				if _, err := replicas[i%2].Token(t.Context(), of(u)); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		s.pass(10 * time.Minute)
	}
	if n := s.idp.Grants("alice"); n != 1 {
		t.Errorf("%d grants are good", n)
	}
}

// The user's jobs stop when the tokens obtained before have expired.
func TestGrants_DisabledUsersWorkStops(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens()
	u := s.agrees(tokens, "alice")
	if _, err := tokens.Token(t.Context(), of(u)); err != nil {
		t.Fatal(err)
	}
	s.idp.Disable("alice")
	s.pass(6 * time.Minute)
	if _, err := tokens.Token(t.Context(), of(u)); !dispatch.Is(err, dispatch.SignInRequired) {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(s.log.String(), "action=grant_ended") {
		t.Errorf("no audit line:\n%s", s.log.String())
	}
}

func sessions(c *TokensConfig) { c.SessionGrants = true }

// Session grants are taken at the first exchange, outlast the user's token, and end with the session.
func TestSessionGrants(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens(sessions)
	u := s.comes(tokens, "alice")
	for range 3 {
		if _, err := tokens.Token(t.Context(), of(u)); err != nil {
			t.Fatal(err)
		}
		s.pass(10 * time.Minute)
	}
	grants, err := tokens.Grants(t.Context(), u)
	if err != nil || len(grants) != 1 || grants[0].Kind != dispatch.SessionGrant || !grants[0].Expires.After(s.time()) {
		t.Fatalf("%+v %v", grants, err)
	}
	s.idp.Logout(simulator.BrokerRealm, "alice")
	if _, err := tokens.Token(t.Context(), of(u)); !dispatch.Is(err, dispatch.SignInRequired) {
		t.Errorf("after the session: %v", err)
	}
	// The next session provides the next grant.
	s.comes(tokens, "alice")
	for range 3 {
		if _, err := tokens.Token(t.Context(), of(u)); err != nil {
			t.Fatal(err)
		}
		s.pass(10 * time.Minute)
	}
}

// A session grant follows the last session, and never replaces an offline grant.
func TestSessionGrants_FollowTheLastSession(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens(sessions)
	u := s.comes(tokens, "alice")
	id := func() string {
		t.Helper()
		if _, err := tokens.Token(t.Context(), of(u)); err != nil {
			t.Fatal(err)
		}
		grants, err := tokens.Grants(t.Context(), u)
		if err != nil || len(grants) != 1 {
			t.Fatalf("%+v %v", grants, err)
		}
		s.pass(10 * time.Minute)
		return grants[0].ID
	}
	first := id()
	s.comes(tokens, "alice")
	if second := id(); second != first {
		t.Error("the same session gives another grant")
	}
	s.idp.Logout(simulator.BrokerRealm, "alice")
	s.comes(tokens, "alice")
	if third := id(); third == first {
		t.Error("a new session gives no grant")
	}
	s.agrees(tokens, "alice")
	offline := id()
	s.comes(tokens, "alice")
	if id() != offline {
		t.Error("an offline grant is replaced by a session's")
	}
}

func TestSessionGrants_ProviderWithoutThemIsLeftAlone(t *testing.T) {
	s := newFixture(t)
	s.idp.NoSessionGrants = true
	tokens := s.tokens(sessions)
	const token = "POST /realms/{realm}/protocol/openid-connect/token"
	before := s.idp.Oracle.Requests(token)
	for range 5 {
		if _, err := tokens.Token(t.Context(), of(s.comes(tokens, "alice"))); err != nil {
			t.Fatal(err)
		}
		s.pass(6 * time.Minute)
	}
	if n := s.idp.Oracle.Requests(token) - before; n != 1 {
		t.Errorf("asked %d times within the hour", n)
	}
}

// The permission is withdrawn at the provider and here, by its owner only.
func TestRevoke(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens()
	u := s.agrees(tokens, "alice")
	if _, err := tokens.Token(t.Context(), of(u)); err != nil {
		t.Fatal(err)
	}
	grants, err := tokens.Grants(t.Context(), u)
	if err != nil || len(grants) != 1 {
		t.Fatal(grants, err)
	}
	carol := s.agrees(tokens, "carol")
	for _, row := range []struct {
		user dispatch.UserID
		id   string
	}{{carol, grants[0].ID}, {u, "other"}, {s.user("bob"), grants[0].ID}} {
		if err := tokens.Revoke(t.Context(), row.user, row.id); !dispatch.Is(err, dispatch.NotFound) {
			t.Errorf("%v: %v", row, err)
		}
	}
	if err := tokens.Revoke(t.Context(), u, grants[0].ID); err != nil {
		t.Fatal(err)
	}
	if n := s.idp.Grants("alice"); n != 0 {
		t.Errorf("%d grants are good at the provider", n)
	}
	if _, err := tokens.Token(t.Context(), of(u)); !dispatch.Is(err, dispatch.SignInRequired) {
		t.Errorf("a token after revoking: %v", err)
	}
	if _, err := tokens.Token(t.Context(), of(carol)); err != nil {
		t.Errorf("another's: %v", err)
	}
	if !strings.Contains(s.log.String(), "action=revoke") {
		t.Errorf("no audit line:\n%s", s.log.String())
	}
}

// The refused session of one user does not affect the grants of others.
func TestSessionGrants_OneUsersRefusalIsTheirOwn(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens(sessions)
	u := s.comes(tokens, "alice")
	s.idp.NoSessionGrants = true
	if _, err := tokens.Token(t.Context(), of(u)); err != nil {
		t.Fatal(err)
	}
	s.idp.NoSessionGrants = false
	carol := s.comes(tokens, "carol")
	if _, err := tokens.Token(t.Context(), of(carol)); err != nil {
		t.Fatal(err)
	}
	if grants, err := tokens.Grants(t.Context(), carol); err != nil || len(grants) != 1 {
		t.Errorf("another's grant: %+v, %v", grants, err)
	}
}

// The user's next session provides no new grant, in any process; giving the permission again does.
func TestRevoke_StaysUntilGivenAgain(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens(sessions)
	u := s.comes(tokens, "alice")
	use := func(want int) {
		t.Helper()
		if _, err := tokens.Token(t.Context(), of(u)); err != nil {
			t.Fatal(err)
		}
		if grants, err := tokens.Grants(t.Context(), u); err != nil || len(grants) != want {
			t.Fatalf("%+v, %v; want %d", grants, err, want)
		}
	}
	use(1)
	grants, _ := tokens.Grants(t.Context(), u)
	if err := tokens.Revoke(t.Context(), u, grants[0].ID); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.idp.Logout(simulator.BrokerRealm, "alice")
		s.comes(tokens, "alice")
		use(0)
		tokens = s.tokens(sessions)
		s.pass(2 * noSessions)
		s.comes(tokens, "alice")
		use(0)
	}
	s.agrees(tokens, "alice")
	use(1)
}

// The revocation is repeated until the provider has done it, unless the permission was given again meanwhile.
func TestRevoke_IsRepeatedUntilTheProviderDidIt(t *testing.T) {
	for _, again := range []bool{false, true} {
		s := newFixture(t)
		tokens := s.tokens()
		u := s.agrees(tokens, "alice")
		grants, err := tokens.Grants(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		s.idp.Faults.Add(simulator.Fault{Status: 500, Times: 2})
		if err := tokens.Revoke(t.Context(), u, grants[0].ID); err != nil {
			t.Fatal(err)
		}
		if err := tokens.RevokeAll(t.Context()); err == nil {
			t.Error("a provider that fails is not named")
		}
		if n := s.idp.Grants("alice"); n != 1 {
			t.Fatalf("%d grants at the provider that failed", n)
		}
		if again {
			s.agrees(tokens, "alice")
		}
		tokens = s.tokens() // after a restart
		for range 2 {
			if err := tokens.RevokeAll(t.Context()); err != nil {
				t.Error(err)
			}
		}
		grants, err = tokens.Grants(t.Context(), u)
		if again && (err != nil || len(grants) != 1) || !again && s.idp.Grants("alice") != 0 {
			t.Errorf("given again %v: %d grants at the provider, %+v here, %v", again, s.idp.Grants("alice"), grants,
				err)
		}
	}
}

// A provider that was configured since gets no permission that another issued. Until that one is back, the revocation
// waits, for thirty days.
func TestRevoke_OfAFormerProvider(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens()
	u := s.agrees(tokens, "alice")
	grants, err := tokens.Grants(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	s.idp.Faults.Add(simulator.Fault{Status: 500})
	if err := tokens.Revoke(t.Context(), u, grants[0].ID); err != nil {
		t.Fatal(err)
	}
	next := &simulator.IdP{Now: s.time}
	revoked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/revoke") {
			revoked++
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	next.URL = server.URL
	other := s.tokens(func(c *TokensConfig) { c.Issuer = next.Issuer(simulator.BrokerRealm) })
	waits := func(n int) {
		t.Helper()
		if err := other.RevokeAll(t.Context()); err != nil || revoked > 0 {
			t.Errorf("%d requests to another provider, %v", revoked, err)
		}
		if left, err := s.vault.Revocations(t.Context(), s.idp.Issuer(simulator.BrokerRealm), time.Time{},
			10); err != nil || len(left) != n {
			t.Errorf("%d left, %v", len(left), err)
		}
	}
	waits(1)
	s.pass(revocationLasts + time.Hour)
	waits(0)
	if !strings.Contains(s.log.String(), "revocation of a permission at the identity provider abandoned") {
		t.Error(s.log.String())
	}
}

// TestRevoke_ProviderThatCannot: a provider without a revocation endpoint leaves nothing to be revoked, and the log
// says what to do there. So it is for a user of whom nothing else is stored any more.
func TestRevoke_ProviderThatCannot(t *testing.T) {
	for name, withdraw := range map[string]func(*fixture, *Tokens, dispatch.UserID){
		"withdrawn": func(s *fixture, tokens *Tokens, u dispatch.UserID) {
			grants, err := tokens.Grants(t.Context(), u)
			if err != nil || len(grants) != 1 {
				t.Fatal(grants, err)
			}
			if err := tokens.Revoke(t.Context(), u, grants[0].ID); err != nil {
				t.Error(err)
			}
		},
		"forgotten": func(s *fixture, _ *Tokens, u dispatch.UserID) {
			if _, n, err := s.vault.(*store.Store).Forget(t.Context(), u); n != 1 || err != nil {
				t.Error(n, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.server.Config.Handler = withoutRevocation(s.idp)
			tokens := s.tokens()
			withdraw(s, tokens, s.agrees(tokens, "alice"))
			if err := tokens.RevokeAll(t.Context()); err != nil {
				t.Error(err)
			}
			if left, err := s.vault.Revocations(t.Context(), s.idp.Issuer(simulator.BrokerRealm), time.Time{},
				10); err != nil || len(left) != 0 {
				t.Errorf("left %+v, %v", left, err)
			}
			if log := s.log.String(); strings.Count(log, "the identity provider has no revocation endpoint") != 1 {
				t.Errorf("the log does not say it once:\n%s", log)
			}
		})
	}
}

// withoutRevocation is a provider that does not offer to revoke tokens.
func withoutRevocation(idp http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") {
			idp.ServeHTTP(w, r)
			return
		}
		full := httptest.NewRecorder()
		idp.ServeHTTP(full, r)
		fmt.Fprint(w, strings.Replace(full.Body.String(), "revocation_endpoint", "other_endpoint", 1))
	})
}

// TestRevoke_OfAForgottenUser: the permission of a user of whom nothing else is stored is revoked, and the revocation
// does not name the user.
func TestRevoke_OfAForgottenUser(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens()
	u := s.agrees(tokens, "alice")
	if _, n, err := s.vault.(*store.Store).Forget(t.Context(), u); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if left, err := s.vault.Revocations(t.Context(), s.idp.Issuer(simulator.BrokerRealm), time.Time{},
		10); err != nil || len(left) != 1 || left[0].OwnerHash != u.Hash() {
		t.Errorf("to be revoked: %+v, %v", left, err)
	}
	if err := tokens.RevokeAll(t.Context()); err != nil {
		t.Error(err)
	}
	if n := s.idp.Grants("alice"); n != 0 {
		t.Errorf("%d grants are good at the provider", n)
	}
	if left, err := s.vault.Revocations(t.Context(), s.idp.Issuer(simulator.BrokerRealm), time.Time{},
		10); err != nil || len(left) != 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
}

// The permission is erased here even if the provider does not respond.
func TestRevoke_WhileTheProviderIsDown(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens()
	u := s.agrees(tokens, "alice")
	grants, err := tokens.Grants(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	s.idp.Faults.Add(simulator.Fault{Status: 500})
	if err := tokens.Revoke(t.Context(), u, grants[0].ID); err != nil {
		t.Fatal(err)
	}
	if left, err := tokens.Grants(t.Context(), u); err != nil || len(left) != 0 {
		t.Errorf("left %+v %v", left, err)
	}
}

// Grants and links of users with jobs that have not ended are used before half of their life is over.
func TestRefresh_UsesWhatWouldExpire(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens(sessions)
	u := s.comes(tokens, "alice")
	if _, err := tokens.Token(t.Context(), of(u)); err != nil {
		t.Fatal(err)
	}
	const exchanges = "POST /realms/{realm}/broker/{alias}/token"
	before := s.idp.Oracle.Requests(exchanges)
	for range 120 {
		s.pass(time.Minute)
		if err := tokens.Refresh(t.Context(), of(u)); err != nil {
			t.Fatal(err)
		}
	}
	// A link of one hour is used every twenty minutes; a session that lasts half an hour survives two hours.
	if n := s.idp.Oracle.Requests(exchanges) - before; n != 6 {
		t.Errorf("%d exchanges in two hours", n)
	}
	if err := tokens.Refresh(t.Context(), "other/x"); err != nil {
		t.Error(err)
	}
}

// Case 95 for grants. 1,000 users are not connected and have jobs while the broker's provider responds 500 for five
// minutes: it is asked from time to time, no grant is lost, and all jobs continue.
func TestGrants_ProviderFails(t *testing.T) {
	const users, refresh = 1000, "refresh_token"
	var mu sync.Mutex
	now, failing, asked := time.Now(), false, 0
	at := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	p := newFakeProvider()
	p.token = func(form url.Values) *http.Response {
		mu.Lock()
		defer mu.Unlock()
		if form.Get("grant_type") != refresh {
			return gives("platform-token", fields{"expires_in": 60})
		}
		asked++
		if failing {
			return reply(500, "Internal Server Error")
		}
		access := sign(`{"alg":"none"}`, fields{"iss": issuer, "sub": form.Get(refresh),
			"exp": now.Add(time.Minute).Unix()}.json(), nil) + "c2ln"
		return gives(access, fields{refresh: form.Get(refresh), "expires_in": 60})
	}
	tokens := newTokens(t, p, func(c *TokensConfig) { c.Vault, c.Keys, c.Now = vault(t), ring(t, key("k")), at })
	of := func(i int) dispatch.UserID { return dispatch.UserID(fmt.Sprintf("%s user-%d", issuer, i)) }
	for i := range users {
		if err := tokens.grants.keep(t.Context(), of(i), dispatch.OfflineGrant,
			permission{Refresh: fmt.Sprint("user-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	work := func() (well int) {
		var all sync.WaitGroup
		var got atomic.Int64
		for i := range users {
			all.Go(func() {
				_, err := tokens.Token(t.Context(), dispatch.Account("cdse-ogc/"+string(of(i))))
				switch {
				case err == nil:
					got.Add(1)
				case !dispatch.Is(err, dispatch.Unavailable):
					t.Errorf("user %d: %v", i, err)
				}
			})
		}
		all.Wait()
		return int(got.Load())
	}
	pass := func(d time.Duration, fails bool) {
		mu.Lock()
		defer mu.Unlock()
		now, failing = now.Add(d), fails
	}
	if well := work(); well != users {
		t.Fatalf("%d go on before the outage", well)
	}
	mu.Lock()
	asked = 0
	mu.Unlock()
	pass(2*time.Minute, true)
	for range 30 {
		if well := work(); well != 0 {
			t.Errorf("%d go on in the outage", well)
		}
		pass(10*time.Second, true)
	}
	if asked > abreast+12 {
		t.Errorf("asked %d times in the outage", asked)
	}
	pass(lastPause, false)
	work() // one is let through to see; those that must come later do
	pass(lastPause, false)
	if well := work(); well != users {
		t.Errorf("%d go on after the outage", well)
	}
	for i := range users {
		if grants, err := tokens.Grants(t.Context(), of(i)); err != nil || len(grants) != 1 {
			t.Fatalf("user %d has %d grants, %v", i, len(grants), err)
		}
	}
}

// Someone who can write to the database cannot use one user's permission for another.
func TestGrants_CannotBeSwapped(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens()
	users := []dispatch.UserID{s.agrees(tokens, "alice"), s.agrees(tokens, "carol")}
	var rows []dispatch.Grant
	for _, u := range users {
		row, err := s.vault.Grant(t.Context(), u, s.idp.Issuer(simulator.BrokerRealm))
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	rows[0].Sealed, rows[1].Sealed = rows[1].Sealed, rows[0].Sealed
	for _, row := range rows {
		if _, err := s.vault.RenewGrant(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	tokens = s.tokens()
	for _, u := range users {
		if got, err := tokens.Token(t.Context(), of(u)); !dispatch.Is(err, dispatch.Misconfigured) || got.Secret != "" {
			t.Errorf("%s: %v", u, err)
		}
	}
	if n := s.idp.Oracle.Requests("POST /realms/{realm}/broker/{alias}/token"); n != 0 {
		t.Errorf("%d exchanges", n)
	}
	if err := Readable(t.Context(), s.vault.(SealedRows), ring(t, key("k"))); !dispatch.Is(err,
		dispatch.Misconfigured) {
		t.Errorf("it is not noticed: %v", err)
	}
}
