// Package histories runs random short histories of the broker and checks the promises that hold in all of them.
package histories

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// history is one simulated run of users, processes and platforms with faults.
type history struct {
	t           *testing.T
	seed        uint64
	rand        *rand.Rand
	costs       *rand.Rand // decides about costs, budgets and trials
	began       time.Time
	clock       *clock
	store       conformance.Store
	outage      outage
	world       *conformance.World
	platform    func(conformance.Link) dispatch.Platform
	limits      dispatch.Limits
	atLeastOnce bool
	restored    bool // what the store knew of some runs is lost
	jumps       bool
	twoStep     bool
	settles     time.Duration // see dispatch.Backend.StartSettlesAfter; 0 means learned
	spread      bool          // tasks have two placements

	mu       sync.Mutex
	procs    []*process
	started  int
	keys     int
	jobs     map[dispatch.JobID]dispatch.Job // last committed state
	byKey    map[string]dispatch.JobID       // first job stored under each key
	settled  map[dispatch.JobID]time.Time    // times when cancels were settled
	intended map[dispatch.JobID]time.Time    // times of the last intents
	lives    map[dispatch.JobID][]int        // attempts at which each job was retried

	ownRetries int                          // of jobs that were retried by themselves
	moves      int                          // of jobs to another placement
	movedAt    map[dispatch.JobID]time.Time // when a job came to its account
	leftCosts  map[dispatch.UserID]float64  // of runs of jobs that moved, booked where they ran
	left       map[dispatch.Ref]bool        // runs of attempts that failed before their job moved
	unsure     map[dispatch.JobID]bool      // jobs that were retried although they may have run
	turns      []turn                       // in the order in which slots were assigned
	digest     uint64
	lines      []string
	wrong      []string
	silences   int // how often a platform was recorded as unresponsive
}

// turn is the assignment of a slot to an owner.
type turn struct {
	account dispatch.Account
	owner   dispatch.UserID
}

// clock is the database's clock, which can jump.
type clock struct {
	mu   sync.Mutex
	skew time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.skew).Round(0)
}

func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew += d
}

// trace records an event and adds it to the digest, so that equal histories have equal digests.
func (h *history) trace(format string, args ...any) {
	line := fmt.Sprintf("%12v ", time.Since(h.began)) + fmt.Sprintf(format, args...)
	f := fnv.New64a()
	fmt.Fprint(f, h.digest, line)
	h.digest = f.Sum64()
	h.lines = append(h.lines, line)
}

func (h *history) violated(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf("%12v ", time.Since(h.began))+fmt.Sprintf(format, args...))
}

const (
	busyTime = 15 * time.Minute // time during which users act and faults occur
	patience = 60 * time.Hour   // maximum time until all jobs are at rest
)

// play runs the history of a seed on a store and returns it. It applies the changes before the run.
func play(t *testing.T, seed uint64, open func(dispatch.Clock) (conformance.Store, func()),
	change ...func(*history)) (h *history) {
	synctest.Test(t, func(t *testing.T) {
		h = newHistory(t, seed)
		var closeStore func()
		h.store, closeStore = open(h.clock)
		defer closeStore()
		for _, do := range change {
			do(h)
		}
		h.run()
		h.rest()
		h.check()
		conformance.CheckCounts(t, h.store)
		for _, p := range h.procs {
			p.stop()
			<-p.done
		}
		time.Sleep(time.Hour) // for requests that are still in progress
	})
	return h
}

