package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// What Retain and Purge report to the function of OnRemoved.
const (
	removedResults  = "results"
	removedRequests = "requests"
	removedJobs     = "jobs"
	removedTasks    = "tasks"
	removedKeys     = "keys"
)

// OnRemoved has Retain and Purge report what they deleted, after each commit. Call it before either.
func (s *Store) OnRemoved(report func(kind string, n int64)) { s.removed = report }

// KeepKeys sets for how long idempotency keys are kept, instead of [dispatch.KeyLife]. Call it before the store is used.
func (s *Store) KeepKeys(d time.Duration) { s.keyLife = d }

// horizon returns the time before which something has aged; 0, which nothing is before, if it is kept for ever. Jobs are then looked for all the same:
// their index shows at once that there are none.
func horizon(now int64, keep time.Duration) int64 {
	if keep == 0 {
		return 0
	}
	return now - keep.Microseconds()
}

// Retain deletes what is older than r keeps: first results, then requests, then whole jobs and tasks. What has aged is found without a lock; each of the
// many transactions checks again that a job has not been retried meanwhile.
func (s *Store) Retain(ctx context.Context, r dispatch.Retention) error {
	ctx = allow(ctx, upkeepWithin)
	now, err := s.now(ctx, s.read)
	if err != nil {
		return fail("Retain", err)
	}
	results, requests, jobs := horizon(now, r.Results), horizon(now, r.Requests), horizon(now, r.Jobs)
	return errors.Join(s.planAgedRemovals(ctx, now, horizon(now, r.Platform)), s.pruneResults(ctx, results), s.pruneRequests(ctx, requests), s.pruneTasks(ctx, requests),
		s.deleteAgedJobs(ctx, jobs), s.deleteAgedTasks(ctx, jobs))
}

// Aged counts what Retain would delete.
func (s *Store) Aged(ctx context.Context, r dispatch.Retention) (a dispatch.Aged, err error) {
	err = s.readOnly(allow(ctx, upkeepWithin), s.read, "Aged", func(q tx, now int64) error {
		requests, jobs := horizon(now, r.Requests), horizon(now, r.Jobs)
		n, err := q.CountAged(ctx, horizon(now, r.Results), requests, jobs)
		if err != nil {
			return err
		}
		tasks, err := q.CountAgedTasks(ctx, requests, jobs)
		a = dispatch.Aged{Results: n.Results, Requests: n.Requests + tasks.Requests, Jobs: n.Jobs + tasks.Jobs, Tasks: tasks.Tasks}
		return err
	})
	return a, err
}

func (s *Store) pruneResults(ctx context.Context, before int64) error {
	if before == 0 {
		return nil
	}
	return purgeFound(ctx, s, removedResults,
		func(after dispatch.JobID, n int64) ([]dispatch.JobID, error) {
			return s.queries(s.read).ListAgedResults(ctx, after, before, n)
		},
		func(q tx, id dispatch.JobID) (int64, error) { return q.DeleteAgedResult(ctx, id, before) })
}

// pruneRequests prunes the requests of jobs that belong to no task.
func (s *Store) pruneRequests(ctx context.Context, before int64) error {
	return purgeFound(ctx, s, removedRequests,
		func(_ dispatch.JobID, n int64) ([]dispatch.JobID, error) {
			return s.queries(s.read).ListAgedJobs(ctx, false, before, n)
		},
		func(q tx, id dispatch.JobID) (int64, error) { return pruneRequest(ctx, q, id, before) })
}

func pruneRequest(ctx context.Context, q tx, id dispatch.JobID, before int64) (int64, error) {
	n, err := q.MarkPruned(ctx, id, before)
	if err != nil || n == 0 {
		return n, err
	}
	body, err := q.GetBody(ctx, id)
	if errors.Is(err, sql.ErrNoRows) { // there is nothing to prune; an error would keep all others from being pruned
		return n, nil
	}
	if err != nil {
		return 0, err
	}
	if body, err = prunedRequest(body); err != nil {
		return 0, err
	}
	return n, errors.Join(q.WriteBody(ctx, body, id), q.PurgeDefinition(ctx, 0, id))
}

// prunedRequest returns an encoded request as it is kept when it is too old.
func prunedRequest(text string) (string, error) {
	var r dispatch.Request
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return "", err
	}
	return encode(r.Pruned())
}

// prunedValue takes the place of the value of a task's job.
const prunedValue = "null"

