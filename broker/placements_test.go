package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

// site is a platform at which each job runs for the same time.
type site struct {
	run        time.Duration
	parameters []dispatch.Parameter

	mu     sync.Mutex
	down   bool
	bars   bool     // it refuses all jobs
	silent bool     // it does not respond to requests for results
	fails  string   // the message with which jobs fail; "": they finish
	costs  *float64 // what each job costs, in unit; nil: it does not charge
	unit   string
	began  map[string]time.Time // by the tag
	tiles  map[string]int       // how often a job with these parameters was started
	most   int                  // jobs that ran at once
}

func newSite(run time.Duration) *site {
	return &site{run: run, began: map[string]time.Time{}, tiles: map[string]int{}}
}

func (s *site) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (*site) TwoStep() bool                         { return false }
func (*site) Base(dispatch.Service) (string, error) { return "", nil }

func (s *site) Submit(_ context.Context, _ dispatch.Token, sub dispatch.Submission) (dispatch.SubmitResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return dispatch.SubmitResult{}, failure(dispatch.Unavailable)
	}
	if s.bars {
		return dispatch.SubmitResult{}, failure(dispatch.Forbidden)
	}
	s.began[sub.Tag] = time.Now()
	s.tiles[string(sub.Parameters)+" of "+sub.Service.Application]++
	running := 0
	for _, at := range s.began {
		if time.Since(at) < s.run {
			running++
		}
	}
	s.most = max(s.most, running)
	return dispatch.SubmitResult{Ref: dispatch.Ref{ID: sub.Tag}, Started: true}, nil
}

func (s *site) Status(_ context.Context, _ dispatch.Token, ref dispatch.Ref) (dispatch.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch at, known := s.began[ref.ID]; {
	case !known:
		return dispatch.Report{}, failure(dispatch.NotFound)
	case time.Since(at) < s.run:
		return dispatch.Report{Status: dispatch.Running}, nil
	case s.fails != "":
		return dispatch.Report{Status: dispatch.Failed, Message: s.fails, Costs: s.costs, Unit: s.unit}, nil
	}
	return dispatch.Report{Status: dispatch.Finished, Costs: s.costs, Unit: s.unit}, nil
}

func (s *site) Results(ctx context.Context, _ dispatch.Token, _ dispatch.Ref) (json.RawMessage, error) {
	s.mu.Lock()
	silent := s.silent
	s.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, failure(dispatch.Unavailable)
	}
	return json.RawMessage(`{}`), nil
}

func (s *site) Parameters(context.Context, dispatch.Token, dispatch.Service) ([]dispatch.Parameter, error) {
	return s.parameters, nil
}

// jobs returns how many jobs ran, and fails the test if one with the same parameters ran twice.
func (s *site) jobs(t *testing.T) int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for tile, n := range s.tiles {
		if n > 1 {
			t.Errorf("%s was started %d times", tile, n)
		}
	}
	return len(s.tiles)
}

// spreadRequest returns a request for a task at the platforms a and b.
func spreadRequest() dispatch.Request {
	r := request("a")
	r.Parameters = json.RawMessage(`{}`)
	for _, name := range []string{"a", "b"} {
		r.Placements = append(r.Placements, dispatch.Placement{Label: r.Label,
			Service: dispatch.Service{Endpoint: "https://" + name + ".example", Application: "app at " + name}})
	}
	return r
}

// spread runs a test in its own time, with a broker at two platforms that moves jobs between them.
func spread(t *testing.T, a, b *site, slots int, test func(t *testing.T, h *testBroker)) {
	synctest.Test(t, func(t *testing.T) {
		first, second := backend("a", dispatch.AccessShared, a), backend("b", dispatch.AccessShared, b)
		first.Limits.Jobs, second.Limits.Jobs = slots, slots
		h := open(conformance.NewMemStore(clock{}), first, second)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.SpreadTasks(ctx) })
		test(t, h)
		stop()
		running.Wait()
		h.stop()
		if most := max(a.most, b.most); most > slots {
			t.Errorf("%d jobs ran at once at a platform with %d slots", most, slots)
		}
	})
}

