package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/eodispatch/eodispatch/dispatch"
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
	Accept       string // media types; by default JSON is preferred
}

// Fetch reads a document without a token: with https, from an allowed host with a public address, and through at most
// three redirects under the same rules. A URL that breaks the rules is Invalid, and so is a document that is too long.
// A response that does not arrive in time is Unavailable. A host that the operator trusts and f.AllowHosts lists, or
// f.TrustedHosts exempts, may be private and use http.
func (c *Client) Fetch(ctx context.Context, f Fetch) (*Answer, error) {
	ctx, cancel := c.bounded(ctx, 0)
	defer cancel()
	next := f.URL
	for range maxHops + 1 {
		u, exempt, err := c.rules.parseUntrusted(next, f.AllowHosts, f.TrustedHosts)
		if err != nil {
			return nil, unusableURL(f.Op, err)
		}
		by := c.untrusted
		if exempt {
			by = c.trusted
		}
		resp, sent, err := c.send(ctx, by.reads.RoundTrip, f.Op, f.request(u))
		if err != nil {
			return nil, fetchFailure(f.Op, err, sent)
		}
		to := redirect(resp, u)
		if to == nil {
			return f.read(ctx, resp)
		}
		resp.Body.Close()
		next = to.String()
	}
	return nil, unusableURL(f.Op, errors.New("it redirects more than three times"))
}

func (f Fetch) request(u *url.URL) *http.Request {
	h := http.Header{"Accept": {cmp.Or(f.Accept, "application/json, application/geo+json, */*;q=0.1")}}
	if f.ETag != "" {
		h.Set("If-None-Match", f.ETag)
	}
	return &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: h, Body: http.NoBody}
}

func (f Fetch) read(ctx context.Context, resp *http.Response) (*Answer, error) {
	a := answer(resp)
	limit := cmp.Or(f.Limit, bounds.AnswerBytes.Most)
	if a.Status >= 300 {
		limit = min(limit, bounds.AnswerError.Most)
	}
	body, err := readBody(ctx, resp, limit)
	a.Body = body
	switch {
	case a.Status == http.StatusNotModified && f.ETag != "":
		return a, nil
	case a.Status >= 300:
		return a, statusError(f.Op, a, false)
	case errors.Is(err, ErrTooLong):
		return a, unusableURL(f.Op, fmt.Errorf("it is longer than %d bytes", limit))
	case errors.Is(err, errNoPlace):
		return a, &dispatch.Error{Kind: dispatch.Busy, Op: f.Op,
			Text: "Too many large documents are being read. Try again later.", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return a, &dispatch.Error{Kind: dispatch.Unavailable, Op: f.Op,
			Text: "The server did not send the whole document in time.", Err: err}
	case err != nil:
		return a, &dispatch.Error{Kind: dispatch.Unavailable, Op: f.Op, Text: textCutOff, Err: err}
	}
	return a, nil
}

// fetchFailure returns the error for a document whose server did not respond.
func fetchFailure(op string, err error, sent bool) error {
	if hidden(err) {
		return unusableURL(op, errPrivate)
	}
	return failure(op, err, sent, false)
}

// hidden reports whether a host is private or does not exist. Both get the same text, so that it does not disclose
// which internal names exist.
func hidden(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return prohibited(err) || ok && dns.IsNotFound
}
