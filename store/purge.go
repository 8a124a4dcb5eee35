package store

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// purgedAtOnce is how many rows, or jobs with all that belongs to them, one transaction of Purge deletes. Others wait for it: on SQLite all who
// write, for some ten milliseconds at most.
const purgedAtOnce = 50

// Purge deletes hidden jobs that ended more than keep ago, unused documents, and expired keys, tokens, turns and unstarted jobs, in many small transactions. What is
// to be deleted is found by an index, or outside of the transactions.
func (s *Store) Purge(ctx context.Context, keep time.Duration) error {
	ctx = allow(ctx, upkeepWithin)
	if err := s.mergeShards(ctx); err != nil {
		return err
	}
	return errors.Join(s.purgeExpired(ctx, keep), s.purgeTasks(ctx), s.purgeHooks(ctx), s.purgeDocuments(ctx), s.purgeCounts(ctx), s.purgeTurns(ctx))
}

// purgeExpired deletes what is too old.
func (s *Store) purgeExpired(ctx context.Context, keep time.Duration) (err error) {
	err = errors.Join(
		s.inBatches(ctx, removedJobs, func(q tx, now int64) (int64, error) { return purgeJobs(ctx, q, now-keep.Microseconds()) }),
		s.inBatches(ctx, removedKeys, func(q tx, now int64) (int64, error) {
			return q.PurgeKeys(ctx, now-s.keyLife.Microseconds(), purgedAtOnce)
		}))
	for _, purge := range []func(q tx, now int64) (int64, error){
		func(q tx, now int64) (int64, error) { return q.PurgePeriodCounts(ctx, purgedPeriod(now), purgedAtOnce) },
		func(q tx, now int64) (int64, error) { return q.PurgeLabelCosts(ctx, forgottenMonth(now), purgedAtOnce) },
		func(q tx, now int64) (int64, error) { return q.PurgeTokens(ctx, now, purgedAtOnce) },
		func(q tx, now int64) (int64, error) { return q.PurgeSessions(ctx, now, purgedAtOnce) },
		func(q tx, now int64) (int64, error) { return q.PurgeUnstarted(ctx, now, purgedAtOnce) },
		func(q tx, now int64) (int64, error) {
			return q.PurgeDeliveries(ctx, now-dispatch.DeliveryLife.Microseconds(), purgedAtOnce)
		},
		func(q tx, now int64) (int64, error) {
			return q.PurgeSyncRuns(ctx, now-dispatch.SyncRunLife.Microseconds(), purgedAtOnce)
		},
		func(q tx, now int64) (int64, error) {
			return 0, q.PurgeRunTimes(ctx, now-dispatch.RunTimesLife.Microseconds())
		},
	} {
		err = errors.Join(err, s.inBatches(ctx, unreported, purge))
	}
	return err
}

// purgeHooks deletes the hooks of jobs and tasks that were deleted.
func (s *Store) purgeHooks(ctx context.Context) error {
	return purgeFound(ctx, s, unreported, func(after string, n int64) ([]string, error) {
		return s.queries(s.read).ListOrphanedHooks(ctx, after, n)
	},
		func(q tx, id string) (int64, error) { return 0, q.PurgeHook(ctx, id) })
}

// unreported is deleted without telling the function of OnRemoved.
const unreported = ""

// report passes what was deleted to the function of OnRemoved.
func (s *Store) report(what string, n int64) {
	if s.removed != nil && what != unreported && n > 0 {
		s.removed(what, n)
	}
}

// inBatches calls purge, each time in a transaction of its own, until it deletes less than it may.
func (s *Store) inBatches(ctx context.Context, what string, purge func(q tx, now int64) (int64, error)) error {
	for deleted := int64(purgedAtOnce); deleted >= purgedAtOnce; {
		err := s.in(ctx, s.write, "Purge", func(q tx, now int64) (err error) {
			deleted, err = purge(q, now)
			return err
		})
		if err != nil {
			return err
		}
		s.report(what, deleted)
	}
	return nil
}

// purgeJobs deletes some jobs with what defined their services.
func purgeJobs(ctx context.Context, q tx, before int64) (int64, error) {
	jobs, err := q.PurgeJobs(ctx, before, purgedAtOnce)
	for _, id := range jobs {
		err = errors.Join(err, q.PurgeDefinition(ctx, 0, id))
	}
	return int64(len(jobs)), err
}

