package crashes

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// outage makes a database unavailable for longer than a lease, which lasts 15 s longer than limits.send.
type outage struct {
	send string
	away time.Duration
}

var awayFor = flag.Duration("away", 75*time.Second,
	"how long the database is unavailable in each outage test with -full")

func lasting() outage {
	if *full {
		return outage{send: "30s", away: *awayFor}
	}
	return outage{send: "20s", away: 37 * time.Second}
}

// held is the number of jobs of each platform. All of them are in progress at once.
const held = 3

// holder is a platform that performs requests and holds back its responses on one route.
type holder struct {
	http.Handler
	route  string // end of the path; requests are POST
	first  int    // responses that are not held back
	oracle *simulator.Oracle

	arrived chan struct{} // receives a value for each response that is held back; may be nil
	release chan struct{} // closed to release all responses

	mu    sync.Mutex
	given int // responses so far
}

// passes reports whether the current response is one of the first, which are not held back.
func (h *holder) passes() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.given++
	return h.given <= h.first
}

func (h *holder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, h.route) || h.passes() {
		h.Handler.ServeHTTP(w, r)
		return
	}
	done := httptest.NewRecorder()
	h.Handler.ServeHTTP(done, r.WithContext(context.WithoutCancel(r.Context())))
	select {
	case h.arrived <- struct{}{}:
	case <-h.release:
	}
	<-h.release
	for name, values := range done.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(done.Code)
	_, _ = w.Write(done.Body.Bytes())
}

// outageTest is a program with three platforms that hold back their responses to creates, starts and executes
// respectively.
type outageTest struct {
	t         *testing.T
	p         *program
	platforms []*holder
	scenes    []scene
	release   func()
	accepted  sync.WaitGroup
}

func newOutageTest(t *testing.T, o outage, dsn string) *outageTest {
	th := &outageTest{t: t}
	answered, configured := make(chan struct{}), []map[string]any{}
	th.release = sync.OnceFunc(func() { close(answered) })
	for i, route := range []string{"/jobs", "/results", "/execution"} {
		h := &holder{route: route, arrived: make(chan struct{}, held), release: answered}
		protocol, life := "openeo", simulator.Life{Run: time.Second}
		if route == "/execution" {
			platform := &simulator.OGC{Life: life}
			protocol, h.Handler, h.oracle = "ogc-api-processes", platform, &platform.Oracle
		} else {
			platform := &simulator.OpenEO{Life: life, Open: true}
			h.Handler, h.oracle = platform, &platform.Oracle
		}
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		s := crash{ogc: protocol != "openeo"}.scene(t)
		s.job["service"].(map[string]any)["endpoint"] = server.URL
		th.platforms, th.scenes = append(th.platforms, h), append(th.scenes, s)
		configured = append(configured, map[string]any{"name": string(rune('a' + i)), "protocol": protocol,
			"access": "open", "endpoint": server.URL, "limits": map[string]any{"send": o.send}})
	}
	t.Cleanup(th.release) // runs before the servers are closed, which waits for requests
	if th.p = launch(t, released, environment(t, dsn, configured)); th.p.Address == "" {
		t.Fatal("the program does not serve")
	}
	return th
}

// submit submits all jobs. It returns when the platforms have executed the requests of all jobs and hold back all
// responses.
func (th *outageTest) submit() {
	th.t.Helper()
	for _, s := range th.scenes {
		for range held { // the broker responds once the platform has, or with status accepted before
			th.accepted.Go(func() {
				if err := th.p.ask(th.t.Context(), http.MethodPost, "/unit_jobs", "", s.job, nil); err != nil {
					th.t.Errorf("a valid job is rejected: %v", err)
				}
			})
		}
	}
	late := time.After(3 * time.Minute)
	for i, h := range th.platforms {
		for range held {
			select {
			case <-h.arrived:
			case <-late:
				th.t.Fatalf("platform %d did not receive the requests of all jobs: %+v", i, h.oracle.Tally())
			}
		}
	}
}

// healthy requests /health, and returns whether it succeeded and the response time.
func (th *outageTest) healthy() (ok bool, took time.Duration) {
	ctx, cancel := context.WithTimeout(th.t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	err := th.p.ask(ctx, http.MethodGet, "/health", "", nil, nil)
	if err != nil && !strings.Contains(err.Error(), "SERVICE_UNAVAILABLE") {
		th.t.Errorf("/health failed without SERVICE_UNAVAILABLE: %v", err)
	}
	return err == nil, time.Since(began)
}

// answeredWithin is the maximum response time without a database: statements time out after 10 s and /health after 3 s,
// and a busy machine takes longer.
const answeredWithin = 30 * time.Second

// refused sends a client's request and expects it to fail with 503, soon, because the database is unavailable.
func (th *outageTest) refused(method, path string, body any) {
	th.t.Helper()
	began := time.Now()
	err := th.p.ask(th.t.Context(), method, path, "", body, nil)
	if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "503") || took > answeredWithin {
		th.t.Errorf("%s %s after %v: %v", method, path, took, err)
	}
}

