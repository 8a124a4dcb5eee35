package crashes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// book is a proxy in front of a scene's platform. It records the submitted jobs and how many were unfinished at once.
type book struct {
	t     *testing.T
	list  string // URL of the platform's own list of jobs
	front http.Handler

	mu     sync.Mutex
	peak   int      // maximum of unfinished jobs
	titles []string // titles of the jobs, in order of submission
}

// keepBook routes the scene's requests through a book.
func keepBook(t *testing.T, s *scene) *book {
	t.Helper()
	platform, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	b := &book{t: t, list: s.url + s.path + "?limit=1000",
		front: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(platform)
			r.Out.Host = r.In.Host // the host that URLs in responses use
		}}}
	s.behind(t, b)
	return b
}

func (b *book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/jobs") &&
		!strings.HasSuffix(r.URL.Path, "/execution") {
		b.front.ServeHTTP(w, r)
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		b.t.Error(err)
	}
	b.record(text)
	r.Body = io.NopCloser(bytes.NewReader(text))
	b.front.ServeHTTP(w, r)
	b.count()
}

// record appends the title of a submitted job. It is empty with OGC API - Processes, which has no titles.
func (b *book) record(text []byte) {
	var job struct{ Title string }
	if err := json.Unmarshal(text, &job); err != nil {
		b.t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.titles = append(b.titles, job.Title)
}

// count updates the peak of unfinished jobs. It is called after each submission, because their number rises only then.
func (b *book) count() {
	var listing struct{ Jobs []struct{ Status string } }
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.list, nil)
	if err != nil {
		b.t.Error(err)
		return
	}
	r.Header.Set("Accept", "application/json")
	if err := answer(r, &listing); err != nil {
		b.t.Error(err)
	}
	live := 0
	for _, j := range listing.Jobs {
		switch j.Status {
		case "created", "accepted", "queued", "running":
			live++
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peak = max(b.peak, live)
}

func (b *book) order() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.titles)
}

func (b *book) atOnce() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

// TestSlots_JobsLongerThanStalledAfterKeepTheirs checks that jobs keep their slots when they wait and run for several
// times stalled_after, at a platform that also takes longer than that to respond to a submission.
func TestSlots_JobsLongerThanStalledAfterKeepTheirs(t *testing.T) {
	const limit, jobs = 2, 6
	stalled, run, binary := 500*time.Millisecond, 1500*time.Millisecond, mortal // mortal polls more often
	if *full {
		stalled, run, binary = 5*time.Second, 20*time.Second, released
	}
	for _, c := range []crash{{name: "openEO"}, {name: "OGC", ogc: true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			protocol, submission := "openeo", create
			if c.ogc {
				protocol, submission = "ogc-api-processes", "POST /processes/{id}/execution"
			}
			c.life, c.faults = simulator.Life{Run: run}, []simulator.Fault{{Route: submission, Latency: 2 * stalled}}
			s, dsn := c.scene(t), "sqlite:"+filepath.Join(t.TempDir(), "fire.db")
			b := keepBook(t, &s)
			p := launch(t, binary, environment(t, dsn, []map[string]any{
				{"name": "p", "protocol": protocol, "endpoint": s.url, "access": "open",
					"limits": map[string]any{"jobs": limit, "min_poll": "200ms"}}}),
				"EODISPATCH_STALLED_AFTER="+stalled.String())
			s.overMany(jobs)
			if err := p.ask(t.Context(), http.MethodPost, "/upscale_tasks", "", s.job, nil); err != nil {
				t.Fatal(err)
			}
			db := database(t, dsn)
			if !until(5*time.Minute, func() bool { return allAre(t, rowsOf(t, db), dispatch.Finished) }) {
				t.Errorf("not all jobs finish: %+v", rowsOf(t, db))
			}
			if peak := b.atOnce(); peak > limit || peak == 0 {
				t.Errorf("the platform had %d unfinished jobs at once, want 1 to %d", peak, limit)
			}
			if n := s.oracle.Sum(); n.Runs != jobs {
				t.Errorf("at the platform: %+v", n)
			}
			p.stop(t)
		})
	}
}

func allAre(t testing.TB, rows []row, status dispatch.Status) bool {
	t.Helper()
	return !slices.ContainsFunc(rows, func(r row) bool { return r.status != status })
}

// crowd is a set of users who submit jobs to a platform with one slot.
type crowd struct {
	t *testing.T
	s scene
	p *program
}

// member returns the name of a user of the crowd. The names do not sort in the order of arrival.
func member(n int) string { return fmt.Sprintf("user%02d", (n*7)%100) }

