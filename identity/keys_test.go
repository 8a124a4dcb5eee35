//go:debug rsa1024min=0

package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/eodispatch/eodispatch/dispatch"
)

// tokenNow signs a token that is valid at the present time.
func tokenNow(kid string) dispatch.Secret {
	return dispatch.Secret(sign(fields{"alg": "ES256", "kid": kid}.json(), bearer(time.Now()).json(), ecKey()))
}

func mustVerify(t *testing.T, v *Verifier, token dispatch.Secret) {
	t.Helper()
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
}

// Case 34.
func TestKeys_Flood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		v := runningVerifier(t, p)
		good := strings.Split(tokenNow("ec").Reveal(), ".")
		var senders sync.WaitGroup
		for sender := range 10 { // 100 of each kind in 10 s, each
			senders.Go(func() {
				for i := range 100 {
					unknown := tokenNow(fmt.Sprintf("random-%d-%d", sender, i)).Reveal()
					payload := base64.RawURLEncoding.EncodeToString(
						[]byte(bearer(time.Now()).but(fields{"jti": fmt.Sprint(sender, i)}).json()))
					for _, bad := range []string{unknown, good[0] + "." + payload + "." + good[2]} {
						_, err := v.Verify(t.Context(), dispatch.Secret(bad))
						refused(t, err, bad)
					}
					mustVerify(t, v, tokenNow("ec"))
					time.Sleep(99 * time.Millisecond)
				}
			})
		}
		senders.Wait()
		if n := p.count(pathKeys) + p.count(pathDiscovery) - 1; n > 2 {
			t.Errorf("%d fetches of the keys", n)
		}
	})
}

// Case 35, also while others send unknown keys.
func TestKeys_Rotation(t *testing.T) {
	for _, flood := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeProvider()
			v := runningVerifier(t, p)
			mustVerify(t, v, tokenNow("ec"))
			time.Sleep(minFetch)
			if flood {
				_, err := v.Verify(t.Context(), tokenNow("attack"))
				refused(t, err, "")
			}
			rotated := time.Now()
			p.publish(jose.JSONWebKey{Key: ecKey().Public(), KeyID: "new"})
			for {
				if _, err := v.Verify(t.Context(), tokenNow("new")); err == nil {
					break
				}
				if time.Since(rotated) > minFetch {
					t.Fatal("the new key is not taken in time")
				}
				time.Sleep(500 * time.Millisecond)
			}
			if waited := time.Since(rotated); !flood && waited != 0 {
				t.Errorf("taken after %v", waited)
			}
		})
	}
}

// Case 36, also for tokens that were verified before, with and without requests meanwhile.
func TestKeys_Withdrawn(t *testing.T) {
	for _, every := range []time.Duration{time.Second, maxKeyAge} {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeProvider()
			v := runningVerifier(t, p)
			long := dispatch.Secret(sign(`{"alg":"ES256","kid":"ec"}`,
				bearer(time.Now()).but(fields{"exp": time.Now().Add(24 * time.Hour).Unix()}).json(), ecKey()))
			mustVerify(t, v, long)
			p.publish(jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "rsa"})
			for begin := time.Now(); time.Since(begin) < maxKeyAge; time.Sleep(every) {
				_, _ = v.Verify(t.Context(), long)
			}
			_, err := v.Verify(t.Context(), long)
			refused(t, err, long.Reveal())
		})
	}
}

// Case 37. Whatever is wrong with the provider, known keys are used until they are stale; then the error is that the
// provider is down, not that the token is bad.
func TestKeys_Unavailable(t *testing.T) {
	redirect := reply(302, "")
	redirect.Header.Set("Location", "https://attacker.test/keys")
	for name, bad := range map[string]func(*http.Request) (*http.Response, error){
		"refuses connections": down,
		"500":                 always(500, "{}"),
		"hangs":               hang,
		"10 MB":               always(200, `{"keys":[`+strings.Repeat(" ", 10<<20)+`]}`),
		"redirect":            func(*http.Request) (*http.Response, error) { return redirect, nil },
		"HTML":                always(200, "<html>"),
		"no keys":             always(200, `{"keys":[]}`),
		"keys of no use":      always(200, `{"keys":[{"kty":"oct","k":"AAAA"},{"kty":"RSA"},7]}`),
		"null":                always(200, `null`),
	} {
		t.Run("37 "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFakeProvider()
				v := runningVerifier(t, p)
				mustVerify(t, v, tokenNow("ec"))
				p.set(pathKeys, bad)
				begin := time.Now()
				slow := 0
				for time.Since(begin) < maxKeyStale-fetchTimeout {
					asked := time.Now()
					mustVerify(t, v, tokenNow("ec"))
					if time.Since(asked) > 0 {
						slow++
					}
					_, err := v.Verify(t.Context(), tokenNow("unknown"))
					refused(t, err, "")
					time.Sleep(31 * time.Second)
				}
				if slow > 0 {
					t.Errorf("%d requests with a known key waited", slow)
				}
				time.Sleep(2 * fetchTimeout)
				_, err := v.Verify(t.Context(), tokenNow("ec"))
				if !dispatch.Is(err, dispatch.Unavailable) {
					t.Errorf("stale keys: %v", err)
				}
				if p.hosts["attacker.test"] {
					t.Error("followed the redirect")
				}
				p.set(pathKeys, nil)
				time.Sleep(minFetch)
				mustVerify(t, v, tokenNow("ec"))
			})
		})
	}
}

