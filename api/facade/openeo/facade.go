// Package openeo offers the broker as an openEO back-end, in versions 1.2.0 and 1.3.0 of that API: each openEO platform
// transparently below /openeo/{platform}/1.2 and …/1.3, and all platforms as one below /openeo/1.2 and …/1.3. Platforms
// of other protocols have no view of their own; the services on them are processes of the view of all platforms, which
// exists also where no platform speaks openEO.
//
// What a platform publishes (collections, processes, file formats and so on) is passed on from a cache; sign-in, jobs,
// the processes of users and results are the broker's.
package openeo

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/facade/files"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

const path = "/openeo"

// version is a version of the API.
type version struct {
	path   string // below that of a platform, or of all
	number string
}

// versions are those that are offered. They differ in what they require; what a later one adds, an earlier one allows.
var versions = []version{{"/1.2", "1.2.0"}, {"/1.3", "1.3.0"}}

// Config is what a façade is made of.
type Config struct {
	Broker    *broker.Broker
	Backends  []*dispatch.Backend  // of all protocols
	Processes Processes            // of users
	Services  *catalogue.Catalogue // nil: it is empty
	SignIn    SignIn
	Title     string           // of the merged view
	Version   string           // of the program
	Files     *files.Facade    // passes on files; nil: links lead to their platforms
	Secret    dispatch.Secret  // encrypts links to results. Processes that share a database need the same one
	Now       func() time.Time // nil: time.Now
}

func (c Config) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// Facade is the openEO API of the broker.
type Facade struct {
	Config
	table []operation
	mux   *http.ServeMux

	mergedBefore mergedDocuments
	ids          idLists
	totals       taskTotals
	collecting   *bounds.Places[dispatch.UserID] // results of tasks that are being collected
}

// New returns the façade.
func New(c Config) *Facade {
	c.Services = cmp.Or(c.Services, catalogue.New(catalogue.Config{}))
	f := &Facade{Config: c, mux: http.NewServeMux(), collecting: bounds.NewPlaces[dispatch.UserID](8, 1)}
	f.table = f.operations()
	for _, o := range f.table {
		pattern := o.method + " " + o.path
		if o.path == "/" {
			pattern = o.method + " /{$}"
		}
		f.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { f.perform(o, w, r) })
	}
	return f
}

// Paths returns the paths at and below which the façade serves. Clients that are given the address of the server alone
// look for the versions of the API there.
func (f *Facade) Paths() []string { return []string{path, wellKnownPath} }

// view is the part of the broker that a client sees: one platform, or all of them.
type view struct {
	backend *dispatch.Backend // nil: all platforms
	above   string            // path of the platform, or of all, below the server's address
	version version           // zero: the client has not chosen one
}

// path returns the path of the root of the view's API, below the server's address.
func (v view) path() string { return v.above + v.version.path }

// merged reports whether the view shows all platforms.
func (v view) merged() bool { return v.backend == nil }

// exchange is one request on its way through the façade's multiplexer, which sees only the path below the root of a
// view.
type exchange struct {
	view   view
	server facade.Server
	outer  *http.Request // as it came
}

type exchangeKey struct{}

// Serve answers a request.
func (f *Facade) Serve(s facade.Server, w http.ResponseWriter, r *http.Request) {
	facade.AllowOrigins(w.Header(), exposed)
	v, below, ok := f.viewAt(r.URL.EscapedPath())
	switch {
	case !ok && isPreflight(r):
		permit(w, methods)
		return
	case !ok:
		f.refuse(s, w, r, errNoPath)
		return
	}
	inner := r.WithContext(context.WithValue(r.Context(), exchangeKey{}, &exchange{v, s, r}))
	inner.URL = &url.URL{RawPath: below, RawQuery: r.URL.RawQuery}
	inner.URL.Path, _ = url.PathUnescape(below) // a part of an escaped path
	if r.Method == http.MethodOptions {
		f.answerPreflight(s, w, inner)
		return
	}
	if _, pattern := f.mux.Handler(inner); pattern == "" {
		if all := f.allowed(inner); len(all) > 0 {
			w.Header().Set("Allow", strings.Join(append(all, http.MethodOptions), ", "))
		}
		f.refuse(s, w, r, f.unrouted(inner))
		return
	}
	f.mux.ServeHTTP(w, inner)
}

// viewAt splits an escaped path into a view and the path below the root of the view. Doubled slashes and one at the end
// do not count. The document that lists the versions is served above the root of a view, too: at its own path, and
// where clients are pointed without a version.
func (f *Facade) viewAt(escaped string) (v view, below string, ok bool) {
	rest := strings.TrimPrefix(facade.PlainPath(escaped), path)
	v.above = path
	name, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	if v.backend = f.backend(name); v.backend != nil {
		rest, v.above = strings.TrimPrefix(rest, "/"+name), path+"/"+name
	}
	if v.merged() && len(f.Backends) == 0 {
		return view{}, "", false
	}
	if rest == wellKnownPath || rest == "" {
		return v, wellKnownPath, true
	}
	for _, v.version = range versions {
		if below, ok = strings.CutPrefix(rest, v.version.path); ok && (below == "" || below[0] == '/') {
			return v, cmp.Or(below, "/"), !facade.HasDots(below)
		}
	}
	return view{}, "", false
}

// backend returns the openEO platform with a name; nil if there is none.
func (f *Facade) backend(name string) *dispatch.Backend {
	for _, b := range f.backends() {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// anyBackend returns the platform with a name, of any protocol; nil if there is none.
func (f *Facade) anyBackend(name string) *dispatch.Backend {
	for _, b := range f.Backends {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// backends returns the platforms that speak openEO, in the order of the configuration.
func (f *Facade) backends() (all []*dispatch.Backend) {
	for _, b := range f.Backends {
		if b.Label == dispatch.OpenEO {
			all = append(all, b)
		}
	}
	return all
}
