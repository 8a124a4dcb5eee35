package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// served returns a running server for h with the limits of [Server].
func served(t *testing.T, w *world, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config = Server(h, w.config().Log)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func post(t *testing.T, ctx context.Context, url, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer token-anna")
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { got.Body.Close() })
	return got
}

func TestSync_IsStreamed(t *testing.T) {
	w := newWorld()
	from, to := io.Pipe()
	w.sync = func(_ context.Context, r dispatch.Request) (*dispatch.SyncResult, error) {
		if r.Title != "NDVI" || r.Format != "gtiff" {
			t.Errorf("request %+v", r)
		}
		return &dispatch.SyncResult{ContentType: `image/tiff; application="geotiff"`, Body: from}, nil
	}
	s := served(t, w, New(w.config()))
	go io.WriteString(to, "first")
	got := post(t, t.Context(), s.URL+"/sync_jobs", goodBody)
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != `image/tiff; application="geotiff"` ||
		got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Content-Security-Policy") != "sandbox" {
		t.Errorf("%d %v", got.StatusCode, got.Header)
	}
	piece := make([]byte, 5)
	// while the platform still computes
	if _, err := io.ReadFull(got.Body, piece); err != nil || string(piece) != "first" {
		t.Fatalf("%q %v", piece, err)
	}
	big := bytes.Repeat([]byte{0, 1, 0xff, '\n'}, 4<<20)
	go func() { to.Write(big); to.Close() }()
	rest, err := io.ReadAll(got.Body)
	if err != nil || !bytes.Equal(rest, big) {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
}

func TestSync_BrokenResultIsNoticed(t *testing.T) {
	w := newWorld()
	closed := make(chan struct{})
	w.sync = func(context.Context, dispatch.Request) (*dispatch.SyncResult, error) {
		body := io.MultiReader(strings.NewReader("part"), brokenReader{})
		return &dispatch.SyncResult{Body: onClose{body, func() { close(closed) }}}, nil
	}
	s := served(t, w, New(w.config()))
	got := post(t, t.Context(), s.URL+"/sync_jobs", goodBody)
	if kind := got.Header.Get("Content-Type"); kind != "application/octet-stream" {
		t.Errorf("Content-Type %q", kind)
	}
	if all, err := io.ReadAll(got.Body); err == nil {
		t.Errorf("a part was taken for the whole: %q", all)
	}
	<-closed
}

func TestSync_EndsWhenTheClientDisconnects(t *testing.T) {
	w := newWorld()
	left := make(chan struct{})
	w.sync = func(ctx context.Context, _ dispatch.Request) (*dispatch.SyncResult, error) {
		from, to := io.Pipe()
		go io.WriteString(to, "part")
		context.AfterFunc(ctx, func() { to.CloseWithError(ctx.Err()); close(left) })
		return &dispatch.SyncResult{Body: from}, nil
	}
	s := served(t, w, New(w.config()))
	ctx, release := context.WithCancel(t.Context())
	got := post(t, ctx, s.URL+"/sync_jobs", goodBody)
	io.ReadFull(got.Body, make([]byte, 4))
	release()
	<-left
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("platform cut the connection") }

type onClose struct {
	io.Reader
	close func()
}

func (c onClose) Close() error { c.close(); return nil }

// talk serves h over a connection in memory inside a bubble, and returns the client's end.
func talk(t *testing.T, w *world, h http.Handler) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	s := Server(h, w.config().Log)
	done := make(chan struct{})
	go func() { s.Serve(&oneConn{conn: server, done: done}); close(done) }()
	t.Cleanup(func() { s.Close(); client.Close() })
	return client
}

// oneConn is a listener that accepts one connection.
type oneConn struct {
	conn net.Conn
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func TestServer_CutsSlowHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		client := talk(t, w, New(w.config()))
		io.WriteString(client, "GET /health HTTP/1.1\r\nHost: x\r\nX-A:")
		begin := time.Now()
		io.Copy(io.Discard, client)
		if d := time.Since(begin); d != 10*time.Second {
			t.Errorf("cut after %v", d)
		}
	})
}

func TestServer_CutsSlowBodies(t *testing.T) {
	for _, path := range []string{"/unit_jobs", "/sync_jobs", "/health", "/nothing"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			client := talk(t, w, New(w.config()))
			method := map[bool]string{true: "POST", false: "GET"}[strings.HasSuffix(path, "_jobs")]
			begin := time.Now()
			go io.WriteString(client, method+" "+path+
				" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-anna\r\nContent-Length: 100\r\n\r\n{")
			got, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]int{"/unit_jobs": 408, "/sync_jobs": 408, "/health": 200, "/nothing": 404}[path]
			if got.StatusCode != want {
				t.Errorf("%s: %d", path, got.StatusCode)
			}
			io.Copy(io.Discard, client)
			if d := time.Since(begin); d > 31*time.Second {
				t.Errorf("%s: cut after %v", path, d)
			}
		})
	}
}

