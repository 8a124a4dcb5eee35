package crashes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// crash is one sequence of crash points with the expected outcome. A minute lasts a second in the program, so 15
// minutes of its waiting times take 15 seconds. Leases and requests take their usual time.
type crash struct {
	name string // the crash point and special conditions
	ogc  bool
	dies []string // crash points, each in a new process; the process after the last one survives
	wish wish

	life        simulator.Life
	faults      []simulator.Fault
	sync        bool // the OGC server responds to an execution with the result itself
	alone       bool // the OGC process only runs synchronously
	atLeastOnce bool

	// number of runs at the platform; a maximum if the owner deletes the job before the first crash
	runs   int
	status dispatch.Status // final status; Unknown means that the job is shown as submission_unknown
	inert  bool            // the platform may keep orphans that were created and never started
}

// wish is when the owner deletes the job, if at all.
type wish int

const (
	never  wish = iota
	before      // before the first crash
	after       // after the last crash, as soon as the next process serves
	last        // when the job is at rest; see row.rests
)

const (
	// limits.send, long enough for a busy machine: an OGC job is in doubt after a timeout
	send    = 10 * time.Second
	leased  = send + 15*time.Second // time from a crash until another process may visit the account
	create  = "POST /jobs"
	begin   = "POST /jobs/{id}/results"
	execute = "POST /processes/{id}/execution"
	status  = "GET /jobs/{id}"
)

// stale makes a platform return an old status until shortly before the last poll that can detect the truth.
var stale = simulator.Life{Lag: leased + 15*time.Second}

var slow = simulator.Life{Run: time.Hour}

func once(route string, f simulator.Fault) []simulator.Fault {
	f.Route, f.Times = route, 1
	return []simulator.Fault{f}
}

