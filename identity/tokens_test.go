package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	alice          = dispatch.UserID(issuer + " alice-1")
	platformIssuer = "https://sign-in.test/realms/platform"
	linkPage       = "https://sign-in.test/realms/apex/account/linked-accounts"
	clientSecret   = dispatch.Secret("canary-client-secret")
	accountSecret  = dispatch.Secret("canary-account-secret")
	subjectToken   = dispatch.Secret("canary.subject.token")
)

func account(platform string) dispatch.Account {
	return dispatch.Account(platform + "/" + string(alice))
}

func tokensConfig(p *fakeProvider) TokensConfig {
	return TokensConfig{
		Issuer: issuer, ClientID: audience, ClientSecret: clientSecret, Client: p.client(),
		Platforms: []Platform{
			{Name: "open", Access: dispatch.AccessOpen},
			{Name: "shared", Access: dispatch.AccessShared, Account: ServiceAccount{
				TokenURL: "https://sign-in.test" + pathToken, ClientID: "service", ClientSecret: accountSecret,
				Scope: "openid"}},
			{Name: "cdse", Access: dispatch.AccessUser, Issuer: platformIssuer, Link: linkPage,
				Exchange: Exchange{Driver: "keycloak-requested-issuer", Alias: "platform"}},
			{Name: "cdse-ogc", Access: dispatch.AccessUser,
				Exchange: Exchange{Driver: "keycloak-requested-issuer", Alias: "platform"}},
		},
	}
}

// newTokens returns Tokens over p, for which alice has signed in for an hour.
func newTokens(t testing.TB, p *fakeProvider, change func(*TokensConfig)) *Tokens {
	t.Helper()
	c := tokensConfig(p)
	if change != nil {
		change(&c)
	}
	tokens, err := NewTokens(c)
	if err != nil {
		t.Fatal(err)
	}
	tokens.StoreUserToken(t.Context(), alice, subjectToken, time.Now().Add(time.Hour))
	return tokens
}

// The tokens of users are kept only where a platform is used with them.
func TestTokens_KeepNoUsersTokenInVain(t *testing.T) {
	for name, row := range map[string]struct {
		platforms int
		kept      dispatch.Secret
	}{"open and shared platforms": {2, ""}, "a platform of users": {3, subjectToken}} {
		tokens := newTokens(t, newFakeProvider(), func(c *TokensConfig) { c.Platforms = c.Platforms[:row.platforms] })
		if kept := tokens.subjects.of(alice); kept != row.kept {
			t.Errorf("%s: %q is kept", name, kept.Reveal())
		}
	}
}

// platformToken returns a JWT as the platform's provider would issue it; n makes it distinct.
func platformToken(n int, life time.Duration) string {
	return sign(`{"alg":"none"}`, fields{"iss": platformIssuer, "exp": time.Now().Add(life).Unix(), "n": n}.json(),
		nil) + "c2ln"
}

func gives(token string, more fields) *http.Response {
	return reply(200, fields{"access_token": token, "token_type": "Bearer"}.but(more).json())
}

// issuing answers each token request with another JWT.
func issuing(life time.Duration) func(url.Values) *http.Response {
	var n atomic.Int64
	return func(url.Values) *http.Response {
		return gives(platformToken(int(n.Add(1)), life), fields{"expires_in": int(life.Seconds())})
	}
}

func TestToken_OpenPlatform(t *testing.T) {
	p := newFakeProvider()
	tokens := newTokens(t, p, nil)
	got, err := tokens.Token(t.Context(), "open/open")
	if err != nil || got != (dispatch.Token{}) {
		t.Errorf("%+v, %v", got, err)
	}
	tokens.Invalidate("open/open", got)
	if len(p.hosts) != 0 {
		t.Errorf("asked %v", p.hosts)
	}
	if _, err := tokens.Token(t.Context(), "nowhere/open"); !dispatch.Is(err, dispatch.Misconfigured) {
		t.Error(err)
	}
}

