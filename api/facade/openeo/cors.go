package openeo

import (
	"net/http"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
)

// methods are those of the API.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// exposed are the headers that pages of other origins can read.
const exposed = "Accept-Ranges, Content-Length, Content-Range, ETag, Last-Modified, Link, Location, OpenEO-Costs, " +
	"OpenEO-Identifier, Retry-After, X-Correlation-ID"

// allowed returns the methods that are served at the path of a request.
func (f *Facade) allowed(inner *http.Request) (all []string) {
	probe := *inner
	for _, method := range methods {
		probe.Method = method
		if _, pattern := f.mux.Handler(&probe); pattern != "" {
			all = append(all, method)
		}
	}
	return all
}

// isPreflight reports whether a browser asks whether a page may send a request.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// answerPreflight answers a request of the method OPTIONS.
func (f *Facade) answerPreflight(s facade.Server, w http.ResponseWriter, inner *http.Request) {
	all := f.allowed(inner)
	switch {
	case len(all) > 0:
		w.Header().Set("Allow", strings.Join(append(all, http.MethodOptions), ", "))
		permit(w, all)
	case isPreflight(inner):
		permit(w, methods)
	default:
		f.refuse(s, w, inner, f.unrouted(inner))
	}
}

// permit tells a browser that pages may send requests of the given methods. Where nothing is served these are all
// methods: a page can read the refusal of a request only after a preflight that succeeded.
func permit(w http.ResponseWriter, all []string) {
	w.Header().Set("Content-Type", "application/json")
	facade.Permit(w, strings.Join(append(slices.Clip(all), http.MethodOptions), ", "),
		"Content-Type, If-Match, If-None-Match, If-Range, Range")
}

// unserved are the parts of the openEO API that are known and not offered, with what to do in their place.
var unserved = map[string]string{
	"/credentials/basic": "Sign in at the identity provider of /credentials/oidc.",
	"/services":          "", "/files": "", "/subscription": "",
}

// unrouted returns the error for a path, or a method, that no operation has.
func (f *Facade) unrouted(inner *http.Request) error {
	if all := f.allowed(inner); len(all) > 0 {
		return refused(http.StatusMethodNotAllowed, "FeatureUnsupported",
			"This method is not offered at this address. Use "+strings.Join(all, " or ")+".")
	}
	for part, instead := range unserved {
		if rest, below := strings.CutPrefix(inner.URL.Path, part); below && (rest == "" || rest[0] == '/') {
			return refused(http.StatusNotImplemented, "FeatureUnsupported",
				strings.TrimSpace(textUnsupported+" "+instead))
		}
	}
	return errNoPath
}
