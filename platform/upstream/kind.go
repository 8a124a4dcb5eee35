package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	maxPause   = time.Hour
	textCutOff = "The connection was lost before the response was complete."
)

// uncertainIf returns the kind of a failure that does not tell whether the request had its effect.
func uncertainIf(effect bool, otherwise dispatch.Kind) dispatch.Kind {
	if effect {
		return dispatch.Uncertain
	}
	return otherwise
}

// failure returns the error for a request without a response.
func failure(op string, err error, sent, effect bool) error {
	e := &dispatch.Error{Kind: uncertainIf(sent && effect, dispatch.Unavailable), Op: op, Err: err}
	switch {
	case errors.Is(err, errNotSent):
		e.Text = "There was no time left to send the request to the server."
	case prohibited(err):
		e.Kind, e.Text = dispatch.Misconfigured, "The server's host resolves to a non-public address."
	case errors.Is(err, errSwitched):
		e.Kind, e.Text = uncertainIf(effect, dispatch.BadUpstream), "The server does not speak HTTP."
	case !sent:
		e.Text = "The server cannot be reached."
	case effect:
		e.Text = "The server did not respond, but may have received the request."
	default:
		e.Text = "The server did not respond."
	}
	return e
}

// named has a text of this package, not one of a server, name the server of a call; "" leaves it as it is.
func named(server string, err error) error {
	if e, ok := errors.AsType[*dispatch.Error](err); ok && server != "" {
		e.Text = strings.NewReplacer("The server", "The "+server, "to the server", "to the "+server, "The connection",
			"The connection to the "+server).Replace(e.Text)
	}
	return err
}

// beforeSending reports whether err itself proves that no connection was made.
func beforeSending(err error) bool {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return true
	}
	_, dns := errors.AsType[*net.DNSError](err)
	return dns || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errNotSent)
}

// statusError returns the error that a response's status means, with the server's message.
func statusError(op string, a *Answer, effect bool) error {
	pause, asked := retryAfter(a.Header, time.Now())
	e := &dispatch.Error{Kind: statusKind(a.Status, effect, asked), Op: op, Text: Text(Message(a)), RetryAfter: pause,
		Err: fmt.Errorf("HTTP %d", a.Status)}
	// a proxy sends 500 for its own faults at most, not for those of the server behind it
	e.Answered = a.Status == http.StatusInternalServerError
	if e.Text == "" {
		e.Text = fmt.Sprintf("The server responded with HTTP status %d %s.", a.Status, http.StatusText(a.Status))
	}
	return e
}

// statusKind returns the kind that a status means. asked reports whether the response has a Retry-After. Proxies send
// 502, 504, and 503 without Retry-After, also for requests that the server behind them accepted.
func statusKind(status int, effect, asked bool) dispatch.Kind {
	switch status {
	case http.StatusUnauthorized:
		return dispatch.SignInRequired
	case http.StatusForbidden:
		return dispatch.Forbidden
	case http.StatusNotFound, http.StatusGone:
		return dispatch.NotFound
	case http.StatusConflict:
		return dispatch.Conflict
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return dispatch.Unsupported
	case http.StatusTooManyRequests:
		return dispatch.Busy
	case http.StatusServiceUnavailable:
		return uncertainIf(effect && !asked, dispatch.Busy)
	case http.StatusRequestTimeout:
		return uncertainIf(effect, dispatch.Unavailable)
	}
	switch {
	case status >= 500:
		return uncertainIf(effect, dispatch.Unavailable)
	case status >= 400:
		return dispatch.Invalid
	}
	return dispatch.BadUpstream // a redirect that must not be followed
}

// retryAfter returns the pause that a response asks for, at most one hour. asked is false if it asks for none. A date
// is compared with the Date header of the response if there is one.
func retryAfter(h http.Header, now time.Time) (pause time.Duration, asked bool) {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseUint(v, 10, 64); err == nil {
		return min(time.Duration(min(s, uint64(maxPause/time.Second)))*time.Second, maxPause), true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxPause), true
}

// OfProxy reports whether a response says 404, but not with the JSON object of an API: a proxy or a router sent it, and
// it says nothing about what the server behind it has.
func OfProxy(a *Answer) bool {
	var m map[string]any
	return a.Status == http.StatusNotFound && (json.Unmarshal(a.Body, &m) != nil || m == nil)
}

// PageInstead returns an error if a web page stands in place of the response to a request with an effect: those of
// firewalls and sign-ins have the status of a success. nil: there is none.
func PageInstead(op string, a *Answer) error {
	if a == nil || a.Status != http.StatusOK || !bytes.HasPrefix(bytes.TrimSpace(a.Body), []byte("<")) {
		return nil
	}
	return &dispatch.Error{Kind: dispatch.Uncertain, Op: op, Text: "The server responded with a web page."}
}

// Message returns a server's message about an error: the message of an openEO error, the detail or title of a problem
// document (RFC 9457), or a plain text body. Call [Text] before showing it.
func Message(a *Answer) string {
	media, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if media == "text/plain" {
		return string(a.Body)
	}
	var m map[string]any
	if json.Unmarshal(a.Body, &m) != nil {
		return ""
	}
	for _, name := range []string{"message", "detail", "description", "error_description", "title"} {
		if s, ok := m[name].(string); ok && s != "" {
			return s
		}
	}
	return ""
}