func newHistory(t *testing.T, seed uint64) *history {
	r := rand.New(rand.NewPCG(seed, 1))
	h := &history{
		t: t, seed: seed, rand: r, costs: rand.New(rand.NewPCG(seed, 2)), began: time.Now(), clock: &clock{},
		jobs: map[dispatch.JobID]dispatch.Job{}, byKey: map[string]dispatch.JobID{},
		leftCosts: map[dispatch.UserID]float64{}, movedAt: map[dispatch.JobID]time.Time{},
		left: map[dispatch.Ref]bool{}, lives: map[dispatch.JobID][]int{}, unsure: map[dispatch.JobID]bool{},
		settled: map[dispatch.JobID]time.Time{}, intended: map[dispatch.JobID]time.Time{},
		limits: dispatch.Limits{Jobs: 1 + r.IntN(4), Requests: 1 + r.IntN(4),
			Pace: time.Duration(50+r.IntN(400)) * time.Millisecond, Send: 30 * time.Second},
		jumps: r.IntN(4) == 0,
	}
	h.world = &conformance.World{
		Seed: seed, Mean: []int{0, 5, 15, 30}[r.IntN(4)], Calm: time.Now().Add(busyTime + 10*time.Minute),
		Slots: r.IntN(4), NoList: r.IntN(5) == 0,
		Violated: func(f string, args ...any) {
			if !h.jumps { // a lease is only as reliable as its clock
				h.locked(func() { h.violated(f, args...) })
			}
		},
		Trace: func(f string, args ...any) { h.locked(func() { h.trace(f, args...) }) },
	}
	if h.costs.IntN(3) > 0 {
		h.world.Costs, h.world.Billing = 1, []time.Duration{0, 5 * time.Minute, 5 * time.Hour}[h.costs.IntN(3)]
	}
	h.choose(r.IntN(6))
	h.atLeastOnce = !h.twoStep && r.IntN(4) == 0
	return h
}

// choose selects the kind of platform: 0 to 2 are one-step platforms, others have two steps.
func (h *history) choose(kind int) {
	switch kind {
	case 0:
		h.platform = func(l conformance.Link) dispatch.Platform { return conformance.OneStep{Link: l} }
	case 1:
		h.platform = func(l conformance.Link) dispatch.Platform {
			return conformance.Echoing{OneStep: conformance.OneStep{Link: l}}
		}
	case 2:
		h.platform = func(l conformance.Link) dispatch.Platform { return conformance.Minimal{Link: l} }
	default:
		h.twoStep, h.world.Limit = true, h.limits.Jobs
		h.platform = func(l conformance.Link) dispatch.Platform { return conformance.TwoStep{Link: l} }
	}
}

func (h *history) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// run performs user actions and faults at random times.
func (h *history) run() {
	h.launch()
	events := 4 + h.rand.IntN(12)
	for range events {
		time.Sleep(time.Duration(h.rand.Int64N(int64(2 * busyTime / time.Duration(events)))))
		h.event()
	}
}

func (h *history) event() {
	switch n := h.rand.IntN(100); {
	case n < 25:
		h.accept(dispatch.Key{})
	case n < 30:
		h.acceptTwice()
	case n < 40:
		h.acceptTask()
	case n < 50:
		h.cancel()
	case n < 55:
		h.remove()
	case n < 58:
		h.onTask((*process).removeTask)
	case n < 59:
		h.onTask((*process).cancelTask)
	case n < 62:
		h.onTask((*process).retryTask)
	case n < 64:
		h.onTask((*process).readTask)
	case n < 66:
		h.onTask((*process).pauseTask)
	case n < 67:
		h.onTask((*process).resumeTask)
	case n < 68:
		h.read()
	case n < 71:
		h.signIn()
	case n < 80:
		h.crash()
	case n < 87:
		h.freeze()
	case n < 91:
		h.stop()
	case n < 94:
		h.away()
	case h.jumps:
		d := time.Duration(h.rand.Int64N(int64(4*time.Hour))) - 2*time.Hour
		h.clock.jump(d)
		h.locked(func() { h.trace("clock %v", d) })
	}
}

// launch starts a process. With a probability of 1/3, it dies at a random call.
func (h *history) launch() *process {
	h.started++
	p := h.start(fmt.Sprintf("process%d", h.started))
	if h.rand.IntN(3) == 0 {
		p.mu.Lock()
		p.diesAt = 1 + h.rand.IntN(150)
		p.mu.Unlock()
	}
	h.procs = append(h.procs, p)
	time.Sleep(10 * time.Millisecond) // lets it start, so that nothing else happens at the same instant
	return p
}

// anyone returns a running process. It starts one if there is none.
func (h *history) anyone() *process {
	for _, p := range h.procs {
		if p.awake() {
			return p
		}
	}
	return h.launch()
}

var users = []dispatch.UserID{"ann", "bob", "cem"}

