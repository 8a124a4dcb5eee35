package crashes

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// soak is a set of replicas on one database, with three platforms and users who submit, cancel and delete jobs. Many
// clients watch each user's jobs.
type soak struct {
	t *testing.T
	soaking
	platforms []*place
	environ   []string
	users     []*user
	watchers  []*watcher

	mu   sync.Mutex
	live []*program
}

// soaking is the size of a soak.
type soaking struct {
	crowd, audience int           // number of users, and total number of watchers
	lasts           time.Duration // how long users submit jobs
	pause           time.Duration // average time between two requests of a user
	visit           time.Duration // average lifetime of a watcher's stream
}

var soakFor = flag.Duration("soak", 0, "how long a few users of TestWatchers_SeeEveryEnd submit jobs, such as 1h")

func soakedFor() soaking {
	if *soakFor > 0 {
		return soaking{crowd: 20, audience: 200, lasts: *soakFor, pause: 10 * time.Second, visit: time.Minute}
	}
	if *full {
		return soaking{crowd: 100, audience: 2000, lasts: 4 * time.Minute, pause: 8 * time.Second, visit: time.Minute}
	}
	return soaking{crowd: 10, audience: 100, lasts: 15 * time.Second, pause: 2 * time.Second, visit: 10 * time.Second}
}

// place is a simulated platform.
type place struct {
	name, label string
	url         string
	oracle      *simulator.Oracle
	faults      *simulator.Faults
}

func (p *place) job() map[string]any {
	application, parameters := "ndvi_composite", map[string]any{"temporal_extent": []string{"2026-05-01", "2026-06-01"}}
	if p.label != string(dispatch.OpenEO) {
		application, parameters = "ndvi", map[string]any{}
	}
	name, value := p.area()
	parameters[name] = value
	return map[string]any{"title": "soak", "label": p.label, "format": "json", "parameters": parameters,
		"service": map[string]any{"endpoint": p.url, "application": application}}
}

func (p *place) area() (name string, value any) {
	if p.label == string(dispatch.OpenEO) {
		return "spatial_extent", map[string]any{"west": 5.0, "south": 51.2, "east": 5.1, "north": 51.3}
	}
	return "bbox", map[string]any{"bbox": []float64{5, 51.2, 5.1, 51.3}}
}

// task returns a task of four jobs.
func (p *place) task() map[string]any {
	body := p.job()
	name, value := p.area()
	delete(body["parameters"].(map[string]any), name)
	body["dimension"] = map[string]any{"name": name, "values": []any{value, value, value, value}}
	return body
}

func newSoak(t *testing.T, size soaking) *soak {
	s := &soak{t: t, soaking: size}
	life := simulator.Life{Queue: time.Second, Run: 3 * time.Second, Spread: 0.5, Fail: 0.1}
	one, other := &simulator.OpenEO{Seed: 1, Open: true, Life: life}, &simulator.OpenEO{Seed: 2, Open: true, Life: life}
	third := &simulator.OGC{Seed: 3, Life: life}
	s.platforms = []*place{
		s.place("openeo", dispatch.OpenEO, one, &one.Oracle, &one.Faults),
		s.place("unsteady", dispatch.OpenEO, other, &other.Oracle, &other.Faults),
		s.place("ogc", dispatch.OGCProcess, third, &third.Oracle, &third.Faults),
	}
	var configured []map[string]any
	for _, p := range s.platforms {
		protocol := "openeo"
		if p.label != string(dispatch.OpenEO) {
			protocol = "ogc-api-processes"
		}
		configured = append(configured, map[string]any{"name": p.name, "protocol": protocol, "access": "open",
			"endpoint": p.url,
			"limits":   map[string]any{"jobs": 1000, "requests": 8, "send": "5s"}})
	}
	s.environ = append(environment(t, postgres.Database(t), configured), "GODEBUG=gctrace=1")
	return s
}

// place serves a platform. A received request has its effect even if the broker no longer waits for the response.
func (s *soak) place(name string, label dispatch.Label, h http.Handler, oracle *simulator.Oracle,
	faults *simulator.Faults) *place {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(latency)
		h.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	}))
	s.t.Cleanup(server.Close)
	return &place{name: name, label: string(label), url: server.URL, oracle: oracle, faults: faults}
}

func (s *soak) dsn() string { return strings.TrimPrefix(s.environ[0], "EODISPATCH_DATABASE=") }

