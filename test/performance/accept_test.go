package performance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// BenchmarkPerformanceOfAccepting submits 100,000 jobs of one account to the real program on both databases, and prints
// the time and memory that this takes and the time to find the next steps.
func BenchmarkPerformanceOfAccepting(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true, Life: simulator.Life{Run: 10 * time.Minute}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "what\tSQLite\tPostgreSQL\taim")
	lite, post := fill(b, w, "sqlite:"+filepath.Join(b.TempDir(), "d.db")), fill(b, w, postgres.Database(b))
	lite.measure(b)
	post.measure(b)
	for _, row := range []struct {
		what string
		of   func(*filling) any
		aim  string
	}{
		{"POST of 10,000 values, median of 10", func(f *filling) any { return f.accept.Round(time.Millisecond) },
			"<= 1 s, 2 s"},
		{"GET of a task of 10,000 jobs", func(f *filling) any { return f.read.Round(time.Millisecond) }, ""},
		{"GET /jobs_status with 10 such tasks", func(f *filling) any { return f.list.Round(time.Millisecond) }, ""},
		{"next steps among 100,000 waiting jobs, median of 21",
			func(f *filling) any { return f.steps.Round(10 * time.Microsecond) }, "<= 20 ms"},
		{"memory when idle, after a garbage collection, MB",
			func(f *filling) any { return fmt.Sprintf("%.1f", f.idle) }, ""},
		{"the same with 100,000 waiting jobs, MB", func(f *filling) any { return fmt.Sprintf("%.1f", f.full) }, ""},
		{"growth of memory, MB", func(f *filling) any { return fmt.Sprintf("%.1f", f.full-f.idle) }, "<= 10"},
		{"of that, in use on the heap, MB", func(f *filling) any { return fmt.Sprintf("%.1f", f.heap) }, ""},
	} {
		fmt.Fprintf(table, "%s\t%v\t%v\t%s\n", row.what, row.of(lite), row.of(post), row.aim)
	}
}

// filling is a program on one database and its measurements.
type filling struct {
	database string
	private  string // address of the private listener
	program  *executable.Program
	client   fast

	accept, read, list, steps time.Duration
	idle, full, heap          float64 // MB; heap: growth of what is in use
}

// fill starts a program and submits 100,000 jobs to it, of which two run.
func fill(b *testing.B, w *simulator.World, database string) *filling {
	known := w.Credentials
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "ogc", "protocol": "ogc-api-processes", "endpoint": w.OGCURL, "access": "open",
			"limits": map[string]any{"jobs": 2}},
	})
	private := executable.FreeAddress(b)
	p := program.Start(b, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER="+known.Issuer,
		"EODISPATCH_DATABASE="+database,
		"EODISPATCH_IDENTITY_AUDIENCE="+known.BrokerID, "EODISPATCH_PLATFORMS="+string(platforms),
		"EODISPATCH_TELEMETRY_LISTEN="+private)
	f := &filling{database: database, private: private, program: p, client: fast{program.SignIn(b, w, p.Address)}}
	f.client.must(b, http.MethodGet, "/jobs_status", nil, nil)
	heap, resident := keptMemory(b, p, private)
	f.heap, f.idle = heap/1000, resident/1000
	body := manyTiles(w, 10_000)
	var times []time.Duration
	for range 10 {
		times = append(times, took(func() { f.client.must(b, http.MethodPost, "/upscale_tasks", body, nil) }))
	}
	f.accept = median(times)
	return f
}

func (f *filling) measure(b *testing.B) {
	heap, resident := keptMemory(b, f.program, f.private)
	f.heap, f.full = heap/1000-f.heap, resident/1000
	f.read = took(func() { f.client.must(b, http.MethodGet, "/upscale_tasks/1", nil, nil) })
	f.list = took(func() { f.client.must(b, http.MethodGet, "/jobs_status", nil, nil) })
	f.program.Stop(b)
	f.steps = nextSteps(b, f.database)
}

func took(do func()) time.Duration {
	begin := time.Now()
	do()
	return time.Since(begin)
}

func manyTiles(w *simulator.World, n int) []byte {
	r := program.OGC(w)
	r.Parameters = json.RawMessage(`{}`)
	values := make([]json.RawMessage, n)
	for i := range values {
		west := float64(i%3000) / 100
		values[i] = fmt.Appendf(nil, `{"bbox": [%.2f, 51.20, %.2f, 51.25]}`, west, west+.01)
	}
	body, _ := json.Marshal(struct { // cannot fail: only strings
		dispatch.Request
		Dimension dispatch.Dimension `json:"dimension"`
	}{r, dispatch.Dimension{Name: "bbox", Values: values}})
	return body
}

// nextSteps returns the median time that a visit takes to find the next steps in a program's database.
func nextSteps(b *testing.B, database string) time.Duration {
	kept, err := store.Open(b.Context(), database, conformance.WallClock{})
	if err != nil {
		b.Fatal(err)
	}
	defer kept.Close()
	var times []time.Duration
	for range 21 {
		times = append(times, took(func() {
			g, err := kept.Agenda(b.Context(), "ogc/open", 100, time.Hour)
			if err != nil || len(g.Queues) != 10 {
				b.Fatalf("%d lines, %v", len(g.Queues), err)
			}
			if _, err := kept.Ready(b.Context(), "ogc/open", g.Queues[0], 8); err != nil {
				b.Fatal(err)
			}
		}))
	}
	return median(times)
}
