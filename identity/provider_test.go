package identity

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"github.com/eodispatch/eodispatch/platform/upstream"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	issuer   = "https://sign-in.test/realms/apex"
	audience = "eodispatch-api"
)

var (
	rsaKey   = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	otherRSA = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	ecKey    = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fields is a JSON object.
type fields map[string]any

// but returns the fields with some changed; nil removes one.
func (f fields) but(changes fields) fields {
	f = maps.Clone(f)
	for name, v := range changes {
		if f[name] = v; v == nil {
			delete(f, name)
		}
	}
	return f
}

func (f fields) json() string { return string(must(json.Marshal(f))) }

// bearer is the payload of a valid token as Keycloak writes it.
func bearer(now time.Time) fields {
	return fields{"iss": issuer, "aud": []string{audience, "account"}, "sub": "alice-1", "typ": "Bearer",
		"azp": "portal",
		"exp": now.Add(5 * time.Minute).Unix(), "iat": now.Unix(), "jti": "onrtro:1", "sid": "s", "name": "Alice",
		"preferred_username": "alice"}
}

var rs256 = fields{"alg": "RS256", "typ": "JWT", "kid": "rsa"}

// sign returns a token in compact serialization. Header and payload may be anything.
func sign(header, payload string, key any) string {
	input := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(payload))
	var h struct{ Alg string }
	_ = json.Unmarshal([]byte(header), &h)
	return input + "." + base64.RawURLEncoding.EncodeToString(signature(h.Alg, input, key))
}

func signature(alg, input string, key any) []byte {
	sum := sha256.Sum256([]byte(input))
	switch alg {
	case "RS256":
		return must(rsa.SignPKCS1v15(nil, key.(*rsa.PrivateKey), crypto.SHA256, sum[:]))
	case "RS512":
		long := sha512.Sum512([]byte(input))
		return must(rsa.SignPKCS1v15(nil, key.(*rsa.PrivateKey), crypto.SHA512, long[:]))
	case "PS256":
		return must(rsa.SignPSS(rand.Reader, key.(*rsa.PrivateKey), crypto.SHA256, sum[:],
			&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}))
	case "ES256":
		r, s, err := ecdsa.Sign(rand.Reader, key.(*ecdsa.PrivateKey), sum[:])
		must(0, err)
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case "HS256":
		mac := hmac.New(sha256.New, key.([]byte))
		mac.Write([]byte(input))
		return mac.Sum(nil)
	}
	return nil
}

// fakeProvider is an identity provider and the whole network: it is its own http.RoundTripper.
type fakeProvider struct {
	mu       sync.Mutex
	keys     []jose.JSONWebKey
	calls    map[string]int // by path
	hosts    map[string]bool
	override map[string]func(*http.Request) (*http.Response, error)
	token    func(url.Values) *http.Response
}

const (
	pathDiscovery = "/realms/apex/.well-known/openid-configuration"
	pathKeys      = "/realms/apex/certs"
	pathToken     = "/realms/apex/token"
)

func newFakeProvider() *fakeProvider {
	p := &fakeProvider{calls: map[string]int{}, hosts: map[string]bool{},
		override: map[string]func(*http.Request) (*http.Response, error){}}
	p.publish(jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "rsa", Use: "sig", Algorithm: "RS256"},
		jose.JSONWebKey{Key: ecKey().Public(), KeyID: "ec", Use: "sig"})
	return p
}

func (p *fakeProvider) publish(keys ...jose.JSONWebKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = keys
}

// set replaces the provider's response at a path; nil restores it.
func (p *fakeProvider) set(path string, f func(*http.Request) (*http.Response, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.override[path] = f
}

func (p *fakeProvider) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[path]
}

func (p *fakeProvider) client() *upstream.Client {
	return upstream.New(upstream.Config{Transport: p, Development: true})
}

func (p *fakeProvider) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.calls[r.URL.Path]++
	p.hosts[r.URL.Host] = true
	override, keys := p.override[r.URL.Path], p.keys
	p.mu.Unlock()
	if override != nil {
		return override(r)
	}
	switch r.URL.Path {
	case pathDiscovery:
		return reply(200, fields{"issuer": issuer, "jwks_uri": "https://sign-in.test" + pathKeys,
			"token_endpoint": "https://sign-in.test" + pathToken}.json()), nil
	case pathKeys:
		return reply(200, string(must(json.Marshal(jose.JSONWebKeySet{Keys: keys})))), nil
	case pathToken:
		form, err := url.ParseQuery(string(must(io.ReadAll(r.Body))))
		if err != nil || r.Method != http.MethodPost || r.URL.RawQuery != "" {
			return reply(400, `{"error":"invalid_request"}`), nil
		}
		return p.token(form), nil
	}
	return reply(404, "no such page"), nil
}

func reply(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewBufferString(body))}
}

func always(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return reply(status, body), nil }
}

func down(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("connection refused") }

// hang does not respond until the client gives up.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
