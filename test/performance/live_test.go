package performance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const (
	active  = 1000
	readers = 100
)

// BenchmarkPerformanceOfLiveStatus measures the time to list many jobs at a platform that responds after 50 ms and
// lists 1,000 jobs per page.
func BenchmarkPerformanceOfLiveStatus(b *testing.B) {
	table := newTable(b, "live status of 1,000 active jobs", "SQLite", "PostgreSQL", "aim")
	sqlite := lookAtMany(b, "sqlite:"+filepath.Join(b.TempDir(), "live.db"))
	postgreSQL := lookAtMany(b, postgres.Database(b))
	for i, l := range sqlite {
		table(l.what, l.measured, postgreSQL[i].measured, l.aim)
	}
}

type looked struct{ what, measured, aim string }

// lookAtMany reads the list of 1,000 jobs with stale and fresh statuses, with one client and with many.
func lookAtMany(b *testing.B, database string) (all []looked) {
	w, err := simulator.Start(simulator.Options{Open: true, Life: simulator.Life{Run: time.Hour}})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "openeo", "protocol": "openeo", "endpoint": w.OpenEOURL, "access": "open",
			"limits": map[string]any{"jobs": 1_000_000, "requests": 64}},
	})
	environ := append(benchmarked(w), "EODISPATCH_PLATFORMS="+string(platforms), fmt.Sprint("EODISPATCH_FRESHNESS=",
		shortFreshness), "EODISPATCH_DATABASE="+database)
	p := program.Start(b, environ...)
	c := fast{program.SignIn(b, w, p.Address)}
	body, _ := json.Marshal(program.OpenEO(w)) // cannot fail: only strings and numbers
	inParallel(active, 32, func(int) { c.mustPost(b, body, nil) })
	w.OpenEO.Faults.Set(simulator.Fault{Latency: 50 * time.Millisecond})
	list := func() { c.must(b, http.MethodGet, "/jobs_status", nil, nil) }
	note := func(what, measured, aim string) { all = append(all, looked{what, measured, aim}) }

	spread := func(times []time.Duration) string {
		return fmt.Sprintf("%v, %v", median(times).Round(time.Millisecond), slices.Max(times).Round(time.Millisecond))
	}
	note("stale, one listing; median and longest of 9", spread(stale(b, w, 9, func() {}, list)),
		"< 200 ms and a round trip of 50")
	var warm []time.Duration
	for range 101 {
		begin := time.Now()
		list()
		warm = append(warm, time.Since(begin))
	}
	note("fresh, median", median(warm).Round(time.Millisecond/10).String(), "< 15 ms")
	everybody := func() { inParallel(readers, readers, func(int) { list() }) }
	took, _ := watched(b, w, everybody)
	note(fmt.Sprintf("%d readers at once, fresh", readers), took.Round(time.Millisecond).String(), "")
	note(fmt.Sprintf("%d readers at once, stale, one listing; median and longest of 3", readers),
		spread(stale(b, w, 3, func() {}, everybody)), "")
	again := func() {
		p.Stop(b)
		p = program.Start(b, environ...)
		c = fast{program.SignIn(b, w, p.Address)}
		c.must(b, http.MethodGet, "/unit_jobs/1", nil, nil)
	}
	note("the first list after a restart and one read; median and longest of 3", spread(stale(b, w, 3, again, list)),
		"pages + 1 round trips of 50 ms, + 100 ms")
	p.Stop(b)
	return all
}

const shortFreshness = 2 * time.Second // at least limits.min_poll

// stale measures a read n times when the known statuses have just expired. It counts only reads for which the platform
// receives exactly one listing request.
func stale(b *testing.B, w *simulator.World, n int, prepare, read func()) (times []time.Duration) {
	for range 10 * n {
		prepare()
		<-time.After(shortFreshness + shortFreshness/8)
		if took, asked := watched(b, w, read); asked == oneListing {
			times = append(times, took)
		}
		if len(times) == n {
			return times
		}
	}
	b.Fatalf("only %d of %d reads caused exactly one listing", len(times), 10*n)
	return nil
}

// inParallel calls do for 0 to n-1, atOnce at a time.
func inParallel(n, atOnce int, do func(i int)) {
	var all sync.WaitGroup
	for first := range atOnce {
		all.Go(func() {
			for i := first; i < n; i += atOnce {
				do(i)
			}
		})
	}
	all.Wait()
}

// newTable returns a function that adds a row to a table, which is printed when the benchmark ends.
func newTable(b *testing.B, head ...string) (row func(columns ...string)) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	b.Cleanup(func() { table.Flush() })
	row = func(columns ...string) { fmt.Fprintln(table, strings.Join(columns, "\t")) }
	row(head...)
	return row
}

const oneListing = "1 listings and 0 single reads"

// watched returns the duration of do, and the numbers of status requests that the platform receives meanwhile.
func watched(b *testing.B, w *simulator.World, do func()) (time.Duration, string) {
	before := w.OpenEO.Oracle.Tally().Routes
	begin := time.Now()
	do()
	took := time.Since(begin)
	after := w.OpenEO.Oracle.Tally().Routes
	lists, reads := 0, 0
	for route, n := range after {
		switch d := n - before[route]; {
		case strings.HasSuffix(route, "/jobs"):
			lists += d
		case strings.HasSuffix(route, "/jobs/{id}"):
			reads += d
		}
	}
	return took, fmt.Sprintf("%d listings and %d single reads", lists, reads)
}

// memoryOf returns the resident size of a program in kB.
func memoryOf(b *testing.B, p *executable.Program) (kilobytes float64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err == nil {
		_, err = fmt.Sscan(program.Between(string(text), "VmRSS:", "kB"), &kilobytes)
	}
	if err != nil {
		b.Skip("this system does not report the memory of a process")
	}
	return kilobytes
}