// The test checks exactly what is sent to token endpoints, as Keycloak 26 accepts it.
func TestToken_Requests(t *testing.T) {
	p := newFakeProvider()
	tokens := newTokens(t, p, nil)
	for _, test := range []struct {
		account dispatch.Account
		want    url.Values
	}{
		{"shared/shared", url.Values{"grant_type": {"client_credentials"}, "client_id": {"service"},
			"client_secret": {accountSecret.Reveal()}, "scope": {"openid"}}},
		{account("cdse"), url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"},
			"client_id":     {audience},
			"client_secret": {clientSecret.Reveal()}, "subject_token": {subjectToken.Reveal()},
			"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"}, "requested_issuer": {"platform"}}},
	} {
		token := platformToken(1, time.Hour)
		p.token = func(form url.Values) *http.Response {
			if form.Encode() != test.want.Encode() {
				t.Errorf("%s: sent %v", test.account, form)
			}
			return gives(token, nil)
		}
		got, err := tokens.Token(t.Context(), test.account)
		if err != nil || got.Secret.Reveal() != token || got.Issuer != platformIssuer {
			t.Errorf("%s: %+v, %v", test.account, got, err)
		}
	}
}

// A public client names itself, and sends no secret, not even an empty one.
func TestToken_OfAPublicClient(t *testing.T) {
	p := newFakeProvider()
	tokens := newTokens(t, p, func(c *TokensConfig) { c.ClientSecret = "" })
	p.token = func(form url.Values) *http.Response {
		if form.Has("client_secret") || form.Get("client_id") != audience ||
			form.Get("requested_issuer") != "platform" {
			t.Errorf("sent %v", form)
		}
		return gives(platformToken(1, time.Hour), nil)
	}
	if got, err := tokens.Token(t.Context(), account("cdse")); err != nil || got.Issuer != platformIssuer {
		t.Errorf("%+v, %v", got, err)
	}
}

// All callers share one token, which is renewed before it expires without a wait (case 93).
func TestToken_OneRequestForAll(t *testing.T) {
	for _, a := range []dispatch.Account{"shared/shared", account("cdse")} {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeProvider()
			p.token = issuing(5 * time.Minute)
			p.set(pathToken, slowly(p, time.Second))
			tokens := newTokens(t, p, nil)
			var seen sync.Map
			var askers sync.WaitGroup
			for range 100 {
				askers.Go(func() {
					got, err := tokens.Token(t.Context(), a)
					if err != nil {
						t.Error(err)
					}
					seen.Store(got.Secret.Reveal(), true)
				})
			}
			askers.Wait()
			if n := p.count(pathToken); n != 1 {
				t.Fatalf("%d requests for a token by 100 at once", n)
			}
			for begin := time.Now(); time.Since(begin) < 20*time.Minute; time.Sleep(time.Second) {
				asked := time.Now()
				got, err := tokens.Token(t.Context(), a)
				if err != nil || time.Since(asked) != 0 {
					t.Fatalf("%v, after %v", err, time.Since(asked))
				}
				if _, ends := selfDescription(got.Secret.Reveal()); time.Until(ends) < 10*time.Second {
					t.Fatalf("a token with %v left", time.Until(ends))
				}
				tokens.StoreUserToken(t.Context(), alice, subjectToken, time.Now().Add(time.Hour))
			}
			if n := p.count(pathToken); n > 6 {
				t.Errorf("%d requests in 20 minutes", n)
			}
		})
	}
}

// slowly makes each token request take d, and answers as the provider would at its end.
func slowly(p *fakeProvider, d time.Duration) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		time.Sleep(d)
		return answerToken(p, r), nil
	}
}

func answerToken(p *fakeProvider, r *http.Request) *http.Response {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return reply(400, "")
	}
	form, _ := url.ParseQuery(string(body))
	return p.token(form)
}

