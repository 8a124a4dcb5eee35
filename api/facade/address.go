package facade

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

var slashes = regexp.MustCompile("//+")

// PlainPath returns an escaped path without doubled slashes and without one at its end. Clients join URLs so, and a
// redirect would make them repeat a write.
func PlainPath(escaped string) string {
	return strings.TrimSuffix(slashes.ReplaceAllString(escaped, "/"), "/")
}

// PlainURL returns u with the path that [PlainPath] gives.
func PlainURL(u *url.URL) *url.URL {
	v := *u
	v.RawPath = PlainPath(u.EscapedPath())
	path, _ := url.PathUnescape(v.RawPath) // "" if it is malformed
	v.Path = cmp.Or(path, u.Path)
	return &v
}

// HasDots reports whether a segment of a path would lead elsewhere. A multiplexer would redirect.
func HasDots(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(segment string) bool {
		return segment == "." || segment == ".."
	})
}

// Allowed asks a multiplexer that has no pattern for a request whether only the method is wrong. It returns the methods
// that are allowed then, as the header Allow has them, and a text that names them; "": the path is wrong.
func Allowed(mux http.Handler, r *http.Request) (methods, text string) {
	response := &discarded{header: http.Header{}}
	mux.ServeHTTP(response, r)
	if response.status != http.StatusMethodNotAllowed {
		return "", ""
	}
	methods = response.header.Get("Allow")
	return methods, "Method not allowed. Use " + strings.ReplaceAll(methods, ", ", " or ") + "."
}

// discarded records the status and headers of a response and drops its body.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
func (d *discarded) WriteHeader(status int)      { d.status = status }

// Bearer returns the token of a request; "" if there is none.
func Bearer(h http.Header) dispatch.Secret {
	headers := h.Values("Authorization")
	if len(headers) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return dispatch.Secret(strings.TrimSpace(token))
}

// AllowOrigins lets pages of all origins use a façade and read the exposed headers. Façades accept tokens only, and no
// cookies, so a page can do no more than its user gave it the token for.
func AllowOrigins(h http.Header, exposed string) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", exposed)
}
