// Package performance measures the real program: what docs/benchmarks.md shows.
package performance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/parameters"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

func TestMain(m *testing.M) {
	code := postgres.Run(m)
	executable.CleanUp()
	os.Exit(code)
}

// BenchmarkPerformance measures the real program with a simulated platform in the test process, and prints a table.
// Both share the cores of the machine, so the program alone is faster.
func BenchmarkPerformance(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "what\tmeasured\taim")
	row := func(what, measured, aim string) { fmt.Fprintf(table, "%s\t%s\t%s\n", what, measured, aim) }

	row("start to first /health, median of 9", startTime(b, w).Round(time.Millisecond/10).String(), "< 200 ms")
	p := program.Start(b, benchmarked(w)...)
	c := fast{program.SignIn(b, w, p.Address)}
	row("memory after the start; of it, pages of the program's file",
		memory(b, p, "VmRSS:")+"; "+memory(b, p, "RssFile:"), "< 40 MB")
	path, err := executable.Released()
	if err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	row("binary, with symbols", fmt.Sprintf("%.1f MB", float64(info.Size())/1e6), "")
	var first program.Job
	c.mustPost(b, ogcBody(w), &first)
	ended := fmt.Sprintf("/unit_jobs/%d", first.ID)
	for !first.Ended() {
		c.must(b, http.MethodGet, ended, nil, &first)
	}
	broker, bare := overhead(b, w, c)
	row("POST at 20 ms latency: broker, median", broker.String(), "")
	row("POST at 20 ms latency: bare platform, median", bare.String(), "")
	row("overhead; ratio", fmt.Sprintf("%v; %.2f", broker-bare, float64(broker)/float64(bare)), "< 2.5 ms")
	row("two commits alone: 4 kB written to the disk, twice, median", commits(b).String(), "")
	for _, clients := range []int{1, 16, 64} {
		row(fmt.Sprintf("GET /unit_jobs/{id} of an ended job, %d clients; a bare server; ratio", clients),
			c.besideBare(b, clients, ended), "> 15000/s at 16")
	}
	const hundred = "/jobs_status?filter=processing&status=finished&limit=100"
	for c.finished(b, hundred) < 100 {
		c.must(b, http.MethodGet, "/jobs_status", nil, nil)
	}
	row("GET /jobs_status of 100 ended jobs, 16 clients; a bare server; ratio", c.besideBare(b, 16, hundred),
		"> 10000/s")
	for _, clients := range []int{1, 16, 64} {
		got := rate(b, clients, func() { c.mustPost(b, ogcBody(w), nil) })
		row(fmt.Sprintf("POST /unit_jobs to OGC, %d clients", clients), fmt.Sprintf("%.0f/s", got), "")
	}
	row("POST /params from cache, median of 200", describing(b, w, c).String(), "< 1 ms")
	row("checking and shaping 10,000 tiles of a task", checking(b).Round(time.Millisecond).String(), "< 300 ms")
	row("memory at the end", memory(b, p, "VmRSS:"), "")
}

// finished returns how many jobs a page has.
func (c fast) finished(b *testing.B, path string) int {
	var page struct {
		Jobs []program.Job `json:"processing_jobs"`
	}
	c.must(b, http.MethodGet, path, nil, &page)
	return len(page.Jobs)
}

// describing returns the median time of requests for cached parameters.
func describing(b *testing.B, w *simulator.World, c fast) time.Duration {
	r := program.OGC(w)
	body, err := json.Marshal(map[string]any{"label": r.Label, "service": r.Service})
	if err != nil {
		b.Fatal(err)
	}
	var times []time.Duration
	for range 201 {
		begin := time.Now()
		c.must(b, http.MethodPost, "/params", body, nil)
		times = append(times, time.Since(begin))
	}
	return median(times[1:])
}

// checking returns the time to check 10,000 polygons of a task whose service requires bounding boxes.
func checking(b *testing.B) time.Duration {
	d := dispatch.Dimension{Name: "extent"}
	for i := range 10_000 {
		west, south := float64(i%100), float64(i/100-50)
		d.Values = append(d.Values, fmt.Appendf(nil,
			`{"type":"Polygon","coordinates":[[[%[1]v,%[2]v],[%[3]v,%[2]v],[%[3]v,%[4]v],[%[1]v,%[4]v],[%[1]v,%[2]v]]]}`,
			west, south, west+0.25, south+0.18))
	}
	reader := parameters.NewReader(b.Context())
	set := reader.NewSet([]dispatch.Parameter{reader.Describe(dispatch.Parameter{Name: d.Name,
		Schema: json.RawMessage(`{"type":"object","subtype":"bounding-box"}`)})})
	begin := time.Now()
	if err := set.Check(b.Context(), dispatch.Request{Parameters: json.RawMessage("{}")}, &d); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// benchmarked returns the environment of a broker with very high limits.
func benchmarked(w *simulator.World) []string {
	known := w.Credentials
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "ogc", "protocol": "ogc-api-processes", "endpoint": w.OGCURL, "access": "open",
			"limits": map[string]any{"jobs": 1_000_000, "requests": 64}},
	})
	return []string{"EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER=" + known.Issuer,
		"EODISPATCH_LOG_LEVEL=info",
		"EODISPATCH_IDENTITY_AUDIENCE=" + known.BrokerID, "EODISPATCH_PLATFORMS=" + string(platforms)}
}

