package simulator

import (
	"cmp"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"
)

// keys are created once per process and number, because creating one takes 0.1 s.
var keys sync.Map // of int to func() *rsa.PrivateKey

func key(n int) *rsa.PrivateKey {
	made, _ := keys.LoadOrStore(n, sync.OnceValue(func() *rsa.PrivateKey {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err) // the system provides no randomness
		}
		return k
	}))
	return made.(func() *rsa.PrivateKey)()
}

const foreignKey = 0 // of no realm

func keyID(n int) string { return fmt.Sprintf("simulator-key-%d", n) }

// TokenFaults describes how a minted token differs from a valid one. The zero value is valid.
type TokenFaults struct {
	Claims  map[string]any // to set; nil removes, as in {"exp": nil}
	Header  map[string]any // to set after signing by Alg, so that the header may be wrong; nil removes
	Alg     string         // none, HS256, PS256; "": RS256
	Foreign bool           // signed by a key that is in no key set, with the kid of the realm's key
	Torn    bool           // the signature is of other bytes
}

// Mint returns an access token of a realm for a user and a client, in Keycloak's form: RS256, five minutes, and the
// claims of the realm's clients. It panics on impossible TokenFaults, which are a mistake of the test.
func (idp *IdP) Mint(realm, user, client string, odd TokenFaults) string {
	idp.once.Do(idp.init)
	idp.mu.Lock()
	defer idp.mu.Unlock()
	r := idp.realms[realm]
	return r.mint(idp.claims(r, user, client), odd)
}

// claims returns the claims of an access token. idp.mu is held.
func (idp *IdP) claims(r *realm, user, client string) object {
	now := nowFrom(idp.Now)
	idp.serial++
	claims := object{
		"iss": idp.issuer(r.name), "sub": subject(r.name, user), "azp": client, "typ": "Bearer",
		"aud": r.audience(client), "iat": now.Unix(), "exp": now.Add(idp.TokenLife).Unix(),
		"jti": fmt.Sprintf("onrtro:%08d", idp.serial), "scope": "openid profile email", "acr": "1",
		"preferred_username": user, "email": user + "@example.org", "email_verified": true, "name": user,
	}
	if strings.HasPrefix(user, serviceAccount) {
		claims["client_id"] = client
	} else {
		claims["sid"] = idp.session(r.name, user)
	}
	return claims
}

// subject returns the stable id of a user in a realm.
func subject(realm, user string) string {
	sum := sha256.Sum256([]byte(realm + "/" + user))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func (r *realm) mint(claims object, odd TokenFaults) string {
	edit(claims, odd.Claims)
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	alg := odd.Alg
	if alg == "" {
		alg = "RS256"
	}
	header := object{"alg": alg, "typ": "JWT", "kid": keyID(r.key)}
	edit(header, odd.Header)
	head, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	input := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(payload)
	return input + "." + base64.RawURLEncoding.EncodeToString(r.sign(input, alg, odd))
}

func edit(doc object, changes map[string]any) {
	maps.Copy(doc, changes)
	maps.DeleteFunc(doc, func(_ string, v any) bool { return v == nil })
}

// sign signs header.payload with an algorithm, whatever the header says. HS256 uses the public key in PEM as its
// secret: the known confusion of algorithms.
func (r *realm) sign(input, alg string, odd TokenFaults) []byte {
	private := key(r.key)
	if odd.Foreign {
		private = key(foreignKey)
	}
	if odd.Torn {
		input += " "
	}
	sum := sha256.Sum256([]byte(input))
	var signature []byte
	var err error
	switch alg {
	case "none":
	case "RS256":
		signature, err = rsa.SignPKCS1v15(nil, private, crypto.SHA256, sum[:])
	case "PS256":
		signature, err = rsa.SignPSS(rand.Reader, private, crypto.SHA256, sum[:], nil)
	case "HS256":
		mac := hmac.New(sha256.New, publicPEM(private))
		mac.Write([]byte(input))
		signature = mac.Sum(nil)
	default:
		err = fmt.Errorf("unknown algorithm %q", alg)
	}
	if err != nil {
		panic(err)
	}
	return signature
}

func publicPEM(private *rsa.PrivateKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

var errToken = errors.New("the token is expired or invalid")

// tokenClaims holds the claims of an access token that the servers use.
type tokenClaims struct {
	Issuer  string   `json:"iss"`
	Subject string   `json:"sub"`
	Type    string   `json:"typ"`
	Client  string   `json:"azp"`
	Aud     audience `json:"aud"`
	Session string   `json:"sid"`
	Expires int64    `json:"exp"`
	User    string   `json:"preferred_username"`
}

// audience is one name or a list.
type audience []string

func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// verify checks an access token of a realm: signature by one of its keys, issuer, type, expiry, and that its session is
// open. idp.mu is held.
func (idp *IdP) verify(r *realm, token string) (tokenClaims, error) {
	claims, err := idp.signed(r, token)
	if err != nil {
		return claims, err
	}
	expired := !nowFrom(idp.Now).Before(time.Unix(claims.Expires, 0))
	ended := claims.Session != "" && claims.Session != idp.session(r.name, claims.User)
	if expired || ended || claims.Type != "Bearer" || claims.Subject == "" {
		return tokenClaims{}, errToken
	}
	return claims, nil
}

// Check returns a function that verifies access tokens of a realm as a platform does and returns their user.
// OpenEO.Check and OGC.Check accept it.
func (idp *IdP) Check(realm string) func(token string) (user string, err error) {
	return func(token string) (string, error) {
		idp.once.Do(idp.init)
		idp.mu.Lock()
		defer idp.mu.Unlock()
		claims, err := idp.verify(idp.realms[realm], token)
		return cmp.Or(claims.User, claims.Subject), err
	}
}
