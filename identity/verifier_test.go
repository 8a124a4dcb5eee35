package identity

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// verifierAt returns a verifier with a fixed clock.
func verifierAt(t testing.TB, p *fakeProvider, now time.Time, change func(*Config)) *Verifier {
	t.Helper()
	c := Config{Issuer: issuer, Audience: []string{audience, "second-name"}, Client: p.client(),
		Now: func() time.Time { return now }}
	if change != nil {
		change(&c)
	}
	v, err := NewVerifier(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func rsToken(changes fields) string {
	return sign(rs256.json(), bearer(noon).but(changes).json(), rsaKey())
}

func rsHeader(changes fields) string {
	return sign(rs256.but(changes).json(), bearer(noon).json(), rsaKey())
}

func rsPayload(payload string) string { return sign(rs256.json(), payload, rsaKey()) }

// TestVerify_SubjectsAreTextsOfAnyScript: a subject is accepted as it is, and not normalized: two spellings of one name
// are two users.
func TestVerify_SubjectsAreTextsOfAnyScript(t *testing.T) {
	v := verifierAt(t, newFakeProvider(), noon, nil)
	for _, sub := range []string{"f:9e1d3a:j\u00fcrgen", "f:9e1d3a:ju\u0308rgen", "f:9e1d3a:\u5c71\u7530", "a b",
		strings.Repeat("\u00fc", 127)} {
		c, err := v.Verify(t.Context(), dispatch.Secret(rsToken(fields{"sub": sub})))
		if err != nil || c.Subject != sub || c.User != dispatch.UserID(issuer+" "+sub) {
			t.Errorf("%q: %q, %v", sub, c.Subject, err)
		}
	}
}

// TestVerify_SaysWhatASignInCannotMend, and only where that is the only fault.
func TestVerify_SaysWhatASignInCannotMend(t *testing.T) {
	v := verifierAt(t, newFakeProvider(), noon, nil)
	for name, test := range map[string]struct {
		token string
		want  error
	}{
		"no sub":                   {rsToken(fields{"sub": nil}), ErrNoSubject},
		"no sub and no azp":        {rsToken(fields{"sub": nil, "azp": nil}), ErrNoSubject},
		"no sub, another audience": {rsToken(fields{"sub": nil, "aud": "another"}), nil},
		"no sub, a client's own":   {rsToken(fields{"sub": nil, "clientHost": "192.0.2.1"}), nil},
		"no sub, an ID token":      {rsToken(fields{"sub": nil, "typ": "ID"}), nil},
		"no sub, signed by nobody": {sign(`{"alg":"none"}`, bearer(noon).but(fields{"sub": nil}).json(),
			nil) + "c2ln", nil},
		"sub with a control":         {rsToken(fields{"sub": "a\x00b"}), nil},
		"too long, not even a token": {strings.Repeat("x", MaxToken+1), ErrTooLong},
		"five hundred roles": {rsToken(fields{"realm_access": fields{
			"roles": slices.Repeat([]string{"role-of-some-length"}, 500)}}), ErrTooLong},
	} {
		_, err := v.Verify(t.Context(), dispatch.Secret(test.token))
		if !errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrNoSubject) != (test.want == ErrNoSubject) ||
			errors.Is(err, ErrTooLong) != (test.want == ErrTooLong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Verifiers{}).Verify(t.Context(), dispatch.Secret(strings.Repeat("x", MaxToken+1))); !errors.Is(err,
		ErrTooLong) {
		t.Errorf("with several issuers: %v", err)
	}
}

// Tokens that must be accepted.
func TestVerify_AcceptsGoodTokens(t *testing.T) {
	rsaOnly := jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "rsa"}
	for _, test := range []struct {
		name, token string
		config      func(*Config)
		publish     []jose.JSONWebKey
	}{
		{name: "Keycloak, RS256", token: rsToken(nil)},
		{name: "ES256", token: sign(`{"alg":"ES256","kid":"ec"}`, bearer(noon).json(), ecKey())},
		{name: "PS256", token: sign(`{"alg":"PS256","kid":"rsa"}`, bearer(noon).json(), rsaKey()),
			publish: []jose.JSONWebKey{rsaOnly}},
		{name: "no kid, one key", token: rsHeader(fields{"kid": nil}), publish: []jose.JSONWebKey{rsaOnly}},
		{name: "RFC 9068 without the claim typ",
			token: sign(rs256.but(fields{"typ": "at+jwt"}).json(),
				bearer(noon).but(fields{"typ": nil, "client_id": "portal"}).json(), rsaKey())},
		{name: "RFC 9068, full media type", token: rsHeader(fields{"typ": "application/AT+JWT"})},
		{name: "aud is one string", token: rsToken(fields{"aud": audience})},
		{name: "aud is the second of ours", token: rsToken(fields{"aud": []string{"x", "second-name"}})},
		{name: "no aud, azp is ours", token: rsToken(fields{"aud": nil, "azp": audience})},
		{name: "client admitted, another aud", config: func(c *Config) { c.Clients = []string{"portal"} },
			token: rsToken(fields{"aud": "another"})},
		{name: "client admitted, no aud", config: func(c *Config) { c.Clients = []string{"portal"} },
			token: rsToken(fields{"aud": nil})},
		{name: "client admitted by client_id", config: func(c *Config) { c.Clients = []string{"portal"} },
			token: rsToken(fields{"aud": "another", "azp": nil, "client_id": "portal"})},
		{name: "fractional times", token: rsToken(fields{"exp": float64(noon.Unix()) + 0.5,
			"iat": float64(noon.Unix()) - 0.5})},
		{name: "no iat, nbf 0", token: rsToken(fields{"iat": nil, "nbf": 0})},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newFakeProvider()
			if test.publish != nil {
				p.publish(test.publish...)
			}
			v := verifierAt(t, p, noon, test.config)
			for range 2 { // the second time from memory
				c, err := v.Verify(t.Context(), dispatch.Secret(test.token))
				if err != nil {
					t.Fatal(err)
				}
				if c.User != dispatch.UserID(issuer+" alice-1") || c.Issuer != issuer || c.Subject != "alice-1" ||
					c.Name != "Alice" || c.Token.Reveal() != test.token || c.Expires.Before(noon) {
					t.Errorf("caller %+v", c)
				}
			}
			if n := p.count(pathKeys); n != 1 {
				t.Errorf("%d fetches of the keys", n)
			}
		})
	}
}

