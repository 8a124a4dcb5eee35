package performance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const ofALargeTask = 100_000 // jobs

// BenchmarkLargeTask runs a task of 100,000 jobs to its end, at a platform that answers at once and runs 1,000 jobs at
// a time for five seconds each. Afterwards it compares the books of the platform: each job was created and run once.
func BenchmarkLargeTask(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	b.Run("SQLite", func(b *testing.B) { runLarge(b, w, "sqlite:"+filepath.Join(b.TempDir(), "d.db")) })
	b.Run("PostgreSQL", func(b *testing.B) { runLarge(b, w, postgres.Database(b)) })
}

func runLarge(b *testing.B, w *simulator.World, database string) {
	r, protocol := newRaceAt(b, dispatch.OpenEO, 32)
	r.platform.(*simulator.OpenEO).Life = simulator.Life{Run: 5 * time.Second, Spread: 0.5}
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "p", "protocol": protocol, "endpoint": r.url, "access": "open",
			"limits": map[string]any{"jobs": 1000, "requests": r.requests}},
	})
	p := program.Start(b, append(benchmarked(w), "EODISPATCH_PLATFORMS="+string(platforms),
		"EODISPATCH_DATABASE="+database, fmt.Sprint("EODISPATCH_LIMITS_VALUES=", ofALargeTask))...)
	defer p.Stop(b)
	over := make(chan struct{})
	peak := program.WatchMemory(p.Process.Pid, over)
	name, value := r.dimension()
	task := r.job()
	task["dimension"] = map[string]any{"name": name, "values": slices.Repeat([]json.RawMessage{value}, ofALargeTask)}
	body, _ := json.Marshal(task) // cannot fail: only strings and numbers
	began := time.Now()
	fast{program.SignIn(b, w, p.Address)}.must(b, http.MethodPost, "/upscale_tasks", body, nil)
	b.ReportMetric(time.Since(began).Seconds(), "s-to-accept")
	for ended := 0; ended < ofALargeTask; <-time.After(time.Second) {
		var list wire.JobsStatusResponse
		// a token does not last as long as the task
		fast{program.SignIn(b, w, p.Address)}.must(b, http.MethodGet, "/jobs_status", nil, &list)
		ended = list.UpscalingTasks[0].Counts[wire.Status(dispatch.Finished)]
	}
	b.ReportMetric(time.Since(began).Seconds(), "s-until-all-ended")
	b.ReportMetric(float64(program.CPUTime(b, p.Process.Pid).Microseconds())/ofALargeTask, "CPU-us/job")
	close(over)
	b.ReportMetric(float64(<-peak)/1000, "MB-at-most")
	tally, requests := r.oracle.Tally(), 0
	for _, n := range tally.Routes {
		requests += n
	}
	b.ReportMetric(float64(requests)/ofALargeTask, "requests/job")
	for tag, n := range tally.Tags {
		if n.Creates != 1 || n.Runs != 1 {
			b.Errorf("%s was created %d times and ran %d times", tag, n.Creates, n.Runs)
		}
	}
	if sum := r.oracle.Sum(); sum.Creates != ofALargeTask {
		b.Errorf("%d jobs were created", sum.Creates)
	}
}
