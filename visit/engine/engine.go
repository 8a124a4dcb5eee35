package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Config is the configuration of an engine. Store, Visit and Log are required.
type Config struct {
	Store Store
	// Visit does the due work of an account and ends its lease. It starts no new step once its context is done.
	Visit func(context.Context, dispatch.Lease) error
	Log   *slog.Logger

	Notifier Notifier               // to other processes; nil: there is only this process
	OnWake   func(dispatch.Account) // called when another process woke an account that is visited here; may be nil
	// OnBroadcast is called with the jobs saved and the users shown changes by other processes; both nil: any may have
	// changed. It may be nil.
	OnBroadcast func([]dispatch.JobID, []dispatch.UserID)

	Visits int           // concurrent visits; 0: 1,000
	Lease  time.Duration // duration of a new lease until its visit renews it; 0: 45 s

	// Platforms lists the platforms that this process is configured for. They share Visits evenly, with at least 100
	// each, so that a platform that does not answer delays no other. Accounts of other platforms are visited only if no
	// process has served their platform for [Unserved]. If empty, accounts of all platforms are visited.
	Platforms []string
}

// Notifier exchanges notifications between the processes that share a database.
type Notifier interface {
	// Notify sends n to the other processes soon. It does not block, and notifications may be lost.
	Notify(Notification)
	// Run sends and receives until ctx is done. It calls receive with each notification of another process, and with an
	// empty one when some may have been missed.
	Run(ctx context.Context, receive func(Notification))
}

// Notification says what changed in one process that others want to know.
type Notification struct {
	Woken []dispatch.Account `json:"woken,omitempty"`
	Saved []dispatch.JobID   `json:"saved,omitempty"` // jobs whose responses were saved
	Shown []dispatch.UserID  `json:"shown,omitempty"` // users who see something different now
}

func (n Notification) empty() bool { return len(n.Woken)+len(n.Saved)+len(n.Shown) == 0 }

const (
	sweep  = 2 * time.Second // interval of the poll that finds what notifications missed
	repair = time.Second     // delay before retrying Dequeue after the store failed
	// minimum delay between two Dequeues, as when another process won the race for an account
	pause  = 5 * time.Millisecond
	answer = 10 * time.Second // time limit of Dequeue
)

// Engine implements dispatch.Engine: it leases due accounts and runs their visits in this process.
type Engine struct {
	Config
	check chan struct{} // signals that there may be due accounts

	mu      sync.Mutex
	running map[dispatch.Account]int
	visits  sync.WaitGroup

	since    time.Time  // when the store began to answer without failure; used only by Run
	dequeues failureLog // used only by Run
}

var _ dispatch.Engine = (*Engine)(nil)

// New returns an engine. Call Run to start it.
func New(c Config) *Engine {
	if c.Visits == 0 {
		c.Visits = 1000
	}
	if c.Lease == 0 {
		c.Lease = 45 * time.Second
	}
	return &Engine{Config: c, check: make(chan struct{}, 1), running: map[dispatch.Account]int{},
		dequeues: failureLog{log: c.Log, operation: "dequeue"}}
}

// Run starts visits until ctx is done, and returns when the last has ended. Visits run under ctx.
func (e *Engine) Run(ctx context.Context) {
	var hints sync.WaitGroup
	hints.Go(func() { e.noteServedRegularly(ctx) })
	if e.Notifier != nil {
		hints.Go(func() { e.Notifier.Run(ctx, e.receive) })
	}
	e.since = time.Now()
	for ctx.Err() == nil {
		e.wait(ctx, e.startDueVisits(ctx))
	}
	e.visits.Wait()
	hints.Wait()
}

// Wake implements dispatch.Engine. The caller has already notified a visit that runs in this process.
func (e *Engine) Wake(a dispatch.Account) {
	if e.visiting(a) {
		return // the engine dequeues again when the visit ends
	}
	e.Hurry()
	if e.Notifier != nil {
		e.Notifier.Notify(Notification{Woken: []dispatch.Account{a}})
	}
}

