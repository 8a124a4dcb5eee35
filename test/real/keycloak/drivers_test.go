package keycloak

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"github.com/eodispatch/eodispatch/test/executable"
)

func TestMain(m *testing.M) {
	code := Run(m)
	executable.CleanUp()
	os.Exit(code)
}

// must ends the test if err is not nil. It is for steps that only prepare what is tested.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// signIn returns an access token that a user of the realm apex obtained through a client.
func signIn(t *testing.T, s *Server, user, client string) dispatch.Secret {
	t.Helper()
	token, err := s.SignIn(user, client)
	must(t, err)
	return dispatch.Secret(token)
}

// settings returns the configuration of the platform P with a driver, as an operator sets it up. The driver "client
// credentials" stands for shared access by a service account.
func settings(driver string) identity.TokensConfig {
	p := identity.Platform{Name: "P", Access: dispatch.AccessUser, Issuer: Platform, Link: "https://broker.test/link/P",
		Exchange: identity.Exchange{Driver: driver}}
	switch driver {
	case "keycloak-broker", "keycloak-requested-issuer":
		p.Exchange.Alias = "platform"
	case "token-exchange":
		p.Exchange.Audience, p.Issuer = "platform-api", Apex
	case "jwt-grant":
		p.Exchange.ClientID, p.Exchange.ClientSecret = "eodispatch-service", "eodispatch-service-secret"
	case "passthrough":
		p.Issuer = Apex
	case "client credentials":
		p.Access, p.Exchange = dispatch.AccessShared, identity.Exchange{}
		p.Account = identity.ServiceAccount{Issuer: Platform, ClientID: "eodispatch-service",
			ClientSecret: "eodispatch-service-secret"}
	}
	return identity.TokensConfig{Issuer: Apex, ClientID: "eodispatch-api", ClientSecret: "eodispatch-api-secret",
		Client: upstream.New(upstream.Config{Development: true}), Development: true, Platforms: []identity.Platform{p}}
}

// get returns the token of P that new Tokens obtain with a user's token.
func get(t *testing.T, c identity.TokensConfig, subject dispatch.Secret) (dispatch.Token, error) {
	t.Helper()
	tokens, err := identity.NewTokens(c)
	must(t, err)
	tokens.StoreUserToken(t.Context(), "u", subject, time.Now().Add(time.Hour))
	return tokens.Token(t.Context(), accountOf(c))
}

// accountOf returns the account at P: the shared one or that of the user u.
func accountOf(c identity.TokensConfig) dispatch.Account {
	if c.Platforms[0].Access == dispatch.AccessShared {
		return "P/shared"
	}
	return "P/u"
}

// wants checks the kind of an error and the beginning of its text. An error that the user resolves by linking their
// account must have the link to that page, and an error of another kind than SignInRequired must not ask the user to
// link.
func wants(t *testing.T, err error, kind dispatch.Kind, text string) {
	t.Helper()
	var e *dispatch.Error
	if !errors.As(err, &e) || e.Kind != kind || !strings.HasPrefix(e.Text, text) {
		t.Errorf("want an error of kind %v whose text begins with %q: %v", kind, text, err)
		return
	}
	t.Logf("%v: %v", e.Kind, e.Err)
	if e.Kind == dispatch.SignInRequired && strings.Contains(text, "ink ") && e.Link != "https://broker.test/link/P" {
		t.Errorf("the error has the link %q, want https://broker.test/link/P", e.Link)
	}
	if e.Kind != dispatch.SignInRequired && (e.Link != "" || strings.Contains(e.Text, "ink your")) {
		t.Errorf("the text or link is for a user who cannot resolve the error: %q", e.Text)
	}
}

// claims returns claims of a JWT without verifying it.
func claims(t *testing.T, token dispatch.Secret) (is struct {
	Issuer string `json:"iss"`
	Party  string `json:"azp"`
	User   string `json:"preferred_username"`
}) {
	t.Helper()
	must(t, json.Unmarshal(payload(t, token), &is))
	return is
}

