package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/client/wire"
)

// Client calls one broker. It is safe for concurrent use.
type Client struct {
	base string // without a trailing slash
	Options
}

// Options configures a Client. The zero value calls operations that need no sign-in.
type Options struct {
	// Token returns the access token for a request. It is called for every request, so it can renew the token.
	// Optional.
	Token func(context.Context) (string, error)
	// HTTP sends the requests. nil: http.DefaultClient. It must not have a Timeout, which would end streams. Redirects
	// are not followed, whatever its CheckRedirect says.
	HTTP *http.Client
	// UserAgent names the program to the broker. Optional.
	UserAgent string
	// Insecure permits http to other machines, where everybody on the way can read the token.
	Insecure bool
}

// New returns a client of the broker at a base URL. A URL without a scheme is taken as https, or http on the loopback
// interface. A URL with http to another machine is an error, unless o.Insecure.
func New(base string, o Options) (*Client, error) {
	u, err := ParseURL(base)
	if err != nil {
		return nil, err
	}
	if !o.Insecure && !Secure(u) {
		return nil, errors.New(
			"the address of the broker begins with http, so everybody on the way could read the token. Use https, or " +
				"permit http as insecure")
	}
	if o.HTTP == nil {
		o.HTTP = http.DefaultClient
	}
	o.HTTP = withoutRedirects(o.HTTP)
	return &Client{base: u, Options: o}, nil
}

// withoutRedirects returns a copy of a client that follows no redirect: it would send the token, and the request, to
// another address.
func withoutRedirects(h *http.Client) *http.Client {
	one := *h
	one.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &one
}

// ParseURL returns the one spelling of a broker's base URL: with a scheme, and without a slash at the end.
func ParseURL(base string) (string, error) {
	if !strings.Contains(base, "://") {
		base = "https://" + base
		if u, err := url.Parse(base); err == nil && loopback(u.Hostname()) {
			u.Scheme = "http"
			base = u.String()
		}
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", errors.New("the address of the broker is not a URL like https://broker.example.org")
	}
	u.Host = strings.ToLower(u.Host)
	return strings.TrimRight(u.String(), "/"), nil
}

// Secure reports whether a token can be sent to an address: by https, or on the loopback interface.
func Secure(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()))
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// URL returns the broker's base URL, without a slash at the end.
func (c *Client) URL() string { return c.base }

const (
	answerWithin = 2 * time.Minute // a broker answers within 110 s
	mostBody     = 512 << 20       // bytes of a response
	mostAttempts = 4               // of a request that may be repeated
	longestPause = 15 * time.Second
)

// call is a request before it is sent.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         any  // encoded as JSON; nil: none
	open         bool // needs no sign-in
}

// repeatable reports whether a request has no further effect when it is sent again.
func (r call) repeatable() bool {
	return r.method != http.MethodPost || r.header.Get("Idempotency-Key") != ""
}

// answer is a response whose body was read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request, decodes the response into v unless v is nil, and returns its header. A request that may be
// repeated is repeated after a lost response, and every request after a refusal that names a short pause. A deletion
// whose response was lost has succeeded if its repetition finds nothing.
func (c *Client) do(ctx context.Context, r call, v any) (http.Header, error) {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return nil, err
		}
	}
	lost := false
	for attempt := 1; ; attempt++ {
		a, err := c.send(ctx, r, body)
		if err == nil {
			return a.header, a.decode(c.base, r, v)
		}
		if lost && r.method == http.MethodDelete && isMissing(err) {
			return nil, nil
		}
		if _, unanswered := errors.AsType[*url.Error](err); unanswered {
			lost = true
		}
		pause, again := pauseAfter(err, attempt, r.repeatable())
		if !again || attempt == mostAttempts || ctx.Err() != nil {
			return nil, err
		}
		if err := wait(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// isMissing reports whether a broker refuses a request because there is no such thing.
func isMissing(err error) bool {
	e, answered := errors.AsType[*Error](err)
	return answered && e.Status == http.StatusNotFound && e.Code != NotABroker
}

// pauseAfter returns how long to wait before a failed request is repeated, and whether that makes sense.
func pauseAfter(err error, attempt int, repeatable bool) (time.Duration, bool) {
	e, answered := errors.AsType[*Error](err)
	switch {
	case !answered:
		_, lost := errors.AsType[*url.Error](err)
		return time.Second << (attempt - 1), lost && repeatable && attempt < 3
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable && repeatable:
		return e.RetryAfter, 0 < e.RetryAfter && e.RetryAfter <= longestPause
	}
	return 0, false
}

// wait returns after a pause, or with the error of ctx when that ends earlier.
func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send sends a request once. A redirect and a response with a status of 400 or above are an *Error.
func (c *Client) send(ctx context.Context, r call, body []byte) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if err := c.headers(ctx, request.Header, r); err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	// the body is the connection, and no deadline ends a read of that
	if response.StatusCode == http.StatusSwitchingProtocols {
		return nil, notABroker(c.base, "another protocol")
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, mostBody+1))
	switch {
	case err != nil:
		return nil, &url.Error{Op: r.method, URL: address, Err: err}
	case len(text) > mostBody:
		return nil, fmt.Errorf("the response to %s %s is longer than %d MiB", r.method, r.path, mostBody>>20)
	case refuses(response):
		return nil, c.errorOf(response, text)
	}
	return &answer{response.StatusCode, response.Header, text}, nil
}

