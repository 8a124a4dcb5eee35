package broker

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Changes returns what changed of a user's list, or of a task, after a place, n jobs and tasks at most, see
// [Records]. A large request is cut as in Jobs, and jobs that wait have their places in the queue, as in all lists.
func (b *Broker) Changes(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ChangedPlace,
	n int) (dispatch.ChangedPage, error) {
	c, err := b.Records.ChangesSince(ctx, u, id, after, dispatch.Page{Limit: n, Most: dispatch.PartMost})
	if err != nil {
		return c, err
	}
	var records []dispatch.Record
	for _, e := range c.Changed {
		if e.Record != nil {
			records = append(records, *e.Record)
		}
	}
	if records, err = b.setQueuePlaces(ctx, records, placesByQueue{}); err != nil {
		return c, err
	}
	for i := range c.Changed {
		if c.Changed[i].Record != nil {
			c.Changed[i].Record, records = &records[0], records[1:]
		}
	}
	if c.Task != nil {
		*c.Task, err = b.ForecastTask(ctx, *c.Task)
	}
	return c, err
}
