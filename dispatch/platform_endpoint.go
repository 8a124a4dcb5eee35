package dispatch

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

const longestEndpoint = 2048

// Backend returns the configured platform of a service. The endpoint of the service may be written with or without a trailing slash,
// without a scheme, with the default port, with an openEO path or version, as the URL of an OGC process, or as an alias. Backend sends no
// request. If no platform matches, the error is Invalid, and its text lists those that are configured.
func (b *Broker) Backend(s Service, l Label) (*Backend, error) {
	var found *Backend
	best := 0
	given, ok := parseAddress(s.Endpoint)
	for _, backend := range b.Backends {
		if !ok || backend.Label != l {
			continue
		}
		if n := backend.likeness(given); n > best {
			found, best = backend, n
		}
	}
	if found == nil {
		return nil, InvalidBody("dispatch.Backend", b.choices(l), "service", "endpoint")
	}
	return found, nil
}

// choices returns the text of that error, which lists the configured endpoints.
func (b *Broker) choices(l Label) string {
	var names []string
	for _, backend := range b.Backends {
		if backend.Label == l {
			names = append(names, backend.Endpoint)
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("No platform is configured for %s.", l)
	}
	return fmt.Sprintf("This endpoint is not one of the platforms that are configured for %s: %s.", l, strings.Join(names, ", "))
}

// likeness returns how well an address matches the backend; 0: not at all.
func (b *Backend) likeness(given address) (best int) {
	for _, own := range append([]string{b.Endpoint}, b.Aliases...) {
		if a, ok := parseAddress(own); ok && given.at(a) {
			best = max(best, pathLikeness(b.Label, given.path, a.path))
		}
	}
	return best
}

// pathLikeness returns how well a given path matches the path of a backend; 0: not at all. An identical path matches best. openEO paths
// also match if they differ only in their version suffix. An OGC path also matches if it is a parent of the given path; the longest parent
// matches best.
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

// address is the part of a URL that locates a resource.
type address struct {
	scheme, host, port string // "" if not given
	path               string // escaped, without a slash at the end
}

// parseAddress parses an absolute URL, with http, https or no scheme. It rejects URLs longer than longestEndpoint bytes, URLs without a
// host, URLs with a user, a query or a fragment, and URLs whose path is misleading.
func parseAddress(s string) (address, bool) {
	s = strings.TrimSpace(s)
	if len(s) > longestEndpoint {
		return address{}, false
	}
	if !strings.Contains(s, "://") {
		s = "//" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || misleading(u) {
		return address{}, false
	}
	if u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" {
		return address{}, false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return address{u.Scheme, host, u.Port(), strings.TrimRight(u.EscapedPath(), "/")}, true
}

// misleading reports whether the path of u contains an escaped slash, a backslash, or a segment . or .., escaped or not, so that it may
// lead to another resource than it seems to.
func misleading(u *url.URL) bool {
	if strings.Count(u.Path, "/") != strings.Count(u.EscapedPath(), "/") || strings.Contains(u.Path, `\`) {
		return true
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// at reports whether a is on the same server as own. If a has no scheme, that of own applies. If a has no port, the default of the scheme
// applies.
func (a address) at(own address) bool {
	if a.scheme == "" {
		a.scheme = own.scheme
	}
	return a.host == own.host && a.scheme == own.scheme && a.realPort() == own.realPort()
}

func (a address) realPort() string {
	switch {
	case a.port != "":
		return a.port
	case a.scheme == "http":
		return "80"
	}
	return "443"
}
