package histories

import (
	"context"
	"hash/fnv"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/visit/engine"
)

// Processes run in a bubble of testing/synctest, where sleeping takes no real time.

// process is a broker that can die or freeze at any outgoing call. It dies through runtime.Goexit, so that the code
// after the call never runs.
type process struct {
	*broker.Broker
	name string
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	dead     bool
	died     time.Time
	diesAt   int // number of the passage of a store call at which it dies; 0 means never
	napsAt   int // likewise, number of the passage at which it freezes for nap
	nap      time.Duration
	calls    int // number of passages so far: one before and one after each store call
	turns    int // number of visits
	naps     int
	from, to time.Time // period in which it is frozen
}

const installation = "histories"

func (h *history) start(name string) *process {
	ctx, stop := context.WithCancel(context.Background())
	p := &process{name: name, stop: stop, done: make(chan struct{})}
	link := conformance.Link{World: h.world, Process: name, Pass: p.pass}
	store := &storeOf{h.store, h, p}
	e := engine.New(engine.Config{Store: store, Visit: p.visit, Log: slog.New(slog.DiscardHandler)})
	backend := func(name string, access dispatch.Access) *dispatch.Backend {
		return &dispatch.Backend{Name: name, Label: dispatch.OpenEO, Endpoint: "https://" + name + ".example",
			Access:   access,
			Platform: h.platform(link), Limits: h.limits, AtLeastOnce: h.atLeastOnce, StartSettlesAfter: h.settles}
	}
	p.Broker = broker.New(store, dispatch.Setup{
		Engine: e, Tokens: conformance.Tokens{Link: link},
		Backends:     []*dispatch.Backend{backend("p", dispatch.AccessShared), backend("q", dispatch.AccessUser)},
		Installation: installation, Log: slog.New(slog.DiscardHandler), Nonce: h.nonce,
	})
	var spreading sync.WaitGroup
	if h.spread {
		spreading.Go(func() { p.SpreadTasks(ctx) })
	}
	go func() {
		defer close(p.done)
		e.Run(ctx)
		spreading.Wait()
		if !p.killed() {
			p.Drain()
		}
	}()
	return p
}

// visit delays a visit by a time that depends on its account. Otherwise two visits could begin at the same instant, in
// an order that depends on the scheduler.
func (p *process) visit(ctx context.Context, l dispatch.Lease) error {
	f := fnv.New32a()
	io.WriteString(f, string(l.Account))
	time.Sleep(time.Duration(f.Sum32() % uint32(time.Millisecond)))
	return p.Visit(ctx, l)
}

// pass lets a call through. It blocks while the process is frozen, and does not return if it is dead.
func (p *process) pass() {
	p.mu.Lock()
	p.naps++
	d := time.Duration(p.naps) * time.Microsecond
	p.mu.Unlock()
	p.passAfter(d) // so that frozen goroutines continue one after the other
}

func (p *process) passAfter(d time.Duration) {
	p.mu.Lock()
	dead, nap := p.dead, time.Duration(0)
	if now := time.Now(); !now.Before(p.from) && now.Before(p.to) {
		nap = p.to.Sub(now) + d
	}
	p.mu.Unlock()
	if dead {
		runtime.Goexit()
	}
	if nap > 0 {
		time.Sleep(nap)
		p.passAfter(d)
	}
}

// passStore is pass for store calls. It counts them, and lets the process die or freeze at the planned call.
func (p *process) passStore() {
	p.mu.Lock()
	p.calls++
	if p.calls == p.diesAt {
		p.die()
	}
	if p.calls == p.napsAt {
		p.from, p.to = time.Now(), time.Now().Add(p.nap)
	}
	p.mu.Unlock()
	p.pass()
}

// kill lets the process die at its next call.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.die()
}

// spare cancels the planned death and freeze of the process.
func (p *process) spare() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.diesAt, p.napsAt = 0, 0
}

func (p *process) die() {
	p.dead, p.died = true, time.Now()
	p.stop()
}

func (p *process) killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *process) awake() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	return !p.dead && (now.Before(p.from) || !now.Before(p.to))
}

func (p *process) justWoke() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.to) < 10*time.Second
}

func (p *process) visited() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turns
}

// storeOf is the store as a process uses it. It records committed changes in the history. Calls that run beside visits
// are not counted, because the seed does not determine their order.
type storeOf struct {
	conformance.Store
	h *history
	p *process
}

func through[T any](s *storeOf, call func() (T, error)) (t T, err error) {
	s.p.passStore()
	away, lost := s.h.outage.strike()
	if away {
		s.p.passStore()
		return t, unanswered(dispatch.Unavailable)
	}
	t, err = call()
	s.p.passStore()
	if lost {
		var none T
		return none, unanswered(dispatch.Uncertain)
	}
	return t, err
}

