package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// quotaLock is the name of the lock that whoever counts a user's jobs holds.
func quotaLock(u dispatch.UserID) string { return "jobs of " + string(u) }

// counting waits until nobody else in this process counts a user's jobs, before a connection is taken: other processes are
// waited for with one, in admit. It gives the way to end.
func (s *Store) counting(ctx context.Context, op string, u dispatch.UserID, within []dispatch.Quota) (end func(), err error) {
	if s.locks == nil || len(within) == 0 {
		return func() {}, nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	end, err = s.turns.take(ctx, quotaLock(u))
	return end, fail(op, err)
}

// admit is nil if an owner may have n jobs more, with requests of so many bytes. Whoever asks the same for this owner waits until
// the transaction ends.
func (s *Store) admit(ctx context.Context, q tx, u dispatch.UserID, n int, bytes int64, within []dispatch.Quota, now int64) error {
	if len(within) == 0 {
		return nil
	}
	if err := s.queue(ctx, q, quotaLock(u)); err != nil {
		return err
	}
	for _, quota := range within {
		has, err := holding(ctx, q, u, quota, now)
		if err != nil {
			return err
		}
		if err := quota.Admit(has, n, bytes); err != nil {
			return err
		}
	}
	return nil
}

// holding counts what an owner has of what a quota bounds, as far as it matters. Live jobs and their bytes are counted in one pass:
// for a user with 100,000 jobs a pass takes some 50 ms.
func holding(ctx context.Context, q tx, u dispatch.UserID, quota dispatch.Quota, now int64) (has dispatch.Holding, err error) {
	asked := query.CountOwnedParams{Owner: u, Account: string(quota.Account), Live: int64(quota.Live), Since: now - dispatch.Day.Microseconds(),
		Daily: int64(quota.Daily)}
	live := int64(0)
	if quota.Bytes > 0 {
		held, err := q.CountBytes(ctx, u, now)
		if err != nil {
			return has, err
		}
		live, has.Bytes, asked.Live = min(held.Live, asked.Live), held.Bytes, 0
	}
	jobs, err := q.CountOwned(ctx, asked)
	if err != nil {
		return has, err
	}
	runs, err := q.CountSyncRuns(ctx, query.CountSyncRunsParams{Owner: u, Now: now, Account: asked.Account, Live: int64(quota.Live),
		Since: asked.Since, Daily: asked.Daily})
	has.Live, has.Lately = int(live+jobs.Live+runs.Live), int(jobs.Lately+runs.Lately)
	return has, err
}
