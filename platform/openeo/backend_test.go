package openeo_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const (
	canary  = "canary-71c0"
	issuer  = "https://idp.example/realms/eo"
	classes = `"https://api.openeo.org/1.2.0","https://api.openeo.org/extensions/remote-process-definition/0.1.0"`
)

// backend is an openEO server with fixed responses, each of which a test may replace.
type backend struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	routes map[string]http.HandlerFunc
	calls  []string // method and path below the API, or below the host
	bodies map[string][]byte
	auth   map[string]string
}

func newBackend(t *testing.T) *backend {
	b := &backend{t: t, routes: map[string]http.HandlerFunc{}, bodies: map[string][]byte{}, auth: map[string]string{}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	b.json("GET /.well-known/openeo", 200, `{"versions":[{"url":"`+b.URL+
		`/openeo/1.1/","api_version":"1.1.0","production":true},
		{"url":"`+b.URL+`/openeo/1.2/","api_version":"1.2.0","production":true}]}`)
	b.capabilities(classes)
	b.json("GET /credentials/oidc", 200,
		`{"providers":[{"id":"egi","issuer":"https://aai.egi.eu/auth"},{"id":"CDSE","issuer":"`+issuer+`/"}]}`)
	b.json("GET /file_formats", 200, `{"input":{},"output":{"GTiff":{},"netCDF":{},"GeoJSON":{},"JSON":{}}}`)
	b.json("GET /me", 200, `{"user_id":"alice"}`)
	b.on("POST /jobs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("OpenEO-Identifier", "j-1")
		w.Header().Set("Location", b.URL+"/openeo/1.2/jobs/j-1")
		w.WriteHeader(201)
	})
	b.on("POST /jobs/j-1/results", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) })
	b.json("GET /udp.json", 200,
		`{"id":"ndvi","parameters":[{"name":"extent"},{"name":"note","optional":true},{"name":"none","optional":true}],"process_graph":{"load":{"process_id":"load_collection",
		"arguments":{"spatial_extent":{"from_parameter":"extent"}}, "result":true}}}`)
	return b
}

func (b *backend) capabilities(classes string) {
	b.json("GET /", 200, `{"api_version":"1.2.0","conformsTo":[`+classes+
		`],"endpoints":[{"path":"/jobs","methods":["GET","POST"]},{"path":"/result","methods":["POST"]}]}`)
}

func (b *backend) on(route string, h http.HandlerFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.routes[route] = h
}

func (b *backend) json(route string, status int, body string) {
	b.on(route, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/openeo/1.2")
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.calls = append(b.calls, route)
	b.bodies[route], b.auth[route] = body, r.Header.Get("Authorization")
	h := b.routes[route]
	b.mu.Unlock()
	if h == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(404)
		_, _ = io.WriteString(w, `{"code":"NotFound","message":"no such path"}`)
		return
	}
	h(w, r)
}

// takeCalls returns the calls since it was last called.
func (b *backend) takeCalls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.calls
	b.calls = nil
	return calls
}

func (b *backend) wantCalls(want ...string) {
	b.t.Helper()
	if got := b.takeCalls(); !slices.Equal(got, want) {
		b.t.Errorf("got calls %q, want %q", got, want)
	}
}

func (b *backend) body(route string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.bodies[route])
}

func (b *backend) authorization(route string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.auth[route]
}

// platform returns the adapter for b.
func (b *backend) platform(change ...func(*openeo.Config)) *openeo.Platform {
	c := openeo.Config{Name: "cdse", Endpoint: b.URL, TokenPrefix: "oidc/CDSE",
		Client: upstream.New(upstream.Config{Development: true})}
	for _, f := range change {
		f(&c)
	}
	return openeo.New(c)
}

var token = dispatch.Token{Secret: canary, Issuer: issuer}

func (b *backend) submission() dispatch.Submission {
	return dispatch.Submission{Tag: "inst.7.1", Request: dispatch.Request{
		Title: "Field 12", Format: "gtiff", Service: dispatch.Service{Application: b.URL + "/udp.json"},
		Parameters: json.RawMessage(
			`{"extent":{"west":1.10,"south":12345678901234567890},"note":"a<b & ü","none":null}`),
	}}
}

var job1 = dispatch.Ref{ID: "j-1"}

func wantKind(t *testing.T, err error, want dispatch.Kind) *dispatch.Error {
	t.Helper()
	e, ok := errors.AsType[*dispatch.Error](err)
	if !ok {
		t.Fatalf("got %v, want an error of kind %s", err, want)
	}
	if e.Kind != want {
		t.Errorf("got kind %s, want %s: %v", e.Kind, want, err)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), canary) {
		t.Errorf("the error shows the token: %v", err)
	}
	return e
}

func wantJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("got %q: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("want %q: %v", want, err)
	}
	a, _ := json.Marshal(g)
	b, _ := json.Marshal(w)
	if string(a) != string(b) {
		t.Errorf("got  %s\nwant %s", a, b)
	}
}
