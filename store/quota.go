package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// quotaLock is the name of the lock under which a user's jobs are counted.
func quotaLock(u dispatch.UserID) string { return "jobs of " + string(u) }

// lockCount serializes, within this process, the callers that count a user's jobs, before they take a connection. admit does so
// between processes, which needs a connection. It returns the function that ends the turn.
func (s *Store) lockCount(ctx context.Context, op string, u dispatch.UserID, within []dispatch.Quota) (end func(), err error) {
	if s.locks == nil || len(within) == 0 {
		return func() {}, nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	end, err = s.turns.acquire(ctx, quotaLock(u))
	return end, fail(op, err)
}

// admit returns nil if an owner may have n more jobs with requests of so many bytes. Other transactions that count for this
// owner wait until this one ends.
func (s *Store) admit(ctx context.Context, q tx, u dispatch.UserID, n int, bytes int64, within []dispatch.Quota, now int64) error {
	if len(within) == 0 {
		return nil
	}
	if err := s.lockInTransaction(ctx, q, quotaLock(u)); err != nil {
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

// holding returns what an owner has within a quota, as far as the quota needs it.
func holding(ctx context.Context, q tx, u dispatch.UserID, quota dispatch.Quota, now int64) (has dispatch.QuotaUse, err error) {
	since := now - dispatch.Day.Microseconds()
	unstarted, err := q.CountUnstarted(ctx, u, now, string(quota.Account))
	if err != nil {
		return has, err
	}
	if quota.Bytes > 0 {
		if has.Bytes, err = q.CountBytes(ctx, u, now); err != nil {
			return has, err
		}
		has.Bytes += unstarted.Bytes
	}
	if quota.Costs > 0 {
		if has.Charge, err = highestCharge(ctx, q, u, quota.Account, now); err != nil {
			return has, err
		}
	}
	if quota.Live == 0 && quota.Daily == 0 {
		return has, nil
	}
	jobs, err := q.CountOwned(ctx, owned(u, quota.Account, since))
	if err != nil {
		return has, err
	}
	runs, err := q.CountSyncRuns(ctx, query.CountSyncRunsParams{Owner: u, Now: now, Account: string(quota.Account), Live: int64(quota.Live),
		Since: since, Daily: int64(quota.Daily)})
	has.Live, has.Lately = int(jobs.Live+runs.Live+unstarted.Live), int(jobs.Lately+runs.Lately)
	return has, err
}