// submit submits jobs of a user concurrently, because each request waits some seconds for its job's turn.
func (c crowd) submit(user string, jobs int) *sync.WaitGroup {
	c.t.Helper()
	token, err := token(user)
	if err != nil {
		c.t.Fatal(err)
	}
	job := maps.Clone(c.s.job)
	job["title"] = user
	var all sync.WaitGroup
	for range jobs {
		all.Go(func() {
			if err := c.p.askAs(c.t.Context(), token, http.MethodPost, "/unit_jobs", "", job, nil); err != nil {
				c.t.Error(err)
			}
		})
	}
	return &all
}

// places returns the users of the waiting jobs by queue_position. It reads one user after the other, so while jobs
// still arrive two users may have the same position, of which it returns only one.
func (c crowd) places(users ...string) map[int]string {
	c.t.Helper()
	all := map[int]string{}
	for _, user := range users {
		token, err := token(user)
		if err != nil {
			c.t.Fatal(err)
		}
		var list struct {
			Jobs []struct {
				Position *int `json:"queue_position"`
			} `json:"processing_jobs"`
		}
		if err := c.p.askAs(c.t.Context(), token, http.MethodGet, "/jobs_status", "", nil, &list); err != nil {
			c.t.Fatal(err)
		}
		for _, j := range list.Jobs {
			if j.Position != nil {
				all[*j.Position] = user
			}
		}
	}
	return all
}

// TestTurns_ManyUsersAreServedInTurn lets users with backlogs wait for one slot. It checks that each user is served
// once per round, that a newcomer's job is served next, and that queue_position predicts the order exactly.
func TestTurns_ManyUsersAreServedInTurn(t *testing.T) {
	t.Parallel()
	users, backlog, binary := 6, 2, mortal // mortal polls more often
	if *full {
		// released polls a job 5 s after its start, so 62 jobs in sequence take 310 s
		users, backlog, binary = 20, 3, released
	}
	s, dsn := crash{life: simulator.Life{Run: time.Hour}}.scene(t), "sqlite:"+filepath.Join(t.TempDir(), "fire.db")
	b := keepBook(t, &s)
	c := crowd{t, s, launch(t, binary, environment(t, dsn, []map[string]any{{"name": "p", "protocol": "openeo",
		"endpoint": s.url, "access": "open", "limits": map[string]any{"jobs": 1, "min_poll": "100ms"}}}))}
	submitted := func(n int) func() bool { return func() bool { return len(b.order()) >= n } }
	c.submit("alice", 1).Wait()
	if !until(time.Minute, submitted(1)) {
		t.Fatal("no job takes the slot")
	}
	var names []string
	for n := range users {
		names = append(names, member(n))
		defer c.submit(member(n), backlog).Wait()
	}
	var places map[int]string
	if !until(2*time.Minute, func() bool { places = c.places(names...); return len(places) == users*backlog }) {
		t.Fatalf("%d of %d jobs have a queue position: %v", len(places), users*backlog, places)
	}

	s.setLife(simulator.Life{})
	if err := c.p.ask(t.Context(), http.MethodDelete, "/unit_jobs/1", "", nil, nil); err != nil {
		t.Fatal(err)
	}
	if !until(5*time.Minute, submitted(2+users)) {
		t.Fatal("the first round does not end")
	}
	db := database(t, dsn)
	known := rowsOf(t, db)
	last := known[len(known)-1].id
	defer c.submit("newcomer", 1).Wait()
	if !until(2*time.Minute, func() bool { all := rowsOf(t, db); return all[len(all)-1].id > last }) {
		t.Fatal("the newcomer's job is not accepted")
	}
	came := len(b.order())
	if !until(5*time.Minute, submitted(2+users*backlog)) {
		t.Fatalf("%d of %d jobs were submitted", len(b.order()), 2+users*backlog)
	}

	checkTurns(t, b.order()[1:], came, users, places)
	c.p.stop(t)
}

// checkTurns checks that users were served in the order of queue_position, each user once per round, and the newcomer
// next after the jobs that were submitted before it, of which there are came.
func checkTurns(t *testing.T, order []string, came, users int, places map[int]string) {
	t.Helper()
	var served []string
	for i, title := range order {
		switch name, _, _ := strings.Cut(title, " "); {
		case name != "newcomer":
			served = append(served, name)
		case i > came: // one submission may have been in progress
			t.Errorf("the newcomer arrived after %d jobs and was served after %d", came, i)
		}
	}
	for i, name := range served {
		if places[i] != name {
			t.Errorf("position %d was shown to %s, but %s was served", i, places[i], name)
		}
	}
	for round := range slices.Chunk(served, users) {
		if slices.Sort(round); len(slices.Compact(round)) < users {
			t.Errorf("a user is served twice in one round: %v", round)
		}
	}
}
