package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// taskBroker is a broker with its engine at the simulated platforms, without the HTTP interface.
type taskBroker struct {
	*broker.Broker
	*simulator.World
}

// An area and a time span, as parameters of the demonstration's services.
const (
	demoArea = `{"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25}`
	demoBox  = `{"bbox": [5.05, 51.2, 5.15, 51.25]}`
	demoSpan = `["2024-06-01", "2024-07-01"]`
)

const upscaler = dispatch.UserID("https://idp.example ann")

// newTaskBroker returns a broker whose only platform is the world's platform of that protocol, open to everybody.
func newTaskBroker(t *testing.T, p config.Protocol, life simulator.Life, limits string) taskBroker {
	t.Helper()
	w, err := simulator.Start(simulator.Options{Open: true, Life: life})
	if err != nil {
		t.Fatal(err)
	}
	endpoint := w.OpenEOURL
	if p == config.OGCProcess {
		endpoint = w.OGCURL
	}
	settings := &config.Config{Development: true,
		Platforms: []config.Platform{{Name: "p", Protocol: p, Endpoint: endpoint, Access: dispatch.AccessOpen,
			Limits: config.PlatformLimits{Requests: 8, MinPoll: 50 * time.Millisecond, Send: time.Minute}}}}
	if limits != "" {
		if _, err := fmt.Sscanf(limits, "jobs: %d", &settings.Platforms[0].Limits.Jobs); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := store.Open(t.Context(), "sqlite::memory:", wallClock{})
	if err != nil {
		t.Fatal(err)
	}
	b := conformance.NewBroker(kept, bearers{}, platforms(settings, nil)...)
	stop := conformance.RunBroker(b)
	t.Cleanup(func() { stop(); kept.Close(); w.Close() })
	return taskBroker{b, w}
}

// accept submits a task of n jobs.
func (w taskBroker) accept(t *testing.T, p config.Protocol, n int) dispatch.TaskID {
	t.Helper()
	r := dispatch.Request{Title: "tiles", Label: p.Label(), Format: "json",
		Parameters: json.RawMessage(`{"temporal_extent": ` + demoSpan + `}`),
		Service:    dispatch.Service{Endpoint: w.OpenEOURL, Application: "ndvi_composite"}}
	d := dispatch.Dimension{Name: "spatial_extent"}
	if p == config.OGCProcess {
		r.Service = dispatch.Service{Endpoint: w.OGCURL, Application: "ndvi"}
		r.Parameters, d.Name = json.RawMessage(`{}`), "bbox"
	}
	for i := range n {
		west := 5 + float64(i)/100
		box := fmt.Sprintf(`{"west": %.2f, "south": 51.2, "east": %.2f, "north": 51.25}`, west, west+.01)
		if p == config.OGCProcess {
			box = fmt.Sprintf(`{"bbox": [%.2f, 51.2, %.2f, 51.25]}`, west, west+.01)
		}
		d.Values = append(d.Values, json.RawMessage(box))
	}
	if p == config.OpenEO {
		r.Service.Application = documented(t)
	}
	task, err := w.AcceptTask(t.Context(), upscaler, r, d, dispatch.Key{})
	if err != nil {
		t.Fatal(err)
	}
	return task.ID
}

// documented serves the demonstration's process and returns its URL.
func documented(t *testing.T) string {
	t.Helper()
	s := &demoServers{}
	if err := s.serveDocuments(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.server.Close() })
	return s.documents + "/ndvi_composite.json"
}

// drainedWithin is the time limit of a task, for busy machines.
const drainedWithin = 6 * time.Minute

