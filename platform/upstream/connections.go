package upstream

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// maxRest is how long a connection of HTTP/1.1 may have been idle before a request with an effect is sent on it.
	// Servers close idle connections without notice, the most impatient after 2 s, and then nobody knows whether a
	// request on its way arrived.
	maxRest = 1500 * time.Millisecond
	// idleTime is how long an idle connection of HTTP/2, or one that only reads, is kept.
	idleTime = 90 * time.Second
	// hastyFor is how long no connection of HTTP/1.1 is kept to a server that closed one earlier than that.
	hastyFor = 10 * time.Minute
	// mostKept is how many connections are open at most besides those that serve a request. Users name servers, and
	// each can have many names.
	mostKept = 500
)

// connections sends requests with an effect on connections that it keeps. It repeats a request only if the server
// certainly did not process it. An http.Transport over HTTP/2 also repeats one that the server reset with
// PROTOCOL_ERROR, which may have arrived.
type connections struct {
	opener *http.Transport
	hasty  sync.Map // when a server last closed an idle connection early, a time.Time by scheme and host

	mu   sync.Mutex
	open map[string][]*connection // by scheme and host
}

type connection struct {
	*http.ClientConn
	multiplexed bool                      // it speaks HTTP/2
	rest        atomic.Int64              // how long it may be idle; a time.Duration
	used        atomic.Pointer[time.Time] // when its last request ended
	closing     *time.Timer
}

// send sends a request, on a new connection after a pause if blind: if a loss of the request could not be found out.
func (cs *connections) send(r *http.Request, blind bool) (*http.Response, error) {
	if t := httptrace.ContextClientTrace(r.Context()); t != nil && t.GetConn != nil {
		t.GetConn(r.URL.Host) // as a transport does
	}
	for c := cs.take(r.URL, blind); ; c = nil {
		fresh := c == nil
		if fresh {
			var err error
			if c, err = cs.dial(r); err != nil {
				return nil, unreceivedError{err}
			}
		}
		resp, err := c.RoundTrip(r)
		if err == nil {
			c.heed(resp)
			return resp, nil
		}
		cs.remove(r.URL, c)
		if !c.multiplexed {
			c.Close()
		}
		switch {
		case !unprocessed(err):
			return nil, err
		case fresh:
			return nil, unreceivedError{err}
		case r.GetBody != nil:
			r.Body, _ = r.GetBody() // never an error
		}
	}
}

