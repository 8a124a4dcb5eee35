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

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const (
	slotJobs    = 100
	slots       = 10
	slotRun     = 2 * time.Second
	slotLatency = 20 * time.Millisecond
)

// BenchmarkPerformanceOfSlots measures how long 100 jobs of 2 s each take at a platform that has ten slots and responds
// after 20 ms, until the last job has ended there, and how many requests the platform gets until then. The bound is ten
// rounds of one job, with three requests each.
func BenchmarkPerformanceOfSlots(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "100 jobs of 2 s, ten slots, 20 ms\tbound\tall ended\tratio, aim 1.2\trequests, aim 400\tof "+
		"them")
	for _, set := range []struct {
		name, minPoll string
		watched       bool
		database      func() string
	}{
		{"SQLite", "2s", false, func() string { return "" }},
		{"SQLite, a client reads the task each second", "2s", true, func() string { return "" }},
		{"SQLite, min_poll: 250ms", "250ms", false, func() string { return "" }},
		{"PostgreSQL", "2s", false, func() string { return "EODISPATCH_DATABASE=" + postgres.Database(b) }},
	} {
		s := &slotPlatform{OpenEO: &simulator.OpenEO{Open: true, Life: simulator.Life{Run: slotRun}},
			all: make(chan time.Time, 1)}
		fmt.Fprintf(table, "%s\t%s\n", set.name, s.run(b, w, set.minPoll, set.watched, set.database()))
	}
}

// slotPlatform records when the last job was started.
type slotPlatform struct {
	*simulator.OpenEO

	mu      sync.Mutex
	started int
	all     chan time.Time
}

// ServeHTTP serves the platform.
func (s *slotPlatform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.OpenEO.ServeHTTP(w, r)
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/results") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started++; s.started == slotJobs {
		s.all <- time.Now()
	}
}

// run submits the task, waits until its jobs have ended, and returns a row of the table.
func (s *slotPlatform) run(b *testing.B, w *simulator.World, minPoll string, watched bool, database string) string {
	server := httptest.NewServer(s)
	defer server.Close()
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "p", "protocol": "openeo", "endpoint": server.URL, "access": "open",
			"limits": map[string]any{"jobs": slots,
				"min_poll": minPoll}},
	})
	environ := append(benchmarked(w), "EODISPATCH_PLATFORMS="+string(platforms))
	if database != "" {
		environ = append(environ, database)
	}
	p := program.Start(b, environ...)
	defer p.Stop(b)
	c := fast{program.SignIn(b, w, p.Address)}
	s.Faults.Set(simulator.Fault{Latency: slotLatency})
	r := race{label: "openeo", url: server.URL}
	task := r.job()
	name, value := r.dimension()
	task["dimension"] = map[string]any{"name": name, "values": slices.Repeat([]json.RawMessage{value}, slotJobs)}
	body, _ := json.Marshal(task) // cannot fail: only strings and numbers
	begin := time.Now()
	var stored struct {
		ID int64 `json:"id"`
	}
	c.must(b, http.MethodPost, "/upscale_tasks", body, &stored)
	read := time.NewTicker(time.Second)
	defer read.Stop()
	for {
		select {
		case last := <-s.all:
			took := last.Add(slotRun).Sub(begin)
			bound := slotJobs / slots * (slotRun + 3*slotLatency)
			n, routes := s.requests()
			return fmt.Sprintf("%v\t%v\t%.2f\t%d\t%s", bound, took.Round(10*time.Millisecond),
				float64(took)/float64(bound), n, routes)
		case <-read.C:
			if watched {
				c.must(b, http.MethodGet, fmt.Sprintf("/upscale_tasks/%d", stored.ID), nil, nil)
			}
		case <-time.After(5 * time.Minute):
			b.Fatal("the jobs were not all started within five minutes of the last read")
		}
	}
}

// requests counts the requests that the platform got, all and by route.
func (s *slotPlatform) requests() (n int, routes string) {
	var all []string
	for route, times := range s.Oracle.Tally().Routes {
		n += times
		all = append(all, fmt.Sprintf("%s ×%d", route, times))
	}
	slices.Sort(all)
	return n, strings.Join(all, ", ")
}
