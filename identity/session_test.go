package identity

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// signedToken matches a whole token, because random base64 may contain the beginning of one.
var signedToken = regexp.MustCompile(`eyJ[\w-]+\.eyJ`)

const tokenRoute = "POST /realms/{realm}/protocol/openid-connect/token"

// oneByOne is the lock of processes that share a database.
type oneByOne struct{ turns keyed }

func (l *oneByOne) Lock(ctx context.Context, name string) (func(), error) {
	return l.turns.AcquireOf(ctx, name, 1, 1)
}

// sessions returns the sessions of a process that has just started.
func (s *fixture) sessions(locker Locker) (*Sessions, *SignIns) {
	s.t.Helper()
	signIns := s.signIns(s.tokens())
	return signIns.Sessions(ring(s.t, key("k")), SessionsConfig{Store: s.vault.(SessionStore),
		Life: 24 * time.Hour, Idle: 8 * time.Hour, Home: "https://broker.test/", Locker: locker}), signIns
}

// signsInto returns the cookie of a user's new session.
func (s *fixture) signsInto(signIns *SignIns, name string) dispatch.Secret {
	s.t.Helper()
	arrived, err := s.signIn(signIns, Purpose{Session: true, Return: "/#/tasks"}, "as="+name)
	if err != nil || arrived.User != s.user(name) || arrived.Return != "/#/tasks" || len(arrived.Cookie) < 40 {
		s.t.Fatalf("%+v %v", arrived, err)
	}
	return arrived.Cookie
}

// opens checks that a session belongs to a user, and returns it.
func (s *fixture) opens(sessions *Sessions, cookie dispatch.Secret, name string) Session {
	s.t.Helper()
	got, err := sessions.Open(s.t.Context(), cookie)
	if err != nil || got.User != s.user(name) || got.Name != name || got.Email() != name+"@example.org" ||
		got.Subject == "" || got.Token == "" || !s.time().Before(got.Expires) {
		s.t.Fatalf("%+v %v", got, err)
	}
	return got
}

// refuses checks that a browser is signed out.
func (s *fixture) refuses(sessions *Sessions, cookie dispatch.Secret, why string) {
	s.t.Helper()
	if got, err := sessions.Open(s.t.Context(), cookie); !errors.Is(err, ErrSignedOut) ||
		!dispatch.Is(err, dispatch.SignInRequired) || got.User != "" {
		s.t.Errorf("%s: %+v %v", why, got, err)
	}
	if err := sessions.Check(s.t.Context(), cookie); !errors.Is(err, ErrSignedOut) {
		s.t.Errorf("%s: check: %v", why, err)
	}
}

