package identity

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// The user learns what an exchange shows, not what the provider lists.
func TestLink(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens()
	bob := s.comes(tokens, "bob")
	if _, err := tokens.Token(t.Context(), of(bob)); !dispatch.Is(err, dispatch.SignInRequired) ||
		!strings.Contains(dispatch.TextFor(err), "Link your account at p") {
		t.Fatalf("never linked: %v", err)
	}
	signIns := s.signIns(tokens)
	got, err := s.signIn(signIns, Purpose{Platform: "p"}, "as=bob&deny=1")
	if !dispatch.Is(err, dispatch.Forbidden) ||
		dispatch.TextFor(err) != "You did not give permission. Nothing was changed." || got.Platform != "p" {
		t.Errorf("refused: %+v %v", got, err)
	}
	got, err = s.signIn(signIns, Purpose{Platform: "p"}, "as=bob")
	if err != nil || got.User != bob || got.Name != "bob" {
		t.Fatalf("%+v %v", got, err)
	}
	if _, err := tokens.Token(t.Context(), of(bob)); err != nil {
		t.Error(err)
	}

	// The provider lists the link, but its stored token is gone before it is used.
	address, remember, err := signIns.Begin(t.Context(), Purpose{Platform: "p"})
	if err != nil {
		t.Fatal(err)
	}
	query := s.walk(address, "as=bob")
	s.idp.Spoil("bob")
	if _, err := signIns.Finish(t.Context(), query, remember); !dispatch.Is(err, dispatch.SignInRequired) {
		t.Errorf("a link that is none: %v", err)
	}
	for _, line := range []string{"action=exchange", "action=link", "ok=true", "ok=false"} {
		if !strings.Contains(s.log.String(), line) {
			t.Errorf("no %s in the log:\n%s", line, s.log.String())
		}
	}
}

// A sign-in asks for no more than is needed, and shows no secret.
func TestBegin(t *testing.T) {
	s := newFixture(t)
	signIns := s.signIns(s.tokens())
	for _, row := range []struct {
		purpose Purpose
		want    url.Values
	}{
		{Purpose{Platform: "p"}, url.Values{"scope": {"openid"}, "kc_action": {"idp_link:platform"}}},
		{Purpose{Away: true}, url.Values{"scope": {"openid offline_access"}, "kc_action": nil}},
	} {
		address, remember, err := signIns.Begin(t.Context(), row.purpose)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		row.want["response_type"], row.want["redirect_uri"], row.want["code_challenge_method"] = []string{"code"},
			[]string{comeBack}, []string{"S256"}
		row.want["client_id"] = []string{"eodispatch-api"}
		for name, want := range row.want {
			if got := q[name]; strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s is %q, not %q", name, got, want)
			}
		}
		for _, name := range []string{"state", "nonce", "code_challenge"} {
			if len(q.Get(name)) < 20 || strings.Contains(remember.Reveal(), q.Get(name)) {
				t.Errorf("%s is %q, with %q to be remembered", name, q.Get(name), remember.Reveal())
			}
		}
		if strings.Contains(address, "secret") {
			t.Errorf("a secret in %s", address)
		}
	}
	for _, none := range []Purpose{{}, {Platform: "other"}} {
		if _, _, err := signIns.Begin(t.Context(), none); !dispatch.Is(err, dispatch.NotFound) {
			t.Errorf("%+v: %v", none, err)
		}
	}
	without := s.tokens(func(c *TokensConfig) { c.Vault = nil })
	if _, _, err := s.signIns(without).Begin(t.Context(), Purpose{Away: true}); !dispatch.Is(err,
		dispatch.Unsupported) {
		t.Errorf("without a vault: %v", err)
	}
}

