package dispatch

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

const (
	decideWithin = 10 * time.Second // how long Accept waits for the platform's response
	readWithin   = 5 * time.Second  // how long Read and List wait for fresher statuses
	resultsFresh = 10 * time.Second // maximum age of a status that shows that there are no results yet
	minPoll      = 2 * time.Second
	elsewhere    = time.Second // how often a waiting request reads what another replica may have saved
)

// Broker accepts jobs and runs them at platforms. Set its fields before first use.
type Broker struct {
	Store        Store
	Engine       Engine
	Tokens       Tokens
	Backends     []*Backend
	Installation string // see Store.Installation
	Log          *slog.Logger
	Observer     Observer // nil: nobody observes
	Tracer       Tracer   // nil: nothing is traced
	UserJobs     int      // how many jobs a user may have that have not ended; 0: any number
	UserDaily    int      // how many jobs a user may submit in a day; 0: any number
	UserBytes    int64    // how many bytes the requests of a user's jobs that have not ended may take; 0: any number
	Policies     []Policy // of operators, for some services
	Timing       Timing

	// Recorded returns the output formats that the catalogue's record of a service names; nil: no service has a record.
	Recorded func(Label, Service) []string

	Targets Targets // nil: a request that asks to be notified is refused

	// AreaOf returns the area in km² of a parameter's value: of a bounding box or GeoJSON; 0 of anything else. nil:
	// forecasts and estimates know no areas.
	AreaOf func(json.RawMessage) float64

	// Nonce returns the random part of the tag of a job's next attempt; nil: eight random letters and digits.
	Nonce func(Job) string

	Wall func() time.Time // the wall clock, which continues while the machine is suspended; nil: time.Now

	saved     savedJobs        // jobs about which a response was saved
	changed   signals[UserID]  // likewise for any job of the user, or the user changed a job; signaled before shown
	shown     signals[UserID]  // one of the user's jobs may look different to the user
	shownJob  signals[JobID]   // the job may look different to its owner
	shownAll  signals[UserID]  // any of the user's jobs may look different to the user
	feeds     feeds            // what looks different to users, for readers of changes
	woken     signals[Account] // there is something new for a visit in this process
	spreads   signals[TaskID]  // a task with several homes was accepted, see anyTask
	blocked   blockedAccounts
	refused   streaks // submissions that were turned away
	noted     platformNotes
	overdue   platformNotes // that did not report an awaited status
	queues    queues
	forecasts forecasts
	runTimes  runTimesCache
	listings  listings
	singles   singles
	calls     callLimits // calls outside visits, by platform
	ownCalls  callLimits // likewise of each user, by platform/user
	syncs     callLimits // synchronous runs, by platform
	ownSyncs  callLimits // likewise of each user, by platform/user
	transfer  callLimits // files that are passed on, of each user
	changes   callLimits // changes of tasks, of each user
	pinned    pinnedDocuments
	results   keptCollections
	backlog   backlog
	suspects  suspects

	preparing preparations
}

// Delete hides a job from its owner at once. The broker cancels it at the platform.
func (b *Broker) Delete(ctx context.Context, u UserID, id JobID) error {
	_, err := b.cancel(ctx, u, id, true)
	return err
}

// Cancel cancels a job that its owner wants to keep in lists, and waits up to 5 s for the outcome. A job that has ended
// does not change.
func (b *Broker) Cancel(ctx context.Context, u UserID, id JobID) (Record, error) {
	j, err := b.cancel(ctx, u, id, false)
	if err != nil {
		return Record{}, err
	}
	load := func(Job) (Record, error) { return b.Store.Record(ctx, u, id) }
	return b.await(ctx, j.ID, readWithin, load, func(j Job) bool {
		return j.Phase == Ended || j.Attention == CancelUnsupported
	})
}

func (b *Broker) cancel(ctx context.Context, u UserID, id JobID, hide bool) (Job, error) {
	j, err := b.Store.Cancel(ctx, u, id, hide)
	if err == nil && j.Phase != Ended {
		b.wake(j.Account)
	}
	if err == nil {
		b.audit(ctx, "cancel", u, j, 1)
		b.notifyJob(u, id)
	}
	return j, err
}

// audit logs a request of a user, in one line with fixed attributes.
func (b *Broker) audit(ctx context.Context, action string, u UserID, first Job, jobs int) {
	b.Log.InfoContext(ctx, "audit", "action", action, "user", string(u), "account", string(first.Account), "job",
		int64(first.ID),
		"task", int64(first.Task), "jobs", jobs)
	if first.ID != 0 && jobs <= 1 {
		b.observer().Acted(action, first)
	}
}

// agendaOf returns what is due for an account.
func (b *Broker) agendaOf(ctx context.Context, a Account, n int) (Agenda, error) {
	var stalled time.Duration
	if backend := b.backendNamed(a.Platform()); backend != nil {
		stalled = b.freesAfter(backend)
	}
	return b.Store.Agenda(ctx, a, n, stalled)
}

// freesAfter returns how long a job of a backend must be stalled until its slot counts as free; 0: it never does.
func (b *Broker) freesAfter(backend *Backend) time.Duration {
	if !backend.Limits.FreeStalled {
		return 0
	}
	return b.Timing.complete().StalledAfter
}

// backendNamed returns the backend with that name, nil if there is none.
func (b *Broker) backendNamed(platform string) *Backend {
	for _, backend := range b.Backends {
		if backend.Name == platform {
			return backend
		}
	}
	return nil
}

// wake notifies visits and the engine after the commit that woke an account.
func (b *Broker) wake(a Account) {
	b.woken.signal(a)
	b.Engine.Wake(a)
}

// log logs each change of phase, status or attention once.
func (b *Broker) log(ctx context.Context, was, j Job, err error) {
	b.logRemoval(ctx, was, j, err)
	if was.Phase == j.Phase && was.Status == j.Status && was.Attention == j.Attention {
		return
	}
	attrs := []slog.Attr{slog.Int64("job", int64(j.ID)), slog.String("account", string(j.Account)),
		slog.String("ref", j.Ref.ID),
		slog.String("phase", string(j.Phase)), slog.String("status", string(j.Status)), slog.String("attention",
			string(j.Attention))}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	b.Log.LogAttrs(ctx, slog.LevelInfo, "job", attrs...)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
