package upstream

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Relay is a request for a file that a result of a platform links to. The response is passed on as it arrives.
type Relay struct {
	Op string
	dispatch.FileRequest
	Token  dispatch.Secret // text after "Bearer "; only sent to the origin of Origin, until a redirect leaves it
	Origin string          // a URL of the platform
}

// stallAfter is how long a server may send nothing in the middle of a file.
const stallAfter = time.Minute

// relayed are the statuses that are passed on. All others are errors.
var relayed = map[int]bool{http.StatusOK: true, http.StatusPartialContent: true, http.StatusNotModified: true,
	http.StatusPreconditionFailed: true, http.StatusRequestedRangeNotSatisfiable: true}

// Relay asks for a file: with https, from a public host or from the platform itself, and through at most three
// redirects under the same rules. Users may have made the link, so other hosts that the operator trusts have no
// exemption. The body is the file, or a range of it, as the server sends it, of any length; the caller closes it.
// It breaks off with Unavailable when the server sends nothing for a minute. A link for GET may be signed for that
// method alone, so that a server which refuses HEAD is asked by GET.
func (c *Client) Relay(ctx context.Context, r Relay) (*dispatch.File, error) {
	if !r.Head {
		return c.relay(ctx, r, http.MethodGet)
	}
	a, err := c.relay(ctx, r, http.MethodHead)
	if dispatch.Is(err, dispatch.Forbidden) || dispatch.Is(err, dispatch.Unsupported) {
		a, err = c.relay(ctx, r, http.MethodGet)
	}
	if err != nil {
		return nil, err
	}
	a.Body.Close()
	a.Body = http.NoBody
	return a, nil
}

func (c *Client) relay(ctx context.Context, r Relay, method string) (*dispatch.File, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(c.Timeout, cancel)
	resp, err := c.follow(ctx, r.Op, r.URL, func(at string) (*url.URL, bool, error) {
		own := SameOrigin(at, r.Origin)
		if !own {
			r.Token = "" // nor later: this server could lead back to anything there
		}
		return c.rules.parseUntrusted(at, nil, own)
	}, func(u *url.URL) *http.Request { return r.request(method, u) }, badLink)
	if err == nil && !relayed[resp.StatusCode] {
		_, err = read(ctx, resp, Call{Op: r.Op})
		err = r.refusal(err, resp.Request.URL)
	}
	if err != nil {
		late.Stop()
		cancel()
		return nil, err
	}
	late.Stop()
	return &dispatch.File{Status: resp.StatusCode, Header: resp.Header, Body: &stream{op: r.Op, body: resp.Body,
		Reader: &watched{resp.Body, late}, done: func() { late.Stop(); cancel() }}}, nil
}

func (r Relay) request(method string, u *url.URL) *http.Request {
	h := http.Header(r.Header).Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Accept-Encoding", "identity") // ranges count the bytes of the file itself
	if r.Token != "" {
		h.Set("Authorization", "Bearer "+r.Token.Reveal())
	}
	return &http.Request{Method: method, URL: u, Host: u.Host, Header: h, Body: http.NoBody}
}

// refusal returns the error for a status that is not passed on. Another server's refusal says nothing about the token,
// which it did not get.
func (r Relay) refusal(err error, at *url.URL) error {
	switch {
	case err == nil: // another status of success
		return &dispatch.Error{Kind: dispatch.BadUpstream, Op: r.Op,
			Text: "The server of the file responded with something else."}
	case dispatch.Is(err, dispatch.SignInRequired) && !SameOrigin(at.String(), r.Origin):
		return &dispatch.Error{Kind: dispatch.Forbidden, Op: r.Op, Text: "The server of the file refuses the link.",
			Err: err}
	}
	return err
}

// badLink returns the error for a link that must not be followed. It is the platform's fault, and not that of the
// client.
func badLink(op string, why error) error {
	return &dispatch.Error{Kind: dispatch.BadUpstream, Op: op,
		Text: "The platform's link to the file cannot be followed: " + why.Error() + "."}
}

// watched is a body of which each read must end in time.
type watched struct {
	io.Reader
	late *time.Timer // ends the request
}

func (w *watched) Read(p []byte) (int, error) {
	w.late.Reset(stallAfter)
	defer w.late.Stop()
	return w.Reader.Read(p)
}
