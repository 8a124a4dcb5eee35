package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// admit is nil if an owner may have n jobs more. Whoever asks the same for this owner waits until the transaction ends.
func (s *Store) admit(ctx context.Context, q tx, u dispatch.UserID, n int, within []dispatch.Quota, now int64) error {
	if len(within) == 0 {
		return nil
	}
	if err := s.queue(ctx, q, "jobs of "+string(u)); err != nil {
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
