package openeo

import (
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
)

// resultsLink is what a link to results stands for. It is encrypted, because URLs are logged and passed on, and it
// names a user.
type resultsLink struct {
	User     dispatch.UserID `json:"u"`
	ID       string          `json:"i"` // of the batch job
	Platform string          `json:"p"` // of the view; "": all
	Expires  int64           `json:"e"` // seconds since 1970
}

// fileLink is what a link to a file of results stands for, if the broker passes on the files of a platform.
type fileLink struct {
	User    dispatch.UserID `json:"u"`
	Job     dispatch.JobID  `json:"j"`
	Asset   string          `json:"a"`
	Expires int64           `json:"e"` // seconds since 1970
}

const (
	resultsPurpose = "openeo results"
	filePurpose    = "openeo file"
	maxLink        = 4096 // bytes
)

// sealLink encrypts what a link stands for.
func (f *Facade) sealLink(purpose string, l any) (string, error) {
	if f.Secret == "" {
		return "", errors.New("the façade has no secret for links")
	}
	text, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	sealed, err := identity.Seal([]byte(f.Secret.Reveal()), purpose, text)
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// openLink is the inverse of sealLink, for the same purpose.
func (f *Facade) openLink(purpose, link string, l any) (ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(link)
	if err != nil || len(link) > maxLink || f.Secret == "" {
		return false
	}
	text, _, err := identity.Unseal([]byte(f.Secret.Reveal()), purpose, raw)
	return err == nil && json.Unmarshal(text, l) == nil
}