// Two platforms with one alias share the user's token, because their exchanges must not race.
func TestToken_OneExchangePerAlias(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		p.token = issuing(time.Minute)
		p.set(pathToken, slowly(p, time.Second))
		tokens := newTokens(t, p, nil)
		var askers sync.WaitGroup
		for _, a := range []dispatch.Account{account("cdse"), account("cdse-ogc")} {
			askers.Go(func() {
				if _, err := tokens.Token(t.Context(), a); err != nil {
					t.Error(err)
				}
			})
		}
		askers.Wait()
		if n := p.count(pathToken); n != 1 {
			t.Errorf("%d exchanges", n)
		}
	})
}

// tokenResponse is a provider's response, and the error that it gives.
type tokenResponse struct {
	name   string
	answer func() (*http.Response, error)
	kind   dispatch.Kind
	text   string
	link   string
}

// tokenResponses returns the cases of TestToken_Responses.
func tokenResponses() []tokenResponse {
	keycloak := func(status int, code, description string) func() (*http.Response, error) {
		return func() (*http.Response, error) {
			return reply(status, fields{"error": code, "error_description": description,
				"account-link-url": "https://sign-in.test/dead-link?nonce=1"}.json()), nil
		}
	}
	text := func(status int, body string) func() (*http.Response, error) {
		return func() (*http.Response, error) { return reply(status, body), nil }
	}
	const (
		link  = "Link your account at cdse to continue."
		again = "The link to your account at cdse has ended. Link it again."
		enter = "Sign in again, so that the broker can use cdse on your behalf."
		setup = "The access to cdse is not configured correctly. The operator of this service must correct it."
		later = "The identity provider for cdse does not issue tokens at the moment. The broker keeps trying."
	)
	return []tokenResponse{
		{"never linked", keycloak(400, "not_linked", "identity provider is not linked"), dispatch.SignInRequired, link,
			linkPage},
		{"storeToken off", keycloak(400, "not_linked",
			"identity provider is not linked, can only link to current user session"),
			dispatch.SignInRequired, link, linkPage},
		{"link lost", keycloak(400, "token_expired", "linked token is expired"), dispatch.SignInRequired, again,
			linkPage},
		{"subject not valid", keycloak(400, "invalid_request", "Invalid token"), dispatch.SignInRequired, enter, ""},
		{"unknown alias", keycloak(400, "invalid_request", "Invalid issuer"), dispatch.Misconfigured, setup, ""},
		{"feature off", keycloak(400, "invalid_request",
			"Parameter 'requested_issuer' is not supported for standard token exchange"),
			dispatch.Misconfigured, setup, ""},
		{"token type", keycloak(400, "invalid_target", "response_token_type_unsupported"), dispatch.Misconfigured,
			setup, ""},
		{"not allowed", keycloak(403, "access_denied", "Client not allowed to exchange"), dispatch.Misconfigured, setup,
			""},
		{"not_linked with another status", keycloak(403, "not_linked", ""), dispatch.Misconfigured, setup, ""},
		{"wrong secret", keycloak(401, "unauthorized_client", "Invalid client or Invalid client credentials"),
			dispatch.Misconfigured, setup, ""},
		{"unknown client", keycloak(401, "invalid_client", "Invalid client or Invalid client credentials"),
			dispatch.Misconfigured, setup, ""},
		{"platform's provider is down", keycloak(500, "unknown_error",
			"For more on this error consult the server log."), dispatch.Unavailable, later, ""},
		{"platform's provider is unreadable", keycloak(500, "unknown_error", "Cannot parse the JSON"),
			dispatch.Unavailable, later, ""},
		{"503", text(503, "Service Unavailable"), dispatch.Unavailable, later, ""},
		{"429", text(429, ""), dispatch.Unavailable, later, ""},
		{"404", text(404, "<html>"), dispatch.Misconfigured, setup, ""},
		{"redirect", text(307, ""), dispatch.Misconfigured, setup, ""},
		{"no connection", func() (*http.Response, error) { return down(nil) }, dispatch.Unavailable, later, ""},
		{"HTML", text(200, "<html>"), dispatch.Unavailable, later, ""},
		{"null", text(200, "null"), dispatch.Unavailable, later, ""},
		{"no token", text(200, `{"expires_in":300}`), dispatch.Unavailable, later, ""},
		{"token is a number", text(200, `{"access_token":1}`), dispatch.Unavailable, later, ""},
		{"token breaks a header", text(200, `{"access_token":"a\r\nX: y"}`), dispatch.Unavailable, later, ""},
		{"not a bearer", text(200, `{"access_token":"a","token_type":"DPoP"}`), dispatch.Misconfigured, setup, ""},
		{"expired", text(200, fields{"access_token": platformToken(1, -time.Minute)}.json()), dispatch.Unavailable,
			later, ""},
		{"10 MB", text(200, `{"access_token":"a","x":"`+strings.Repeat("x", 10<<20)+`"}`), dispatch.Unavailable, later,
			""},
		{"61 another's token", text(200, fields{"access_token": sign(`{"alg":"none"}`,
			`{"iss":"https://sign-in.test/realms/other"}`, nil) + "eA"}.json()), dispatch.Misconfigured, setup, ""},
	}
}