// payload returns the payload of a JWT, in JSON.
func payload(t *testing.T, token dispatch.Secret) []byte {
	t.Helper()
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 {
		t.Fatal("the token is not a JWT")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	must(t, err)
	return raw
}

const (
	linkIt              = "Link your account at P"
	linkLost            = "The link to your account at P has ended."
	again               = "Sign in again"
	misconfiguredAccess = "The access to P is not configured correctly."
	later               = "The identity provider for P does not issue tokens at the moment."
)

// renewing configures Keycloak to renew the stored token at every exchange, until the test ends.
func renewing(t *testing.T, s *Server) {
	must(t, s.Provider("platform", Object{"minValidityToken": "3600"}))
	t.Cleanup(func() { must(t, s.Provider("platform", Object{"minValidityToken": "5"})) })
}

// broken contains functions that start a token endpoint with a fault and return its address. The endpoint "hanging"
// never responds: the client must give up.
var broken = map[string]func(t *testing.T) (address string){
	"down": func(t *testing.T) string {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		return server.URL
	},
	"hanging": func(t *testing.T) string {
		over := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
			case <-over:
			}
		}))
		t.Cleanup(func() { close(over); server.Close() })
		return server.URL
	},
	"unreadable": func(t *testing.T) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>")
		}))
		t.Cleanup(server.Close)
		return server.URL
	},
}

// troubled returns broken and an endpoint that responds 503. If a platform's endpoint does so, Keycloak treats the
// stored token as refused; therefore broken does not contain it.
func troubled() map[string]func(t *testing.T) string {
	all := maps.Clone(broken)
	all["overloaded"] = func(t *testing.T) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>", http.StatusServiceUnavailable)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	return all
}

// detour is a transport that sends POST requests for a realm to the host of another address, and waits up to within for
// the header of each response.
type detour struct {
	realm, address string
	within         time.Duration
}

func (d detour) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/realms/"+d.realm+"/") && r.Method == http.MethodPost {
		to, err := url.Parse(d.address)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.URL.Host, r.Host = to.Host, to.Host
	}
	by := http.DefaultTransport.(*http.Transport).Clone()
	by.ResponseHeaderTimeout, by.DisableKeepAlives = d.within, true
	return by.RoundTrip(r)
}

