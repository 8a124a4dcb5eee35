package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/eodispatch/eodispatch/dispatch"
)

// pipes is a network in memory, so that time can be simulated.
type pipes struct {
	serve  func(connection int, c net.Conn)
	opened atomic.Int32
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go p.serve(int(p.opened.Add(1)), buffered(theirs))
	return buffered(ours), nil
}

// buffer is an end of a pipe to which one can write before the other end reads.
type buffer struct {
	net.Conn
	mu    sync.Mutex
	queue chan []byte // nil: closed
}

func buffered(c net.Conn) *buffer {
	b := &buffer{Conn: c, queue: make(chan []byte, 100)}
	go func(queue <-chan []byte) {
		defer c.Close()
		for part := range queue {
			_, _ = c.Write(part) // an error shows when one reads
		}
	}(b.queue)
	return b
}

func (b *buffer) Write(part []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queue == nil {
		return 0, net.ErrClosed
	}
	b.queue <- bytes.Clone(part)
	return len(part), nil
}

// SetWriteDeadline does nothing: a write never waits. The pipe's own deadline, which TLS lets pass when it closes,
// would lose what is in the queue.
func (b *buffer) SetWriteDeadline(time.Time) error { return nil }

func (b *buffer) SetDeadline(t time.Time) error { return b.SetReadDeadline(t) }

func (b *buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queue != nil {
		close(b.queue)
		b.queue = nil
	}
	return nil
}

// client returns a client whose connections lead to p, and that trusts the certificate of secure.
func (p *pipes) client() *Client {
	c := New(Config{Dial: p.dial})
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Leaf)
	c.trusted.effects.opener.TLSClientConfig = &tls.Config{RootCAs: roots}
	return c
}

// certificate is for example.com.
var certificate = func() tls.Certificate {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	c := s.TLS.Certificates[0]
	c.Leaf = s.Certificate()
	return c
}()

// single is a listener of one connection.
type single struct {
	net.Conn
	given chan net.Conn
}

func (s single) Accept() (net.Conn, error) {
	if c, ok := <-s.given; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (s single) Addr() net.Addr { return s.LocalAddr() }
func (s single) Close() error   { return nil }

// serveHTTP serves a connection by net/http over TLS, with the first of the protocols that the client knows.
func serveHTTP(h http.HandlerFunc, protocols ...string) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		server := http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate},
			NextProtos: protocols}}
		given := make(chan net.Conn, 1)
		given <- c
		close(given)
		_ = server.ServeTLS(single{c, given}, "", "") // until the client closes
	}
}

// After a pause that servers may have ended, a request with an effect is sent on a new connection.
func TestConnections_Rest(t *testing.T) {
	cases := []struct {
		name, protocol, keepAlive string
		blind                     bool
		pause                     time.Duration
		opened                    int
	}{
		{"HTTP/1.1, short pause", "http/1.1", "", false, 1400 * time.Millisecond, 1},
		{"HTTP/1.1, long pause", "http/1.1", "", false, 1600 * time.Millisecond, 2},
		{"HTTP/1.1, the server keeps longer", "http/1.1", "max=100, timeout=60", true, 1400 * time.Millisecond, 1},
		{"HTTP/1.1, the server keeps it for a second", "http/1.1", "timeout=1, max=100", false,
			600 * time.Millisecond, 2},
		{"HTTP/1.1, the same, short pause", "http/1.1", "timeout=1", false, 400 * time.Millisecond, 1},
		{"HTTP/1.1, the server keeps none", "http/1.1", "Timeout=0", false, 0, 2},
		{"HTTP/2, long pause", "h2", "", false, time.Minute, 1},
		{"HTTP/2, a loss could not be found out, short pause", "h2", "", true, 1400 * time.Millisecond, 1},
		{"HTTP/2, a loss could not be found out, long pause", "h2", "", true, 1600 * time.Millisecond, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pipes{serve: serveHTTP(func(w http.ResponseWriter, r *http.Request) {
					if c.keepAlive != "" {
						w.Header().Set("Keep-Alive", c.keepAlive)
					}
					_, _ = io.Copy(w, r.Body)
				}, c.protocol)}
				client := p.client()
				for range 2 {
					_, err := client.Do(t.Context(), Call{Method: "POST", URL: "https://example.com/",
						Body: []byte("{}"), Effect: true, Blind: c.blind})
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(c.pause)
				}
				if n := int(p.opened.Load()); n != c.opened {
					t.Errorf("%d connections, want %d", n, c.opened)
				}
				time.Sleep(2 * idleTime) // then all are closed, or this test does not end
				effects := client.trusted.effects
				effects.mu.Lock()
				defer effects.mu.Unlock()
				if n := len(effects.open); n != 0 {
					t.Error("the closed connections are still known")
				}
			})
		})
	}
}

