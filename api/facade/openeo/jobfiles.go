package openeo

import (
	"encoding/json"
	"net/http"
	"net/url"
	urlpath "path"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/stac"
)

// passFiles replaces the links to the files of a job's results by links through the broker, if the platform's files are
// passed on. The links need no token and are valid until expires, or until the job is deleted.
func (f *Facade) passFiles(r *request, c stac.Object, j dispatch.Job, expires time.Time) error {
	b := f.anyBackend(j.Account.Platform())
	if b == nil || !b.ProxyAssets {
		return nil
	}
	var assets map[string]stac.Object
	if json.Unmarshal(c["assets"], &assets) != nil {
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
		sealed, err := f.sealLink(filePurpose, fileLink{r.user, j.ID, name, expires.Unix()})
		if err != nil {
			return err
		}
		if asset["href"], err = dispatch.Encode(r.root + "/assets/" + sealed + "/" +
			url.PathEscape(fileName(href))); err != nil {
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

// fileName returns the last segment of a link's path, by which clients name files.
func fileName(href string) string {
	u, err := url.Parse(href)
	if err != nil {
		return "file"
	}
	if name := urlpath.Base(u.Path); name != "." && name != "/" && name != ".." {
		return name
	}
	return "file"
}

// readFile passes on a file of results, or a range of it, as its server sends it.
func (f *Facade) readFile(r *request) (*answer, error) {
	var l fileLink
	switch {
	case !f.openLink(filePurpose, r.PathValue("link"), &l):
		return nil, errNoPath
	case !f.now().Before(time.Unix(l.Expires, 0)):
		return nil, refused(http.StatusGone, "ResultLinkExpired",
			"This link to a file has expired. Request the results again.")
	}
	file, err := f.Broker.OpenFile(r.Context(), l.User, l.Job, l.Asset,
		dispatch.FileRequest{Head: r.Method == http.MethodHead, Header: facade.Chosen(r.Header, facade.FileAsked)})
	if err != nil {
		return nil, err
	}
	header := http.Header(facade.Chosen(file.Header, facade.FileSent))
	header.Set("Content-Type", facade.InertType(header.Get("Content-Type")))
	header.Set("Content-Security-Policy", facade.Sandbox)
	return &answer{header: header, write: func(w http.ResponseWriter) error {
		defer file.Body.Close()
		return r.Stream(w, r.Request, file.Status, file.Body)
	}}, nil
}
