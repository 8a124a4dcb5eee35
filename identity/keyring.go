package identity

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
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
	first string
	raw   map[string][]byte
	keys  map[string]cipher.AEAD
}

var keyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ParseKeyring reads keys NAME:BASE64 of 32 bytes each, separated by commas or line breaks, the newest first. Errors
// contain no part of a key.
func ParseKeyring(text dispatch.Secret) (*Keyring, error) {
	r := &Keyring{raw: map[string][]byte{}, keys: map[string]cipher.AEAD{}}
	for i, entry := range strings.FieldsFunc(text.Reveal(), func(c rune) bool { return strings.ContainsRune(", \t\r\n", c) }) {
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
		r.raw[name] = key
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
		return "", misconfigured(fmt.Errorf("the vault's key %q is missing: put it back into vault.keys", printable(s.Key, 64)))
	}
	sealed, err := base64.StdEncoding.DecodeString(s.Text)
	if err == nil {
		sealed, err = key.Open(nil, nil, sealed, bound(s.Key, place))
	}
	if err != nil {
		return "", misconfigured(fmt.Errorf("the vault's key %q is not the one that encrypted the entry under this name: put that key back into vault.keys", s.Key))
	}
	return dispatch.Secret(sealed), nil
}

// placeOf returns the place that a grant's secret is bound to.
func placeOf(g dispatch.Grant) []string { return []string{"grants", g.ID, string(g.Owner), g.Issuer} }

// sample is the number of grants that Readable decrypts.
const sample = 100

// Readable returns nil if the keys decrypt a sample of the vault's grants, else Misconfigured.
func Readable(ctx context.Context, v dispatch.Vault, r *Keyring) error {
	grants, err := v.ForeignGrants(ctx, "", sample) // of any key
	for _, g := range grants {
		if _, err := r.open(g.Sealed, placeOf(g)...); err != nil {
			return err
		}
	}
	return err
}

// Rotate encrypts with the first key all grants that other keys encrypted, and returns their number. After a failure
// the other keys are still needed.
func Rotate(ctx context.Context, v dispatch.Vault, r *Keyring) (rotated int, err error) {
	for {
		grants, err := v.ForeignGrants(ctx, r.first, 100)
		if err != nil || len(grants) == 0 {
			return rotated, err
		}
		for _, g := range grants {
			secret, err := r.open(g.Sealed, placeOf(g)...)
			if err != nil {
				return rotated, err
			}
			g.Sealed = r.seal(secret, placeOf(g)...)
			_, err = v.RenewGrant(ctx, g)
			switch {
			case err == nil:
				rotated++
			case !dispatch.Is(err, dispatch.Conflict): // a grant that has changed is listed again if it still needs rotation
				return rotated, err
			}
		}
	}
}

// SealedTokens is the [TokenStore] in the vault. It encrypts the tokens.
type SealedTokens struct {
	vault dispatch.Vault
	ring  *Keyring
}

// NewTokenStore returns a store in v whose tokens are encrypted with r.
func NewTokenStore(v dispatch.Vault, r *Keyring) *SealedTokens { return &SealedTokens{v, r} }

// Find implements [TokenStore]. A token encrypted with a key that is no longer in the keyring counts as absent.
func (s *SealedTokens) Find(ctx context.Context, name string) (dispatch.Secret, time.Time, error) {
	sealed, expires, err := s.vault.FindToken(ctx, name)
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return "", time.Time{}, nil
	case err != nil:
		return "", time.Time{}, err
	}
	token, err := s.ring.open(sealed, "tokens", name)
	if err != nil {
		return "", time.Time{}, nil
	}
	return token, expires, nil
}

// Put implements [TokenStore].
func (s *SealedTokens) Put(ctx context.Context, name string, token dispatch.Secret, expires time.Time) error {
	return s.vault.KeepToken(ctx, name, s.ring.seal(token, "tokens", name), expires)
}

// HookSecrets encrypts the secrets by which deliveries to hooks are signed. A hook whose key was removed from the keyring before Rotate cannot be
// served.
type HookSecrets struct{ keys *Keyring }

// NewHookSecrets derives the keys from those of the vault.
func NewHookSecrets(r *Keyring) *HookSecrets { return &HookSecrets{r.derived("secrets of hooks")} }

// Seal encrypts the secret of a hook.
func (s *HookSecrets) Seal(h dispatch.Hook, secret dispatch.Secret) dispatch.Sealed {
	return s.keys.seal(secret, "hooks", h.ID, string(h.Owner))
}

// Open decrypts the secret of a hook.
func (s *HookSecrets) Open(h dispatch.Hook) (dispatch.Secret, error) {
	return s.keys.open(h.Sealed, "hooks", h.ID, string(h.Owner))
}

// Rotate encrypts with the first key all secrets of hooks that other keys encrypted, and returns their number. After a failure the other keys are
// still needed.
func (s *HookSecrets) Rotate(ctx context.Context, kept dispatch.Hooks) (rotated int, err error) {
	for {
		hooks, err := kept.ForeignHooks(ctx, s.keys.first, 100)
		if err != nil || len(hooks) == 0 {
			return rotated, err
		}
		for _, h := range hooks {
			secret, err := s.Open(h)
			if err != nil {
				return rotated, err
			}
			h.Sealed = s.Seal(h, secret)
			if err := kept.ResealHook(ctx, h); err != nil {
				return rotated, err
			}
			rotated++
		}
	}
}