// A refused return changes nothing.
func TestFinish_RefusesForgedReturns(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens()
	signIns, alice := s.signIns(tokens), s.user("alice")
	for name, row := range map[string]struct {
		does    string
		meddle  func(query url.Values, remember *dispatch.Secret)
		purpose Purpose
		want    dispatch.Kind
	}{
		"another's browser": {meddle: func(_ url.Values, r *dispatch.Secret) { *r = "" }, want: dispatch.Invalid},
		"a forged memory": {meddle: func(_ url.Values, r *dispatch.Secret) { *r = "cookies:AAAA" },
			want: dispatch.Invalid},
		"an invitation": {meddle: func(_ url.Values, r *dispatch.Secret) {
			*r = dispatch.Secret(signIns.Invite(alice))
		},
			want: dispatch.Invalid},
		"another state": {meddle: func(q url.Values, _ *dispatch.Secret) { q.Set("state", "x") },
			want: dispatch.Invalid},
		"no state": {meddle: func(q url.Values, _ *dispatch.Secret) { q.Del("state") }, want: dispatch.Invalid},
		"another provider": {meddle: func(q url.Values, _ *dispatch.Secret) { q.Set("iss", "https://evil.test") },
			want: dispatch.Invalid},
		"two providers": {meddle: func(q url.Values, _ *dispatch.Secret) { q.Add("iss", "https://evil.test") },
			want: dispatch.Invalid},
		"no provider": {meddle: func(q url.Values, _ *dispatch.Secret) { q.Del("iss") }, want: dispatch.Invalid},
		"no code":     {meddle: func(q url.Values, _ *dispatch.Secret) { q.Del("code") }, want: dispatch.Forbidden},
		"another code": {meddle: func(q url.Values, _ *dispatch.Secret) { q.Set("code", "code-x") },
			want: dispatch.Invalid},
		"too late": {meddle: func(url.Values, *dispatch.Secret) { s.pass(signInWithin) }, want: dispatch.Invalid},
		"an error": {meddle: func(q url.Values, _ *dispatch.Secret) { q.Set("error", "<b>no</b>") },
			want: dispatch.Forbidden},
		"the user refuses": {does: "as=alice&deny=1", want: dispatch.Forbidden},
		"another user":     {does: "as=carol", want: dispatch.Forbidden},
		"the provider fails": {meddle: func(url.Values, *dispatch.Secret) {
			s.idp.Faults.Add(simulator.Fault{Status: 500, Route: "POST /realms/{realm}/protocol/openid-connect/token"})
		}, want: dispatch.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			defer s.idp.Faults.Set()
			address, remember, err := signIns.Begin(t.Context(), Purpose{Away: true, User: alice})
			if err != nil {
				t.Fatal(err)
			}
			if row.does == "" {
				row.does = "as=alice"
			}
			query := s.walk(address, row.does)
			if row.meddle != nil {
				row.meddle(query, &remember)
			}
			_, err = signIns.Finish(t.Context(), query, remember)
			if !dispatch.Is(err, row.want) || strings.ContainsAny(dispatch.TextFor(err), "<>") {
				t.Errorf("error %v", err)
			}
			if grants, err := tokens.Grants(t.Context(), alice); err != nil || len(grants) > 0 {
				t.Errorf("grants %+v %v", grants, err)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		address, remember, err := signIns.Begin(t.Context(), Purpose{Away: true, User: alice})
		if err != nil {
			t.Fatal(err)
		}
		query := s.walk(address, "as=alice")
		if _, err := signIns.Finish(t.Context(), query, remember); err != nil {
			t.Fatal(err)
		}
		if _, err := signIns.Finish(t.Context(), query, remember); !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("error %v", err)
		}
	})
	// Two concurrent sign-ins of one browser are distinguished by its state: the nonce of one is not that of the other.
	t.Run("mixed up", func(t *testing.T) {
		first, remembered, err := signIns.Begin(t.Context(), Purpose{Away: true})
		if err != nil {
			t.Fatal(err)
		}
		second, _, err := signIns.Begin(t.Context(), Purpose{Away: true})
		if err != nil {
			t.Fatal(err)
		}
		query := s.walk(second, "as=alice")
		query.Set("state", s.walk(first, "as=alice").Get("state"))
		if _, err := signIns.Finish(t.Context(), query, remembered); !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("error %v", err)
		}
	})
}