// refused checks what every refused token gets.
func refused(t *testing.T, err error, token string) {
	t.Helper()
	var e *dispatch.Error
	if !errors.Is(err, ErrUnauthenticated) || !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if e.Kind != dispatch.SignInRequired || e.Text != "The request carries no valid token." || e.Link != "" ||
		e.Faults != nil {
		t.Errorf("tells the causes apart: %+v", e)
	}
	for _, shown := range []string{fmt.Sprintf("%v", err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", e.Err)} {
		for _, part := range strings.Split(token, ".") {
			if len(part) > 20 && strings.Contains(shown, part) {
				t.Errorf("the error shows the token: %s", shown)
			}
		}
	}
}

// Cases 4 to 32 of the security cases, and the lower half of 39.
func TestVerify_RefusesBadTokens(t *testing.T) {
	good := rsToken(nil)
	part := strings.Split(good, ".")
	evil := "https://attacker.test/keys"
	pub := jose.JSONWebKey{Key: otherRSA().Public(), KeyID: "rsa"}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY",
		Bytes: must(x509.MarshalPKIXPublicKey(rsaKey().Public()))})
	unsigned := func(alg string) string {
		return sign(fields{"alg": alg, "kid": "rsa"}.json(), bearer(noon).json(), nil)
	}
	times := func(name, value string) string {
		return rsPayload(strings.Replace(bearer(noon).but(fields{name: "HERE"}).json(), `"HERE"`, value, 1))
	}
	tests := []struct {
		name, token string
		config      func(*Config)
	}{
		{name: "04 garbage", token: "garbage"},
		{name: "04 garbage with dots", token: "a.b.c"},
		{name: "04 four parts", token: good + ".x"},
		{name: "04 newline inside", token: part[0] + "." + part[1] + "\n." + part[2]},
		{name: "04 padding", token: part[0] + "=." + part[1] + "." + part[2]},
		{name: "04 spare bits set", token: good[:len(good)-1] + string(good[len(good)-1]+1)},
		{name: "04 header is an array", token: sign(`["RS256"]`, "{}", nil)},
		{name: "04 header is null", token: sign(`null`, "{}", nil)},
		{name: "04 payload is no object", token: rsPayload(`[1]`)},
		{name: "04 payload is not JSON", token: rsPayload(`{"iss":`)},
		{name: "04 payload is not UTF-8", token: rsPayload(
			strings.Replace(bearer(noon).json(), "alice-1", "alice-\xff", 1))},
		{name: "05 alg none", token: unsigned("none")},
		{name: "05 alg none, signature kept", token: strings.TrimSuffix(unsigned("none"), ".") + "." + part[2]},
		{name: "06 alg None", token: unsigned("None") + "AA"},
		{name: "06 alg nOnE", token: unsigned("nOnE") + "AA"},
		{name: "06 alg missing", token: sign(`{"kid":"rsa"}`, bearer(noon).json(), nil) + "AA"},
		{name: "06 alg is a number", token: sign(`{"alg":1,"kid":"rsa"}`, bearer(noon).json(), nil) + "AA"},
		{name: "07 HS256 with the public key", token: sign(`{"alg":"HS256","kid":"rsa"}`, bearer(noon).json(), publicPEM)},
		{name: "08 RS512 by the right key", token: rsHeader(fields{"alg": "RS512"})},
		{name: "08 PS256 by a key that is for RS256", token: rsHeader(fields{"alg": "PS256"})},
		{name: "08 ES256 that names the RSA key", token: sign(`{"alg":"ES256","kid":"rsa"}`, bearer(noon).json(), ecKey())},
		{name: "09 kid unknown", token: rsHeader(fields{"kid": "new"})},
		{name: "09 kid too long", token: rsHeader(fields{"kid": strings.Repeat("k", 300)})},
		{name: "09 kid is a number", token: rsHeader(fields{"kid": 7})},
		{name: "10 kid missing, two keys", token: rsHeader(fields{"kid": nil})},
		{name: "10 kid empty", token: rsHeader(fields{"kid": ""})},
		{name: "11 kid with a path", token: rsHeader(fields{"kid": "../../rsa"})},
		{name: "11 kid with SQL", token: rsHeader(fields{"kid": "rsa' OR '1'='1"})},
		{name: "12 jwk", token: sign(rs256.but(fields{"jwk": pub}).json(), bearer(noon).json(), otherRSA())},
		{name: "12 jku", token: sign(rs256.but(fields{"jku": evil}).json(), bearer(noon).json(), otherRSA())},
		{name: "12 x5u", token: sign(rs256.but(fields{"x5u": evil}).json(), bearer(noon).json(), otherRSA())},
		{name: "12 x5c", token: sign(rs256.but(fields{"x5c": []string{"MIIB"}}).json(), bearer(noon).json(),
			otherRSA())},
		{name: "12 jku, signed by the right key", token: rsHeader(fields{"jku": evil})},
		{name: "13 crit", token: rsHeader(fields{"crit": []string{"exp"}, "exp": 1})},
		{name: "13 crit b64", token: rsHeader(fields{"crit": []string{"b64"}, "b64": true})},
		{name: "13 crit empty", token: rsHeader(fields{"crit": []string{}})},
		{name: "14 JSON serialization, two signatures", token: fields{"payload": part[1], "signatures": []fields{
			{"protected": part[0], "signature": part[2]}, {"protected": part[0], "signature": part[2]}}}.json()},
		{name: "14 JSON serialization, flattened", token: fields{"payload": part[1], "protected": part[0],
			"signature": part[2]}.json()},
		{name: "15 JWE", token: encrypted(t)},
		{name: "15 JWE header in three parts", token: rsHeader(fields{"enc": "A256GCM"})},
		{name: "16 bad signature", token: part[0] + "." + part[1] + "." + strings.Split(rsToken(fields{"sub": "bob"}),
			".")[2]},
		{name: "16 signed by another", token: sign(rs256.json(), bearer(noon).json(), otherRSA())},
		{name: "17 iss of another realm", token: rsToken(fields{"iss": "https://sign-in.test/realms/other"})},
		{name: "17 iss with a slash", token: rsToken(fields{"iss": issuer + "/"})},
		{name: "17 iss missing", token: rsToken(fields{"iss": nil})},
		{name: "17 iss in another case", token: rsToken(fields{"iss": nil, "ISS": issuer})},
		{name: "18 aud missing, azp another", token: rsToken(fields{"aud": nil})},
		{name: "18 aud and azp missing", token: rsToken(fields{"aud": nil, "azp": nil})},
		{name: "18 aud another client", token: rsToken(fields{"aud": "portal"})},
		{name: "18 aud another, azp ours", token: rsToken(fields{"aud": "portal", "azp": audience})},
		{name: "18 aud array without us", token: rsToken(fields{"aud": []string{"account", "other"}})},
		{name: "18 aud empty array, azp ours", token: rsToken(fields{"aud": []string{}, "azp": audience})},
		{name: "18 aud null, azp ours",
			token: rsPayload(strings.Replace(bearer(noon).but(fields{"azp": audience, "aud": "HERE"}).json(), `"HERE"`,
				"null", 1))},
		{name: "18 aud array with null", token: rsPayload(
			strings.Replace(bearer(noon).but(fields{"aud": "HERE"}).json(), `"HERE"`, `["eodispatch-api",null]`, 1))},
		{name: "18 aud a prefix of us", token: rsToken(fields{"aud": "eodispatch"})},
		{name: "18 aud we are a prefix", token: rsToken(fields{"aud": "eodispatch-api2"})},
		{name: "18 aud an object", token: rsToken(fields{"aud": fields{"eodispatch-api": 1}})},
		{name: "18 aud in one string", token: rsToken(fields{"aud": "account eodispatch-api"})},
		{name: "19 azp not admitted, another aud", token: rsToken(fields{"aud": "another"}),
			config: func(c *Config) { c.Clients = []string{"notebook"} }},
		{name: "19 azp missing, another aud", token: rsToken(fields{"aud": "another", "azp": nil}),
			config: func(c *Config) { c.Clients = []string{"portal"} }},
		{name: "20 exp past the skew", token: rsToken(fields{"exp": noon.Add(-60 * time.Second).Unix()})},
		{name: "20 exp missing", token: rsToken(fields{"exp": nil})},
		{name: "20 exp a string", token: rsToken(fields{"exp": fmt.Sprint(noon.Add(time.Hour).Unix())})},
		{name: "20 exp null", token: times("exp", "null")},
		{name: "20 exp overflows an int64", token: times("exp", "9223372036854775808")},
		{name: "20 exp overflows a float", token: times("exp", "1e400")},
		{name: "20 exp huge", token: times("exp", "1e300")},
		{name: "20 exp in milliseconds", token: times("exp", fmt.Sprint(noon.UnixMilli()))},
		{name: "20 exp negative", token: times("exp", "-1")},
		{name: "21 nbf past the skew", token: rsToken(fields{"nbf": noon.Add(61 * time.Second).Unix()})},
		{name: "21 nbf a string", token: rsToken(fields{"nbf": "0"})},
		{name: "22 iat two days ahead", token: rsToken(fields{"iat": noon.Add(48 * time.Hour).Unix()})},
		{name: "22 iat past the skew", token: rsToken(fields{"iat": noon.Add(61 * time.Second).Unix()})},
		{name: "23 sub missing", token: rsToken(fields{"sub": nil})},
		{name: "23 sub empty", token: rsToken(fields{"sub": ""})},
		{name: "23 sub a number", token: rsToken(fields{"sub": 42})},
		{name: "23 sub with NUL", token: rsToken(fields{"sub": "a\x00b"})},
		{name: "23 sub too long", token: rsToken(fields{"sub": strings.Repeat("s", 256)})},
		{name: "23 sub too long in bytes", token: rsToken(fields{"sub": strings.Repeat("ü", 128)})},
		{name: "23 sub with half a surrogate pair", token: rsToken(fields{"sub": json.RawMessage(`"a\ud83db"`)})},
		{name: "23 sub with a line separator", token: rsToken(fields{"sub": "a\u2028b"})},
		{name: "23 sub with a space that is none of ASCII", token: rsToken(fields{"sub": "a\u00a0b"})},
		{name: "23 sub with a zero-width joiner", token: rsToken(fields{"sub": "a\u200db"})},
		{name: "23 sub with a change of direction", token: rsToken(fields{"sub": "a\u202eb"})},
		{name: "23 sub with a filler", token: rsToken(fields{"sub": "a\u3164b"})},
		{name: "23 sub with a variation selector", token: rsToken(fields{"sub": "a\ufe0fb"})},
		{name: "23 sub with a blank of braille", token: rsToken(fields{"sub": "a\u2800b"})},
		{name: "24 ID token", token: rsToken(fields{"typ": "ID", "aud": audience})},
		{name: "24 ID token without the claim typ", token: rsToken(fields{"typ": nil})},
		{name: "25 refresh token", token: rsToken(fields{"typ": "Refresh"})},
		{name: "25 offline token", token: rsToken(fields{"typ": "Offline", "exp": nil})},
		{name: "26 logout token", token: rsToken(fields{"typ": "Logout"})},
		{name: "26 logout token by its header", token: rsHeader(fields{"typ": "logout+jwt"})},
		{name: "27 header typ of another", token: rsHeader(fields{"typ": "dpop+jwt"})},
		{name: "27 header at+jwt, claim ID", token: sign(rs256.but(fields{"typ": "at+jwt"}).json(),
			bearer(noon).but(fields{"typ": "ID"}).json(), rsaKey())},
		{name: "28 aud twice", token: rsPayload(`{"aud":"x",` + bearer(noon).json()[1:])},
		{name: "28 twice, written differently", token: rsPayload(`{"\u0061ud":"x",` + bearer(noon).json()[1:])},
		{name: "28 twice, deeper", token: rsToken(fields{"x": json.RawMessage(`[{"y":{"a":1,"a":2}}]`)})},
		{name: "28 twice in the header", token: sign(`{"alg":"RS256","kid":"rsa","kid":"ec"}`, bearer(noon).json(),
			rsaKey())},
		{name: "29 too long", token: rsToken(fields{"x": strings.Repeat("x", MaxToken)})},
		{name: "31 service account of Keycloak",
			token: rsToken(fields{"preferred_username": "service-account-portal"})},
		{name: "31 service account by RFC 9068", token: rsToken(fields{"sub": "portal"})},
		{name: "31 service account by client_id", token: rsToken(fields{"sub": "robot", "client_id": "robot"})},
		{name: "31 service account by its address", token: rsToken(fields{"clientAddress": "192.0.2.1"})},
		{name: "31 service account by its host", token: rsToken(fields{"clientHost": "192.0.2.1"})},
		{name: "31 service account by client_id without a session",
			token: rsToken(fields{"azp": "portal", "client_id": "portal", "sid": nil})},
		{name: "31 service account by the id of its token",
			token: rsToken(fields{"jti": "trrtcc:d18cc575-7da8-6b34-4fda-41cef6bf9bec"})},
		{name: "32 cnf of DPoP", token: rsToken(fields{"cnf": fields{"jkt": "x"}})},
		{name: "32 cnf of mTLS", token: rsToken(fields{"cnf": fields{"x5t#S256": "x"}})},
		{name: "32 typ DPoP", token: rsToken(fields{"typ": "DPoP"})},
		{name: "41 unsigned", token: part[0] + "." + part[1] + "."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newFakeProvider()
			v := verifierAt(t, p, noon, test.config)
			for range 2 {
				c, err := v.Verify(t.Context(), dispatch.Secret(test.token))
				refused(t, err, test.token)
				if c != (Caller{}) {
					t.Errorf("a caller comes with the error: %+v", c)
				}
			}
			if len(p.hosts) > 1 || len(p.hosts) == 1 && !p.hosts["sign-in.test"] {
				t.Errorf("asked %v", p.hosts)
			}
		})
	}
}

