// Package history keeps what happened to each job, for operators: every change, every request and the kind of its
// answer. It is written behind the work, in batches, and never delays it; what the database does not take in time is
// dropped.
package history

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	writeEvery = time.Second
	mostKept   = 20_000 // events that wait to be written
	atOnce     = 500    // events of one write
)

// Store stores what happened to jobs.
type Store interface {
	// AddEvents stores what happened to jobs.
	AddEvents(context.Context, []dispatch.JobEvent) error
}

// Recorder is an observer that also keeps the history of jobs. It is safe for concurrent use.
type Recorder struct {
	dispatch.Observer // gets every call first

	store Store
	clock dispatch.Clock
	log   *slog.Logger

	mu      sync.Mutex
	kept    []dispatch.JobEvent
	dropped int
}

// New returns a recorder that passes every call on to another observer. Call Run to have it write.
func New(next dispatch.Observer, store Store, clock dispatch.Clock, log *slog.Logger) *Recorder {
	return &Recorder{Observer: next, store: store, clock: clock, log: log}
}

// JobSaved implements dispatch.Observer. A status that was read again is no event.
func (r *Recorder) JobSaved(before, after dispatch.Job) {
	r.Observer.JobSaved(before, after)
	if before.Phase == after.Phase && before.Status == after.Status && before.Attention == after.Attention &&
		before.Ref == after.Ref {
		return
	}
	e := r.event(after, "changed")
	if e.Detail = after.Ref.ID; after.Failure != "" {
		e.Detail = after.Failure
	}
	r.add(e)
}

// JobAsked implements dispatch.Observer. Of reads only the first one that fails is an event: what they change is one.
func (r *Recorder) JobAsked(j dispatch.Job, op string, took time.Duration, err error) {
	r.Observer.JobAsked(j, op, took, err)
	if (op == "status" || op == "list") && (err == nil || j.Tries > 0) {
		return
	}
	e := r.event(j, op)
	e.Outcome, e.Took, e.Detail = "ok", took, j.Ref.ID
	if err != nil {
		e.Outcome, e.Detail = dispatch.KindOf(err).String(), dispatch.TextFor(err)
	}
	r.add(e)
}

// Acted implements dispatch.Observer.
func (r *Recorder) Acted(action string, j dispatch.Job) {
	r.Observer.Acted(action, j)
	r.add(r.event(j, action))
}

func (r *Recorder) event(j dispatch.Job, what string) dispatch.JobEvent {
	return dispatch.JobEvent{Job: j.ID, At: r.clock.Now(), What: what, Phase: j.Phase, Status: j.Status,
		Attention: j.Attention, Attempt: j.Attempt}
}

func (r *Recorder) add(e dispatch.JobEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) >= mostKept {
		r.dropped++
		return
	}
	r.kept = append(r.kept, e)
}

// Run writes events until ctx is done, and then those that are left.
func (r *Recorder) Run(ctx context.Context) {
	again := time.NewTicker(writeEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
		}
		r.write(context.WithoutCancel(ctx))
		if ctx.Err() != nil {
			return
		}
	}
}

// write writes what is kept. What the database does not store is tried again.
func (r *Recorder) write(ctx context.Context) {
	for {
		events := r.first()
		if len(events) == 0 {
			break
		}
		if err := r.store.AddEvents(ctx, events); err != nil {
			r.log.DebugContext(ctx, "the history of jobs was not written; it is tried again", "events", len(events),
				"error", err)
			return
		}
		r.forget(len(events))
	}
	r.reportDropped(ctx)
}

func (r *Recorder) first() []dispatch.JobEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept[:min(len(r.kept), atOnce):min(len(r.kept), atOnce)]
}

func (r *Recorder) forget(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append([]dispatch.JobEvent(nil), r.kept[n:]...)
}

// reportDropped logs how many events were lost while the database did not store them.
func (r *Recorder) reportDropped(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped > 0 {
		r.log.WarnContext(ctx, "the history of jobs lacks events of the last outage of the database", "events",
			r.dropped)
	}
	r.dropped = 0
}