// altering changes the responses of a provider.
type altering func(path string, answer map[string]any)

func (alter altering) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	var said map[string]any
	if err := json.NewDecoder(a.Body).Decode(&said); err != nil {
		return nil, err
	}
	alter(r.URL.Path, said)
	changed, err := json.Marshal(said)
	a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
	return a, err
}

// A provider that does not announce it may omit its name, but no other provider may name itself (case 101).
func TestFinish_ProviderThatDoesNotNameItself(t *testing.T) {
	s := newFixture(t)
	signIns := s.signIns(s.tokens(func(c *TokensConfig) {
		c.Client = upstream.New(upstream.Config{Development: true,
			Transport: altering(func(_ string, said map[string]any) {
				delete(said, "authorization_response_iss_parameter_supported")
			})})
	}))
	for name, meddle := range map[string]func(url.Values){"left out": func(q url.Values) { q.Del("iss") },
		"another's": func(q url.Values) { q.Set("iss", "https://evil.test") }} {
		address, remember, err := signIns.Begin(t.Context(), Purpose{Platform: "p"})
		if err != nil {
			t.Fatal(err)
		}
		query := s.walk(address, "as=bob")
		meddle(query)
		if got, err := signIns.Finish(t.Context(), query, remember); dispatch.Is(err,
			dispatch.Invalid) != (name == "another's") || err == nil && got.User != s.user("bob") {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// The user is identified by an ID token for this sign-in and by an access token of the same user (case 100).
func TestFinish_ChecksTheUser(t *testing.T) {
	s := newFixture(t)
	signIn := func(alter func(said map[string]any, nonce string)) error {
		var nonce string
		signIns := s.signIns(s.tokens(func(c *TokensConfig) {
			c.Client = upstream.New(upstream.Config{Development: true,
				Transport: altering(func(path string, said map[string]any) {
					if strings.HasSuffix(path, "/token") {
						alter(said, nonce)
					}
				})})
		}))
		address, remember, err := signIns.Begin(t.Context(), Purpose{Away: true})
		if err != nil {
			t.Fatal(err)
		}
		at, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		nonce = at.Query().Get("nonce")
		_, err = signIns.Finish(t.Context(), s.walk(address, "as=alice"), remember)
		return err
	}
	identify := func(claims map[string]any, odd simulator.TokenFaults) func(map[string]any, string) {
		return func(said map[string]any, nonce string) {
			odd.Claims = map[string]any{"typ": "ID", "aud": "eodispatch-api", "nonce": nonce}
			maps.Copy(odd.Claims, claims)
			said["id_token"] = s.idp.Mint(simulator.BrokerRealm, "alice", "eodispatch-api", odd)
		}
	}
	for name, row := range map[string]struct {
		alter func(said map[string]any, nonce string)
		want  dispatch.Kind
	}{
		"no ID token":   {func(said map[string]any, _ string) { delete(said, "id_token") }, dispatch.BadUpstream},
		"another nonce": {identify(map[string]any{"nonce": "another"}, simulator.TokenFaults{}), dispatch.BadUpstream},
		"no nonce":      {identify(map[string]any{"nonce": nil}, simulator.TokenFaults{}), dispatch.BadUpstream},
		"for another":   {identify(map[string]any{"aud": "portal"}, simulator.TokenFaults{}), dispatch.BadUpstream},
		"of another issuer": {identify(map[string]any{"iss": "https://evil.test"}, simulator.TokenFaults{}),
			dispatch.BadUpstream},
		"over": {identify(map[string]any{"exp": s.time().Add(-time.Hour).Unix()}, simulator.TokenFaults{}),
			dispatch.BadUpstream},
		"signed by another": {identify(nil, simulator.TokenFaults{Foreign: true}), dispatch.BadUpstream},
		"with another's access token": {func(said map[string]any, _ string) {
			said["access_token"] = s.idp.Mint(simulator.BrokerRealm, "carol", "eodispatch-api", simulator.TokenFaults{})
		}, dispatch.Misconfigured},
	} {
		if err := signIn(row.alter); !dispatch.Is(err, row.want) {
			t.Errorf("%s: %v", name, err)
		}
		if grants, err := s.vault.Grants(t.Context(), s.user("alice")); err != nil || len(grants) > 0 {
			t.Errorf("%s: grants %+v %v", name, grants, err)
		}
	}
	if err := signIn(identify(nil, simulator.TokenFaults{})); err != nil {
		t.Errorf("as it should be: %v", err)
	}
}

// A permission that is not stored is revoked at the provider, unless its user has given one that is in use: providers
// may revoke all permissions of a session at once.
func TestFinish_LeavesNoUnusedPermission(t *testing.T) {
	s := newFixture(t)
	tokens := s.tokens()
	signIns, alice := s.signIns(tokens), s.user("alice")
	for range 2 {
		if _, err := s.signIn(signIns, Purpose{Away: true, User: alice}, "as=bob"); !dispatch.Is(err,
			dispatch.Forbidden) {
			t.Fatalf("another user: %v", err)
		}
		if n := s.idp.Grants("bob"); n != 0 {
			t.Errorf("%d permissions are left at the provider", n)
		}
	}
	if _, err := s.signIn(signIns, Purpose{Away: true}, "as=bob"); err != nil {
		t.Fatal(err)
	}
	has := s.idp.Grants("bob")
	if _, err := s.signIn(signIns, Purpose{Away: true, User: alice}, "as=bob"); !dispatch.Is(err, dispatch.Forbidden) ||
		s.idp.Grants("bob") < has {
		t.Errorf("%v, and %d of %d permissions are left", err, s.idp.Grants("bob"), has)
	}
}

func TestInvite(t *testing.T) {
	s := newFixture(t)
	signIns := s.signIns(s.tokens())
	invitation := signIns.Invite("iss user name")
	if u, err := signIns.Invited(invitation); u != "iss user name" || err != nil {
		t.Errorf("%v %v", u, err)
	}
	for _, other := range []string{"", "x", invitation + "A", invitation[1:], url.QueryEscape("?")} {
		if u, err := signIns.Invited(other); u != "" || !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("%q: %v %v", other, u, err)
		}
	}
	s.pass(inviteLasts + time.Second)
	if u, err := signIns.Invited(invitation); u != "" || !dispatch.Is(err, dispatch.Invalid) {
		t.Errorf("too late: %v %v", u, err)
	}
}

// A state is accepted once in all processes, so that repeated returns do not reach the provider.
func TestFinish_TakesAStateOnce(t *testing.T) {
	const token = "POST /realms/{realm}/protocol/openid-connect/token"
	for _, kept := range []bool{true, false} { // permissions
		s := newFixture(t)
		tokens := s.tokens(func(c *TokensConfig) {
			if !kept {
				c.Vault, c.Keys = nil, nil
			}
		})
		keys := ring(t, key("pages"))
		first, second := tokens.SignIns(comeBack, keys, s.vault), s.tokens().SignIns(comeBack, keys, s.vault)
		address, remember, err := first.Begin(t.Context(), Purpose{Platform: "p"})
		if err != nil {
			t.Fatal(err)
		}
		sent, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		back := url.Values{"state": {sent.Query().Get("state")}, "code": {"x"},
			"iss": {s.idp.Issuer(simulator.BrokerRealm)}}
		before := s.idp.Oracle.Requests(token)
		for i, signIns := range []*SignIns{first, second, first, second} {
			_, err := signIns.Finish(t.Context(), back, remember)
			if !dispatch.Is(err, dispatch.Invalid) ||
				strings.Contains(dispatch.TextFor(err), "was already completed, so nothing") != (i > 0) {
				t.Errorf("way back %d: %v", i, err)
			}
		}
		if n := s.idp.Oracle.Requests(token) - before; n != 1 {
			t.Errorf("the provider was asked %d times", n)
		}
	}
}
