package upstream_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const canary = "canary-5f1c"

// serve starts a server for one test, and a client that may call it.
func serve(t *testing.T, h http.HandlerFunc) (*httptest.Server, *upstream.Client) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, upstream.New(upstream.Config{Development: true, UserAgent: "eodispatch/test"})
}

// roundTrip is a network implemented by one function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(r *http.Request, status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

func wantKind(t *testing.T, err error, want dispatch.Kind) *dispatch.Error {
	t.Helper()
	e, ok := errors.AsType[*dispatch.Error](err)
	if !ok {
		t.Fatalf("got %v, want an error of kind %s", err, want)
	}
	if e.Kind != want {
		t.Errorf("got kind %s, want %s: %v", e.Kind, want, err)
	}
	return e
}

func TestDo_KindsOfStatuses(t *testing.T) {
	cases := []struct {
		status        int
		pause         string
		asked, effect dispatch.Kind // without and with an effect
	}{
		{400, "", dispatch.Invalid, dispatch.Invalid},
		{401, "", dispatch.SignInRequired, dispatch.SignInRequired},
		{402, "", dispatch.Invalid, dispatch.Invalid},
		{403, "", dispatch.Forbidden, dispatch.Forbidden},
		{404, "", dispatch.NotFound, dispatch.NotFound},
		{405, "", dispatch.Unsupported, dispatch.Unsupported},
		{408, "", dispatch.Unavailable, dispatch.Uncertain},
		{409, "", dispatch.Conflict, dispatch.Conflict},
		{410, "", dispatch.NotFound, dispatch.NotFound},
		{422, "", dispatch.Invalid, dispatch.Invalid},
		{424, "", dispatch.Invalid, dispatch.Invalid},
		{429, "", dispatch.Busy, dispatch.Busy},
		{429, "7", dispatch.Busy, dispatch.Busy},
		{500, "", dispatch.Unavailable, dispatch.Uncertain},
		{501, "", dispatch.Unsupported, dispatch.Unsupported},
		{502, "", dispatch.Unavailable, dispatch.Uncertain},
		{503, "", dispatch.Busy, dispatch.Uncertain},
		{503, "7", dispatch.Busy, dispatch.Busy},
		{503, "soon", dispatch.Busy, dispatch.Uncertain},
		{504, "", dispatch.Unavailable, dispatch.Uncertain},
		{507, "", dispatch.Unavailable, dispatch.Uncertain},
		{304, "", dispatch.BadUpstream, dispatch.BadUpstream},
	}
	for _, c := range cases {
		for _, effect := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d pause=%q effect=%t", c.status, c.pause, effect), func(t *testing.T) {
				client := upstream.New(upstream.Config{Transport: roundTrip(
					func(r *http.Request) (*http.Response, error) {
						return respond(r, c.status, `{"code":"X","message":"so it is"}`, "Retry-After", c.pause), nil
					})})
				a, err := client.Do(t.Context(), upstream.Call{Op: "test", Method: "POST", URL: "https://a.example/",
					Effect: effect})
				want := c.asked
				if effect {
					want = c.effect
				}
				e := wantKind(t, err, want)
				if e.Text != "so it is" || a == nil || a.Status != c.status {
					t.Errorf("got text %q, answer %v", e.Text, a)
				}
				if c.pause == "7" && e.RetryAfter != 7*time.Second {
					t.Errorf("got pause %v, want 7s", e.RetryAfter)
				}
			})
		}
	}
}

