package identity

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	otherIssuer   = "https://sign-in.test/realms/other"
	otherAudience = "broker-there"
	pathOther     = "/realms/other/.well-known/openid-configuration"
)

// twoIssuers returns verifiers of two issuers that use the same keys, which nobody does, but so only their names
// differ.
func twoIssuers(t *testing.T) (*fakeProvider, Verifiers) {
	t.Helper()
	p := newFakeProvider()
	p.set(pathOther, always(200, fields{"issuer": otherIssuer, "jwks_uri": "https://sign-in.test" + pathKeys}.json()))
	now := func() time.Time { return noon }
	all, err := NewVerifiers([]Config{
		{Issuer: issuer, Audience: []string{audience}, Clients: []string{"admitted"}, Client: p.client(), Now: now},
		{Issuer: otherIssuer, Audience: []string{otherAudience}, Client: p.client(), Now: now}})
	if err != nil {
		t.Fatal(err)
	}
	return p, all
}

func TestVerifiers_OneIssuerWithTheAudienceOfAnother(t *testing.T) {
	_, all := twoIssuers(t)
	for _, test := range []struct {
		name    string
		changes fields
		good    bool
	}{
		{"the first's", nil, true},
		{"the second's", fields{"iss": otherIssuer, "aud": otherAudience}, true},
		{"the first's, for the second", fields{"aud": otherAudience}, false},
		{"the second's, for the first", fields{"iss": otherIssuer}, false},
		{"a client of the first", fields{"aud": "x", "azp": "admitted"}, true},
		{"the same client of the second", fields{"iss": otherIssuer, "aud": "x", "azp": "admitted"}, false},
		{"no aud, azp of the other", fields{"iss": otherIssuer, "aud": nil, "azp": audience}, false},
		{"no issuer", fields{"iss": nil}, false},
		{"an unknown issuer", fields{"iss": issuer + "/"}, false},
	} {
		token := rsToken(test.changes)
		caller, err := all.Verify(t.Context(), dispatch.Secret(token))
		if test.good != (err == nil) {
			t.Errorf("%s: %+v, %v", test.name, caller, err)
		}
		if !test.good {
			refused(t, err, token)
		}
	}
}

func TestVerifiers_SameSubjectIsTwoUsers(t *testing.T) {
	_, all := twoIssuers(t)
	a, first := all.Verify(t.Context(), dispatch.Secret(rsToken(nil)))
	b, second := all.Verify(t.Context(), dispatch.Secret(rsToken(fields{"iss": otherIssuer, "aud": otherAudience})))
	if first != nil || second != nil || a.Subject != b.Subject || a.User == b.User {
		t.Errorf("%q and %q, %v, %v", a.User, b.User, first, second)
	}
}

// Each issuer's tokens are verified with its own keys, and an unknown issuer causes no request.
func TestVerifiers_KeysOfTheOwnIssuer(t *testing.T) {
	p, all := twoIssuers(t)
	p.set(pathOther, always(200, fields{"issuer": otherIssuer,
		"jwks_uri": "https://sign-in.test/realms/other/certs"}.json()))
	p.set("/realms/other/certs", always(200, `{"keys":[]}`))
	token := rsToken(fields{"iss": otherIssuer, "aud": otherAudience})
	_, err := all.Verify(t.Context(), dispatch.Secret(token))
	if err == nil {
		t.Error("a token signed by the key of another issuer is accepted")
	}
	if _, err := all.Verify(t.Context(), dispatch.Secret(rsToken(nil))); err != nil {
		t.Errorf("the first issuer's: %v", err)
	}
	p, all = twoIssuers(t)
	_, err = all.Verify(t.Context(), dispatch.Secret(rsToken(fields{"iss": "https://elsewhere.test"})))
	if err == nil || p.count(pathDiscovery)+p.count(pathOther) != 0 {
		t.Errorf("%v after %d requests", err, p.count(pathDiscovery)+p.count(pathOther))
	}
}

// TestTokens_OfFurtherIssuers: a user's token goes to the token endpoint of its own issuer only, by the exchange of
// that issuer, and only for platforms that are listed there.
func TestTokens_OfFurtherIssuers(t *testing.T) {
	p := newFakeProvider()
	p.set(pathOther, always(200, fields{"issuer": otherIssuer,
		"token_endpoint": "https://sign-in.test/realms/other/token"}.json()))
	sent := map[string]url.Values{}
	for _, path := range []string{pathToken, "/realms/other/token"} {
		p.set(path, func(r *http.Request) (*http.Response, error) {
			if err := r.ParseForm(); err != nil {
				t.Error(err)
			}
			sent[path] = r.PostForm
			return gives(platformToken(len(path), time.Hour), nil), nil
		})
	}
	tokens := newTokens(t, p, func(c *TokensConfig) {
		c.Issuers = []IssuerConfig{{Issuer: otherIssuer, ClientID: otherAudience, ClientSecret: grantSecret,
			Platforms: []Platform{{Name: "cdse", Access: dispatch.AccessUser, Link: "https://there",
				Exchange: Exchange{Driver: "token-exchange",
					Audience: "cdse-there"}}}}}
	})
	const there = dispatch.UserID(otherIssuer + " alice-1")
	account := func(platform string) dispatch.Account { return dispatch.Account(platform + "/" + string(there)) }
	if _, err := tokens.Token(t.Context(), account("cdse")); !dispatch.Is(err, dispatch.SignInRequired) ||
		len(sent) > 0 {
		t.Fatalf("the same subject of another issuer has signed in: %v, %v", err, sent)
	}
	tokens.StoreUserToken(t.Context(), there, "canary.other.token", time.Now().Add(time.Hour))
	got, err := tokens.Token(t.Context(), account("cdse"))
	if form := sent["/realms/other/token"]; err != nil || len(sent) != 1 ||
		form.Get("subject_token") != "canary.other.token" ||
		form.Get("audience") != "cdse-there" || form.Get("client_id") != otherAudience ||
		form.Get("client_secret") != grantSecret.Reveal() {
		t.Fatalf("%v, sent %v", err, sent)
	}
	first, err := tokens.Token(t.Context(), dispatch.Account("cdse/"+string(alice)))
	if err != nil || first.Secret == got.Secret || sent[pathToken].Get("subject_token") != subjectToken.Reveal() {
		t.Errorf("the first issuer's user: %v, sent %v", err, sent)
	}
	if _, err := tokens.Token(t.Context(), account("cdse-ogc")); !dispatch.Is(err, dispatch.Misconfigured) {
		t.Errorf("a platform that is not listed: %v", err)
	}
	if got := tokens.Link(account("cdse")); got != "https://there" ||
		tokens.Link(dispatch.Account("cdse/"+string(alice))) != linkPage {
		t.Errorf("link %q", got)
	}
}

func TestTokens_NoIssuerTwice(t *testing.T) {
	c := tokensConfig(newFakeProvider())
	c.Issuers = []IssuerConfig{{Issuer: issuer, ClientID: audience, ClientSecret: clientSecret}}
	if _, err := NewTokens(c); !dispatch.Is(err, dispatch.Misconfigured) {
		t.Error(err)
	}
}
