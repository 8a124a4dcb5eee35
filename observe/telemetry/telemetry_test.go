package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// get asks the private listener.
func get(t *testing.T, seen *Telemetry, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	seen.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// scrape returns the metrics of the broker, without those of the Go runtime and of the process.
func scrape(t *testing.T, seen *Telemetry) string {
	t.Helper()
	status, body := get(t, seen, "/metrics")
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	return body
}

func expect(t *testing.T, seen *Telemetry, lines ...string) {
	t.Helper()
	body := scrape(t, seen)
	for _, line := range lines {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("%s is not in:\n%s", line, ours(body))
		}
	}
}

// ours returns the lines of the broker's own metrics.
func ours(body string) string {
	return strings.Join(regexp.MustCompile(`(?m)^eodispatch_.*$`).FindAllString(body, -1), "\n")
}

// full returns a Telemetry in which every metric has a value.
func full() *Telemetry {
	seen := New("1.2.3", "")
	account := dispatch.Account("p/https://idp.example/realm ann")
	created := time.Unix(1_000_000, 0)
	seen.RequestServed("/unit_jobs/{id}", "GET", 200, 30*time.Millisecond)
	seen.RequestServed("/job_status", "GET", 101, time.Hour)
	seen.RequestServed("", "BREW", 404, time.Millisecond)
	seen.JobsAccepted("p", 3)
	waits := dispatch.Job{Identity: dispatch.Identity{ID: 4711, Owner: "ann", Created: created},
		Target: dispatch.Target{Account: account}, Handover: dispatch.Handover{Phase: dispatch.Creating}}
	runs := waits
	runs.Phase, runs.Moved = dispatch.Started, created.Add(20*time.Second)
	seen.JobSaved(waits, runs)
	done := runs
	done.Phase, done.Status, done.Moved, done.Costs = dispatch.Ended, dispatch.Finished, created.Add(10*time.Minute),
		new(2.5)
	seen.JobSaved(runs, done)
	lost := waits
	lost.Tries, lost.Attention = 1, dispatch.SubmissionUnknown
	seen.JobSaved(waits, lost)
	seen.RequestEnded("p", "create", time.Second, nil)
	seen.RequestEnded("p", "status", time.Second, &dispatch.Error{Kind: dispatch.Unavailable})
	seen.TokenRequested("p", nil)
	seen.HookTried(true)
	_ = seen.Visits(func(context.Context, dispatch.Lease) error {
		return &dispatch.Error{Kind: dispatch.Conflict}
	})(context.Background(), dispatch.Lease{})
	seen.Observe(Process{Unsaved: func() int { return 7 }, Streams: func() int { return 8 },
		Notifications: func() bool { return true },
		Pools: func() []Pool {
			return []Pool{{Name: "visit", Used: 1, Idle: 2, Max: 8, Waited: 0.25}}
		},
		Refusals:   func() map[string]int64 { return map[string]int64{"graph_bytes": 2} },
		Durability: func() *Durability { return &Durability{Crash: true, Standbys: 2} }})
	seen.stats.keep(dispatch.Stats{Hooks: dispatch.HookStats{Waiting: 12, Oldest: time.Minute, Lag: 2 * time.Second,
		Paused: 3}, Limited: map[dispatch.Attention]int{dispatch.Paused: 2, dispatch.BudgetReached: 1},
		Platforms: []dispatch.PlatformStats{{Platform: "p", Waiting: 5,
			Held: map[dispatch.Status]int{dispatch.Running: 2,
				dispatch.Queued: 1}, Ended: 9,
			Attention: map[dispatch.Attention]int{dispatch.InDoubt: 1},
			Holds:     map[dispatch.Attention]int{dispatch.Full: 1}, Accounts: 2, Oldest: time.Hour,
			Lag: time.Second, Failed: created}}},
		[]*dispatch.Backend{{Name: "p", Limits: dispatch.Limits{Jobs: 4, Pace: 100 * time.Millisecond}}, {Name: "new"}},
		time.Now(), time.Now().Add(time.Hour))
	return seen
}