// Every response of Keycloak 26.7.3 to the legacy exchange (case 92), and other possible responses.
func TestToken_Responses(t *testing.T) {
	for _, test := range tokenResponses() {
		t.Run(test.name, func(t *testing.T) {
			p := newFakeProvider()
			p.set(pathToken, func(*http.Request) (*http.Response, error) { return test.answer() })
			tokens := newTokens(t, p, nil)
			got, err := tokens.Token(t.Context(), account("cdse"))
			var e *dispatch.Error
			if !errors.As(err, &e) || got != (dispatch.Token{}) {
				t.Fatalf("%+v, %v", got, err)
			}
			if e.Kind != test.kind || e.Text != test.text || e.Link != test.link {
				t.Errorf("%v %q %q", e.Kind, e.Text, e.Link)
			}
		})
	}
}

// No caller waits longer than its request, or forever.
func TestToken_HangingProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		p.set(pathToken, hang)
		tokens := newTokens(t, p, nil)
		ctx, cancel := contextFor(t, time.Second)
		defer cancel()
		if _, err := tokens.Token(ctx, account("cdse")); !dispatch.Is(err, dispatch.Unavailable) {
			t.Error(err)
		}
		begin := time.Now()
		if _, err := tokens.Token(t.Context(), account("cdse")); !dispatch.Is(err, dispatch.Unavailable) {
			t.Error(err)
		}
		if took := time.Since(begin); took != postTimeout-time.Second {
			t.Errorf("waited %v", took)
		}
		if n := p.count(pathToken); n != 1 {
			t.Errorf("%d exchanges", n)
		}
	})
}

// A failed request is repeated soon, and at once with another token of the user.
func TestToken_FailureIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		p.token = func(url.Values) *http.Response {
			return reply(400, `{"error":"not_linked"}`)
		}
		tokens := newTokens(t, p, nil)
		for range 50 {
			if _, err := tokens.Token(t.Context(), account("cdse")); !dispatch.Is(err, dispatch.SignInRequired) {
				t.Fatal(err)
			}
		}
		if n := p.count(pathToken); n != 1 {
			t.Errorf("%d exchanges", n)
		}
		p.token = issuing(time.Minute)
		tokens.StoreUserToken(t.Context(), alice, "another.subject.token", time.Now().Add(2*time.Hour))
		if _, err := tokens.Token(t.Context(), account("cdse")); err != nil {
			t.Error(err)
		}
	})
}

// A provider that asks for a pause is not asked earlier.
func TestToken_RetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		p.token = func(url.Values) *http.Response {
			busy := reply(429, "")
			busy.Header.Set("Retry-After", "20")
			return busy
		}
		tokens := newTokens(t, p, nil)
		for range 19 {
			_, err := tokens.Token(t.Context(), "shared/shared")
			var e *dispatch.Error
			if !errors.As(err, &e) || e.Kind != dispatch.Unavailable || e.RetryAfter != 20*time.Second {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		p.token = issuing(time.Minute)
		time.Sleep(2 * time.Second)
		if _, err := tokens.Token(t.Context(), "shared/shared"); err != nil || p.count(pathToken) != 2 {
			t.Errorf("%v, %d requests", err, p.count(pathToken))
		}
	})
}