// TestDrivers_LinkedAccounts tests the two drivers that use the token which Keycloak stores for a linked account.
func TestDrivers_LinkedAccounts(t *testing.T) {
	s := Start(t)
	must(t, s.Link("alice"))
	alice, bob := signIn(t, s, "alice", "portal"), signIn(t, s, "bob", "portal")
	for _, driver := range []string{"keycloak-broker", "keycloak-requested-issuer"} {
		t.Run(driver, func(t *testing.T) {
			good := settings(driver)
			t.Run("success", func(t *testing.T) {
				got, err := get(t, good, alice)
				must(t, err)
				if is := claims(t, got.Secret); is.Issuer != Platform || is.User != "alice-p" ||
					is.Party != "apex-broker" {
					t.Errorf("claims of the token: %+v", is)
				}
			})
			t.Run("never linked", func(t *testing.T) {
				_, err := get(t, good, bob)
				wants(t, err, dispatch.SignInRequired, linkIt)
			})
			t.Run("listed as linked", func(t *testing.T) { // by an administrator or an import, without a stored token
				must(t, s.LinkByAdmin("apex", "bob", "platform", "platform", "bob-p"))
				defer func() { must(t, s.Unlink("apex", "bob", "platform")) }()
				_, err := get(t, good, bob)
				wants(t, err, dispatch.SignInRequired, linkIt)
			})
			t.Run("link taken back", func(t *testing.T) {
				must(t, s.Link("carol"))
				must(t, s.Unlink("apex", "carol", "platform"))
				_, err := get(t, good, signIn(t, s, "carol", "portal"))
				wants(t, err, dispatch.SignInRequired, linkIt)
			})
			t.Run("link lost", func(t *testing.T) {
				must(t, s.Link("carol"))
				must(t, s.LogOut("platform", "carol-p"))
				renewing(t, s)
				carol := signIn(t, s, "carol", "portal")
				_, err := get(t, good, carol)
				wants(t, err, dispatch.SignInRequired, linkLost)
				_, err = get(t, good, carol)
				wants(t, err, dispatch.SignInRequired, linkIt)
			})
			for name, break_ := range broken {
				t.Run("provider "+name, func(t *testing.T) {
					renewing(t, s)
					real := Platform + "/protocol/openid-connect/token"
					must(t, s.Provider("platform", Object{"tokenUrl": break_(t)}))
					_, err := get(t, good, alice)
					wants(t, err, dispatch.Unavailable, later)
					must(t, s.Provider("platform", Object{"tokenUrl": real}))
					if _, err := get(t, good, alice); err != nil {
						t.Errorf("the link was lost: %v", err)
					}
				})
			}
			// The legacy exchange reports some of the operator's mistakes as an outage or as a missing link.
			for name, row := range map[string]struct {
				config         Object
				broker, legacy dispatch.Kind
			}{
				"provider disabled": {Object{"enabled": false}, dispatch.Misconfigured, dispatch.Unavailable},
				"tokens not stored": {Object{"storeToken": false}, dispatch.Misconfigured, dispatch.SignInRequired},
			} {
				t.Run(name, func(t *testing.T) {
					must(t, s.Provider("platform", row.config))
					defer func() { must(t, s.Provider("platform", Object{"enabled": true, "storeToken": true})) }()
					want := row.broker
					if driver == "keycloak-requested-issuer" {
						want = row.legacy
					}
					_, err := get(t, good, alice)
					wants(t, err, want, "")
				})
			}
			commonFaults(t, s, good, alice)
			t.Run("client not allowed", func(t *testing.T) {
				c := good
				c.ClientID, c.ClientSecret = "plain-api", "plain-api-secret"
				_, err := get(t, c, alice)
				wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
			})
			t.Run("unknown alias", func(t *testing.T) {
				c := settings(driver)
				c.Platforms[0].Exchange.Alias = "nowhere"
				_, err := get(t, c, alice)
				wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
			})
			t.Run("another's issuer", func(t *testing.T) {
				c := settings(driver)
				c.Platforms[0].Issuer = "https://other.test"
				_, err := get(t, c, alice)
				wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
			})
		})
	}
}

var (
	expiredOnce  sync.Once
	expiredToken string
	expiredError error
)

// expired returns an access token of alice after its lifetime of 2 s. The first call requests it, and all others return
// the same.
func expired(s *Server) (dispatch.Secret, error) {
	expiredOnce.Do(func() {
		expiredToken, expiredError = s.SignIn("alice", "portal-brief")
		<-time.After(3100 * time.Millisecond) // Keycloak counts whole seconds
	})
	return dispatch.Secret(expiredToken), expiredError
}

// commonFaults tests the faults that are common to the drivers that send requests to the broker's own provider.
func commonFaults(t *testing.T, s *Server, good identity.TokensConfig, user dispatch.Secret) {
	t.Run("subject expired", func(t *testing.T) {
		token, err := expired(s)
		must(t, err)
		_, err = get(t, good, token)
		wants(t, err, dispatch.SignInRequired, again)
	})
	t.Run("signed out", func(t *testing.T) {
		token := signIn(t, s, "carol", "portal")
		must(t, s.LogOut("apex", "carol"))
		_, err := get(t, good, token)
		wants(t, err, dispatch.SignInRequired, again)
	})
	t.Run("user disabled", func(t *testing.T) { // case 99
		token := signIn(t, s, "carol", "portal")
		must(t, s.Enable("apex", "carol", false))
		defer func() { must(t, s.Enable("apex", "carol", true)) }()
		_, err := get(t, good, token)
		wants(t, err, dispatch.SignInRequired, again)
	})
	for name, subject := range map[string]url.Values{
		"another realm's": {"grant_type": {"client_credentials"}, "client_id": {"eodispatch-service"},
			"client_secret": {"eodispatch-service-secret"}},
		"a refresh token": {"grant_type": {"password"}, "client_id": {"portal"}, "username": {"alice"},
			"password": {"alice-password"}},
	} {
		t.Run("subject is "+name, func(t *testing.T) {
			realm, member := "platform", "access_token"
			if name == "a refresh token" {
				realm, member = "apex", "refresh_token"
			}
			answer, err := s.Token(realm, subject)
			must(t, err)
			_, err = get(t, good, dispatch.Secret(answer[member].(string)))
			wants(t, err, dispatch.SignInRequired, again)
		})
	}
	for name, client := range map[string][2]dispatch.Secret{"wrong secret": {"eodispatch-api", "wrong"},
		"unknown client": {"nobody", "eodispatch-api-secret"}} {
		t.Run(name, func(t *testing.T) {
			c := good
			c.ClientID, c.ClientSecret = client[0].Reveal(), client[1]
			_, err := get(t, c, user)
			wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
		})
	}
	for name, break_ := range troubled() {
		t.Run("own provider "+name, func(t *testing.T) {
			c := good
			c.Client = upstream.New(upstream.Config{Transport: detour{"apex", break_(t), time.Second},
				Development: true})
			_, err := get(t, c, user)
			wants(t, err, dispatch.Unavailable, later)
		})
	}
}