func TestDo_RetryAfter(t *testing.T) {
	cases := []struct {
		pause, date string
		want        time.Duration
	}{
		{"0", "", 0}, {"120", "", 2 * time.Minute}, {" 5 ", "", 5 * time.Second}, {"-3", "", 0}, {"1.5", "", 0},
		{"999999999999", "", time.Hour}, {"99999999999999999999999", "", 0},
		{"Sat, 01 Jan 2000 00:00:30 GMT", "", 30 * time.Second}, // now is 2000-01-01
		{"Fri, 31 Dec 1999 23:00:00 GMT", "", 0},
		{"Sat, 01 Jan 2000 09:00:00 GMT", "", time.Hour},
		{"Fri, 05 Jan 2018 10:00:20 GMT", "Fri, 05 Jan 2018 10:00:00 GMT", 20 * time.Second}, // by the server's clock
	}
	for _, c := range cases {
		t.Run(c.pause, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := upstream.New(upstream.Config{Transport: roundTrip(
					func(r *http.Request) (*http.Response, error) {
						return respond(r, 429, "", "Retry-After", c.pause, "Date", c.date), nil
					})})
				_, err := client.Do(t.Context(), upstream.Call{Method: "GET", URL: "https://a.example/"})
				if e := wantKind(t, err, dispatch.Busy); e.RetryAfter != c.want {
					t.Errorf("got %v, want %v", e.RetryAfter, c.want)
				}
			})
		})
	}
}

// A failure before anything was sent is Unavailable; a later one is Uncertain if the call has an effect.
func TestDo_Failures(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of our handshake
	untrusted.StartTLS()
	defer untrusted.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}))
	defer cut.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer silent.Close()
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Header().Set("Location", "/jobs/7")
		w.WriteHeader(201)
		_, _ = io.WriteString(w, "half")
	}))
	defer half.Close()

	cases := []struct {
		name, url     string
		asked, effect dispatch.Kind
	}{
		{"refused connection", "http://127.0.0.1:1", dispatch.Unavailable, dispatch.Unavailable},
		{"certificate of an unknown authority", untrusted.URL, dispatch.Unavailable, dispatch.Unavailable},
		{"cut before the answer", cut.URL, dispatch.Unavailable, dispatch.Uncertain},
		{"no answer in time", silent.URL, dispatch.Unavailable, dispatch.Uncertain},
		{"cut within the answer", half.URL, dispatch.Unavailable, dispatch.Uncertain},
	}
	client := upstream.New(upstream.Config{Development: true, Timeout: 200 * time.Millisecond})
	for _, c := range cases {
		for _, effect := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s effect=%t", c.name, effect), func(t *testing.T) {
				a, err := client.Do(t.Context(), upstream.Call{
					Op: "test", Method: "POST", URL: c.url + "/jobs", Body: []byte(`{}`), Effect: effect,
					Token: canary, Origin: c.url})
				want := c.asked
				if effect {
					want = c.effect
				}
				wantKind(t, err, want)
				if c.url == half.URL && (a == nil || a.Header.Get("Location") != "/jobs/7") {
					t.Error("the header that did arrive is lost")
				}
				if s := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(s, canary) {
					t.Error("the error shows the token:", s)
				}
			})
		}
	}
}

func TestDo_LookupFailureIsUnavailable(t *testing.T) {
	client := upstream.New(upstream.Config{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "a.example", IsNotFound: true}
	})})
	_, err := client.Do(t.Context(), upstream.Call{Method: "POST", URL: "https://a.example/", Effect: true})
	wantKind(t, err, dispatch.Unavailable)
}

// With a transport that does not report what it sent, a failure is uncertain.
func TestDo_UnknownTransportFailureIsUncertain(t *testing.T) {
	client := upstream.New(upstream.Config{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, io.ErrUnexpectedEOF
	})})
	_, err := client.Do(t.Context(), upstream.Call{Method: "POST", URL: "https://a.example/", Effect: true})
	wantKind(t, err, dispatch.Uncertain)
}

func TestDo_SendsNothingAfterTheDeadline(t *testing.T) {
	client := upstream.New(upstream.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return respond(r, 200, ""), nil
	})})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.Do(ctx, upstream.Call{Method: "POST", URL: "https://a.example/", Effect: true})
	wantKind(t, err, dispatch.Unavailable)
}

func TestDo_TimeoutWithoutDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := upstream.New(upstream.Config{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		begun := time.Now()
		_, err := client.Do(t.Context(), upstream.Call{Method: "GET", URL: "https://a.example/"})
		wantKind(t, err, dispatch.Unavailable)
		if took := time.Since(begun); took != 30*time.Second {
			t.Errorf("gave up after %v", took)
		}
	})
}

