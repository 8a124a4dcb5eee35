package ogcapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

// server responds by its script, by method and path, and records the requests.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	script map[string][]reply // the last of several is repeated
	asked  []request
}

type reply struct {
	status int
	header string // "Name: value" lines
	body   string // HOST stands for the server's URL
}

type request struct {
	method, path, query, body string
	header                    http.Header
}

func ok(body string) reply      { return reply{200, "Content-Type: application/json", body} }
func job(location string) reply { return reply{201, "Location: " + location, "null"} }

const bothModes = `{"id":"p","version":"1","jobControlOptions":["sync-execute","async-execute"]}`

// serve starts a server. It has a process description unless the script has another.
func serve(t *testing.T, script map[string][]reply) *server {
	t.Helper()
	s := &server{script: map[string][]reply{"GET /processes/p": {ok(bothModes)}}}
	for k, v := range script {
		s.script[k] = v
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.asked = append(s.asked, request{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body), r.Header})
	key := r.Method + " " + r.URL.EscapedPath()
	replies := s.script[key]
	if q := s.script[key+"?"+r.URL.RawQuery]; q != nil {
		key, replies = key+"?"+r.URL.RawQuery, q
	}
	if len(replies) > 1 {
		s.script[key] = replies[1:]
	}
	s.mu.Unlock()
	if len(replies) == 0 {
		http.Error(w, "404 page not found", 404)
		return
	}
	s.write(w, replies[0])
}

func (s *server) write(w http.ResponseWriter, a reply) {
	if a.status == 0 { // cut off
		conn, _, _ := w.(http.Hijacker).Hijack()
		conn.Close()
		return
	}
	for line := range strings.SplitSeq(a.header, "\n") {
		if name, value, found := strings.Cut(line, ": "); found {
			w.Header().Add(name, strings.ReplaceAll(value, "HOST", s.URL))
		}
	}
	w.WriteHeader(a.status)
	fmt.Fprint(w, strings.ReplaceAll(a.body, "HOST", s.URL))
}

// requests returns the requests with a method and path.
func (s *server) requests(method, path string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []request
	for _, r := range s.asked {
		if r.method == method && r.path == path {
			all = append(all, r)
		}
	}
	return all
}

func (s *server) platform() *Platform {
	return New(Config{Name: "test", Endpoint: s.URL, Client: upstream.New(upstream.Config{Development: true})})
}

func (s *server) submission() dispatch.Submission {
	return dispatch.Submission{Tag: "x.1.1", Request: dispatch.Request{
		Service: dispatch.Service{Endpoint: s.URL, Application: "p"}, Parameters: json.RawMessage(`{}`), Format: "json"}}
}

var token = dispatch.Token{Secret: "secret-token"}

func wantKind(t *testing.T, err error, kind dispatch.Kind) {
	t.Helper()
	if !dispatch.Is(err, kind) {
		t.Errorf("got %v, want %v", err, kind)
	}
}

func wantText(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(dispatch.TextFor(err), part) {
		t.Errorf("got %v, want a text with %q", err, part)
	}
}

// roundTrip is a transport in memory, for tests on a fake clock.
type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	a := f(r)
	if a == nil {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return a, nil
}

func answerWith(r *http.Request, body string) *http.Response {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(body))}
}

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