// someone returns a random user and request. The request is for the platform with a shared account or for the one with
// an account per user, and may have a maximum duration.
func (h *history) someone() (dispatch.UserID, dispatch.Request) {
	r := request()
	r.Service.Endpoint = []string{"https://p.example", "p.example/openeo", "https://Q.example/"}[h.rand.IntN(3)]
	if h.rand.IntN(3) == 0 {
		north := "north"
		r.Service.Namespace = &north
	}
	if h.rand.IntN(4) == 0 {
		r.Options = fmt.Appendf(nil, `{"max_duration":%d}`, 1+h.rand.IntN(900))
	}
	if h.rand.IntN(3) == 0 {
		r.Options = fmt.Appendf(nil, `{"retries":%d}`, 1+h.rand.IntN(3))
	}
	return users[h.rand.IntN(len(users))], r
}

func (h *history) accept(k dispatch.Key) {
	p := h.anyone()
	u, r := h.someone()
	go p.Accept(context.Background(), u, r, k)
}

// request returns a request to the platform with a shared account.
func request() dispatch.Request {
	return dispatch.Request{Title: "a job", Label: dispatch.OpenEO, Format: "json",
		Parameters: json.RawMessage(`{"x":1.50}`),
		Service:    dispatch.Service{Endpoint: "https://p.example", Application: "app"}}
}

// acceptTwice sends a request twice with the same key, so that only one job may be stored.
func (h *history) acceptTwice() {
	h.keys++
	k := dispatch.Key{Text: fmt.Sprint(h.keys), Fingerprint: "same"}
	p := h.anyone()
	u, r := h.someone()
	go p.Accept(context.Background(), u, r, k)
	time.Sleep(time.Duration(h.rand.Int64N(int64(5 * time.Second))))
	p = h.anyone()
	go p.Accept(context.Background(), u, r, k)
}

func (h *history) acceptTask() {
	p := h.anyone()
	u, r := h.someone()
	n, pause := 1+h.rand.IntN(6), time.Duration(0)
	if h.spread {
		n, r.Placements = 3*n, placementsOf(r)
	} else {
		h.limit(&r)
	}
	if h.rand.IntN(3) == 0 {
		pause = time.Duration(1 + h.rand.Int64N(int64(time.Minute)))
	}
	go func() {
		t, err := p.acceptTask(u, r, n)
		if err == nil && pause > 0 {
			time.Sleep(pause)
			p.PauseTask(context.Background(), u, t.ID)
		}
	}()
}

// placementsOf returns both platforms, beginning with that of the request.
func placementsOf(r dispatch.Request) []dispatch.Placement {
	placements := []dispatch.Placement{{Label: r.Label, Service: r.Service}, {Label: r.Label, Service: r.Service}}
	if placements[1].Service.Endpoint = "https://q.example"; strings.HasPrefix(strings.ToLower(r.Service.Endpoint),
		"https://q") {
		placements[1].Service.Endpoint = "https://p.example"
	}
	return placements
}

// acceptTask submits a task of n values.
// limit gives some tasks a budget, some a trial, and some both.
func (h *history) limit(r *dispatch.Request) {
	budget, trial := h.costs.IntN(12), h.costs.IntN(9)
	switch {
	case budget < 6 && budget > 0 && r.Options == nil:
		r.Options = fmt.Appendf(nil, `{"budget":%d.5,"trial":%d}`, budget, max(0, trial-4))
	case trial > 6 && r.Options == nil:
		r.Options = fmt.Appendf(nil, `{"trial":%d}`, trial-5)
	}
}

func (p *process) acceptTask(u dispatch.UserID, r dispatch.Request, n int) (dispatch.TaskRecord, error) {
	d := dispatch.Dimension{Name: "y", Values: make([]json.RawMessage, n)}
	for i := range d.Values {
		d.Values[i] = json.RawMessage("1")
	}
	return p.AcceptTask(context.Background(), u, r, d, dispatch.Key{})
}

// onTask calls do for the task of a random job, if it has one.
func (h *history) onTask(do func(*process, dispatch.UserID, dispatch.TaskID)) {
	p := h.anyone()
	if j, ok := h.some(); ok && j.Task != 0 {
		go do(p, j.Owner, j.Task)
	}
}

func (p *process) removeTask(u dispatch.UserID, id dispatch.TaskID) {
	p.DeleteTask(context.Background(), u, id)
}

func (p *process) cancelTask(u dispatch.UserID, id dispatch.TaskID) {
	p.CancelTask(context.Background(), u, id, dispatch.Choice{})
}

func (p *process) pauseTask(u dispatch.UserID, id dispatch.TaskID) {
	p.PauseTask(context.Background(), u, id)
}

