package identity

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	pathBroker         = "/realms/apex/broker/platform/token"
	pathPlatform       = "/realms/platform/.well-known/openid-configuration"
	pathPlatformToken  = "/realms/platform/token"
	grantSecret        = dispatch.Secret("canary-grant-secret")
	assertion          = "canary.assertion.x"
	grantType          = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeOfAccessTokens = "urn:ietf:params:oauth:token-type:access_token"
)

// exchanges configures one platform for each driver, with the name of the driver.
func exchanges(c *TokensConfig) {
	c.Platforms = nil
	for _, e := range []Exchange{
		{Driver: "keycloak-broker", Alias: "platform"}, {Driver: "keycloak-requested-issuer", Alias: "platform"},
		{Driver: "token-exchange", Audience: "platform-api"}, {Driver: "jwt-grant", ClientID: "service",
			ClientSecret: grantSecret},
		{Driver: "passthrough"},
	} {
		p := Platform{Name: e.Driver, Access: dispatch.AccessUser, Exchange: e, Link: linkPage}
		switch e.Driver {
		case "jwt-grant":
			p.Issuer = platformIssuer
		case "passthrough":
			p.Issuer = issuer
		}
		c.Platforms = append(c.Platforms, p)
	}
}

// twoProviders also plays the platform's provider: sent is what each token endpoint received, answers is what it
// responds.
func twoProviders(t *testing.T, answers map[string]func() (*http.Response, error)) (p *fakeProvider,
	sent map[string]url.Values) {
	p, sent = newFakeProvider(), map[string]url.Values{}
	var mu sync.Mutex
	p.set(pathPlatform, always(200, fields{"issuer": platformIssuer, "token_endpoint": "https://sign-in.test" +
		pathPlatformToken}.json()))
	for _, path := range []string{pathToken, pathBroker, pathPlatformToken} {
		p.set(path, func(r *http.Request) (*http.Response, error) {
			if err := r.ParseForm(); err != nil || r.URL.RawQuery != "" || r.Header.Get("Authorization") != "" {
				t.Errorf("%s: %v, %v", r.URL, err, r.Header)
			}
			mu.Lock()
			sent[path] = r.PostForm
			mu.Unlock()
			if answer := answers[path]; answer != nil {
				return answer()
			}
			if path == pathPlatformToken || path == pathBroker {
				return gives(platformToken(1, time.Minute), nil), nil
			}
			return gives(assertion, nil), nil
		})
	}
	return p, sent
}

// The test checks exactly what each driver sends, and where. Case 101: no URL contains a secret.
func TestExchange_Requests(t *testing.T) {
	own := func(more url.Values) url.Values {
		more.Set("client_id", audience)
		more.Set("client_secret", clientSecret.Reveal())
		return more
	}
	subject := []string{subjectToken.Reveal()}
	standard := func(audience string) url.Values {
		return own(url.Values{"grant_type": {grantType}, "subject_token": subject,
			"subject_token_type":   {typeOfAccessTokens},
			"requested_token_type": {typeOfAccessTokens}, "audience": {audience}})
	}
	for driver, want := range map[string]map[string]url.Values{
		"keycloak-broker": {pathBroker: own(url.Values{"token": subject})},
		"keycloak-requested-issuer": {pathToken: own(url.Values{"grant_type": {grantType}, "subject_token": subject,
			"subject_token_type": {typeOfAccessTokens}, "requested_issuer": {"platform"}})},
		"token-exchange": {pathToken: standard("platform-api")},
		"jwt-grant": {pathToken: standard(platformIssuer), pathPlatformToken: {"client_id": {"service"},
			"client_secret": {grantSecret.Reveal()}, "grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"},
			"assertion": {assertion}}},
	} {
		p, sent := twoProviders(t, nil)
		tokens := newTokens(t, p, exchanges)
		if _, err := tokens.Token(t.Context(), account(driver)); err != nil {
			t.Errorf("%s: %v", driver, err)
		}
		if fmt.Sprint(sent) != fmt.Sprint(want) {
			t.Errorf("%s sent %v", driver, sent)
		}
	}
}

