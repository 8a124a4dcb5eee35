package store

import (
	"context"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Intend commits the next request of each job and renews the lease. The account's row is written last, as in Wake, so
// that the two cannot deadlock. The rows of tasks with a budget are locked first. If a budget is reached, FinishChanges
// pauses the jobs of the task that are left, so that the visit goes on with those of others.
func (s *Store) Intend(ctx context.Context, l dispatch.Lease, limits dispatch.Limits,
	jobs []dispatch.Job) (kept []dispatch.Job, err error) {
	if slices.ContainsFunc(jobs, func(j dispatch.Job) bool { return j.Budgeted }) {
		ctx = allow(ctx, listWithin)
	}
	err = s.inVisit(ctx, "Intend", len(jobs), func(q tx, now int64) error {
		within, err := lockBudgets(ctx, q, jobs, now, isWaiting)
		if err != nil {
			return err
		}
		admitted, err := within.admit(ctx, jobs)
		if err != nil {
			return err
		}
		intended := make([]dispatch.Job, len(admitted))
		for i, j := range admitted {
			intended[i] = j.Intend(at(now).Add(limits.Send))
		}
		var slots int64
		if kept, slots, err = write(ctx, q, intended, true); err != nil {
			return err
		}
		if kept, err = within.pause(ctx, kept); err != nil {
			return err
		}
		return renew(ctx, q, l, now, limits.Lease(), slots)
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}