// crashes lists the crash points of the two-step protocol, E, and of the one-step protocol, P.
var crashes = []crash{
	{name: "E0 before the job is kept", dies: []string{"accept before"}, runs: 1, status: dispatch.Finished},
	{name: "E1 before anybody knows that it is kept", dies: []string{"accept after"}, runs: 1,
		status: dispatch.Finished},
	{name: "E1 before the intent", dies: []string{"intend create before"}, runs: 1, status: dispatch.Finished},
	{name: "E2 intended, not sent", dies: []string{"intend create after"}, runs: 1, status: dispatch.Finished},
	{name: "E2 about to be sent", dies: []string{"create before"}, runs: 1, status: dispatch.Finished},
	{name: "E2 sent", dies: []string{"create sent"}, runs: 1, status: dispatch.Finished},
	{name: "E2 sent and listed late", dies: []string{"create sent"}, life: simulator.Life{Unlisted: leased +
		10*time.Second}, runs: 1, status: dispatch.Finished, inert: true},
	{name: "E2 sent, and again while it is looked for", dies: []string{"create sent", "list after"}, runs: 1,
		status: dispatch.Finished},
	{name: "E3 answered, not read", dies: []string{"create after"}, runs: 1, status: dispatch.Finished},
	{name: "E3 read, not kept", dies: []string{"save created before"}, runs: 1, status: dispatch.Finished},
	{name: "E3 not kept, twice", dies: []string{"save created before", "save created before"}, runs: 1,
		status: dispatch.Finished},
	{name: "E4 kept, start not intended", dies: []string{"intend start before"}, runs: 1, status: dispatch.Finished},
	{name: "E4 created", dies: []string{"create sent", "save created after"}, runs: 1, status: dispatch.Finished},
	{name: "E5 intended, not sent", dies: []string{"intend start after"}, runs: 1, status: dispatch.Finished},
	{name: "E5 about to be sent", dies: []string{"start before"}, runs: 1, status: dispatch.Finished},
	{name: "E5 sent", dies: []string{"start sent"}, runs: 1, status: dispatch.Finished},
	{name: "E5 sent and seen late", dies: []string{"start sent"}, life: stale, runs: 1, status: dispatch.Finished},
	{name: "E5 sent, and again while it is looked at", dies: []string{"start sent", "status after 3"}, life: stale,
		runs: 1, status: dispatch.Finished},
	{name: "E5 taken, answered 502", dies: []string{"save starting before"}, life: stale, runs: 1,
		status: dispatch.Finished,
		faults: once(begin, simulator.Fault{After: true, Status: 502})},
	{name: "E5 taken, cut off", dies: []string{"save starting after"}, life: stale, runs: 1, status: dispatch.Finished,
		faults: once(begin, simulator.Fault{After: true, Cut: true})},
	{name: "E5 not taken, cut off", dies: []string{"save starting before"}, runs: 1, status: dispatch.Finished,
		faults: once(begin, simulator.Fault{Cut: true})},
	{name: "E6 answered, not read", dies: []string{"start after"}, life: stale, runs: 1, status: dispatch.Finished},
	{name: "E6 read, not kept", dies: []string{"save started before"}, life: stale, runs: 1, status: dispatch.Finished},
	{name: "E6 kept", dies: []string{"save started after"}, life: stale, runs: 1, status: dispatch.Finished},
	{name: "E7 token refused at create", dies: []string{"create after"}, runs: 1, status: dispatch.Finished,
		faults: once(create, simulator.Fault{Status: 401, Code: "AuthenticationRequired"})},
	{name: "E7 token refused at start", dies: []string{"save created before"}, runs: 1, status: dispatch.Finished,
		faults: once(begin, simulator.Fault{Status: 403, Code: "TokenInvalid"})},
	{name: "E8 known and not found", dies: []string{"status after"}, runs: 1, status: dispatch.Finished,
		faults: []simulator.Fault{{Route: status, Times: 3, Status: 404, Code: "JobNotFound"}}},
	{name: "E9 too many jobs", dies: []string{"start after"}, runs: 1, status: dispatch.Finished,
		faults: once(begin, simulator.Fault{Status: 400, Code: "ConcurrentJobLimit"})},
	{name: "E9 too many requests", dies: []string{"save created after"}, runs: 1, status: dispatch.Finished,
		faults: once(begin, simulator.Fault{Status: 429, RetryAfter: time.Second})},
	{name: "E9 overloaded at create", dies: []string{"save waiting before"}, runs: 1, status: dispatch.Finished,
		faults: once(create, simulator.Fault{Status: 503, RetryAfter: time.Second})},
	{name: "E10 unwanted before E1", dies: []string{"intend create before"}, wish: after, runs: 0,
		status: dispatch.Canceled},
	{name: "E10 unwanted in E2, not sent", dies: []string{"create before"}, wish: after, runs: 0,
		status: dispatch.Canceled},
	{name: "E10 unwanted in E2, sent", dies: []string{"create sent"}, wish: after, runs: 0, status: dispatch.Canceled},
	{name: "E10 unwanted in E3", dies: []string{"create after"}, wish: after, runs: 0, status: dispatch.Canceled},
	{name: "E10 unwanted in E4", dies: []string{"create sent", "save created after"}, wish: after, runs: 0,
		status: dispatch.Canceled},
	{name: "E10 unwanted in E5, not sent", dies: []string{"start before"}, wish: after, runs: 0,
		status: dispatch.Canceled},
	{name: "E10 unwanted in E5, sent", dies: []string{"start sent"}, life: slow, wish: after, runs: 1,
		status: dispatch.Canceled},
	{name: "E10 unwanted in E6", dies: []string{"save started before"}, life: slow, wish: after, runs: 1,
		status: dispatch.Canceled},
	{name: "E10 unwanted, not kept", dies: []string{"want before"}, life: slow, wish: before, runs: 1,
		status: dispatch.Canceled},
	{name: "E10 unwanted, kept, not notified", dies: []string{"want after"}, life: slow, wish: before, runs: 1,
		status: dispatch.Canceled},
	{name: "E10 cancel not sent", dies: []string{"cancel before"}, life: slow, wish: before, runs: 1,
		status: dispatch.Canceled},
	{name: "E10 cancel sent", dies: []string{"cancel sent"}, life: slow, wish: before, runs: 1,
		status: dispatch.Canceled},
	{name: "E10 cancel answered", dies: []string{"cancel after"}, life: slow, wish: before, runs: 1,
		status: dispatch.Canceled},
	{name: "E10 canceled, not kept", dies: []string{"save ended before"}, life: slow, wish: before, runs: 1,
		status: dispatch.Canceled},
	{name: "E11 end seen, not read", dies: []string{"status after"}, runs: 1, status: dispatch.Finished},
	{name: "E11 end read, not kept", dies: []string{"save ended before"}, runs: 1, status: dispatch.Finished},
	{name: "E11 failure read, not kept", dies: []string{"save ended before"}, life: simulator.Life{Fail: 1}, runs: 1,
		status: dispatch.Failed},
	{name: "E11 end kept", dies: []string{"save ended after"}, runs: 1, status: dispatch.Finished},
	{name: "E11 the visit ends", dies: []string{"release before"}, runs: 1, status: dispatch.Finished},

	{name: "P1 before the intent", ogc: true, dies: []string{"intend create before"}, runs: 1,
		status: dispatch.Finished},
	{name: "P2 intended, not sent", ogc: true, dies: []string{"intend create after"}, runs: 0,
		status: dispatch.Unknown},
	{name: "P2 about to be sent", ogc: true, dies: []string{"execute before"}, runs: 0, status: dispatch.Unknown},
	{name: "P3 sent", ogc: true, dies: []string{"execute sent"}, runs: 1, status: dispatch.Unknown},
	{name: "P3 taken, answered 502", ogc: true, dies: []string{"save creating before"}, runs: 1,
		status: dispatch.Unknown,
		faults: once("POST /processes/{id}/execution", simulator.Fault{After: true, Status: 502})},
	{name: "P3 sent, and again while it is looked for", ogc: true, dies: []string{"execute sent", "list after"},
		runs: 1, status: dispatch.Unknown},
	{name: "P3 sent, and given up", ogc: true, dies: []string{"execute sent"}, wish: last, runs: 1,
		status: dispatch.Canceled},
	{name: "P3 sent, and to be repeated", ogc: true, dies: []string{"execute sent"}, atLeastOnce: true, runs: 2,
		status: dispatch.Finished},
	{name: "P4 answered, not read", ogc: true, dies: []string{"execute after"}, runs: 1, status: dispatch.Unknown},
	{name: "P4 read, not kept", ogc: true, dies: []string{"save started before"}, runs: 1, status: dispatch.Unknown},
	{name: "P4 kept", ogc: true, dies: []string{"save started after"}, runs: 1, status: dispatch.Finished},
	{name: "P5 the result itself, not kept", ogc: true, dies: []string{"save ended before"}, sync: true, runs: 1,
		status: dispatch.Unknown},
	{name: "P5 the result itself, kept", ogc: true, dies: []string{"save ended after"}, sync: true, runs: 1,
		status: dispatch.Finished},
	{name: "P5 a synchronous run, not shown", ogc: true, alone: true, dies: []string{"save creating before"},
		life: slow, runs: 1, status: dispatch.Unknown},
	{name: "P5 a synchronous run, shown", ogc: true, alone: true, dies: []string{"save creating after"}, life: slow,
		runs: 1, status: dispatch.Unknown},
	{name: "P5 a synchronous run, sent", ogc: true, alone: true, dies: []string{"execute sent"}, runs: 1,
		status: dispatch.Unknown},
	{name: "P5 a synchronous run, answered", ogc: true, alone: true, dies: []string{"execute after"}, runs: 1,
		status: dispatch.Unknown},
	{name: "P5 a synchronous run, to be repeated", ogc: true, alone: true, dies: []string{"execute sent"},
		atLeastOnce: true, runs: 2, status: dispatch.Finished},
	{name: "P5 a synchronous run, kept", ogc: true, alone: true, dies: []string{"save ended after"}, runs: 1,
		status: dispatch.Finished},
	{name: "P5 a synchronous run, shown again", ogc: true, alone: true, dies: []string{"save creating after 3"},
		life: slow, runs: 1, status: dispatch.Unknown},
	{name: "P6 no address, not kept", ogc: true, dies: []string{"save started before"}, runs: 1,
		status: dispatch.Unknown, faults: once("POST /processes/{id}/execution", simulator.Fault{After: true,
			Header: map[string]string{"Location": ""}})},
	{name: "P6 no address, kept", ogc: true, dies: []string{"save started after"}, runs: 1, status: dispatch.Finished,
		faults: once("POST /processes/{id}/execution", simulator.Fault{After: true,
			Header: map[string]string{"Location": ""}})},
	{name: "P7 cannot be canceled", ogc: true, dies: []string{"cancel after"}, life: simulator.Life{Run: leased +
		30*time.Second}, wish: before, runs: 1,
		status: dispatch.Finished, faults: []simulator.Fault{{Route: "DELETE /jobs/{id}", Status: 405}}},
}

