package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// lossy loses the response to the first request of a method after the broker has handled it.
type lossy struct {
	method string
	lost   atomic.Bool
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && r.Method == l.method && l.lost.CompareAndSwap(false, true) {
		_, _ = io.Copy(io.Discard, response.Body) // the broker has answered
		response.Body.Close()
		return nil, errors.New("the connection was reset")
	}
	return response, err
}

func TestSubmit_RepeatsALostResponseWithoutASecondJob(t *testing.T) {
	t.Parallel()
	w, plain := start(t)
	c, err := client.New(w.url, client.Options{HTTP: &http.Client{Transport: &lossy{method: http.MethodPost}},
		Token: plain.Token})
	if err != nil {
		t.Fatal(err)
	}
	job, err := c.Submit(t.Context(), w.ndvi(), "")
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for j, err := range c.Jobs(t.Context(), client.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	if len(ids) != 1 || ids[0] != job.ID {
		t.Errorf("job %d was submitted; the list has %v", job.ID, ids)
	}
}

func TestLists_FollowTheirPages(t *testing.T) {
	t.Parallel()
	w, c := start(t)
	task, err := c.Upscale(t.Context(), w.tiled(7), "")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := c.Submit(t.Context(), w.ndvi(), ""); err != nil {
			t.Fatal(err)
		}
	}
	n, m := 0, 0
	for j, err := range c.TaskJobs(t.Context(), task.ID, client.Filter{PageSize: 3}) {
		if err != nil || j.TaskID != task.ID {
			t.Fatal(j, err)
		}
		n++
	}
	for _, err := range c.Jobs(t.Context(), client.Filter{PageSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		m++
	}
	if n != 7 || m != 5 {
		t.Errorf("%d jobs of the task and %d others", n, m)
	}
}

func TestErrors_AreTheBrokersWords(t *testing.T) {
	t.Parallel()
	w, c := start(t)
	bad := w.ndvi()
	bad.Parameters, bad.Title = []byte(`[]`), ""
	_, err := c.Submit(t.Context(), bad, "")
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Status != 422 || e.Code != "VALIDATION_ERROR" || len(e.Faults) == 0 ||
		!strings.Contains(err.Error(), "parameters") {
		t.Errorf("%#v", err)
	}
	if _, err := c.Job(t.Context(), 99); !client.IsCode(err, "JOB_NOT_FOUND") {
		t.Error(err)
	}
	if err := c.DeleteTask(t.Context(), 99); !client.IsCode(err, "TASK_NOT_FOUND") {
		t.Error(err)
	}
}

// TestErrors_OfAnotherProtocol: the request ends, though the body of such a response never does.
func TestErrors_OfAnotherProtocol(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		// fails if the test is over
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		<-over
		conn.Close()
	}))
	defer server.Close()
	defer close(over)
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Platforms(t.Context())
		ended <- err
	}()
	select {
	case err := <-ended:
		if !client.IsCode(err, client.NotABroker) {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the request does not end")
	}
}

func TestErrors_OfAnAddressWithoutABroker(t *testing.T) {
	t.Parallel()
	for status, body := range map[int]string{200: "<html>Welcome</html>", 404: "<html>Not here</html>",
		502: "bad gateway"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		c, err := client.New(server.URL, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Platforms(t.Context())
		if !client.IsCode(err, client.NotABroker) || !strings.Contains(err.Error(), "text/html") {
			t.Errorf("%d: %v", status, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if status == http.StatusBadGateway {
			cancel() // it may be a proxy before a broker that starts, so that the stream would try again
		}
		for _, err := range c.WatchTask(ctx, 1) {
			if status != http.StatusBadGateway && (!client.IsCode(err, client.NotABroker) ||
				!strings.Contains(err.Error(), "text/html")) {
				t.Errorf("the stream, %d: %v", status, err)
			}
			break
		}
		cancel()
		server.Close()
	}
	for _, address := range []string{"", "ftp://a", "http://", "https://user:password@broker.example.org",
		"https://broker.example.org?x=1", "http://broker.example.org", "http://127.evil.example"} {
		if _, err := client.New(address, client.Options{}); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
	for given, want := range map[string]string{"Broker.example.org/": "https://broker.example.org",
		"localhost:8080": "http://localhost:8080", "http://a/b/": "http://a/b",
		"127.0.0.1:8080": "http://127.0.0.1:8080", "[::1]:8080": "http://[::1]:8080",
		"127.evil.example": "https://127.evil.example"} {
		if got, err := client.ParseURL(given); got != want || err != nil {
			t.Errorf("%q is read as %q, %v", given, got, err)
		}
	}
	if _, err := client.New("http://broker.example.org", client.Options{Insecure: true}); err != nil {
		t.Error(err)
	}
}

// cutting is a proxy whose connections can be cut.
type cutting struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
}

// newCutting returns the address of a proxy before a server.
func newCutting(t *testing.T, address string) (*cutting, string) {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutting{Listener: l}
	t.Cleanup(func() { l.Close(); p.cut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target.Host)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, in, out)
			p.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() { _, _ = io.Copy(pair[0], pair[1]); pair[0].Close() }()
			}
		}
	}()
	return p, "http://" + l.Addr().String()
}

