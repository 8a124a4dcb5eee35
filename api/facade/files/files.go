// Package files passes on the files of results of platforms that users do not reach themselves. Links to them carry
// their permission: they are encrypted, name one file of one job, and end.
package files

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	urlpath "path"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/platform/stac"
)

// root is the path below which files are.
const root = "/files"

// Life is how long a link is valid.
const Life = 7 * 24 * time.Hour

// Facade passes on files. It implements [facade.Facade].
type Facade struct {
	Broker   *broker.Broker
	Backends []*dispatch.Backend
	Secret   dispatch.Secret  // encrypts links. Processes that share a database need the same one
	Now      func() time.Time // nil: time.Now
}

// file is what a link stands for.
type file struct {
	User    dispatch.UserID `json:"u"`
	Job     dispatch.JobID  `json:"j"`
	Asset   string          `json:"a"`
	Expires int64           `json:"e"` // seconds since 1970
}

// Pass replaces the links to the files of a job's results, a STAC object with assets, by links through the broker below
// the URL of the server, if the platform's files are passed on. They need no token and are valid until expires, or
// until the job is deleted. A nil Facade passes on nothing.
func (f *Facade) Pass(c stac.Object, server string, u dispatch.UserID, a dispatch.Account, job dispatch.JobID,
	expires time.Time) error {
	var assets map[string]stac.Object
	if f == nil || !facade.PassesFiles(f.Backends, a) || json.Unmarshal(c["assets"], &assets) != nil {
		return nil
	}
	end, err := dispatch.Encode(expires.UTC().Format(time.RFC3339))
	if err != nil {
		return err
	}
	for name, asset := range assets {
		href := stac.Text(asset["href"])
		if !strings.HasPrefix(href, "https://") && !strings.HasPrefix(href, "http://") {
			continue
		}
		sealed, err := Seal(f.Secret, purpose, file{u, job, name, expires.Unix()})
		if err != nil {
			return err
		}
		asset["href"], err = dispatch.Encode(server + root + "/" + sealed + "/" + url.PathEscape(nameOf(href)))
		if err != nil {
			return err
		}
		if asset["expires"] != nil {
			asset["expires"] = end
		}
	}
	if c["expires"] != nil {
		c["expires"] = end
	}
	c["assets"], err = dispatch.Encode(assets)
	return err
}

// nameOf returns the last segment of a link's path, by which clients name files.
func nameOf(href string) string {
	u, err := url.Parse(href)
	if err != nil {
		return "file"
	}
	if name := urlpath.Base(u.Path); name != "." && name != "/" && name != ".." {
		return name
	}
	return "file"
}

const (
	purpose = "file of results"
	maxLink = 4096 // bytes
)

// Seal encrypts what a link stands for, as a segment of a path or a part of a query.
func Seal(secret dispatch.Secret, purpose string, link any) (string, error) {
	if secret == "" {
		return "", errors.New("there is no secret for links")
	}
	text, err := json.Marshal(link)
	if err != nil {
		return "", err
	}
	sealed, err := identity.Seal([]byte(secret.Reveal()), purpose, text)
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// Open is the inverse of [Seal], for the same secret and purpose. name is that of the sealed text, however it is
// encoded: no other has it.
func Open(secret dispatch.Secret, purpose, sealed string, link any) (name string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(sealed) > maxLink || secret == "" {
		return "", false
	}
	text, salt, err := identity.Unseal([]byte(secret.Reveal()), purpose, raw)
	return base64.RawURLEncoding.EncodeToString(salt), err == nil && json.Unmarshal(text, link) == nil
}

// Paths returns the path below which files are.
func (*Facade) Paths() []string { return []string{root} }

// Serve passes on a file, or a range of it, as its server sends it.
func (f *Facade) Serve(s facade.Server, w http.ResponseWriter, r *http.Request) {
	r.Pattern = root + "/{link}/{name}" // for the log
	h := w.Header()
	facade.AllowOrigins(h, exposed)
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		facade.Permit(w, "GET, HEAD, OPTIONS", "If-Match, If-None-Match, If-Range, Range")
		return
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		refuse(w, http.StatusMethodNotAllowed, nil, "MethodNotAllowed", "Use GET or HEAD.")
		return
	}
	var link file
	sealed, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, root+"/"), "/")
	switch _, ok := Open(f.Secret, purpose, sealed, &link); {
	case !ok:
		refuse(w, http.StatusNotFound, nil, "NotFound", "There is no such file.")
		return
	case !f.now().Before(time.Unix(link.Expires, 0)):
		refuse(w, http.StatusGone, nil, "ResultLinkExpired",
			"This link to a file has expired. Request the results again.")
		return
	}
	opened, err := f.Broker.OpenFile(r.Context(), link.User, link.Job, link.Asset, facade.FileRequestOf(r))
	if err != nil {
		f.Refuse(w, r, s.Problem(r.Context(), err))
		return
	}
	if err := facade.PassFile(s, w, r, opened); err != nil {
		panic(http.ErrAbortHandler) // the client must see that the file is incomplete
	}
}

func (f *Facade) now() time.Time {
	if f.Now == nil {
		return time.Now()
	}
	return f.Now()
}

// exposed are the headers that pages of other origins can read.
const exposed = "Accept-Ranges, Content-Length, Content-Range, ETag, Last-Modified, Retry-After, X-Correlation-ID"

// Refuse writes a refusal of the server itself.
func (f *Facade) Refuse(w http.ResponseWriter, _ *http.Request, p facade.Problem) {
	facade.AllowOrigins(w.Header(), exposed)
	refuse(w, p.Status, p.Header, strings.ReplaceAll(http.StatusText(p.Status), " ", ""), p.Message)
}

// refuse writes an error as openEO has it, whose clients follow most of the links.
func refuse(w http.ResponseWriter, status int, header map[string]string, code, message string) {
	facade.SendError(w, status, header, map[string]any{"id": w.Header().Get("X-Correlation-ID"), "code": code,
		"message": message, "links": []string{}})
}
