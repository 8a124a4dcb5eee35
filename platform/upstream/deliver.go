package upstream

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Delivery is a message to a URL that a user named.
type Delivery struct {
	Op     string
	URL    string
	Header http.Header
	Body   []byte
}

// drained is how many bytes of a receiver's response are read, so that its connection can be used again. A longer one
// ends the connection.
const drained = 4 << 10

// Deliver posts a message to a public address with https, or to a host that the operator trusts, and returns the
// status of the response, 0 if none arrived, and how long the receiver asks to wait. Redirects are not followed. The
// response's body is not used. A status of 300 or above is an error.
func (c *Client) Deliver(ctx context.Context, d Delivery) (status int, wait time.Duration, err error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	u, exempt, err := c.rules.parseUntrusted(d.URL, nil, true)
	if err != nil {
		return 0, 0, unusableURL(d.Op, err)
	}
	by := c.untrusted
	if exempt {
		by = c.trusted
	}
	req := &http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Header: d.Header.Clone()}
	setBody(req, d.Body)
	resp, sent, err := c.send(ctx, by.effect(false), d.Op, req)
	if err != nil {
		return 0, 0, failureAt(d.Op, err, sent, unusableURL)
	}
	defer resp.Body.Close()
	io.CopyN(io.Discard, resp.Body, drained) // whatever it is: the status has decided
	wait, _ = retryAfter(resp.Header, time.Now())
	switch {
	case resp.StatusCode < 300:
		return resp.StatusCode, wait, nil
	case resp.StatusCode < 400:
		return resp.StatusCode, wait, refused(d.Op, "The receiver redirects, which is not followed.")
	}
	return resp.StatusCode, wait, refused(d.Op, "The receiver did not accept the message.")
}

// Receives returns an error of kind Invalid if nothing is delivered to a URL. It sends no request.
func (c *Client) Receives(op, raw string) error {
	if _, _, err := c.rules.parseUntrusted(raw, nil, true); err != nil {
		return unusableURL(op, err)
	}
	return nil
}

func refused(op, text string) error {
	return &dispatch.Error{Kind: dispatch.BadUpstream, Op: op, Text: text}
}
