package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// The kinds of rows that Retain and Purge report to the function of OnRemoved.
const (
	removedResults  = "results"
	removedRequests = "requests"
	removedJobs     = "jobs"
	removedTasks    = "tasks"
	removedKeys     = "keys"
)

// OnRemoved has Retain and Purge report what they deleted, after each commit. Call it before either.
func (s *Store) OnRemoved(report func(kind string, n int64)) { s.removed = report }

// KeepKeys sets for how long idempotency keys are kept, instead of [dispatch.KeyLife]. Call it before the store is
// used.
func (s *Store) KeepKeys(d time.Duration) { s.keyLife = d }

// horizon returns the time before which something has aged; 0, which nothing is before, if it is kept for ever. Jobs
// are then looked for all the same: their index shows at once that there are none.
func horizon(now int64, keep time.Duration) int64 {
	if keep == 0 {
		return 0
	}
	return now - keep.Microseconds()
}

// Retain deletes what is older than r keeps: first results, then requests, then whole jobs and tasks. What has aged
// is found without a lock; each of the many transactions checks again that a job has not been retried meanwhile.
func (s *Store) Retain(ctx context.Context, r dispatch.Retention) error {
	ctx = allow(ctx, upkeepWithin)
	now, err := s.now(ctx, s.read)
	if err != nil {
		return fail("Retain", err)
	}
	results, requests, jobs := horizon(now, r.Results), horizon(now, r.Requests), horizon(now, r.Jobs)
	return errors.Join(s.planAgedRemovals(ctx, now, horizon(now, r.Platform)), s.pruneResults(ctx, results),
		s.pruneRequests(ctx, requests), s.pruneTasks(ctx, requests), s.deleteAgedJobs(ctx, jobs),
		s.deleteAgedTasks(ctx, jobs))
}

// Aged counts what Retain would delete.
func (s *Store) Aged(ctx context.Context, r dispatch.Retention) (dispatch.Aged, error) {
	ctx = allow(ctx, upkeepWithin)
	return result(ctx, s.readOnly, s.read, "Aged", func(q tx, now int64) (a dispatch.Aged, err error) {
		requests, jobs := horizon(now, r.Requests), horizon(now, r.Jobs)
		// Of results, not of jobs, all are read: the order of a CROSS JOIN is kept by SQLite.
		err = q.QueryRowContext(ctx, `
			SELECT (
				SELECT count(*) FROM results r CROSS JOIN jobs j
				WHERE j.id = r.job AND j.phase = 'ended' AND j.moved < $1),
			(
				SELECT count(*) FROM jobs a
				WHERE a.task = 0 AND a.phase = 'ended' AND a.pruned = FALSE AND a.moved < $2 AND a.orphans = ''
					AND a.removal_due = 0),
			(
				SELECT count(*) FROM jobs b
				WHERE b.task = 0 AND b.phase = 'ended' AND b.pruned IN (FALSE, TRUE) AND b.moved < $3 AND b.orphans = ''
					AND b.removal_due = 0)`,
			horizon(now, r.Results), requests, jobs).Scan(&a.Results, &a.Requests, &a.Jobs)
		if err != nil {
			return a, err
		}
		// Of tasks those count whose jobs have all ended, by when the last of them did.
		var ofTasks dispatch.Aged
		err = q.QueryRowContext(ctx, `
			SELECT CAST(COALESCE(SUM(CASE WHEN a.moved < $1 THEN a.unpruned ELSE 0 END), 0) AS BIGINT),
				CAST(COALESCE(SUM(CASE WHEN a.moved < $2 THEN a.jobs ELSE 0 END), 0) AS BIGINT),
				COUNT(CASE WHEN a.moved < $2 THEN 1 END)
			FROM (
				SELECT max(j.moved) AS moved, COUNT(CASE WHEN NOT j.pruned THEN 1 END) AS unpruned, count(*) AS jobs
				FROM jobs j JOIN tasks t ON t.id = j.task
				WHERE j.task <> 0 AND NOT t.hidden
				GROUP BY j.task
				HAVING COUNT(CASE WHEN j.phase <> 'ended' OR j.orphans <> '' OR j.removal_due > 0 THEN 1 END) = 0
			) AS a`, requests, jobs).Scan(&ofTasks.Requests, &ofTasks.Jobs, &ofTasks.Tasks)
		a.Requests, a.Jobs, a.Tasks = a.Requests+ofTasks.Requests, a.Jobs+ofTasks.Jobs, ofTasks.Tasks
		return a, err
	})
}