// TestCrashes crashes the program at every third point, from a random one on: on SQLite, and at every ninth of these
// also on PostgreSQL. With -full, all points run on both, and so do the tests that wait for an hour of the program's
// time. test/histories crashes brokers at every point, in memory.
func TestCrashes(t *testing.T) {
	step, first := 3, rand.IntN(3)
	if *full {
		step, first = 1, 0
	}
	for i, c := range crashes {
		if c.wish == last && !*full || i%step != first {
			continue
		}
		t.Run("SQLite/"+c.name, func(t *testing.T) {
			t.Parallel()
			c.play(t, "sqlite:"+filepath.Join(t.TempDir(), "fire.db"))
		})
		if *full || i%(9*step) == first {
			t.Run("PostgreSQL/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.play(t, postgres.Database(t))
			})
		}
	}
}

// scene is a platform of one test and a job for it.
type scene struct {
	url     string
	handler http.Handler
	oracle  *simulator.Oracle
	job     map[string]any
	path    string // path of its jobs

	setLife func(simulator.Life)
}

// behind serves the scene's platform through another handler, which forwards requests to it.
func (s *scene) behind(t *testing.T, front http.Handler) {
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	s.at(server.URL)
}

// at has the scene's platform addressed by another URL.
func (s *scene) at(url string) {
	s.url = url
	s.job["service"].(map[string]any)["endpoint"] = url
}