// After a server closed an idle connection early and without notice, none is kept for a while.
func TestConnections_HastyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closes atomic.Bool
		closes.Store(true)
		p := &pipes{serve: func(_ int, c net.Conn) {
			server := http.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate},
				NextProtos: []string{"http/1.1"}},
				ConnState: func(c net.Conn, state http.ConnState) {
					if closes.Load() && state == http.StateIdle {
						c.Close()
					}
				}}
			given := make(chan net.Conn, 1)
			given <- c
			close(given)
			_ = server.ServeTLS(single{c, given}, "", "")
		}}
		client := p.client()
		post := func() {
			if _, err := client.Do(t.Context(), Call{Method: "POST", URL: "https://example.com/",
				Effect: true}); !dispatch.Is(err, dispatch.NotFound) {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		post()
		closes.Store(false)
		for _, opened := range []int{2, 3} {
			if post(); int(p.opened.Load()) != opened {
				t.Errorf("%d connections, want %d", p.opened.Load(), opened)
			}
		}
		time.Sleep(hastyFor)
		post()
		if post(); p.opened.Load() != 4 {
			t.Errorf("%d connections after a while, want 4", p.opened.Load())
		}
		time.Sleep(2 * idleTime)
	})
}

// TestConnections_OfManyServers checks that what is kept of servers is bounded, since users name them: connections,
// also while they rest, and which servers closed one early.
func TestConnections_OfManyServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, most atomic.Int32
		var hasty atomic.Bool
		p := &pipes{serve: func(_ int, c net.Conn) {
			n := open.Add(1)
			most.Store(max(most.Load(), n))
			defer open.Add(-1)
			given := make(chan net.Conn, 1)
			given <- c
			close(given)
			ended := make(chan struct{})
			server := http.Server{ConnState: func(c net.Conn, state http.ConnState) {
				switch {
				case state == http.StateIdle && hasty.Load():
					c.Close()
				case state == http.StateClosed:
					close(ended)
				}
			}}
			_ = server.Serve(single{c, given})
			<-ended
		}}
		cs := &connections{opener: transport(p.dial), open: map[string][]*connection{}}
		post := func(host string) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+host+".example/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := cs.send(r, false)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			synctest.Wait()
		}
		for i := range 2 * mostKept {
			post(fmt.Sprint("kept", i))
		}
		if n := most.Load(); n > mostKept+1 {
			t.Errorf("%d connections at once", n)
		}
		before := p.opened.Load()
		if post(fmt.Sprint("kept", 2*mostKept-1)); p.opened.Load() != before {
			t.Error("the last connection was not kept")
		}
		hasty.Store(true)
		for i := range 10 {
			post(fmt.Sprint("hasty", i))
		}
		time.Sleep(hastyFor + time.Second)
		synctest.Wait()
		cs.hasty.Range(func(server, _ any) bool {
			t.Errorf("%s is still known", server)
			return true
		})
		if open.Load() != 0 || len(cs.open) != 0 {
			t.Errorf("%d connections, of %d servers", open.Load(), len(cs.open))
		}
	})
}