func (s *Store) pruneResults(ctx context.Context, before int64) error {
	if before == 0 {
		return nil
	}
	return purgeFound(ctx, s, removedResults, func(after dispatch.JobID, n int64) ([]dispatch.JobID, error) {
		return list(ctx, s.on(s.read), single[dispatch.JobID], `
				SELECT r.job
				FROM results r JOIN jobs j ON j.id = r.job
				WHERE r.job > $1 AND j.phase = 'ended' AND j.moved < $3
				ORDER BY r.job
				LIMIT CAST($2 AS BIGINT)`, after, n, before)
	}, func(q tx, ids []dispatch.JobID) (int64, error) {
		return each(ids, func(id dispatch.JobID) (int64, error) {
			n, err := exec(ctx, q, `
				DELETE FROM results
				WHERE job = $1 AND EXISTS (
					SELECT 1 FROM jobs j
					WHERE j.id = results.job AND j.phase = 'ended' AND j.moved < $2)`, id, before)
			if err != nil || n == 0 {
				return n, err
			}
			return n, run(ctx, q, "DELETE FROM items WHERE job = $1", id)
		})
	})
}

// agedJobs returns jobs of no task that ended before a time. The conditions are those of the index jobs_aging.
func (s *Store) agedJobs(ctx context.Context, pruned bool, before, n int64) ([]dispatch.JobID, error) {
	return list(ctx, s.on(s.read), single[dispatch.JobID], `
		SELECT id FROM jobs
		WHERE task = 0 AND phase = 'ended' AND pruned = $1 AND moved < $2 AND orphans = '' AND removal_due = 0
		ORDER BY moved
		LIMIT CAST($3 AS BIGINT)`, pruned, before, n)
}

// pruneRequests prunes the requests of jobs that belong to no task.
func (s *Store) pruneRequests(ctx context.Context, before int64) error {
	return purgeFound(ctx, s, removedRequests, func(_ dispatch.JobID, n int64) ([]dispatch.JobID, error) {
		return s.agedJobs(ctx, false, before, n)
	}, func(q tx, ids []dispatch.JobID) (int64, error) {
		return prune(ctx, q, ids, before, func(id dispatch.JobID) error { return pruneRequest(ctx, q, id) })
	})
}

func pruneRequest(ctx context.Context, q tx, id dispatch.JobID) error {
	body, err := value[string](ctx, q, "SELECT body FROM requests WHERE job = $1", id)
	if err != nil { // an error because there is nothing to prune would keep all others from being pruned
		return missing(err)
	}
	if body, err = prunedRequest(body); err != nil {
		return err
	}
	return errors.Join(writeBody(ctx, q, id, body), purgeDefinition(ctx, q, 0, id))
}

// prune marks those of some jobs that have aged, calls write for each of them, and returns how many there are.
func prune(
	ctx context.Context, q tx, ids []dispatch.JobID, before int64, write func(dispatch.JobID) error,
) (int64, error) {
	w := whereAny(q, "jobs.id", ids)
	w.and("jobs.phase = 'ended' AND jobs.orphans = '' AND jobs.removal_due = 0 AND NOT jobs.pruned AND jobs.moved < " +
		w.arg(before))
	aged, err := list(ctx, q, single[dispatch.JobID],
		"SELECT jobs.id FROM jobs WHERE "+w.String()+" ORDER BY jobs.id"+q.lock("jobs"), w.args...)
	if err != nil || len(aged) == 0 {
		return 0, err
	}
	w = whereAny(q, "id", aged)
	err = errors.Join(run(ctx, q, "UPDATE jobs SET pruned = TRUE WHERE "+w.String(), w.args...), renumber(ctx, q, aged))
	for _, id := range aged {
		err = errors.Join(err, write(id))
	}
	return int64(len(aged)), err
}