// TestDrivers_TokenExchange tests the driver that exchanges the user's token for one of another audience at the
// broker's own provider.
func TestDrivers_TokenExchange(t *testing.T) {
	s := Start(t)
	alice := signIn(t, s, "alice", "portal")
	good := settings("token-exchange")
	t.Run("success", func(t *testing.T) {
		got, err := get(t, good, alice)
		must(t, err)
		if is := claims(t, got.Secret); is.Issuer != Apex || is.User != "alice" || is.Party != "eodispatch-api" {
			t.Errorf("claims of the token: %+v", is)
		}
	})
	commonFaults(t, s, good, alice)
	t.Run("client not allowed", func(t *testing.T) {
		c := good
		c.ClientID, c.ClientSecret = "plain-api", "plain-api-secret"
		_, err := get(t, c, alice)
		wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
	})
	for name, audience := range map[string]string{"unknown audience": "nowhere",
		"audience not available": "plain-api"} {
		t.Run(name, func(t *testing.T) {
			c := settings("token-exchange")
			c.Platforms[0].Exchange.Audience = audience
			_, err := get(t, c, alice)
			wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
		})
	}
	t.Run("token for another", func(t *testing.T) {
		_, err := get(t, good, signIn(t, s, "alice", "stranger"))
		wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
	})
}

// TestDrivers_JWTGrant tests the driver that presents a token of the broker's own provider as a JWT assertion to the
// platform's provider.
func TestDrivers_JWTGrant(t *testing.T) {
	s := Start(t)
	must(t, s.LinkByAdmin("platform", "alice-p", "apex", "apex", "alice"))
	must(t, s.LinkByAdmin("platform", "carol-p", "apex", "apex", "carol"))
	alice, bob, carol := signIn(t, s, "alice", "portal"), signIn(t, s, "bob", "portal"), signIn(t, s, "carol", "portal")
	good := settings("jwt-grant")
	t.Run("success", func(t *testing.T) {
		got, err := get(t, good, alice)
		must(t, err)
		if is := claims(t, got.Secret); is.Issuer != Platform || is.User != "alice-p" ||
			is.Party != "eodispatch-service" {
			t.Errorf("claims of the token: %+v", is)
		}
	})
	t.Run("never linked", func(t *testing.T) {
		_, err := get(t, good, bob)
		wants(t, err, dispatch.SignInRequired, linkIt)
	})
	t.Run("link lost", func(t *testing.T) {
		_, err := get(t, good, carol)
		must(t, err)
		must(t, s.Unlink("platform", "carol-p", "apex"))
		_, err = get(t, good, carol)
		wants(t, err, dispatch.SignInRequired, linkIt)
	})
	commonFaults(t, s, good, alice)
	t.Run("client not allowed", func(t *testing.T) {
		c := settings("jwt-grant")
		c.Platforms[0].Exchange.ClientID, c.Platforms[0].Exchange.ClientSecret = "platform-api", "platform-api-secret"
		_, err := get(t, c, alice)
		wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
	})
	t.Run("unknown audience", func(t *testing.T) {
		c := settings("jwt-grant")
		c.Platforms[0].Exchange.Audience = "nowhere"
		_, err := get(t, c, alice)
		wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
	})
	t.Run("another audience", func(t *testing.T) {
		c := settings("jwt-grant")
		c.Platforms[0].Exchange.Audience = "platform-api"
		_, err := get(t, c, alice)
		wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
	})
	t.Run("wrong secret at the platform", func(t *testing.T) {
		c := settings("jwt-grant")
		c.Platforms[0].Exchange.ClientSecret = "wrong"
		_, err := get(t, c, alice)
		wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
	})
	for name, break_ := range troubled() {
		t.Run("provider "+name, func(t *testing.T) {
			c := good
			c.Client = upstream.New(upstream.Config{Transport: detour{"platform", break_(t), time.Second},
				Development: true})
			_, err := get(t, c, alice)
			wants(t, err, dispatch.Unavailable, later)
		})
	}
}

