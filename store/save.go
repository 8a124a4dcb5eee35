package store

import (
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Save stores the outcomes of responses and wakes accounts.
func (s *Store) Save(ctx context.Context, jobs []dispatch.Job, wakes ...dispatch.Account) ([]dispatch.Job, error) {
	return s.writeVisit(ctx, "Save", jobs, nil, 0, func(q tx, now, saved, _ int64) (err error) {
		for _, a := range wakes {
			if err == nil && saved > 0 {
				err = wake(ctx, q, a, now)
			}
		}
		return err
	})
}

// Intend commits the next request of each job with the outcomes of responses about others, and renews the lease.
func (s *Store) Intend(
	ctx context.Context, l dispatch.Lease, limits dispatch.Limits, jobs []dispatch.Job, outcomes ...dispatch.Job,
) ([]dispatch.Job, error) {
	return s.writeVisit(ctx, "Intend", outcomes, jobs, limits.Send, func(q tx, now, _, slots int64) error {
		return renew(ctx, q, l, now, limits.Lease(), slots)
	})
}

// writeVisit writes outcomes of responses, and intents of requests that may be sent for so long, and returns the jobs
// that it wrote. The rows of tasks with a budget are locked first. If a budget is reached, FinishChanges pauses the
// jobs of the task that are left, so that the visit goes on with those of others. Rows of accounts are written last, as
// in Wake, so that two transactions cannot deadlock. last gets how many jobs were written, and slots given away.
func (s *Store) writeVisit(
	ctx context.Context, op string, outcomes, intents []dispatch.Job, send time.Duration,
	last func(q tx, now, written, slots int64) error,
) (kept []dispatch.Job, err error) {
	if slices.ContainsFunc(intents, func(j dispatch.Job) bool { return j.Budgeted }) {
		ctx = allow(ctx, listWithin)
	}
	err = s.inVisit(ctx, op, len(outcomes)+len(intents), func(q tx, now int64) error {
		within, err := lockBudgets(ctx, q, now, outcomes, intents)
		if err != nil {
			return err
		}
		admitted, err := within.admit(ctx, intents)
		if err != nil {
			return err
		}
		intended := make([]dispatch.Job, len(admitted))
		for i, j := range admitted {
			intended[i] = j.Intend(at(now).Add(send))
		}
		var slots int64
		if kept, slots, err = write(ctx, q, outcomes, intended); err != nil {
			return err
		}
		if kept, err = within.pause(ctx, kept); err != nil {
			return err
		}
		resumed, err := within.resume(ctx, kept)
		if err != nil {
			return err
		}
		for _, a := range resumed {
			if err := wake(ctx, q, a, now); err != nil {
				return err
			}
		}
		return last(q, now, int64(len(kept)), slots)
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}
