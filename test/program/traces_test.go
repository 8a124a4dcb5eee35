//go:build unix

package program

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// receiver is a receiver of OTLP over HTTP.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
	texts []string // all that arrived, without ids
	heads []http.Header
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		var data otlp.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil || request.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%v, %v", err, request.Header)
		}
		r.keep(&data, request.Header)
	})
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) keep(data *otlp.TracesData, head http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heads = append(r.heads, head)
	for _, of := range data.ResourceSpans {
		r.texts = append(r.texts, of.Resource.String())
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	for _, s := range r.spans {
		r.texts = append(r.texts, s.Name, s.Status.String(), s.TraceState)
		for _, a := range s.Attributes {
			r.texts = append(r.texts, a.String())
		}
	}
}

// named returns the spans with that name.
func (r *receiver) named(name string) (found []*otlp.Span) {
	for _, s := range r.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// partsOf returns the names of the spans that belong to another one, with those that belong to them.
func (r *receiver) partsOf(whole *otlp.Span) (names []string) {
	for _, s := range r.spans {
		if string(s.ParentSpanId) == string(whole.SpanId) && string(s.TraceId) == string(whole.TraceId) {
			names = append(append(names, s.Name), r.partsOf(s)...)
		}
	}
	return names
}

func contextOf(traceID, spanID []byte) string {
	return hex.EncodeToString(traceID) + "-" + hex.EncodeToString(spanID)
}

func linkedWith(s *otlp.Span, other *otlp.Span) bool {
	return slices.ContainsFunc(s.Links, func(l *otlp.Span_Link) bool {
		return contextOf(l.TraceId, l.SpanId) == contextOf(other.TraceId, other.SpanId)
	})
}

// recorder passes requests on to a server, and records the trace contexts with which they came; "": without one.
type recorder struct {
	*httptest.Server
	mu       sync.Mutex
	contexts []string
}

func newRecorder(t *testing.T, server string) *recorder {
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	pass, r := httputil.NewSingleHostReverseProxy(to), &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		r.contexts = append(r.contexts, request.Header.Get("traceparent"))
		r.mu.Unlock()
		pass.ServeHTTP(w, request)
	}))
	t.Cleanup(r.Close)
	return r
}

// TestTraces_OfAJob: from one POST, the receiver gets the request with its statements, and the step of a visit that
// submitted the job, linked with that request, with its request to the platform. Only a platform for which that is
// configured gets it of the trace.
func TestTraces_OfAJob(t *testing.T) {
	t.Parallel()
	w, to := startWorld(t), newReceiver(t)
	openEO, ogc := newRecorder(t, w.OpenEOURL), newRecorder(t, w.OGCURL)
	seen := *w
	seen.OpenEOURL, seen.OGCURL = openEO.URL, ogc.URL
	// platforms are in the order of their addresses
	traced, without, variable := openEO, ogc, "EODISPATCH_PLATFORMS_0_TRACEPARENT=true"
	if ogc.URL < openEO.URL {
		traced, without = ogc, openEO
	}
	p := Start(t, append(deployed(&seen, asUser, asUser), "OTEL_EXPORTER_OTLP_ENDPOINT="+to.URL,
		"OTEL_EXPORTER_OTLP_HEADERS=x-api-key=a%20key", variable)...)
	c := SignIn(t, w, p.Address)
	runBoth(t, &seen, c)
	if code := p.Stop(t); code != exitDone {
		t.Fatalf("exit %d", code)
	}
	posts := to.named("POST /unit_jobs")
	if len(posts) != 2 {
		t.Fatalf("%d requests", len(posts))
	}
	for _, post := range posts {
		checkPost(t, to, post)
		if !strings.Contains(p.Log.String(), `"trace_id":"`+hex.EncodeToString(post.TraceId)) {
			t.Error("the log does not name the trace")
		}
	}
	checkParents(t, to)
	checkContexts(t, to, traced, without)
	for _, head := range to.heads {
		if head.Get("X-Api-Key") != "a key" {
			t.Errorf("headers %v", head)
		}
	}
	checkNoSecrets(t, w, c, strings.Join(to.texts, "\n"))
	if strings.Contains(p.Log.String(), "a key") {
		t.Error("a secret is in the log")
	}
}