func TestMetrics_SayWhatHappened(t *testing.T) {
	expect(t, full(),
		`eodispatch_http_requests_total{code="200",method="GET",route="/unit_jobs/{id}"} 1`,
		`eodispatch_http_requests_total{code="101",method="GET",route="/job_status"} 1`,
		`eodispatch_http_requests_total{code="404",method="other",route=""} 1`,
		`eodispatch_http_request_duration_seconds_count{route="/unit_jobs/{id}"} 1`,
		`eodispatch_jobs_accepted_total{platform="p"} 3`,
		`eodispatch_jobs_total{outcome="finished",platform="p"} 1`,
		`eodispatch_job_duration_seconds_sum{phase="wait",platform="p"} 20`,
		`eodispatch_job_duration_seconds_sum{phase="total",platform="p"} 600`,
		`eodispatch_cost_units_total{platform="p"} 2.5`,
		`eodispatch_retries_total{platform="p",reason="submission_unknown"} 1`,
		`eodispatch_platform_requests_total{op="create",outcome="ok",platform="p"} 1`,
		`eodispatch_platform_requests_total{op="status",outcome="unavailable",platform="p"} 1`,
		`eodispatch_tokens_total{outcome="ok",platform="p"} 1`,
		`eodispatch_hook_tries_total{outcome="ok"} 1`,
		`eodispatch_visits_total{outcome="conflict"} 1`,
		`eodispatch_hook_deliveries_waiting 12`,
		`eodispatch_hook_delivery_oldest_seconds 60`,
		`eodispatch_hook_lag_seconds 2`,
		`eodispatch_hooks_paused 3`,
		`eodispatch_tasks_limited{reason="paused"} 2`,
		`eodispatch_tasks_limited{reason="budget_reached"} 1`,
		`eodispatch_lease_held 0`,
		`eodispatch_unsaved_responses 7`,
		`eodispatch_websocket_clients 8`,
		`eodispatch_notifications_connected 1`,
		`eodispatch_db_connections{pool="visit",state="used"} 1`,
		`eodispatch_db_wait_seconds_total{pool="visit"} 0.25`,
		`eodispatch_budget_refusals_total{bound="graph_bytes"} 2`,
		`eodispatch_db_commits_at_risk{event="crash"} 0`,
		`eodispatch_db_commits_at_risk{event="failover"} 1`,
		`eodispatch_db_standbys 2`,
		`eodispatch_jobs{platform="p",status="waiting"} 5`,
		`eodispatch_jobs{platform="p",status="running"} 2`,
		`eodispatch_jobs{platform="p",status="ended"} 9`,
		`eodispatch_jobs{platform="new",status="waiting"} 0`,
		`eodispatch_jobs_attention{attention="submission_in_doubt",platform="p"} 1`,
		`eodispatch_job_waiting_oldest_seconds{platform="p"} 3600`,
		`eodispatch_platform_slots{kind="used",platform="p"} 3`,
		`eodispatch_platform_slots{kind="limit",platform="p"} 8`,
		`eodispatch_platform_up{platform="p"} 0`,
		`eodispatch_platform_holds{platform="p",reason="platform_full"} 1`,
		`eodispatch_platform_rate_limit{platform="p"} 10`,
		`eodispatch_visit_lag_seconds{platform="p"} 1`,
		`eodispatch_ready 0`,
	)
}

// Users, jobs and addresses are no labels: a metric's series must not grow with them, and operators' tools are no place
// for names.
func TestMetrics_NameNoUserAndNoJob(t *testing.T) {
	body := ours(scrape(t, full()))
	for _, secret := range []string{"ann", "4711", "idp.example"} {
		if strings.Contains(body, secret) {
			t.Errorf("%q is in:\n%s", secret, body)
		}
	}
}

func TestMetrics_FollowTheRulesOfPrometheus(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(scrape(t, full()))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, namespace) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestVisits_CountPanics(t *testing.T) {
	seen := New("1", "")
	func() {
		defer func() { _ = recover() }()
		_ = seen.Visits(func(context.Context, dispatch.Lease) error { panic("adapter") })(t.Context(), dispatch.Lease{})
	}()
	expect(t, seen, `eodispatch_visits_total{outcome="panic"} 1`, `eodispatch_lease_held 0`)
}

func TestReady_SaysWhyNot(t *testing.T) {
	seen := New("1", "")
	var database error
	for _, step := range []struct {
		does   func()
		status int
		says   string
	}{
		{func() {}, 503, "not ready: starting\n"},
		{func() { seen.NotReady("the database does not respond") }, 503, "not ready: the database does not respond\n"},
		{func() { seen.Ready(func(context.Context) error { return database }) }, 200, "ready\n"},
		{func() { database = errors.New("gone: password secret") }, 503, "not ready: the database does not respond\n"},
		{func() {
			database = &dispatch.Error{Kind: dispatch.Unavailable, Text: "The database accepts no more connections.",
				Database: true, Err: errors.New("secret")}
		}, 503, "not ready: the database accepts no more connections\n"},
		{func() { database = nil }, 200, "ready\n"},
		{func() { seen.NotReady("stopping") }, 503, "not ready: stopping\n"},
	} {
		step.does()
		if status, body := get(t, seen, "/ready"); status != step.status || body != step.says {
			t.Errorf("%d %q, want %d %q", status, body, step.status, step.says)
		}
		if status, _ := get(t, seen, "/live"); status != 200 {
			t.Errorf("%s: not live: %d", step.says, status)
		}
	}
}

func TestPrivateListener_ServesProfiles(t *testing.T) {
	if status, body := get(t, New("1", ""), "/debug/pprof/goroutine?debug=1"); status != 200 ||
		!strings.Contains(body, "goroutine profile") {
		t.Errorf("%d %s", status, body)
	}
}

// lease is the StatsSource of processes that share a database.
type lease struct {
	mu     sync.Mutex
	holder string
	ends   time.Time
	broken bool
	took   time.Duration
	counts int
}

