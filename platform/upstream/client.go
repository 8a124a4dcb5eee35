// Package upstream sends HTTP requests to servers of others: platforms, identity providers, and hosts that users name.
//
// It is the only place that decides which servers may be contacted, which server receives a token, how large a
// response may be, and which [dispatch.Kind] a failure has. It repeats a request that has an effect only if the server
// did certainly not process it.
package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Config configures a [Client]. The zero value is the strictest.
type Config struct {
	UserAgent string // value of the User-Agent header; default "eodispatch"

	// Development allows http, any port, and private addresses.
	Development bool

	// Transport replaces the default transport, which checks addresses when it connects. For tests and simulators.
	Transport http.RoundTripper

	// Dial replaces how the default transport connects; addresses are not checked then. For tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Trace is called with each request before it is sent, to which it may add headers, and the name of the operation.
	// It returns the context to send it with, and what is called with the header of the response, or the error.
	// Optional.
	Trace func(ctx context.Context, op string, r *http.Request) (context.Context, func(*http.Response, error))

	// Timeout bounds a call whose context has no deadline; default 30 s.
	Timeout time.Duration

	// Trust lists the servers that the operator configured: URLs, of which the origin counts ("http://10.0.0.5:8080"),
	// or hosts ("idp.example.org"), which are trusted with https. They may have private addresses.
	Trust []string
}

const (
	defaultTimeout = 30 * time.Second
	maxHops        = 3
)

// Client sends requests. It is safe for concurrent use.
type Client struct {
	Config
	rules     rules
	trusted   network // for servers that the operator configured; other connections are guarded
	untrusted network // for servers that users name: it shares no connections with the others, so all are guarded
}

// New returns a client.
func New(c Config) *Client {
	r := newRules(c)
	c.UserAgent, c.Timeout = cmp.Or(c.UserAgent, "eodispatch"), cmp.Or(c.Timeout, defaultTimeout)
	client := &Client{c, r, network{reads: c.Transport}, network{reads: c.Transport}}
	if c.Transport == nil {
		trusted, untrusted := r.dialer(r.trustsAddress), r.dialer(noExemption)
		if c.Dial != nil {
			trusted, untrusted = c.Dial, c.Dial
		}
		client.trusted, client.untrusted = newNetwork(trusted), newNetwork(untrusted)
	}
	return client
}

type network struct {
	reads   http.RoundTripper
	effects *connections // nil: reads sends all requests
}

func newNetwork(dial dialer) network {
	return network{transport(dial), &connections{opener: transport(dial), open: map[string][]*connection{}}}
}

type exchange func(*http.Request) (*http.Response, error)

// effect returns what sends a request that has an effect. blind: see [Call].
func (n network) effect(blind bool) exchange {
	if n.effects == nil {
		return n.reads.RoundTrip
	}
	return func(r *http.Request) (*http.Response, error) { return n.effects.send(r, blind) }
}

// Call is a request to a server that the operator configured.
type Call struct {
	Op     string // the operation, for errors: "openeo.create"
	Server string // what texts of errors call the server: "platform cdse"; default "server"
	Method string
	URL    string
	Token  dispatch.Secret // text after "Bearer "; only sent if URL has the origin of Origin
	Origin string          // a URL of the server that the token is for
	Header http.Header
	Body   []byte
	Effect bool // the request may change something: a failure that does not tell whether it did is Uncertain
	Blind  bool // it cannot be found out later whether it did, so after a pause it is sent on a new connection
	// bytes of the response body; default, and maximum for an error response: see budget.AnswerBytes and AnswerError
	Limit int64
}

// Answer is the response to a [Call] or [Fetch].
type Answer struct {
	Status int
	Header http.Header
	Body   []byte        // that of a Call without NaN, see [Finite]
	Stream io.ReadCloser // used instead of Body by [Client.Stream]; the caller closes it
	URL    *url.URL      // the address that responded, after redirects
}

// Do sends the request and reads the response. Redirects are followed only within the origin, and never with a token or
// an effect. A status of 300 or above is a [*dispatch.Error], and so is a body that is cut off or longer than the
// limit. The Answer is also returned with an error, as far as it arrived, so that a protocol's own error codes can be
// read.
func (c *Client) Do(ctx context.Context, call Call) (*Answer, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	resp, err := c.call(ctx, call)
	if err != nil {
		return nil, err
	}
	a, err := read(ctx, resp, call)
	a.Body = Finite(a.Body)
	return a, err
}

// Stream sends the request and returns the body of a response below 300 as Answer.Stream, without a limit on its size.
// ctx bounds the time of the whole call and must stay valid until the body is read. Otherwise it is like [Client.Do].
func (c *Client) Stream(ctx context.Context, call Call) (*Answer, error) {
	ctx, cancel := c.bounded(ctx)
	resp, err := c.call(ctx, call)
	if err != nil {
		cancel()
		return nil, err
	}
	if resp.StatusCode >= 300 {
		defer cancel()
		return read(ctx, resp, call)
	}
	a := answer(resp)
	a.Stream = &stream{Reader: unpacked(resp, resp.Body), body: resp.Body, done: cancel, op: call.Op}
	return a, nil
}

// stream is a response body whose read errors are [*dispatch.Error].
type stream struct {
	io.Reader
	body io.Closer
	done context.CancelFunc
	op   string
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &dispatch.Error{Kind: dispatch.Unavailable, Op: s.op, Text: textCutOff, Err: err}
	}
	return n, err
}

