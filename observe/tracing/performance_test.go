package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// BenchmarkPerformanceOfAJob measures what traces cost of a job's life: the request that accepts it, its visit with
// four steps of one request each, thirty statements, and ten requests of its user. Off, they cost what a comparison
// does.
func BenchmarkPerformanceOfAJob(b *testing.B) {
	on, err := Start(b.Context(), Config{Endpoint: "http://receiver.test/", Transport: &receiver{},
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer on.Stop()
	request := httptest.NewRequest("POST", "/unit_jobs", nil)
	for name, traces := range map[string]*Tracing{"off": nil, "on": on} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lifeOfAJob(b.Context(), request, traces)
			}
		})
	}
}

var answer = http.Response{StatusCode: http.StatusOK}

func lifeOfAJob(ctx context.Context, request *http.Request, traces *Tracing) {
	statements, outgoing := traces.Statements("sqlite"), traces.Outgoing(func(*url.URL) bool { return false })
	statement := func(ctx context.Context) {
		if statements != nil {
			_, end := statements(ctx, "Save")
			end(nil)
		}
	}
	for range 11 {
		ctx, end := traces.Request(request)
		statement(ctx)
		end("/unit_jobs", 200)
	}
	jobs := []dispatch.Job{{Identity: dispatch.Identity{ID: 1,
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}}
	visit := traces.Visits(func(ctx context.Context, _ dispatch.Lease) error {
		for range 4 {
			step, end := traces.Step(ctx, "p", "status", jobs)
			for range 5 {
				statement(step)
			}
			if outgoing != nil {
				_, ended := outgoing(step, "openeo.status", request)
				ended(&answer, nil)
			}
			end(nil)
		}
		return nil
	})
	_ = visit(ctx, dispatch.Lease{Account: "p/open"}) // never an error
}
