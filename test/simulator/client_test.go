package simulator_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// serve returns an HTTP client whose connections to h are in memory, so that tests need no port and may run on a fake
// clock.
func serve(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	l := &memory{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(l) }()
	transport := &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		<-served
	})
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// memory is a listener without a network.
type memory struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case m.conns <- far:
		return near, nil
	case <-m.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error   { m.once.Do(func() { close(m.done) }); return nil }
func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// response is a response that was read completely.
type response struct {
	status int
	header http.Header
	body   []byte
}

// json returns the value at a path of member names; nil if there is none.
func (r response) json(path ...string) any {
	var v any
	if json.Unmarshal(r.body, &v) != nil {
		return nil
	}
	for _, name := range path {
		members, _ := v.(map[string]any)
		v = members[name]
	}
	return v
}

// caller sends requests as one user.
type caller struct {
	t      *testing.T
	client *http.Client
	base   string
	bearer string
	header http.Header
}

// try sends "METHOD path" and reads the response; the error is that of the connection.
func (c caller) try(what, body string) (response, error) {
	c.t.Helper()
	method, address, _ := strings.Cut(what, " ")
	if !strings.Contains(address, "://") {
		address = c.base + address
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for name, values := range c.header {
		r.Header[name] = values
	}
	if c.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return response{}, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return response{answer.StatusCode, answer.Header, data}, err
}

// must is try for a request that must be answered with the status.
func (c caller) must(status int, what, body string) response {
	c.t.Helper()
	r, err := c.try(what, body)
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
	if r.status != status {
		c.t.Fatalf("%s: %d %s, want %d", what, r.status, r.body, status)
	}
	return r
}

// refused sends a request that must be refused with a status and, in member, a code.
func (c caller) refused(status int, member, code, what, body string) {
	c.t.Helper()
	if got := c.must(status, what, body).json(member); got != code {
		c.t.Errorf("%s: %s is %v, want %s", what, member, got, code)
	}
}