// ends waits until all jobs have ended, and compares the database with the events at the platforms.
func (th *outageTest) ends(dsn string) {
	th.t.Helper()
	th.accepted.Wait()
	db := database(th.t, dsn)
	var rows []row
	ended := func() bool {
		rows = rowsOf(th.t, db)
		for _, r := range rows {
			if r.attention == dispatch.SubmissionUnknown {
				th.t.Fatalf("a submission whose response arrived is unknown: %+v", r)
			}
		}
		return !slices.ContainsFunc(rows, func(r row) bool { return r.phase != dispatch.Ended })
	}
	if !until(5*time.Minute, ended) {
		th.t.Fatalf("not all jobs end: %+v", rows)
	}
	for _, r := range rows {
		if r.status != dispatch.Finished || r.ref == "" || r.orphans != "" {
			th.t.Errorf("%+v", r)
		}
	}
	if len(rows) != held*len(th.platforms) {
		th.t.Errorf("%d jobs are stored", len(rows))
	}
	for i, h := range th.platforms {
		if sum := h.oracle.Sum(); sum.Creates != held || sum.Runs != held || sum.Starts != held || sum.Cancels != 0 {
			th.t.Errorf("platform %d: %+v, want each of %d jobs once", i, sum, held)
		}
	}
	if lost := strings.Count(th.p.Log.String(), "database unavailable; further failures"); lost != 1 {
		th.t.Errorf("the outage is logged %d times, want once", lost)
	}
	th.p.stop(th.t)
}

// play makes the database unavailable while responses are held back, releases the responses, and restores the database
// after more than a lease. It returns how long the jobs then took to end.
func (o outage) play(t *testing.T, dsn string, during func(*outageTest), lose, restore func()) time.Duration {
	t.Helper()
	th := newOutageTest(t, o, dsn)
	th.submit()
	lose()
	gone := time.Now()
	th.release()
	during(th)
	<-time.After(time.Until(gone.Add(o.away)))
	restore()
	back := time.Now()
	th.ends(dsn)
	return time.Since(back)
}

// away checks during an outage that /health fails in time and that reading a job is refused.
func away(th *outageTest) {
	if ok, took := th.healthy(); ok || took > answeredWithin {
		th.t.Errorf("/health succeeded: %v, after %v", ok, took)
	}
	for range 3 {
		if ok, _ := th.healthy(); ok {
			th.t.Error("/health succeeded without a database")
		}
	}
	th.refused(http.MethodGet, "/unit_jobs/1", nil)
}

// TestPostgreSQL_Stops stops PostgreSQL immediately (pg_ctl stop -m immediate) during creates, starts and executions.
func TestPostgreSQL_Stops(t *testing.T) {
	t.Parallel()
	s := postgres.NewServer(t)
	took := lasting().play(t, s.URL, func(th *outageTest) {
		away(th)
		th.refused(http.MethodPost, "/unit_jobs", th.scenes[0].job)
	}, func() { s.Stop(t) }, func() { s.Start(t) })
	t.Logf("all had ended %v after the database was back", took)
}

// TestPostgreSQL_Freezes sends SIGSTOP to the whole server. A write may still succeed once the server resumes, so
// clients only read.
func TestPostgreSQL_Freezes(t *testing.T) {
	t.Parallel()
	s := postgres.NewServer(t)
	took := lasting().play(t, s.URL, away, func() { s.Freeze(t) }, func() { s.Thaw(t) })
	t.Logf("all had ended %v after the database was back", took)
}

// TestPostgreSQL_IsUnreachable drops all traffic in both directions without resetting connections.
func TestPostgreSQL_IsUnreachable(t *testing.T) {
	t.Parallel()
	proxy := postgres.NewProxy(t, postgres.NewServer(t).URL)
	took := lasting().play(t, proxy.URL, away, func() { proxy.Silence(true) }, proxy.Resume)
	t.Logf("all had ended %v after the database was back", took)
}

// TestPostgreSQL_IsReadOnly makes the server read-only, like a demoted primary.
func TestPostgreSQL_IsReadOnly(t *testing.T) {
	t.Parallel()
	s := postgres.NewServer(t)
	took := lasting().play(t, s.URL, func(th *outageTest) {
		if ok, _ := th.healthy(); !ok {
			t.Error("/health fails although the database responds")
		}
		if err := th.p.ask(t.Context(), http.MethodGet, "/jobs_status", "", nil, nil); err != nil {
			t.Errorf("stored jobs cannot be read: %v", err)
		}
		th.refused(http.MethodPost, "/unit_jobs", th.scenes[0].job)
	}, func() { s.ReadOnly(t, true) }, func() { s.ReadOnly(t, false) })
	t.Logf("all had ended %v after the database was back", took)
}
