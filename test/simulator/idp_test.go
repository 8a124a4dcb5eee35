package simulator_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/eodispatch/eodispatch/test/simulator"
)

const idpURL = "http://idp.test"

// idpAt returns a caller that posts forms.
func idpAt(t *testing.T, idp *simulator.IdP) caller {
	idp.URL = idpURL
	return caller{t: t, client: serve(t, idp), base: idpURL,
		header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}
}

// form encodes name and value pairs.
func form(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

const (
	apexToken     = "POST /realms/apex/protocol/openid-connect/token"
	platformToken = "POST /realms/platform/protocol/openid-connect/token"
	brokerToken   = "POST /realms/apex/broker/platform/token"
)

func login(c caller, user, client string) string {
	c.t.Helper()
	r := c.must(200, apexToken, form("grant_type", "password", "client_id", client, "username", user, "password", user+
		"-password"))
	return r.json("access_token").(string)
}

// verifier returns the broker's verifier for a realm.
func verifier(t *testing.T, c caller, realm, audience string) func(token string) (map[string]any, error) {
	t.Helper()
	ctx := oidc.ClientContext(t.Context(), c.client)
	provider, err := oidc.NewProvider(ctx, idpURL+"/realms/"+realm)
	if err != nil {
		t.Fatal(err)
	}
	v := provider.VerifierContext(ctx, &oidc.Config{ClientID: audience})
	return func(token string) (claims map[string]any, err error) {
		verified, err := v.Verify(ctx, token)
		if err == nil {
			err = verified.Claims(&claims)
		}
		return claims, err
	}
}

func TestIdP_TokensVerifyWithGoOIDC(t *testing.T) {
	idp := &simulator.IdP{}
	c := idpAt(t, idp)
	verify := verifier(t, c, "apex", "eodispatch-api")
	claims, err := verify(login(c, "alice", "portal"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"iss": idpURL + "/realms/apex", "azp": "portal", "typ": "Bearer",
		"preferred_username": "alice"} {
		if claims[name] != want {
			t.Errorf("%s = %v, want %v", name, claims[name], want)
		}
	}
	for _, name := range []string{"sub", "sid", "jti", "iat", "exp"} {
		if claims[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	if _, err := verify(login(c, "alice", "stranger")); err == nil {
		t.Error("a token of stranger is for the broker")
	}
	service := c.must(200, platformToken, form("grant_type", "client_credentials", "client_id", "eodispatch-service",
		"client_secret", "eodispatch-service-secret"))
	claims, err = verifier(t, c, "platform", "platform-api")(service.json("access_token").(string))
	if err != nil || claims["preferred_username"] != "service-account-eodispatch-service" || claims["sid"] != nil {
		t.Errorf("service account: %v, %v", claims, err)
	}
	if _, err := verify(service.json("access_token").(string)); err == nil {
		t.Error("a token of one realm is one of the other")
	}
	basic := c
	basic.header = basic.header.Clone()
	// eodispatch-api:eodispatch-api-secret
	basic.header.Set("Authorization", "Basic ZW9kaXNwYXRjaC1hcGk6ZW9kaXNwYXRjaC1hcGktc2VjcmV0")
	basic.must(200, apexToken, form("grant_type", "client_credentials"))
}

func TestIdP_GrantsAreRefusedAsKeycloakDoes(t *testing.T) {
	c := idpAt(t, &simulator.IdP{})
	for name, row := range map[string]struct {
		endpoint, body string
		status         int
		code           string
	}{
		"no grant":      {apexToken, form("client_id", "portal"), 400, "invalid_request"},
		"strange grant": {apexToken, form("client_id", "portal", "grant_type", "x"), 400, "unsupported_grant_type"},
		"wrong password": {apexToken, form("client_id", "portal", "grant_type", "password", "username", "alice",
			"password", "x"), 401, "invalid_grant"},
		"unknown user": {apexToken, form("client_id", "portal", "grant_type", "password", "username", "eve",
			"password", "eve-password"), 401, "invalid_grant"},
		"unknown client": {apexToken, form("client_id", "nobody", "grant_type", "client_credentials"), 401,
			"invalid_client"},
		"wrong secret": {apexToken, form("client_id", "eodispatch-api", "client_secret", "x", "grant_type",
			"client_credentials"), 401, "unauthorized_client"},
		"no service account": {platformToken, form("client_id", "platform-api", "client_secret", "platform-api-secret",
			"grant_type", "client_credentials"), 401, "unauthorized_client"},
		"no password grant": {apexToken, form("client_id", "eodispatch-api", "client_secret", "eodispatch-api-secret",
			"grant_type", "password", "username", "alice", "password", "alice-password"), 400, "unauthorized_client"},
		"other realm's client": {platformToken, form("client_id", "portal", "grant_type", "password", "username",
			"alice", "password", "alice-password"), 401, "invalid_client"},
		"unknown realm": {"POST /realms/x/protocol/openid-connect/token", "", 404, "Realm does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			c.t = t
			c.refused(row.status, "error", row.code, row.endpoint, row.body)
		})
	}
}

func broker(extra ...string) string {
	return form(append([]string{"client_id", "eodispatch-api", "client_secret", "eodispatch-api-secret",
		"grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"}, extra...)...)
}

func TestIdP_ExchangeGivesThePlatformsToken(t *testing.T) {
	idp := &simulator.IdP{}
	c := idpAt(t, idp)
	alice := login(c, "alice", "portal")
	verify := verifier(t, c, "platform", "platform-api")
	for name, r := range map[string]response{
		"legacy": c.must(200, apexToken, broker("subject_token", alice, "requested_issuer", "platform")),
		"brokered": c.must(200, brokerToken, form("client_id", "eodispatch-api", "client_secret",
			"eodispatch-api-secret", "token", alice)),
	} {
		token, _ := r.json("access_token").(string)
		claims, err := verify(token)
		if err != nil || claims["preferred_username"] != "alice-p" || claims["azp"] != "apex-broker" {
			t.Errorf("%s: %v, %v", name, claims, err)
		}
		if r.json("expires_in") != 300.0 || r.json("refresh_token") != nil ||
			(r.json("account-link-url") != nil) != (name == "legacy") {
			t.Errorf("%s: %s", name, r.body)
		}
		if user, err := idp.Check(simulator.PlatformRealm)(token); user != "alice-p" || err != nil {
			t.Errorf("%s: the platform takes it for %q, %v", name, user, err)
		}
	}
	// The legacy exchange checks no audience, the brokering API does.
	stranger := login(c, "alice", "stranger")
	c.must(200, apexToken, broker("subject_token", stranger, "requested_issuer", "platform"))
	c.refused(403, "error", "unauthorized_client", brokerToken, form("client_id", "eodispatch-api", "client_secret",
		"eodispatch-api-secret", "token", stranger))
}

func TestIdP_ExchangeIsRefusedAsKeycloakDoes(t *testing.T) {
	now := newClock()
	idp := &simulator.IdP{Now: now.Now}
	c := idpAt(t, idp)
	alice, bob := login(c, "alice", "portal"), login(c, "bob", "portal")
	service := c.must(200, apexToken, form("grant_type", "client_credentials", "client_id", "other-api",
		"client_secret", "other-api-secret")).json("access_token").(string)
	refused := func(status int, code, description string, extra ...string) {
		t.Helper()
		r := c.must(status, apexToken, broker(extra...))
		if r.json("error") != code || r.json("error_description") != description {
			t.Errorf("%s, want %s %q", r.body, code, description)
		}
	}
	refused(400, "not_linked", "identity provider is not linked", "subject_token", bob, "requested_issuer", "platform")
	refused(400, "not_linked", "identity provider is not linked", "subject_token", service, "requested_issuer",
		"platform")
	refused(400, "invalid_request", "Invalid token", "subject_token", "garbage", "requested_issuer", "platform")
	refused(400, "invalid_request", "Invalid token", "subject_token", idp.Mint("platform", "alice-p", "apex-broker",
		simulator.TokenFaults{}), "requested_issuer", "platform")
	refused(400, "invalid_request", "Invalid token", "subject_token", idp.Mint("apex", "alice", "portal",
		simulator.TokenFaults{Claims: map[string]any{"typ": "ID"}}), "requested_issuer", "platform")
	refused(400, "invalid_request", "Invalid issuer", "subject_token", alice, "requested_issuer", "elsewhere")
	refused(400, "invalid_target", "response_token_type_unsupported", "subject_token", alice, "requested_issuer",
		"platform", "requested_token_type", "x")
	c.refused(403, "error", "access_denied", apexToken, strings.Replace(strings.Replace(broker("subject_token", alice,
		"requested_issuer", "platform"),
		"client_id=eodispatch-api", "client_id=other-api", 1), "eodispatch-api-secret", "other-api-secret", 1))
	c.refused(403, "error", "access_denied", apexToken, form("client_id", "portal", "grant_type",
		"urn:ietf:params:oauth:grant-type:token-exchange", "subject_token", alice, "requested_issuer", "platform"))
	c.refused(401, "error", "unauthorized_client", apexToken, strings.Replace(broker("subject_token", alice,
		"requested_issuer", "platform"), "api-secret", "x", 1))

	brokered := func(status int, code string, pairs ...string) {
		t.Helper()
		c.refused(status, "error", code, brokerToken,
			form(append([]string{"client_id", "eodispatch-api", "client_secret",
				"eodispatch-api-secret"}, pairs...)...))
	}
	brokered(400, "invalid_token", "token", "garbage")
	if r := c.must(400, brokerToken, form("client_id", "eodispatch-api", "client_secret", "eodispatch-api-secret",
		"token", bob)); r.json("error_description") != "User not associated to identity provider" {
		t.Errorf("%s", r.body)
	}
	c.refused(403, "error", "invalid_client", "POST /realms/apex/broker/other/token",
		form("client_id", "eodispatch-api", "client_secret", "eodispatch-api-secret", "token", alice))
	c.refused(403, "error", "invalid_client", brokerToken, form("client_id", "portal", "token", alice))

	idp.Spoil("alice")
	refused(400, "token_expired", "linked token is expired", "subject_token", alice, "requested_issuer", "platform")
	r := c.must(400, apexToken, broker("subject_token", alice, "requested_issuer", "platform"))
	if link, _ := r.json("account-link-url").(string); r.json("error") != "not_linked" ||
		!strings.HasPrefix(link, idpURL+"/realms/apex/broker/platform/link?") {
		t.Errorf("after token_expired: %s", r.body)
	}
	brokered(400, "not_linked", "token", alice)
	idp.Link("bob", "bob-p")
	c.must(200, apexToken, broker("subject_token", bob, "requested_issuer", "platform"))
	idp.Unlink("bob")
	refused(400, "not_linked", "identity provider is not linked", "subject_token", bob, "requested_issuer", "platform")
	idp.Logout("apex", "bob")
	refused(400, "invalid_request", "Invalid token", "subject_token", bob, "requested_issuer", "platform")
	carol := login(c, "carol", "portal")
	now.pass(5 * time.Minute)
	refused(400, "invalid_request", "Invalid token", "subject_token", carol, "requested_issuer", "platform")
}

func TestIdP_OddTokensDoNotVerify(t *testing.T) {
	idp := &simulator.IdP{}
	c := idpAt(t, idp)
	verify := verifier(t, c, "apex", "eodispatch-api")
	if _, err := verify(idp.Mint("apex", "alice", "portal", simulator.TokenFaults{})); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	for name, odd := range map[string]simulator.TokenFaults{
		"alg none":         {Alg: "none"},
		"HS256":            {Alg: "HS256"},
		"PS256":            {Alg: "PS256"},
		"another key":      {Foreign: true},
		"torn":             {Torn: true},
		"unknown kid":      {Header: map[string]any{"kid": "x"}},
		"another alg said": {Header: map[string]any{"alg": "none"}},
		"expired":          {Claims: map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}},
		"no expiry":        {Claims: map[string]any{"exp": nil}},
		"another issuer":   {Claims: map[string]any{"iss": "https://elsewhere.test"}},
		"another audience": {Claims: map[string]any{"aud": "other"}},
	} {
		token := idp.Mint("apex", "alice", "portal", odd)
		if claims, err := verify(token); err == nil {
			t.Errorf("%s: verified: %v", name, claims)
		}
		if name == "another audience" {
			continue // Check looks at none, as platforms that take every token of their realm
		}
		if user, err := idp.Check("apex")(token); err == nil {
			t.Errorf("%s: the simulator takes it for %s", name, user)
		}
	}
}

func TestIdP_KeysRotate(t *testing.T) {
	idp := &simulator.IdP{}
	c := idpAt(t, idp)
	old := idp.Mint("apex", "alice", "portal", simulator.TokenFaults{})
	verify := verifier(t, c, "apex", "eodispatch-api")
	for _, token := range []string{old, old} {
		if _, err := verify(token); err != nil {
			t.Fatal(err)
		}
	}
	if n := idp.Fetches(); n != 1 {
		t.Errorf("%d fetches of the key set, want 1", n)
	}
	idp.Rotate("apex", false)
	for _, token := range []string{idp.Mint("apex", "alice", "portal", simulator.TokenFaults{}), old} {
		if _, err := verify(token); err != nil {
			t.Error(err)
		}
	}
	if n := idp.Fetches(); n != 2 {
		t.Errorf("%d fetches of the key set, want 2", n)
	}
	idp.Rotate("apex", true)
	if _, err := verifier(t, c, "apex", "eodispatch-api")(old); err == nil {
		t.Error("a key that was forgotten still verifies")
	}
	if _, err := idp.Check("apex")(old); err == nil {
		t.Error("a key that was forgotten is still taken")
	}
}
