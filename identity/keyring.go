package identity

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// keyBytes is the length of an AES-256 key.
const keyBytes = 32

// Keyring encrypts texts with its first key and decrypts texts that any of its keys encrypted (AES-256-GCM with random
// nonces). Each text is bound to the place where it is stored, so that it cannot be decrypted elsewhere.
type Keyring struct {
	first, last string
	raw         map[string][]byte
	keys        map[string]cipher.AEAD
}

var keyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ParseKeyring reads keys NAME:BASE64 of 32 bytes each, separated by commas or line breaks, the newest first. Errors
// contain no part of a key.
func ParseKeyring(text dispatch.Secret) (*Keyring, error) {
	r := &Keyring{raw: map[string][]byte{}, keys: map[string]cipher.AEAD{}}
	for i, entry := range strings.FieldsFunc(text.Reveal(), func(c rune) bool {
		return strings.ContainsRune(", \t\r\n", c)
	}) {
		name, encoded, _ := strings.Cut(entry, ":")
		key, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case !keyName.MatchString(name) || err != nil || len(key) != keyBytes:
			return nil, fmt.Errorf("key %d is not NAME:BASE64 of 32 bytes, as `eodispatch vault key` prints", i+1)
		case r.keys[name] != nil:
			return nil, fmt.Errorf("two keys have the name %s", name)
		}
		if r.keys[name], err = sealing(key); err != nil {
			return nil, err
		}
		r.raw[name], r.last = key, name
		if i == 0 {
			r.first = name
		}
	}
	if r.first == "" {
		return nil, errors.New("there is no key")
	}
	return r, nil
}

// derived returns a keyring with keys derived for a separate use (HKDF, RFC 5869). What strangers have encrypted by
// visiting a page then uses up no nonces of the keys that protect permissions.
func (r *Keyring) derived(use string) *Keyring {
	d := &Keyring{first: r.first, raw: map[string][]byte{}, keys: map[string]cipher.AEAD{}}
	for name, key := range r.raw {
		own, err := hkdf.Key(sha256.New, key, nil, use, keyBytes)
		if err == nil {
			d.raw[name] = own
			d.keys[name], err = sealing(own)
		}
		if err != nil {
			panic(err) // the key has the right length
		}
	}
	return d
}

// LinkSecret returns the secret of links that lead to what only a user's permission opens, made of one that is stored
// in the database, whose readers must not be able to make such links. It depends on the oldest key: links stay valid
// while newer ones are added. A nil Keyring, with which no permissions are stored, returns the stored one.
func (r *Keyring) LinkSecret(stored dispatch.Secret) dispatch.Secret {
	if r == nil {
		return stored
	}
	own, err := hkdf.Key(sha256.New, r.raw[r.last], []byte(stored.Reveal()), "links", keyBytes)
	if err != nil {
		panic(err) // the key has the right length
	}
	return dispatch.Secret(own)
}

// NewKey returns a random key as text for a keyring. Its name is the date of now.
func NewKey(now time.Time) dispatch.Secret {
	key := make([]byte, keyBytes)
	rand.Read(key)
	return dispatch.Secret(now.UTC().Format("20060102-150405") + ":" + base64.StdEncoding.EncodeToString(key))
}

