package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
	"github.com/eodispatch/eodispatch/visit/engine"
)

const (
	jobsEach  = 20
	freshness = 10 * time.Second
	answered  = 50 * time.Millisecond // response time of the platform
	watchFor  = time.Minute           // after the statuses of every account were read once
)

// BenchmarkPerformanceOfTheRate measures the age of the statuses that many clients watch when the platform's rate limit
// is too low to keep all of them fresh, and whether the broker respects the limit. The platform responds after 50 ms.
func BenchmarkPerformanceOfTheRate(b *testing.B) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table,
		"20 jobs and one client per account\trequests per round\trequests per second: mean, max\tbound\tage of sent "+
			"statuses: p99, max\tratio, aim 1.2\ttime between two reads: p99, max\tratio\tconcurrent call: median, max")
	for _, c := range []crowd{
		{name: "openEO, 1,000 accounts, 50/s, SQLite", protocol: config.OpenEO, accounts: 1000, rate: 50,
			aged: time.Hour, databases: sqlite},
		{name: "openEO, 1,000 accounts, 50/s, PostgreSQL, 2 replicas", protocol: config.OpenEO, accounts: 1000,
			rate: 50, databases: replicas},
		{name: "OGC without listing, 100 accounts, 100/s, SQLite", protocol: config.OGCProcess, accounts: 100,
			rate: 100, aged: time.Hour, databases: sqlite},
	} {
		b.Run(c.name, func(b *testing.B) { fmt.Fprintf(table, "%s\t%s\n", c.name, c.run(b)) })
	}
}

// crowd is a set of users who each watch their jobs at one platform.
type crowd struct {
	name      string
	protocol  config.Protocol
	accounts  int
	rate      int
	aged      time.Duration // age of the jobs when the clients begin to watch
	databases func(*testing.B, dispatch.Clock) []*store.Store
}

// shifted is a clock that a test can advance.
type shifted struct{ by atomic.Int64 }

func (s *shifted) Now() time.Time { return time.Now().Add(time.Duration(s.by.Load())) }

func sqlite(b *testing.B, c dispatch.Clock) []*store.Store {
	return []*store.Store{opened(b, "sqlite:"+filepath.Join(b.TempDir(), "crowd.db"), c)}
}

func replicas(b *testing.B, c dispatch.Clock) []*store.Store {
	url := postgres.Database(b)
	return []*store.Store{opened(b, url, c), opened(b, url, c)}
}

func opened(b *testing.B, dsn string, c dispatch.Clock) *store.Store {
	s, err := store.Open(b.Context(), dsn, c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// measured is a simulated platform that records the times of requests for jobs, and of the last one by each user and
// path.
type measured struct {
	http.Handler
	listing bool

	mu    sync.Mutex
	asked []time.Time
	read  map[string]time.Time
	gaps  []time.Duration
}

func (m *measured) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	jobs := strings.Contains(r.URL.Path, "/jobs")
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/jobs") && !m.listing {
		http.NotFound(w, r)
		return
	}
	if jobs {
		m.note(r.Header.Get("Authorization") + " " + r.URL.Path)
	}
	m.Handler.ServeHTTP(w, r)
}

func (m *measured) note(what string) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, now)
	if before, known := m.read[what]; known {
		m.gaps = append(m.gaps, now.Sub(before))
	}
	m.read[what] = now
}

// begin discards the recorded requests and gaps. It keeps the time of each last read.
func (m *measured) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked, m.gaps = nil, nil
}

