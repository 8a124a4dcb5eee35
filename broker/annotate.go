package broker

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// AnnotateJob changes what its owner wrote on a job.
func (b *Broker) AnnotateJob(ctx context.Context, u dispatch.UserID, id dispatch.JobID,
	c dispatch.AnnotationChange) (dispatch.Record, error) {
	if err := b.Store.AnnotateJob(ctx, u, id, c); err != nil {
		return dispatch.Record{}, err
	}
	b.audit(ctx, "annotate", u, dispatch.Job{Identity: dispatch.Identity{ID: id}}, 1)
	b.NotifyJob(u, id)
	r, err := b.Records.Record(ctx, u, id)
	if err != nil {
		return dispatch.Record{}, err
	}
	return b.setQueuePlace(ctx, r)
}

// AnnotateTask changes what its owner wrote on a task.
func (b *Broker) AnnotateTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	c dispatch.AnnotationChange) (dispatch.TaskRecord, error) {
	if err := b.Store.AnnotateTask(ctx, u, id, c); err != nil {
		return dispatch.TaskRecord{}, err
	}
	b.audit(ctx, "annotate", u, dispatch.Job{Identity: dispatch.Identity{Task: id}}, 0)
	b.NotifyUser(u)
	return b.Records.Task(ctx, u, id)
}