func (h *testBroker) acceptSpread(t *testing.T, r dispatch.Request, n int) dispatch.TaskRecord {
	t.Helper()
	task, err := h.AcceptTask(t.Context(), "ann", r, tiles(n), dispatch.Key{})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// awaitTaskEnd waits for a task's end.
func (h *testBroker) awaitTaskEnd(t *testing.T, id dispatch.TaskID, within time.Duration) dispatch.TaskRecord {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(time.Second) {
		task, err := h.Store.Task(t.Context(), "ann", id)
		if err != nil {
			t.Fatal(err)
		}
		if task.Counts.Status().Final() || time.Now().After(end) {
			return task
		}
	}
}

// TestSpread_ByThroughput: of two platforms, one of which is three times as fast, that one gets three quarters of the
// tiles, and no tile runs twice.
func TestSpread_ByThroughput(t *testing.T) {
	detector.Skip(t)
	const tiles = 120
	slow, fast := newSite(6*time.Minute), newSite(2*time.Minute)
	spread(t, slow, fast, 3, func(t *testing.T, h *testBroker) {
		began := time.Now()
		task := h.acceptSpread(t, spreadRequest(), tiles)
		if len(task.Request.Placements) != 2 || task.Request.Placements[1].Account != "b/shared" {
			t.Errorf("placements %+v", task.Request.Placements)
		}
		task = h.awaitTaskEnd(t, task.ID, 10*time.Hour)
		took := time.Since(began)
		a, b := slow.jobs(t), fast.jobs(t)
		if task.Counts[dispatch.Finished] != tiles || a+b != tiles || b < 80 || b > 100 {
			t.Errorf("%v: %d tiles at the slow platform, %d at the fast one", task.Counts, a, b)
		}
		if best := 60 * time.Minute; took > best+best/4 { // 120 tiles, two a minute
			t.Errorf("the task took %v, and %v would do", took, best)
		}
		jobs, err := h.Store.TaskJobs(t.Context(), "ann", task.ID, dispatch.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if at := j.Account.Platform(); j.Request.Service.Application != "app at "+at {
				t.Errorf("job %d ran at %s, and shows the service %s", j.Number, at, j.Request.Service.Application)
			}
		}
	})
}

// TestSpread_StartedLater: a task that was created before it is started runs at all its platforms, too.
func TestSpread_StartedLater(t *testing.T) {
	first, second := newSite(time.Minute), newSite(time.Minute)
	spread(t, first, second, 2, func(t *testing.T, h *testBroker) {
		n, err := h.CreateUnstarted(t.Context(), "ann", "a", true, "", []byte("{}"), dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		d := tiles(12)
		if err := h.Start(t.Context(), n, spreadRequest(), &d); err != nil {
			t.Fatal(err)
		}
		task := h.awaitTaskEnd(t, n.ID.Task, time.Hour)
		if a, b := first.jobs(t), second.jobs(t); task.Counts[dispatch.Finished] != 12 || a+b != 12 || b < 4 {
			t.Errorf("%v: %d jobs at the first platform, %d at the second", task.Counts, a, b)
		}
	})
}

// definedSite is a site whose services are defined elsewhere.
type definedSite struct {
	*site
	text string
}

func (s *definedSite) Document(context.Context, dispatch.Service) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []byte(s.text), nil
}

// TestSpread_ChangedDefinition: that the definition at the second platform has changed is noticed, and shown on the
// task and on the jobs that wait there.
func TestSpread_ChangedDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &definedSite{newSite(time.Hour), "one"}, &definedSite{newSite(time.Hour), "other"}
		first, second := backend("a", dispatch.AccessShared, a), backend("b", dispatch.AccessShared, b)
		first.Limits.Jobs, second.Limits.Jobs = 1, 1
		h := open(conformance.NewMemStore(clock{}), first, second)
		defer h.stop()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go h.SpreadTasks(ctx)
		r := spreadRequest()
		r.Options = json.RawMessage(`{"pin":false}`)
		task := h.acceptSpread(t, r, 10)
		time.Sleep(time.Minute)
		shows := func(want dispatch.Attention) {
			t.Helper()
			h.revalidate(t)
			task, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", task.ID, time.Hour)
			if err != nil || task.Attention != want {
				t.Errorf("the task shows %q, %v, not %q", task.Attention, err, want)
			}
			there := 0
			for _, j := range jobs {
				is := dispatch.None
				if j.Phase == dispatch.Waiting && j.Account.Platform() == "b" {
					is, there = want, there+1
				}
				if j.Attention != is {
					t.Errorf("job %d at %s, %s, shows %q, not %q", j.Number, j.Account, j.Phase, j.Attention, is)
				}
			}
			if there == 0 {
				t.Error("no job waits at the second platform")
			}
		}
		shows(dispatch.None)
		b.set(func() { b.text = "changed" })
		shows(dispatch.ServiceChanged)
		b.set(func() { b.text = "other" })
		shows(dispatch.None)
	})
}