// kept returns the requests per second: the mean, and the maximum in any second.
func (m *measured) kept() (mean float64, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.SortFunc(m.asked, time.Time.Compare)
	first := 0
	for i, at := range m.asked {
		for at.Sub(m.asked[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return float64(len(m.asked)-1) / m.asked[len(m.asked)-1].Sub(m.asked[0]).Seconds(), most
}

// bearers accepts every token; its text is the name of the user.
type bearers struct{}

func (bearers) Verify(_ context.Context, token dispatch.Secret) (identity.Caller, error) {
	return identity.Caller{User: dispatch.UserID(token.Reveal())}, nil
}

func (bearers) Token(_ context.Context, a dispatch.Account) (dispatch.Token, error) {
	return dispatch.Token{Secret: dispatch.Secret(a.Identity())}, nil
}

func (bearers) Invalidate(dispatch.Account, dispatch.Token) {}

// replica is one replica of the broker, which runs in the test process.
type replica struct {
	*broker.Broker
	work *engine.Engine
}

func (c crowd) replica(b *testing.B, s *store.Store, endpoint string, pace time.Duration) replica {
	access := config.Platform{Name: "p", Protocol: c.protocol, Endpoint: endpoint, Access: dispatch.AccessUser,
		TokenPrefix: "oidc/sim"}
	access.Limits = config.PlatformLimits{Requests: 8, Send: 30 * time.Second, Rate: config.Pace(pace), Jobs: 1000}
	backends := platforms(&config.Config{Development: true, Platforms: []config.Platform{access}}, nil)
	name, err := s.Installation(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	r := replica{Broker: broker.New(s, dispatch.Setup{Tokens: bearers{}, Backends: backends, Installation: name,
		Log: log})}
	r.work = engine.New(engine.Config{Store: s, Visit: r.Visit, Log: log, OnWake: r.Woken.Signal,
		OnBroadcast: r.HandleBroadcast})
	r.Engine = r.work
	return r
}

// working runs the engines of replicas until stop is called.
func working(b *testing.B, all []replica) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var running sync.WaitGroup
	for _, r := range all {
		running.Go(func() { r.work.Run(ctx) })
	}
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	b.Cleanup(stop)
	return stop
}

func user(i int) dispatch.UserID { return dispatch.UserID("user" + strconv.Itoa(i)) }

// run measures the crowd and returns a row of the table.
func (c crowd) run(b *testing.B) string {
	m, faults := c.platform()
	server := httptest.NewServer(m)
	defer server.Close()
	clock := &shifted{}
	stores := c.databases(b, clock)
	jobs := c.submit(b, c.replica(b, stores[0], server.URL, 0))

	clock.by.Store(int64(c.aged))
	faults.Set(simulator.Fault{Latency: answered})
	m.begin()
	var all []replica
	for _, s := range stores {
		all = append(all, c.replica(b, s, server.URL, time.Second/time.Duration(c.rate)))
	}
	stop := working(b, all)
	round := time.Duration(c.requests()) * time.Second / time.Duration(c.rate)
	ages, calls := c.watch(b, all, jobs, clock, m, round)
	stop()

	bound := max(freshness, round)
	ratio := func(d time.Duration) float64 { return float64(d) / float64(bound) }
	mean, most := m.kept()
	slices.Sort(ages)
	slices.Sort(m.gaps)
	slices.Sort(calls)
	last := func(all []time.Duration) (p99, most time.Duration) {
		return all[len(all)*99/100].Round(10 * time.Millisecond), all[len(all)-1].Round(10 * time.Millisecond)
	}
	age99, oldest := last(ages)
	gap99, longest := last(m.gaps)
	return fmt.Sprintf("%d\t%.1f, %d\t%v\t%v, %v\t%.2f\t%v, %v\t%.2f\t%v, %v", c.requests(), mean, most, bound, age99,
		oldest, ratio(oldest), gap99, longest, ratio(longest), calls[len(calls)/2].Round(time.Millisecond),
		calls[len(calls)-1].Round(time.Millisecond))
}

// requests returns the number of requests that read every status once.
func (c crowd) requests() int {
	if c.protocol == config.OpenEO {
		return c.accounts
	}
	return c.accounts * jobsEach
}

func (c crowd) platform() (*measured, *simulator.Faults) {
	life := simulator.Life{Run: 10 * time.Hour}
	m := &measured{listing: c.protocol == config.OpenEO, read: map[string]time.Time{}}
	if m.listing {
		p := &simulator.OpenEO{Life: life}
		m.Handler = p
		return m, &p.Faults
	}
	p := &simulator.OGC{Life: life, Check: func(token string) (string, error) { return token, nil }}
	m.Handler = p
	return m, &p.Faults
}

// submit starts the jobs of all users at the platform, as fast as possible, and returns the first job of each user.
func (c crowd) submit(b *testing.B, r replica) []dispatch.JobID {
	backend := r.Backends[0]
	service := dispatch.Service{Endpoint: backend.Endpoint, Application: "ndvi_composite"}
	parameters := json.RawMessage(`{"spatial_extent": ` + demoArea + `, "temporal_extent": ` + demoSpan + `}`)
	if c.protocol == config.OGCProcess {
		service.Application, parameters = "ndvi", json.RawMessage(`{"bbox": `+demoBox+`}`)
	}
	body, err := json.Marshal(dispatch.Request{Title: "watched", Label: backend.Label, Format: "json", Service: service,
		Parameters: parameters})
	if err != nil {
		b.Fatal(err)
	}
	base, err := backend.Platform.Base(service)
	if err != nil {
		b.Fatal(err)
	}
	jobs := make([]dispatch.JobID, c.accounts)
	var all sync.WaitGroup
	for part := range 16 {
		all.Go(func() {
			for i := part; i < c.accounts; i += 16 {
				job := dispatch.Job{Identity: dispatch.Identity{Owner: user(i)},
					Target:    dispatch.Target{Account: backend.Account(user(i)), Base: base},
					Wish:      dispatch.Wish{Desired: dispatch.WantRun},
					Handover:  dispatch.Handover{Phase: dispatch.Waiting},
					Condition: dispatch.Condition{Status: dispatch.Accepted}}
				drafts := slices.Repeat([]dispatch.Draft{{Job: job, Body: body}}, jobsEach)
				if err := start(b.Context(), r, drafts); err != nil {
					b.Error(err)
				}
				jobs[i] = drafts[0].ID
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return jobs
}

// start stores jobs and starts them at the platform, as a visit does.
func start(ctx context.Context, r replica, drafts []dispatch.Draft) error {
	if _, err := r.Store.Accept(ctx, dispatch.Key{}, nil, drafts); err != nil {
		return err
	}
	token, err := r.Tokens.Token(ctx, drafts[0].Account)
	if err != nil {
		return err
	}
	jobs := make([]dispatch.Job, len(drafts))
	for i, d := range drafts {
		request, err := r.Visits.Store.Request(ctx, d.ID)
		if err != nil {
			return err
		}
		s := dispatch.Submission{Tag: d.Tag(r.Installation), Request: request}
		for step := (dispatch.SubmitResult{}); !step.Started; s.Ref = step.Ref {
			if step, err = r.Backends[0].Platform.Submit(ctx, token, s); err != nil {
				return err
			}
		}
		jobs[i] = d.Job
		jobs[i].Ref, jobs[i].Phase, jobs[i].Status, jobs[i].Checked = s.Ref, dispatch.Started, dispatch.Submitted,
			d.Created
	}
	saved, err := r.Visits.Store.Save(ctx, jobs)
	if err == nil && len(saved) < len(jobs) {
		err = fmt.Errorf("%d of %d jobs were saved", len(saved), len(jobs))
	}
	return err
}

// watch opens a stream for each user. It returns the age of the oldest status in each message, and the durations of the
// calls that read a job's logs once a second meanwhile. It begins to measure after one and a half rounds, when all
// statuses were read.
func (c crowd) watch(b *testing.B, all []replica, jobs []dispatch.JobID, clock *shifted, m *measured,
	round time.Duration) (ages, calls []time.Duration) {
	ctx, cancel := context.WithCancel(b.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	var mu sync.Mutex
	counts := false
	for part, r := range all {
		a := api.New(api.Config{Broker: r.Broker, Verifier: bearers{}, Log: slog.New(slog.DiscardHandler),
			Freshness: freshness})
		server := httptest.NewServer(a)
		defer server.Close()
		defer a.Close()
		for i := part; i < c.accounts; i += len(all) {
			watching.Go(func() {
				c.read(ctx, b, server.URL, user(i), func(oldest time.Time) {
					mu.Lock()
					defer mu.Unlock()
					if counts {
						ages = append(ages, clock.Now().Sub(oldest))
					}
				})
			})
		}
	}
	begin := time.Now().Add(round * 3 / 2)
	<-time.After(time.Until(begin))
	m.begin()
	mu.Lock()
	counts = true
	mu.Unlock()
	for n := 0; time.Since(begin) < max(watchFor, 2*round); n++ {
		called := time.Now()
		if _, err := all[0].Logs(ctx, user(n%c.accounts), jobs[n%c.accounts]); err != nil &&
			!dispatch.Is(err, dispatch.Unsupported) {
			b.Error(err)
		}
		calls = append(calls, time.Since(called))
		<-time.After(time.Until(called.Add(time.Second)))
	}
	cancel()
	mu.Lock()
	defer mu.Unlock()
	counts = false
	return ages, calls
}

// read reads a user's stream, and calls tell with the time when the oldest status in each message was checked.
func (c crowd) read(ctx context.Context, b *testing.B, address string, u dispatch.UserID, tell func(time.Time)) {
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(address, "http")+"/job_status", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + string(u)}}})
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(-1)
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			if ctx.Err() == nil {
				b.Error(err)
			}
			return
		}
		var said struct {
			Data struct {
				Jobs []struct{ Checked time.Time } `json:"processing_jobs"`
			}
		}
		if err := json.Unmarshal(text, &said); err != nil {
			b.Error(err)
		}
		if len(said.Data.Jobs) != jobsEach {
			continue
		}
		oldest := said.Data.Jobs[0].Checked
		for _, j := range said.Data.Jobs {
			if j.Checked.Before(oldest) {
				oldest = j.Checked
			}
		}
		tell(oldest)
	}
}
