package dispatch

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

const longestEndpoint = 2048

// Backend finds the configured platform that a service is at, by its endpoint in any spelling: with and without a trailing
// slash, without a scheme, with the default port, with an openEO path or version, as the URL of an OGC process, or an
// alias. It asks nobody. None is Invalid, with a text that names those that are configured.
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

// choices is the text that names the configured endpoints.
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

// likeness is how well an address fits the backend; 0: not at all.
func (b *Backend) likeness(given address) (best int) {
	for _, own := range append([]string{b.Endpoint}, b.Aliases...) {
		if a, ok := parseAddress(own); ok && given.at(a) {
			best = max(best, pathLikeness(b.Label, given.path, a.path))
		}
	}
	return best
}

// pathLikeness prefers the same path to one that leads to the same, and a longer one that is above to a shorter one.
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

// version is what openEO back-ends have below their root, and their clients know without being told.
var version = regexp.MustCompile(`(?i)(/\.well-known/openeo|(/openeo)?(/v?\d+(\.\d+)*)?)$`)

func trimVersion(path string) string { return version.ReplaceAllLiteralString(path, "") }

// address is a URL as far as it says where something is.
type address struct {
	scheme, host, port string // "" where not told
	path               string // escaped, without a slash at the end
}

// parseAddress reads an absolute URL, or one without its scheme. It takes no address with more than a place in it, and
// none whose path leads elsewhere than it seems.
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

// misleading reports whether a path has segments that are something else decoded.
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

// at reports whether a is on the server that own is on. What a does not tell is as in own.
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