// A valid token is used until it could expire before it arrives.
func TestToken_OutageAtRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		p.token = issuing(time.Minute)
		tokens := newTokens(t, p, nil)
		first, err := tokens.Token(t.Context(), "shared/shared")
		if err != nil {
			t.Fatal(err)
		}
		p.set(pathToken, down)
		for begin := time.Now(); time.Since(begin) < time.Minute-onTheWay; time.Sleep(time.Second) {
			if got, err := tokens.Token(t.Context(), "shared/shared"); err != nil || got != first {
				t.Fatalf("after %v: %v", time.Since(begin), err)
			}
		}
		if n := p.count(pathToken); n > 9 {
			t.Errorf("asked %d times in the outage", n)
		}
		if _, err := tokens.Token(t.Context(), "shared/shared"); !dispatch.Is(err, dispatch.Unavailable) {
			t.Error(err)
		}
		p.set(pathToken, nil)
		time.Sleep(failurePause)
		if _, err := tokens.Token(t.Context(), "shared/shared"); err != nil {
			t.Error(err)
		}
	})
}

// The test checks whose token is used, and when there is none.
func TestOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		var sent string
		p.token = func(form url.Values) *http.Response {
			sent = form.Get("subject_token")
			return gives("opaque-"+sent, nil)
		}
		c := tokensConfig(p)
		tokens, err := NewTokens(c)
		if err != nil {
			t.Fatal(err)
		}
		signIn := func(u dispatch.UserID) {
			t.Helper()
			if _, err := tokens.Token(t.Context(), dispatch.Account("cdse/"+string(u))); !dispatch.Is(err,
				dispatch.SignInRequired) {
				t.Errorf("%s: %v", u, err)
			}
		}
		signIn(alice)
		tokens.StoreUserToken(t.Context(), alice, "short", time.Now().Add(time.Minute))
		signIn("another user")
		tokens.StoreUserToken(t.Context(), alice, "long", time.Now().Add(5*time.Minute))
		tokens.StoreUserToken(t.Context(), alice, "short", time.Now().Add(time.Minute)) // of another of her clients
		if got, err := tokens.Token(t.Context(), account("cdse")); err != nil || got.Secret != "opaque-long" {
			t.Errorf("%v, sent %q", err, sent)
		}
		if got, err := tokens.Token(t.Context(), account("cdse")); err != nil || got.Issuer != platformIssuer {
			t.Errorf("an opaque token is the configured issuer's: %+v, %v", got.Issuer, err)
		}
		time.Sleep(4*time.Minute + 30*time.Second)
		if _, err := tokens.Token(t.Context(), account("cdse")); err != nil { // renewed before the sign-in ends
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		signIn(alice)
	})
}

// A token that the issuer no longer accepts is replaced even by one that expires earlier.
func TestToken_ExpiredSubject(t *testing.T) {
	p := newFakeProvider()
	p.token = func(form url.Values) *http.Response {
		if form.Get("subject_token") == subjectToken.Reveal() {
			return reply(400, `{"error":"invalid_request","error_description":"Invalid token"}`)
		}
		return gives("opaque", nil)
	}
	tokens := newTokens(t, p, nil)
	if _, err := tokens.Token(t.Context(), account("cdse")); !dispatch.Is(err, dispatch.SignInRequired) {
		t.Fatal(err)
	}
	tokens.StoreUserToken(t.Context(), alice, "fresh.subject.token", time.Now().Add(time.Minute))
	if _, err := tokens.Token(t.Context(), account("cdse")); err != nil {
		t.Error(err)
	}
}