// Every response of Keycloak 26.7.3 to each driver (case 92).
func TestExchange_Responses(t *testing.T) {
	const (
		user, operator, passing = dispatch.SignInRequired, dispatch.Misconfigured, dispatch.Unavailable
		broker, legacy          = "keycloak-broker", "keycloak-requested-issuer"
		standard, grant         = "token-exchange", "jwt-grant"
	)
	endpoint := map[string]string{broker: pathBroker, legacy: pathToken, standard: pathToken, grant: pathPlatformToken}
	for _, row := range []struct {
		driver            string
		status            int
		code, description string
		kind              dispatch.Kind
		text              string // its beginning
	}{
		{broker, 400, "invalid_request", "User not associated to identity provider", user, "Link your account"},
		{broker, 400, "not_linked", "identity provider is not linked", user, "Link your account"},
		{broker, 400, "token_expired", "linked token is expired", user, "The link to your account"},
		{broker, 400, "token_expired", "No token stored.", operator, ""},
		{broker, 400, "invalid_token", "Invalid token", user, "Sign in again"},
		{broker, 400, "invalid_request", "Failed to retrieve token from identity provider", passing, ""},
		{broker, 400, "invalid_request", "Invalid identity provider", operator, ""},
		{broker, 400, "invalid_request", "Identity Brokering API feature not enabled", operator, ""},
		{broker, 400, "invalid_request", "something new", operator, ""},
		{broker, 403, "unauthorized_client", "Client is not within the token audience", operator, ""},
		{broker, 403, "invalid_client", "Client not allowed to retrieve token for the provider", operator, ""},
		{broker, 403, "invalid_client", "public clients not allowed", operator, ""},
		{broker, 401, "unauthorized_client", "Invalid client or Invalid client credentials", operator, ""},
		{broker, 401, "invalid_client", "Invalid client or Invalid client credentials", operator, ""},
		{broker, 404, "", "", operator, ""},
		{broker, 500, "unknown_error", "", passing, ""},
		{standard, 400, "invalid_request", "Invalid token", user, "Sign in again"},
		{standard, 400, "invalid_grant", "Session not active", user, "Sign in again"},
		{standard, 400, "invalid_request", "Requested audience not available: other-api", operator, ""},
		{standard, 400, "invalid_client", "Audience not found", operator, ""},
		{standard, 400, "invalid_request", "Standard token exchange is not enabled for the requested client", operator,
			""},
		{standard, 403, "access_denied", "Client is not within the token audience", operator, ""},
		{standard, 403, "access_denied", "Client not allowed to exchange", operator, ""},
		{standard, 401, "unauthorized_client", "Invalid client or Invalid client credentials", operator, ""},
		{standard, 503, "", "", passing, ""},
		{grant, 400, "invalid_grant", "User not found", user, "Link your account"},
		{grant, 400, "invalid_grant", "Token reuse detected", passing, ""},
		{grant, 400, "invalid_grant", "Token is not active", passing, ""},
		{grant, 400, "invalid_grant", "Invalid token audience", operator, ""},
		{grant, 400, "invalid_grant", "The provided assertion is not a valid JWT", operator, ""},
		{grant, 400, "invalid_grant", "JWT Authorization Grant is not supported for the requested client", operator,
			""},
		{grant, 401, "unauthorized_client", "Invalid client or Invalid client credentials", operator, ""},
		{grant, 502, "", "", passing, ""},
		{legacy, 400, "token_expired", "linked token is expired", user, "The link to your account"},
		{legacy, 403, "access_denied", "Client not allowed to exchange", operator, ""},
	} {
		p, _ := twoProviders(t, map[string]func() (*http.Response, error){endpoint[row.driver]: func() (*http.Response,
			error) {
			return reply(row.status, fields{"error": row.code, "error_description": row.description}.json()), nil
		}})
		_, err := newTokens(t, p, exchanges).Token(t.Context(), account(row.driver))
		var e *dispatch.Error
		if !errors.As(err, &e) || e.Kind != row.kind || !strings.HasPrefix(e.Text, row.text) {
			t.Errorf("%s: %d %s %s: %v", row.driver, row.status, row.code, row.description, err)
		}
		if strings.Contains(e.Text, "ink ") && e.Kind != user {
			t.Errorf("%s: %d %s %s: the client gets %q", row.driver, row.status, row.code, row.description,
				e.Text)
		}
	}
}

// If the first provider fails, the second is not asked, and the error keeps its kind.
func TestJWTGrant_FailsAtTheFirstProvider(t *testing.T) {
	for description, kind := range map[string]dispatch.Kind{"Invalid token": dispatch.SignInRequired,
		"Requested audience not available: x": dispatch.Misconfigured} {
		p, sent := twoProviders(t, map[string]func() (*http.Response, error){pathToken: func() (*http.Response, error) {
			return reply(400, fields{"error": "invalid_request", "error_description": description}.json()), nil
		}})
		_, err := newTokens(t, p, exchanges).Token(t.Context(), account("jwt-grant"))
		if !dispatch.Is(err, kind) || sent[pathPlatformToken] != nil {
			t.Errorf("%s: %v", description, err)
		}
	}
}