// purgeFound deletes rows that find finds without a lock, until it finds less than it may. find gets the last row that it found, at first
// the zero R, and begins after it where no index leads to the rows, so that a table is read once. remove must check that the row may still be deleted, by the same condition, and returns how many it deleted.
func purgeFound[R any](ctx context.Context, s *Store, what string, find func(after R, n int64) ([]R, error), remove func(tx, R) (int64, error)) error {
	for last := *new(R); ; {
		found, err := find(last, purgedAtOnce)
		if err == nil && len(found) > 0 {
			err = removeAll(ctx, s, what, found, remove)
		}
		if err != nil || len(found) < purgedAtOnce {
			return fail("Purge", err)
		}
		last = found[len(found)-1]
	}
}

// removeAll calls remove for each row, in one transaction.
func removeAll[R any](ctx context.Context, s *Store, what string, rows []R, remove func(tx, R) (int64, error)) error {
	var removed int64
	err := s.in(ctx, s.write, "Purge", func(q tx, _ int64) error {
		removed = 0
		for _, r := range rows {
			n, err := remove(q, r)
			if err != nil {
				return err
			}
			removed += n
		}
		return nil
	})
	if err == nil {
		s.report(what, removed)
	}
	return err
}

// purgeTasks deletes the tasks that have no jobs left. Two processes that delete the last jobs of a task at the same time do not know that yet.
func (s *Store) purgeTasks(ctx context.Context) error {
	return purgeFound(ctx, s, removedTasks, func(after dispatch.TaskID, n int64) ([]dispatch.TaskID, error) {
		return s.queries(s.read).ListEmptyTasks(ctx, after, n)
	},
		func(q tx, id dispatch.TaskID) (int64, error) {
			deleted, err := q.PurgeTask(ctx, id)
			if err != nil || deleted == 0 {
				return 0, err
			}
			return deleted, errors.Join(q.PurgeDefinition(ctx, int64(id), 0), q.PurgeTaskCosts(ctx, int64(id)))
		})
}

func (s *Store) purgeDocuments(ctx context.Context) error {
	return purgeFound(ctx, s, unreported, func(after string, n int64) ([]string, error) {
		return s.queries(s.read).ListUnusedDocuments(ctx, after, n)
	},
		func(q tx, hash string) (int64, error) { return 0, q.PurgeDocument(ctx, hash) })
}

// purgeCounts deletes counts of nothing.
func (s *Store) purgeCounts(ctx context.Context) error {
	q := s.queries(s.read)
	return errors.Join(
		purgeFound(ctx, s, unreported, func(l query.ListEmptyLinesRow, n int64) ([]query.ListEmptyLinesRow, error) {
			return q.ListEmptyLines(ctx, query.ListEmptyLinesParams{Account: string(l.Account), Owner: string(l.Owner), Task: int64(l.Task), N: n})
		},
			func(q tx, l query.ListEmptyLinesRow) (int64, error) {
				return 0, q.PurgeLine(ctx, l.Account, l.Owner, int64(l.Task))
			}),
		purgeFound(ctx, s, unreported, func(c query.ListEmptyStatusesRow, n int64) ([]query.ListEmptyStatusesRow, error) {
			return q.ListEmptyStatuses(ctx, int64(c.Task), string(c.Status), n)
		},
			func(q tx, c query.ListEmptyStatusesRow) (int64, error) {
				return 0, q.PurgeStatus(ctx, int64(c.Task), c.Status)
			}))
}

// purgeTurns deletes the turns of lines and owners that were served before all who wait at their account: a newcomer without a turn gets the
// same place.
func (s *Store) purgeTurns(ctx context.Context) error {
	accounts, err := s.queries(s.read).ListTurnAccounts(ctx)
	if err != nil {
		return fail("Purge", err)
	}
	for _, a := range accounts {
		err = errors.Join(err, s.purgeTurnsOf(ctx, a))
	}
	return err
}

// purgeTurnsOf reads the lines before its transactions. A line that begins to wait meanwhile, and whose turn is deleted, stays before all that
// waited.
func (s *Store) purgeTurnsOf(ctx context.Context, a dispatch.Account) error {
	waiting, err := s.queries(s.read).ListLines(ctx, a)
	if err != nil {
		return fail("Purge", err)
	}
	least := int64(math.MaxInt64)
	for _, l := range waiting {
		least = min(least, l.Served)
	}
	return s.inBatches(ctx, unreported, func(q tx, _ int64) (int64, error) { return q.ForgetTurns(ctx, a, least, purgedAtOnce) })
}
