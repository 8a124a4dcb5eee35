package store

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// discardedAfter is the age, in microseconds, at which jobs that their owners deleted are removed from their
// platforms if all aged jobs are. It lies well before the one at which they are purged.
const discardedAfter = int64(24 * 3600 * 1e6)

// planAgedRemovals plans the removal of jobs from their platforms that ended before a time. The jobs are read by id:
// no index leads to those that ended.
func (s *Store) planAgedRemovals(ctx context.Context, now, before int64) error {
	if before == 0 {
		return nil
	}
	discarded := max(before, now-discardedAfter)
	return purgeFound(ctx, s, unreported, func(after dispatch.JobID, n int64) ([]dispatch.JobID, error) {
		return list(ctx, s.on(s.read), single[dispatch.JobID], `
				SELECT id FROM jobs
				WHERE id > $1 AND phase = 'ended' AND orphans = '' AND attempt > 0 AND removal_due = 0 AND removal = ''
					AND (ref_id <> '' OR past <> '') AND (moved < $2 OR hidden AND moved < $3)
				ORDER BY id
				LIMIT CAST($4 AS BIGINT)`, after, before, discarded, n)
	}, func(q tx, ids []dispatch.JobID) (int64, error) {
		w := whereAny(q, "jobs.id", ids)
		w.and("jobs.phase = 'ended' AND jobs.orphans = '' AND (jobs.moved < " + w.arg(before) +
			" OR jobs.hidden AND jobs.moved < " + w.arg(discarded) + ")")
		planned, err := changeJobs(ctx, q, w, func(j stored) (dispatch.Job, bool) { return j.PlanRemoval(at(now)) })
		accounts := map[dispatch.Account]bool{}
		for _, j := range planned {
			accounts[j.Account] = true
		}
		for _, a := range slices.Sorted(maps.Keys(accounts)) {
			err = errors.Join(err, wake(ctx, q, a, now))
		}
		return int64(len(planned)), err
	})
}