// drained reads a task like a client until all its jobs have ended.
func (w taskBroker) drained(t *testing.T, id dispatch.TaskID, within time.Duration) []dispatch.Record {
	t.Helper()
	for end := time.Now().Add(within); ; {
		task, jobs, err := conformance.Task(t.Context(), w.Broker, upscaler, id, 100*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if task.Counts.Status().Final() {
			return jobs
		}
		if time.Now().After(end) {
			t.Fatalf("after %v: %v, the first is %+v", within, task.Counts, jobs[0].Job)
		}
	}
}

// A platform runs ten jobs at once, answers twenty requests a second, and also refuses some others. The broker is not
// configured for that, and no job fails.
func TestLimits_AreLearned(t *testing.T) {
	t.Parallel()
	for p, route := range map[config.Protocol]string{config.OpenEO: "POST /jobs/{id}/results",
		config.OGCProcess: "POST /processes/{id}/execution"} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			const values = 50
			w := newTaskBroker(t, p, simulator.Life{Run: 300 * time.Millisecond, Slots: 10}, "")
			faults, oracle := &w.OpenEO.Faults, &w.OpenEO.Oracle
			if p == config.OGCProcess {
				faults, oracle = &w.OGC.Faults, &w.OGC.Oracle
			}
			busy := simulator.Fault{Status: 429, Code: "TooManyRequests", Message: "Slow down.",
				RetryAfter: time.Second}
			quick, always := busy, busy
			quick.Beyond = 20 // a slow machine never sends this many
			always.Route, always.Skip, always.Times = route, 5, 3
			faults.Set(quick, always)
			began := time.Now()
			for _, j := range w.drained(t, w.accept(t, p, values), drainedWithin) {
				if j.Status != dispatch.Finished {
					t.Errorf("job %d is %s: %s", j.Number, j.Status, j.Failure)
				}
			}
			if n := oracle.Requests(route); n <= values {
				t.Errorf("%d requests started %d jobs: nothing was turned away", n, values)
			}
			if sum := oracle.Sum(); sum.Runs != values || sum.Creates != values {
				t.Errorf("%+v", sum)
			}
			t.Logf("drained in %v with %d starting requests", time.Since(began), oracle.Requests(route))
		})
	}
}

// A configured limit is never exceeded.
func TestLimits_JobsAreExact(t *testing.T) {
	t.Parallel()
	for _, p := range []config.Protocol{config.OpenEO, config.OGCProcess} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			w := newTaskBroker(t, p, simulator.Life{Run: 200 * time.Millisecond, Slots: 4}, "jobs: 4")
			oracle, route := &w.OpenEO.Oracle, "POST /jobs/{id}/results"
			if p == config.OGCProcess {
				oracle, route = &w.OGC.Oracle, "POST /processes/{id}/execution"
			}
			for _, j := range w.drained(t, w.accept(t, p, 20), drainedWithin) {
				if j.Status != dispatch.Finished {
					t.Errorf("job %d is %s: %s", j.Number, j.Status, j.Failure)
				}
			}
			if n := oracle.Requests(route); n != 20 { // a refusal would add a request
				t.Errorf("%d requests started 20 jobs", n)
			}
		})
	}
}

// A failure that a platform reports once and then reverts is not believed.
func TestStatus_FailureIsReadTwice(t *testing.T) {
	t.Parallel()
	w := newTaskBroker(t, config.OpenEO, simulator.Life{Run: 100 * time.Millisecond}, "jobs: 4")
	const status = "GET /jobs/{id}"
	w.OpenEO.Faults.Set(simulator.Fault{Route: status, Times: 1,
		Body: `{"id":"j","status":"error","created":"2026-05-01T00:00:00Z"}`})
	for _, j := range w.drained(t, w.accept(t, config.OpenEO, 1), drainedWithin) {
		if j.Status != dispatch.Finished {
			t.Errorf("job %d is %s: %s", j.Number, j.Status, j.Failure)
		}
	}
	if n := w.OpenEO.Oracle.Requests(status); n < 2 {
		t.Errorf("the status was read %d times: the error was not seen", n)
	}
}

// TestStatus_ShowsNoTags reads what platforms say about jobs that they know by a title with a tag.
func TestStatus_ShowsNoTags(t *testing.T) {
	for _, p := range []config.Protocol{config.OpenEO, config.OGCProcess} {
		w := newTaskBroker(t, p, simulator.Life{Run: 100 * time.Millisecond}, "")
		jobs := w.drained(t, w.accept(t, p, 1), drainedWithin)
		results, err := w.Results(t.Context(), upscaler, jobs[0].ID)
		if err != nil || !json.Valid(results) || strings.Contains(string(results), "[w.") {
			t.Errorf("%s: results %s, %v", p, results, err)
		}
		logs, err := w.Logs(t.Context(), upscaler, jobs[0].ID)
		if err != nil && !dispatch.Is(err, dispatch.Unsupported) || strings.Contains(fmt.Sprint(logs), "[w.") {
			t.Errorf("%s: logs %v, %v", p, logs, err)
		}
	}
}