// Go's transport repeats a request on a broken reused connection if the request looks repeatable.
func TestDo_SendsAnEffectOnce(t *testing.T) {
	var posts atomic.Int32
	s, keeping := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/answered" {
			return
		}
		posts.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	})
	standard := upstream.New(upstream.Config{Development: true, Transport: http.DefaultTransport})
	for name, client := range map[string]*upstream.Client{"own connections": keeping, "a transport": standard} {
		for _, body := range []string{"", `{"a":1}`} {
			posts.Store(0)
			if _, err := client.Do(t.Context(), upstream.Call{Method: "POST", URL: s.URL + "/answered",
				Effect: true}); err != nil {
				t.Fatal(err)
			}
			_, err := client.Do(t.Context(), upstream.Call{Method: "POST", URL: s.URL, Body: []byte(body), Effect: true,
				Header: http.Header{"Idempotency-Key": {"k"}, "X-Idempotency-Key": {"k"}}})
			wantKind(t, err, dispatch.Uncertain)
			if n := posts.Load(); n != 1 {
				t.Errorf("%s, body %q: sent %d times, want once", name, body, n)
			}
		}
	}
}

func TestDo_SendsATokenToItsOriginOnly(t *testing.T) {
	cases := []struct {
		url  string
		sent bool
	}{
		{"https://api.example.org/jobs", true},
		{"https://API.example.org:443/jobs", true},
		{"https://api.example.org:8443/jobs", false},
		{"https://x.api.example.org/jobs", false},
		{"https://example.org/jobs", false},
		{"https://api.example.org.evil.example/jobs", false},
		{"http://api.example.org/jobs", false},
	}
	for _, c := range cases {
		var got *http.Request
		client := upstream.New(upstream.Config{Development: true, UserAgent: "eodispatch/9",
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				got = r
				return respond(r, 200, ""), nil
			})})
		_, err := client.Do(t.Context(), upstream.Call{Method: "GET", URL: c.url, Token: canary,
			Origin: "https://api.example.org/openeo/1.2",
			Header: http.Header{"Authorization": {"Bearer other"}, "Cookie": {"a=b"}}})
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if c.sent {
			want = "Bearer " + canary
		}
		if a := got.Header.Get("Authorization"); a != want {
			t.Errorf("%s: got Authorization %q, want %q", c.url, a, want)
		}
		if got.Header.Get("User-Agent") != "eodispatch/9" || got.Header.Get("Cookie") != "" {
			t.Errorf("%s: got header %v", c.url, got.Header)
		}
	}
}

func TestDo_Redirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Error("another origin was asked")
	}))
	defer other.Close()
	var asked atomic.Int32
	s, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/here":
			http.Redirect(w, r, "/end", http.StatusPermanentRedirect)
		case "/there":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/bare":
			w.WriteHeader(http.StatusFound)
		}
	})
	cases := []struct {
		name, path string
		call       upstream.Call
		ok         bool
		asked      int32
	}{
		{"within the origin", "/here", upstream.Call{Method: "GET"}, true, 2},
		{"with a token", "/here", upstream.Call{Method: "GET", Token: canary, Origin: s.URL}, false, 1},
		{"with an effect", "/here", upstream.Call{Method: "POST", Effect: true}, false, 1},
		{"to another origin", "/there", upstream.Call{Method: "GET"}, false, 1},
		{"in a loop", "/loop", upstream.Call{Method: "GET"}, false, 4},
		{"without a place", "/bare", upstream.Call{Method: "GET"}, false, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			asked.Store(0)
			c.call.URL = s.URL + c.path
			a, err := client.Do(t.Context(), c.call)
			if c.ok && (err != nil || a.URL.Path != "/end") {
				t.Errorf("got %v, %v", a, err)
			}
			if !c.ok {
				wantKind(t, err, dispatch.BadUpstream)
			}
			if n := asked.Load(); n != c.asked {
				t.Errorf("asked %d times, want %d", n, c.asked)
			}
		})
	}
}

