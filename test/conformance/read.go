package conformance

import (
	"context"
	"iter"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Jobs reads all of a user's jobs that belong to no task, newest first, with their complete requests, as a client does
// that wants statuses no older than fresh.
func Jobs(ctx context.Context, b *broker.Broker, u dispatch.UserID, fresh time.Duration) ([]dispatch.Record, error) {
	if err := b.Freshen(ctx, u, dispatch.Scope{Alone: true}, fresh); err != nil {
		return nil, err
	}
	return whole(ctx, b, b.Jobs(ctx, u, dispatch.Page{}))
}

// Tasks reads all of a user's tasks in the same way.
func Tasks(ctx context.Context, b *broker.Broker, u dispatch.UserID, fresh time.Duration) ([]dispatch.TaskRecord,
	error) {
	if err := b.Freshen(ctx, u, dispatch.Scope{Tasks: true}, fresh); err != nil {
		return nil, err
	}
	return collect(b.Tasks(ctx, u, dispatch.Page{}))
}

// Task reads a task and all its jobs, ordered by number, in the same way. Its counts are those of the jobs.
func Task(ctx context.Context, b *broker.Broker, u dispatch.UserID, id dispatch.TaskID,
	fresh time.Duration) (dispatch.TaskRecord, []dispatch.Record, error) {
	if err := b.Freshen(ctx, u, dispatch.Scope{Task: id}, fresh); err != nil {
		return dispatch.TaskRecord{}, nil, err
	}
	t, err := b.Task(ctx, u, id)
	if err != nil {
		return dispatch.TaskRecord{}, nil, err
	}
	jobs, err := whole(ctx, b, b.TaskJobs(ctx, u, id, dispatch.Page{}))
	var tally dispatch.Tally
	for _, j := range jobs {
		tally.Add(j.Job)
	}
	return tally.CountsFor(t), jobs, err
}

// whole completes the requests of records, of which lists read only a part.
func whole(ctx context.Context, b *broker.Broker, records iter.Seq2[dispatch.Record, error]) ([]dispatch.Record,
	error) {
	all, err := collect(records)
	for i := range all {
		if err == nil {
			all[i].Request, err = b.Request(ctx, all[i])
		}
	}
	return all, err
}

func collect[T any](all iter.Seq2[T, error]) (list []T, err error) {
	for v, err := range all {
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}