// Case 38.
func TestKeys_ProviderDownAtStart(t *testing.T) {
	for name, bad := range map[string]func(*http.Request) (*http.Response, error){
		"down": down, "hangs": hang, "another issuer": always(200,
			`{"issuer":"https://other.test","jwks_uri":"https://sign-in.test/realms/apex/certs"}`),
		"keys over http": always(200, `{"issuer":"`+issuer+`","jwks_uri":"http://sign-in.test/realms/apex/certs"}`),
		"keys nowhere":   always(200, `{"issuer":"`+issuer+`"}`),
	} {
		t.Run("38 "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFakeProvider()
				p.set(pathDiscovery, bad)
				v := runningVerifier(t, p)
				if err := v.Probe(t.Context()); !dispatch.Is(err, dispatch.Unavailable) {
					t.Errorf("probe: %v", err)
				}
				for range 100 {
					if _, err := v.Verify(t.Context(), tokenNow("ec")); !dispatch.Is(err, dispatch.Unavailable) {
						t.Errorf("verify: %v", err)
					}
				}
				if n := p.count(pathDiscovery); n > 2 {
					t.Errorf("asked %d times", n)
				}
				p.set(pathDiscovery, nil)
				time.Sleep(minFetch)
				if err := v.Probe(t.Context()); err != nil {
					t.Error(err)
				}
				mustVerify(t, v, tokenNow("ec"))
			})
		})
	}
}

// A caller does not wait longer than its request.
func TestKeys_WaitingEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		p.set(pathDiscovery, hang)
		v := runningVerifier(t, p)
		ctx, cancel := contextFor(t, time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := v.Verify(ctx, tokenNow("ec")); !dispatch.Is(err, dispatch.Unavailable) {
			t.Error(err)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("waited %v", took)
		}
		time.Sleep(fetchTimeout) // the fetch itself goes on
	})
}

// The address of the keys is discovered again after a failure.
func TestKeys_Moved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		v := runningVerifier(t, p)
		mustVerify(t, v, tokenNow("ec"))
		p.set(pathKeys, always(404, ""))
		key := string(must(jose.JSONWebKey{Key: ecKey().Public(), KeyID: "new"}.MarshalJSON()))
		p.set("/moved", always(200, `{"keys":[`+key+`]}`))
		p.set(pathDiscovery, always(200, `{"issuer":"`+issuer+`","jwks_uri":"https://sign-in.test/moved"}`))
		for range 2 {
			time.Sleep(minFetch)
			_, _ = v.Verify(t.Context(), tokenNow("new"))
		}
		mustVerify(t, v, tokenNow("new"))
	})
}

// A published key that is not for signatures, or too weak, verifies nothing.
func TestKeys_Unusable(t *testing.T) {
	weak := must(rsa.GenerateKey(rand.Reader, 1024))
	for name, test := range map[string]struct {
		key   jose.JSONWebKey
		token string
	}{
		"for encryption": {jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "x", Use: "enc"},
			rsHeader(fields{"kid": "x"})},
		"1024 bits": {jose.JSONWebKey{Key: weak.Public(), KeyID: "x"},
			sign(rs256.but(fields{"kid": "x"}).json(), bearer(noon).json(), weak)},
		"private": {jose.JSONWebKey{Key: rsaKey(), KeyID: "x"}, rsHeader(fields{"kid": "x"})},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakeProvider()
			p.publish(test.key, jose.JSONWebKey{Key: ecKey().Public(), KeyID: "ec"})
			_, err := verifierAt(t, p, noon, nil).Verify(t.Context(), dispatch.Secret(test.token))
			refused(t, err, test.token)
		})
	}
}

// Case 80, for verified tokens and users.
func TestVerifier_BoundsMemory(t *testing.T) {
	const many = 100_000
	before := heap()
	verifiedTokens := newLRU[int, verified](maxVerified)
	for i := range many {
		verifiedTokens.Add(i, verified{claims: claims{subject: fmt.Sprint(i)}})
	}
	if _, ok := verifiedTokens.Get(many - 1); !ok || verifiedTokens.Len() != maxVerified {
		t.Errorf("%d tokens are kept", verifiedTokens.Len())
	}
	users := newSubjects(time.Now)
	for i := range many {
		users.store(dispatch.UserID(fmt.Sprint("user ", i)), subject{dispatch.Secret(strings.Repeat("t", 1000)),
			time.Now().Add(time.Hour)})
	}
	if users.held.Len() != maxSubjects {
		t.Errorf("%d users are kept", users.held.Len())
	}
	if grown := heap() - before; grown > 40<<20 {
		t.Errorf("%d MiB more", grown>>20)
	}
	runtime.KeepAlive(verifiedTokens)
	runtime.KeepAlive(users)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