// TestDo_UnpacksGzipByAnyOfItsNames: content codings are compared without case, and x-gzip is gzip.
func TestDo_UnpacksGzipByAnyOfItsNames(t *testing.T) {
	s, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", strings.TrimPrefix(r.URL.Path, "/"))
		z := gzip.NewWriter(w)
		_, _ = z.Write([]byte(`{}`))
		_ = z.Close()
	})
	for _, name := range []string{"gzip", "GZIP", "x-gzip", "X-Gzip"} {
		if a, err := client.Do(t.Context(), upstream.Call{Method: "GET", URL: s.URL + "/" + name}); err != nil ||
			string(a.Body) != "{}" {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

func TestDo_Limits(t *testing.T) {
	bomb := func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(make([]byte, 5<<20))
		_ = z.Close()
		return b.Bytes()
	}()
	s, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			_, _ = w.Write(make([]byte, 2000))
		case "/fits":
			_, _ = w.Write(make([]byte, 1000))
		case "/endless":
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1000))
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		case "/header":
			for i := range 200 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
			}
		case "/slow":
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	cases := []struct {
		path   string
		effect bool
		want   dispatch.Kind
	}{
		{"/long", false, dispatch.BadUpstream}, {"/long", true, dispatch.Uncertain},
		{"/endless", false, dispatch.BadUpstream}, {"/bomb", false, dispatch.BadUpstream},
		{"/header", false, dispatch.Unavailable}, {"/header", true, dispatch.Uncertain},
		{"/slow", false, dispatch.Unavailable}, {"/slow", true, dispatch.Uncertain},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s effect=%t", c.path, c.effect), func(t *testing.T) {
			timeout := 10 * time.Second
			if c.path == "/slow" {
				timeout = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := client.Do(ctx, upstream.Call{Method: "GET", URL: s.URL + c.path, Effect: c.effect, Limit: 1000})
			wantKind(t, err, c.want)
		})
	}
	if a, err := client.Do(t.Context(), upstream.Call{Method: "GET", URL: s.URL + "/fits", Limit: 1000}); err != nil ||
		len(a.Body) != 1000 {
		t.Errorf("a body of the limit's length: got %v", err)
	}
}

func TestStream(t *testing.T) {
	gone := make(chan struct{})
	s, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/error":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"code":"ProcessUnsupported","message":"no such process"}`)
		case "/cut":
			_, _ = io.WriteString(w, "some")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/open":
			_, _ = io.WriteString(w, "first")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(gone)
		}
	})
	a, err := client.Stream(t.Context(), upstream.Call{Method: "POST", URL: s.URL + "/error", Effect: true})
	if e := wantKind(t, err, dispatch.Invalid); e.Text != "no such process" || a.Stream != nil || len(a.Body) == 0 {
		t.Errorf("got text %q, answer %+v", e.Text, a)
	}
	a, err = client.Stream(t.Context(), upstream.Call{Method: "POST", URL: s.URL + "/cut", Effect: true})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(a.Stream)
	wantKind(t, err, dispatch.Unavailable)
	if string(data) != "some" {
		t.Errorf("got %q", data)
	}
	a.Stream.Close()
	a, err = client.Stream(t.Context(), upstream.Call{Method: "POST", URL: s.URL + "/open", Effect: true})
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 5)
	if _, err := io.ReadFull(a.Stream, first); err != nil || string(first) != "first" {
		t.Errorf("got %q, %v before the end of the body", first, err)
	}
	a.Stream.Close()
	<-gone // closing ends the call
}

func TestDo_RequiresHTTPS(t *testing.T) {
	client := upstream.New(upstream.Config{
		Trust: []string{"http://10.0.0.5:8080/api", "idp.example.org"},
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return respond(r, 200, ""), nil
		}),
	})
	for raw, ok := range map[string]bool{
		"https://a.example/": true, "http://10.0.0.5:8080/other": true, "https://idp.example.org/": true,
		"http://a.example/": false, "http://10.0.0.5:9090/": false, "http://idp.example.org/": false,
		"ftp://a.example/": false, "/relative": false, "https://u:p@a.example/": false, "https:///x": false,
		"\x7f": false, "": false,
	} {
		_, err := client.Do(t.Context(), upstream.Call{Method: "GET", URL: raw})
		if ok && err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if !ok {
			wantKind(t, err, dispatch.Misconfigured)
		}
	}
}
