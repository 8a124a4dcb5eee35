package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/eodispatch/eodispatch/dispatch"
)

// inPEM returns a private key in PEM as openssl writes it.
func inPEM(key any) dispatch.Secret {
	return dispatch.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY",
		Bytes: must(x509.MarshalPKCS8PrivateKey(key))}))
}

// Case 101, private_key_jwt. The client signs a new assertion for each request, for one provider and for one minute,
// and sends no secret.
func TestClientAuth_ByKey(t *testing.T) {
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsa1 := rsaKey()
	for algorithm, key := range map[jose.SignatureAlgorithm]struct{ private, public any }{
		jose.RS256: {rsa1, rsa1.Public()}, jose.ES256: {ecKey(), ecKey().Public()}, jose.EdDSA: {edKey, edKey.Public()},
	} {
		seen := map[string]bool{}
		check := func(form url.Values, client, audience string) {
			t.Helper()
			if form.Has("client_secret") || form.Get("client_id") != client ||
				form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
				t.Errorf("%s: sent %v", algorithm, form)
			}
			signed, err := jose.ParseSignedCompact(form.Get("client_assertion"), []jose.SignatureAlgorithm{algorithm})
			if err != nil {
				t.Fatal(err)
			}
			payload, err := signed.Verify(key.public)
			if err != nil {
				t.Fatal(err)
			}
			var claims struct {
				Iss, Sub, Aud, Jti string
				Iat, Exp           int64
			}
			if err := json.Unmarshal(payload, &claims); err != nil {
				t.Fatal(err)
			}
			if claims.Iss != client || claims.Sub != client || claims.Aud != audience || claims.Exp-claims.Iat != 60 ||
				seen[claims.Jti] {
				t.Errorf("%s: %s", algorithm, payload)
			}
			seen[claims.Jti] = true
		}
		p, sent := twoProviders(t, nil)
		tokens := newTokens(t, p, func(c *TokensConfig) {
			exchanges(c)
			c.ClientSecret, c.ClientKey = "", inPEM(key.private)
			c.Platforms[3].Exchange.ClientSecret, c.Platforms[3].Exchange.ClientKey = "", inPEM(key.private)
			c.Platforms = append(c.Platforms, Platform{Name: "shared", Access: dispatch.AccessShared,
				Account: ServiceAccount{
					TokenURL: "https://sign-in.test" + pathToken, ClientID: "service", ClientKey: inPEM(key.private)}})
		})
		for _, a := range []dispatch.Account{account("keycloak-broker"), account("jwt-grant"), "shared/shared"} {
			if _, err := tokens.Token(t.Context(), a); err != nil {
				t.Error(err)
			}
			switch a {
			case "shared/shared":
				check(sent[pathToken], "service", "https://sign-in.test"+pathToken)
			case account("jwt-grant"):
				check(sent[pathToken], audience, issuer)
				check(sent[pathPlatformToken], "service", platformIssuer)
			default:
				check(sent[pathBroker], audience, issuer)
			}
		}
	}
}

func TestClientAuth_RefusesWrongKeys(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]dispatch.Secret{
		"not PEM": "canary", "a certificate": "-----BEGIN CERTIFICATE-----\nY2FuYXJ5\n-----END CERTIFICATE-----\n",
		"too short": inPEM(small), "another curve": inPEM(wide),
		"public": dispatch.Secret(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY",
			Bytes: must(x509.MarshalPKIXPublicKey(ecKey().Public()))})),
	} {
		_, err := newClientAuth("a", "", key)
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, wrong := range [][3]dispatch.Secret{{"", "s", ""}, {"a", "", ""}, {"a", "s", inPEM(ecKey())}} {
		if _, err := newClientAuth(wrong[0].Reveal(), wrong[1], wrong[2]); err == nil {
			t.Errorf("%q, a secret %v, a key %v are taken", wrong[0].Reveal(), wrong[1] != "", wrong[2] != "")
		}
	}
	pkcs1 := dispatch.Secret(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(rsaKey())}))
	sec1 := dispatch.Secret(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY",
		Bytes: must(x509.MarshalECPrivateKey(ecKey()))}))
	for _, key := range []dispatch.Secret{pkcs1, sec1} {
		if _, err := newClientAuth("a", "", key); err != nil {
			t.Error(err)
		}
	}
}

// A provider that redirects requests with the client's authentication is misconfigured.
func TestClient_FollowsNoRedirect(t *testing.T) {
	for _, driver := range []string{"keycloak-broker", "keycloak-requested-issuer", "token-exchange", "jwt-grant"} {
		away := func() (*http.Response, error) {
			r := reply(307, "")
			r.Header.Set("Location", "https://elsewhere.test/token")
			return r, nil
		}
		p, _ := twoProviders(t, map[string]func() (*http.Response, error){pathBroker: away, pathToken: away,
			pathPlatformToken: away})
		begin := time.Now()
		_, err := newTokens(t, p, exchanges).Token(t.Context(), account(driver))
		if !dispatch.Is(err, dispatch.Misconfigured) || p.hosts["elsewhere.test"] {
			t.Errorf("%s after %v: %v, asked %v", driver, time.Since(begin), err, p.hosts)
		}
	}
}
