package dispatch

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Address is an absolute http or https URL, taken apart so that all spellings of one resource compare equal. All
// decisions that depend on whether two URLs lead to the same place compare Addresses, or their origins.
type Address struct {
	Origin string   // scheme, host and port as [OriginOf] returns them
	Path   []string // segments, unescaped, without empty ones
	Query  string   // escaped
}

// ErrNotPlain reports a URL that servers and libraries may read in different ways.
var ErrNotPlain = errors.New("it is not an absolute http or https URL in a plain form: " +
	"without a user name, a fragment, backslashes, semicolons, dot segments or encoded slashes, " +
	"and with a plain host name")

// ParseAddress parses a URL. It returns ErrNotPlain for every text that another library or server could read as the
// address of another resource: with a user, a fragment, a host that is neither a name nor a complete IP address,
// characters outside of ASCII that are not encoded, or a path with parameters (;), dot segments, or segments that
// contain delimiters, percent signs or control characters once they are unescaped.
func ParseAddress(raw string) (Address, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.User != nil || strings.ContainsAny(raw, "#\\") || !isGraphic(raw) {
		return Address{}, ErrNotPlain
	}
	server := origin(u)
	if server == "" || !plainHost(u.Hostname()) {
		return Address{}, ErrNotPlain
	}
	path, err := ParsePath(u.EscapedPath())
	return Address{Origin: server, Path: path, Query: u.RawQuery}, err
}

// isGraphic reports whether s consists of visible ASCII characters.
func isGraphic(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// ParsePath splits an escaped path into its segments, unescaped. It drops empty ones, and returns ErrNotPlain as
// [ParseAddress] does.
func ParsePath(raw string) (path []string, err error) {
	for escaped := range strings.SplitSeq(raw, "/") {
		if escaped == "" {
			continue
		}
		segment, err := url.PathUnescape(escaped)
		if err != nil || !plainSegment(segment) {
			return nil, ErrNotPlain
		}
		path = append(path, segment)
	}
	return path, nil
}

// plainSegment reports whether s stays one segment of a path, and the same one, whatever a server does with it.
func plainSegment(s string) bool {
	return s != "" && s != "." && s != ".." && utf8.ValidString(s) && s == strings.TrimSpace(s) &&
		!strings.ContainsAny(s, `/\?#%;`) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// hostName matches names of letters, digits, hyphens and underscores whose last label is not a number.
var hostName = regexp.MustCompile(`(?i)^(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)*[a-z](?:[a-z0-9-]*[a-z0-9])?$`)

// plainHost reports whether all libraries read host in the same way: as a name, or as an IP address.
func plainHost(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Zone() == ""
	}
	return hostName.MatchString(host)
}

// OriginOf returns the scheme, host and port of a URL in one spelling, without the default port; "" if the text is
// not an http or https URL with a host.
func OriginOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return origin(u)
}

var defaultPorts = map[string]uint64{"http": 80, "https": 443}

func origin(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname())
	usual, known := defaultPorts[scheme]
	if !known || host == "" {
		return ""
	}
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.String()
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.Port() == "" {
		return scheme + "://" + host
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case err != nil:
		return ""
	case port == usual:
		return scheme + "://" + host
	}
	return scheme + "://" + host + ":" + strconv.FormatUint(port, 10)
}

// String returns the URL without its query.
func (a Address) String() string { return a.Origin + a.path() }

// path returns the escaped path, without a slash at the end.
func (a Address) path() (escaped string) {
	for _, segment := range a.Path {
		escaped += "/" + url.PathEscape(segment)
	}
	return escaped
}

// Below returns the rest of b's path if b is a or lies below it.
func (a Address) Below(b Address) ([]string, bool) {
	n := len(a.Path)
	if a.Origin != b.Origin || len(b.Path) < n || !slices.Equal(a.Path, b.Path[:n]) {
		return nil, false
	}
	return b.Path[n:], true
}
