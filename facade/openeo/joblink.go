package openeo

import (
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// resultsLink is what a link to results stands for. It is encrypted, because URLs are logged and passed on, and it names a user.
type resultsLink struct {
	User     dispatch.UserID `json:"u"`
	ID       string          `json:"i"` // of the batch job
	Platform string          `json:"p"` // of the view; "": all
	Expires  int64           `json:"e"` // seconds since 1970
}

const (
	linkPurpose = "openeo results"
	maxLink     = 4096 // bytes
)

// sealResults encrypts a link.
func (f *Facade) sealResults(l resultsLink) (string, error) {
	if f.Secret == "" {
		return "", errors.New("the façade has no secret for links")
	}
	text, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	sealed, err := identity.Seal([]byte(f.Secret.Reveal()), linkPurpose, text)
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// openResults is the inverse of sealResults.
func (f *Facade) openResults(link string) (l resultsLink, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(link)
	if err != nil || len(link) > maxLink || f.Secret == "" {
		return l, false
	}
	text, _, err := identity.Unseal([]byte(f.Secret.Reveal()), linkPurpose, raw)
	return l, err == nil && json.Unmarshal(text, &l) == nil
}