func TestServer_CutsIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		client := talk(t, w, New(w.config()))
		go io.WriteString(client, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		in := bufio.NewReader(client)
		if _, err := http.ReadResponse(in, nil); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		io.Copy(io.Discard, in)
		if d := time.Since(begin); d != 2*time.Minute {
			t.Errorf("cut after %v", d)
		}
	})
}

func TestSync_LongRunIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.sync = func(ctx context.Context, _ dispatch.Request) (*dispatch.SyncResult, error) {
			select {
			case <-time.After(3 * time.Hour):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			from, to := io.Pipe()
			go func() {
				for range 5 {
					time.Sleep(20 * time.Minute)
					io.WriteString(to, "x")
				}
				to.Close()
			}()
			return &dispatch.SyncResult{Body: from}, nil
		}
		client := talk(t, w, New(w.config()))
		r := httptest.NewRequest("POST", "http://x/sync_jobs", strings.NewReader(goodBody))
		r.Header.Set("Authorization", "Bearer token-anna")
		go r.Write(client)
		got, err := http.ReadResponse(bufio.NewReader(client), r)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(got.Body); err != nil || string(all) != "xxxxx" {
			t.Errorf("%q %v", all, err)
		}
	})
}

func TestSync_LongRunThatFailsIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.sync = func(context.Context, dispatch.Request) (*dispatch.SyncResult, error) {
			time.Sleep(3 * time.Hour)
			return nil, &dispatch.Error{Kind: dispatch.BadUpstream, Text: "No."}
		}
		client := talk(t, w, New(w.config()))
		r := httptest.NewRequest("POST", "http://x/sync_jobs", strings.NewReader(goodBody))
		r.Header.Set("Authorization", "Bearer token-anna")
		go r.Write(client)
		got, err := http.ReadResponse(bufio.NewReader(client), r)
		if err != nil {
			t.Fatal(err)
		}
		if got.StatusCode != 502 {
			t.Errorf("status %d", got.StatusCode)
		}
	})
}

// lateResults is a broker whose jobs end at once, and whose platform takes its time over their results.
type lateResults struct{ *world }

func (lateResults) AwaitEnd(_ context.Context, job dispatch.Record, _ time.Duration) dispatch.Record {
	job.Status = dispatch.Finished
	return job
}

func (lateResults) JobResult(context.Context, dispatch.UserID, dispatch.JobID) (p broker.JobResult, err error) {
	time.Sleep(4 * time.Minute)
	return broker.JobResult{Collection: json.RawMessage(`{"type": "Collection"}`)}, nil
}

// The job is paid for: whoever is cut off from its results would run it again.
func TestSync_JobWithLateResultsIsAnswered(t *testing.T) {
	for _, prefer := range []string{"", "wait=60"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.sync = func(context.Context, dispatch.Request) (*dispatch.SyncResult, error) {
				return nil, &dispatch.Error{Kind: dispatch.Unsupported, Text: "Jobs only."}
			}
			c := w.config()
			c.Broker = lateResults{w}
			client := talk(t, w, New(c))
			r := httptest.NewRequest("POST", "http://x/sync_jobs", strings.NewReader(goodBody))
			r.Header.Set("Authorization", "Bearer token-anna")
			r.Header.Set("Prefer", prefer)
			go r.Write(client)
			got, err := http.ReadResponse(bufio.NewReader(client), r)
			if err != nil {
				t.Fatalf("%q: %v", prefer, err)
			}
			if got.StatusCode != http.StatusOK {
				t.Errorf("%q: status %d", prefer, got.StatusCode)
			}
		})
	}
}

func TestServer_CutsUnreadResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := New(w.config())
		whole := ask(h, "GET", "/openapi.json", "").Body.Len()
		client := talk(t, w, h)
		io.WriteString(client, "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
		time.Sleep(3 * time.Minute)
		if all, _ := io.ReadAll(client); len(all) >= whole {
			t.Errorf("%d bytes waited for a client for three minutes", len(all))
		}
	})
}

func TestSync_CutsClientsThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		closed := make(chan time.Time, 1)
		w.sync = func(context.Context, dispatch.Request) (*dispatch.SyncResult, error) {
			return &dispatch.SyncResult{Body: onClose{endless{neverEnding{}}, func() { closed <- time.Now() }}}, nil
		}
		client := talk(t, w, New(w.config()))
		r := httptest.NewRequest("POST", "http://x/sync_jobs", strings.NewReader(goodBody))
		r.Header.Set("Authorization", "Bearer token-anna")
		r.Write(client)
		begin := time.Now()
		if d := (<-closed).Sub(begin); d != live.ChunkTime {
			t.Errorf("cut after %v", d)
		}
	})
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }

func TestServer_RefusesLargeHeads(t *testing.T) {
	w := newWorld()
	s := served(t, w, New(w.config()))
	r, _ := http.NewRequest("GET", s.URL+"/health", nil)
	r.Header.Set("X-Big", strings.Repeat("x", 100<<10))
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if got.StatusCode != 431 {
		t.Errorf("status %d", got.StatusCode)
	}
}
