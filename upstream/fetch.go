package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Fetch is a document to be read at a URL that a user, or a result, gave.
type Fetch struct {
	Op         string
	URL        string
	AllowHosts []string // hosts, with a port or without; empty: any that is public
	Limit      int64    // bytes; default 10 MiB
	ETag       string   // of what is known already: then the answer may be 304
	Accept     string   // default: JSON is preferred
}

// Fetch reads a document without any token: over https, from an allowed host with a public address, through at most
// three redirects that keep to the same rules. What breaks them is Invalid, and so is a document that is too long. One
// that does not end in time is Unavailable. A host that the operator trusts and f.AllowHosts lists may be private, and http.
func (c *Client) Fetch(ctx context.Context, f Fetch) (*Answer, error) {
	ctx, cancel := c.bounded(ctx, 0)
	defer cancel()
	next := f.URL
	for range maxHops + 1 {
		u, exempt, err := c.rules.stranger(next, f.AllowHosts)
		if err != nil {
			return nil, refused(f.Op, err)
		}
		by := c.strange
		if exempt {
			by = c.known
		}
		resp, sent, err := c.send(ctx, by, f.request(u))
		if err != nil {
			return nil, unfetched(f.Op, err, sent)
		}
		to := redirect(resp, u)
		if to == nil {
			return f.read(ctx, resp)
		}
		resp.Body.Close()
		next = to.String()
	}
	return nil, refused(f.Op, errors.New("it redirects too often"))
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
	limit := cmp.Or(f.Limit, budget.AnswerBytes.Most)
	if a.Status >= 300 {
		limit = min(limit, budget.AnswerError.Most)
	}
	body, err := readBody(ctx, resp, limit)
	a.Body = body
	switch {
	case a.Status == http.StatusNotModified && f.ETag != "":
		return a, nil
	case a.Status >= 300:
		return a, statusError(f.Op, a, false)
	case errors.Is(err, errTooLong):
		return a, refused(f.Op, fmt.Errorf("it is longer than %d bytes", limit))
	case errors.Is(err, errNoPlace):
		return a, &dispatch.Error{Kind: dispatch.Busy, Op: f.Op, Text: "Too many large documents are read at once.", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return a, &dispatch.Error{Kind: dispatch.Unavailable, Op: f.Op, Text: "The server did not send the document to its end in time.", Err: err}
	case err != nil:
		return a, &dispatch.Error{Kind: dispatch.Unavailable, Op: f.Op, Text: textCutOff, Err: err}
	}
	return a, nil
}

// unfetched is the error for a document whose server did not answer.
func unfetched(op string, err error, sent bool) error {
	dns, ok := errors.AsType[*net.DNSError](err)
	switch {
	case prohibited(err), ok && dns.IsNotFound: // one text for both, so that it does not tell which internal names there are
		return refused(op, errPrivate)
	}
	return failure(op, err, sent, false)
}
