package broker

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Discard does what Delete does. It also has the job removed from its platform, with its results, once it has ended.
func (b *Broker) Discard(ctx context.Context, u dispatch.UserID, id dispatch.JobID) error {
	j, err := b.Store.Discard(ctx, u, id)
	return b.stopped(ctx, "remove", j, err)
}

// Delete hides a job from its owner at once. The broker cancels it at the platform.
func (b *Broker) Delete(ctx context.Context, u dispatch.UserID, id dispatch.JobID) error {
	j, err := b.Store.Cancel(ctx, u, id, true)
	return b.stopped(ctx, "cancel", j, err)
}

// Cancel cancels a job that its owner wants to keep in lists, and waits up to 5 s for the outcome. A job that has ended
// does not change.
func (b *Broker) Cancel(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	j, err := b.Store.Cancel(ctx, u, id, false)
	if err = b.stopped(ctx, "cancel", j, err); err != nil {
		return dispatch.Record{}, err
	}
	load := func() (dispatch.Record, error) { return b.Records.Record(ctx, u, id) }
	return b.await(ctx, j.ID, dispatch.ReadWithin, load, func(j dispatch.Job) bool {
		return j.Phase == dispatch.Ended || j.Attention == dispatch.CancelUnsupported
	})
}

// stopped signals that a job's owner stopped it, unless that failed.
func (b *Broker) stopped(ctx context.Context, action string, j dispatch.Job, err error) error {
	if err == nil {
		b.Wake(j.Account)
		b.audit(ctx, action, j.Owner, j, 1)
		b.NotifyJob(j.Owner, j.ID)
	}
	return err
}
