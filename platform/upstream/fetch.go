package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Fetch is the request for a document at a URL that a user, or a result, named.
type Fetch struct {
	Op         string
	URL        string
	AllowHosts []string // hosts with or without a port; empty: any public host
	// TrustedHosts exempts hosts that the operator trusts from the rules for other hosts even if AllowHosts does not
	// list them. For documents that the operator, and not a user, names.
	TrustedHosts bool
	Limit        int64  // bytes; default 10 MiB
	ETag         string // of the known version: the response may then be 304
}

// Fetch reads a document without a token: with https, from an allowed host with a public address, and through at most
// three redirects under the same rules. A URL that breaks the rules is Invalid, and so is a document that is too long.
// A response that does not arrive in time is Unavailable. A host that the operator trusts and f.AllowHosts lists, or
// f.TrustedHosts exempts, may be private and use http.
func (c *Client) Fetch(ctx context.Context, f Fetch) (*Answer, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	resp, err := c.follow(ctx, f.Op, f.URL, func(at string) (*url.URL, bool, error) {
		return c.rules.parseUntrusted(at, f.AllowHosts, f.TrustedHosts)
	}, f.request, unusableURL)
	if err != nil {
		return nil, err
	}
	a, err := read(ctx, resp, Call{Op: f.Op, Limit: f.Limit})
	switch {
	case a.Status == http.StatusNotModified && f.ETag != "":
		return a, nil
	case errors.Is(err, ErrTooLong):
		err = unusableURL(f.Op, fmt.Errorf("it is longer than %d bytes", cmp.Or(f.Limit, bounds.AnswerBytes.Most)))
	}
	return a, err
}

// follow sends a request to an address that the operator did not configure, and follows at most three redirects, each
// by the rules of check. fault returns the error for an address that must not be used.
func (c *Client) follow(ctx context.Context, op, next string, check func(string) (*url.URL, bool, error),
	request func(*url.URL) *http.Request, fault func(op string, why error) error) (*http.Response, error) {
	for range maxHops + 1 {
		u, exempt, err := check(next)
		if err != nil {
			return nil, fault(op, err)
		}
		by := c.untrusted
		if exempt {
			by = c.trusted
		}
		resp, sent, err := c.send(ctx, by.reads.RoundTrip, op, request(u))
		if err != nil {
			return nil, failureAt(op, err, sent, fault)
		}
		to := redirect(resp, u)
		if to == nil {
			return resp, nil
		}
		resp.Body.Close()
		next = to.String()
	}
	return nil, fault(op, errors.New("it redirects more than three times"))
}

func (f Fetch) request(u *url.URL) *http.Request {
	h := http.Header{"Accept": {"application/json, application/geo+json, */*;q=0.1"}}
	if f.ETag != "" {
		h.Set("If-None-Match", f.ETag)
	}
	return &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: h, Body: http.NoBody}
}

// failureAt returns the error for such an address whose server did not respond.
func failureAt(op string, err error, sent bool, fault func(string, error) error) error {
	if hidden(err) {
		return fault(op, errPrivate)
	}
	return failure(op, err, sent, false)
}

// hidden reports whether a host is private or does not exist. Both get the same text, so that it does not disclose
// which internal names exist.
func hidden(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return prohibited(err) || ok && dns.IsNotFound
}