// frames reads the requests of one connection of HTTP/2, and calls answer for each, which writes what it likes.
func frames(c net.Conn, answer func(f *http2.Framer, stream uint32)) {
	secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}})
	defer secure.Close()
	if _, err := io.ReadFull(secure, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(secure, secure)
	_ = f.WriteSettings()
	for {
		got, err := f.ReadFrame()
		if err != nil {
			return
		}
		ended := false
		switch got := got.(type) {
		case *http2.SettingsFrame:
			if !got.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			ended = got.StreamEnded()
		case *http2.DataFrame:
			ended = got.StreamEnded()
		}
		if ended {
			answer(f, got.Header().StreamID)
		}
	}
}

// accepted answers 204.
func accepted(f *http2.Framer, stream uint32) {
	// HPACK's index of 204
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte{0x89}, EndHeaders: true,
		EndStream: true})
}

// Over HTTP/2 a request is repeated only if the server said that it did not process it, and its connection was not new.
func TestConnections_RepeatOnlyWhatWasNotProcessed(t *testing.T) {
	reset := func(code http2.ErrCode) func(*http2.Framer, uint32, net.Conn) {
		return func(f *http2.Framer, stream uint32, _ net.Conn) { _ = f.WriteRSTStream(stream, code) }
	}
	cases := []struct {
		name        string
		answer      func(f *http2.Framer, stream uint32, c net.Conn)
		unprocessed bool
	}{
		{"GOAWAY before the stream was read", func(f *http2.Framer, _ uint32, _ net.Conn) {
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
		}, true},
		{"GOAWAY after it was read", func(f *http2.Framer, stream uint32, c net.Conn) {
			_ = f.WriteGoAway(stream, http2.ErrCodeNo, nil)
			c.Close()
		}, false},
		{"refused", reset(http2.ErrCodeRefusedStream), true},
		{"protocol error", reset(http2.ErrCodeProtocol), false},
		{"internal error", reset(http2.ErrCodeInternal), false},
		{"canceled", reset(http2.ErrCodeCancel), false},
		{"closed", func(_ *http2.Framer, _ uint32, c net.Conn) { c.Close() }, false},
		{"silent", func(*http2.Framer, uint32, net.Conn) {}, false},
	}
	for _, c := range cases {
		for _, kept := range []bool{false, true} {
			for _, body := range []string{"", "{}"} {
				t.Run(fmt.Sprintf("%s, kept=%t, body %q", c.name, kept, body), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						requests, strikes := atomic.Int32{}, int32(1)
						p := &pipes{serve: func(_ int, conn net.Conn) {
							frames(conn, func(f *http2.Framer, stream uint32) {
								if requests.Add(1) == strikes {
									c.answer(f, stream, conn)
								} else {
									accepted(f, stream)
								}
							})
						}}
						client := p.client()
						post := func() error {
							_, err := client.Do(t.Context(), Call{Method: "POST", URL: "https://example.com/",
								Body: []byte(body), Effect: true})
							return err
						}
						if kept {
							strikes = 2
							if err := post(); err != nil {
								t.Fatal(err)
							}
						}
						err := post()
						repeated, n := kept && c.unprocessed, requests.Load()
						switch {
						case repeated && (err != nil || n != strikes+1):
							t.Errorf("got %v after %d requests, want it to be repeated once", err, n)
						case !repeated && n != strikes:
							t.Errorf("%d requests, want %d", n, strikes)
						case !repeated && c.unprocessed && !dispatch.Is(err, dispatch.Unavailable),
							!c.unprocessed && !dispatch.Is(err, dispatch.Uncertain):
							t.Errorf("got %v", err)
						}
						if err := post(); err != nil || p.opened.Load() != 2 {
							t.Errorf("afterwards: %v, %d connections", err, p.opened.Load())
						}
						time.Sleep(2 * idleTime) // until all are closed
					})
				})
			}
		}
	}
}