func (p *cutting) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.Close()
	}
	p.open = nil
}

// TestWatchTask_MissesNoEnd cuts the connection while jobs end.
func TestWatchTask_MissesNoEnd(t *testing.T) {
	t.Parallel()
	w, plain := start(t)
	w.OGC.SetLife(simulator.Life{Run: time.Hour})
	proxy, address := newCutting(t, w.url)
	c, err := client.New(address, client.Options{Token: plain.Token})
	if err != nil {
		t.Fatal(err)
	}
	task, err := plain.Upscale(t.Context(), w.tiled(3), "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	jobs, interruptions := map[int64]wire.Status{}, 0
	for u, err := range c.WatchTask(ctx, task.ID) {
		if err != nil {
			t.Fatalf("%v; the last statuses are %v", err, jobs)
		}
		for _, j := range u.Jobs {
			jobs[j.ID] = j.Status
		}
		switch {
		case u.Interrupted != nil:
			interruptions++
		case u.Full && interruptions == 0:
			for id := range jobs { // they end while nobody is connected
				if _, err := plain.Cancel(ctx, id); err != nil {
					t.Fatal(err)
				}
			}
			proxy.cut()
		case len(u.Tasks) > 0 && u.Tasks[0].Status.Final():
			if interruptions == 0 || len(jobs) != 3 {
				t.Errorf("%d interruptions, %v", interruptions, jobs)
			}
			for id, status := range jobs {
				if status != wire.Canceled {
					t.Errorf("job %d: %s", id, status)
				}
			}
			return
		}
	}
}

func TestWatchTask_EndsWithADeletedTask(t *testing.T) {
	t.Parallel()
	w, c := start(t)
	w.OGC.SetLife(simulator.Life{Run: time.Hour})
	task, err := c.Upscale(t.Context(), w.tiled(1), "")
	if err != nil {
		t.Fatal(err)
	}
	for u, err := range c.WatchTask(t.Context(), task.ID) {
		if err != nil {
			if !client.IsCode(err, "TASK_NOT_FOUND") {
				t.Error(err)
			}
			return
		}
		if u.Full {
			if err := c.DeleteTask(t.Context(), task.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Error("the stream ended without an error")
}

// TestWatch_EndsWhenTheSignInHasExpired: the token of a new connection cannot be had.
func TestWatch_EndsWhenTheSignInHasExpired(t *testing.T) {
	t.Parallel()
	w, plain := start(t)
	proxy, address := newCutting(t, w.url)
	var expired atomic.Bool
	over := errors.New("the sign-in has expired")
	c, err := client.New(address, client.Options{Token: func(ctx context.Context) (string, error) {
		if expired.Load() {
			return "", over
		}
		return plain.Token(ctx)
	}})
	if err != nil {
		t.Fatal(err)
	}
	for u, err := range c.WatchList(t.Context()) {
		if err != nil {
			if !errors.Is(err, over) {
				t.Error(err)
			}
			return
		}
		if u.Full {
			expired.Store(true)
			proxy.cut()
		}
	}
}

func TestLog_IsReadInPages(t *testing.T) {
	t.Parallel()
	w, c := start(t)
	job, err := c.Submit(t.Context(), w.openEO(), "")
	if err != nil {
		t.Fatal(err)
	}
	for now, err := range c.WatchJob(t.Context(), job.ID) {
		if err != nil {
			t.Fatal(err)
		}
		job = now.ProcessingJobSummary
	}
	var all bytes.Buffer
	n := 0
	for entry, err := range c.Log(t.Context(), job.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(entry.Message)
		n++
	}
	if job.Status != wire.Finished || n == 0 || all.Len() == 0 {
		t.Errorf("%s, %d entries", job.Status, n)
	}
}

// The place in the queue is no change that the broker tells, so it is read. What arrives meanwhile is not lost.
func TestWatchJob_ReadsThePlaceInTheQueue(t *testing.T) {
	t.Parallel()
	states := []string{`{"id":1,"status":"created","queue_position":2}`,
		`{"id":1,"status":"created","queue_position":2}`, `{"id":1,"status":"created","queue_position":1}`,
		`{"id":1,"status":"created","queue_position":1,"attention":{"code":"SIGN_IN_REQUIRED"}}`,
		`{"id":1,"status":"finished"}`}
	tags := []string{"a", "a", "a", "b", "c"} // by which the broker tells changes
	now := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("wait") && now+1 < len(states) {
			now++ // while it waits
		}
		w.Header().Set("ETag", tags[now])
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("If-None-Match") == tags[now] {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, states[now]) // the test shows what is missing
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for j, err := range c.WatchJob(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		text := string(j.Status)
		if j.QueuePosition != nil {
			text += fmt.Sprint(" ", *j.QueuePosition)
		}
		if j.Attention != nil {
			text += " " + j.Attention.Code
		}
		seen = append(seen, text)
	}
	want := []string{"created 2", "created 1", "created 1 SIGN_IN_REQUIRED", "finished"}
	if !slices.Equal(seen, want) {
		t.Errorf("%q, not %q", seen, want)
	}
}
