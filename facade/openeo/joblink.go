package openeo

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
)

// resultsLink is what a link to results stands for. It is encrypted, because URLs are logged and passed on, and it names a user.
type resultsLink struct {
	User     dispatch.UserID `json:"u"`
	ID       string          `json:"i"` // of the batch job
	Platform string          `json:"p"` // of the view; "": all
	Expires  int64           `json:"e"` // seconds since 1970
}

const (
	linkSalt = 16
	maxLink  = 4096 // bytes
)

// sealResults encrypts a link under a key of its own, so that the number of links is not limited.
func (f *Facade) sealResults(l resultsLink) (string, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	salt := make([]byte, linkSalt)
	rand.Read(salt)
	sealer, err := f.linkSealer(salt)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sealer.Seal(salt, nil, text, nil)), nil
}

// openResults is the inverse of sealResults.
func (f *Facade) openResults(link string) (l resultsLink, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(link)
	if err != nil || len(link) > maxLink || len(raw) < linkSalt {
		return l, false
	}
	sealer, err := f.linkSealer(raw[:linkSalt])
	if err != nil {
		return l, false
	}
	text, err := sealer.Open(nil, nil, raw[linkSalt:], nil)
	return l, err == nil && json.Unmarshal(text, &l) == nil
}

func (f *Facade) linkSealer(salt []byte) (cipher.AEAD, error) {
	if f.Secret == "" {
		return nil, errors.New("the façade has no secret for links")
	}
	key, err := hkdf.Key(sha256.New, []byte(f.Secret.Reveal()), salt, "openeo results", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
