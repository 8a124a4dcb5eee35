// Package upstream speaks HTTP to servers that are not ours: platforms, identity providers, and hosts that users name.
//
// It is the one place that decides what may be connected to, where a token may go, how much may come back, and which
// [dispatch.Kind] a failure is. It never repeats a request that has an effect.
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
	"strings"
	"sync/atomic"
	"time"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Config says how a [Client] behaves. The zero value is the strict one.
type Config struct {
	UserAgent string // names us to those who run the servers; default "eodispatch"

	// Development allows http, any port, and private addresses.
	Development bool

	// Transport replaces our own, which checks addresses when it connects. For tests and simulators.
	Transport http.RoundTripper

	// Dial replaces the connections of our own transport; addresses are not checked then. For tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Timeout bounds a call whose context has no deadline; default 30 s.
	Timeout time.Duration

	// Trust lists what the operator configured: URLs, of which the origin counts ("http://10.0.0.5:8080"), or hosts
	// ("idp.example.org"), which are trusted over https. They may have private addresses.
	Trust []string
}

const (
	defaultTimeout = 30 * time.Second
	maxHops        = 3
)

// Client is safe for concurrent use.
type Client struct {
	agent   string
	timeout time.Duration
	rules   rules
	known   http.RoundTripper // to what the operator configured; all else it connects to is guarded
	once    http.RoundTripper // the same, with a connection for each request
	strange http.RoundTripper // to what users name: it shares no connection with the others, so none is unguarded
}

// New makes a client.
func New(c Config) *Client {
	r := newRules(c)
	client := &Client{
		agent: cmp.Or(c.UserAgent, "eodispatch"), timeout: cmp.Or(c.Timeout, defaultTimeout), rules: r,
		known: c.Transport, once: c.Transport, strange: c.Transport,
	}
	if c.Transport == nil {
		known, strange := r.dialer(r.trustsAddress), r.dialer(nobody)
		if c.Dial != nil {
			known, strange = c.Dial, c.Dial
		}
		client.known, client.strange = transport(known), transport(strange)
		once := transport(known)
		once.DisableKeepAlives = true
		client.once = once
	}
	return client
}

// Call is one request to a server that the operator configured.
type Call struct {
	Op     string // what is being done, for errors: "openeo.create"
	Method string
	URL    string
	Token  dispatch.Secret // all that follows "Bearer "; sent only if URL has the origin of Origin
	Origin string          // a URL of the server that the token is for
	Header http.Header
	Body   []byte
	Effect bool  // it may change something there: a failure that leaves open whether it did is Uncertain
	Limit  int64 // bytes of the answer's body; default and, for one that is an error, most: see budget.AnswerBytes and AnswerError

	Timeout time.Duration // when the context has no deadline; default the client's
}

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Stream io.ReadCloser // instead of Body, from [Client.Stream]; the caller closes it
	URL    *url.URL      // where it came from, after redirects
}

// Do makes the call and reads the answer. Redirects are followed only within the origin, and never with a token or an
// effect. A status of 300 and above is a [*dispatch.Error], and so is a body that is cut off or longer than the limit;
// the Answer is returned too as far as it came, so that a protocol's own codes can say more.
func (c *Client) Do(ctx context.Context, call Call) (*Answer, error) {
	ctx, cancel := c.bounded(ctx, call.Timeout)
	defer cancel()
	resp, err := c.call(ctx, call)
	if err != nil {
		return nil, err
	}
	return read(ctx, resp, call)
}

// Stream makes the call and leaves the body of an answer below 300 to the caller, as Answer.Stream, without a limit but
// the time that bounds the whole call: ctx must be alive until the body is read. All else is as for [Client.Do].
func (c *Client) Stream(ctx context.Context, call Call) (*Answer, error) {
	ctx, cancel := c.bounded(ctx, call.Timeout)
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

// stream is a body on its way, whose failure is told as every other.
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

func (c *Client) bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, cmp.Or(timeout, c.timeout))
}