func (l *lease) Stats(ctx context.Context, process string, d time.Duration) (dispatch.Stats, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	time.Sleep(l.took)
	switch now := time.Now(); {
	case l.broken:
		return dispatch.Stats{}, false, &dispatch.Error{Kind: dispatch.Unavailable}
	case l.holder != process && now.Before(l.ends):
		return dispatch.Stats{}, false, nil
	default:
		l.holder, l.ends = process, now.Add(d)
		l.counts++
		return dispatch.Stats{Platforms: []dispatch.PlatformStats{{Platform: "p", Waiting: 1}}}, true, nil
	}
}

func (l *lease) EndStats(_ context.Context, process string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == process {
		l.ends = time.Time{}
	}
	return nil
}

// Of three processes one shows what the database holds. When it stops, freezes or loses the database, another does, or
// none.
func TestStats_OfOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &lease{}
		var all []*Telemetry
		var stops []context.CancelFunc
		var running sync.WaitGroup
		for range 3 {
			seen := New("1", "")
			ctx, stop := context.WithCancel(t.Context())
			running.Go(func() {
				seen.CollectStats(ctx, shared, []*dispatch.Backend{{Name: "p"}}, slog.New(slog.DiscardHandler))
			})
			all, stops = append(all, seen), append(stops, stop)
			synctest.Wait()
		}
		shows := func() (who []int) {
			for i, seen := range all {
				if strings.Contains(scrape(t, seen), "\neodispatch_jobs{") {
					who = append(who, i)
				}
			}
			return who
		}
		for range 100 {
			if who := shows(); len(who) != 1 || who[0] != 0 {
				t.Fatalf("shown by %v", who)
			}
			time.Sleep(7 * time.Second)
		}
		stops[0]()
		time.Sleep(2 * statsEvery)
		if who := shows(); len(who) != 1 || who[0] == 0 {
			t.Errorf("after the first has stopped, shown by %v", who)
		}
		shared.mu.Lock()
		shared.broken = true
		shared.mu.Unlock()
		time.Sleep(10 * statsEvery)
		if who := shows(); len(who) != 0 {
			t.Errorf("old counts are shown by %v", who)
		}
		stops[1]()
		stops[2]()
		running.Wait()
	})
}

// The larger the database the more seldom it is counted: counting takes at most a hundredth of the time.
func TestStats_TakesLittleOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &lease{took: time.Second}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			New("1", "").CollectStats(ctx, shared, nil, slog.New(slog.DiscardHandler))
		}()
		time.Sleep(10000 * time.Second)
		stop()
		<-done
		if shared.counts > 101 || shared.counts < 90 {
			t.Errorf("%d counts of a second in 10,000 s", shared.counts)
		}
	})
}

// Every metric of the table exists before anything happened, so that rates and alerts see the first increase, or the
// table says when it is absent.
func TestMetrics_OfAnIdleProcess(t *testing.T) {
	document, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	idle := New("1", "")
	idle.Offer([]string{"p", "q"})
	idle.stats.keep(dispatch.Stats{}, []*dispatch.Backend{{Name: "p"}, {Name: "q"}}, time.Now(),
		time.Now().Add(time.Hour))
	idle.Observe(Process{Unsaved: func() int { return 0 }, Streams: func() int { return 0 },
		Pools:    func() []Pool { return []Pool{{Name: "visit"}} },
		Refusals: bounds.Refusals})
	body, walked := scrape(t, idle), 0
	for _, row := range regexp.MustCompile("(?m)^\\| `eodispatch_.*$").FindAllString(string(document), -1) {
		names, _, _ := strings.Cut(row, " | ")
		for _, name := range regexp.MustCompile("eodispatch_[a-z_]+").FindAllString(names, -1) {
			walked++
			present := regexp.MustCompile(`(?m)^` + name + `(_count)?[{ ]`).MatchString(body)
			if absent := strings.Contains(row, "absent "); absent == present {
				t.Errorf("%s: present %t, absent by the document %t", name, present, absent)
			}
		}
	}
	if walked < 35 {
		t.Errorf("the document has %d metrics", walked)
	}
	expect(t, idle, `eodispatch_jobs_total{outcome="failed",platform="q"} 0`,
		`eodispatch_hook_tries_total{outcome="failed"} 0`,
		`eodispatch_jobs_attention{attention="submission_unknown",platform="p"} 0`,
		`eodispatch_platform_holds{platform="q",reason="platform_misconfigured"} 0`,
		`eodispatch_tasks_limited{reason="budget_reached"} 0`,
		`eodispatch_budget_refusals_total{bound="graph_bytes"} 0`,
		`eodispatch_tokens_total{outcome="ok",platform="p"} 0`)
}

// TestMetrics_AreDescribed compares the metrics with docs/operations.md: each is there, and no other.
func TestMetrics_AreDescribed(t *testing.T) {
	document, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(eodispatch_[a-z_]+)`").FindAllStringSubmatch(string(document), -1)
	described := map[string]bool{}
	for _, n := range named {
		described[n[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (eodispatch_\w+) `).FindAllStringSubmatch(scrape(t, full()), -1) {
		if !described[m[1]] {
			t.Errorf("%s is not described", m[1])
		}
		delete(described, m[1])
	}
	for name := range described {
		t.Errorf("%s is described, and does not exist", name)
	}
}