// TestSpread_PlatformDown: the jobs leave a platform that does not respond, and come back when it does.
func TestSpread_PlatformDown(t *testing.T) {
	detector.Skip(t)
	ill, well := newSite(time.Minute), newSite(time.Minute)
	ill.down = true
	spread(t, ill, well, 2, func(t *testing.T, h *testBroker) {
		task := h.acceptSpread(t, spreadRequest(), 60)
		time.Sleep(10 * time.Minute)
		jobs, err := h.Store.TaskJobs(t.Context(), "ann", task.ID, dispatch.Page{})
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, j := range jobs {
			if j.Account != "b/shared" {
				tried++
			}
		}
		if tried > 4 { // which it may be given to see whether it responds again
			t.Errorf("%d jobs are at the platform that does not respond", tried)
		}
		if n := well.jobs(t); n < 15 || ill.jobs(t) != 0 {
			t.Errorf("%d jobs began at the other platform", n)
		}
		ill.set(func() { ill.down = false })
		task = h.awaitTaskEnd(t, task.ID, 3*time.Hour)
		if task.Counts[dispatch.Finished] != 60 || ill.jobs(t) < 5 || ill.jobs(t)+well.jobs(t) != 60 {
			t.Errorf("%v: %d and %d jobs", task.Counts, ill.jobs(t), well.jobs(t))
		}
	})
}

// TestSpread_RetriedElsewhere: a job that failed because of its platform is retried at another one, also if that run
// cost something, and one that failed because of its request is not. Each platform charges in its own unit.
func TestSpread_RetriedElsewhere(t *testing.T) {
	for message, want := range map[string]dispatch.Status{"ExecutorLost: node is gone": dispatch.Finished,
		"invalid parameter": dispatch.Failed} {
		ill, well := newSite(time.Minute), newSite(time.Minute)
		ill.fails = message
		lost, paid := 2.5, 4.0
		ill.costs, ill.unit, well.costs, well.unit = &lost, "credits", &paid, "€"
		spread(t, ill, well, 1, func(t *testing.T, h *testBroker) {
			r := spreadRequest()
			r.Options = json.RawMessage(`{"retries":1}`)
			task := h.awaitTaskEnd(t, h.acceptSpread(t, r, 1).ID, time.Hour)
			if task.Counts.Status() != want || ill.jobs(t) != 1 {
				t.Errorf("%s: %v, %d jobs there", message, task.Counts, ill.jobs(t))
			}
			if elsewhere := well.jobs(t) == 1; elsewhere != (want == dispatch.Finished) {
				t.Errorf("%s: ran at the other platform: %v", message, elsewhere)
			}
			charges, wanted := "", "a: 2.5 credits "
			if want == dispatch.Finished {
				wanted += "b: 4 € "
			}
			usage, err := h.Store.Usage(t.Context(), "ann", time.Hour)
			for _, u := range usage {
				for _, c := range u.Charges {
					charges += fmt.Sprintf("%s: %g %s ", u.Account.Platform(), c.Costs, c.Unit)
				}
			}
			if charges != wanted || err != nil {
				t.Errorf("%s: charged %s, %v", message, charges, err)
			}
		})
	}
}