// launch starts a replica that clients use.
func (s *soak) launch() *program {
	p := launch(s.t, released, s.environ)
	if p.Address == "" {
		s.t.Fatal("a replica does not serve")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = append(s.live, p)
	return p
}

// kill kills a replica with SIGKILL. Clients use the others from then on.
func (s *soak) kill(p *program) {
	s.mu.Lock()
	for i, q := range s.live {
		if q == p {
			s.live = append(s.live[:i:i], s.live[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	p.Send(s.t, syscall.SIGKILL)
}

// any returns a random live replica.
func (s *soak) any() *program {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[rand.IntN(len(s.live))]
}

// user is a user who submits jobs, and sometimes cancels or deletes one.
type user struct {
	*soak
	name  string
	first int64 // id of the task that clients watch

	mu    sync.Mutex
	token string
	until time.Time
	jobs  []int64
	tasks []int64
}

// signIn returns an access token, which it renews every minute.
func (u *user) signIn() (_ string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Now().After(u.until) {
		u.token, err = token(u.name)
		u.until = time.Now().Add(time.Minute)
	}
	return u.token, err
}

// ask sends a request to a random replica, and repeats it with the same idempotency key until one succeeds or ctx is
// done.
func (u *user) ask(ctx context.Context, method, path string, body, into any) (err error) {
	key := fmt.Sprintf("%s-%x", u.name, rand.Uint64())
	for ctx.Err() == nil {
		var token string
		if token, err = u.signIn(); err != nil {
			return err
		}
		if err = u.any().askAs(ctx, token, method, path, key, body, into); err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return err
}

func (u *user) submit(ctx context.Context, p *place, task bool) {
	path, body := "/unit_jobs", p.job()
	if task {
		path, body = "/upscale_tasks", p.task()
	}
	var kept struct{ ID int64 }
	if err := u.ask(ctx, http.MethodPost, path, body, &kept); err != nil {
		return // the time is over; jobs that were accepted nevertheless are in the list
	}
	if task {
		u.tasks = append(u.tasks, kept.ID)
	} else {
		u.jobs = append(u.jobs, kept.ID)
	}
}

// begin submits the task that clients watch.
func (u *user) begin(ctx context.Context) {
	u.submit(ctx, u.platforms[0], true)
	if len(u.tasks) != 1 {
		u.t.Errorf("%s has no task", u.name)
		return
	}
	u.first = u.tasks[0]
}

// work submits, cancels and deletes jobs until ctx is done.
func (u *user) work(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-time.After(time.Duration(float64(u.pause) * 2 * rand.Float64())):
		case <-ctx.Done():
			return
		}
		switch n := rand.IntN(10); {
		case n == 0 && len(u.jobs) > 0:
			// fails if the job has ended
			_ = u.askOnce(ctx, http.MethodPost, fmt.Sprintf("/unit_jobs/%d/cancel", u.jobs[len(u.jobs)-1]), nil)
		case n == 1 && len(u.jobs) > 0:
			last := len(u.jobs) - 1
			if u.askOnce(ctx, http.MethodDelete, fmt.Sprintf("/unit_jobs/%d", u.jobs[last]), nil) == nil {
				u.jobs = u.jobs[:last]
			}
		default:
			u.submit(ctx, u.platforms[rand.IntN(len(u.platforms))], n < 4)
		}
	}
}

func (u *user) askOnce(ctx context.Context, method, path string, into any) error {
	token, err := u.signIn()
	if err != nil {
		return err
	}
	return u.any().askAs(ctx, token, method, path, "", nil, into)
}

// sees returns the state that GET returns for one of the user's paths.
func (u *user) sees(path string) (shown, error) {
	var data json.RawMessage
	if err := u.askOnce(u.t.Context(), http.MethodGet, path, &data); err != nil {
		return nil, err
	}
	s := shown{}
	return s, s.fold(data)
}

// all returns the states that GET returns for the list and for each task, by path.
func (u *user) all() (map[string]shown, error) {
	list, err := u.sees("/jobs_status")
	if err != nil {
		return nil, err
	}
	all := map[string]shown{"/jobs_status": list}
	for key := range list {
		if id, task := strings.CutPrefix(key, "t"); task {
			path := "/upscale_tasks/" + id
			if all[path], err = u.sees(path); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// mustAll is all, repeated for a minute.
func (u *user) mustAll() (said map[string]shown) {
	u.t.Helper()
	var err error
	if !until(time.Minute, func() bool { said, err = u.all(); return err == nil }) {
		u.t.Fatal(err)
	}
	return said
}

// settle reports whether all of the user's jobs have ended. It cancels jobs whose outcome the broker cannot determine,
// as their messages advise, and returns their number.
func (u *user) settle() (settled bool, doubts int) {
	all, err := u.all()
	if err != nil {
		u.t.Log(err)
		return false, 0
	}
	settled = true
	for _, part := range all {
		for key, text := range part {
			var one struct {
				ID        int64
				Status    dispatch.Status
				Attention struct{ Code dispatch.Attention }
			}
			if err := json.Unmarshal([]byte(text), &one); err != nil {
				u.t.Error(err)
			}
			settled = settled && one.Status.Final()
			doubt := one.Attention.Code == dispatch.InDoubt || one.Attention.Code == dispatch.SubmissionUnknown
			if key[0] == 'j' && doubt && !one.Status.Final() {
				doubts++
				// settle is repeated until this succeeds
				_ = u.askOnce(u.t.Context(), http.MethodPost, fmt.Sprintf("/unit_jobs/%d/cancel", one.ID), nil)
			}
		}
	}
	return settled, doubts
}

// each calls do for every user, up to eight at a time.
func (s *soak) each(do func(*user)) {
	var all sync.WaitGroup
	few := make(chan struct{}, 8)
	for _, u := range s.users {
		all.Go(func() {
			few <- struct{}{}
			defer func() { <-few }()
			do(u)
		})
	}
	all.Wait()
}

// populate creates users with a task each, and distributes the watchers among them. Every fifth watcher of a user
// watches the task, the others the list.
func (s *soak) populate() {
	for i := range s.crowd {
		s.users = append(s.users, &user{soak: s, name: fmt.Sprintf("user-%d", i)})
	}
	s.each(func(u *user) { u.begin(s.t.Context()) })
	for i := range s.audience {
		u := s.users[i%len(s.users)]
		w := &watcher{user: u, path: "/job_status", interval: 10 + 50*(i%2), changes: i/len(s.users)%2 == 1}
		if i/len(s.users)%5 == 4 {
			w.path = fmt.Sprintf("/ws/upscale_tasks/%d", u.first)
		}
		s.watchers = append(s.watchers, w)
	}
}

// TestWatchers_SeeEveryEnd runs two replicas while users submit, cancel and delete jobs, and many clients connect,
// watch and disconnect. One replica is killed and replaced, and a platform fails and recovers. At the end every client
// must have received the state that GET returns, and no job may be lost or have run twice. After all clients have
// disconnected, the surviving replica must have no more goroutines and memory than one that has just started, apart
// from a small tolerance.
func TestWatchers_SeeEveryEnd(t *testing.T) {
	t.Parallel()
	s := newSoak(t, soakedFor())
	survivor, mortal := s.launch(), s.launch()
	s.populate()
	watching, leave := context.WithCancel(t.Context())
	stay := make(chan struct{})
	var watchers, authors sync.WaitGroup
	for _, w := range s.watchers {
		watchers.Go(func() { w.watch(watching, s, stay) })
	}
	working, stop := context.WithTimeout(t.Context(), s.lasts)
	defer stop()
	for _, u := range s.users {
		authors.Go(func() { u.work(working) })
	}
	s.disturb(mortal)
	authors.Wait()
	close(stay)
	s.rest()
	s.agree()
	s.audit()
	leave()
	watchers.Wait()
	s.leavesNothing(survivor)
}

// TestWatchers_SeeWhatAnotherReplicaDid checks that a client that watches at one replica with an interval of an hour
// receives the changes made at another replica.
func TestWatchers_SeeWhatAnotherReplicaDid(t *testing.T) {
	t.Parallel()
	s := newSoak(t, soakedFor())
	here, there := s.launch(), s.launch()
	s.live = []*program{here}
	u := &user{soak: s, name: "user"}
	for _, changes := range []bool{false, true} {
		w := &watcher{user: u, path: "/job_status", interval: 3600, changes: changes, news: make(chan struct{}, 1)}
		ended := make(chan error, 1)
		watching, leave := context.WithCancel(t.Context())
		go func() { ended <- w.stream(watching, there) }()
		w.await(t, func(shown) bool { return true })
		var slowest time.Duration
		for range 5 {
			begin := time.Now()
			u.submit(t.Context(), s.platforms[0], false)
			w.await(t, func(seen shown) bool { return seen.status(u.jobs[len(u.jobs)-1]) != "" })
			slowest = max(slowest, time.Since(begin))
		}
		w.await(t, func(seen shown) bool {
			for _, id := range u.jobs {
				if status := seen.status(id); !status.Final() {
					return false
				}
			}
			return true
		})
		t.Logf("changes: %v: the slowest notification arrived %v after its submission", changes,
			slowest.Round(time.Millisecond))
		leave()
		<-ended
	}
	here.stop(t)
	there.stop(t)
}

// disturb kills a replica, starts another, and makes a platform unavailable for a while.
func (s *soak) disturb(mortal *program) {
	<-time.After(s.lasts / 4)
	if !until(time.Minute, func() bool {
		return slices.ContainsFunc(s.watchers, func(w *watcher) bool { return w.isAt(mortal) })
	}) {
		s.t.Error("no client watches at the replica to be killed")
	}
	s.kill(mortal)
	<-time.After(s.lasts / 8)
	s.launch()
	unsteady := s.platforms[1].faults
	<-time.After(s.lasts / 8)
	unsteady.Set(simulator.Fault{Route: status, Cut: true}, simulator.Fault{Route: "GET /jobs", Cut: true},
		simulator.Fault{Status: http.StatusServiceUnavailable})
	<-time.After(s.lasts / 4)
	unsteady.Set()
}

// rest waits until all jobs have ended.
func (s *soak) rest() {
	s.t.Helper()
	begin, mu, doubts, left := time.Now(), sync.Mutex{}, 0, 0
	resting := func() bool {
		left = 0
		s.each(func(u *user) {
			settled, doubtful := u.settle()
			mu.Lock()
			defer mu.Unlock()
			doubts = max(doubts, doubtful)
			if !settled {
				left++
			}
		})
		return left == 0
	}
	if !until(6*time.Minute, resting) {
		s.t.Errorf("jobs of %d users have not ended", left)
	}
	s.t.Logf("all jobs ended %v after the last submission; jobs in doubt, which were canceled: %d",
		time.Since(begin).Round(time.Second), doubts)
}

// agree waits until every watcher has received the state that GET returns. GET is repeated while they differ: costs of
// jobs that have ended are read for a while after their end.
func (s *soak) agree() {
	s.t.Helper()
	begin := time.Now()
	said := map[*user]map[string]shown{}
	var missing []string
	ok := until(3*time.Minute, func() bool {
		missing = nil
		differ := map[*user]bool{}
		for _, w := range s.watchers {
			path := strings.Replace(strings.Replace(w.path, "/job_status", "/jobs_status", 1), "/ws/", "/", 1)
			if said[w.user] == nil {
				said[w.user] = w.user.mustAll()
			}
			if d := w.differs(said[w.user][path]); d != "" {
				differ[w.user], missing = true, append(missing, w.user.name+": "+d)
			}
		}
		maps.DeleteFunc(said, func(u *user, _ map[string]shown) bool { return differ[u] })
		return len(missing) == 0
	})
	if !ok {
		s.t.Errorf("%d of %d watchers differ from GET, such as %s", len(missing), len(s.watchers), missing[0])
	}
	streams, broken := 0, 0
	for _, w := range s.watchers {
		streams, broken = streams+w.streams, broken+w.broken
	}
	s.t.Logf("%d watchers opened %d streams, of which %d broke; the last was up to date after %v", len(s.watchers),
		streams, broken, time.Since(begin).Round(time.Millisecond))
	if streams < len(s.watchers) || broken == 0 {
		s.t.Error("no watcher lost its stream when a replica was killed")
	}
}

// audit compares the database with the events at the platforms.
func (s *soak) audit() {
	s.t.Helper()
	db := database(s.t, s.dsn())
	var rows []row
	moves := func(r row) bool { return !r.rests() }
	if !until(3*time.Minute, func() bool { // including deleted jobs
		rows = rowsOf(s.t, db)
		return !slices.ContainsFunc(rows, moves)
	}) {
		s.t.Errorf("jobs not at rest: %+v", slices.DeleteFunc(slices.Clone(rows),
			func(r row) bool { return r.rests() }))
	}
	ran, refs := 0, map[string]bool{}
	for _, r := range rows {
		if r.status == dispatch.Finished || r.status == dispatch.Failed {
			ran++
		}
		if refs[r.ref] && r.ref != "" {
			s.t.Errorf("two jobs have the platform id %s", r.ref)
		}
		refs[r.ref] = true
	}
	canceled := len(rows) - ran
	runs, perJob := 0, map[string]int{}
	for _, p := range s.platforms {
		for tag, n := range p.oracle.Tally().Tags {
			runs += n.Runs
			if i := strings.LastIndexByte(tag, '.'); i > 0 { // tags at openEO platforms end with the attempt
				perJob[tag[:i]] += n.Runs
			}
		}
	}
	for job, n := range perJob {
		if n > 1 {
			s.t.Errorf("job %s ran %d times", job, n)
		}
	}
	if runs < ran || runs > ran+canceled {
		s.t.Errorf("of %d jobs, %d finished or failed and %d were canceled, but %d ran at the platforms", len(rows),
			ran, canceled, runs)
	}
	s.t.Logf("%d jobs, of which %d were canceled", len(rows), canceled)
}

// collection matches a line of the garbage collector's trace, with the sizes of the live heap and of the stacks in MB.
var collection = regexp.MustCompile(`(?m)^gc \d+ @.*->(\d+) MB, \d+ MB goal, (\d+) MB stacks`)

// alive sends requests to a program until its garbage collector has run three times, and returns the remaining heap and
// stacks in MB.
func (s *soak) alive(p *program) (heap, stacks int) {
	s.t.Helper()
	const round = "\ngc "
	for before := strings.Count(p.Log.String(), round); strings.Count(p.Log.String(), round) < before+3; {
		s.each(func(u *user) {
			token, err := u.signIn()
			for i := 0; i < 10 && err == nil; i++ {
				err = p.askAs(s.t.Context(), token, http.MethodGet, "/jobs_status", "", nil, nil)
			}
			if err != nil {
				s.t.Error(err)
			}
		})
		if s.t.Failed() {
			s.t.FailNow()
		}
	}
	all := collection.FindAllStringSubmatch(p.Log.String(), -1)
	last := all[len(all)-1]
	heap, _ = strconv.Atoi(last[1]) // cannot fail: matched as digits
	stacks, _ = strconv.Atoi(last[2])
	return heap, stacks
}

// created matches the creator of a goroutine in a dump.
var created = regexp.MustCompile(`(?m)^created by (\S+) in goroutine`)

// goroutines ends a program with SIGQUIT, and counts the goroutines of its dump by creator.
func (s *soak) goroutines(p *program) map[string]int {
	s.t.Helper()
	p.Send(s.t, syscall.SIGQUIT)
	p.dies(s.t, time.Minute)
	_, dump, found := strings.Cut(p.Log.String(), "SIGQUIT: quit")
	if !found {
		s.t.Fatal("the program wrote no goroutine dump")
	}
	count := map[string]int{}
	for _, c := range created.FindAllStringSubmatch(dump, -1) {
		count[c[1]]++
	}
	return count
}

const (
	pooled     = "net/http.(*Transport).dialConn" // idle connections to platforms, which close after a while
	heapBound  = 8                                // MB
	stackBound = 1                                // MB
	passing    = 2                                // tolerance for goroutines that are about to end
)

// connections counts the open client connections of a program in /proc/net/tcp.
func connections(t *testing.T, p *program) (open int) {
	t.Helper()
	address, err := netip.ParseAddrPort(strings.TrimPrefix(p.Address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	// the state of a listening socket, and the inode of a socket that no process has open
	const listening, over = "0A", "0"
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 9 && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", address.Port())) &&
			fields[3] != listening && fields[9] != over {
			open++
		}
	}
	return open
}

// leavesNothing compares the memory and goroutines of a program with those of one that has just started and received
// the same requests.
func (s *soak) leavesNothing(p *program) {
	s.t.Helper()
	fresh := s.launch()
	idleHeap, idleStacks := s.alive(fresh)
	heap, stacks := s.alive(p)
	s.t.Logf("live heap %d MB, stacks %d MB; in a program that has just started %d and %d", heap, stacks, idleHeap,
		idleStacks)
	if heap > idleHeap+heapBound || stacks > idleStacks+stackBound {
		s.t.Error("the program leaks memory")
	}
	http.DefaultClient.CloseIdleConnections()
	if !until(time.Minute, func() bool { return connections(s.t, fresh)+connections(s.t, p) == 0 }) {
		s.t.Error("the programs keep connections open that their clients have closed")
	}
	<-time.After(time.Second) // lets the goroutines of the last connections end
	idle, left := s.goroutines(fresh), s.goroutines(p)
	s.t.Logf("goroutines: %v; in a program that has just started %v", left, idle)
	for by, n := range left {
		if n > idle[by]+passing && by != pooled {
			s.t.Errorf("%d goroutines created by %s are left, in an idle program %d", n, by, idle[by])
		}
	}
}
