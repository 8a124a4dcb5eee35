package identity

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

// sealSalt is the length of the salt in bytes.
const sealSalt = 16

// Seal encrypts a text for a purpose. Each text has its own key, derived with a random salt (HKDF with SHA-256, RFC
// 5869), so that the number of texts is not limited. The salt stands before the ciphertext (AES-256-GCM).
func Seal(secret []byte, purpose string, text []byte) ([]byte, error) {
	salt := make([]byte, sealSalt)
	rand.Read(salt)
	sealer, err := sealerFor(secret, purpose, salt)
	if err != nil {
		return nil, err
	}
	return sealer.Seal(salt, nil, text, nil), nil
}

// Unseal is the inverse of Seal. The salt identifies the sealed text. It returns an error for what was not sealed with
// this secret and purpose.
func Unseal(secret []byte, purpose string, sealed []byte) (text, salt []byte, err error) {
	if len(sealed) < sealSalt {
		return nil, nil, errors.New("the sealed text is too short")
	}
	salt = sealed[:sealSalt]
	sealer, err := sealerFor(secret, purpose, salt)
	if err != nil {
		return nil, nil, err
	}
	text, err = sealer.Open(nil, nil, sealed[sealSalt:], nil)
	return text, salt, err
}

func sealerFor(secret []byte, purpose string, salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, salt, purpose, keyBytes)
	if err != nil {
		return nil, err
	}
	return sealing(key)
}