func (s *stream) Close() error {
	s.done()
	return s.body.Close()
}

func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.Timeout)
}

// call sends the request and follows harmless redirects.
func (c *Client) call(ctx context.Context, call Call) (*http.Response, error) {
	u, err := c.rules.parseConfigured(call.URL)
	if err != nil {
		return nil, &dispatch.Error{Kind: dispatch.Misconfigured, Op: call.Op,
			Text: "This address is not permitted: " + err.Error() + "."}
	}
	token := call.Token
	if token != "" && !SameOrigin(call.URL, call.Origin) {
		token = ""
	}
	by := c.trusted.reads.RoundTrip
	if call.Effect {
		by = c.trusted.effect(call.Blind)
	}
	for hops := 0; ; hops++ {
		resp, sent, err := c.send(ctx, by, call.Op, call.request(u, token))
		if err != nil {
			return nil, named(call.Server, failure(call.Op, err, sent, call.Effect))
		}
		next := redirect(resp, u)
		if next == nil || token != "" || call.Effect || hops == maxHops || !SameOrigin(next.String(), u.String()) {
			return resp, nil
		}
		resp.Body.Close()
		u = next
	}
}

func (call Call) request(u *url.URL, token dispatch.Secret) *http.Request {
	req := &http.Request{Method: call.Method, URL: u, Host: u.Host, Header: call.Header.Clone(), Body: http.NoBody}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	// Credentials are only sent as Token. Go's transport may send requests with an idempotency key twice.
	for _, name := range []string{"Authorization", "Cookie", "Idempotency-Key", "X-Idempotency-Key"} {
		req.Header.Del(name)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	if len(call.Body) > 0 {
		setBody(req, call.Body)
		if req.Header.Get("Content-Type") == "" {
			req.Header.Set("Content-Type", "application/json")
		}
	}
	return req
}

func setBody(req *http.Request, body []byte) {
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody() // never an error
	req.ContentLength = int64(len(body))
}

var (
	errNotSent  = errors.New("not sent: the deadline had passed")
	errSwitched = errors.New("HTTP 101")
)

// send sends one request of an operation. sent is false if it is certain that the server did not receive or process
// it. A response that switches protocols is an error: its body would be the connection, and no deadline ends a read of
// that.
func (c *Client) send(ctx context.Context, by exchange, op string, req *http.Request) (
	resp *http.Response, sent bool, err error) {
	if ctx.Err() != nil {
		return nil, false, fmt.Errorf("%w (%w)", errNotSent, context.Cause(ctx))
	}
	req.Header.Set("User-Agent", c.UserAgent)
	if req.Header.Get("Accept-Encoding") == "" {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	if c.Trace != nil {
		tracing, end := c.Trace(ctx, op, req)
		ctx = tracing
		defer func() { end(resp, err) }()
	}
	var traced, wrote atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:          func(string) { traced.Store(true) },
		WroteHeaderField: func(string, []string) { wrote.Store(true) },
	})
	if resp, err = by(req.WithContext(ctx)); err == nil {
		if resp.StatusCode == http.StatusSwitchingProtocols {
			resp.Body.Close()
			return nil, true, errSwitched
		}
		resp.Request = req
		return resp, true, nil
	}
	if _, unreceived := errors.AsType[unreceivedError](err); unreceived {
		return nil, false, err
	}
	// Another transport may not report what it sent; then only the error itself can prove that nothing was sent.
	return nil, wrote.Load() || !traced.Load() && !beforeSending(err), err
}

// redirect returns the target of a redirect; nil if resp is none.
func redirect(resp *http.Response, from *url.URL) *url.URL {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		if next, err := from.Parse(resp.Header.Get("Location")); err == nil && resp.Header.Get("Location") != "" {
			return next
		}
	}
	return nil
}

func answer(resp *http.Response) *Answer {
	return &Answer{Status: resp.StatusCode, Header: resp.Header, URL: resp.Request.URL}
}

// read reads the body and returns the error that the response means. If the status is enough for that, a body that was
// cut off does not matter.
func read(ctx context.Context, resp *http.Response, call Call) (*Answer, error) {
	a := answer(resp)
	limit := cmp.Or(call.Limit, bounds.AnswerBytes.Most)
	if a.Status >= 300 {
		limit = min(limit, bounds.AnswerError.Most)
	}
	var err error
	a.Body, err = readBody(ctx, resp, limit)
	switch {
	case a.Status >= 300:
		err := statusError(call.Op, a, call.Effect)
		if Text(Message(a)) == "" {
			err = named(call.Server, err)
		}
		return a, err
	case errors.Is(err, ErrTooLong):
		return a, &dispatch.Error{Kind: uncertainIf(call.Effect, dispatch.BadUpstream), Op: call.Op,
			Text: "The server's response is too long.", Err: err}
	case errors.Is(err, errNoPlace):
		return a, &dispatch.Error{Kind: uncertainIf(call.Effect, dispatch.Busy), Op: call.Op,
			Text: "Too many large responses of the server are being read. Try again later.", Err: err}
	case err != nil:
		text := textCutOff
		if errors.Is(err, context.DeadlineExceeded) {
			text = "The server did not send the whole response in time."
		}
		return a, named(call.Server, &dispatch.Error{Kind: uncertainIf(call.Effect, dispatch.Unavailable), Op: call.Op,
			Text: text, Err: err})
	}
	return a, nil
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b string) bool {
	x := dispatch.OriginOf(a)
	return x != "" && x == dispatch.OriginOf(b)
}
