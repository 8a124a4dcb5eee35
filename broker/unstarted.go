package broker

import (
	"context"
	"iter"

	"github.com/eodispatch/eodispatch/dispatch"
)

// CreateUnstarted stores a job, or a task, that its owner will start later at the named platform. If the key was used
// before, only the ID is returned that was created with it.
func (b *Broker) CreateUnstarted(ctx context.Context, u dispatch.UserID, platform string, task bool, title string,
	body []byte, k dispatch.Key) (dispatch.Unstarted, error) {
	backend := b.BackendNamed(platform)
	if backend == nil {
		return dispatch.Unstarted{}, &dispatch.Error{Kind: dispatch.NotFound, Op: "dispatch.CreateUnstarted",
			Text: "There is no such platform."}
	}
	if err := backend.CheckEntitled(ctx); err != nil {
		return dispatch.Unstarted{}, err
	}
	n := dispatch.Unstarted{Owner: u, Account: backend.Account(u), Title: title, Body: body, Key: k}
	err := b.Store.CreateUnstarted(ctx, &n, task, dispatch.UnstartedLife, b.quotas(n.Account)...)
	if dispatch.Is(err, dispatch.Conflict) {
		err = keyReused()
	}
	return n, err
}

// CheckRequest checks a request or, with a dimension, a task's as its acceptance would, and stores nothing.
func (b *Broker) CheckRequest(ctx context.Context, u dispatch.UserID, r dispatch.Request, d *dispatch.Dimension) error {
	_, err := b.draftTask(ctx, u, r, d)
	return err
}

// Unstarted returns an unstarted job to its owner.
func (b *Broker) Unstarted(ctx context.Context, u dispatch.UserID, id dispatch.UnstartedID) (dispatch.Unstarted,
	error) {
	return b.Records.Unstarted(ctx, u, id)
}

// UnstartedJobs returns the owner's unstarted jobs and tasks that p selects, newest first, with the beginnings of
// their bodies.
func (b *Broker) UnstartedJobs(ctx context.Context, u dispatch.UserID, p dispatch.Page) iter.Seq2[dispatch.Unstarted,
	error] {
	read := func(p dispatch.Page) ([]dispatch.Unstarted, error) { return b.Records.UnstartedJobs(ctx, u, p) }
	return elements(p, read, dispatch.Unstarted.Place)
}

// ChangeUnstarted replaces the title and the body of an unstarted job. Conflict if it has changed since n was read.
func (b *Broker) ChangeUnstarted(ctx context.Context, n dispatch.Unstarted) error {
	return b.Store.ChangeUnstarted(ctx, &n, b.quotas(n.Account)...)
}

// DeleteUnstarted deletes an unstarted job.
func (b *Broker) DeleteUnstarted(ctx context.Context, u dispatch.UserID, id dispatch.UnstartedID) error {
	return b.Store.DeleteUnstarted(ctx, u, id)
}

// Start makes an unstarted job the job of a request or, with a dimension, a task. It does not wait for the platform.
// Conflict if the job has changed since n was read. If it has been started meanwhile, Start does nothing.
func (b *Broker) Start(ctx context.Context, n dispatch.Unstarted, r dispatch.Request, d *dispatch.Dimension) error {
	if n.ID.Task != 0 && d == nil || n.ID.Job != 0 && d != nil {
		return &dispatch.Error{Kind: dispatch.Internal, Op: "dispatch.Start",
			Text: "A task has a dimension, a job has none."}
	}
	placed, err := b.draftTask(ctx, n.Owner, r, d)
	if err != nil {
		return err
	}
	shared := placed[0]
	var t *dispatch.Task
	drafts := []dispatch.Draft{shared.Draft}
	if d != nil {
		t, drafts = shared.task(d)
	}
	switch err := b.Store.Start(ctx, n, t, drafts, b.quotas(shared.Account)...); {
	case dispatch.Is(err, dispatch.NotFound) && b.started(ctx, n):
		return nil
	case err != nil:
		return err
	}
	b.announce(ctx, n.Owner, drafts)
	return nil
}

// started reports whether an unstarted job has become a job or a task that its owner sees.
func (b *Broker) started(ctx context.Context, n dispatch.Unstarted) bool {
	if n.ID.Task != 0 {
		_, err := b.Records.Task(ctx, n.Owner, n.ID.Task)
		return err == nil
	}
	_, err := b.Records.Record(ctx, n.Owner, n.ID.Job)
	return err == nil
}
