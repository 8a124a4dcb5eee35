package crashes

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/installed"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const (
	accounts = 4                     // one at each openEO platform
	slots    = 20                    // of each account
	requests = 4                     // concurrent requests of each account
	latency  = 20 * time.Millisecond // of each platform
)

// size is the amount of work of a cluster and the duration of disturbances.
type size struct {
	jobs int
	// limits.send; a lease lasts 15 s longer. A request that timed out still counts at the platform
	send   string
	frozen time.Duration // longer than a lease
	run    time.Duration // run time of a job
}

func sized() size {
	if *full {
		return size{jobs: 2000, send: "30s", frozen: time.Minute, run: 5 * time.Second}
	}
	return size{jobs: 240, send: "10s", frozen: 27 * time.Second, run: 6 * time.Second}
}

// briefly returns the size for instantaneous disturbances.
func briefly() size {
	if *full {
		return sized()
	}
	return size{jobs: 120, send: "10s", run: time.Second}
}

// cluster is a set of replicas on one database. Each replica reaches the platforms at its own addresses, by which the
// test distinguishes the replicas.
type cluster struct {
	t *testing.T
	size
	dsn       string
	own       string // address of the database for the test's own statements
	db        *sql.DB
	platforms [accounts]*simulator.OpenEO
	processes *simulator.OGC // optional additional platform, whose number is accounts
	executes  int            // number of its jobs
	extra     int            // further jobs of the first openEO platform
	settings  []string       // further variables of the replicas

	mu       sync.Mutex
	replicas int
	pending  [accounts + 1]map[int]int // requests being answered, by replica
	served   [accounts + 1][]served
	refused  int
}

type served struct {
	replica int
	at      time.Time
}

func newCluster(t *testing.T, s size) *cluster { return newClusterOn(t, s, postgres.Database(t)) }

// newClusterOn returns a cluster on a database, whose address may list several servers.
func newClusterOn(t *testing.T, s size, dsn string) *cluster {
	c := &cluster{t: t, size: s, dsn: dsn}
	for i := range c.platforms {
		c.platforms[i] = &simulator.OpenEO{Open: true, Life: simulator.Life{Run: c.run, Slots: slots}}
	}
	for i := range c.pending {
		c.pending[i] = map[int]int{}
	}
	return c
}

// replica is one replica of the cluster.
type replica struct {
	*program
	number int
}

func (c *cluster) launch() replica { return c.launchOf(released) }

func (c *cluster) launchOf(binary func() (string, error)) replica {
	c.mu.Lock()
	c.replicas++
	n := c.replicas
	c.mu.Unlock()
	var configured []map[string]any
	add := func(i int, protocol string, platform http.Handler) {
		server := httptest.NewServer(c.gate(i, n, platform))
		c.t.Cleanup(server.Close)
		configured = append(configured, map[string]any{"name": fmt.Sprintf("p%d", i), "protocol": protocol,
			"access": "open", "endpoint": server.URL, "aliases": []string{public(i)},
			"limits": map[string]any{"jobs": slots, "requests": requests, "send": c.send}})
	}
	for i, p := range c.platforms {
		add(i, "openeo", p)
	}
	if c.processes != nil {
		add(accounts, "ogc-api-processes", c.processes)
	}
	p := launch(c.t, binary, environment(c.t, c.dsn, configured), c.settings...)
	if p.Address == "" {
		c.t.Fatalf("replica %d does not serve", n)
	}
	return replica{p, n}
}

// public returns the address by which clients name a platform.
func public(i int) string { return fmt.Sprintf("http://p%d.example", i) }

