package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// purgedAtOnce is how many rows, or jobs with all that belongs to them, one transaction of Purge deletes. Others wait
// for it: on SQLite all who write, for some ten milliseconds at most.
const purgedAtOnce = 50

// Purge deletes hidden jobs that ended more than keep ago, unused documents, and expired keys, tokens and unstarted
// jobs, in many small transactions. What is to be deleted is found by an index, or outside of the transactions.
func (s *Store) Purge(ctx context.Context, keep time.Duration) error {
	ctx = allow(ctx, upkeepWithin)
	return errors.Join(s.purgeExpired(ctx, keep), s.purgeTasks(ctx), s.purgeHooks(ctx), s.purgeDocuments(ctx))
}

// purgeExpired deletes what is too old, and the counts and turns of queues without a job that waits or holds a slot:
// they are few, so that no index leads to them. The condition stands twice to hold for the second of two processes,
// too.
func (s *Store) purgeExpired(ctx context.Context, keep time.Duration) error {
	err := s.inBatches(ctx, removedJobs, func(q tx, now int64) (int64, error) {
		return purgeJobs(ctx, q, now-keep.Microseconds())
	})
	ago := func(d time.Duration) func(int64) any { return func(now int64) any { return now - d.Microseconds() } }
	for _, old := range []struct {
		what, table, key, by, condition string
		before                          func(now int64) any // $2; nil: the condition has none
	}{
		{removedKeys, "keys", "owner, name", "created", "created <= $2", ago(s.keyLife)},
		{unreported, "period_counts", "owner, account, period", "period", "period < $2",
			func(now int64) any { return purgedPeriod(now) }},
		{unreported, "label_costs", "owner, name, month, account, unit, value", "month", "month < $2",
			func(now int64) any { return forgottenMonth(now) }},
		{unreported, "tokens", "name", "expires", "expires <= $2", ago(0)},
		{unreported, "sessions", "id", "ends", "ends <= $2", ago(0)},
		{unreported, "unstarted", "job, task", "expires", "expires <= $2", ago(0)},
		{unreported, "deliveries", "hook, job, task, epoch, status", "queued", "queued <= $2",
			ago(dispatch.DeliveryLife)},
		{unreported, "sync_runs", "id", "created", "created < $2 AND lapses < $2", ago(dispatch.SyncRunLife)},
		{unreported, "queue_counts", "account, owner, task", "account", "waiting = 0 AND held = 0", nil},
	} {
		text := fmt.Sprintf(`
			DELETE FROM %s
			WHERE (%s) IN (
				SELECT %[2]s FROM %[1]s
				WHERE %[4]s
				ORDER BY %[3]s
				LIMIT CAST($1 AS BIGINT)) AND %[4]s`, old.table, old.key, old.by, old.condition)
		err = errors.Join(err, s.inBatches(ctx, old.what, func(q tx, now int64) (int64, error) {
			args := []any{purgedAtOnce}
			if old.before != nil {
				args = append(args, old.before(now))
			}
			return exec(ctx, q, text, args...)
		}))
	}
	return err
}

// purgeHooks deletes the hooks of jobs and tasks that were deleted. Ids are not used again, so that a hook stays an
// orphan.
func (s *Store) purgeHooks(ctx context.Context) error {
	return s.purgeRows(ctx, `
		SELECT h.id FROM hooks h
		WHERE h.id > $1 AND (h.job <> 0 AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = h.job)
			OR h.task <> 0 AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = h.task))
		ORDER BY h.id
		LIMIT CAST($2 AS BIGINT)`,
		"DELETE FROM hooks WHERE id = $1")
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
		var err error
		if deleted, err = s.removeSome(ctx, what, purge); err != nil {
			return err
		}
	}
	return nil
}

// removeSome deletes rows in one transaction. A transaction that deletes or changes several jobs does so with all of
// them at once, so that it locks the rows that follow from them, such as those of owners, in the order of all others.
func (s *Store) removeSome(
	ctx context.Context, what string, remove func(q tx, now int64) (int64, error),
) (removed int64, err error) {
	removed, err = result(ctx, s.in, s.write, "Purge", remove)
	if err == nil {
		s.report(what, removed)
	}
	return removed, err
}

// purgeJobs deletes some jobs with what defined their services.
func purgeJobs(ctx context.Context, q tx, before int64) (int64, error) {
	var w where
	w.and(`jobs.id IN (
		SELECT j.id FROM jobs j
		WHERE j.hidden AND j.phase = 'ended' AND j.orphans = '' AND j.removal_due = 0 AND j.moved < ` + w.arg(before) +
		`
		ORDER BY j.moved LIMIT CAST(` + w.arg(int64(purgedAtOnce)) + ` AS BIGINT)` + q.skipLocked() + `)`)
	return deleteDefined(ctx, q, w)
}