// The user's own token is only sent to platforms configured with the broker's issuer.
func TestPassthrough(t *testing.T) {
	p, sent := twoProviders(t, nil)
	tokens := newTokens(t, p, exchanges)
	own := sign(`{"alg":"none"}`, fields{"iss": issuer, "exp": time.Now().Add(time.Hour).Unix() + 60}.json(), nil) +
		"c2ln"
	tokens.StoreUserToken(t.Context(), alice, dispatch.Secret(own), time.Now().Add(time.Hour+time.Minute))
	got, err := tokens.Token(t.Context(), account("passthrough"))
	if err != nil || got != (dispatch.Token{Secret: dispatch.Secret(own), Issuer: issuer}) || len(sent) != 0 {
		t.Errorf("%v, %v, sent %v", got, err, sent)
	}
	for _, other := range []string{"", platformIssuer, issuer + "/"} {
		c := tokensConfig(p)
		exchanges(&c)
		c.Platforms[4].Issuer = other
		if _, err := NewTokens(c); !dispatch.Is(err, dispatch.Misconfigured) {
			t.Errorf("issuer %q: %v", other, err)
		}
	}
}

// A provider that would exchange refuses an invalid token only for that reason, and the client's own token shows that
// the client may exchange. Otherwise the operator learns what is wrong, or what could not be tried.
func TestCheck(t *testing.T) {
	type answer = func() (*http.Response, error)
	refuses := func(status int, code, description string) answer {
		return func() (*http.Response, error) {
			return reply(status, fields{"error": code, "error_description": description}.json()), nil
		}
	}
	var sent map[string]url.Values
	// respond answers by what the form contains: nobody's token, the client's own, or the request for the latter.
	respond := func(field string, nobodys, owns, own answer) answer {
		return func() (*http.Response, error) {
			form := sent[map[string]string{"token": pathBroker, "assertion": pathPlatformToken}[field]]
			if field == "subject_token" {
				form = sent[pathToken]
			}
			switch {
			case form.Get("grant_type") == "client_credentials":
				return own()
			case form.Get(field) == nobody.Reveal():
				return nobodys()
			}
			return owns()
		}
	}
	invalid := refuses(400, "invalid_request", "Invalid token")
	gives := func() (*http.Response, error) { return gives(assertion, nil), nil }
	unlinked := refuses(400, "not_linked", "identity provider is not linked")
	denied := refuses(403, "access_denied", "Client not allowed to exchange")
	wrong := refuses(401, "unauthorized_client", "Invalid client or Invalid client credentials")
	noService := refuses(401, "unauthorized_client", "Client not enabled to retrieve service account")
	noJWT := refuses(400, "invalid_grant", "The provided assertion is not a valid JWT")
	noGrant := refuses(400, "invalid_grant", "JWT Authorization Grant is not supported for the requested client")
	out := func() (*http.Response, error) { return down(nil) }
	const broker, legacy, standard, grant = "keycloak-broker", "keycloak-requested-issuer", "token-exchange",
		"jwt-grant"
	atToken := func(nobodys, owns, own answer) map[string]answer {
		return map[string]answer{pathToken: respond("subject_token", nobodys, owns, own)}
	}
	with := func(answers map[string]answer, path string, a answer) map[string]answer {
		answers[path] = a
		return answers
	}
	good := respond("assertion", noJWT, refuses(400, "invalid_grant", "User not found"), nil)
	for name, row := range map[string]struct {
		driver  string
		answers map[string]answer
		kind    dispatch.Kind // Internal: no error
		unsure  bool
	}{
		"broker": {broker, map[string]answer{pathBroker: refuses(400, "invalid_token",
			"Invalid token")}, 0, false},
		"broker, wrong secret":        {broker, map[string]answer{pathBroker: wrong}, dispatch.Misconfigured, false},
		"broker, down":                {broker, map[string]answer{pathBroker: out}, dispatch.Unavailable, false},
		"broker, tokens for nothing":  {broker, nil, dispatch.Misconfigured, false},
		"legacy":                      {legacy, atToken(invalid, unlinked, gives), 0, false},
		"legacy, not allowed":         {legacy, atToken(invalid, denied, gives), dispatch.Misconfigured, false},
		"legacy, no token of its own": {legacy, atToken(invalid, nil, noService), 0, true},
		"legacy, takes no such token": {legacy, atToken(invalid, invalid, gives), 0, true},
		"legacy, wrong secret":        {legacy, atToken(wrong, nil, nil), dispatch.Misconfigured, false},
		"legacy, down":                {legacy, atToken(out, nil, nil), dispatch.Unavailable, false},
		"legacy, down meanwhile":      {legacy, atToken(invalid, nil, out), dispatch.Unavailable, false},
		"legacy, busy": {legacy, atToken(invalid, nil, refuses(429, "", "")), dispatch.Unavailable,
			false},
		"legacy, tokens for nothing":    {legacy, nil, dispatch.Misconfigured, false},
		"standard":                      {standard, atToken(invalid, gives, gives), 0, false},
		"standard, not allowed":         {standard, atToken(invalid, denied, gives), dispatch.Misconfigured, false},
		"standard, no token of its own": {standard, atToken(invalid, nil, noService), 0, true},
		"standard, tokens for nothing":  {standard, nil, dispatch.Misconfigured, false},
		"grant": {grant, with(atToken(invalid, gives, gives), pathPlatformToken, good), 0,
			false},
		"grant, not allowed": {grant, with(atToken(invalid, gives, gives), pathPlatformToken,
			respond("assertion", noJWT, noGrant, nil)), dispatch.Misconfigured, false},
		"grant, wrong secret": {grant, with(atToken(invalid, gives, gives), pathPlatformToken, wrong),
			dispatch.Misconfigured, false},
		"grant, down": {grant, with(atToken(invalid, gives, gives), pathPlatformToken, out),
			dispatch.Unavailable, false},
		"grant, no assertion": {grant, with(atToken(wrong, nil, nil), pathPlatformToken, good), dispatch.Misconfigured,
			false},
		"grant, no token of its own": {grant, with(atToken(invalid, nil, noService), pathPlatformToken, good), 0, true},
		"grant, tokens for nothing":  {grant, nil, dispatch.Misconfigured, false},
		"passthrough":                {"passthrough", nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var p *fakeProvider
			p, sent = twoProviders(t, row.answers)
			unproven, err := newTokens(t, p, exchanges).Check(t.Context(), row.driver)
			if row.kind == 0 && err != nil || row.kind != 0 && !dispatch.Is(err, row.kind) ||
				(unproven != "") != row.unsure {
				t.Errorf("%q, %v", unproven, err)
			}
		})
	}
}

