package broker

import (
	"context"
	"iter"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Entry is a job that belongs to no task, a task, or one of both that was not started: one of the three is set.
type Entry struct {
	Job       *dispatch.Record
	Task      *dispatch.TaskRecord
	Unstarted *dispatch.Unstarted

	After Position // behind it in the history
}

// Created returns when the entry was created.
func (e Entry) Created() time.Time {
	switch {
	case e.Job != nil:
		return e.Job.Created
	case e.Task != nil:
		return e.Task.Created
	}
	return e.Unstarted.Created
}

// Position is a position in a history: the places of what was read last. The zero Position is the beginning.
type Position struct {
	Job       dispatch.Place `json:"j,omitzero"`
	Task      dispatch.Place `json:"t,omitzero"`
	Unstarted dispatch.Place `json:"u,omitzero"`
}

// Kinds are the kinds of entries that a history has.
type Kinds struct{ Jobs, Tasks, Unstarted bool }

// History returns the owner's jobs and tasks behind a position that p selects, newest first unless Page.Oldest is set.
// They are read as by [Broker.Jobs] and [Broker.Tasks]; Page.Limit bounds how many jobs are read, and how many tasks,
// Page.Most what is read of the requests of jobs. The sequence ends with the first error.
func (b *Broker) History(ctx context.Context, u dispatch.UserID, at Position, want Kinds,
	p dispatch.Page) iter.Seq2[Entry, error] {
	var none iter.Seq2[Entry, error] = func(func(Entry, error) bool) {}
	jobs, tasks, unstarted := none, none, none
	if want.Jobs {
		p.After = at.Job
		jobs = each(b.Jobs(ctx, u, p), func(j dispatch.Record) Entry { return Entry{Job: &j} })
	}
	if want.Tasks {
		t := p
		t.After, t.Most = at.Task, 0
		tasks = each(b.Tasks(ctx, u, t), func(t dispatch.TaskRecord) Entry { return Entry{Task: &t} })
	}
	if want.Unstarted {
		p.After, p.Limit = at.Unstarted, 0 // those of other interfaces may be passed over
		unstarted = each(b.UnstartedJobs(ctx, u, p), func(n dispatch.Unstarted) Entry { return Entry{Unstarted: &n} })
	}
	before := func(a, b Entry) bool { return a.Created().After(b.Created()) }
	if p.Oldest {
		before = func(a, b Entry) bool { return a.Created().Before(b.Created()) }
	}
	return withPositions(at, merge(unstarted, merge(jobs, tasks, before), before))
}

// withPositions sets the positions of the entries of a history that begins at one.
func withPositions(begin Position, all iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		at := begin
		for e, err := range all {
			switch {
			case err != nil:
			case e.Job != nil:
				at.Job = e.Job.Place()
			case e.Task != nil:
				at.Task = e.Task.Place()
			default:
				at.Unstarted = e.Unstarted.Place()
			}
			if e.After = at; !yield(e, err) {
				return
			}
		}
	}
}

func each[T, V any](all iter.Seq2[T, error], convert func(T) V) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for v, err := range all {
			if !yield(convert(v), err) {
				return
			}
		}
	}
}

// merge returns the values of two sequences that are ordered, in the same order. It ends with the first error.
func merge[T any](a, b iter.Seq2[T, error], before func(a, b T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		next, stop := iter.Pull2(b)
		defer stop()
		waiting, err, more := next()
		for v, failed := range a {
			for failed == nil && more && (err != nil || before(waiting, v)) {
				if !yield(waiting, err) || err != nil {
					return
				}
				waiting, err, more = next()
			}
			if !yield(v, failed) || failed != nil {
				return
			}
		}
		for ; more; waiting, err, more = next() {
			if !yield(waiting, err) || err != nil {
				return
			}
		}
	}
}

// AwaitEnd returns a job when it has ended, or as it was last read when ctx ends or when it cannot be read. After each
// time of fresh its platform is asked.
func (b *Broker) AwaitEnd(ctx context.Context, r dispatch.Record, fresh time.Duration) dispatch.Record {
	changed, stop := b.WatchJob(r.Owner, r.ID)
	defer stop()
	for age := fresh; ; {
		now, err := b.Read(ctx, r.Owner, r.ID, age)
		if err != nil {
			return r
		}
		if r = now; r.Status.Final() {
			return r
		}
		select {
		case <-changed:
			age = AsKnown
		case <-time.After(fresh):
			age = fresh
		case <-ctx.Done():
			return r
		}
	}
}