// A session outlives its access token in every process. However many requests need the next one, the provider is asked
// once.
func TestSessions_TokensAreRenewedOnce(t *testing.T) {
	s, locker := newFixture(t), &oneByOne{}
	first, signIns := s.sessions(locker)
	second, _ := s.sessions(locker)
	cookie := s.signsInto(signIns, "alice")
	before := s.opens(first, cookie, "alice")
	if got := s.opens(second, cookie, "alice"); got.Token != before.Token {
		t.Error("two processes have different tokens")
	}
	s.pass(5 * time.Minute)
	asked := s.idp.Oracle.Requests(tokenRoute)
	var all sync.WaitGroup
	tokens := make([]dispatch.Secret, 20)
	for i := range tokens {
		all.Go(func() {
			got, err := []*Sessions{first, second}[i%2].Open(t.Context(), cookie)
			if err != nil {
				t.Error(err)
			}
			tokens[i] = got.Token
		})
	}
	all.Wait()
	for _, token := range tokens {
		if token != tokens[0] || token == before.Token {
			t.Errorf("tokens %q", tokens)
		}
	}
	if n := s.idp.Oracle.Requests(tokenRoute) - asked; n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// The broker acts at platforms for a user who is signed in by a session only.
func TestSessions_UserCanBeActedFor(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens()
	signIns := s.signIns(tokens)
	signIns.Sessions(ring(t, key("k")), SessionsConfig{Store: s.vault.(SessionStore), Life: time.Hour, Idle: time.Hour})
	s.signsInto(signIns, "alice")
	if _, err := tokens.Token(t.Context(), of(s.user("alice"))); err != nil {
		t.Error(err)
	}
}

func TestSessions_End(t *testing.T) {
	for name, row := range map[string]struct {
		act       func(*fixture, *Sessions, dispatch.Secret)
		later     time.Duration
		everybody bool // also those who did not act
	}{
		"after their life":   {later: 15 * time.Minute, everybody: true, act: (*fixture).staysActive},
		"when they are idle": {later: 8 * time.Hour, everybody: true},
		"with the provider's session": {later: 5 * time.Minute, act: func(s *fixture, _ *Sessions, _ dispatch.Secret) {
			s.idp.Logout(simulator.BrokerRealm, "alice")
		}},
		"when the user is disabled": {later: 5 * time.Minute, act: func(s *fixture, _ *Sessions, _ dispatch.Secret) {
			s.idp.Disable("alice")
		}},
		"when the user signs out": {act: func(s *fixture, all *Sessions, c dispatch.Secret) { s.leaves(all, c) }},
		"when the provider tells it": {act: func(s *fixture, all *Sessions, _ dispatch.Secret) {
			s.endAtProvider(all, "alice", simulator.TokenFaults{})
		}},
		"when the provider names users": {act: func(s *fixture, all *Sessions, _ dispatch.Secret) {
			s.endAtProvider(all, "alice", odd("sid", nil))
		}},
		"when the provider names sessions": {act: func(s *fixture, all *Sessions, _ dispatch.Secret) {
			s.endAtProvider(all, "alice", odd("sub", nil))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			all, signIns := s.sessions(nil)
			cookie, bobs := s.signsInto(signIns, "alice"), s.signsInto(signIns, "bob")
			s.opens(all, cookie, "alice")
			if row.act != nil {
				row.act(s, all, cookie)
			}
			s.pass(row.later)
			if !row.everybody {
				s.opens(all, bobs, "bob")
			}
			s.refuses(all, cookie, name)
		})
	}
}

func odd(claim string, value any) simulator.TokenFaults {
	return simulator.TokenFaults{Claims: map[string]any{claim: value}}
}

// staysActive uses a session until a quarter of an hour before the end of its life.
func (s *fixture) staysActive(all *Sessions, cookie dispatch.Secret) {
	s.t.Helper()
	for range 4*24 - 1 {
		s.pass(15 * time.Minute)
		s.opens(all, cookie, "alice")
	}
}

// leaves signs a browser out, here and at the provider.
func (s *fixture) leaves(all *Sessions, cookie dispatch.Secret) {
	s.t.Helper()
	leave, remember, err := all.End(s.t.Context(), cookie)
	if err != nil {
		s.t.Fatal(err)
	}
	s.refuses(all, cookie, "before the provider knows")
	address, err := all.Leave(s.t.Context(), leave, remember)
	if err != nil || signedToken.MatchString(leave) {
		s.t.Fatal(address, err, leave)
	}
	c := *s.server.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := c.Get(address)
	if err != nil {
		s.t.Fatal(err)
	}
	response.Body.Close()
	if back := response.Header.Get("Location"); back != "https://broker.test/" {
		s.t.Errorf("%s: sent to %q", response.Status, back)
	}
	if n := s.idp.Oracle.Requests("GET /realms/{realm}/protocol/openid-connect/logout"); n != 1 {
		s.t.Errorf("%d logouts", n)
	}
}

// endAtProvider has the provider report that a user's session ended.
func (s *fixture) endAtProvider(all *Sessions, name string, faults simulator.TokenFaults) {
	s.t.Helper()
	token := dispatch.Secret(s.idp.MintLogout(simulator.BrokerRealm, name, faults))
	if err := all.EndByProvider(s.t.Context(), token); err != nil {
		s.t.Error(err)
	}
	if err := all.EndByProvider(s.t.Context(), token); !dispatch.Is(err, dispatch.Invalid) {
		s.t.Errorf("the same token again: %v", err)
	}
}

// The address of a sign-out, which leads to one with the user's ID token, is good once, in the browser that signed out.
func TestSessions_LeaveOnceInOneBrowser(t *testing.T) {
	s := newFixture(t)
	all, signIns := s.sessions(nil)
	leave, remember, err := all.End(t.Context(), s.signsInto(signIns, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	_, others, err := all.End(t.Context(), s.signsInto(signIns, "bob"))
	if err != nil || others == remember {
		t.Fatal(err)
	}
	for _, stranger := range []dispatch.Secret{"", others} {
		if address, err := all.Leave(t.Context(), leave, stranger); !dispatch.Is(err, dispatch.Invalid) ||
			address != "" {
			t.Errorf("in another browser: %q %v", address, err)
		}
	}
	if address, err := all.Leave(t.Context(), leave, remember); err != nil ||
		!strings.Contains(address, "id_token_hint=") {
		t.Errorf("%q %v", address, err)
	}
	if address, err := all.Leave(t.Context(), leave, remember); !dispatch.Is(err, dispatch.Invalid) || address != "" {
		t.Errorf("again: %q %v", address, err)
	}
}

// forgetful is a store whose next end of several sessions fails.
type forgetful struct {
	SessionStore
	failed bool
}

func (f *forgetful) EndSessions(ctx context.Context, issuer, sid string, u dispatch.UserID) (int, error) {
	if !f.failed {
		f.failed = true
		return 0, &dispatch.Error{Kind: dispatch.Unavailable, Op: "test", Database: true}
	}
	return f.SessionStore.EndSessions(ctx, issuer, sid, u)
}

// A logout token whose sessions could not be ended counts when the provider sends it again, and only until it has ended
// them.
func TestSessions_ProviderRepeatsALogout(t *testing.T) {
	s := newFixture(t)
	all, signIns := s.sessions(nil)
	all.Store = &forgetful{SessionStore: all.Store}
	cookie := s.signsInto(signIns, "alice")
	token := dispatch.Secret(s.idp.MintLogout(simulator.BrokerRealm, "alice", odd("sid", nil)))
	if err := all.EndByProvider(t.Context(), token); !dispatch.Is(err, dispatch.Unavailable) {
		t.Fatal(err)
	}
	s.opens(all, cookie, "alice")
	if err := all.EndByProvider(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	s.refuses(all, cookie, "after the repetition")
	later := s.signsInto(signIns, "alice")
	if err := all.EndByProvider(t.Context(), token); !dispatch.Is(err, dispatch.Invalid) {
		t.Errorf("a third time: %v", err)
	}
	s.opens(all, later, "alice")
}

func TestSessions_SignOutTwice(t *testing.T) {
	s := newFixture(t)
	all, signIns := s.sessions(nil)
	cookie := s.signsInto(signIns, "alice")
	leave, remember, err := all.End(t.Context(), cookie)
	if err != nil || leave == "" {
		t.Fatal(leave, err)
	}
	for _, none := range []dispatch.Secret{cookie, "", "x"} {
		if leave, _, err := all.End(t.Context(), none); leave != "" || err != nil {
			t.Errorf("%q: %q %v", none.Reveal(), leave, err)
		}
	}
	for _, forged := range []string{"", "k:AAAA", "x:" + leave, leave + "x"} {
		if address, err := all.Leave(t.Context(), forged, remember); !dispatch.Is(err, dispatch.Invalid) ||
			address != "" {
			t.Errorf("%q leads to %q, %v", forged, address, err)
		}
	}
	s.pass(LeaveWithin)
	if _, err := all.Leave(t.Context(), leave, remember); !dispatch.Is(err, dispatch.Invalid) {
		t.Errorf("too late: %v", err)
	}
}

// A forged logout token ends nothing.
func TestSessions_ForgedLogoutTokens(t *testing.T) {
	s := newFixture(t)
	all, signIns := s.sessions(nil)
	cookie := s.signsInto(signIns, "alice")
	const event = "http://schemas.openid.net/event/backchannel-logout"
	now := s.time()
	for name, faults := range map[string]simulator.TokenFaults{
		"signed by another":        {Foreign: true},
		"torn":                     {Torn: true},
		"not signed":               {Alg: "none", Header: map[string]any{"alg": "none"}},
		"signed with a public key": {Alg: "HS256", Header: map[string]any{"alg": "HS256"}},
		"of another type":          {Header: map[string]any{"typ": "at+jwt"}},
		"of another issuer":        odd("iss", "https://evil.test"),
		"for another client":       odd("aud", "portal"),
		"for nobody":               odd("aud", nil),
		"without events":           odd("events", nil),
		"with another event":       odd("events", map[string]any{"http://schemas.openid.net/event/other": map[string]any{}}),
		"with an event as text":    odd("events", map[string]any{event: "{}"}),
		"with an event of null":    odd("events", map[string]any{event: nil}),
		"with a nonce":             odd("nonce", "n"),
		"about nobody":             {Claims: map[string]any{"sub": nil, "sid": nil}},
		"about a number":           odd("sub", 7),
		"without jti":              odd("jti", nil),
		"without iat":              odd("iat", nil),
		"without exp":              odd("exp", nil),
		"from the future":          odd("iat", now.Add(time.Hour).Unix()),
		"issued long ago":          odd("iat", now.Add(-time.Hour).Unix()),
		"expired":                  odd("exp", now.Add(-2*time.Minute).Unix()),
	} {
		if err := all.EndByProvider(t.Context(), dispatch.Secret(s.idp.MintLogout(simulator.BrokerRealm, "alice",
			faults))); !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	access := s.opens(all, cookie, "alice").Token
	for _, other := range []dispatch.Secret{"", "x.y.z", access, dispatch.Secret(strings.Repeat("x", MaxToken+1))} {
		if err := all.EndByProvider(t.Context(), other); !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("%.20s: %v", other.Reveal(), err)
		}
	}
	s.opens(all, cookie, "alice")
	s.endAtProvider(all, "bob", simulator.TokenFaults{})
	s.opens(all, cookie, "alice")
}

// While the provider does not respond, a session works until its access token expires, and again when the provider
// does.
func TestSessions_WhileTheProviderIsDown(t *testing.T) {
	s := newFixture(t)
	all, signIns := s.sessions(nil)
	cookie := s.signsInto(signIns, "alice")
	s.idp.Faults.Add(simulator.Fault{Status: 503, Route: tokenRoute})
	s.pass(5*time.Minute - 10*time.Second)
	s.opens(all, cookie, "alice")
	s.pass(time.Minute)
	for range 3 {
		if _, err := all.Open(t.Context(), cookie); !dispatch.Is(err, dispatch.Unavailable) ||
			errors.Is(err, ErrSignedOut) {
			t.Errorf("after the end of its token: %v", err)
		}
	}
	s.idp.Faults.Set()
	s.pass(lastPause)
	s.opens(all, cookie, "alice")
}

// The database holds neither a token nor what a browser needs, and what it holds is of use for its own session only.
func TestSessions_InTheDatabase(t *testing.T) {
	s := newFixture(t)
	all, signIns := s.sessions(nil)
	kept := s.vault.(SessionStore)
	cookie, bobs := s.signsInto(signIns, "alice"), s.signsInto(signIns, "bob")
	row, err := kept.Session(t.Context(), sessionID(cookie))
	if err != nil || row.SID == "" || strings.Contains(row.ID, cookie.Reveal()) || signedToken.MatchString(row.Text) {
		t.Fatalf("%+v %v", row, err)
	}
	other, err := kept.Session(t.Context(), sessionID(bobs))
	if err != nil {
		t.Fatal(err)
	}
	other.Sealed = row.Sealed
	if _, err := kept.RenewSession(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	s.refuses(all, bobs, "with the tokens of another session")
	s.refuses(all, dispatch.Secret(row.ID), "with what the database has")

	another := s.signIns(s.tokens()).Sessions(ring(t, key("other")), all.SessionsConfig)
	s.refuses(another, cookie, "without the key")
	s.opens(all, cookie, "alice")
	for _, secret := range []string{cookie.Reveal(), "refresh-"} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("%q is in the log:\n%s", secret, s.log.String())
		}
	}
	if signedToken.MatchString(s.log.String()) {
		t.Errorf("a token is in the log:\n%s", s.log.String())
	}
}

// A sign-in for a session asks the provider for no more than the user's name, and cannot begin without sessions.
func TestSessions_Begin(t *testing.T) {
	s := newFixture(t)
	_, signIns := s.sessions(nil)
	address, _, err := signIns.Begin(t.Context(), Purpose{Session: true, Return: "/"})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if q := u.Query(); err != nil || q.Get("scope") != "openid profile email" || q.Has("kc_action") ||
		q.Has("prompt") || q.Get("redirect_uri") != comeBack {
		t.Errorf("%v %v", u, err)
	}
	if _, _, err := s.signIns(s.tokens()).Begin(t.Context(), Purpose{Session: true}); !dispatch.Is(err,
		dispatch.Unsupported) {
		t.Errorf("without sessions: %v", err)
	}
}

// A code that was used begins no second session, and neither does another browser's return.
func TestSessions_Replays(t *testing.T) {
	s := newFixture(t)
	_, signIns := s.sessions(nil)
	address, remember, err := signIns.Begin(t.Context(), Purpose{Session: true, Return: "/"})
	if err != nil {
		t.Fatal(err)
	}
	query := s.walk(address, "as=alice")
	_, others, err := signIns.Begin(t.Context(), Purpose{Session: true, Return: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := signIns.Finish(t.Context(), query, others); !dispatch.Is(err, dispatch.Invalid) || got.Cookie != "" {
		t.Errorf("in another browser: %+v %v", got, err)
	}
	if got, err := signIns.Finish(t.Context(), query, remember); err != nil || got.Cookie == "" {
		t.Fatalf("%+v %v", got, err)
	}
	if got, err := signIns.Finish(t.Context(), query, remember); !dispatch.Is(err, dispatch.Invalid) ||
		got.Cookie != "" {
		t.Errorf("again: %+v %v", got, err)
	}
}
