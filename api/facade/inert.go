package facade

import (
	"maps"
	"net/http"
	"regexp"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// active matches the media types that a browser runs, or applies to a page, from the page's own origin: with nosniff,
// nothing else is taken for a script or a style sheet. Types of messages have headers in the body, and browsers have
// set cookies of this service by them.
var active = regexp.MustCompile(`(?i)(java|ecma|j|live)script|css|wasm|manifest|appcache|multipart/[^b]|message/`)

// Sandbox is the content security policy with which files of platforms are passed on: a file that is a page must not
// act as a page of this service.
const Sandbox = "sandbox"

// InertType returns the media type of a file as it is passed on. A file whose type is active, or not known, gets that
// of any bytes.
func InertType(media string) string {
	if media == "" || active.MatchString(media) {
		return "application/octet-stream"
	}
	return media
}

// The headers of a request for a file, and of its response, that are passed on.
var (
	fileAsked = []string{"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"}
	fileSent  = []string{"Content-Type", "Content-Length", "Content-Range", "Content-Encoding", "Accept-Ranges", "Etag",
		"Last-Modified"}
)

// PassesFiles reports whether the files of an account's platform are passed on.
func PassesFiles(backends []*dispatch.Backend, a dispatch.Account) bool {
	return slices.ContainsFunc(backends, func(b *dispatch.Backend) bool {
		return b.Name == a.Platform() && b.ProxyAssets
	})
}

// FileRequestOf returns what a request for a file asks of the server that has the file.
func FileRequestOf(r *http.Request) dispatch.FileRequest {
	return dispatch.FileRequest{Head: r.Method == http.MethodHead, Header: chosen(r.Header, fileAsked)}
}

// PassFile passes on a file, or a range of it, as its server sends it, and closes it. See [Server] for the error.
func PassFile(s Server, w http.ResponseWriter, r *http.Request, f *dispatch.File) error {
	defer f.Body.Close()
	h := w.Header()
	maps.Copy(h, chosen(f.Header, fileSent))
	h.Set("Content-Type", InertType(h.Get("Content-Type")))
	h.Set("Content-Security-Policy", Sandbox)
	return s.Stream(w, r, f.Status, f.Body)
}

func chosen(all http.Header, names []string) http.Header {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(name string, values []string) bool {
		return len(values) == 0 || !slices.Contains(names, name)
	})
	return all
}
