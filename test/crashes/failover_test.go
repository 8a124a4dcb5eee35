package crashes

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// newBothCluster returns a cluster on a database with work on both protocols.
func newBothCluster(t *testing.T, s size, dsn string) *cluster {
	c := newClusterOn(t, s, dsn)
	c.own = writable(dsn)
	c.processes, c.executes = &simulator.OGC{Life: simulator.Life{Run: s.run, Slots: slots}}, s.jobs/accounts
	return c
}

// writable returns an address of a database for the test's own statements, to the server that can be written.
func writable(dsn string) string { return dsn + "&target_session_attrs=read-write" }

// submitBoth submits all jobs of both protocols.
func (c *cluster) submitBoth(r replica) {
	c.t.Helper()
	for i := range c.platforms {
		c.give(r, i, c.jobs/accounts)
	}
	c.execute(r, c.executes)
	c.db = database(c.t, c.own)
}

// accepted submits one more job, again and again with one key, until a replica has accepted it.
func (c *cluster) accepted(r replica, key string) {
	c.t.Helper()
	job := map[string]any{"title": "after", "label": "openeo", "format": "json",
		"service": map[string]any{"endpoint": public(0), "application": "ndvi_composite"},
		"parameters": map[string]any{"temporal_extent": []string{"2026-05-01", "2026-06-01"},
			"spatial_extent": map[string]any{"west": 5, "south": 51.2, "east": 5.1, "north": 51.3}}}
	var last error
	if !until(5*time.Minute, func() bool {
		last = r.ask(c.t.Context(), http.MethodPost, "/unit_jobs", key, job, nil)
		return last == nil
	}) {
		c.t.Fatalf("no job is accepted after the failover: %v", last)
	}
	c.extra++
}

// TestFailover_ToASynchronousStandby stops the database without warning while three replicas work on both protocols,
// and makes its standby the primary. The replicas know both servers by one address.
func TestFailover_ToASynchronousStandby(t *testing.T) {
	t.Parallel()
	primary := postgres.NewServer(t)
	standby := primary.NewStandby(t)
	primary.Synchronous(t)
	// the standby, which accepts connections, is listed first
	c := newBothCluster(t, briefly(), postgres.Either(standby, primary))
	replicas := []replica{c.launch(), c.launch(), c.launch()}
	c.submitBoth(replicas[0])
	c.progress(0.2)
	primary.Stop(t)
	standby.Promote(t)
	began := time.Now()
	c.accepted(replicas[1], "after the failover")
	t.Logf("a job is accepted %v after the promotion", time.Since(began).Round(time.Millisecond))
	c.dsn = standby.URL
	c.finish(replicas...)
	c.checkBoth()
}

// checkBoth checks the promises on both protocols.
func (c *cluster) checkBoth() {
	c.t.Helper()
	c.check()
	c.checkProcesses()
}

// TestFailover_ToAnAsynchronousStandbyIsWarnedOf starts a replica on a server whose standby does not confirm commits.
func TestFailover_ToAnAsynchronousStandbyIsWarnedOf(t *testing.T) {
	t.Parallel()
	primary := postgres.NewServer(t)
	primary.NewStandby(t)
	c := newClusterOn(t, briefly(), primary.URL)
	r := c.launch()
	const warning = "standbys do not confirm commits"
	select {
	case <-r.Log.Shows(warning):
	case <-time.After(3 * time.Minute):
		t.Errorf("it does not say what can be lost: %s", r.Log)
	}
	r.stop(t)
}

// TestPooler_InTransactionMode has three replicas start at once behind a pooler in transaction mode, with and without
// the address of the server.
func TestPooler_InTransactionMode(t *testing.T) {
	for name, direct := range map[string]bool{"alone": false, "with database_direct": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := postgres.NewServer(t)
			c := newBothCluster(t, briefly(), postgres.NewPooler(t, server))
			c.own = server.URL
			if direct {
				c.settings = []string{"EODISPATCH_DATABASE_DIRECT=" + server.URL}
			}
			replicas := c.launchTogether(3)
			c.submitBoth(replicas[0])
			logged := strings.Contains(replicas[0].Log.String(), "set database_direct")
			if logged == direct {
				t.Errorf("a missing database_direct is logged: %v", logged)
			}
			c.finish(replicas...)
			c.dsn = server.URL
			c.checkBoth()
			for _, r := range replicas {
				if text := r.Log.String(); strings.Contains(text, `"level":"ERROR"`) || direct &&
					strings.Contains(text, "LISTEN is silent") {
					t.Errorf("replica %d: %s", r.number, text)
				}
			}
		})
	}
}

// launchTogether starts replicas at once.
func (c *cluster) launchTogether(n int) []replica {
	all := make([]replica, n)
	var started sync.WaitGroup
	for i := range all {
		started.Go(func() { all[i] = c.launch() })
	}
	started.Wait()
	return all
}

// execute submits a task of the given number of jobs for the OGC platform. Each job has a different mark, by which the
// platform counts its runs.
func (c *cluster) execute(r replica, jobs int) {
	c.t.Helper()
	marks := make([]string, jobs)
	for n := range marks {
		marks[n] = fmt.Sprintf("replica-%d-job-%d", r.number, n)
	}
	task := map[string]any{"title": "fire", "label": "ogc_api_process", "format": "json",
		"service":    map[string]any{"endpoint": public(accounts), "application": "ndvi"},
		"parameters": map[string]any{"bbox": map[string]any{"bbox": []float64{5, 51.2, 5.1, 51.3}}},
		"dimension":  map[string]any{"name": "marker", "values": marks}}
	if err := r.ask(c.t.Context(), http.MethodPost, "/upscale_tasks", "", task, nil); err != nil {
		c.t.Fatal(err)
	}
}

// checkProcesses checks the promises at the OGC platform after all jobs have ended.
func (c *cluster) checkProcesses() {
	c.t.Helper()
	tags := c.processes.Oracle.Tally().Tags
	if len(tags) != c.executes {
		c.t.Errorf("the OGC platform has %d different jobs, want %d", len(tags), c.executes)
	}
	for tag, count := range tags {
		if count.Runs != 1 {
			c.t.Errorf("OGC platform: job %s ran %d times", tag, count.Runs)
		}
	}
}