func (c crash) scene(t *testing.T) scene {
	var handler http.Handler
	s := scene{path: "/openeo/1.2/jobs"}
	application, label, parameters := "ndvi_composite", "openeo", map[string]any{
		"spatial_extent":  map[string]any{"west": 5.0, "south": 51.2, "east": 5.1, "north": 51.3},
		"temporal_extent": []string{"2026-05-01", "2026-06-01"}}
	if c.ogc {
		platform := &simulator.OGC{Life: c.life, Sync: c.sync}
		platform.Faults.Set(c.faults...)
		handler, s.oracle, s.setLife, s.path = platform, &platform.Oracle, platform.SetLife, "/jobs"
		application, label, parameters = "ndvi", "ogc_api_process",
			map[string]any{"bbox": map[string]any{"bbox": []float64{5, 51.2, 5.1, 51.3}}}
		if c.alone {
			application = "sync-only"
		}
	} else {
		platform := &simulator.OpenEO{Life: c.life, Open: true}
		platform.Faults.Set(c.faults...)
		handler, s.oracle, s.setLife = platform, &platform.Oracle, platform.SetLife
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s.url, s.handler = server.URL, handler
	s.job = map[string]any{"title": "fire", "label": label, "format": "json", "parameters": parameters,
		"service": map[string]any{"endpoint": s.url, "application": application}}
	return s
}

func (c crash) environment(t *testing.T, s scene, dsn string) []string {
	protocol, submit := "openeo", "at_most_once"
	if c.ogc {
		protocol = "ogc-api-processes"
	}
	if c.atLeastOnce {
		submit = "at_least_once"
	}
	return environment(t, dsn, []map[string]any{{"name": "p", "protocol": protocol, "endpoint": s.url, "access": "open",
		"submit": submit,
		"limits": map[string]any{"send": send.String()}}})
}

func (c crash) play(t *testing.T, dsn string) {
	s := c.scene(t)
	environ := c.environment(t, s, dsn)
	owner := &owner{t: t, job: s.job}
	for i, at := range c.dies {
		p := launch(t, mortal, environ, "EODISPATCH_DIE="+at)
		if owner.submit(p) && c.wish == before {
			if !until(3*time.Minute, func() bool { return s.oracle.Sum().Runs > 0 }) {
				t.Fatal("the job does not run")
			}
			owner.delete(p)
		}
		if !p.dies(t, 3*time.Minute) {
			t.Fatalf("process %d exited before the crash point %q", i+1, at)
		}
	}
	p := launch(t, mortal, environ)
	if !owner.submit(p) {
		t.Fatal("the surviving broker does not accept the job")
	}
	if c.wish == before || c.wish == after {
		owner.delete(p)
	}
	unwanted := s.oracle.Sum()
	db := database(t, dsn)
	rest := func() bool {
		rows := rowsOf(t, db)
		return len(rows) > 0 && rows[0].rests()
	}
	if !until(5*time.Minute, rest) {
		t.Fatalf("the job does not come to rest: %+v", rowsOf(t, db))
	}
	if c.wish == last {
		owner.delete(p)
		until(3*time.Minute, func() bool { return rowsOf(t, db)[0].phase == dispatch.Ended })
	}
	if starts := s.oracle.Sum().Starts; c.wish == after && starts > unwanted.Starts && !c.ogc {
		t.Errorf("the job was started after the cancel was confirmed: %d starts, then %d", unwanted.Starts, starts)
	}
	p.stop(t)
	if c.wish == after && c.runs == 0 {
		c.runs = unwanted.Runs // 0, unless the job had begun before the cancel
	}
	c.check(t, s, rowsOf(t, db))
}

// owner submits one job, always with the same idempotency key.
type owner struct {
	t   *testing.T
	job map[string]any
	id  int64
}

// submit reports whether the broker accepted the job.
func (o *owner) submit(p *program) bool {
	if o.id != 0 || p.Address == "" {
		return o.id != 0
	}
	var kept struct{ ID int64 }
	until(3*time.Minute, func() bool { // on a busy machine a request may fail although the program serves
		err := p.ask(o.t.Context(), http.MethodPost, "/unit_jobs", "once", o.job, &kept)
		if err != nil {
			o.t.Log(err)
		}
		return err == nil || p.EndsWithin(time.Second)
	})
	o.id = kept.ID
	return o.id != 0
}

// delete deletes the job. It repeats the request until the broker confirms that the job is deleted, or the program has
// ended.
func (o *owner) delete(p *program) {
	until(3*time.Minute, func() bool {
		ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
		defer cancel()
		err := p.ask(ctx, http.MethodDelete, fmt.Sprintf("/unit_jobs/%d", o.id), "", nil, nil)
		if err != nil {
			o.t.Log(err)
		}
		return err == nil || strings.Contains(err.Error(), "404 Not Found") || p.EndsWithin(time.Second)
	})
}

// check compares the events at the platform with the broker's database.
func (c crash) check(t *testing.T, s scene, rows []row) {
	if len(rows) != 1 {
		t.Fatalf("%d jobs are stored, want 1", len(rows))
	}
	j := rows[0]
	if j.status != c.status {
		t.Errorf("the status is %s, want %s: %+v", j.status, c.status, j)
	}
	if doubt := j.attention == dispatch.SubmissionUnknown; doubt != (c.status == dispatch.Unknown || c.wish == last) {
		t.Errorf("shown as submission_unknown: %v", doubt)
	}
	if runs := s.oracle.Sum().Runs; runs != c.runs {
		t.Errorf("the job ran %d times, want %d", runs, c.runs)
	}
	for tag, count := range s.oracle.Tally().Tags {
		if count.Runs > 1 && !c.ogc {
			t.Errorf("attempt %s ran %d times", tag, count.Runs)
		}
	}
	c.checkListing(t, s, j)
}

// checkListing fails the test if the platform has jobs that the broker does not know.
func (c crash) checkListing(t *testing.T, s scene, j row) {
	var listing struct {
		Jobs []struct {
			ID     string `json:"id"`
			JobID  string `json:"jobID"`
			Status string `json:"status"`
		} `json:"jobs"`
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+s.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json")
	if err := answer(r, &listing); err != nil {
		t.Fatal(err)
	}
	for _, listed := range listing.Jobs {
		id := listed.ID + listed.JobID
		switch {
		case id == j.ref && j.status == dispatch.Canceled && (listed.Status == "running" || listed.Status == "queued"):
			t.Errorf("%s was canceled, but is %s at the platform", id, listed.Status)
		case id != j.ref && j.attention != dispatch.SubmissionUnknown && !c.atLeastOnce &&
			!(c.inert && listed.Status == "created"):
			t.Errorf("the broker does not know %s, which is %s at the platform: %+v", id, listed.Status, j)
		}
	}
}