// TestSpread_PlatformRefuses: a platform that refuses all jobs at once, and so has free slots at any time, gets only a
// few. If the owner retries these they run at the other platform.
func TestSpread_PlatformRefuses(t *testing.T) {
	detector.Skip(t)
	well, strict := newSite(time.Minute), newSite(time.Minute)
	strict.bars = true
	spread(t, well, strict, 2, func(t *testing.T, h *testBroker) {
		task := h.awaitTaskEnd(t, h.acceptSpread(t, spreadRequest(), 40).ID, 5*time.Hour)
		if failed := task.Counts[dispatch.Failed]; failed == 0 || failed > 8 ||
			task.Counts[dispatch.Finished] != 40-failed {
			t.Errorf("%v", task.Counts)
		}
		if _, err := h.RetryTask(t.Context(), "ann", task.ID, dispatch.Choice{}); err != nil {
			t.Fatal(err)
		}
		if task = h.awaitTaskEnd(t, task.ID, time.Hour); task.Counts[dispatch.Failed] > 2 || well.jobs(t) < 38 {
			t.Errorf("after a retry %v", task.Counts)
		}
	})
}

// TestSpread_CanceledEverywhere: a cancel reaches the jobs at each placement.
func TestSpread_CanceledEverywhere(t *testing.T) {
	a, b := newSite(time.Hour), newSite(time.Hour)
	spread(t, a, b, 1, func(t *testing.T, h *testBroker) {
		task := h.acceptSpread(t, spreadRequest(), 6)
		time.Sleep(time.Minute)
		if a.jobs(t) != 1 || b.jobs(t) != 1 {
			t.Fatalf("%d and %d jobs run", a.jobs(t), b.jobs(t))
		}
		is, err := h.CancelTask(t.Context(), "ann", task.ID, dispatch.Choice{})
		if err != nil || is.Counts[dispatch.Canceled] != 4 {
			t.Errorf("%v, %v", is.Counts, err)
		}
	})
}

// TestSpread_Refused: placements that disagree are refused before anything is stored, and one that the user may not use
// is left out.
func TestSpread_Refused(t *testing.T) {
	a, b := newSite(time.Minute), newSite(time.Minute)
	a.parameters, b.parameters = []dispatch.Parameter{{Name: "x", Type: dispatch.Integer}},
		[]dispatch.Parameter{{Name: "x", Type: dispatch.String}}
	spread(t, a, b, 1, func(t *testing.T, h *testBroker) {
		refused := func(r dispatch.Request, place, text string) {
			t.Helper()
			_, err := h.AcceptTask(t.Context(), "ann", r, dispatch.Dimension{Name: "tile",
				Values: []json.RawMessage{json.RawMessage("1")}}, dispatch.Key{})
			wantKind(t, err, dispatch.Invalid)
			if e, ok := err.(*dispatch.Error); !ok || len(e.Faults) != 1 || fmt.Sprint(e.Faults[0].Loc) != place ||
				!strings.Contains(e.Faults[0].Msg, text) {
				t.Errorf("refused with %+v", err)
			}
		}
		refused(spreadRequest(), "[body services 1]",
			`a and b have different parameters: "x" differs in its type (integer, string)`)
		r := spreadRequest()
		r.Placements[1].Service.Endpoint = "https://nowhere.example"
		refused(r, "[body services 1 endpoint]", "not one of the platforms")
		r.Placements[1] = r.Placements[0]
		refused(r, "[body services 1]", "Two of the services are at the platform a")
		r = spreadRequest()
		r.Options = json.RawMessage(`{"budget":5}`)
		refused(r, "[body options budget]", "cannot have a budget")
		if all, err := h.Store.Tasks(t.Context(), "ann", dispatch.Page{}); err != nil || len(all) != 0 {
			t.Errorf("%d tasks are stored, %v", len(all), err)
		}
		h.Backends[0].Entitled = func(context.Context) bool { return false }
		task := h.acceptSpread(t, spreadRequest(), 2)
		if placements := task.Request.Placements; task.Account != "b/shared" ||
			!strings.Contains(placements[0].Unused, "not permitted") || placements[1].Unused != "" {
			t.Errorf("account %s, placements %+v", task.Account, placements)
		}
		if end := h.awaitTaskEnd(t, task.ID, time.Hour); end.Counts[dispatch.Finished] != 2 || a.jobs(t) != 0 {
			t.Errorf("%v, %d jobs at the platform that is not used", end.Counts, a.jobs(t))
		}
	})
}

