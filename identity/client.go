package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	maxAnswer   = 512 << 10        // bytes of a key set, a discovery document or a token answer
	readTimeout = 5 * time.Second  // for keys and discovery
	postTimeout = 15 * time.Second // for tokens: Keycloak itself waits 5 s for a platform's provider
)

// client speaks to identity providers. It follows no redirect and keeps no cookies.
type client struct {
	http *http.Client
	now  func() time.Time
}

func newClient(c *http.Client, now func() time.Time) *client {
	own := *c
	own.Jar = nil
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{&own, now}
}

// answer is what a provider said, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// getJSON reads a document, which must come with status 200, into v.
func (c *client) getJSON(ctx context.Context, address string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return bare(err)
	}
	a, err := c.do(req)
	switch {
	case err != nil:
		return err
	case a.status != http.StatusOK:
		return fmt.Errorf("HTTP %d", a.status)
	}
	return json.Unmarshal(a.body, v)
}

// post sends a form to a token endpoint.
func (c *client) post(ctx context.Context, address string, form url.Values) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, bare(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return c.do(req)
}

func (c *client) do(req *http.Request) (answer, error) {
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, bare(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, bare(err)
	case len(body) > maxAnswer:
		return answer{}, errors.New("the answer is too long")
	}
	return answer{resp.StatusCode, resp.Header, body}, nil
}

// bare drops the address from an error of net/http: a log needs the cause, and addresses are the configuration's.
func bare(err error) error {
	for {
		u, ok := errors.AsType[*url.Error](err)
		if !ok {
			return err
		}
		err = u.Err
	}
}

// retryAfter is how long the provider asks us to wait, in the only form that such providers send: seconds.
func (a answer) retryAfter() time.Duration {
	s, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || s < 0 {
		return 0
	}
	return min(time.Duration(s)*time.Second, time.Minute)
}

// refusal is the error answer of a token endpoint (RFC 6749, section 5.2).
type refusal struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

// refusal reads the error in the answer; zero where there is none. Providers may echo what they were sent, so the
// secrets are struck out.
func (a answer) refusal(secrets ...dispatch.Secret) refusal {
	var r refusal
	if json.Unmarshal(a.body, &r) != nil {
		return refusal{}
	}
	for _, s := range secrets {
		r.Code, r.Description = strike(r.Code, s), strike(r.Description, s)
	}
	return refusal{printable(r.Code, 64), printable(r.Description, 200)}
}

func strike(text string, s dispatch.Secret) string {
	if s == "" {
		return text
	}
	return strings.ReplaceAll(text, s.Reveal(), s.String())
}

// printable gives the first n runes of text without what could break a line of a log or a page.
func printable(text string, n int) string {
	var b strings.Builder
	for _, r := range text {
		if n == 0 {
			break
		}
		if !strconv.IsPrint(r) || r == '<' || r == '>' {
			r = ' '
		}
		b.WriteRune(r)
		n--
	}
	return strings.TrimSpace(b.String())
}

// failed classes an answer that is not a success and that no user can mend: what may pass is Unavailable, the rest is
// the operator's.
func (a answer) failed(op string, r refusal) error {
	err := fmt.Errorf("HTTP %d %s: %s", a.status, r.Code, r.Description)
	switch {
	case a.status >= 500, a.status == http.StatusRequestTimeout, a.status == http.StatusTooManyRequests:
		return &dispatch.Error{Kind: dispatch.Unavailable, Op: op, RetryAfter: a.retryAfter(), Err: err}
	}
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: op, Err: err}
}