func (p *process) resumeTask(u dispatch.UserID, id dispatch.TaskID) {
	p.ResumeTask(context.Background(), u, id, nil)
}

func (p *process) retryTask(u dispatch.UserID, id dispatch.TaskID) {
	p.RetryTask(context.Background(), u, id, dispatch.Choice{})
}

func (p *process) readTask(u dispatch.UserID, id dispatch.TaskID) {
	conformance.Task(context.Background(), p.Broker, u, id, 10*time.Second)
}

func (h *history) some() (j dispatch.Job, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.jobs) == 0 {
		return j, false
	}
	j, ok = h.jobs[dispatch.JobID(1+h.rand.IntN(len(h.jobs)))]
	return j, ok
}

// cancel cancels a job without hiding it.
func (h *history) cancel() {
	p := h.anyone()
	if j, ok := h.some(); ok {
		go func() {
			if _, err := p.Store.Cancel(context.Background(), j.Owner, j.ID, false); err == nil {
				p.Engine.Wake(j.Account)
			}
		}()
	}
}

func (h *history) remove() {
	p := h.anyone()
	if j, ok := h.some(); ok {
		go p.Delete(context.Background(), j.Owner, j.ID)
	}
}

func (h *history) read() {
	p := h.anyone()
	j, ok := h.some()
	switch {
	case !ok:
	case h.rand.IntN(3) == 0:
		go conformance.Jobs(context.Background(), p.Broker, j.Owner, 10*time.Second)
	default:
		go p.Read(context.Background(), j.Owner, j.ID, 10*time.Second)
	}
}

func (h *history) signIn() {
	p := h.anyone()
	u := users[h.rand.IntN(len(users))]
	go p.HandleSignIn(context.Background(), u, false)
}

// crash kills a process and starts another after a while.
func (h *history) crash() {
	h.anyone().kill()
	time.Sleep(time.Duration(h.rand.Int64N(int64(2 * time.Minute))))
	h.launch()
}

// freeze freezes a process for up to four minutes at a random call, while a second one works.
func (h *history) freeze() {
	p := h.anyone()
	p.mu.Lock()
	p.napsAt, p.nap = p.calls+1+h.rand.IntN(12), time.Duration(h.rand.Int64N(int64(4*time.Minute)))
	p.mu.Unlock()
	h.accept(dispatch.Key{}) // so that there are calls
	time.Sleep(time.Duration(h.rand.Int64N(int64(time.Minute))))
	h.launch()
}

// away makes the store unavailable from a random call on, for 5 s to 10 minutes.
func (h *history) away() {
	lasts := []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute}[h.rand.IntN(3)]
	h.outage.plan(1+h.rand.IntN(12), lasts, h.rand.IntN(2) == 0)
	h.accept(dispatch.Key{}) // so that there are calls
}

// stop shuts a process down in order, and starts the next.
func (h *history) stop() {
	h.anyone().stop()
	time.Sleep(time.Duration(h.rand.Int64N(int64(time.Minute))))
	h.launch()
}

// rest starts a last process, resumes all tasks, and waits until all jobs are at rest.
func (h *history) rest() {
	time.Sleep(time.Minute)
	for _, p := range h.procs { // the last started process must finish what the others left
		p.spare()
	}
	h.procs = append(h.procs, h.start("last"))
	time.Sleep(5 * time.Minute)
	h.checkBudgets()
	h.resumeAll(h.procs[len(h.procs)-1])
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Minute) {
		h.checkVisible()
		if _, rests := h.atRest(); rests {
			return
		}
	}
}

// resumeAll resumes all tasks that are paused, and ends all budgets. It repeats a request that the store did not
// answer.
func (h *history) resumeAll(p *process) {
	owners := map[dispatch.TaskID]dispatch.UserID{}
	h.locked(func() {
		for _, j := range h.jobs {
			if (j.Paused || j.Budgeted) && !j.Hidden {
				owners[j.Task] = j.Owner
			}
		}
	})
	for _, id := range slices.Sorted(maps.Keys(owners)) {
		for {
			_, err := p.ResumeTask(context.Background(), owners[id], id, &dispatch.Budget{})
			if err == nil || dispatch.Is(err, dispatch.NotFound) {
				break
			}
			time.Sleep(time.Minute)
		}
	}
}