// deleteDefined deletes the jobs that w selects with what defined their services, and returns how many it deleted.
func deleteDefined(ctx context.Context, q tx, w where) (int64, error) {
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
// once. remove must check that the rows may still be deleted, by the same condition, and returns how many it deleted.
func purgeFound[R any](
	ctx context.Context, s *Store, what string, find func(after R, n int64) ([]R, error),
	remove func(tx, []R) (int64, error),
) error {
	for last := *new(R); ; {
		found, err := find(last, purgedAtOnce)
		if err == nil && len(found) > 0 {
			_, err = s.removeSome(ctx, what, func(q tx, _ int64) (int64, error) { return remove(q, found) })
		}
		if err != nil || len(found) < purgedAtOnce {
			return fail("Purge", err)
		}
		last = found[len(found)-1]
	}
}

// purgeRows is purgeFound for rows that one statement finds, by the last key and how many, and another deletes by its
// key.
func (s *Store) purgeRows(ctx context.Context, find, remove string) error {
	return purgeFound(ctx, s, unreported, func(after string, n int64) ([]string, error) {
		return list(ctx, s.on(s.read), single[string], find, after, n)
	}, func(q tx, keys []string) (int64, error) {
		return each(keys, func(key string) (int64, error) { return exec(ctx, q, remove, key) })
	})
}

// each calls remove for each row, and returns how many it deleted.
func each[R any](rows []R, remove func(R) (int64, error)) (removed int64, err error) {
	for _, r := range rows {
		n, err := remove(r)
		if err != nil {
			return 0, err
		}
		removed += n
	}
	return removed, nil
}

// purgeTasks deletes the tasks that have no jobs left. Two processes that delete the last jobs of a task at the same
// time do not know that yet.
func (s *Store) purgeTasks(ctx context.Context) error {
	return purgeFound(ctx, s, removedTasks, func(after dispatch.TaskID, n int64) ([]dispatch.TaskID, error) {
		return list(ctx, s.on(s.read), single[dispatch.TaskID], `
				SELECT id FROM tasks
				WHERE hidden AND id > $1
					AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.task = tasks.id AND jobs.task <> 0)
				ORDER BY id
				LIMIT CAST($2 AS BIGINT)`, after, n)
	}, func(q tx, ids []dispatch.TaskID) (int64, error) {
		floors := map[dispatch.UserID]int64{}
		n, err := each(ids, func(id dispatch.TaskID) (int64, error) { return purgeTask(ctx, q, id, floors) })
		var all []command
		for _, u := range slices.Sorted(maps.Keys(floors)) {
			all = append(all, raiseFloor(u, floors[u]))
		}
		return n, errors.Join(err, q.runAll(ctx, all))
	})
}

// purgeTask deletes a hidden task without jobs, with its number: readers who have not read up to that do not hear of
// the deletion, which is noted in floors.
func purgeTask(ctx context.Context, q tx, id dispatch.TaskID, floors map[dispatch.UserID]int64) (int64, error) {
	deleted, err := exec(ctx, q, `
		DELETE FROM tasks
		WHERE id = $1 AND hidden
			AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.task = tasks.id AND jobs.task <> 0)`, id)
	if err != nil || deleted == 0 {
		return 0, err
	}
	var u dispatch.UserID
	var n int64
	err = q.QueryRowContext(ctx, "DELETE FROM task_numbers WHERE task = $1 RETURNING owner, change", id).
		Scan(text(&u), &n)
	if err == nil {
		floors[u] = max(floors[u], n)
	}
	return deleted, errors.Join(missing(err), purgeDefinition(ctx, q, id, 0),
		run(ctx, q, "DELETE FROM task_costs WHERE task = $1", id),
		run(ctx, q, "DELETE FROM task_counts WHERE task = $1", id))
}

func (s *Store) purgeDocuments(ctx context.Context) error {
	return s.purgeRows(ctx, `
		SELECT hash FROM documents
		WHERE hash > $1 AND NOT EXISTS (SELECT 1 FROM definitions WHERE definitions.document = documents.hash)
		ORDER BY hash
		LIMIT CAST($2 AS BIGINT)`, `
		DELETE FROM documents
		WHERE hash = $1 AND NOT EXISTS (SELECT 1 FROM definitions WHERE definitions.document = documents.hash)`)
}
