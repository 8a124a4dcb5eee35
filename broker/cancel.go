package broker

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Discard does what Delete does. It also has the job removed from its platform, with its results, once it has ended.
func (b *Broker) Discard(ctx context.Context, u dispatch.UserID, id dispatch.JobID) error {
	j, err := b.Store.Discard(ctx, u, id)
	if err == nil {
		b.Wake(j.Account)
		b.audit(ctx, "remove", u, j, 1)
		b.NotifyJob(u, id)
	}
	return err
}

// Delete hides a job from its owner at once. The broker cancels it at the platform.
func (b *Broker) Delete(ctx context.Context, u dispatch.UserID, id dispatch.JobID) error {
	_, err := b.cancel(ctx, u, id, true)
	return err
}

// Cancel cancels a job that its owner wants to keep in lists, and waits up to 5 s for the outcome. A job that has ended
// does not change.
func (b *Broker) Cancel(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	j, err := b.cancel(ctx, u, id, false)
	if err != nil {
		return dispatch.Record{}, err
	}
	load := func() (dispatch.Record, error) { return b.Records.Record(ctx, u, id) }
	return b.await(ctx, j.ID, dispatch.ReadWithin, load, func(j dispatch.Job) bool {
		return j.Phase == dispatch.Ended || j.Attention == dispatch.CancelUnsupported
	})
}

func (b *Broker) cancel(ctx context.Context, u dispatch.UserID, id dispatch.JobID, hide bool) (dispatch.Job, error) {
	j, err := b.Store.Cancel(ctx, u, id, hide)
	if err == nil && j.Phase != dispatch.Ended {
		b.Wake(j.Account)
	}
	if err == nil {
		b.audit(ctx, "cancel", u, j, 1)
		b.NotifyJob(u, id)
	}
	return j, err
}
