package dispatch

import (
	"context"
	"time"
)

// ListPage gives a part of what List gives, as it is known.
func (b *Broker) ListPage(ctx context.Context, u UserID, p Page) ([]Record, error) {
	records, err := b.Store.Records(ctx, u, p)
	if err != nil {
		return nil, err
	}
	return b.present(ctx, records)
}

// ReadTaskPage gives a task and a part of its jobs.
func (b *Broker) ReadTaskPage(ctx context.Context, u UserID, id TaskID, p Page, fresh time.Duration) (TaskRecord, []Record, error) {
	if err := b.Freshen(ctx, u, Scope{Task: id}, fresh); err != nil {
		return TaskRecord{}, nil, err
	}
	t, err := b.Store.Task(ctx, u, id)
	if err != nil {
		return TaskRecord{}, nil, err
	}
	jobs, err := b.Store.TaskJobs(ctx, u, id, p)
	if err != nil {
		return TaskRecord{}, nil, err
	}
	jobs, err = b.present(ctx, jobs)
	return t, jobs, err
}
