package performance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const (
	values   = 1000
	answered = 50 * time.Millisecond // response time of the platform
)

// BenchmarkPerformanceOfDispatch measures the time until all jobs of a task of 1,000 values have started at a platform
// that limits neither jobs nor rate and responds after 50 ms, and compares it with the time of the requests alone.
func BenchmarkPerformanceOfDispatch(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table,
		"1,000 values at 50 ms\tbound\tall started\tratio, aim 1.15\tratio without the broker\tsubmissions per "+
			"job\tother requests\tstatus reads\t/health p50, p99, aim 50 ms")
	for _, set := range []struct {
		name     string
		replicas int
		database func() string
	}{
		{"SQLite", 1, func() string { return "" }},
		{"PostgreSQL", 1, func() string { return "EODISPATCH_DATABASE=" + postgres.Database(b) }},
		{"PostgreSQL, 3 replicas", 3, func() string { return "EODISPATCH_DATABASE=" + postgres.Database(b) }},
	} {
		for _, label := range []dispatch.Label{dispatch.OpenEO, dispatch.OGCProcess} {
			for _, requests := range []int{8, 32} {
				r := newRace(b, w, label, requests, set.replicas, set.database())
				fmt.Fprintf(table, "%s, %s, requests: %d\t%s\n", set.name, label, requests, r.run(b))
				r.stop(b)
			}
		}
	}
	fmt.Fprintln(table, "\nfrom POST to the platform's first request, 200 jobs\tp50\tp99")
	for _, set := range []struct {
		name     string
		replicas int
		database string
	}{
		{"SQLite", 1, ""}, {"PostgreSQL", 1, "EODISPATCH_DATABASE=" + postgres.Database(b)},
		{"PostgreSQL, 3 replicas", 3, "EODISPATCH_DATABASE=" + postgres.Database(b)},
	} {
		r := newRace(b, w, dispatch.OpenEO, 8, set.replicas, set.database)
		p50, p99 := r.wakes(b, 200)
		fmt.Fprintf(table, "%s\t%v\t%v\n", set.name, p50, p99)
		r.stop(b)
	}
}

// race measures the dispatch of one task.
type race struct {
	platform http.Handler
	oracle   *simulator.Oracle
	faults   *simulator.Faults
	label    dispatch.Label
	requests int
	programs []*executable.Program
	client   fast
	url      string

	mu      sync.Mutex
	started int
	asked   chan time.Time // time of each job's first request
	over    chan time.Time // time when all jobs have started
}

func newRace(b *testing.B, w *simulator.World, label dispatch.Label, requests, replicas int, database string) *race {
	r, protocol := newRaceAt(b, label, requests)
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "p", "protocol": protocol, "endpoint": r.url, "access": "open",
			"limits": map[string]any{"jobs": 1_000_000,
				"requests": requests}},
	})
	environ := append(benchmarked(w), "EODISPATCH_PLATFORMS="+string(platforms))
	if database != "" {
		environ = append(environ, database)
	}
	for range replicas {
		r.programs = append(r.programs, program.Start(b, environ...))
	}
	r.client = fast{program.SignIn(b, w, r.programs[0].Address)}
	return r
}

// newRaceAt returns a race without a program, and the protocol of its platform.
func newRaceAt(b *testing.B, label dispatch.Label, requests int) (r *race, protocol string) {
	r = &race{label: label, requests: requests, asked: make(chan time.Time, values), over: make(chan time.Time, 1)}
	long := simulator.Life{Run: 10 * time.Minute}
	if label == dispatch.OGCProcess {
		p := &simulator.OGC{Life: long}
		r.platform, r.oracle, r.faults, protocol = p, &p.Oracle, &p.Faults, "ogc-api-processes"
	} else {
		p := &simulator.OpenEO{Open: true, Life: long}
		r.platform, r.oracle, r.faults, protocol = p, &p.Oracle, &p.Faults, "openeo"
	}
	server := httptest.NewServer(r)
	b.Cleanup(server.Close)
	r.url = server.URL
	return r, protocol
}

// ServeHTTP serves the platform, and records when jobs are submitted and started.
func (r *race) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	submits := request.Method == http.MethodPost && (strings.HasSuffix(request.URL.Path, "/jobs") ||
		strings.HasSuffix(request.URL.Path, "/execution"))
	starts := request.Method == http.MethodPost && !strings.HasSuffix(request.URL.Path, "/jobs")
	if submits {
		select {
		case r.asked <- time.Now():
		default:
		}
	}
	r.platform.ServeHTTP(w, request)
	if !starts {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started++; r.started == values {
		r.over <- time.Now()
	}
}

// job returns the request of every job of a race.
func (r *race) job() map[string]any {
	application, parameters := "ndvi_composite", map[string]any{"temporal_extent": []string{"2026-05-01", "2026-06-01"}}
	if r.label == dispatch.OGCProcess {
		application, parameters = program.NDVI, map[string]any{}
	}
	return map[string]any{"title": "race", "label": r.label, "format": "json", "parameters": parameters,
		"service": map[string]any{"endpoint": r.url, "application": application}}
}