func writeBody(ctx context.Context, q tx, id dispatch.JobID, body string) error {
	return run(ctx, q, "UPDATE requests SET head = '', body = $1 WHERE job = $2", body, id)
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

// pruneTasks prunes the tasks whose jobs have all aged: first the values of their jobs, then what these share.
func (s *Store) pruneTasks(ctx context.Context, before int64) error {
	if before == 0 {
		return nil
	}
	return s.eachAgedTask(ctx, before, true, func(id dispatch.TaskID) error {
		err := s.jobsOf(ctx, id, removedRequests, func(q tx, jobs []dispatch.JobID) (int64, error) {
			return prune(ctx, q, jobs, before, func(job dispatch.JobID) error {
				return writeBody(ctx, q, job, prunedValue)
			})
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
			return errors.Join(
				run(ctx, q, "UPDATE tasks SET request = $1, head = '', pruned = TRUE WHERE id = $2", shared, id),
				purgeDefinition(ctx, q, id, 0))
		})
	})
}

// lockAged locks a task, so that its jobs cannot be retried, and reports whether it is still there and all of its
// jobs have aged.
func lockAged(
	ctx context.Context, q tx, id dispatch.TaskID, before int64,
) (shared string, aged bool, err error) {
	shared, err = value[string](ctx, q, "SELECT request FROM tasks WHERE id = $1 AND NOT hidden"+q.lock("tasks"), id)
	if err != nil {
		return "", false, missing(err)
	}
	aged, err = value[bool](ctx, q, `
		SELECT NOT EXISTS (
			SELECT 1 FROM jobs
			WHERE task = CAST($1 AS BIGINT) AND task <> 0
				AND (phase <> 'ended' OR orphans <> '' OR removal_due > 0 OR moved >= $2))`, id, before)
	return shared, aged, err
}

// eachAgedTask calls do for each task whose jobs have all aged; with unpruned only for those that are not pruned.
func (s *Store) eachAgedTask(ctx context.Context, before int64, unpruned bool, do func(dispatch.TaskID) error) error {
	for after := dispatch.TaskID(0); ; {
		found, err := list(ctx, s.on(s.read), single[dispatch.TaskID], `
			SELECT t.id FROM tasks t
			WHERE NOT t.hidden AND t.id > $1 AND t.created < $2 AND NOT (t.pruned AND $3)
				AND NOT EXISTS (
					SELECT 1 FROM jobs j
					WHERE j.task = t.id AND j.task <> 0
						AND (j.phase <> 'ended' OR j.orphans <> '' OR j.removal_due > 0 OR j.moved >= $2))
			ORDER BY t.id
			LIMIT CAST($4 AS BIGINT)`, after, before, unpruned, purgedAtOnce)
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

// jobsOf calls change with the jobs of a task, some in each transaction, and reports how many it changed.
func (s *Store) jobsOf(
	ctx context.Context, id dispatch.TaskID, what string, change func(tx, []dispatch.JobID) (int64, error),
) error {
	jobs, err := list(ctx, s.on(s.read), single[dispatch.JobID], `
		SELECT id FROM jobs
		WHERE task = CAST($1 AS BIGINT) AND task <> 0
		ORDER BY number`, id)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(jobs, purgedAtOnce) {
		_, err := s.removeSome(ctx, what, func(q tx, _ int64) (int64, error) { return change(q, chunk) })
		if err != nil {
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
				return s.agedJobs(ctx, pruned, before, n)
			}, func(q tx, ids []dispatch.JobID) (int64, error) { return deleteAged(ctx, q, ids, before) }))
	}
	return err
}

// deleteAged deletes those of some jobs that have aged, and returns how many it deleted.
func deleteAged(ctx context.Context, q tx, ids []dispatch.JobID, before int64) (int64, error) {
	w := whereAny(q, "jobs.id", ids)
	w.and("jobs.phase = 'ended' AND jobs.orphans = '' AND jobs.removal_due = 0 AND jobs.moved < " + w.arg(before))
	return deleteDefined(ctx, q, w)
}

// deleteAgedTasks hides the tasks whose jobs have all aged, and then deletes the aged jobs of all hidden tasks, also of
// those that were hidden when this was interrupted. Purge deletes tasks without jobs.
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
			return hideTask(ctx, q, id)
		})
	})
	if err != nil {
		return err
	}
	hidden, err := list(ctx, s.on(s.read), single[dispatch.TaskID], `
		SELECT id FROM tasks
		WHERE hidden AND created < $1
		ORDER BY id`, before)
	if err != nil {
		return fail("Retain", err)
	}
	for _, id := range hidden {
		err := s.jobsOf(ctx, id, removedJobs, func(q tx, jobs []dispatch.JobID) (int64, error) {
			return deleteAged(ctx, q, jobs, before)
		})
		if err != nil {
			return fail("Retain", err)
		}
	}
	return s.purgeTasks(ctx)
}