// The reason names the client whose tokens are refused, and what permits them, for the operator.
func TestVerify_NamesTheClientThatIsNotAccepted(t *testing.T) {
	for _, audience := range []any{nil, "another"} {
		token := rsToken(fields{"aud": audience, "azp": "apex-\nexplorer"})
		_, err := verifierAt(t, newFakeProvider(), noon, nil).Verify(t.Context(), dispatch.Secret(token))
		for _, want := range []string{`its azp "apex- explorer" is not an accepted client`,
			"EODISPATCH_IDENTITY_CLIENTS"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("aud %v: %v", audience, err)
			}
		}
	}
}

// A text that cannot be a token costs nothing, even if no keys are known yet.
func TestVerify_RefusesUnread(t *testing.T) {
	p := newFakeProvider()
	v := verifierAt(t, p, noon, nil)
	for _, token := range []string{"", "garbage", "a.b.c", strings.Repeat("e", 1<<20),
		sign(`{"alg":"none"}`, "{}", nil) + "A"} {
		_, err := v.Verify(t.Context(), dispatch.Secret(token))
		refused(t, err, token)
	}
	if len(p.hosts) != 0 {
		t.Errorf("asked %v", p.hosts)
	}
}

func encrypted(t *testing.T) string {
	t.Helper()
	e, err := jose.NewEncrypter(jose.A128GCM, jose.Recipient{Algorithm: jose.RSA_OAEP, Key: rsaKey().Public(),
		KeyID: "rsa"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return must(must(e.Encrypt([]byte(bearer(noon).json()))).CompactSerialize())
}

// Case 33.
func TestVerify_SameSubjectOfTwoIssuers(t *testing.T) {
	const other = "https://sign-in.test/realms/other"
	p := newFakeProvider()
	p.set("/realms/other/.well-known/openid-configuration", always(200,
		fields{"issuer": other, "jwks_uri": "https://sign-in.test" + pathKeys}.json()))
	a, err := verifierAt(t, p, noon, nil).Verify(t.Context(), dispatch.Secret(rsToken(nil)))
	if err != nil {
		t.Fatal(err)
	}
	there := verifierAt(t, p, noon, func(c *Config) { c.Issuer = other })
	b, err := there.Verify(t.Context(), dispatch.Secret(rsToken(fields{"iss": other})))
	if err != nil {
		t.Fatal(err)
	}
	if a.Subject != b.Subject || a.User == b.User {
		t.Errorf("%q and %q", a.User, b.User)
	}
}

// Case 39.
func TestVerify_ClockSkew(t *testing.T) {
	for _, test := range []struct {
		name   string
		claims fields
		now    time.Duration // from noon
		good   bool
	}{
		{"exp, last moment", fields{"exp": noon.Unix()}, skew - time.Nanosecond, true},
		{"exp, over", fields{"exp": noon.Unix()}, skew, false},
		{"nbf, first moment", fields{"nbf": noon.Unix()}, -skew, true},
		{"nbf, too early", fields{"nbf": noon.Unix()}, -skew - time.Nanosecond, false},
		{"iat, first moment", nil, -skew, true},
		{"iat, too early", nil, -skew - time.Nanosecond, false},
	} {
		t.Run("39 "+test.name, func(t *testing.T) {
			v := verifierAt(t, newFakeProvider(), noon.Add(test.now), nil)
			_, err := v.Verify(t.Context(), dispatch.Secret(rsToken(test.claims)))
			if (err == nil) != test.good {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The expiry of a token that was verified before is checked too.
func TestVerify_RememberedTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		v := runningVerifier(t, p)
		token := dispatch.Secret(sign(rs256.json(), bearer(time.Now()).json(), rsaKey()))
		for range 5 {
			if _, err := v.Verify(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(6 * time.Minute)
		_, err := v.Verify(t.Context(), token)
		refused(t, err, token.Reveal())
	})
}

func runningVerifier(t *testing.T, p *fakeProvider) *Verifier {
	return verifierAt(t, p, time.Time{}, func(c *Config) { c.Now = time.Now })
}

func TestNewVerifier_ChecksTheConfiguration(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"18 no audience":    func(c *Config) { c.Audience = nil },
		"18 empty audience": func(c *Config) { c.Audience = []string{"a", ""} },
		"http issuer":       func(c *Config) { c.Issuer = "http://sign-in.test/realms/apex" },
		"no issuer":         func(c *Config) { c.Issuer = "" },
		"issuer with query": func(c *Config) { c.Issuer = issuer + "?a=b" },
		"issuer with user":  func(c *Config) { c.Issuer = "https://a:b@sign-in.test" },
		"no client":         func(c *Config) { c.Client = nil },
	} {
		c := Config{Issuer: issuer, Audience: []string{audience}, Client: upstream.New(upstream.Config{})}
		change(&c)
		if _, err := NewVerifier(c); !dispatch.Is(err, dispatch.Misconfigured) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := Config{Issuer: "http://127.0.0.1:8080/realms/apex", Audience: []string{audience},
		Client: upstream.New(upstream.Config{}), Development: true}
	if _, err := NewVerifier(c); err != nil {
		t.Errorf("development: %v", err)
	}
}

// Uses the system's network, and tokens signed by go-jose.
func TestVerify_OverHTTP(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, server.URL, server.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: ecKey().Public(), KeyID: "k"}}})
	})
	v, err := NewVerifier(Config{Issuer: server.URL, Audience: []string{audience},
		Client: upstream.New(upstream.Config{Development: true}), Development: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256,
		Key: jose.JSONWebKey{Key: ecKey(), KeyID: "k"}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	payload := bearer(time.Now()).but(fields{"iss": server.URL, "name": "A\x1b[31m <b>"}).json()
	token := must(must(signer.Sign([]byte(payload))).CompactSerialize())
	c, err := v.Verify(t.Context(), dispatch.Secret(token))
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "A [31m  b" {
		t.Errorf("name %q", c.Name)
	}
}

// FuzzVerify: every input is refused without a panic, except signed tokens.
func FuzzVerify(f *testing.F) {
	good := rsToken(nil)
	for _, seed := range []string{good, "a.b.c", "..", good + ".", sign(`{"alg":"RS256","kid":"rsa"}`, `{"a":[{}]}`,
		rsaKey())} {
		f.Add(seed)
	}
	p := newFakeProvider()
	v := verifierAt(f, p, noon, nil)
	f.Fuzz(func(t *testing.T, token string) {
		c, err := v.Verify(context.Background(), dispatch.Secret(token))
		if (err == nil) != (token == good) {
			t.Errorf("%q: %+v, %v", token, c, err)
		}
	})
}

// FuzzMembers: the check for duplicate names agrees with the decoder on what is an object.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"a":2}`, `[{}]`, `{"a":[{"b":{}},"b",null]}`, `{"a":"b","b":"a"}`,
		`{"a":1}x`, `null`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		m, err := members([]byte(raw))
		var whole map[string]any
		decoded := json.Unmarshal([]byte(raw), &whole)
		if err == nil && (decoded != nil || len(m) != len(whole)) {
			t.Errorf("%q: %v", raw, decoded)
		}
	})
}