func only(s *storeOf, call func() error) error {
	_, err := through(s, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// beside lets a call through that is not counted.
func (s *storeOf) beside() { s.p.passAfter(time.Nanosecond) }

type ctxt = context.Context

func (s *storeOf) Accept(ctx ctxt, k dispatch.Key, t *dispatch.Task, jobs []dispatch.Draft,
	within ...dispatch.Quota) (dispatch.KeyTarget, error) {
	return through(s, func() (dispatch.KeyTarget, error) {
		r, err := s.Store.Accept(ctx, k, t, jobs, within...)
		if err == nil {
			s.h.accepted(s.Store, k, r, jobs)
		}
		return r, err
	})
}

func (s *storeOf) RecordIncludingHidden(ctx ctxt, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	s.beside()
	return s.Store.RecordIncludingHidden(ctx, u, id)
}

func (s *storeOf) Record(ctx ctxt, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	s.beside()
	return s.Store.Record(ctx, u, id)
}

func (s *storeOf) Records(ctx ctxt, u dispatch.UserID, p dispatch.Page) ([]dispatch.Record, error) {
	s.beside()
	return s.Store.Records(ctx, u, p)
}

func (s *storeOf) Request(ctx ctxt, id dispatch.JobID) (dispatch.Request, error) {
	s.beside()
	if s.h.outage.away() {
		return dispatch.Request{}, unanswered(dispatch.Unavailable)
	}
	return s.Store.Request(ctx, id)
}

func (s *storeOf) Cancel(ctx ctxt, u dispatch.UserID, id dispatch.JobID, hide bool) (dispatch.Job, error) {
	return through(s, func() (dispatch.Job, error) {
		j, err := s.Store.Cancel(ctx, u, id, hide)
		s.h.saw("cancel", j, err)
		return j, err
	})
}

func (s *storeOf) MarkAwaited(ctx ctxt, u dispatch.UserID, scope dispatch.Scope, fresh,
	gap time.Duration) ([]dispatch.Account, error) {
	return through(s, func() ([]dispatch.Account, error) { return s.Store.MarkAwaited(ctx, u, scope, fresh, gap) })
}

func (s *storeOf) AnyAwaited(ctx ctxt, u dispatch.UserID, scope dispatch.Scope) (bool, error) {
	s.beside()
	return s.Store.AnyAwaited(ctx, u, scope)
}

func (s *storeOf) Task(ctx ctxt, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	s.beside()
	return s.Store.Task(ctx, u, id)
}

func (s *storeOf) Tasks(ctx ctxt, u dispatch.UserID, p dispatch.Page) ([]dispatch.TaskRecord, error) {
	s.beside()
	return s.Store.Tasks(ctx, u, p)
}

func (s *storeOf) TaskJobs(ctx ctxt, u dispatch.UserID, id dispatch.TaskID, p dispatch.Page) ([]dispatch.Record,
	error) {
	s.beside()
	return s.Store.TaskJobs(ctx, u, id, p)
}

func (s *storeOf) FinishedJobs(ctx ctxt, u dispatch.UserID, id dispatch.TaskID, after dispatch.ResultPosition,
	n int) ([]dispatch.Record, error) {
	s.beside()
	return s.Store.FinishedJobs(ctx, u, id, after, n)
}

func (s *storeOf) CancelTask(ctx ctxt, u dispatch.UserID, id dispatch.TaskID, hide bool) (dispatch.Account, error) {
	return s.changeTask("cancel", id, func() (dispatch.Account, error) { return s.Store.CancelTask(ctx, u, id, hide) })
}

func (s *storeOf) PauseTask(ctx ctxt, u dispatch.UserID, id dispatch.TaskID) (dispatch.Account, error) {
	return s.changeTask("pause", id, func() (dispatch.Account, error) { return s.Store.PauseTask(ctx, u, id) })
}

func (s *storeOf) ResumeTask(ctx ctxt, u dispatch.UserID, id dispatch.TaskID,
	budget *dispatch.Budget) (dispatch.Account, error) {
	return s.changeTask("resume", id, func() (dispatch.Account, error) {
		return s.Store.ResumeTask(ctx, u, id, budget)
	})
}

// changeTask records what a change of a task made of its jobs.
func (s *storeOf) changeTask(what string, id dispatch.TaskID, change func() (dispatch.Account,
	error)) (dispatch.Account, error) {
	return through(s, func() (dispatch.Account, error) {
		a, err := change()
		s.h.sawTask(what, s.Store, id, err)
		return a, err
	})
}

func (s *storeOf) CancelJobs(ctx ctxt, u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice) (a dispatch.Account,
	n int, err error) {
	a, err = s.changeTask("cancel", id, func() (dispatch.Account, error) {
		a, n, err = s.Store.CancelJobs(ctx, u, id, c)
		return a, err
	})
	return a, n, err
}

func (s *storeOf) RetryTask(ctx ctxt, u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice,
	within ...dispatch.Quota) (a dispatch.Account, n int, err error) {
	s.p.passStore()
	a, n, err = s.Store.RetryTask(ctx, u, id, c, within...)
	s.h.sawTask("retry", s.Store, id, err)
	s.p.passStore()
	return a, n, err
}

func (s *storeOf) Dequeue(ctx ctxt, r dispatch.Room, ttl time.Duration) (leases []dispatch.Lease, wait time.Duration,
	err error) {
	s.beside()
	if s.h.outage.away() {
		return nil, 0, unanswered(dispatch.Unavailable)
	}
	leases, wait, err = s.Store.Dequeue(ctx, r, ttl)
	s.beside()
	return leases, wait, err
}

func (s *storeOf) Renew(ctx ctxt, l dispatch.Lease, ttl time.Duration) error {
	return only(s, func() error { return s.Store.Renew(ctx, l, ttl) })
}

func (s *storeOf) Release(ctx ctxt, l dispatch.Lease, wakes int64, due time.Time) error {
	return only(s, func() error { return s.Store.Release(ctx, l, wakes, due) })
}

func (s *storeOf) Agenda(ctx ctxt, a dispatch.Account, n int, stalled time.Duration) (dispatch.Agenda, error) {
	s.p.mu.Lock()
	s.p.turns++
	s.p.mu.Unlock()
	return through(s, func() (dispatch.Agenda, error) { return s.Store.Agenda(ctx, a, n, stalled) })
}

func (s *storeOf) Ready(ctx ctxt, a dispatch.Account, l dispatch.Queue, n int) ([]dispatch.Job, error) {
	return through(s, func() ([]dispatch.Job, error) { return s.Store.Ready(ctx, a, l, n) })
}

func (s *storeOf) Bases(ctx ctxt, a dispatch.Account) ([]string, error) {
	return through(s, func() ([]string, error) { return s.Store.Bases(ctx, a) })
}

func (s *storeOf) Unprepared(ctx ctxt, a dispatch.Account, n int) ([]dispatch.Job, error) {
	return through(s, func() ([]dispatch.Job, error) { return s.Store.Unprepared(ctx, a, n) })
}

func (s *storeOf) RefHolder(ctx ctxt, a dispatch.Account, r dispatch.Ref) (dispatch.JobID, error) {
	return through(s, func() (dispatch.JobID, error) { return s.Store.RefHolder(ctx, a, r) })
}

func (s *storeOf) Load(ctx ctxt, id dispatch.JobID) (dispatch.Job, error) {
	return through(s, func() (dispatch.Job, error) { return s.Store.Load(ctx, id) })
}

func (s *storeOf) Intend(ctx ctxt, l dispatch.Lease, limits dispatch.Limits, jobs []dispatch.Job,
	outcomes ...dispatch.Job) ([]dispatch.Job, error) {
	return through(s, func() ([]dispatch.Job, error) {
		if !s.p.justWoke() { // otherwise the choice may be outdated: it was right when the process read the jobs
			s.h.intending(jobs)
		}
		kept, err := s.Store.Intend(ctx, l, limits, jobs, outcomes...)
		for _, j := range inOrder(outcomes, kept) {
			s.h.saw("save", j, err)
		}
		for _, j := range inOrder(jobs, kept) {
			s.h.saw("intend", j, err)
		}
		s.h.sawBudgets(s.Store, slices.Concat(outcomes, jobs), err)
		return kept, err
	})
}

// inOrder returns those of the given jobs that a store returned, in the order given: the order in which a store returns
// them is not determined.
func inOrder(given, returned []dispatch.Job) (jobs []dispatch.Job) {
	for _, j := range given {
		if i := slices.IndexFunc(returned, func(r dispatch.Job) bool { return r.ID == j.ID }); i >= 0 {
			jobs = append(jobs, returned[i])
		}
	}
	return jobs
}

func (s *storeOf) Save(ctx ctxt, jobs []dispatch.Job, wake ...dispatch.Account) ([]dispatch.Job, error) {
	return through(s, func() ([]dispatch.Job, error) {
		saved, err := s.Store.Save(ctx, jobs, wake...)
		for _, j := range inOrder(jobs, saved) {
			s.h.saw("save", j, err)
		}
		s.h.sawBudgets(s.Store, saved, err)
		return saved, err
	})
}

func (s *storeOf) SpreadTasks(ctx ctxt) ([]dispatch.SpreadTask, error) {
	return through(s, func() ([]dispatch.SpreadTask, error) { return s.Store.SpreadTasks(ctx) })
}

func (s *storeOf) MoveJobs(ctx ctxt, m dispatch.JobMove, within ...dispatch.Quota) (n int, seen int64, err error) {
	n, err = through(s, func() (int, error) {
		n, seen, err = s.Store.MoveJobs(ctx, m, within...)
		s.h.sawMoves(n, m)
		s.h.sawTask("move", s.Store, m.Task, err)
		return n, err
	})
	return n, seen, err
}

func (s *storeOf) Hold(ctx ctxt, a dispatch.Account, d time.Duration, why dispatch.Attention, notice string) error {
	return only(s, func() error { return s.Store.Hold(ctx, a, d, why, notice) })
}

func (s *storeOf) ReserveSendTime(ctx ctxt, a dispatch.SendTimeRequest) (dispatch.SendTime, error) {
	return through(s, func() (dispatch.SendTime, error) { return s.Store.ReserveSendTime(ctx, a) })
}
