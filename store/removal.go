package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// removal is a dispatch.Removal in the database, without Due.
type removal struct {
	Since   int64 `json:"since"`
	Tries   int   `json:"tries,omitempty"`
	Removed int64 `json:"removed,omitempty"`
}

func removalText(r dispatch.Removal) string {
	kept := removal{micros(r.Since), r.Tries, micros(r.Removed)}
	if kept == (removal{}) {
		return ""
	}
	text, _ := encode(kept) // cannot fail: numbers only
	return text
}

// removalOf is the inverse of removalText.
func removalOf(due int64, text string) (dispatch.Removal, error) {
	kept, err := decoded[removal](text)
	return dispatch.Removal{Due: at(due), Since: at(kept.Since), Tries: kept.Tries, Removed: at(kept.Removed)}, err
}

// Discard cancels and hides a job, and plans its removal from its platform.
func (s *Store) Discard(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (j dispatch.Job, err error) {
	err = s.in(ctx, s.write, "Discard", func(q tx, now int64) error {
		if _, err := cancelJob(ctx, q, u, id, now); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := q.PlanRemoval(ctx, now, id, u); err != nil {
			return err
		}
		row, err := q.HideJob(ctx, id, u)
		if err != nil {
			return err
		}
		if j, err = jobOf(row); err != nil {
			return err
		}
		return q.Wake(ctx, j.Account, now)
	})
	return j, err
}

// DiscardTask cancels and hides a task with its jobs, and plans their removal from their platform.
func (s *Store) DiscardTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.Account, error) {
	return s.endTask(ctx, "DiscardTask", u, id, changeDiscard)
}

// discardedAfter is the age, in microseconds, at which jobs that their owners deleted are removed from their platforms if all aged jobs are. It lies
// well before the one at which they are purged.
const discardedAfter = int64(24 * 3600 * 1e6)

// planAgedRemovals plans the removal of jobs from their platforms that ended before a time. The jobs are read by id: no index leads to those that ended.
func (s *Store) planAgedRemovals(ctx context.Context, now, before int64) error {
	if before == 0 {
		return nil
	}
	discarded := max(before, now-discardedAfter)
	return purgeFound(ctx, s, unreported,
		func(after dispatch.JobID, n int64) ([]dispatch.JobID, error) {
			return s.queries(s.read).ListRemovable(ctx, query.ListRemovableParams{After: after, Before: before, Discarded: discarded, N: n})
		},
		func(q tx, id dispatch.JobID) (int64, error) {
			accounts, err := q.PlanAgedRemoval(ctx, query.PlanAgedRemovalParams{Now: now, ID: id, Before: before, Discarded: discarded})
			for _, a := range accounts {
				err = errors.Join(err, q.Wake(ctx, a, now))
			}
			return int64(len(accounts)), err
		})
}