// BenchmarkVerify measures a token that was verified before.
func BenchmarkVerify(b *testing.B) {
	v := verifierAt(b, newFakeProvider(), noon, nil)
	token := dispatch.Secret(rsToken(nil))
	for b.Loop() {
		if _, err := v.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

// withSignIn publishes a discovery document that has an authorization endpoint.
func withSignIn(p *fakeProvider, changes fields) {
	p.set(pathDiscovery, always(200, fields{"issuer": issuer, "jwks_uri": "https://sign-in.test" + pathKeys,
		"token_endpoint":         "https://sign-in.test" + pathToken,
		"authorization_endpoint": "https://sign-in.test/authorize"}.but(changes).json()))
}

// The endpoints are discovered once, together with the keys.
func TestSignInEndpoints(t *testing.T) {
	p := newFakeProvider()
	withSignIn(p, nil)
	v := verifierAt(t, p, noon, nil)
	for range 3 {
		authorization, token, err := v.SignInEndpoints(t.Context())
		if err != nil || authorization != "https://sign-in.test/authorize" ||
			token != "https://sign-in.test"+pathToken {
			t.Errorf("%q %q %v", authorization, token, err)
		}
	}
	if n := p.count(pathDiscovery); n != 1 {
		t.Errorf("%d discoveries", n)
	}
}

func TestSignInEndpoints_Missing(t *testing.T) {
	for _, name := range []string{"authorization_endpoint", "token_endpoint"} {
		p := newFakeProvider()
		withSignIn(p, fields{name: nil})
		if _, _, err := verifierAt(t, p, noon, nil).SignInEndpoints(t.Context()); !dispatch.Is(err,
			dispatch.Misconfigured) {
			t.Errorf("no %s: %v", name, err)
		}
	}
}

// After a fetch failed, for a key that the provider may not have, the endpoints are found again as soon as it responds.
func TestSignInEndpoints_AfterAFailedSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		withSignIn(p, nil)
		v := runningVerifier(t, p)
		mustVerify(t, v, tokenNow("ec"))
		time.Sleep(minFetch)
		p.set(pathKeys, down)
		if _, err := v.Verify(t.Context(), tokenNow("another")); err == nil {
			t.Error("a token of an unknown key is verified")
		}
		p.set(pathKeys, nil)
		time.Sleep(minFetch)
		_, _, _ = v.SignInEndpoints(t.Context()) // fails, and begins a fetch
		synctest.Wait()
		if _, _, err := v.SignInEndpoints(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Requests for the documentation, which need no token, cause at most one request in 10 s to a provider that is down,
// and no endpoints are named that were not confirmed since.
func TestSignInEndpoints_WhileTheProviderIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProvider()
		p.set(pathDiscovery, hang)
		v := runningVerifier(t, p)
		outage := func(of time.Duration) {
			t.Helper()
			before := p.count(pathDiscovery) + p.count(pathKeys)
			for begin := time.Now(); time.Since(begin) < of; time.Sleep(100 * time.Millisecond) {
				if _, _, err := v.SignInEndpoints(t.Context()); time.Since(begin) > 2*readTimeout &&
					!dispatch.Is(err, dispatch.Unavailable) {
					t.Fatalf("after %v: %v", time.Since(begin), err)
				}
			}
			if n := p.count(pathDiscovery) + p.count(pathKeys) - before; n > int(of/minFetch)+1 {
				t.Errorf("%d requests in %v", n, of)
			}
		}
		outage(2 * time.Minute)
		withSignIn(p, nil)
		time.Sleep(minFetch)
		if _, _, err := v.SignInEndpoints(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(renewKeys)
		p.set(pathDiscovery, hang)
		p.set(pathKeys, down)
		outage(2 * time.Minute)
		mustVerify(t, v, tokenNow("ec")) // the keys are still good
		time.Sleep(fetchTimeout)         // for the last fetch to end
	})
}
