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

// admit is nil if an owner may have n jobs more. Whoever asks the same for this owner waits until the transaction ends.
func (s *Store) admit(ctx context.Context, q tx, u dispatch.UserID, n int, within []dispatch.Quota, now int64) error {
	if len(within) == 0 {
		return nil
	}
	if err := s.queue(ctx, q, quotaLock(u)); err != nil {
		return err
	}
	for _, quota := range within {
		has, err := q.CountOwned(ctx, query.CountOwnedParams{Owner: u, Account: string(quota.Account), Live: int64(quota.Live),
			Since: now - dispatch.Day.Microseconds(), Daily: int64(quota.Daily)})
		if err != nil {
			return err
		}
		runs, err := q.CountSyncRuns(ctx, query.CountSyncRunsParams{Owner: u, Now: now, Account: string(quota.Account), Live: int64(quota.Live),
			Since: now - dispatch.Day.Microseconds(), Daily: int64(quota.Daily)})
		if err != nil {
			return err
		}
		if err := quota.Admit(int(has.Live+runs.Live), int(has.Lately+runs.Lately), n); err != nil {
			return err
		}
	}
	return nil
}