// After a refusal the next token is another one.
func TestRefused(t *testing.T) {
	p := newFakeProvider()
	p.token = issuing(5 * time.Minute)
	tokens := newTokens(t, p, nil)
	for _, a := range []dispatch.Account{"shared/shared", account("cdse")} {
		first, err := tokens.Token(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		tokens.Invalidate(a, dispatch.Token{Secret: "of.long.ago"})
		if got, _ := tokens.Token(t.Context(), a); got != first {
			t.Errorf("%s: dropped for another's sake", a)
		}
		tokens.Invalidate(a, first)
		second, err := tokens.Token(t.Context(), a)
		if err != nil || second == first {
			t.Errorf("%s: %v", a, err)
		}
		tokens.Invalidate(a, first) // late
		if got, _ := tokens.Token(t.Context(), a); got != second {
			t.Errorf("%s: a late refusal dropped the next token", a)
		}
	}
}

// Keycloak returns the stored token until less than 5 s are left, whether it still works or not. It is never given out
// again, and Keycloak is not flooded with requests.
func TestInvalidate_SameTokenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		ends := time.Now().Add(5 * time.Minute)
		dead := platformToken(1, 5*time.Minute)
		p.token = func(url.Values) *http.Response {
			if time.Until(ends) < 5*time.Second {
				return gives(platformToken(2, 5*time.Minute), nil)
			}
			return gives(dead, fields{"expires_in": int(time.Until(ends).Seconds())})
		}
		tokens := newTokens(t, p, nil)
		got, err := tokens.Token(t.Context(), account("cdse"))
		if err != nil {
			t.Fatal(err)
		}
		tokens.Invalidate(account("cdse"), got)
		begin := time.Now()
		for ; ; time.Sleep(time.Second) {
			got, err := tokens.Token(t.Context(), account("cdse"))
			if err == nil && got.Secret.Reveal() != dead {
				break
			}
			var e *dispatch.Error
			if !errors.As(err, &e) || e.Kind != dispatch.Unavailable || e.RetryAfter <= 0 ||
				time.Since(begin) > 6*time.Minute {
				t.Fatalf("after %v: %v", time.Since(begin), err)
			}
		}
		if took := time.Since(begin); took > 5*time.Minute {
			t.Errorf("the next token was found after %v", took)
		}
		if n := p.count(pathToken); n > 8 {
			t.Errorf("%d exchanges", n)
		}
	})
}

// Case 96. However wrong expires_in is, a token is cached for a plausible time.
func TestToken_Lifetimes(t *testing.T) {
	for raw, want := range map[string]time.Duration{
		`300`: 300 * time.Second, `"300"`: 300 * time.Second, `299.9`: 299 * time.Second, `86400`: 24 * time.Hour,
		``: defaultLife, `null`: defaultLife, `0`: defaultLife, `-5`: defaultLife, `"soon"`: defaultLife,
		`{}`:         defaultLife,
		`1795250000`: defaultLife, `1795250000000`: defaultLife, `1e400`: defaultLife, `true`: defaultLife,
	} {
		if got := lifetime(json.RawMessage(raw), defaultLife); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.OneOf(rapid.Float64().AsAny(), rapid.Int64().AsAny(), rapid.String().AsAny()).Draw(t, "expires_in")
		encoded, err := json.Marshal(raw)
		if err != nil {
			return
		}
		now := time.Unix(rapid.Int64Range(0, 1<<36).Draw(t, "now"), 0)
		c := &client{now: func() time.Time { return now }}
		got, err := c.readIssued(answer{status: 200, body: []byte(`{"access_token":"opaque","expires_in":` + string(encoded) +
			`}`)})
		if err != nil || !got.expires.After(now) || got.expires.After(now.Add(maxLife)) {
			t.Fatalf("%v: %v, %v", raw, got.expires.Sub(now), err)
		}
	})
}