// TestDrivers_Passthrough tests the driver that sends the user's own token, until it has expired.
func TestDrivers_Passthrough(t *testing.T) {
	s := Start(t)
	alice := signIn(t, s, "alice", "portal")
	got, err := get(t, settings("passthrough"), alice)
	if err != nil || got.Secret != alice || got.Issuer != Apex {
		t.Errorf("want the user's own token: issuer %v, error %v", got.Issuer, err)
	}
	tokens, err := identity.NewTokens(settings("passthrough"))
	must(t, err)
	over, err := expired(s)
	must(t, err)
	tokens.StoreUserToken(t.Context(), "u", over, time.Now())
	_, err = tokens.Token(t.Context(), "P/u")
	wants(t, err, dispatch.SignInRequired, again)
}

// TestDrivers_ClientCredentials tests the shared access by a service account.
func TestDrivers_ClientCredentials(t *testing.T) {
	Start(t)
	good := settings("client credentials")
	got, err := get(t, good, "")
	must(t, err)
	if is := claims(t, got.Secret); is.Issuer != Platform || is.User != "service-account-eodispatch-service" {
		t.Errorf("claims of the token: %+v", is)
	}
	for name, change := range map[string]func(*identity.ServiceAccount){
		"wrong secret":   func(a *identity.ServiceAccount) { a.ClientSecret = "wrong" },
		"unknown client": func(a *identity.ServiceAccount) { a.ClientID = "nobody" },
		"client not allowed": func(a *identity.ServiceAccount) {
			a.ClientID, a.ClientSecret = "apex-broker", "apex-broker-secret"
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := settings("client credentials")
			change(&c.Platforms[0].Account)
			_, err := get(t, c, "")
			wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
		})
	}
	for name, break_ := range troubled() {
		t.Run("provider "+name, func(t *testing.T) {
			c := good
			c.Client = upstream.New(upstream.Config{Transport: detour{"platform", break_(t), time.Second},
				Development: true})
			_, err := get(t, c, "")
			wants(t, err, dispatch.Unavailable, later)
		})
	}
}