// gate returns the handler of a platform for one replica. Each request takes the latency, and has its effect even if
// the replica no longer waits for the response.
func (c *cluster) gate(platform, replica int, behind http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer c.enter(platform, replica, r)()
		<-time.After(latency)
		kept := &statusWriter{ResponseWriter: w}
		behind.ServeHTTP(kept, r.WithContext(context.WithoutCancel(r.Context())))
		// the replica started more jobs than there are slots
		if kept.status == http.StatusBadRequest || kept.status == http.StatusTooManyRequests {
			c.mu.Lock()
			c.refused++
			c.mu.Unlock()
		}
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// enter records a request about jobs. It fails the test if a request of another replica is in progress, because then
// two replicas visit one account. It ignores requests for descriptions and results, which any replica may send.
func (c *cluster) enter(platform, replica int, r *http.Request) (leave func()) {
	if !strings.Contains(r.URL.Path, "/jobs") && !strings.HasSuffix(r.URL.Path, "/execution") ||
		strings.HasSuffix(r.URL.Path, "/results") {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, n := range c.pending[platform] {
		if other != replica && n > 0 {
			c.t.Errorf("%s %s of replica %d overlaps a request of replica %d", r.Method, r.URL.Path, replica, other)
		}
	}
	c.pending[platform][replica]++
	c.served[platform] = append(c.served[platform], served{replica, time.Now()})
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pending[platform][replica]--
	}
}

// submit submits an equal part of the jobs to every openEO platform, as one task each.
func (c *cluster) submit(r replica) {
	for i := range c.platforms {
		c.give(r, i, c.jobs/accounts)
	}
	c.db = database(c.t, c.dsn)
}

// give submits a task of the given number of jobs to one of the openEO platforms.
func (c *cluster) give(r replica, platform, jobs int) {
	c.t.Helper()
	values := make([]json.RawMessage, jobs)
	for n := range values {
		values[n] = json.RawMessage(fmt.Sprintf(`{"west": %d, "south": 51.2, "east": %d, "north": 51.3}`, n%90, n%90+1))
	}
	task := map[string]any{"title": "fire", "label": "openeo", "format": "json",
		"service":    map[string]any{"endpoint": public(platform), "application": "ndvi_composite"},
		"parameters": map[string]any{"temporal_extent": []string{"2026-05-01", "2026-06-01"}},
		"dimension":  map[string]any{"name": "spatial_extent", "values": values}}
	var kept struct{ ID int64 }
	if err := r.ask(c.t.Context(), http.MethodPost, "/upscale_tasks", "", task, &kept); err != nil {
		c.t.Fatal(err)
	}
}

// ended counts the jobs that have ended.
func (c *cluster) ended() (n int) {
	if err := c.db.QueryRowContext(c.t.Context(),
		`SELECT count(*) FROM jobs WHERE phase = 'ended'`).Scan(&n); err != nil {
		c.t.Log(err) // the database may be restarting
	}
	return n
}

// endedAt reports whether all jobs of an openEO platform have ended.
func (c *cluster) endedAt(platform int) bool {
	var left int
	if err := c.db.QueryRowContext(c.t.Context(),
		`SELECT count(*) FROM jobs WHERE phase <> 'ended' AND account LIKE $1`,
		fmt.Sprintf("p%d/%%", platform)).Scan(&left); err != nil {
		c.t.Fatal(err)
	}
	return left == 0
}

// progress waits until the given fraction of the jobs has ended.
func (c *cluster) progress(part float64) {
	c.t.Helper()
	if !until(10*time.Minute, func() bool { return float64(c.ended()) >= part*float64(c.jobs+c.executes) }) {
		c.t.Fatalf("%d of %d jobs have ended", c.ended(), c.jobs+c.executes)
	}
}

// heldBy returns the accounts last visited by the replica.
func (c *cluster) heldBy(replica int) (held []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, all := range c.served {
		if len(all) > 0 && all[len(all)-1].replica == replica {
			held = append(held, i)
		}
	}
	return held
}

// holding waits for one of the replicas to hold accounts, and returns it.
func (c *cluster) holding(of ...replica) (r replica) {
	c.t.Helper()
	found := func() bool {
		for _, r = range of {
			if len(c.heldBy(r.number)) > 0 {
				return true
			}
		}
		return false
	}
	if !until(3*time.Minute, found) {
		c.t.Fatal("no replica visits an account")
	}
	return r
}

// takenOver waits until other replicas have visited the accounts since a time, and fails the test if one was not
// visited within a duration after the replica was lost. An account whose jobs have all ended needs no visit.
func (c *cluster) takenOver(held []int, from int, since, lost time.Time, within time.Duration) {
	c.t.Helper()
	for _, i := range held {
		var gap time.Duration
		other := func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, s := range c.served[i] {
				if s.replica != from && s.at.After(since) {
					gap = s.at.Sub(lost)
					return true
				}
			}
			return false
		}
		if !until(within+5*time.Second, func() bool { return other() || c.endedAt(i) }) || gap > within {
			c.t.Errorf("no replica took over account %d within %v", i, within)
			continue
		}
		c.t.Logf("account %d was taken over after %v (0 if it had no work left)", i, gap.Round(time.Millisecond))
	}
}

// finish waits until all jobs except those in doubt have ended, and stops the replicas. It takes 20 minutes to detect
// that a start was never sent, so jobs in doubt are left to a mortal replica, in which a minute lasts a second.
func (c *cluster) finish(replicas ...replica) {
	c.t.Helper()
	var left []row
	settled := func(all bool) func() bool {
		return func() bool {
			left = left[:0]
			for _, r := range rowsOf(c.t, c.db) {
				if r.phase != dispatch.Ended && (all || r.attention != dispatch.InDoubt) {
					left = append(left, r)
				}
			}
			return len(left) == 0
		}
	}
	if !until(10*time.Minute, settled(false)) {
		c.t.Fatalf("jobs have not ended: %+v", left)
	}
	for _, r := range replicas {
		r.stop(c.t)
	}
	if settled(true)() {
		return
	}
	c.t.Logf("in doubt: %+v", left)
	last := c.launchOf(mortal)
	if !until(5*time.Minute, settled(true)) {
		c.t.Errorf("still in doubt: %+v", left)
	}
	last.stop(c.t)
}

