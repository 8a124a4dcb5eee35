// Package engine decides when accounts are visited. The account rows are the queue: whoever takes a lease by
// Store.Dequeue visits. Notifier and planned times say when to look; a look every other second finds what they missed, so
// they may be lost. One process or many, all do the same.
package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Config is what an engine needs; Store, Visit and Log.
type Config struct {
	Store dispatch.Store
	// Visit does what is due for an account and ends its lease. It begins nothing more once its context is done.
	Visit func(context.Context, dispatch.Lease) error
	Log   *slog.Logger

	Notifier Notifier               // between processes; nil: there is one process
	Woken    func(dispatch.Account) // another process woke an account that is visited here; may be nil
	// Heard is a dispatch.Broker's; may be nil.
	Heard func([]dispatch.JobID, []dispatch.UserID)

	Visits int           // at once; 0: 1,000
	Lease  time.Duration // of a new visit, until it renews; 0: 45 s

	// Platforms that this process knows. They share Visits evenly, with at least 100 each, so that one that does not answer
	// delays no other. Accounts of other platforms are visited only when no process has served their platform for
	// [Unserved]. None: accounts of all platforms are visited.
	Platforms []string
}

// Notifier carry news between the processes that share a database.
type Notifier interface {
	// Tell tells the other processes, soon. It does not wait, and news may be lost.
	Notify(Notification)
	// Run sends and receives until ctx is done. It calls hear for the news of others, and with no news when some may
	// have been missed.
	Run(ctx context.Context, hear func(Notification))
}

// Notification is what processes tell each other.
type Notification struct {
	Woken []dispatch.Account `json:"woken,omitempty"`
	Saved []dispatch.JobID   `json:"saved,omitempty"` // answers about these jobs
	Shown []dispatch.UserID  `json:"shown,omitempty"` // what these see has changed
}

func (n Notification) empty() bool { return len(n.Woken)+len(n.Saved)+len(n.Shown) == 0 }

const (
	sweep  = 2 * time.Second      // between two looks for what hints missed
	repair = time.Second          // until the store is asked again that did not answer
	pause  = 5 * time.Millisecond // between two looks at least, when another process is just taking what is due
	answer = 10 * time.Second     // how long the store may take to give out accounts
)

// Engine is a dispatch.Engine.
type Engine struct {
	Config
	look chan struct{} // there may be something to do

	mu      sync.Mutex
	running map[dispatch.Account]int
	visits  sync.WaitGroup

	since    time.Time // since when the store has answered; belongs to Run
	dequeues trouble   // likewise
}

var _ dispatch.Engine = (*Engine)(nil)

// New returns an engine that does nothing yet.
func New(c Config) *Engine {
	if c.Visits == 0 {
		c.Visits = 1000
	}
	if c.Lease == 0 {
		c.Lease = 45 * time.Second
	}
	return &Engine{Config: c, look: make(chan struct{}, 1), running: map[dispatch.Account]int{}, dequeues: trouble{log: c.Log, of: "dequeue"}}
}

// Run begins visits until ctx is done, and returns when the last has ended. Visits see ctx.
func (e *Engine) Run(ctx context.Context) {
	var hints sync.WaitGroup
	if e.Notifier != nil {
		hints.Go(func() { e.Notifier.Run(ctx, e.hear) })
		hints.Go(func() { e.serve(ctx) })
	}
	e.since = time.Now()
	for ctx.Err() == nil {
		e.wait(ctx, e.take(ctx))
	}
	e.visits.Wait()
	hints.Wait()
}

// Wake is a dispatch.Engine's. A visit that runs here was told by whoever calls this.
func (e *Engine) Wake(a dispatch.Account) {
	if e.visiting(a) {
		return // the end of the visit looks
	}
	e.nudge()
	if e.Notifier != nil {
		e.Notifier.Notify(Notification{Woken: []dispatch.Account{a}})
	}
}

// Tell is a dispatch.Engine's.
func (e *Engine) Tell(saved []dispatch.JobID, shown []dispatch.UserID) {
	if e.Notifier != nil {
		e.Notifier.Notify(Notification{Saved: saved, Shown: shown})
	}
}

// hear takes the news of another process.
func (e *Engine) hear(n Notification) {
	for _, a := range n.Woken {
		if e.Woken != nil && e.visiting(a) {
			e.Woken(a)
		}
	}
	if e.Heard != nil && (n.empty() || len(n.Saved)+len(n.Shown) > 0) {
		e.Heard(n.Saved, n.Shown)
	}
	if len(n.Woken) > 0 || n.empty() {
		e.nudge()
	}
}

func (e *Engine) nudge() {
	select {
	case e.look <- struct{}{}:
	default: // already told
	}
}

// wait returns when it is time to look again.
func (e *Engine) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(pause, min(d, sweep)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.look:
	case <-ctx.Done():
	}
}

// take begins the visits that are due, as many as there is room for, and returns how long until there are more.
func (e *Engine) take(ctx context.Context) time.Duration {
	room, any := e.room()
	if !any {
		return sweep // the end of a visit looks
	}
	asking, stop := context.WithTimeout(context.WithoutCancel(ctx), answer) // cut off, leases would be left behind
	defer stop()
	until := time.Now().Add(e.Lease)
	leases, wait, err := e.dequeue(asking, room)
	e.dequeues.heed(ctx, err)
	if err != nil {
		e.since = time.Now()
		return repair
	}
	for _, l := range leases {
		if ctx.Err() != nil {
			e.giveBack(asking, l)
			continue
		}
		l.Until = until
		e.begin(ctx, l)
	}
	return wait
}

// giveBack ends a lease that came too late to begin a visit. The account is due again at once: no wake has been seen.
func (e *Engine) giveBack(ctx context.Context, l dispatch.Lease) {
	const none = -1
	if err := e.Store.Release(ctx, l, none, time.Time{}); err != nil {
		e.Log.WarnContext(ctx, "an account waits for its lease to end", "account", l.Account, "error", err)
	}
}

func (e *Engine) begin(ctx context.Context, l dispatch.Lease) {
	e.add(l.Account, 1)
	e.visits.Go(func() {
		err := e.visit(ctx, l)
		switch {
		case err == nil, dispatch.Is(err, dispatch.Conflict):
		case dispatch.OfDatabase(err) != nil: // dequeue, which fails as well, says so for all visits
			e.Log.DebugContext(ctx, "visit", "account", l.Account, "error", err)
		default:
			e.Log.WarnContext(ctx, "visit", "account", l.Account, "error", err)
		}
		e.add(l.Account, -1)
		e.nudge() // there is room, and the account may be due again
	})
}

// visit is Visit, of which a panic is an error. The account is visited again when its lease is over.
func (e *Engine) visit(ctx context.Context, l dispatch.Lease) (err error) {
	defer dispatch.Caught(ctx, e.Log, "visit "+string(l.Account), &err)
	return e.Visit(ctx, l)
}

// dequeue is Store.Dequeue, of which a panic is an error.
func (e *Engine) dequeue(ctx context.Context, r dispatch.Room) (leases []dispatch.Lease, wait time.Duration, err error) {
	defer dispatch.Caught(ctx, e.Log, "dequeue", &err)
	return e.Store.Dequeue(ctx, r, e.Lease)
}

// add counts the visits of an account that run here: two for a moment, when one lost its lease.
func (e *Engine) add(a dispatch.Account, n int) {
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
