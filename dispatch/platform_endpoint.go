package dispatch

import (
	"fmt"
	"regexp"
	"strings"
)

const longestEndpoint = 2048

// Backend returns the configured platform of a service. The endpoint of the service may be written with or without a
// trailing slash, without a scheme, with the default port, with an openEO path or version, as the URL of an OGC
// process, or as an alias. Backend sends no request. If no platform matches, the error is Invalid, and its text lists
// those that are configured.
func (s *Setup) Backend(service Service, l Label) (*Backend, error) {
	var found *Backend
	best := 0
	given := strings.TrimSpace(service.Endpoint)
	for _, backend := range s.Backends {
		if len(given) > longestEndpoint || backend.Label != l {
			continue
		}
		if n := backend.likeness(given); n > best {
			found, best = backend, n
		}
	}
	if found == nil {
		return nil, InvalidBody("dispatch.Backend", s.choices(l), "service", "endpoint")
	}
	return found, nil
}

// Same reports whether two services have the same endpoint, in any spelling, namespace and application.
func (s Service) Same(other Service) bool {
	if s.Application != other.Application || s.namespace() != other.namespace() {
		return false
	}
	a, err := ParseAddress(s.Endpoint)
	b, bad := ParseAddress(other.Endpoint)
	if err != nil || bad != nil {
		return s.Endpoint == other.Endpoint
	}
	return a.String() == b.String()
}

func (s Service) namespace() string {
	if s.Namespace == nil {
		return ""
	}
	return strings.Trim(*s.Namespace, "/")
}

// choices returns the text of that error, which lists the configured endpoints.
func (s *Setup) choices(l Label) string {
	var names []string
	for _, backend := range s.Backends {
		if backend.Label == l {
			names = append(names, backend.Endpoint)
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("No platform is configured for %s.", l)
	}
	return fmt.Sprintf("This endpoint is not one of the platforms that are configured for %s: %s.", l,
		strings.Join(names, ", "))
}

// likeness returns how well an endpoint that a service names matches the backend; 0: not at all. Without a scheme,
// that of the configured endpoint applies.
func (b *Backend) likeness(given string) (best int) {
	for _, own := range append([]string{b.Endpoint}, b.Aliases...) {
		a, err := ParseAddress(own)
		if err != nil {
			continue
		}
		raw := given
		if scheme, _, _ := strings.Cut(a.Origin, "://"); !strings.Contains(raw, "://") {
			raw = scheme + "://" + raw
		}
		if asked, err := ParseAddress(raw); err == nil && !strings.Contains(raw, "?") && asked.Origin == a.Origin {
			best = max(best, pathLikeness(b.Label, asked.path(), a.path()))
		}
	}
	return best
}

// pathLikeness returns how well a given path matches the path of a backend; 0: not at all. An identical path matches
// best. openEO paths also match if they differ only in their version suffix. An OGC path also matches if it is a parent
// of the given path; the longest parent matches best.
func pathLikeness(l Label, given, own string) int {
	switch {
	case given == own:
		return longestEndpoint + 2
	case l == OpenEO && trimVersion(given) == trimVersion(own):
		return 1
	case l == OGCProcess && strings.HasPrefix(given, own+"/"):
		return 1 + len(own)
	}
	return 0
}

// version matches the path suffixes that openEO back-ends have below their root by convention.
var version = regexp.MustCompile(`(?i)(/\.well-known/openeo|(/openeo)?(/v?\d+(\.\d+)*)?)$`)

func trimVersion(path string) string { return version.ReplaceAllLiteralString(path, "") }
