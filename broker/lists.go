package broker

import (
	"context"
	"iter"

	"github.com/eodispatch/eodispatch/dispatch"
)

// A list is read in parts of at most partSize records, each with at most PartMost bytes of its request. So a reader of
// a whole list holds a few MiB of it at a time, and no connection to the database while it processes a part.
const (
	partSize = 256
)

// Jobs returns the owner's jobs that belong to no task and that p selects, newest first unless Page.Oldest is set, with
// their last known statuses. Page.Most bounds the bytes of each request, 0 meaning PartMost; Broker.Request returns the
// whole of a request that was cut. A job that changes meanwhile is shown as it was when its part was read. The sequence
// ends with the first error.
func (b *Broker) Jobs(ctx context.Context, u dispatch.UserID, p dispatch.Page) iter.Seq2[dispatch.Record, error] {
	read := func(p dispatch.Page) ([]dispatch.Record, error) { return b.Records.Records(ctx, u, p) }
	return elements(p, b.placed(ctx, read), dispatch.Record.Place)
}

// TaskJobs returns the jobs of a task by number, in the same way as Jobs.
func (b *Broker) TaskJobs(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	p dispatch.Page) iter.Seq2[dispatch.Record, error] {
	read := func(p dispatch.Page) ([]dispatch.Record, error) { return b.Records.TaskJobs(ctx, u, id, p) }
	at := func(r dispatch.Record) dispatch.Place { return dispatch.Place{ID: int64(r.Number)} }
	return elements(p, b.placed(ctx, read), at)
}

// Tasks returns the owner's tasks in the same way as Jobs.
func (b *Broker) Tasks(ctx context.Context, u dispatch.UserID, p dispatch.Page) iter.Seq2[dispatch.TaskRecord, error] {
	read := func(p dispatch.Page) ([]dispatch.TaskRecord, error) { return b.Records.Tasks(ctx, u, p) }
	return elements(p, read, dispatch.TaskRecord.Place)
}

// Task returns a task with the last known statuses of its jobs.
func (b *Broker) Task(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	return b.Records.Task(ctx, u, id)
}

// Request returns the whole request of a record that was read in part. It does not check the owner: the caller has read
// the record as its owner.
func (b *Broker) Request(ctx context.Context, r dispatch.Record) (dispatch.Request, error) {
	return b.Visits.Store.Request(ctx, r.ID)
}

// elements reads a list part by part, until p.Limit elements were read or the list ends.
func elements[T any](p dispatch.Page, read func(dispatch.Page) ([]T, error), at func(T) dispatch.Place) iter.Seq2[T,
	error] {
	return func(yield func(T, error) bool) {
		if p.Most == 0 {
			p.Most = dispatch.PartMost
		}
		left, limited := p.Limit, p.Limit > 0
		for more := true; more; {
			p.Limit = partSize
			if limited {
				p.Limit = min(partSize, left)
			}
			part, err := read(p)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range part {
				if !yield(v, nil) {
					return
				}
			}
			left -= len(part)
			if more = len(part) == p.Limit && (!limited || left > 0); more {
				p.After = at(part[len(part)-1])
			}
		}
	}
}

// placed returns a read of the parts of a list that sets the places of its records in the queue.
func (b *Broker) placed(ctx context.Context,
	read func(dispatch.Page) ([]dispatch.Record, error)) func(dispatch.Page) ([]dispatch.Record, error) {
	places := placesByQueue{}
	return func(p dispatch.Page) ([]dispatch.Record, error) {
		part, err := read(p)
		if err != nil {
			return nil, err
		}
		return b.setQueuePlaces(ctx, part, places)
	}
}