// pruneTasks prunes the tasks of which all jobs have aged: first the values of their jobs, then what these share.
func (s *Store) pruneTasks(ctx context.Context, before int64) error {
	if before == 0 {
		return nil
	}
	return s.eachAgedTask(ctx, before, true, func(id dispatch.TaskID) error {
		err := s.eachJobOf(ctx, id, removedRequests, func(q tx, job dispatch.JobID) (int64, error) {
			n, err := q.MarkPruned(ctx, job, before)
			if err == nil && n > 0 {
				err = q.WriteBody(ctx, prunedValue, job)
			}
			return n, err
		})
		if err != nil {
			return err
		}
		return s.in(ctx, s.write, "Retain", func(q tx, _ int64) error {
			shared, aged, err := lockAged(ctx, q, id, before)
			if err != nil || !aged {
				return err
			}
			if shared, err = prunedRequest(shared); err != nil {
				return err
			}
			return errors.Join(q.PruneTask(ctx, shared, id), q.PurgeDefinition(ctx, int64(id), 0))
		})
	})
}

// lockAged locks a task, so that its jobs cannot be retried, and reports whether it is still there and all of its jobs have aged.
func lockAged(ctx context.Context, q tx, id dispatch.TaskID, before int64) (shared string, aged bool, err error) {
	if shared, err = q.LockAgedTask(ctx, id); err != nil {
		return "", false, missing(err)
	}
	young, err := q.HasYoungJob(ctx, int64(id), before)
	return shared, err == nil && !young, err
}

// eachAgedTask calls do for each task of which all jobs have aged; with unpruned only for those that are not pruned.
func (s *Store) eachAgedTask(ctx context.Context, before int64, unpruned bool, do func(dispatch.TaskID) error) error {
	for after := dispatch.TaskID(0); ; {
		found, err := s.queries(s.read).ListAgedTasks(ctx, query.ListAgedTasksParams{Before: before, After: after, Unpruned: unpruned, N: purgedAtOnce})
		if err != nil {
			return fail("Retain", err)
		}
		for _, id := range found {
			if err := do(id); err != nil {
				return fail("Retain", err)
			}
			after = id
		}
		if len(found) < purgedAtOnce {
			return nil
		}
	}
}

// eachJobOf calls change for each job of a task, some in each transaction, and reports how many it changed.
func (s *Store) eachJobOf(ctx context.Context, id dispatch.TaskID, what string, change func(tx, dispatch.JobID) (int64, error)) error {
	jobs, err := s.queries(s.read).ListJobIDs(ctx, int64(id))
	if err != nil {
		return err
	}
	for some := range slices.Chunk(jobs, purgedAtOnce) {
		if err := removeAll(ctx, s, what, some, change); err != nil {
			return err
		}
	}
	return nil
}

// deleteAgedJobs deletes jobs that belong to no task.
func (s *Store) deleteAgedJobs(ctx context.Context, before int64) (err error) {
	for _, pruned := range []bool{true, false} {
		err = errors.Join(err, purgeFound(ctx, s, removedJobs,
			func(_ dispatch.JobID, n int64) ([]dispatch.JobID, error) {
				return s.queries(s.read).ListAgedJobs(ctx, pruned, before, n)
			},
			func(q tx, id dispatch.JobID) (int64, error) { return deleteAged(ctx, q, id, before) }))
	}
	return err
}

func deleteAged(ctx context.Context, q tx, id dispatch.JobID, before int64) (int64, error) {
	n, err := q.DeleteAged(ctx, id, before)
	if err == nil && n > 0 {
		err = q.PurgeDefinition(ctx, 0, id)
	}
	return n, err
}

// deleteAgedTasks hides the tasks of which all jobs have aged, and then deletes the aged jobs of all hidden tasks, also of those that were hidden when
// this was interrupted. Purge deletes tasks without jobs.
func (s *Store) deleteAgedTasks(ctx context.Context, before int64) error {
	if before == 0 {
		return nil
	}
	err := s.eachAgedTask(ctx, before, false, func(id dispatch.TaskID) error {
		return s.in(ctx, s.write, "Retain", func(q tx, _ int64) error {
			_, aged, err := lockAged(ctx, q, id, before)
			if err != nil || !aged {
				return err
			}
			return q.HideTask(ctx, id)
		})
	})
	if err != nil {
		return err
	}
	hidden, err := s.queries(s.read).ListHiddenTasks(ctx, before)
	if err != nil {
		return fail("Retain", err)
	}
	for _, id := range hidden {
		err := s.eachJobOf(ctx, id, removedJobs, func(q tx, job dispatch.JobID) (int64, error) { return q.DeleteAged(ctx, job, before) })
		if err != nil {
			return fail("Retain", err)
		}
	}
	return s.purgeTasks(ctx)
}
