package ogcapi

import (
	"net/url"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
)

// view is the part of the broker that a client sees: the services of the catalogue with all jobs, or one platform, or
// one namespace of a platform.
type view struct {
	backend   *dispatch.Backend // nil: the catalogue
	namespace string            // of the platform, as in paths; "": its endpoint
	base      string            // below which its jobs lie, see [dispatch.Platform]
	path      string            // of the root, below the server's address
}

// whole reports whether the view is that of the catalogue.
func (v view) whole() bool { return v.backend == nil }

// resources are the first segments of paths below the root of a view.
var resources = []string{"processes", "jobs", "conformance", "api"}

// viewAt splits an escaped path into a view and the path below the root of the view. A platform that is called like a
// resource has no view of its own.
func (f *Facade) viewAt(escaped string) (v view, below string) {
	whole := view{path: root}
	rest := strings.TrimPrefix(escaped, root)
	name, rest, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	b := f.platform(unescaped(name))
	if b == nil || slices.Contains(resources, name) {
		return whole, strings.TrimPrefix(escaped, root)
	}
	v = view{backend: b, path: root + "/" + url.PathEscape(b.Name)}
	segments := strings.Split(rest, "/")
	first := slices.IndexFunc(segments, func(s string) bool { return slices.Contains(resources, s) })
	if first < 0 {
		first = len(segments)
	}
	if v.namespace = strings.Join(segments[:first], "/"); v.namespace != "" {
		v.path += "/" + v.namespace
	}
	var err error
	if v.base, err = b.Platform.Base(v.service("any")); err != nil {
		return whole, strings.TrimPrefix(escaped, root)
	}
	for _, s := range segments[first:] {
		below += "/" + s
	}
	return v, below
}

// platform returns the platform with a name if its services are processes; nil if there is none.
func (f *Facade) platform(name string) *dispatch.Backend {
	for _, b := range f.Backends {
		if _, can := b.Platform.(dispatch.ProcessDescriber); can && b.Name == name {
			return b
		}
	}
	return nil
}

// service returns the service of a process of the view's platform.
func (v view) service(process string) dispatch.Service {
	s := dispatch.Service{Endpoint: v.backend.Endpoint, Application: process}
	if v.namespace != "" {
		s.Namespace = &v.namespace
	}
	return s
}

// process returns a process of the view's platform as the catalogue would list it.
func (v view) process(id string) catalogue.Service {
	return catalogue.Service{ID: id, Title: id, Label: v.backend.Label, Service: v.service(id),
		Platform: v.backend.Name}
}

// accounts returns the accounts whose jobs the view shows; nil: all.
func (v view) accounts(u dispatch.UserID) []dispatch.Account {
	if v.whole() {
		return nil
	}
	return dispatch.AccountsAt(u, []string{v.backend.Name})
}

// shows reports whether a job or a task with a request belongs to the view.
func (v view) shows(a dispatch.Account, r dispatch.Request) bool {
	switch {
	case v.whole():
		return true
	case a.Platform() != v.backend.Name:
		return false
	case v.namespace == "":
		return true
	}
	base, err := v.backend.Platform.Base(r.Service)
	return err == nil && base == v.base
}

// processOf returns the id of the process of a request in a view, and the path of its description below the root of
// the view.
func (f *Facade) processOf(v view, r dispatch.Request) (id, path string, known bool) {
	if v.whole() {
		id, known = f.Services.Identify(r.Label, r.Service)
		return id, "/processes/" + url.PathEscape(id), known
	}
	id = r.Service.Application
	// clients of other interfaces may write its address
	if _, last, isPath := strings.Cut("/"+id, "/processes/"); isPath {
		id = unescaped(last)
	}
	if r.Service.Namespace != nil && v.namespace == "" {
		path = strings.TrimSuffix("/"+strings.Trim(*r.Service.Namespace, "/"), "/")
	}
	return id, path + "/processes/" + url.PathEscape(id), !strings.Contains(id, "/")
}

// pattern returns a pattern of the view of the catalogue as that of this one.
func (v view) pattern(whole string) string {
	if v.whole() {
		return whole
	}
	return strings.Replace(whole, root, root+"/{platform}", 1)
}