// Broadcast implements dispatch.Engine.
func (e *Engine) Broadcast(saved []dispatch.JobID, shown []dispatch.UserID) {
	if e.Notifier != nil {
		e.Notifier.Notify(Notification{Saved: saved, Shown: shown})
	}
}

// receive handles a notification of another process.
func (e *Engine) receive(n Notification) {
	for _, a := range n.Woken {
		if e.OnWake != nil && e.visiting(a) {
			e.OnWake(a)
		}
	}
	if e.OnBroadcast != nil && (n.empty() || len(n.Saved)+len(n.Shown) > 0) {
		e.OnBroadcast(n.Saved, n.Shown)
	}
	if len(n.Woken) > 0 || n.empty() {
		e.Hurry()
	}
}

// Hurry makes this process look for due accounts now; others do within two seconds.
func (e *Engine) Hurry() {
	select {
	case e.check <- struct{}{}:
	default: // it has a signal already
	}
}

func (e *Engine) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(pause, min(d, sweep)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.check:
	case <-ctx.Done():
	}
}

// startDueVisits dequeues due accounts, as many as there is room for, and starts their visits. It returns the time
// until the next Dequeue.
func (e *Engine) startDueVisits(ctx context.Context) time.Duration {
	room, any := e.room()
	if !any {
		return sweep // the end of a visit nudges
	}
	// a Dequeue that is cut off would leave leases without visits
	asking, stop := context.WithTimeout(context.WithoutCancel(ctx), answer)
	defer stop()
	until := time.Now().Add(e.Lease)
	leases, wait, err := e.dequeue(asking, room)
	e.dequeues.record(ctx, err)
	if err != nil {
		e.since = time.Now()
		return repair
	}
	for _, l := range leases {
		if ctx.Err() != nil {
			e.releaseUnused(asking, l)
			continue
		}
		l.Until = until
		e.startVisit(ctx, l)
	}
	return wait
}

// releaseUnused releases a lease that was obtained after ctx was done. The account is due again at once, since no wake
// counts as seen.
func (e *Engine) releaseUnused(ctx context.Context, l dispatch.Lease) {
	const none = -1
	if err := e.Store.Release(ctx, l, none, time.Time{}); err != nil {
		e.Log.WarnContext(ctx, "release failed; the account waits until its lease ends", "account", l.Account, "error",
			err)
	}
}

func (e *Engine) startVisit(ctx context.Context, l dispatch.Lease) {
	e.countVisit(l.Account, 1)
	e.visits.Go(func() {
		err := e.visit(ctx, l)
		switch {
		case err == nil, dispatch.Is(err, dispatch.Conflict):
		case dispatch.DatabaseError(err) != nil: // dequeue, which fails as well, says so for all visits
			e.Log.DebugContext(ctx, "visit failed", "account", l.Account, "error", err)
		default:
			e.Log.WarnContext(ctx, "visit failed", "account", l.Account, "error", err)
		}
		e.countVisit(l.Account, -1)
		e.Hurry() // there is room again, and the account may be due again
	})
}

// visit calls Visit and turns a panic into an error. The account is visited again when its lease has expired.
func (e *Engine) visit(ctx context.Context, l dispatch.Lease) (err error) {
	defer dispatch.RecoverAsError(ctx, e.Log, "visit "+string(l.Account), &err)
	return e.Visit(ctx, l)
}

// dequeue calls Store.Dequeue and turns a panic into an error.
func (e *Engine) dequeue(ctx context.Context, r dispatch.Room) (leases []dispatch.Lease, wait time.Duration,
	err error) {
	defer dispatch.RecoverAsError(ctx, e.Log, "dequeue", &err)
	return e.Store.Dequeue(ctx, r, e.Lease)
}

// countVisit changes the number of visits of an account in this process. It is 2 for a moment when a visit has lost its
// lease and a new one has begun.
func (e *Engine) countVisit(a dispatch.Account, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[a] += n
	if e.running[a] == 0 {
		delete(e.running, a)
	}
}

func (e *Engine) visiting(a dispatch.Account) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running[a] > 0
}
