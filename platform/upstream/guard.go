package upstream

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"code.dny.dev/ssrf"

	"github.com/eodispatch/eodispatch/dispatch"
)

// rules decide which URLs may be called and which addresses may be connected to.
type rules struct {
	development bool
	trusted     []string // origins
	public      *ssrf.Guardian
	resolver    *net.Resolver // nil: the system's
}

func newRules(c Config) rules {
	r := rules{development: c.Development, public: ssrf.New(ssrf.WithPorts(443))}
	for _, t := range c.Trust {
		if !strings.Contains(t, "://") {
			t = "https://" + t
		}
		if o := dispatch.OriginOf(t); o != "" {
			r.trusted = append(r.trusted, o)
		}
	}
	return r
}

func (r rules) trusts(u *url.URL) bool {
	return slices.Contains(r.trusted, dispatch.OriginOf(u.String()))
}

// trustsAddress is trusts for host:port, all that is known when connecting.
func (r rules) trustsAddress(address string) bool {
	at := []string{dispatch.OriginOf("https://" + address), dispatch.OriginOf("http://" + address)}
	return slices.ContainsFunc(r.trusted, func(o string) bool { return slices.Contains(at, o) })
}

func noExemption(string) bool { return false }

// parseConfigured checks the URL of a call: it must have a host, and https unless the operator configured it otherwise.
func (r rules) parseConfigured(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Hostname() == "":
		return nil, errors.New("it is not an absolute URL")
	case u.User != nil:
		return nil, errors.New("it contains a user name")
	case u.Scheme == "http" && !r.development && !r.trusts(u):
		return nil, errors.New("it is not https")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("it is neither https nor http")
	}
	return u, nil
}

// hostName matches names of letters, digits and hyphens whose last label is not a number.
var hostName = regexp.MustCompile(`^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z](?:[a-z0-9-]*[a-z0-9])?$`)

// parseUntrusted checks a URL that a user, or a user's result, named. allow lists hosts with or without a port; empty:
// any. A host that the operator trusts and allows, or trusts where all trusted hosts are exempt, need not be public or
// use https.
func (r rules) parseUntrusted(raw string, allow []string, trusted bool) (u *url.URL, exempt bool, err error) {
	u, err = url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return nil, false, errors.New("it is not an absolute URL")
	}
	exempt = r.development || r.trusts(u) && (trusted || listed(u, allow))
	host := strings.ToLower(u.Hostname())
	address, numeric := netip.ParseAddr(host)
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || !exempt):
		return nil, false, errors.New("only https is allowed")
	case u.User != nil:
		return nil, false, errors.New("it contains a user name")
	case strings.Contains(raw, "#"):
		return nil, false, errors.New("it has a fragment")
	case strings.ContainsAny(raw, "\\\t\r\n "):
		return nil, false, errors.New("it contains a backslash or a space")
	case numeric != nil && !hostName.MatchString(host):
		return nil, false, errors.New("its host is not a plain name")
	case len(allow) > 0 && !listed(u, allow):
		return nil, false, errors.New("its host is not in applications.allow_hosts")
	case exempt:
		return u, exempt, nil
	case cmp.Or(u.Port(), "443") != "443":
		return nil, false, errors.New("its port is not 443")
	case numeric == nil && r.public.SafeAddr(address) != nil:
		return nil, false, errPrivate
	}
	return u, exempt, nil
}

var errPrivate = errors.New("the host resolves to a non-public address")

func listed(u *url.URL, allow []string) bool {
	return slices.ContainsFunc(allow, func(a string) bool {
		return strings.EqualFold(a, u.Hostname()) || strings.EqualFold(a, u.Host)
	})
}

// prohibited reports whether err comes from this guard.
func prohibited(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedPort) ||
		errors.Is(err, ssrf.ErrProhibitedNetwork) || errors.Is(err, ssrf.ErrInvalidHostPort)
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns a dialer that connects to public addresses only, or to host:port addresses that are exempt. It checks
// the resolved address at each connection.
func (r rules) dialer(exempt func(address string) bool) dialer {
	plain := net.Dialer{Timeout: 10 * time.Second, Resolver: r.resolver}
	guarded := plain
	guarded.Control = r.public.Safe
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if r.development || exempt(address) {
			return plain.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}

// transport returns the default transport. It uses no proxy, because a proxy would connect to addresses that the guard
// forbids.
func transport(dial dialer) *http.Transport {
	return &http.Transport{
		DialContext:         dial,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     idleTime,
		// finds connections that died silently
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
		MaxIdleConnsPerHost:    64,
		MaxIdleConns:           mostKept,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // see unpacked
	}
}

// Allowed returns an error of kind Invalid if a user's URL must not be fetched. It sends no request.
func (c *Client) Allowed(op, raw string, hosts []string) error {
	if _, _, err := c.rules.parseUntrusted(raw, hosts, false); err != nil {
		return unusableURL(op, err)
	}
	return nil
}

func unusableURL(op string, why error) error {
	return &dispatch.Error{Kind: dispatch.Invalid, Op: op, Text: "This URL cannot be used: " + why.Error() + "."}
}
