package tracing

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/eodispatch/eodispatch/dispatch"
)

// receiver answers with the statuses in turn, and then with 200. Status 0: it does not answer.
type receiver struct {
	mu       sync.Mutex
	statuses []int
	times    int
	spans    []*otlp.Span
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.times++
	status := http.StatusOK
	if len(r.statuses) > 0 {
		status, r.statuses = r.statuses[0], r.statuses[1:]
	}
	r.mu.Unlock()
	if status == 0 {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	var data otlp.TracesData
	if err := proto.Unmarshal(body, &data); err != nil || status != http.StatusOK {
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: http.NoBody}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range data.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	return &http.Response{StatusCode: status, Body: http.NoBody}, nil
}

// recording returns what records for a receiver, and its log.
func recording(t *testing.T, c Config, r *receiver) (*Tracing, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	c.Endpoint, c.Transport, c.Log = "http://receiver.test/v1/traces", r, slog.New(slog.NewTextHandler(log, nil))
	traces, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traces.Stop)
	return traces, log
}

func (r *receiver) named(t *testing.T, name string) *otlp.Span {
	t.Helper()
	for _, s := range r.spans {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no span %s", name)
	return nil
}

const ofClient = "4bf92f3577b34da6a3ce929d0e0e4736"

// A client's trace is continued where that is configured: otherwise a client could choose what is recorded, and under
// which id.
func TestRequest_ContinuesTracesWhereConfigured(t *testing.T) {
	for _, incoming := range []bool{false, true} {
		r := &receiver{}
		traces, _ := recording(t, Config{Incoming: incoming}, r)
		request := httptest.NewRequest("BREW", "/unit_jobs?token=secret", nil)
		request.Header.Set("traceparent", "00-"+ofClient+"-00f067aa0ba902b7-01")
		_, end := traces.Request(request)
		end("/unit_jobs", 500)
		traces.Stop()
		s := r.named(t, "HTTP /unit_jobs")
		if is := hex.EncodeToString(s.TraceId) == ofClient; is != incoming {
			t.Errorf("incoming %v: %v", incoming, s)
		}
		if s.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || strings.Contains(s.String(), "secret") {
			t.Errorf("%v", s)
		}
	}
}

// A WebSocket lasts for days, so nothing of it is recorded.
func TestRequest_OfAWebSocketIsNotRecorded(t *testing.T) {
	r := &receiver{}
	traces, _ := recording(t, Config{}, r)
	request := httptest.NewRequest("GET", "/job_status", nil)
	request.Header.Set("Upgrade", "websocket")
	ctx, end := traces.Request(request)
	_, done := traces.Statements("sqlite")(ctx, "Read")
	done(nil)
	end("/job_status", 101)
	traces.Stop()
	if len(r.spans) > 0 {
		t.Errorf("%v", r.spans)
	}
}

// The steps of a visit are linked with the requests that accepted their jobs, each once, and never with more than a
// span can hold. Of an error a span has the kind: texts may be those of a platform or of a user.
func TestSteps_AreLinkedWithTheRequestsOfTheirJobs(t *testing.T) {
	r := &receiver{}
	traces, _ := recording(t, Config{}, r)
	jobs := []dispatch.Job{{Identity: dispatch.Identity{ID: 1}}, {Identity: dispatch.Identity{ID: 2,
		Traceparent: "garbage"}}}
	for i := range 300 {
		jobs = append(jobs, dispatch.Job{Identity: dispatch.Identity{ID: dispatch.JobID(i),
			Traceparent: fmt.Sprintf("00-%032x-00f067aa0ba902b7-01", i/2+1)}})
	}
	visit := traces.Visits(func(ctx context.Context, _ dispatch.Lease) error {
		for range 2 {
			_, end := traces.Step(ctx, "p", "list", jobs)
			end(&dispatch.Error{Kind: dispatch.Unavailable, Text: "secret"})
		}
		_, end := traces.Step(ctx, "p", "status", jobs[len(jobs)-1:])
		end(nil)
		return errors.New("secret")
	})
	if err := visit(t.Context(), dispatch.Lease{Account: "p/https://idp.example ann"}); err == nil {
		t.Error("the error of the visit is lost")
	}
	traces.Stop()
	whole, list, status := r.named(t, "visit p"), r.named(t, "list p"), r.named(t, "status p")
	if len(list.Links) != mostLinks || len(status.Links) != 1 {
		t.Errorf("%d and %d links", len(list.Links), len(status.Links))
	}
	if !bytes.Equal(list.ParentSpanId, whole.SpanId) || len(whole.ParentSpanId) > 0 {
		t.Errorf("%v\n%v", whole, list)
	}
	if list.Status.Message != dispatch.Unavailable.String() {
		t.Errorf("%v", list.Status)
	}
	for _, s := range r.spans {
		if strings.Contains(s.String(), "secret") || strings.Contains(s.String(), "ann") {
			t.Errorf("%v", s)
		}
	}
}

func TestVisits_RecordPanics(t *testing.T) {
	r := &receiver{}
	traces, _ := recording(t, Config{}, r)
	func() {
		defer func() { _ = recover() }()
		_ = traces.Visits(func(context.Context, dispatch.Lease) error { panic("adapter") })(t.Context(),
			dispatch.Lease{Account: "p/open"})
	}()
	traces.Stop()
	if s := r.named(t, "visit p"); s.Status.GetMessage() != "panic" {
		t.Errorf("%v", s)
	}
}

// What belongs to nothing that is recorded is not recorded itself: the background work of a broker would fill the
// receiver.
func TestParts_OfNothingAreNotRecorded(t *testing.T) {
	r := &receiver{}
	traces, _ := recording(t, Config{}, r)
	_, end := traces.Statements("sqlite")(t.Context(), "Dequeue")
	end(nil)
	request := httptest.NewRequest("GET", "https://platform.example/", nil)
	_, ended := traces.Outgoing(nil)(t.Context(), "openeo.status", request)
	ended(nil, errors.New("no"))
	traces.Stop()
	if len(r.spans) > 0 || request.Header.Get("traceparent") != "" {
		t.Errorf("%v %v", r.spans, request.Header)
	}
}

// TestOff_CostsNothing: without a receiver nothing is wrapped, and nothing is allocated.
func TestOff_CostsNothing(t *testing.T) {
	off, err := Start(t.Context(), Config{})
	if err != nil || off != nil {
		t.Fatalf("%v, %v", off, err)
	}
	handler := slog.NewTextHandler(io.Discard, nil)
	if off.Statements("sqlite") != nil || off.Outgoing(nil) != nil || off.LogHandler(handler) != slog.Handler(handler) {
		t.Error("something is wrapped")
	}
	ctx, request, jobs := t.Context(), httptest.NewRequest("GET", "/unit_jobs", nil), []dispatch.Job{{
		Identity: dispatch.Identity{ID: 1}}}
	if n := testing.AllocsPerRun(100, func() {
		_, end := off.Request(request)
		end("/unit_jobs", 200)
		_, ended := off.Step(ctx, "p", "create", jobs)
		ended(nil)
		_ = off.Traceparent(ctx)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	off.Stop()
}

// A receiver that restarts loses no spans. One that refuses them is not asked again.
func TestSend_RepeatsWhatAReceiverMayTakeLater(t *testing.T) {
	for _, row := range []struct {
		statuses     []int
		times, spans int
		log          string
	}{
		{[]int{503, 429}, 3, 1, ""},
		{[]int{400}, 1, 0, "the receiver answers Bad Request"},
		{[]int{301}, 1, 0, "the receiver answers Moved Permanently"},
		{[]int{502, 502, 502, 502, 502}, sendings, 0, "the receiver answers Bad Gateway"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &receiver{statuses: row.statuses}
			traces, log := recording(t, Config{}, r)
			_, end := traces.Request(httptest.NewRequest("GET", "/", nil))
			end("/", 200)
			time.Sleep(time.Minute)
			traces.Stop()
			if r.times != row.times || len(r.spans) != row.spans || !strings.Contains(log.String(), row.log) ||
				(row.log == "") != (log.Len() == 0) {
				t.Errorf("%v: sent %d times, %d spans: %s", row.statuses, r.times, len(r.spans), log)
			}
		})
	}
}

// A receiver that does not answer delays the end of the process by two seconds at most, fills no memory, and is
// complained of once in a while.
func TestReceiver_ThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{statuses: make([]int, 10_000)}
		traces, log := recording(t, Config{}, r)
		for begun := time.Now(); time.Since(begun) < 10*time.Minute; time.Sleep(time.Second) {
			for range 100 {
				_, end := traces.Request(httptest.NewRequest("GET", "/", nil))
				end("/", 200)
			}
		}
		if n := strings.Count(log.String(), "\n"); n < 5 || n > 10 {
			t.Errorf("%d lines:\n%s", n, log)
		}
		begun := time.Now()
		traces.Stop()
		if took := time.Since(begun); took > lastSpans {
			t.Errorf("the end took %v", took)
		}
		time.Sleep(10 * time.Minute) // the process would have ended; here the last requests do
	})
}
