package broker

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TaskRevision returns a task's present revision without reading its jobs one by one.
func (b *Broker) TaskRevision(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRevision, error) {
	return b.Store.TaskRevision(ctx, u, id, dispatch.ReadWithin)
}

// TaskChanges returns a task and its jobs that changed after a time, n at most, as they were at one moment. A large
// request is cut as in Jobs.
func (b *Broker) TaskChanges(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, since time.Time, n int) (dispatch.TaskChanges, error) {
	c, err := b.Store.TaskChanges(ctx, u, id, dispatch.Page{Since: since, Limit: n, Most: dispatch.PartMost}, dispatch.ReadWithin)
	if err != nil {
		return c, err
	}
	if c.Jobs, err = b.setQueuePlaces(ctx, c.Jobs, queuePlaces{}); err != nil {
		return c, err
	}
	c.Task, err = b.ForecastTask(ctx, c.Task)
	return c, err
}