// refuses reports whether a response is no result: an error, or a redirect, which is not followed.
func refuses(r *http.Response) bool {
	return r.StatusCode >= http.StatusMultipleChoices && r.StatusCode != http.StatusNotModified
}

// headers sets the headers of a request, the token included.
func (c *Client) headers(ctx context.Context, h http.Header, r call) error {
	for name, values := range r.header {
		h[name] = values
	}
	h.Set("Accept", "application/json, application/geo+json")
	if c.UserAgent != "" {
		h.Set("User-Agent", c.UserAgent)
	}
	if c.Token == nil || r.open {
		return nil
	}
	token, err := c.Token(ctx)
	if err != nil {
		return &tokenError{err}
	}
	h.Set("Authorization", "Bearer "+token)
	return nil
}

// tokenError is the error of Options.Token.
type tokenError struct{ error }

func (e *tokenError) Unwrap() error { return e.error }

func (a *answer) decode(base string, r call, v any) error {
	if v == nil || a.status == http.StatusNotModified {
		return nil
	}
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	if !strings.HasSuffix(media, "json") {
		return notABroker(base, media)
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		return &Error{Status: a.status, Code: NotABroker, Message: fmt.Sprintf(
			"%s answers %s %s with a document that this program does not understand: %v. The broker may be of "+
				"another version.", base, r.method, r.path, err)}
	}
	return nil
}

// Error is a refusal by the broker.
type Error struct {
	Status    int    // HTTP status
	Code      string // stable code for programs, such as JOB_NOT_FOUND
	Message   string // explanation for people
	Faults    []Fault
	Link      string // page where the user can resolve it; "": there is none
	RequestID string
	Missing   *wire.MissingResults // for an Item; nil: the reason is not that the results cannot be read
	// RetryAfter is when the request can be repeated; 0: the broker did not say.
	RetryAfter time.Duration
}

// NotABroker is the code of an Error for an address at which no broker of a known version answers.
const NotABroker = "NOT_A_BROKER"

// Fault is one fault of a request.
type Fault struct {
	Loc []any  `json:"loc"`
	Msg string `json:"msg"`
}

func (f Fault) String() string {
	var at []string
	for _, part := range f.Loc {
		if part != "body" {
			at = append(at, fmt.Sprint(part))
		}
	}
	if len(at) == 0 {
		return f.Msg
	}
	return strings.Join(at, ".") + ": " + f.Msg
}

// Error returns the message with all faults that it does not have in it, and the page that resolves it.
func (e *Error) Error() string {
	text := e.Message
	for _, f := range e.Faults {
		if !strings.Contains(e.Message, f.Msg) {
			text += "\n  " + f.String()
		}
	}
	if e.Link != "" && !strings.Contains(text, e.Link) {
		text += "\nOpen this page: " + e.Link
	}
	if e.Status >= 500 && e.Status != http.StatusNotImplemented && e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// IsCode reports whether err is a refusal with one of these codes.
func IsCode(err error, codes ...string) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	for _, code := range codes {
		if e.Code == code {
			return true
		}
	}
	return false
}

// errorOf reads a response that is an error or a redirect.
func (c *Client) errorOf(response *http.Response, text []byte) *Error {
	if response.StatusCode < http.StatusBadRequest {
		return &Error{Status: response.StatusCode, Code: NotABroker, Message: fmt.Sprintf(
			"%s redirects to %q (%s), which is not followed, because the token would be sent there. Check the "+
				"address of the broker.", c.base, response.Header.Get("Location"), response.Status)}
	}
	var body struct {
		Code      string `json:"error_code"`
		Message   string `json:"message"`
		RequestID string `json:"request_id"`
		Details   struct {
			Errors  []Fault              `json:"errors"`
			Link    string               `json:"link"`
			Missing *wire.MissingResults `json:"missing"`
		} `json:"details"`
	}
	if json.Unmarshal(text, &body) != nil || body.Code == "" {
		media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
		e := notABroker(c.base, media)
		e.Status = response.StatusCode
		e.Message += " (" + response.Status + ")"
		return e
	}
	e := &Error{Status: response.StatusCode, Code: body.Code, Message: body.Message, Faults: body.Details.Errors,
		Link: body.Details.Link, RequestID: body.RequestID, Missing: body.Details.Missing}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		e.RetryAfter = max(time.Second, time.Duration(seconds)*time.Second)
	}
	return e
}

func notABroker(base, media string) *Error {
	return &Error{Code: NotABroker,
		Message: fmt.Sprintf("%s does not answer as a broker does: it sent %s. Check the address.", base,
			cmp.Or(media, "a body without a type"))}
}

var nextLink = regexp.MustCompile(`<([^>]*)>; *rel="?next"?`)

// nextQuery returns the query of the next page that a Link header names; nil if there is none. Only the query is used,
// so a page is never requested from another place.
func nextQuery[P any](h http.Header, _ P) url.Values {
	found := nextLink.FindStringSubmatch(strings.Join(h.Values("Link"), ", "))
	if found == nil {
		return nil
	}
	return queryOf(found[1])
}

func queryOf(address string) url.Values {
	u, err := url.Parse(address)
	if err != nil || u.RawQuery == "" {
		return nil
	}
	return u.Query()
}