// call sends the request, and follows redirects where that is harmless. A request with an effect has a connection of its
// own: one that was idle may be closing, and what was written to it would be in doubt.
func (c *Client) call(ctx context.Context, call Call) (*http.Response, error) {
	u, err := c.rules.server(call.URL)
	if err != nil {
		return nil, &dispatch.Error{Kind: dispatch.Misconfigured, Op: call.Op, Text: "This address may not be called: " + err.Error() + "."}
	}
	token := call.Token
	if !SameOrigin(call.URL, call.Origin) {
		token = ""
	}
	by := c.known
	if call.Effect {
		by = c.once
	}
	for hops := 0; ; hops++ {
		resp, sent, err := c.send(ctx, by, call.request(u, token))
		if err != nil {
			return nil, failure(call.Op, err, sent, call.Effect)
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
	// Credentials come as Token alone, and a request that names a key is one that Go's transport may send twice.
	for _, name := range []string{"Authorization", "Cookie", "Idempotency-Key", "X-Idempotency-Key"} {
		req.Header.Del(name)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	if len(call.Body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(call.Body)) // without GetBody it cannot be sent twice
		req.ContentLength = int64(len(call.Body))
		if req.Header.Get("Content-Type") == "" {
			req.Header.Set("Content-Type", "application/json")
		}
	}
	return req
}

var errNotSent = errors.New("not sent: the time for it was over")

// send makes one exchange. sent is false when it is certain that the server got nothing.
func (c *Client) send(ctx context.Context, by http.RoundTripper, req *http.Request) (resp *http.Response, sent bool, err error) {
	if ctx.Err() != nil {
		return nil, false, fmt.Errorf("%w (%w)", errNotSent, context.Cause(ctx))
	}
	req.Header.Set("User-Agent", c.agent)
	req.Header.Set("Accept-Encoding", "gzip")
	var traced, wrote atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:          func(string) { traced.Store(true) },
		WroteHeaderField: func(string, []string) { wrote.Store(true) },
	})
	if resp, err = by.RoundTrip(req.WithContext(ctx)); err == nil {
		resp.Request = req
		return resp, true, nil
	}
	// A transport of somebody else may tell nothing: then only the failure itself can prove that nothing was sent.
	return nil, wrote.Load() || !traced.Load() && !beforeSending(err), err
}

// redirect is where resp sends us, nil if it does not.
func redirect(resp *http.Response, from *url.URL) *url.URL {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if next, err := from.Parse(resp.Header.Get("Location")); err == nil && resp.Header.Get("Location") != "" {
			return next
		}
	}
	return nil
}

func answer(resp *http.Response) *Answer {
	return &Answer{Status: resp.StatusCode, Header: resp.Header, URL: resp.Request.URL}
}

// read reads the body and judges the answer. When the status says all, it does not matter how the body ended.
func read(ctx context.Context, resp *http.Response, call Call) (*Answer, error) {
	a := answer(resp)
	limit := cmp.Or(call.Limit, budget.AnswerBytes.Most)
	if a.Status >= 300 {
		limit = min(limit, budget.AnswerError.Most)
	}
	body, err := readBody(ctx, resp, limit)
	a.Body = body
	switch {
	case a.Status >= 300:
		return a, statusError(call.Op, a, call.Effect)
	case errors.Is(err, errTooLong):
		return a, &dispatch.Error{Kind: uncertainIf(call.Effect, dispatch.BadUpstream), Op: call.Op, Text: "The server's answer is too long.", Err: err}
	case errors.Is(err, errNoPlace):
		return a, &dispatch.Error{Kind: uncertainIf(call.Effect, dispatch.Busy), Op: call.Op, Text: "Too many large answers of the server are read at once.", Err: err}
	case err != nil:
		return a, &dispatch.Error{Kind: uncertainIf(call.Effect, dispatch.Unavailable), Op: call.Op, Text: textCutOff, Err: err}
	}
	return a, nil
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b string) bool {
	x, y := origin(a), origin(b)
	return x != "" && x == y
}

// origin is the scheme, host and port of a URL, in one spelling; "" if it has none.
func origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	scheme := strings.ToLower(u.Scheme)
	return scheme + "://" + strings.ToLower(u.Hostname()) + ":" + cmp.Or(u.Port(), defaultPorts[scheme])
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}
