package store

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Save stores the outcomes of responses and wakes accounts. The accounts' rows are written last, as in Wake.
func (s *Store) Save(ctx context.Context, jobs []dispatch.Job, wakes ...dispatch.Account) (saved []dispatch.Job,
	err error) {
	err = s.inVisit(ctx, "Save", len(jobs), func(q tx, now int64) error {
		within, err := lockBudgets(ctx, q, jobs, now, runsNoMore)
		if err != nil {
			return err
		}
		if saved, _, err = write(ctx, q, jobs, false); err != nil || len(saved) == 0 {
			return err
		}
		resumed, err := within.resume(ctx)
		if err != nil {
			return err
		}
		for _, a := range append(resumed, wakes...) {
			if err := wake(ctx, q, a, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return saved, nil
}