func ogcBody(w *simulator.World) []byte {
	body, _ := json.Marshal(program.OGC(w)) // cannot fail: a constant
	return body
}

// startTime returns the median time from the start of the process to its first response.
func startTime(b *testing.B, w *simulator.World) time.Duration {
	var times []time.Duration
	for range 9 {
		begin := time.Now()
		p := program.Start(b, benchmarked(w)...)
		response, err := http.Get(p.Address + "/health")
		if err != nil {
			b.Fatal(err)
		}
		response.Body.Close()
		times = append(times, time.Since(begin))
		p.Stop(b)
	}
	return median(times)
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// memory returns a size of a program in MB, as the kernel reports it.
func memory(b *testing.B, p *executable.Program, size string) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		return "not reported on this system"
	}
	var kilobytes float64
	if _, err := fmt.Sscan(program.Between(string(text), size, "kB"), &kilobytes); err != nil {
		b.Fatal(err)
	}
	return fmt.Sprintf("%.1f MB", kilobytes/1000)
}

// fast is a client that keeps up to 100 idle connections to a host.
type fast struct{ program.Client }

func (c fast) mustPost(b *testing.B, body []byte, into any) {
	c.must(b, http.MethodPost, "/unit_jobs", body, into)
}

func (c fast) must(b *testing.B, method, path string, body []byte, into any) {
	request, err := http.NewRequest(method, c.Broker+path, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	must(b, request, into)
}

func must(b *testing.B, request *http.Request, into any) {
	response, err := program.Pooled.Do(request)
	if err != nil {
		b.Error(err)
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		b.Errorf("%s %s: %s %v: %s", request.Method, request.URL, response.Status, err, text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			b.Error(err)
		}
	}
}

// rate returns the calls per second that the given number of clients make in three seconds.
func rate(b *testing.B, clients int, call func()) float64 {
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Second)
	defer cancel()
	var calls atomic.Int64
	begin := time.Now()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil && !b.Failed() {
				call()
				calls.Add(1)
			}
		})
	}
	all.Wait()
	return float64(calls.Load()) / time.Since(begin).Seconds()
}

// besideBare returns how often in a second clients read a path, how often they read the same bytes from a server that
// does nothing else, and the ratio of the two. That server is in the process of the clients.
func (c fast) besideBare(b *testing.B, clients int, path string) string {
	request, err := http.NewRequest(http.MethodGet, c.Broker+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	response, err := program.Pooled.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), response.Header)
		_, _ = w.Write(text) // the client reports a response that is cut off
	}))
	defer server.Close()
	got := rate(b, clients, func() { c.must(b, http.MethodGet, path, nil, nil) })
	alone := fast{program.Client{Broker: server.URL, Token: c.Token}}
	bare := rate(b, clients, func() { alone.must(b, http.MethodGet, path, nil, nil) })
	return fmt.Sprintf("%.0f/s; %.0f/s; %.2f", got, bare, got/bare)
}

// commits returns the median time to write a page to the disk twice, one after the other, as a POST has two commits.
func commits(b *testing.B) time.Duration {
	f, err := os.Create(filepath.Join(b.TempDir(), "page"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	var times []time.Duration
	for range 101 {
		times = append(times, took(func() {
			for range 2 {
				if _, err := f.Write(page); err != nil {
					b.Fatal(err)
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		}))
	}
	return median(times).Round(time.Microsecond)
}

// overhead returns the median time to post a job to the broker, and that to execute it at the platform directly, when
// the platform takes 20 ms to respond. It sends one request at a time.
func overhead(b *testing.B, w *simulator.World, c fast) (broker, bare time.Duration) {
	w.OGC.Faults.Set(simulator.Fault{Route: "POST /processes/{id}/execution", Latency: 20 * time.Millisecond})
	defer w.OGC.Faults.Set()
	var through, direct []time.Duration
	for range 100 {
		begin := time.Now()
		c.mustPost(b, ogcBody(w), nil)
		through = append(through, time.Since(begin))
		begin = time.Now()
		execute(b, w)
		direct = append(direct, time.Since(begin))
	}
	return median(through).Round(time.Microsecond), median(direct).Round(time.Microsecond)
}

func execute(b *testing.B, w *simulator.World) {
	request, err := http.NewRequest(http.MethodPost, w.OGCURL+"/processes/"+program.NDVI+"/execution",
		strings.NewReader(`{"inputs": {"bbox": `+program.Box+`}}`))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Prefer", "respond-async")
	must(b, request, nil)
}
