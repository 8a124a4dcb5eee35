package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

const goodBody = `{"title":"NDVI","label":"openeo","format":"gtiff",
	"service":{"endpoint":"https://openeo.example.org","namespace":null,"application":"https://apps.example.org/ndvi.json"},
	"parameters":{"n":12345678901234567890.00100,"e":1e99,"z":-0,"none":null,"html":"<b>&"}}`

// goodTask is goodBody with three values.
var goodTask = goodBody[:len(goodBody)-1] + `,"dimension":{"name":"tile","values":[1.50,{"west":1e40},null]}}`

// ask sends one request as anna; headers are name, value, ….
func ask(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	if body != "" {
		r = httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer token-anna")
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return send(h, r)
}

func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// decode returns the body of a response. It fails unless the response has the status and is one JSON value.
func decode[T any](t *testing.T, w *httptest.ResponseRecorder, status int) (v T) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	if kind := w.Header().Get("Content-Type"); kind != "application/json" {
		t.Fatalf("Content-Type %q", kind)
	}
	d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("more than one value: %s", w.Body)
	}
	return v
}

// failure is the body of an error response, as a client reads it.
type failure struct {
	Status    *string        `json:"status"`
	Code      string         `json:"error_code"`
	Message   string         `json:"message"`
	Details   map[string]any `json:"details"`
	RequestID string         `json:"request_id"`
	Detail    []fault        `json:"detail"`
}

type fault struct {
	Loc  []any  `json:"loc"`
	Msg  string `json:"msg"`
	Type string `json:"type"`
}

// failed checks what holds for every error response, and returns its body.
func failed(t *testing.T, w *httptest.ResponseRecorder, status int, code string) failure {
	t.Helper()
	members := decode[map[string]json.RawMessage](t, w, status)
	for _, name := range []string{"status", "error_code", "message", "details", "request_id"} {
		if members[name] == nil {
			t.Errorf("no member %s: %s", name, w.Body)
		}
	}
	if _, has := members["detail"]; has != (status == 422) {
		t.Errorf("detail given: %v at status %d", has, status)
	}
	f := decode[failure](t, w, status)
	if f.Code != code {
		t.Errorf("error_code %q, want %q", f.Code, code)
	}
	if f.Status == nil || *f.Status != "error" || f.Message == "" {
		t.Errorf("body %s", w.Body)
	}
	if id := w.Header().Get("X-Correlation-ID"); id == "" || id != f.RequestID {
		t.Errorf("request_id %q, X-Correlation-ID %q", f.RequestID, id)
	}
	return f
}

func locs(fs []fault) []string {
	var all []string
	for _, f := range fs {
		loc, _ := json.Marshal(f.Loc)
		all = append(all, string(loc)+" "+cmp.Or(f.Type, "?"))
	}
	return all
}