// TestCheck_OfEachDriver tests which faults of the configuration Check finds without a user, and which it reports as
// not tried.
func TestCheck_OfEachDriver(t *testing.T) {
	s := Start(t)
	check := func(c identity.TokensConfig) (string, error) {
		tokens, err := identity.NewTokens(c)
		must(t, err)
		return tokens.Check(t.Context(), "P")
	}
	fails := func(c identity.TokensConfig) {
		t.Helper()
		_, err := check(c)
		wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
	}
	for _, driver := range append(identity.Drivers(), "client credentials") {
		if unproven, err := check(settings(driver)); err != nil || unproven != "" {
			t.Errorf("%s: Check returned %q %v", driver, unproven, err)
		}
		if driver == "passthrough" {
			continue
		}
		c := settings(driver)
		c.ClientSecret, c.Platforms[0].Account.ClientSecret = "wrong", "wrong"
		fails(c)
	}
	for _, driver := range []string{"keycloak-broker", "keycloak-requested-issuer"} {
		c := settings(driver)
		c.Platforms[0].Exchange.Alias = "nowhere"
		fails(c)
	}
	for _, driver := range []string{"token-exchange", "jwt-grant"} {
		c := settings(driver)
		c.Platforms[0].Exchange.Audience = "plain-api"
		fails(c)
	}
	grant := settings("jwt-grant")
	grant.Platforms[0].Exchange.ClientSecret = "wrong"
	fails(grant)
	// this client may not present assertions
	grant.Platforms[0].Exchange.ClientID, grant.Platforms[0].Exchange.ClientSecret = "platform-api",
		"platform-api-secret"
	fails(grant)

	// With three of the four drivers, only a request with a token shows that a client may not exchange tokens. Without
	// a service account, the client cannot get a token, and Check reports the permission as not tried.
	mayNot := func(driver string) identity.TokensConfig {
		c := settings(driver)
		c.ClientID, c.ClientSecret = "plain-api", "plain-api-secret"
		return c
	}
	fails(mayNot("keycloak-broker"))
	asks := []string{"keycloak-requested-issuer", "token-exchange", "jwt-grant"}
	for _, driver := range asks {
		if unproven, err := check(mayNot(driver)); err != nil || unproven == "" {
			t.Errorf("%s, client not allowed and without a service account: Check returned %q %v", driver, unproven,
				err)
		}
	}
	must(t, s.Client("plain-api", nil, Object{"serviceAccountsEnabled": true}))
	t.Cleanup(func() { must(t, s.Client("plain-api", nil, Object{"serviceAccountsEnabled": false})) })
	for _, driver := range asks {
		fails(mayNot(driver))
	}
}

// TestDrivers_ClientByKey authenticates the broker's client by assertions that it signs with its key, at both endpoints
// (case 101).
func TestDrivers_ClientByKey(t *testing.T) {
	s := Start(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	public, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1",
		Algorithm: "ES256", Use: "sig"}}})
	must(t, err)
	must(t, s.Client("eodispatch-api", Object{"use.jwks.string": "true", "jwks.string": string(public)},
		Object{"clientAuthenticatorType": "client-jwt"}))
	t.Cleanup(func() {
		must(t, s.Client("eodispatch-api", nil, Object{"clientAuthenticatorType": "client-secret"}))
	})
	must(t, s.Link("alice"))
	for _, driver := range []string{"keycloak-broker", "keycloak-requested-issuer", "token-exchange"} {
		c := settings(driver)
		c.ClientSecret, c.ClientKey = "", dispatch.Secret(
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
		for range 2 { // an assertion can be used only once
			if _, err := get(t, c, signIn(t, s, "alice", "portal")); err != nil {
				t.Errorf("%s: %v", driver, err)
			}
		}
		_, err := get(t, settings(driver), signIn(t, s, "alice", "portal")) // with the client's secret
		wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
	}
}

// TestVerifier_WithKeycloak checks that the verifier refuses a token that another client of the realm obtained.
// Keycloak's legacy exchange itself accepts such a token.
func TestVerifier_WithKeycloak(t *testing.T) {
	s := Start(t)
	verifier, err := identity.NewVerifier(identity.Config{Issuer: Apex, Audience: []string{"eodispatch-api"},
		Client: upstream.New(upstream.Config{Development: true}), Development: true})
	must(t, err)
	caller, err := verifier.Verify(t.Context(), signIn(t, s, "alice", "portal"))
	if err != nil || caller.Issuer != Apex || caller.Name == "" {
		t.Errorf("caller %q of issuer %q: %v", caller.Name, caller.Issuer, err)
	}
	if _, err := verifier.Verify(t.Context(), signIn(t, s, "alice", "stranger")); !errors.Is(err,
		identity.ErrUnauthenticated) {
		t.Errorf("want ErrUnauthenticated for a token of another client: %v", err)
	}
	must(t, s.Link("alice"))
	if _, err := get(t, settings("keycloak-requested-issuer"), signIn(t, s, "alice", "stranger")); err != nil {
		t.Errorf("the legacy exchange now refuses a token of another client: %v", err)
	}
	_, err = get(t, settings("keycloak-broker"), signIn(t, s, "alice", "stranger"))
	wants(t, err, dispatch.Misconfigured, misconfiguredAccess)
}
