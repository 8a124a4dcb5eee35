package store

import (
	"context"
	"errors"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// purgedAtOnce is how many rows, or jobs with all that belongs to them, one transaction of Purge deletes. Others wait
// for it: on SQLite all who write, for some ten milliseconds at most.
const purgedAtOnce = 50

// Purge deletes hidden jobs that ended more than keep ago, unused documents, and expired keys, tokens, turns and
// unstarted jobs, in many small transactions. What is to be deleted is found by an index, or outside of the
// transactions.
func (s *Store) Purge(ctx context.Context, keep time.Duration) error {
	ctx = allow(ctx, upkeepWithin)
	return errors.Join(s.purgeExpired(ctx, keep), s.purgeTasks(ctx), s.purgeHooks(ctx),
		s.purgeDocuments(ctx), s.purgeTurns(ctx), s.purgeCounts(ctx))
}

// purgeExpired deletes what is too old. A condition that stands twice holds for the second of two processes, too.
func (s *Store) purgeExpired(ctx context.Context, keep time.Duration) error {
	err := s.inBatches(ctx, removedJobs, func(q tx, now int64) (int64, error) {
		return s.purgeJobs(ctx, q, now-keep.Microseconds())
	})
	for _, old := range []struct {
		what   string
		before func(now int64) any
		text   string
	}{
		{removedKeys, func(now int64) any { return now - s.keyLife.Microseconds() }, `
			DELETE FROM keys
			WHERE (owner, name) IN (
				SELECT k.owner, k.name FROM keys k
				WHERE k.created <= $1
				ORDER BY k.created
				LIMIT CAST($2 AS BIGINT)) AND created <= $1`},
		{unreported, func(now int64) any { return purgedPeriod(now) }, `
			DELETE FROM period_counts
			WHERE (owner, account, period) IN (
				SELECT c.owner, c.account, c.period FROM period_counts c
				WHERE c.period < $1
				ORDER BY c.period
				LIMIT CAST($2 AS BIGINT))`},
		{unreported, func(now int64) any { return forgottenMonth(now) }, `
			DELETE FROM label_costs
			WHERE (owner, name, month, account, unit, value) IN (
				SELECT c.owner, c.name, c.month, c.account, c.unit, c.value FROM label_costs c
				WHERE c.month < $1
				ORDER BY c.month
				LIMIT CAST($2 AS BIGINT))`},
		{unreported, func(now int64) any { return now }, `
			DELETE FROM tokens
			WHERE name IN (
				SELECT t.name FROM tokens t
				WHERE t.expires <= $1
				ORDER BY t.expires
				LIMIT CAST($2 AS BIGINT)) AND expires <= $1`},
		{unreported, func(now int64) any { return now }, `
			DELETE FROM sessions
			WHERE id IN (
				SELECT s.id FROM sessions s
				WHERE s.ends <= $1
				ORDER BY s.ends
				LIMIT CAST($2 AS BIGINT)) AND ends <= $1`},
		{unreported, func(now int64) any { return now }, `
			DELETE FROM unstarted
			WHERE (job, task) IN (
				SELECT u.job, u.task FROM unstarted u
				WHERE u.expires <= $1
				ORDER BY u.expires
				LIMIT CAST($2 AS BIGINT))`},
		{unreported, func(now int64) any { return now - dispatch.DeliveryLife.Microseconds() }, `
			DELETE FROM deliveries
			WHERE (hook, job, task, epoch, status) IN (
				SELECT d.hook, d.job, d.task, d.epoch, d.status FROM deliveries d
				WHERE d.queued <= $1
				ORDER BY d.queued
				LIMIT CAST($2 AS BIGINT))`},
		{unreported, func(now int64) any { return now - dispatch.SyncRunLife.Microseconds() }, `
			DELETE FROM sync_runs
			WHERE id IN (
				SELECT r.id FROM sync_runs r
				WHERE r.created < $1 AND r.lapses < $1
				ORDER BY r.created
				LIMIT CAST($2 AS BIGINT))`},
	} {
		err = errors.Join(err, s.inBatches(ctx, old.what, func(q tx, now int64) (int64, error) {
			return exec(ctx, q, old.text, old.before(now), purgedAtOnce)
		}))
	}
	return errors.Join(err, s.in(ctx, s.write, "Purge", func(q tx, now int64) error { // a row for each service
		return run(ctx, q, "DELETE FROM run_times WHERE updated < $1", now-dispatch.RunTimesLife.Microseconds())
	}))
}

// purgeHooks deletes the hooks of jobs and tasks that were deleted. Ids are not used again, so that a hook stays an
// orphan.
func (s *Store) purgeHooks(ctx context.Context) error {
	return purgeFound(ctx, s, unreported,
		func(after string, n int64) ([]string, error) {
			return list(ctx, s.on(s.read), single[string], `
				SELECT h.id FROM hooks h
				WHERE h.id > $1 AND (h.job <> 0 AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = h.job)
					OR h.task <> 0 AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = h.task))
				ORDER BY h.id
				LIMIT CAST($2 AS BIGINT)`, after, n)
		},
		func(q tx, id string) (int64, error) {
			return 0, run(ctx, q, "DELETE FROM hooks WHERE id = $1", id)
		})
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
func (s *Store) purgeJobs(ctx context.Context, q tx, before int64) (int64, error) {
	var w where
	w.and(`jobs.id IN (
		SELECT j.id FROM jobs j
		WHERE j.hidden AND j.phase = 'ended' AND j.orphans = '' AND j.removal_due = 0 AND j.moved < ` + w.arg(before) + `
		ORDER BY j.moved LIMIT CAST(` + w.arg(int64(purgedAtOnce)) + ` AS BIGINT)` + q.skipLocked() + `)`)
	jobs, err := deleteJobs(ctx, q, w)
	for _, id := range jobs {
		err = errors.Join(err, purgeDefinition(ctx, q, 0, id))
	}
	return int64(len(jobs)), err
}

// purgeDefinition deletes what defined the service of a task, or of a job of no task.
func purgeDefinition(ctx context.Context, q tx, task dispatch.TaskID, job dispatch.JobID) error {
	return run(ctx, q, "DELETE FROM definitions WHERE task = $1 AND job = $2", task, job)
}

// purgeFound deletes rows that find finds without a lock, until it finds less than it may. find gets the last row
// that it found, at first the zero R, and begins after it where no index leads to the rows, so that a table is read
// once. remove must check that the row may still be deleted, by the same condition, and returns how many it deleted.
func purgeFound[R any](
	ctx context.Context, s *Store, what string, find func(after R, n int64) ([]R, error),
	remove func(tx, R) (int64, error),
) error {
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

// purgeTasks deletes the tasks that have no jobs left. Two processes that delete the last jobs of a task at the same
// time do not know that yet.
func (s *Store) purgeTasks(ctx context.Context) error {
	return purgeFound(ctx, s, removedTasks,
		func(after dispatch.TaskID, n int64) ([]dispatch.TaskID, error) {
			return list(ctx, s.on(s.read), single[dispatch.TaskID], `
				SELECT id FROM tasks
				WHERE hidden AND id > $1
					AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.task = tasks.id AND jobs.task <> 0)
				ORDER BY id
				LIMIT CAST($2 AS BIGINT)`, after, n)
		},
		func(q tx, id dispatch.TaskID) (int64, error) {
			deleted, err := exec(ctx, q, `
				DELETE FROM tasks
				WHERE id = $1 AND hidden
					AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.task = tasks.id AND jobs.task <> 0)`, id)
			if err != nil || deleted == 0 {
				return 0, err
			}
			return deleted, errors.Join(purgeDefinition(ctx, q, id, 0), purgeNumber(ctx, q, id),
				run(ctx, q, "DELETE FROM task_costs WHERE task = $1", id))
		})
}

// purgeNumber deletes the number of a hidden task. Readers who have not read up to it do not hear of the deletion.
func purgeNumber(ctx context.Context, q tx, id dispatch.TaskID) error {
	var u dispatch.UserID
	var n int64
	err := q.QueryRowContext(ctx, "DELETE FROM task_numbers WHERE task = $1 RETURNING owner, change", id).
		Scan(text(&u), &n)
	if err != nil {
		return missing(err)
	}
	return q.runAll(ctx, []command{raiseFloor(u, n)})
}

func (s *Store) purgeDocuments(ctx context.Context) error {
	return purgeFound(ctx, s, unreported,
		func(after string, n int64) ([]string, error) {
			return list(ctx, s.on(s.read), single[string], `
				SELECT hash FROM documents
				WHERE hash > $1 AND NOT EXISTS (SELECT 1 FROM definitions WHERE definitions.document = documents.hash)
				ORDER BY hash
				LIMIT CAST($2 AS BIGINT)`, after, n)
		},
		func(q tx, hash string) (int64, error) {
			return 0, run(ctx, q, `
				DELETE FROM documents
				WHERE hash = $1 AND NOT EXISTS (SELECT 1 FROM definitions WHERE definitions.document = documents.hash)`, hash)
		})
}

// purgeCounts deletes counts of nothing. SQLite compares more than the first column by the index only with
// expressions that are not casts.
func (s *Store) purgeCounts(ctx context.Context) error {
	type line struct {
		account dispatch.Account
		owner   dispatch.UserID
		task    dispatch.TaskID
	}
	type status struct {
		task dispatch.TaskID
		name dispatch.Status
	}
	return errors.Join(
		purgeFound(ctx, s, unreported,
			func(after line, n int64) ([]line, error) {
				return list(ctx, s.on(s.read), func(l *line) []any {
					return []any{text(&l.account), text(&l.owner), number(&l.task)}
				}, `
					SELECT account, owner, task FROM line_counts
					WHERE (account, owner, task) > (CAST($1 AS TEXT) || '', CAST($2 AS TEXT) || '', CAST($3 AS BIGINT) + 0)
						AND waiting = 0 AND held = 0 AND served = 0
					ORDER BY account, owner, task
					LIMIT CAST($4 AS BIGINT)`, after.account, after.owner, after.task, n)
			},
			func(q tx, l line) (int64, error) {
				return 0, run(ctx, q, `
					DELETE FROM line_counts
					WHERE account = $1 AND owner = $2 AND task = $3 AND waiting = 0 AND held = 0 AND served = 0`,
					l.account, l.owner, l.task)
			}),
		purgeFound(ctx, s, unreported,
			func(after status, n int64) ([]status, error) {
				return list(ctx, s.on(s.read), func(c *status) []any { return []any{number(&c.task), text(&c.name)} }, `
					SELECT task, status FROM task_counts
					WHERE (task, status) > (CAST($1 AS BIGINT) + 0, CAST($2 AS TEXT) || '')
						AND jobs = 0 AND progress = 0 AND first = 0 AND second = 0 AND epochs = 0
					ORDER BY task, status
					LIMIT CAST($3 AS BIGINT)`, after.task, after.name, n)
			},
			func(q tx, c status) (int64, error) {
				return 0, run(ctx, q, `
					DELETE FROM task_counts
					WHERE task = $1 AND status = $2
						AND jobs = 0 AND progress = 0 AND first = 0 AND second = 0 AND epochs = 0`,
					c.task, c.name)
			}))
}

// purgeTurns forgets the turns of lines and owners that were served before all who wait at their account: a newcomer
// without a turn gets the same place. It reads the lines before its transactions. A line that begins to wait meanwhile,
// and whose turn is forgotten, stays before all that waited.
func (s *Store) purgeTurns(ctx context.Context) error {
	type served struct {
		account dispatch.Account
		least   int64 // of the lines that wait
	}
	accounts, err := list(ctx, s.on(s.read), func(a *served) []any { return []any{text(&a.account), &a.least} }, `
		SELECT account, least
		FROM (
			SELECT account, COALESCE(min(CASE WHEN waiting > 0 THEN served END), 9223372036854775807) AS least,
				min(CASE WHEN served > 0 THEN served END) AS first
			FROM line_counts
			GROUP BY account
		) AS a
		WHERE first < least`)
	if err != nil {
		return fail("Purge", err)
	}
	for _, a := range accounts {
		err = errors.Join(err, s.in(ctx, s.write, "Purge", func(q tx, _ int64) error {
			err := run(ctx, q, `
				UPDATE owner_counts
				SET served = 0
				WHERE account = $1 AND served < $2 AND owner IN (
					SELECT owner FROM line_counts WHERE account = $1 AND served > 0 AND served < $2)`, a.account, a.least)
			return errors.Join(err, run(ctx, q, `
				UPDATE line_counts
				SET served = 0
				WHERE account = $1 AND served > 0 AND served < $2`, a.account, a.least))
		}))
	}
	return err
}