// TestGrant_Lifetimes: however wrong refresh_expires_in is, the refresh token beside it is not lost, and not taken for
// one that has expired.
func TestGrant_Lifetimes(t *testing.T) {
	c := exchangeClient{provider: &provider{client: &client{now: func() time.Time { return noon }}}}
	access := sign(`{"alg":"none"}`, fields{"iss": issuer, "sub": "ann"}.json(), nil) + "eA"
	for raw, want := range map[string]time.Duration{`1800`: 30 * time.Minute, `"1800"`: 30 * time.Minute,
		`1800.5`: 30 * time.Minute, `0`: 0, `-5`: 0, `null`: 0, `""`: 0, `"soon"`: 0, `true`: 0, `{}`: 0,
		`9300000000`: 0, `1795250000000`: 0, `1e400`: 0} {
		_, got, err := c.readPermission(answer{status: 200, body: []byte(`{"access_token":"` + access +
			`","refresh_token":"r","refresh_expires_in":` + raw + `}`)}, issuer+" ann")
		life := time.Duration(0)
		if !got.expires.IsZero() {
			life = got.expires.Sub(noon)
		}
		if err != nil || got.Refresh != "r" || life != want {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}

// The expiry in a JWT takes precedence over expires_in, up to the maximum.
func TestToken_ExpiryOfAJWT(t *testing.T) {
	c := &client{now: func() time.Time { return noon }}
	for _, test := range []struct {
		payload string
		want    time.Duration
	}{
		{fields{"exp": noon.Add(5 * time.Minute).Unix()}.json(), 5 * time.Minute},
		{fields{"exp": noon.Add(48 * time.Hour).Unix()}.json(), maxLife},
		{fields{"exp": noon.Add(-time.Minute).Unix()}.json(), -time.Minute},
		{`{"exp":"soon"}`, 20 * time.Second},
		{`no JSON`, 20 * time.Second},
	} {
		token := sign(`{"alg":"none"}`, test.payload, nil) + "eA"
		body := []byte(fields{"access_token": token, "expires_in": 20}.json())
		got, err := c.readIssued(answer{status: 200, body: body})
		if err != nil || got.expires.Sub(noon) != test.want {
			t.Errorf("%s: %v, %v", test.payload, got.expires.Sub(noon), err)
		}
	}
}

// The token endpoint is discovered, also if only the platform knows the issuer.
func TestServiceAccount_ByIssuer(t *testing.T) {
	for name, test := range map[string]struct {
		account ServiceAccount
		kind    dispatch.Kind
	}{
		"issuer": {account: ServiceAccount{Issuer: issuer}},
		"found": {account: ServiceAccount{FindIssuer: func(context.Context) (string, error) {
			return issuer, nil
		}}},
		"found, http": {ServiceAccount{FindIssuer: func(context.Context) (string, error) {
			return "http://sign-in.test", nil
		}}, dispatch.Misconfigured},
		"found, as pinned": {account: ServiceAccount{Pinned: issuer, FindIssuer: func(context.Context) (string, error) {
			return issuer, nil
		}}},
		"found, not as pinned": {ServiceAccount{Pinned: "https://sign-in.test/pinned",
			FindIssuer: func(context.Context) (string, error) { return issuer, nil }}, dispatch.Misconfigured},
		"not found": {ServiceAccount{FindIssuer: func(context.Context) (string, error) {
			return "", &dispatch.Error{Kind: dispatch.BadUpstream, Text: "The platform names no such provider."}
		}}, dispatch.Unavailable},
		"no such provider": {ServiceAccount{Issuer: "https://sign-in.test/other"}, dispatch.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakeProvider()
			p.token = issuing(time.Minute)
			tokens := newTokens(t, p, func(c *TokensConfig) {
				test.account.ClientID, test.account.ClientSecret = "service", accountSecret
				c.Platforms[1].Account = test.account
			})
			_, err := tokens.Token(t.Context(), "shared/shared")
			if test.kind == 0 && err != nil || test.kind != 0 && !dispatch.Is(err, test.kind) {
				t.Error(err)
			}
			if test.kind != 0 && p.count(pathToken) != 0 {
				t.Error("the secret was sent")
			}
		})
	}
}

func TestNewTokens_ChecksTheConfiguration(t *testing.T) {
	p := newFakeProvider()
	for want, change := range map[string]func(*TokensConfig){
		"no HTTP client":          func(c *TokensConfig) { c.Client = nil },
		"shared: service_account": func(c *TokensConfig) { c.Platforms[1].Account = ServiceAccount{} },
		"token_url must begin": func(c *TokensConfig) {
			c.Platforms[1].Account.TokenURL = "http://sign-in.test/token"
		},
		"no exchange driver": func(c *TokensConfig) { c.Platforms[2].Exchange.Driver = "none" },
		"alias is missing":   func(c *TokensConfig) { c.Platforms[2].Exchange.Alias = "" },
		"identity.issuer":    func(c *TokensConfig) { c.Issuer = "" },
		"client_secret": func(c *TokensConfig) {
			c.ClientSecret, c.Platforms[2].Exchange.Driver = "", "keycloak-broker"
		},
		"client_id":       func(c *TokensConfig) { c.ClientID, c.ClientSecret = "", "" },
		"is none of user": func(c *TokensConfig) { c.Platforms[0].Access = "any" },
		"is listed twice": func(c *TokensConfig) { c.Platforms[3].Name = "cdse" },
	} {
		c := tokensConfig(p)
		change(&c)
		_, err := NewTokens(c)
		if !dispatch.Is(err, dispatch.Misconfigured) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	c := tokensConfig(p)
	c.Platforms[1].Account.ClientSecret, c.Platforms[2].Exchange.Alias = "", ""
	if _, err := NewTokens(c); !strings.Contains(err.Error(), "platform shared") ||
		!strings.Contains(err.Error(), "platform cdse") {
		t.Errorf("not all at once: %v", err)
	}
}

// Errors contain no secret, whatever providers echo and however the errors are printed.
func TestErrors_ContainNoSecret(t *testing.T) {
	canaries := []string{clientSecret.Reveal(), accountSecret.Reveal(), subjectToken.Reveal(), "canary-platform-token"}
	check := func(what string, values ...any) {
		t.Helper()
		for _, v := range values {
			encoded, _ := json.Marshal(v)
			for _, shown := range []string{fmt.Sprintf("%v", v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v),
				string(encoded)} {
				for _, canary := range canaries {
					if strings.Contains(shown, canary) {
						t.Errorf("%s shows %s: %s", what, canary, shown)
					}
				}
			}
		}
	}
	p := newFakeProvider()
	echo := func(status int) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			form, err := url.ParseQuery(string(must(io.ReadAll(r.Body))))
			if strings.Contains(r.URL.String(), "canary") || err != nil {
				t.Errorf("secret in %s", r.URL)
			}
			var all strings.Builder
			for _, values := range form {
				all.WriteString(values[0] + " ")
			}
			return reply(status, fields{"error": all.String(), "error_description": all.String()}.json()), nil
		}
	}
	for _, status := range []int{200, 302, 400, 401, 500} {
		p.set(pathToken, echo(status))
		tokens := newTokens(t, p, nil)
		for _, a := range []dispatch.Account{"shared/shared", account("cdse")} {
			_, err := tokens.Token(t.Context(), a)
			if err == nil {
				t.Fatal("no error")
			}
			for ; err != nil; err = errors.Unwrap(err) {
				check(fmt.Sprint("error of ", status), err)
			}
		}
	}
	p.set(pathToken, func(r *http.Request) (*http.Response, error) {
		return nil, &url.Error{Op: "Post", URL: "https://sign-in.test/?" + clientSecret.Reveal(),
			Err: errors.New("cut")}
	})
	_, err := newTokens(t, p, nil).Token(t.Context(), account("cdse"))
	check("error of the transport", err)
	p.set(pathToken, always(200, `{"access_token":"canary-platform-token","expires_in":{"canary-platform-token":1}}`))
	tokens := newTokens(t, p, nil)
	for _, a := range []dispatch.Account{"shared/shared", account("cdse")} {
		got, err := tokens.Token(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		check("token", got, &got)
	}
	config := tokensConfig(p)
	driver := must(newRequestedIssuer(exchangeClient{clientAuth: clientAuth{ID: "x", Secret: clientSecret}},
		Platform{Exchange: Exchange{Alias: "a"}}))
	check("value", tokens, *tokens, config, &config, tokens.platforms["cdse"], *tokens.platforms["shared"],
		Caller{Token: subjectToken}, tokens.subjects, driver)
}