// checkCounts compares the counts of jobs that a database on PostgreSQL keeps with its jobs.
func checkCounts(t *testing.T, dsn string) {
	t.Helper()
	s, err := store.Open(t.Context(), dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conformance.CheckCounts(t, s)
}

// check checks the promises after all jobs have ended.
func (c *cluster) check() {
	c.t.Helper()
	finished := 0
	for _, r := range rowsOf(c.t, c.db) {
		if r.status == dispatch.Finished {
			finished++
		}
	}
	if all := c.jobs + c.executes + c.extra; finished != all {
		c.t.Errorf("%d of %d jobs are finished", finished, all)
	}
	checkCounts(c.t, c.dsn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused > 0 {
		c.t.Errorf("%d submissions exceeded the job limit of a platform", c.refused)
	}
	for i, p := range c.platforms {
		given := c.jobs / accounts
		if i == 0 {
			given += c.extra
		}
		if sum := p.Oracle.Sum(); sum.Runs != given {
			c.t.Errorf("platform %d ran %d jobs of %d", i, sum.Runs, given)
		}
		for tag, count := range p.Oracle.Tally().Tags {
			if count.Runs > 1 {
				c.t.Errorf("platform %d: attempt %s ran %d times", i, tag, count.Runs)
			}
		}
		// beside visits, each of the replicas reads results of finished jobs, one after the other
		if peak := p.Oracle.Tally().Accounts["open"].Peak; peak > requests+3 {
			c.t.Errorf("platform %d: %d requests at once", i, peak)
		}
	}
}

// TestReplicas_Fail kills one of three working replicas, and freezes another until other replicas have taken over its
// accounts. Later it stops a working replica with SIGTERM.
func TestReplicas_Fail(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sized())
	rest := []replica{c.launch(), c.launch(), c.launch()}
	c.submit(rest[0])
	c.progress(0.1)

	killed := c.holding(rest...)
	rest = without(killed, rest...)
	frozen := c.holding(rest...)
	rest = without(frozen, rest...)
	since, lost, left := time.Now(), c.heldBy(killed.number), c.heldBy(frozen.number)
	killed.Send(t, syscall.SIGKILL)
	frozen.Send(t, syscall.SIGSTOP)
	woken := time.After(c.frozen)
	rest = append(rest, c.launch())
	c.takenOver(lost, killed.number, since, since, takeoverWithin)
	c.takenOver(left, frozen.number, since, since, takeoverWithin)
	<-woken
	frozen.Send(t, syscall.SIGCONT)

	stopped := c.holding(rest...)
	rest = append(without(stopped, rest...), frozen)
	since, left = time.Now(), c.heldBy(stopped.number)
	stopped.stop(t)
	c.takenOver(left, stopped.number, since, time.Now(), atOnceWithin)
	c.finish(rest...)
	c.check()
}

// takeoverWithin is the documented limit for the accounts of a lost or frozen replica: a lease, at most 45 s here, and
// the 2 s between two polls.
const takeoverWithin = time.Minute

// atOnceWithin bounds the takeover of accounts from a replica that stopped and released them. It is less than a lease,
// after which accounts are taken over without a release.
const atOnceWithin = 20 * time.Second

func without(one replica, all ...replica) (others []replica) {
	for _, r := range all {
		if r.number != one.number {
			others = append(others, r)
		}
	}
	return others
}

// TestReplicas_RollingRestart replaces all replicas in turn.
func TestReplicas_RollingRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sized())
	replicas := []replica{c.launch(), c.launch(), c.launch()}
	c.submit(replicas[0])
	for i, old := range replicas {
		c.progress(0.15 + 0.2*float64(i))
		replicas[i] = c.launch()
		since, held := time.Now(), c.heldBy(old.number)
		old.stop(t)
		c.takenOver(held, old.number, since, time.Now(), atOnceWithin)
	}
	c.finish(replicas...)
	c.check()
}

// TestPostgreSQL_Restarts restarts the database while replicas work.
func TestPostgreSQL_Restarts(t *testing.T) {
	if os.Getenv(postgres.Variable) != "" && !installed.Required() {
		t.Skip("the server that " + postgres.Variable + " names is not managed by the tests, so it cannot be restarted")
	}
	c := newCluster(t, briefly())
	replicas := []replica{c.launch(), c.launch(), c.launch()}
	c.submit(replicas[0])
	c.progress(0.2)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT} { // a fast shutdown and an immediate one
		before := c.ended()
		postgres.Restart(t, s)
		began := time.Now()
		if !until(3*time.Minute, func() bool { n := c.ended(); return n > before || n == c.jobs }) {
			t.Error("no job ends after the restart")
		}
		t.Logf("the next job ended %v after a restart by %v", time.Since(began).Round(time.Millisecond), s)
	}
	for _, r := range replicas {
		var err error
		if !until(time.Minute, func() bool {
			err = r.ask(t.Context(), http.MethodGet, "/health", "", nil, nil)
			return err == nil
		}) {
			t.Error(err)
		}
	}
	c.finish(replicas...)
	c.check()
}
