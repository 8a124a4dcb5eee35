package telemetry

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// BenchmarkPerformanceOfAJob measures what the metrics cost of a job's life: its acceptance, a token, a visit, its
// requests to the platform, its changes, and ten requests of its user.
func BenchmarkPerformanceOfAJob(b *testing.B) {
	seen := New("1", "")
	visit := seen.Visits(func(context.Context, dispatch.Lease) error { return nil })
	steps := []dispatch.Job{{Target: dispatch.Target{Account: "p/shared"},
		Handover: dispatch.Handover{Phase: dispatch.Waiting}}, {Target: dispatch.Target{Account: "p/shared"},
		Handover: dispatch.Handover{Phase: dispatch.Creating}}, {Target: dispatch.Target{Account: "p/shared"},
		Handover: dispatch.Handover{Phase: dispatch.Started}},
		{Target: dispatch.Target{Account: "p/shared"}, Handover: dispatch.Handover{Phase: dispatch.Ended},
			Condition: dispatch.Condition{Status: dispatch.Finished}}}
	b.ReportAllocs()
	for b.Loop() {
		seen.JobsAccepted("p", 1)
		seen.TokenRequested("p", nil)
		_ = visit(b.Context(), dispatch.Lease{}) // never an error
		for i := range steps[1:] {
			seen.RequestEnded("p", "status", time.Second, nil)
			seen.JobSaved(steps[i], steps[i+1])
		}
		for range 10 {
			seen.RequestServed("/unit_jobs/{id}", "GET", 200, time.Millisecond)
		}
	}
}

// BenchmarkPerformanceOfAScrape measures a scrape of a process that knows ten platforms and has served ten routes. What
// a scrape reads does not depend on the number of accounts and jobs, which are counted apart from it.
func BenchmarkPerformanceOfAScrape(b *testing.B) {
	seen := full()
	var counted []dispatch.PlatformStats
	var backends []*dispatch.Backend
	for i := range 10 {
		name := fmt.Sprint("platform-", i)
		seen.RequestEnded(name, "status", time.Second, nil)
		seen.RequestServed("/"+name, "GET", 200, time.Millisecond)
		counted = append(counted, dispatch.PlatformStats{Platform: name, Waiting: 100, Accounts: 100,
			Held:      map[dispatch.Status]int{dispatch.Running: 1, dispatch.Queued: 1},
			Attention: map[dispatch.Attention]int{dispatch.InDoubt: 1},
			Holds:     map[dispatch.Attention]int{dispatch.Full: 1}})
		backends = append(backends, &dispatch.Backend{Name: name, Limits: dispatch.Limits{Jobs: 4}})
	}
	seen.stats.keep(dispatch.Stats{Platforms: counted}, backends, time.Now(), time.Now().Add(time.Hour))
	h := seen.Handler()
	size := 0
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		size = w.Body.Len()
	}
	b.ReportMetric(float64(size), "bytes")
}