// TestSpread_NoBudgetByRule: the budget that a rule gives to tasks that have none is none of a task at several
// platforms, which charge in units of their own.
func TestSpread_NoBudgetByRule(t *testing.T) {
	spread(t, newSite(time.Minute), newSite(time.Minute), 2, func(t *testing.T, h *testBroker) {
		h.Policies = []dispatch.Policy{{Applies: func(string, dispatch.Service) bool { return true },
			Budget: dispatch.Budget{Amount: 5}, MaxDuration: time.Hour}}
		task := h.acceptSpread(t, spreadRequest(), 4)
		if task.Budget != (dispatch.Budget{}) || task.Request.Asked().Budget != (dispatch.Budget{}) ||
			task.Request.Asked().MaxDuration != time.Hour {
			t.Errorf("budget %+v, options %s", task.Budget, task.Request.Options)
		}
		if end := h.awaitTaskEnd(t, task.ID, time.Hour); end.Counts[dispatch.Finished] != 4 {
			t.Errorf("%v", end.Counts)
		}
	})
}

// TestSpread_QuotaAtEachPlatform: all jobs are accepted at a platform where the user's quota permits them, and no more
// move to another one than that permits.
func TestSpread_QuotaAtEachPlatform(t *testing.T) {
	a, b := newSite(time.Minute), newSite(time.Minute)
	spread(t, a, b, 10, func(t *testing.T, h *testBroker) {
		h.Backends[0].Quota.Live, h.Backends[1].Quota.Live = 3, 50
		task := h.acceptSpread(t, spreadRequest(), 20)
		if task.Account != "b/shared" {
			t.Errorf("accepted at %s", task.Account)
		}
		for range 20 {
			time.Sleep(3 * time.Second)
			jobs, err := h.Store.TaskJobs(t.Context(), "ann", task.ID, dispatch.Page{})
			if err != nil {
				t.Fatal(err)
			}
			live := 0
			for _, j := range jobs {
				if j.Account == "a/shared" && !j.Status.Final() {
					live++
				}
			}
			if live > 3 {
				t.Fatalf("%d jobs at the platform with a quota of 3", live)
			}
		}
		if end := h.awaitTaskEnd(t, task.ID, time.Hour); end.Counts[dispatch.Finished] != 20 || a.jobs(t) == 0 ||
			a.jobs(t)+b.jobs(t) != 20 {
			t.Errorf("%v: %d and %d jobs", end.Counts, a.jobs(t), b.jobs(t))
		}
		_, err := h.AcceptTask(t.Context(), "ann", spreadRequest(), tiles(60), dispatch.Key{})
		wantKind(t, err, dispatch.LimitReached)
	})
}

// unlinked are the tokens of a user who has linked no account at the platform a.
type unlinked struct{ dispatch.Tokens }

func (u unlinked) Token(ctx context.Context, a dispatch.Account) (dispatch.Token, error) {
	if a.Platform() == "a" {
		return dispatch.Token{}, &dispatch.Error{Kind: dispatch.SignInRequired, Text: "Link your account at a."}
	}
	return u.Tokens.Token(ctx, a)
}

// TestSpread_NoticeOfAMissingSignIn: who must sign in at one of the platforms learns when the task is accepted, and the
// jobs run at the others meanwhile.
func TestSpread_NoticeOfAMissingSignIn(t *testing.T) {
	a, b := newSite(time.Minute), newSite(time.Minute)
	spread(t, a, b, 4, func(t *testing.T, h *testBroker) {
		linked := h.Tokens
		h.Tokens, h.Backends[0].Access = unlinked{linked}, dispatch.AccessUser
		task := h.acceptSpread(t, spreadRequest(), 12)
		if placements := task.Request.Placements; placements[0].Notice != "Link your account at a." ||
			placements[0].Unused != "" || placements[1].Notice != "" {
			t.Errorf("placements %+v", placements)
		}
		time.Sleep(3*time.Minute + 30*time.Second)
		if task, err := h.Store.Task(t.Context(), "ann", task.ID); err != nil || task.Counts[dispatch.Finished] < 10 ||
			a.jobs(t) != 0 {
			t.Errorf("%v, %v, and %d jobs at the platform without a sign-in", task.Counts, err, a.jobs(t))
		}
	})
}
