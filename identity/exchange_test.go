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

// exchanges configures one platform for each driver, named like it.
func exchanges(c *TokensConfig) {
	c.Platforms = nil
	for _, e := range []Exchange{
		{Driver: "keycloak-broker", Alias: "platform"}, {Driver: "keycloak-requested-issuer", Alias: "platform"},
		{Driver: "token-exchange", Audience: "platform-api"}, {Driver: "jwt-grant", ClientID: "service", ClientSecret: grantSecret},
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

// twoProviders answers for the platform's provider too: sent is what each token endpoint got, answers what it says.
func twoProviders(t *testing.T, answers map[string]func() (*http.Response, error)) (p *fakeProvider, sent map[string]url.Values) {
	p, sent = newFakeProvider(), map[string]url.Values{}
	var mu sync.Mutex
	p.set(pathPlatform, always(200, fields{"issuer": platformIssuer, "token_endpoint": "https://sign-in.test" + pathPlatformToken}.json()))
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

// TestExchangeRequests: exactly what each driver sends, and where. Case 101: no secret is in an address.
func TestExchangeRequests(t *testing.T) {
	own := func(more url.Values) url.Values {
		more.Set("client_id", audience)
		more.Set("client_secret", clientSecret.Reveal())
		return more
	}
	subject := []string{subjectToken.Reveal()}
	standard := func(audience string) url.Values {
		return own(url.Values{"grant_type": {grantType}, "subject_token": subject, "subject_token_type": {typeOfAccessTokens},
			"requested_token_type": {typeOfAccessTokens}, "audience": {audience}})
	}
	for driver, want := range map[string]map[string]url.Values{
		"keycloak-broker": {pathBroker: own(url.Values{"token": subject})},
		"keycloak-requested-issuer": {pathToken: own(url.Values{"grant_type": {grantType}, "subject_token": subject,
			"subject_token_type": {typeOfAccessTokens}, "requested_issuer": {"platform"}})},
		"token-exchange": {pathToken: standard("platform-api")},
		"jwt-grant": {pathToken: standard(platformIssuer), pathPlatformToken: {"client_id": {"service"},
			"client_secret": {grantSecret.Reveal()}, "grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion}}},
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

// TestExchangeAnswers: every answer of Keycloak 26.7.3 to each driver (case 92).
func TestExchangeAnswers(t *testing.T) {
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
		{standard, 400, "invalid_request", "Standard token exchange is not enabled for the requested client", operator, ""},
		{standard, 403, "access_denied", "Client is not within the token audience", operator, ""},
		{standard, 403, "access_denied", "Client not allowed to exchange", operator, ""},
		{standard, 401, "unauthorized_client", "Invalid client or Invalid client credentials", operator, ""},
		{standard, 503, "", "", passing, ""},
		{grant, 400, "invalid_grant", "User not found", user, "Link your account"},
		{grant, 400, "invalid_grant", "Token reuse detected", passing, ""},
		{grant, 400, "invalid_grant", "Token is not active", passing, ""},
		{grant, 400, "invalid_grant", "Invalid token audience", operator, ""},
		{grant, 400, "invalid_grant", "The provided assertion is not a valid JWT", operator, ""},
		{grant, 400, "invalid_grant", "JWT Authorization Grant is not supported for the requested client", operator, ""},
		{grant, 401, "unauthorized_client", "Invalid client or Invalid client credentials", operator, ""},
		{grant, 502, "", "", passing, ""},
		{legacy, 400, "token_expired", "linked token is expired", user, "The link to your account"},
		{legacy, 403, "access_denied", "Client not allowed to exchange", operator, ""},
	} {
		p, _ := twoProviders(t, map[string]func() (*http.Response, error){endpoint[row.driver]: func() (*http.Response, error) {
			return reply(row.status, fields{"error": row.code, "error_description": row.description}.json()), nil
		}})
		_, err := newTokens(t, p, exchanges).Token(t.Context(), account(row.driver))
		var e *dispatch.Error
		if !errors.As(err, &e) || e.Kind != row.kind || !strings.HasPrefix(e.Text, row.text) {
			t.Errorf("%s: %d %s %s: %v", row.driver, row.status, row.code, row.description, err)
		}
		if strings.Contains(e.Text, "ink ") && e.Kind != user {
			t.Errorf("%s: %d %s %s: who cannot mend it is told %q", row.driver, row.status, row.code, row.description, e.Text)
		}
	}
}

// TestGrantFailsAtTheFirstProvider: the second is not asked then, and classes stay what they are.
func TestGrantFailsAtTheFirstProvider(t *testing.T) {
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

// TestPassthrough gives the user's own token, only where the platform is said to have our issuer.
func TestPassthrough(t *testing.T) {
	p, sent := twoProviders(t, nil)
	tokens := newTokens(t, p, exchanges)
	own := sign(`{"alg":"none"}`, fields{"iss": issuer, "exp": time.Now().Add(time.Hour).Unix() + 60}.json(), nil) + "c2ln"
	tokens.Offer(alice, dispatch.Secret(own), time.Now().Add(time.Hour+time.Minute))
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

// TestCheck: a provider that would exchange refuses what is no token for that; else the operator is told.
func TestCheck(t *testing.T) {
	answer := func(status int, code, description string) func() (*http.Response, error) {
		return func() (*http.Response, error) {
			return reply(status, fields{"error": code, "error_description": description}.json()), nil
		}
	}
	good := map[string]func() (*http.Response, error){
		pathBroker:        answer(400, "invalid_token", "Invalid token"),
		pathToken:         answer(400, "invalid_request", "Invalid token"),
		pathPlatformToken: answer(400, "invalid_grant", "The provided assertion is not a valid JWT"),
	}
	wrong := answer(401, "unauthorized_client", "Invalid client or Invalid client credentials")
	asks := map[string][]string{"keycloak-broker": {pathBroker}, "keycloak-requested-issuer": {pathToken}, "token-exchange": {pathToken},
		"jwt-grant": {pathToken, pathPlatformToken}, "passthrough": nil}
	for driver, paths := range asks {
		p, sent := twoProviders(t, good)
		tokens := newTokens(t, p, exchanges)
		if err := tokens.Check(t.Context(), driver); err != nil || len(sent) != len(paths) {
			t.Errorf("%s: %v, sent %v", driver, err, sent)
		}
		for _, path := range paths {
			if strings.Contains(sent[path].Encode(), subjectToken.Reveal()) {
				t.Errorf("%s: a user's token was used", driver)
			}
			for kind, bad := range map[dispatch.Kind]func() (*http.Response, error){dispatch.Misconfigured: wrong,
				dispatch.Unavailable: func() (*http.Response, error) { return down(nil) }} {
				answers := map[string]func() (*http.Response, error){}
				for at, a := range good {
					answers[at] = a
				}
				answers[path] = bad
				p, _ := twoProviders(t, answers)
				if err := newTokens(t, p, exchanges).Check(t.Context(), driver); !dispatch.Is(err, kind) {
					t.Errorf("%s: %s: %v", driver, path, err)
				}
			}
		}
		p, _ = twoProviders(t, nil)
		if err := newTokens(t, p, exchanges).Check(t.Context(), driver); paths != nil && !dispatch.Is(err, dispatch.Misconfigured) {
			t.Errorf("%s: a provider that gives tokens for nothing: %v", driver, err)
		}
	}
}

// TestOtherIssuer: case 61. A token of another issuer than the platform's is never given out, whatever driver got it.
func TestOtherIssuer(t *testing.T) {
	for _, driver := range []string{"keycloak-broker", "keycloak-requested-issuer", "token-exchange", "jwt-grant"} {
		stolen := sign(`{"alg":"none"}`, fields{"iss": "https://other.test", "exp": time.Now().Add(time.Hour).Unix()}.json(), nil) + "c2ln"
		gives := func() (*http.Response, error) { return gives(stolen, nil), nil }
		p, _ := twoProviders(t, map[string]func() (*http.Response, error){pathBroker: gives, pathToken: gives, pathPlatformToken: gives})
		tokens := newTokens(t, p, func(c *TokensConfig) {
			exchanges(c)
			for i := range 3 {
				c.Platforms[i].Issuer = platformIssuer
			}
		})
		if got, err := tokens.Token(t.Context(), account(driver)); !dispatch.Is(err, dispatch.Misconfigured) || got != (dispatch.Token{}) {
			t.Errorf("%s: %v", driver, err)
		}
	}
}

// TestNoExchangeRaces: 100 workers of one user and a cold cache make one exchange with each driver (case 93), and
// users do not wait for each other where no link can be lost.
func TestNoExchangeRaces(t *testing.T) {
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
				tokens.Offer(user, subjectToken, time.Now().Add(time.Hour))
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
