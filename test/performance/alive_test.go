package performance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/program"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// BenchmarkPerformanceOfAlive measures what the jobs of a task of 1,000 values cost from their acceptance to their
// start, and how long requests take that show or limit how many jobs there are, while the account and its user have no,
// 10,000 and 100,000 other jobs that hold slots. Their statuses are not due, so that only the new jobs cause requests.
// CPU time is that of the program alone.
func BenchmarkPerformanceOfAlive(b *testing.B) {
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table,
		"other jobs alive\tCPU for a started job, ratio to none, aim 1.1 and 1.2\t/platforms\t/usage\tPOST "+
			"/unit_jobs\tratios to none, aim 1.5")
	for _, set := range []struct {
		name     string
		database func(*testing.B) string
	}{
		{"SQLite", func(b *testing.B) string { return "sqlite:" + filepath.Join(b.TempDir(), "d.db") }},
		{"PostgreSQL", func(b *testing.B) string { return postgres.Database(b) }},
	} {
		var none alive
		for _, jobs := range []int{0, 10_000, 100_000} {
			is := besideAlive(b, w, set.database(b), jobs)
			if jobs == 0 {
				none = is
			}
			fmt.Fprintf(table, "%s, %d\t%v, %.2f\t%v\t%v\t%v\t%.2f, %.2f, %.2f\n", set.name, jobs,
				is.cpu.Round(time.Microsecond), ratio(is.cpu, none.cpu),
				is.platforms.Round(10*time.Microsecond), is.usage.Round(10*time.Microsecond),
				is.post.Round(10*time.Microsecond),
				ratio(is.platforms, none.platforms), ratio(is.usage, none.usage), ratio(is.post, none.post))
		}
	}
}

// alive is what was measured while other jobs are alive.
type alive struct{ cpu, platforms, usage, post time.Duration }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func besideAlive(b *testing.B, w *simulator.World, database string, others int) (is alive) {
	r, protocol := newRaceAt(b, dispatch.OGCProcess, 8)
	keepAlive(b, database, ownerOf(b, w), r.url, others)
	platforms, _ := json.Marshal([]map[string]any{ // cannot fail: only strings and numbers
		{"name": "p", "protocol": protocol, "endpoint": r.url, "access": "open",
			"limits": map[string]any{"jobs": 1_000_000,
				"requests": 8}},
	})
	p := program.Start(b, append(benchmarked(w), "EODISPATCH_PLATFORMS="+string(platforms),
		"EODISPATCH_DATABASE="+database, "EODISPATCH_LIMITS_USER_JOBS=1000000")...)
	defer p.Stop(b)
	c := fast{program.SignIn(b, w, p.Address)}
	r.faults.Set(simulator.Fault{Latency: 5 * time.Millisecond})
	name, value := r.dimension()
	task := r.job()
	task["dimension"] = map[string]any{"name": name, "values": slices.Repeat([]json.RawMessage{value}, values)}
	body, _ := json.Marshal(task) // cannot fail: only strings and numbers
	before := program.CPUTime(b, p.Process.Pid)
	c.must(b, http.MethodPost, "/upscale_tasks", body, nil)
	select {
	case <-r.over:
	case <-time.After(5 * time.Minute):
		b.Fatalf("%d of %d jobs started within five minutes", r.started, values)
	}
	is.cpu = (program.CPUTime(b, p.Process.Pid) - before) / values
	is.platforms = c.median(b, func() { c.must(b, http.MethodGet, "/platforms", nil, nil) })
	is.usage = c.median(b, func() { c.must(b, http.MethodGet, "/usage", nil, nil) })
	job := r.job()
	job["parameters"].(map[string]any)[name] = value
	body, _ = json.Marshal(job) // cannot fail: only strings and numbers
	is.post = c.median(b, func() { c.mustPost(b, body, nil) })
	return is
}

// median returns the median time of 41 calls.
func (c fast) median(b *testing.B, do func()) time.Duration {
	b.Helper()
	var times []time.Duration
	for range 41 {
		times = append(times, took(do))
	}
	return median(times)
}

// keepAlive stores jobs of one user that have started at another endpoint of the account's platform, and whose status
// is due in a year.
func keepAlive(b *testing.B, database string, owner dispatch.UserID, url string, jobs int) {
	b.Helper()
	s, err := store.Open(b.Context(), database, conformance.WallClock{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const each = 10_000
	for range jobs / each {
		t := &dispatch.Task{Owner: owner, Account: "p/open",
			Request: dispatch.Request{Parameters: json.RawMessage("{}")}, Dimension: "d"}
		drafts := make([]dispatch.Draft, each)
		for i := range drafts {
			drafts[i] = dispatch.Draft{Body: []byte("1"), Job: dispatch.Job{Identity: dispatch.Identity{Owner: owner,
				Number: i + 1}, Target: dispatch.Target{Account: t.Account, Base: url +
				"/elsewhere"}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
				Handover:  dispatch.Handover{Phase: dispatch.Waiting},
				Condition: dispatch.Condition{Status: dispatch.Accepted}}}
		}
		if _, err := s.Accept(b.Context(), dispatch.Key{}, t, drafts); err != nil {
			b.Fatal(err)
		}
		saved := make([]dispatch.Job, each)
		for i, d := range drafts {
			saved[i] = d.Job
			saved[i].Phase, saved[i].Status, saved[i].Ref.ID, saved[i].Due = dispatch.Started, dispatch.Running,
				fmt.Sprint(d.ID), d.Due.AddDate(1, 0, 0)
		}
		if _, err := s.Save(b.Context(), saved); err != nil {
			b.Fatal(err)
		}
	}
	if !strings.HasPrefix(database, "sqlite:") {
		postgres.Exec(b, database, "ANALYZE")
	}
}