// Case 61. A token of another issuer than the platform's is never used, whatever driver obtained it.
func TestToken_RefusesAnotherIssuer(t *testing.T) {
	for _, driver := range []string{"keycloak-broker", "keycloak-requested-issuer", "token-exchange", "jwt-grant"} {
		stolen := sign(`{"alg":"none"}`, fields{"iss": "https://other.test",
			"exp": time.Now().Add(time.Hour).Unix()}.json(), nil) + "c2ln"
		gives := func() (*http.Response, error) { return gives(stolen, nil), nil }
		p, _ := twoProviders(t, map[string]func() (*http.Response, error){pathBroker: gives, pathToken: gives,
			pathPlatformToken: gives})
		tokens := newTokens(t, p, func(c *TokensConfig) {
			exchanges(c)
			for i := range 3 {
				c.Platforms[i].Issuer = platformIssuer
			}
		})
		if got, err := tokens.Token(t.Context(), account(driver)); !dispatch.Is(err, dispatch.Misconfigured) ||
			got != (dispatch.Token{}) {
			t.Errorf("%s: %v", driver, err)
		}
	}
}

// 100 workers of one user and a cold cache cause one exchange with each driver (case 93). Users do not wait for each
// other if no link can be lost.
func TestExchange_NeverRaces(t *testing.T) {
	for driver, path := range map[string]string{"keycloak-broker": pathBroker, "keycloak-requested-issuer": pathToken,
		"token-exchange": pathToken, "jwt-grant": pathPlatformToken} {
		synctest.Test(t, func(t *testing.T) {
			p, _ := twoProviders(t, nil)
			p.set(path, func(*http.Request) (*http.Response, error) {
				time.Sleep(time.Second)
				return gives(platformToken(1, 5*time.Minute), nil), nil
			})
			tokens := newTokens(t, p, exchanges)
			all := make(chan error)
			for range 100 {
				go func() {
					_, err := tokens.Token(t.Context(), account(driver))
					all <- err
				}()
			}
			for range 100 {
				if err := <-all; err != nil {
					t.Error(err)
				}
			}
			if n := p.count(path); n != 1 {
				t.Errorf("%s: %d exchanges", driver, n)
			}
			begin := time.Now()
			for i := range 4 {
				user := dispatch.UserID(fmt.Sprint("user-", i))
				tokens.StoreUserToken(t.Context(), user, subjectToken, time.Now().Add(time.Hour))
				go func() {
					_, err := tokens.Token(t.Context(), dispatch.Account(driver+"/"+string(user)))
					all <- err
				}()
			}
			for range 4 {
				if err := <-all; err != nil {
					t.Error(err)
				}
			}
			want := time.Second
			if drivers[driver].linked {
				want = 4 * time.Second
			}
			if took := time.Since(begin); took != want {
				t.Errorf("%s: four users took %v", driver, took)
			}
		})
	}
}