// checkPost checks what belongs to the request that submitted a job.
func checkPost(t *testing.T, to *receiver, post *otlp.Span) {
	t.Helper()
	if post.Kind != otlp.Span_SPAN_KIND_SERVER || len(post.ParentSpanId) > 0 {
		t.Errorf("%v", post)
	}
	parts := to.partsOf(post)
	for _, want := range []string{"Accept", "INSERT jobs", "INSERT accounts"} {
		if !slices.Contains(parts, want) {
			t.Errorf("the request has no %s: %v", want, parts)
		}
	}
	creates := 0
	for _, s := range to.spans {
		if !linkedWith(s, post) || !strings.HasPrefix(s.Name, "create ") {
			continue
		}
		creates++
		if !slices.ContainsFunc(to.spans, func(visit *otlp.Span) bool {
			return strings.HasPrefix(visit.Name, "visit ") && len(visit.ParentSpanId) == 0 &&
				bytes.Equal(visit.SpanId, s.ParentSpanId)
		}) {
			t.Errorf("the step belongs to no visit: %v", s)
		}
		if parts := to.partsOf(s); !slices.ContainsFunc(parts, func(name string) bool {
			return strings.HasPrefix(name, "openeo.") || strings.HasPrefix(name, "ogcapi.")
		}) {
			t.Errorf("the step has no request: %v", parts)
		}
	}
	if creates != 1 {
		t.Errorf("%d submissions are linked with the request", creates)
	}
}

// checkParents checks that every span belongs to one that arrived.
func checkParents(t *testing.T, to *receiver) {
	t.Helper()
	known := map[string]bool{}
	for _, s := range to.spans {
		known[contextOf(s.TraceId, s.SpanId)] = true
	}
	for _, s := range to.spans {
		if len(s.ParentSpanId) > 0 && !known[contextOf(s.TraceId, s.ParentSpanId)] {
			t.Errorf("%s belongs to a span that did not arrive", s.Name)
		}
	}
}

// checkTold checks that one platform was sent the contexts of spans that arrived, and the other none.
func checkContexts(t *testing.T, to *receiver, traced, without *recorder) {
	t.Helper()
	known := map[string]bool{}
	for _, s := range to.spans {
		known["00-"+contextOf(s.TraceId, s.SpanId)+"-01"] = true
	}
	if !slices.ContainsFunc(traced.contexts, func(c string) bool { return known[c] }) {
		t.Errorf("the platform was sent %q", traced.contexts)
	}
	if slices.ContainsFunc(traced.contexts, func(c string) bool { return c != "" && !known[c] }) {
		t.Errorf("the platform was sent contexts of no span: %q", traced.contexts)
	}
	if slices.ContainsFunc(without.contexts, func(c string) bool { return c != "" }) {
		t.Errorf("the other platform was sent %q", without.contexts)
	}
}

// checkNoSecrets checks that spans name no token, no secret, no user and no parameter.
func checkNoSecrets(t *testing.T, w *simulator.World, c Client, spans string) {
	t.Helper()
	for _, secret := range []string{c.Token, w.Credentials.BrokerSecret, w.Credentials.ServiceSecret,
		w.Credentials.Password, "Bearer", w.Credentials.User, "realms", "5.05", "?"} {
		if strings.Contains(spans, secret) {
			t.Errorf("%q is in the spans", secret)
		}
	}
}

// TestDoctor_AsksTheReceiverOfTraces: whether it takes traces, by the same request as with some.
func TestDoctor_AsksTheReceiverOfTraces(t *testing.T) {
	t.Parallel()
	w, to := startWorld(t), newReceiver(t)
	for endpoint, want := range map[string]string{to.URL: "ok      receiver of traces " + to.URL + "/v1/traces",
		to.URL + "/elsewhere": "FAIL    receiver of traces " + to.URL + "/elsewhere"} {
		_, printed := try(t, []string{"EODISPATCH_TRACES_ENDPOINT=" + endpoint}, "doctor", "--config",
			configuration(t, w))
		if !strings.Contains(printed, want) {
			t.Errorf("%s is not in:\n%s", want, printed)
		}
	}
}