func sealing(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// bound returns the additional data that binds a text to a key and a place.
func bound(key string, place []string) []byte {
	return fmt.Appendf(nil, "%q", append(place[:len(place):len(place)], key))
}

func (r *Keyring) seal(text dispatch.Secret, place ...string) dispatch.Sealed {
	sealed := r.keys[r.first].Seal(nil, nil, []byte(text.Reveal()), bound(r.first, place))
	return dispatch.Sealed{Key: r.first, Text: base64.StdEncoding.EncodeToString(sealed)}
}

func (r *Keyring) open(s dispatch.Sealed, place ...string) (dispatch.Secret, error) {
	key := r.keys[s.Key]
	if key == nil {
		return "", missingKey(s.Key, "")
	}
	sealed, err := base64.StdEncoding.DecodeString(s.Text)
	if err == nil {
		sealed, err = key.Open(nil, nil, sealed, bound(s.Key, place))
	}
	if err != nil {
		return "", misconfigured(fmt.Errorf(
			"the vault's key %q is not the one that encrypted the entry under this name: put that key back into "+
				"vault.keys", s.Key))
	}
	return dispatch.Secret(sealed), nil
}

// sealJSON encrypts a value of texts and times.
func (r *Keyring) sealJSON(v any, place ...string) dispatch.Sealed {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return r.seal(dispatch.Secret(text), place...)
}

// openJSON is the inverse of sealJSON.
func (r *Keyring) openJSON(s dispatch.Sealed, into any, place ...string) error {
	text, err := r.open(s, place...)
	if err == nil && json.Unmarshal([]byte(text.Reveal()), into) != nil {
		err = misconfigured(errors.New("an entry in the vault cannot be read"))
	}
	return err
}

// lend returns a text, encrypted, that leaves this service, such as to a browser, and is good until a time.
func (r *Keyring) lend(text string, until time.Time, place ...string) string {
	sealed := r.seal(dispatch.Secret(until.UTC().Format(time.RFC3339)+" "+text), place...)
	return sealed.Key + ":" + sealed.Text
}

// lent returns what [Keyring.lend] was given.
func (r *Keyring) lent(sealed string, now time.Time, place ...string) (string, time.Time, error) {
	key, text, _ := strings.Cut(sealed, ":")
	opened, err := r.open(dispatch.Sealed{Key: key, Text: text}, place...)
	if err != nil {
		return "", time.Time{}, err
	}
	end, text, _ := strings.Cut(opened.Reveal(), " ")
	until, err := time.Parse(time.RFC3339, end)
	if err == nil && !now.Before(until) {
		err = errors.New("it has expired")
	}
	return text, until, err
}

// missingKey returns the error for a key that is not in the keyring.
func missingKey(name, use string) error {
	return misconfigured(fmt.Errorf("the vault's key %q%s is missing: put it back into vault.keys", printable(name, 64),
		use))
}

// placeOf returns the place that a grant's secret is bound to.
func placeOf(g dispatch.Grant) []string { return grantPlace(g.ID, g.Owner.Hash(), g.Issuer) }

// grantPlace is the same for a grant and for its revocation, which has only the hash of the owner.
func grantPlace(id, ownerHash, issuer string) []string {
	return []string{"grants", id, ownerHash, issuer}
}

// SealedTokens is the [TokenStore] in the vault. It encrypts the tokens.
type SealedTokens struct {
	vault Vault
	ring  *Keyring
}

// NewTokenStore returns a store in v whose tokens are encrypted with r.
func NewTokenStore(v Vault, r *Keyring) *SealedTokens { return &SealedTokens{v, r} }

// Find implements [TokenStore]. A token encrypted with a key that is no longer in the keyring counts as absent.
func (s *SealedTokens) Find(ctx context.Context, name string) (dispatch.Secret, time.Time, error) {
	sealed, expires, err := s.vault.FindToken(ctx, name)
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return "", time.Time{}, nil
	case err != nil:
		return "", time.Time{}, err
	}
	token, err := s.ring.open(sealed, tokenPlace(name)...)
	if err != nil {
		return "", time.Time{}, nil
	}
	return token, expires, nil
}

// Put implements [TokenStore].
func (s *SealedTokens) Put(ctx context.Context, t SharedToken) error {
	return s.vault.KeepToken(ctx, dispatch.SealedToken{Name: t.Name, Owner: t.Owner,
		Sealed: s.ring.seal(t.Token, tokenPlace(t.Name)...), Expires: t.Expires, Longest: t.Longest})
}

// Erase implements [TokenStore].
func (s *SealedTokens) Erase(ctx context.Context, name string, expires time.Time) error {
	return s.vault.EraseToken(ctx, name, expires)
}

func tokenPlace(name string) []string { return []string{"tokens", name} }

// HookSecrets encrypts the secrets by which deliveries to hooks are signed. A hook whose key was removed from the
// keyring before Rotate cannot be served.
type HookSecrets struct{ keys *Keyring }

// NewHookSecrets derives the keys from those of the vault.
func NewHookSecrets(r *Keyring) *HookSecrets { return &HookSecrets{r.derived(hookSecrets)} }

// Seal encrypts the secret of a hook.
func (s *HookSecrets) Seal(h dispatch.Hook, secret dispatch.Secret) dispatch.Sealed {
	return s.keys.seal(secret, hookPlace(h.ID, string(h.Owner))...)
}

// Open decrypts the secret of a hook.
func (s *HookSecrets) Open(h dispatch.Hook) (dispatch.Secret, error) {
	return s.keys.open(h.Sealed, hookPlace(h.ID, string(h.Owner))...)
}

func hookPlace(id, owner string) []string { return []string{"hooks", id, owner} }
