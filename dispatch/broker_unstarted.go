package dispatch

import (
	"context"
	"iter"
)

// CreateUnstarted stores a job, or a task, that its owner will start later at the named platform.
func (b *Broker) CreateUnstarted(ctx context.Context, u UserID, platform string, task bool, title string,
	body []byte) (Unstarted, error) {
	backend := b.backendNamed(platform)
	if backend == nil {
		return Unstarted{}, &Error{Kind: NotFound, Op: "dispatch.CreateUnstarted", Text: "There is no such platform."}
	}
	if err := backend.checkEntitled(ctx); err != nil {
		return Unstarted{}, err
	}
	n := Unstarted{Owner: u, Account: backend.Account(u), Title: title, Body: body}
	err := b.Store.CreateUnstarted(ctx, &n, task, UnstartedLife, b.quotas(n.Account)...)
	return n, err
}

// CheckRequest checks a request or, with a dimension, a task's as its acceptance would, and stores nothing.
func (b *Broker) CheckRequest(ctx context.Context, u UserID, r Request, d *Dimension) error {
	if d != nil {
		if err := checkDimensions(r.complete(), d); err != nil {
			return err
		}
	}
	_, err := b.draftTask(ctx, u, r, d)
	return err
}

// Unstarted returns an unstarted job to its owner.
func (b *Broker) Unstarted(ctx context.Context, u UserID, id UnstartedID) (Unstarted, error) {
	return b.Store.Unstarted(ctx, u, id)
}

// UnstartedJobs returns the owner's unstarted jobs and tasks that p selects, newest first, without their bodies.
func (b *Broker) UnstartedJobs(ctx context.Context, u UserID, p Page) iter.Seq2[Unstarted, error] {
	read := func(p Page) ([]Unstarted, error) { return b.Store.UnstartedJobs(ctx, u, p) }
	at := func(n Unstarted) Place { return Place{Created: n.Created, ID: n.ID.Number()} }
	return func(yield func(Unstarted, error) bool) {
		for part, err := range parts(p, read, at) {
			for _, n := range part {
				if !yield(n, nil) {
					return
				}
			}
			if err != nil {
				yield(Unstarted{}, err)
			}
		}
	}
}

// ChangeUnstarted replaces the title and the body of an unstarted job. Conflict if it has changed since n was read.
func (b *Broker) ChangeUnstarted(ctx context.Context, n Unstarted) error {
	return b.Store.ChangeUnstarted(ctx, &n, b.quotas(n.Account)...)
}

// DeleteUnstarted deletes an unstarted job.
func (b *Broker) DeleteUnstarted(ctx context.Context, u UserID, id UnstartedID) error {
	return b.Store.DeleteUnstarted(ctx, u, id)
}

// Start makes an unstarted job the job of a request or, with a dimension, a task. It does not wait for the platform.
// Conflict if the job has changed since n was read. If it has been started meanwhile, Start does nothing.
func (b *Broker) Start(ctx context.Context, n Unstarted, r Request, d *Dimension) error {
	if n.ID.Task != 0 && d == nil || n.ID.Job != 0 && d != nil {
		return &Error{Kind: Internal, Op: "dispatch.Start", Text: "A task has a dimension, a job has none."}
	}
	if d != nil {
		if err := checkDimensions(r.complete(), d); err != nil {
			return err
		}
	}
	shared, kept, err := b.draft(ctx, n.Owner, r, d)
	if err != nil {
		return err
	}
	var t *Task
	drafts := []Draft{shared}
	if d != nil {
		t = &Task{Owner: n.Owner, Account: shared.Account, Request: kept, Dimension: d.Name, Document: shared.Document,
			Hooks: shared.Hooks, Annotations: r.Annotations}
		shared.Annotations = Annotations{}
		drafts = t.drafts(shared, d)
	}
	switch err := b.Store.Start(ctx, n, t, drafts, b.quotas(shared.Account)...); {
	case Is(err, NotFound) && b.started(ctx, n):
		return nil
	case err != nil:
		return err
	}
	b.announce(ctx, n.Owner, drafts)
	return nil
}

// started reports whether an unstarted job has become a job or a task that its owner sees.
func (b *Broker) started(ctx context.Context, n Unstarted) bool {
	if n.ID.Task != 0 {
		_, err := b.Store.Task(ctx, n.Owner, n.ID.Task)
		return err == nil
	}
	_, err := b.Store.Record(ctx, n.Owner, n.ID.Job)
	return err == nil
}