// take returns a connection that was used lately, reserved for one request; nil if there is none.
func (cs *connections) take(u *url.URL, blind bool) *connection {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	closed, early := cs.hasty.Load(serverOf(u))
	hasty := early && time.Since(closed.(time.Time)) < hastyFor
	for _, c := range slices.Backward(cs.open[serverOf(u)]) {
		if hasty && !c.multiplexed {
			continue
		}
		rest := time.Duration(c.rest.Load())
		if blind {
			rest = min(rest, maxRest)
		}
		if (c.InFlight() > 0 || c.idle() < rest) && c.Reserve() == nil {
			return c
		}
	}
	return nil
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// dial opens a connection, reserved for one request.
func (cs *connections) dial(r *http.Request) (*connection, error) {
	port := cmp.Or(r.URL.Port(), defaultPorts[r.URL.Scheme])
	host, err := httpguts.PunycodeHostPort(net.JoinHostPort(r.URL.Hostname(), port))
	if err != nil {
		return nil, err
	}
	opened, err := cs.opener.NewClientConn(r.Context(), r.URL.Scheme, host)
	if err != nil {
		return nil, err
	}
	c := &connection{ClientConn: opened, multiplexed: opened.Available() > 1}
	rest := maxRest
	if c.multiplexed {
		rest = idleTime
	}
	c.rest.Store(int64(rest))
	now := time.Now()
	c.used.Store(&now)
	c.closing = time.AfterFunc(rest, func() { cs.closeIdle(r.URL, c) })
	c.SetStateHook(func(*http.ClientConn) { cs.note(r.URL, c) })
	if err := c.Reserve(); err != nil {
		return nil, err
	}
	for _, other := range cs.keep(r.URL, c) {
		other.Close()
	}
	return c, nil
}

// keep adds a connection to those that are open. If they are more than mostKept, it takes out those that serve no
// request, and returns them.
func (cs *connections) keep(u *url.URL, c *connection) (idle []*connection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	n := 0
	for _, all := range cs.open {
		n += len(all)
	}
	if n >= mostKept {
		for server, all := range cs.open {
			left := slices.DeleteFunc(slices.Clone(all), func(o *connection) bool { return o.InFlight() == 0 })
			for _, o := range all {
				if !slices.Contains(left, o) {
					idle = append(idle, o)
				}
			}
			if cs.open[server] = left; len(left) == 0 {
				delete(cs.open, server)
			}
		}
	}
	cs.open[serverOf(u)] = append(cs.open[serverOf(u)], c)
	return idle
}

// note notes that a connection has become idle, or that its server has closed it meanwhile. The lock may be held.
func (cs *connections) note(u *url.URL, c *connection) {
	switch now, err := time.Now(), c.Err(); {
	case err == nil && c.InFlight() == 0:
		c.used.Store(&now)
		c.closing.Reset(time.Duration(c.rest.Load()))
	case err != nil && !c.multiplexed && c.idle() < time.Duration(c.rest.Load()) && closedByServer(err):
		cs.hasty.Store(serverOf(u), now)
		time.AfterFunc(hastyFor, func() { cs.hasty.CompareAndDelete(serverOf(u), now) })
	}
}

// idle returns how long a connection has been idle, by the clock on the wall if the machine slept.
func (c *connection) idle() time.Duration {
	used := *c.used.Load()
	return max(time.Since(used), time.Since(used.Round(0)))
}

// heed has a connection rest for half as long as its server keeps it: the time of two requests on their way.
func (c *connection) heed(resp *http.Response) {
	for option := range strings.SplitSeq(resp.Header.Get("Keep-Alive"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(option), "=")
		if seconds, err := strconv.Atoi(value); err == nil && strings.EqualFold(name, "timeout") && !c.multiplexed {
			c.rest.Store(int64(min(maxRest, time.Duration(seconds)*time.Second/2)))
		}
	}
}

func (cs *connections) closeIdle(u *url.URL, c *connection) {
	cs.mu.Lock()
	idle := c.InFlight() == 0
	if idle {
		cs.drop(u, c)
	}
	cs.mu.Unlock()
	if idle {
		c.Close()
	}
}

// remove has nothing more sent on a connection. If it still serves other requests, it is closed after these.
func (cs *connections) remove(u *url.URL, c *connection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.drop(u, c)
}

// drop takes a connection out of those that are open. The lock is held.
func (cs *connections) drop(u *url.URL, c *connection) {
	left := slices.DeleteFunc(cs.open[serverOf(u)], func(o *connection) bool { return o == c })
	if cs.open[serverOf(u)] = left; len(left) == 0 {
		delete(cs.open, serverOf(u))
	}
}

func serverOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// unreceivedError is the error of a request that the server did not receive, or not process.
type unreceivedError struct{ error }

func (e unreceivedError) Unwrap() error { return e.error }

// resetError has the form by which errors.As finds net/http's own type for streams of HTTP/2 that were reset.
type resetError struct {
	StreamID, Code uint32
	Cause          error
}

func (resetError) Error() string { return "the stream was reset" }

// closedByServer reports whether the error of an idle connection of HTTP/1.1 is that its server closed it. net/http
// does not export these errors.
func closedByServer(err error) bool {
	return err.Error() == "http: server closed idle connection" ||
		strings.HasPrefix(err.Error(), "readLoopPeekFailLocked: ")
}

const refusedStream = 7 // RFC 9113, section 7

// unprocessed reports whether a server of HTTP/2 certainly did not process a request: it reset it as refused, or
// GOAWAY does not cover it.
func unprocessed(err error) bool {
	if reset, ok := errors.AsType[resetError](err); ok {
		return reset.Code == refusedStream
	}
	switch err.Error() { // net/http does not export these errors
	case "http2: Transport received Server's graceful shutdown GOAWAY", "http2: client conn not usable",
		"http2: client conn could not be established":
		return true
	}
	return false
}