func (r *race) dimension() (name string, value json.RawMessage) {
	if r.label == dispatch.OGCProcess {
		return "bbox", json.RawMessage(program.Box)
	}
	return "spatial_extent", json.RawMessage(program.Area)
}

// run submits the task, waits until all its jobs have started, and returns a row of the table.
func (r *race) run(b *testing.B) string {
	r.faults.Set(simulator.Fault{Latency: answered})
	bare := r.bare(b)
	name, value := r.dimension()
	task := r.job()
	task["dimension"] = map[string]any{"name": name, "values": slices.Repeat([]json.RawMessage{value}, values)}
	body, _ := json.Marshal(task) // cannot fail: only strings and numbers
	r.client.must(b, http.MethodPost, "/upscale_tasks", body, nil)
	begin := time.Now()
	health := r.watchHealth(b)
	var took time.Duration
	select {
	case at := <-r.over:
		took = at.Sub(begin)
	case <-time.After(5 * time.Minute):
		b.Fatalf("%d of %d jobs started within five minutes", r.started, values)
	}
	p50, p99 := health()
	steps := 2
	if r.label == dispatch.OGCProcess {
		steps = 1
	}
	submits, reads, others := r.routes()
	// Status reads take up request slots too, so the bound includes them.
	bound := time.Duration(steps*values+reads) * answered / time.Duration(r.requests)
	return fmt.Sprintf("%v\t%v\t%.3f\t%.3f\t%.3f\t%s\t%d\t%v, %v", bound, took.Round(time.Millisecond),
		float64(took)/float64(bound),
		bare, float64(submits)/values, others, reads, p50.Round(100*time.Microsecond), p99.Round(100*time.Microsecond))
}

// bare returns the ratio of the measured to the theoretical time of requests that a client without a database sends
// concurrently: the overhead of the platform and the machine.
func (r *race) bare(b *testing.B) (ratio float64) {
	const rounds = 20
	address := r.url + "/conformance"
	if r.label == dispatch.OpenEO {
		address = r.url + "/openeo/1.2/conformance"
	}
	begin := time.Now()
	var all sync.WaitGroup
	for range r.requests {
		all.Go(func() {
			for range rounds {
				request, err := http.NewRequest(http.MethodGet, address, nil)
				if err != nil {
					b.Error(err)
					return
				}
				request.Header.Set("Accept", "application/json")
				must(b, request, nil)
			}
		})
	}
	all.Wait()
	return float64(time.Since(begin)) / float64(rounds*answered)
}

// routes counts the requests that submit jobs and those that read statuses, and lists all others.
func (r *race) routes() (submits, reads int, others string) {
	var rest []string
	for route, n := range r.oracle.Tally().Routes {
		switch {
		case strings.HasPrefix(route, "POST "):
			submits += n
		case route == "GET /conformance": // sent by bare
		case strings.HasPrefix(route, "GET /jobs"):
			reads += n
		default:
			rest = append(rest, fmt.Sprintf("%s ×%d", route, n))
		}
	}
	slices.Sort(rest)
	return submits, reads, strings.Join(rest, ", ")
}

// watchHealth requests /health every 10 ms until stop is called. stop returns quantiles of the response times.
func (r *race) watchHealth(b *testing.B) (stop func() (p50, p99 time.Duration)) {
	var times []time.Duration
	done, ended := make(chan struct{}), make(chan struct{})
	again := time.NewTicker(10 * time.Millisecond)
	go func() {
		defer close(ended)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				begin := time.Now()
				r.client.must(b, http.MethodGet, "/health", nil, nil)
				times = append(times, time.Since(begin))
			case <-done:
				return
			}
		}
	}()
	return func() (p50, p99 time.Duration) {
		close(done)
		<-ended
		return quantiles(times)
	}
}

func quantiles(times []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(times)
	return times[len(times)/2], times[len(times)*99/100]
}

// wakes posts n single jobs to an idle broker, and returns quantiles of the time until the platform receives them.
func (r *race) wakes(b *testing.B, n int) (p50, p99 time.Duration) {
	name, value := r.dimension()
	job := r.job()
	job["parameters"].(map[string]any)[name] = value
	body, _ := json.Marshal(job) // cannot fail: only strings and numbers
	var times []time.Duration
	for range n {
		begin := time.Now()
		r.client.mustPost(b, body, nil)
		times = append(times, (<-r.asked).Sub(begin))
	}
	p50, p99 = quantiles(times)
	return p50.Round(100 * time.Microsecond), p99.Round(100 * time.Microsecond)
}

func (r *race) stop(b *testing.B) {
	for _, p := range r.programs {
		p.Stop(b)
	}
}
