package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const (
	maxAnswer   = 512 << 10        // bytes of a key set, a discovery document or a token answer
	readTimeout = 5 * time.Second  // for keys and discovery
	postTimeout = 15 * time.Second // for tokens: Keycloak itself waits 5 s for a platform's provider
)

type client struct {
	http *upstream.Client
	now  func() time.Time
}

func newClient(c *upstream.Client, now func() time.Time) *client { return &client{c, now} }

type answer struct {
	status int
	wait   time.Duration // for which the provider asks
	body   []byte
}

// getJSON decodes the document at address into v. The response must have status 200.
func (c *client) getJSON(ctx context.Context, address string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	a, err := c.do(ctx, upstream.Call{Op: "identity.read", Method: http.MethodGet, URL: address})
	switch {
	case err != nil:
		return err
	case a.status != http.StatusOK:
		return fmt.Errorf("HTTP %d", a.status)
	}
	return json.Unmarshal(a.body, v)
}

// post sends a form to a token endpoint. It counts as a request with an effect, because a provider may accept a refresh
// token only once: the form is never sent twice, and redirects are not followed.
func (c *client) post(ctx context.Context, address string, form url.Values) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	return c.do(ctx, upstream.Call{Op: "identity.post", Method: http.MethodPost, URL: address, Effect: true,
		Blind:  form.Get("grant_type") == "refresh_token",
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: []byte(form.Encode())})
}

// do returns the response whatever its status.
func (c *client) do(ctx context.Context, call upstream.Call) (answer, error) {
	if call.Header == nil {
		call.Header = http.Header{}
	}
	call.Header.Set("Accept", "application/json")
	call.Limit = maxAnswer
	a, err := c.http.Do(ctx, call)
	if err != nil && (a == nil || a.Status < http.StatusMultipleChoices) {
		return answer{}, innermostCause(err)
	}
	return answer{a.Status, min(retryAfter(err), time.Minute), a.Body}, nil
}

// innermostCause returns the cause of an error of upstream or net/http without its texts and addresses. This package
// has its own texts for failures of providers.
func innermostCause(err error) error {
	if e, ok := errors.AsType[*dispatch.Error](err); ok {
		if err = e.Err; err == nil {
			return errors.New(e.Text)
		}
	}
	for {
		u, ok := errors.AsType[*url.Error](err)
		if !ok {
			return err
		}
		err = u.Err
	}
}

// refusal is the error response of a token endpoint (RFC 6749, section 5.2).
type refusal struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

// refusal reads the error in the response; zero if there is none. It removes the secrets, because providers may echo
// what they received.
func (a answer) refusal(secrets ...dispatch.Secret) refusal {
	var r refusal
	if json.Unmarshal(a.body, &r) != nil {
		return refusal{}
	}
	for _, s := range secrets {
		r.Code, r.Description = redact(r.Code, s), redact(r.Description, s)
	}
	return refusal{printable(r.Code, 64), printable(r.Description, 200)}
}

func redact(text string, s dispatch.Secret) string {
	if s == "" {
		return text
	}
	return strings.ReplaceAll(text, s.Reveal(), s.String())
}

// printable returns at most n runes of text, without characters that could break a log line or a page.
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

// failed returns the error for a response that is not a success and that no user can resolve: Unavailable if it may
// pass, else Misconfigured.
func (a answer) failed(op string, r refusal) error {
	err := fmt.Errorf("HTTP %d %s: %s", a.status, r.Code, r.Description)
	switch {
	case a.status >= 500, a.status == http.StatusRequestTimeout, a.status == http.StatusTooManyRequests:
		return &dispatch.Error{Kind: dispatch.Unavailable, Op: op, RetryAfter: a.wait, Err: err}
	}
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: op, Err: err}
}
