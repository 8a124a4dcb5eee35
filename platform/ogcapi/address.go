package ogcapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// addressFault describes a fault of an address to users.
type addressFault string

func (w addressFault) Error() string { return string(w) }

const (
	errNotURL   addressFault = "It is not an absolute URL."
	errSpelling addressFault = "It has parts that a platform's address must not have, such as a user name, a query, " +
		"a fragment, \";\" or \"..\"."
	errElsewhere addressFault = "It contradicts another member of the service, which names another process or path."
	errNoProcess addressFault = "It is neither the identifier of a process nor an address that ends in /processes/{id}."
)

// parseAddress parses the URL of a place on a server.
func parseAddress(raw string) (dispatch.Address, error) {
	a, err := dispatch.ParseAddress(raw)
	switch {
	case err != nil && dispatch.OriginOf(raw) == "":
		return a, errNotURL
	case err != nil || a.Query != "" || strings.Contains(raw, "?") || slices.ContainsFunc(a.Path, isOverlong):
		return a, errSpelling
	}
	return a, nil
}

// parsePath parses an escaped path and drops empty segments.
func parsePath(raw string) ([]string, error) {
	path, err := dispatch.ParsePath(raw)
	if err != nil || slices.ContainsFunc(path, isOverlong) {
		return nil, errSpelling
	}
	return path, nil
}

const maxSegment = 256 // bytes

func isOverlong(segment string) bool { return len(segment) > maxSegment }

// splitProcess splits a path that ends in processes/{id}, or in processes.
func splitProcess(path []string) (root []string, process string) {
	switch n := len(path); {
	case n >= 2 && path[n-2] == "processes":
		return path[:n-2], path[n-1]
	case n >= 1 && path[n-1] == "processes":
		return path[:n-1], ""
	}
	return path, ""
}

// root returns the address of the API; raw may be the URL of a process below it.
func root(raw string) dispatch.Address {
	a, err := parseAddress(raw)
	if err != nil {
		return dispatch.Address{}
	}
	a.Path, _ = splitProcess(a.Path)
	return a
}

// place identifies a process: the path of its API below the endpoint, and its identifier there.
type place struct {
	path    []string
	process string
}

// base returns the URL of the place's API in the form of [dispatch.Ref].
func (p *Platform) base(at place) string {
	if len(at.path) == 0 {
		return ""
	}
	return dispatch.Address{Origin: p.endpoint.Origin, Path: slices.Concat(p.endpoint.Path, at.path)}.String()
}

// Base returns the URL below which the service's process and its jobs lie.
func (p *Platform) Base(s dispatch.Service) (string, error) {
	at, err := p.locate(s)
	if err != nil {
		return "", err
	}
	return p.base(at), nil
}

// locate finds the process that a service names. Each member of the service may be written in several ways. Members may
// repeat each other, but not contradict.
func (p *Platform) locate(s dispatch.Service) (place, error) {
	raw := s.Endpoint
	if !strings.Contains(raw, "://") {
		scheme, _, _ := strings.Cut(p.endpoint.Origin, "://")
		raw = scheme + "://" + raw
	}
	at, err := p.parseOwn(raw)
	if err != nil {
		return place{}, invalid(err, "endpoint")
	}
	fixed := at.process != ""
	if s.Namespace != nil && strings.Trim(*s.Namespace, "/") != "" {
		if at.path, err = p.namespace(at, *s.Namespace); err != nil {
			return place{}, invalid(err, "namespace")
		}
		fixed = true
	}
	if at, err = p.application(at, s.Application, fixed); err != nil {
		return place{}, invalid(err, "application")
	}
	return at, nil
}

func invalid(err error, member string) error {
	return dispatch.InvalidBody("ogcapi.Base", err.Error(), "service", member)
}

// parseOwn parses the URL of a place on this platform.
func (p *Platform) parseOwn(raw string) (place, error) {
	a, err := parseAddress(raw)
	if err != nil {
		return place{}, err
	}
	for _, known := range append([]dispatch.Address{p.endpoint}, p.aliases...) {
		if rest, ok := known.Below(a); ok {
			path, process := splitProcess(rest)
			if slices.Contains(path, "processes") {
				return place{}, errSpelling
			}
			return place{path, process}, nil
		}
	}
	return place{}, addressFault(fmt.Sprintf("This is not an address of the platform %s, which is at %s.", p.Name,
		p.endpoint))
}

// namespace returns the path of a namespace, which the endpoint may already contain.
func (p *Platform) namespace(at place, raw string) ([]string, error) {
	path, err := p.namespacePath(at, raw)
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(path, "processes"):
		return nil, errSpelling
	case at.process != "" && !slices.Equal(path, at.path):
		return nil, errElsewhere
	}
	return path, nil
}

func (p *Platform) namespacePath(at place, raw string) ([]string, error) {
	if strings.Contains(raw, "://") {
		named, err := p.parseOwn(raw)
		return named.path, err
	}
	path, err := parsePath(raw)
	if n := len(at.path) - len(path); err != nil || n >= 0 && slices.Equal(at.path[n:], path) {
		return at.path, err
	}
	return slices.Concat(at.path, path), nil
}

// application adds the application to the place. With fixed, the path is certain and must not become longer.
func (p *Platform) application(at place, raw string, fixed bool) (place, error) {
	candidates, err := p.candidates(at, raw)
	if err != nil {
		return place{}, err
	}
	for _, r := range candidates {
		fits := slices.Equal(at.path, r.path) || !fixed && len(r.path) > len(at.path) &&
			slices.Equal(at.path, r.path[:len(at.path)])
		if fits && (at.process == "" || r.process == at.process) {
			return r, nil
		}
	}
	return place{}, errElsewhere
}

// packageURL matches the URL of an Application Package, which records of services name as the application beside the
// address of its process.
var packageURL = regexp.MustCompile(`(?i)^https?://[^?#]+\.cwl(#[\w-]*)?$`)

// candidates returns the places that an application can mean: an identifier, a URL, or a path that is absolute on the
// server or relative to at.
func (p *Platform) candidates(at place, raw string) ([]place, error) {
	switch {
	case raw == "" && at.process != "":
		return []place{at}, nil
	case at.process != "" && packageURL.MatchString(raw):
		return []place{at}, nil
	case strings.Contains(raw, "://"):
		named, err := p.parseOwn(raw)
		if err != nil {
			err = addressFault(err.Error() + " The application must be the identifier of the process.")
		} else if named.process == "" {
			err = errNoProcess
		}
		return []place{named}, err
	}
	path, err := parsePath(raw)
	if err != nil || len(path) == 0 {
		return nil, errNoProcess
	}
	if len(path) == 1 && !strings.HasPrefix(raw, "/") {
		return []place{{at.path, path[0]}}, nil
	}
	prefix, process := splitProcess(path)
	if process == "" {
		return nil, errNoProcess
	}
	all := []place{{at.path, process}}
	if len(prefix) > 0 {
		all = all[:0]
		if named, err := p.parseOwn(p.endpoint.Origin + "/" + strings.TrimLeft(raw, "/")); err == nil {
			all = append(all, named)
		}
		for n := range len(at.path) + 1 { // both may contain the namespace
			all = append(all, place{slices.Concat(at.path[:n], prefix), process})
		}
	}
	return all, nil
}
