package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/eodispatch/eodispatch/dispatch"
)

// clientAuth authenticates one of the broker's clients at a provider: by a secret in the form, or by an assertion that
// it signs (private_key_jwt; OpenID Connect Core 1.0, section 9). A public client only names itself.
type clientAuth struct {
	ID     string
	Secret dispatch.Secret
	signer jose.Signer // nil: the client uses its secret, or is public if it has none
}

// newClientAuth takes either a secret or a private key in PEM.
func newClientAuth(id string, secret, key dispatch.Secret) (clientAuth, error) {
	switch {
	case id == "" || secret == "" && key == "":
		return clientAuth{}, errors.New("client_id, client_secret or client_key is missing")
	case secret != "" && key != "":
		return clientAuth{}, errors.New("client_secret and client_key are both set; remove one of them")
	case secret != "":
		return clientAuth{ID: id, Secret: secret}, nil
	}
	signer, err := newSigner(key)
	return clientAuth{ID: id, signer: signer}, err
}

const assertionLife = time.Minute

// authenticate adds the client's authentication to a form. provider is the issuer of the receiving provider, or its
// token endpoint.
func (c clientAuth) authenticate(form url.Values, provider string, now time.Time) error {
	form.Set("client_id", c.ID)
	if c.signer == nil {
		if c.Secret != "" {
			form.Set("client_secret", c.Secret.Reveal())
		}
		return nil
	}
	claims, err := json.Marshal(map[string]any{"iss": c.ID, "sub": c.ID, "aud": provider, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix()})
	if err != nil {
		return err
	}
	signed, err := c.signer.Sign(claims)
	if err != nil {
		return err
	}
	assertion, err := signed.CompactSerialize()
	form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	form.Set("client_assertion", assertion)
	return err
}

var errKey = errors.New("client_key is not a private key in PEM: RSA of 2048 bits or more, P-256 or Ed25519")

func newSigner(text dispatch.Secret) (jose.Signer, error) {
	block, _ := pem.Decode([]byte(text.Reveal()))
	if block == nil {
		return nil, errKey
	}
	key, err := parseKey(block)
	if err != nil {
		return nil, errKey // the key must not appear in the error
	}
	var algorithm jose.SignatureAlgorithm
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if k.N.BitLen() >= 2048 {
			algorithm = jose.RS256
		}
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			algorithm = jose.ES256
		}
	case ed25519.PrivateKey:
		algorithm = jose.EdDSA
	}
	if algorithm == "" {
		return nil, errKey
	}
	return jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
}

func parseKey(block *pem.Block) (crypto.PrivateKey, error) {
	switch block.Type {
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}
