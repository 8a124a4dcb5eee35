package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	changedAtOnce = 200                   // jobs of a task that its change begins with
	rangeWithin   = 25 * time.Millisecond // how long a transaction of a change should take
	fewestAtOnce  = 20                    // jobs of a transaction, however long it takes
	ownerWaits    = 5 * time.Second       // how long a caller waits for the end of a large change
	mostAtOnce    = 2000                  // jobs of a transaction, however short it is
)

// The changes of the jobs of a task.
const (
	changeCancel     = "cancel"      // and end their pause
	changeDelete     = "delete"      // cancel, end their pause, and hide them
	changeDiscard    = "discard"     // as changeDelete, and plan their removal from the platform
	changeCancelSome = "cancel some" // those with some statuses or numbers
	changePause      = "pause"
	changeResume     = "resume"
	changeRetry      = "retry"
)

// taskChange is a change of jobs of a task, range by range in the order of their numbers. The first range is changed in
// the transaction that decides on the change. If more are left, it stores what is left in the table task_changes, and
// others follow: whoever made the change, the next change of the task, which comes after all ranges of this one, or
// FinishChanges; what a visit begins is left to FinishChanges at once. From the first commit on, Intend submits no
// waiting job of a task whose change stops it, and the jobs that a retry will add count in quotas.
type taskChange struct {
	task     dispatch.TaskID
	owner    dispatch.UserID
	account  dispatch.Account
	action   string
	stops    bool              // it keeps the waiting jobs of the task from being submitted
	statuses []dispatch.Status // of the jobs that it concerns; nil: any
	numbers  []int64           // of the jobs that it concerns, in order; nil: all
	last     int64             // number of the last job that it concerns
	done     int64             // number up to which it has changed the jobs
	jobs     int64             // that it will add to those of the owner that live
	bytes    int64             // of the requests of these
}

// changeOfAll returns a change of all jobs of a task.
func changeOfAll(ctx context.Context, q querier, id dispatch.TaskID, action string) (*taskChange, error) {
	c := &taskChange{task: id, action: action, stops: action != changeResume && action != changeRetry}
	err := q.QueryRowContext(ctx, `
		SELECT number FROM jobs WHERE task = CAST($1 AS BIGINT) AND task <> 0 ORDER BY number DESC LIMIT 1`,
		id).Scan(&c.last)
	return c, missing(err)
}

// only limits the change to jobs with some numbers.
func (c *taskChange) only(numbers []int64) *taskChange {
	slices.Sort(numbers)
	c.numbers, c.last = slices.Compact(numbers), 0
	if n := len(c.numbers); n > 0 {
		c.last = c.numbers[n-1]
	}
	return c
}

func (c *taskChange) ended() bool { return c.done >= c.last }

// next returns the next range of at most n jobs: from the number after first up to last and, of these, the given ones
// or, if that is nil, all.
func (c *taskChange) next(n int64) (first, last int64, numbers []int64) {
	if c.numbers == nil {
		return c.done, min(c.done+n, c.last), nil
	}
	at, _ := slices.BinarySearch(c.numbers, c.done+1)
	numbers = c.numbers[at:min(int64(at)+n, int64(len(c.numbers)))]
	return numbers[0] - 1, numbers[len(numbers)-1], numbers
}

// step changes the next range of at most n jobs, and returns how many it canceled or retried.
func (c *taskChange) step(ctx context.Context, q tx, n int64, t lockedTask, now int64) (changed int, err error) {
	if c.ended() {
		return 0, nil
	}
	begins := c.done == 0
	first, last, numbers := c.next(n)
	if c.done = last; !begins || !c.ended() { // the task shows how far the change has come
		q.numbers.task(c.task, c.owner, false)
	}
	var w where
	w.and("jobs.task = CAST(" + w.arg(int64(c.task)) + " AS BIGINT) AND jobs.task <> 0")
	if numbers != nil {
		anyOf(q, &w, "jobs.number", numbers)
	} else {
		w.and("jobs.number > " + w.arg(first) + " AND jobs.number <= " + w.arg(last))
	}
	if c.action == changeRetry {
		w.and("jobs.phase = 'ended' AND jobs.status = 'failed' AND NOT jobs.pruned")
		c.jobs -= int64(len(numbers))
	}
	_, err = changeJobs(ctx, q, w, func(j stored) (dispatch.Job, bool) {
		next, counts, differs := c.rule(j.Job, t.spread, at(now))
		if c.action == changeRetry {
			c.bytes -= j.bytes
		}
		if counts {
			changed++
		}
		return next, differs
	})
	return changed, err
}

// rule returns what the change makes of a job, and reports whether the job is canceled or retried, and whether anything
// of it changes.
func (c *taskChange) rule(j dispatch.Job, several bool, now time.Time) (next dispatch.Job, counts, differs bool) {
	switch c.action {
	case changePause:
		next, differs = j.Pause(now)
		return next, false, differs
	case changeResume:
		next, differs = j.Resume(now)
		return next, false, differs
	case changeRetry:
		if !j.Retryable() {
			return j, false, false
		}
		next = j.RetryAmong(several, now)
		next.Version++
		return next, true, true
	case changeCancelSome:
		if c.statuses != nil && !slices.Contains(c.statuses, j.Status) {
			return j, false, false
		}
		next, counts = j.Cancel(now)
		return next, counts, counts
	}
	next, counts = j.Cancel(now)
	next, differs = next.Resume(now)
	differs = differs || counts
	if c.action != changeCancel {
		hidden := false
		next, hidden = next.Hide()
		differs = differs || hidden
	}
	if c.action == changeDiscard {
		planned := false
		next, planned = next.PlanRemoval(now)
		differs = differs || planned
	}
	return next, counts, differs
}

// keep stores what is left of the change.
func (c *taskChange) keep(ctx context.Context, q querier, touched int64) error {
	_, err := q.ExecContext(ctx, `
		INSERT INTO task_changes (task, owner, account, action, stops, statuses, numbers, last, done, jobs, bytes, touched)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (task) DO UPDATE SET done = excluded.done, jobs = excluded.jobs, bytes = excluded.bytes,
			touched = excluded.touched`,
		c.task, c.owner, c.account, c.action, c.stops, encoded(c.statuses, isEmpty), encoded(c.numbers, isEmpty),
		c.last, c.done, c.jobs, c.bytes, touched)
	return err
}

// openChange returns the change of a task that is under way; nil if there is none.
func openChange(ctx context.Context, q querier, id dispatch.TaskID) (*taskChange, error) {
	c := &taskChange{task: id}
	err := q.QueryRowContext(ctx, `
		SELECT owner, account, action, stops, statuses, numbers, last, done, jobs, bytes
		FROM task_changes WHERE task = CAST($1 AS BIGINT)`, id).
		Scan(&c.owner, &c.account, &c.action, &c.stops, encodedIn[[]dispatch.Status]{&c.statuses},
			encodedIn[[]int64]{&c.numbers}, &c.last, &c.done, &c.jobs, &c.bytes)
	if err != nil {
		return nil, missing(err)
	}
	return c, nil
}

// lockedTask is what changes of a task need of it.
type lockedTask struct {
	id        dispatch.TaskID
	owner     dispatch.UserID
	account   dispatch.Account
	spread    bool
	moves     int64
	paused    bool
	pausedFor dispatch.Attention
	budget    dispatch.Budget
	trial     int64
	hidden    bool
}

// lockTask locks a task, also one that its owner has deleted: its other changes come before or after, not in between.
func lockTask(ctx context.Context, q tx, id dispatch.TaskID) (t lockedTask, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT id, owner, account, spread, moves, paused, paused_for, budget, budget_unit, trial, hidden
		FROM tasks WHERE id = $1`+q.lock("tasks"), id).
		Scan(&t.id, &t.owner, &t.account, &t.spread, &t.moves, &t.paused, &t.pausedFor, &t.budget.Amount,
			&t.budget.Unit, &t.trial, &t.hidden)
	return t, err
}

// lockOwnTask is lockTask for its owner, who sees no task that is deleted.
func lockOwnTask(ctx context.Context, q tx, u dispatch.UserID, id dispatch.TaskID) (lockedTask, error) {
	t, err := lockTask(ctx, q, id)
	if err == nil && (t.owner != u || t.hidden) {
		err = sql.ErrNoRows
	}
	return t, err
}

// changeTask changes a task and its jobs for its owner, and wakes its account with the last of them. Changes of the
// same task come one after the other. The account's row is written last, as in Save. begin returns the change of the
// jobs; nil: nothing changes, and nobody is woken. It returns how many jobs were canceled or retried. Of a large task
// that may be some: the change holds from the first commit on, and the caller waits for ownerWaits; then FinishChanges
// ends it, as after an error.
func (s *Store) changeTask(ctx context.Context, op string, u dispatch.UserID, id dispatch.TaskID,
	begin func(q tx, t lockedTask, now int64) (*taskChange, error)) (a dispatch.Account, n int, err error) {
	for {
		var before, c *taskChange
		err = s.in(allow(ctx, listWithin), s.write, op, func(q tx, now int64) error {
			before, c, n = nil, nil, 0
			t, err := lockOwnTask(ctx, q, u, id)
			if err != nil {
				return err
			}
			a = t.account
			if before, err = openChange(ctx, q, id); err != nil || before != nil {
				return err
			}
			if c, err = begin(q, t, now); err != nil || c == nil {
				return err
			}
			c.owner, c.account = u, a
			if n, err = c.step(ctx, q, int64(s.atOnce(changedAtOnce)), t, now); err == nil {
				err = q.number(ctx)
			}
			switch {
			case err != nil:
				return err
			case !c.ended():
				return c.keep(ctx, q, now)
			}
			return wakeTask(ctx, q, t, now)
		})
		if err == nil && before != nil {
			switch ended, _, err := s.finishChange(ctx, id, ownerWaits); {
			case err != nil:
				return a, n, err
			case !ended:
				return a, n, &dispatch.Error{Kind: dispatch.LimitReached, Op: "store." + op, RetryAfter: ownerWaits,
					Text: "An earlier change of this task is still being applied to its jobs. Try again in a few " +
						"seconds."}
			}
			continue
		}
		if err != nil || c == nil || c.ended() {
			return a, n, err
		}
		_, more, err := s.finishChange(ctx, id, ownerWaits)
		return a, n + more, err
	}
}

// begin begins to pause or to resume the jobs of a task, in a transaction of a visit. What is left after the first
// range is left to FinishChanges, so that a large task delays no other job of the account.
//
// Of another pause or resumption under way, which is left to FinishChanges, too, nothing is left to do if this one
// comes to all of its jobs: they are as they were before it. Any other change is carried out first, which is rare: its
// caller is in the middle of it.
func (c *taskChange) begin(ctx context.Context, q tx, now int64) error {
	t, err := lockTask(ctx, q, c.task)
	if err != nil {
		return err
	}
	c.owner, c.account = t.owner, t.account
	before, err := openChange(ctx, q, c.task)
	if err != nil {
		return err
	}
	if before != nil {
		pauses := before.action == changePause || before.action == changeResume
		if pauses && c.last < before.last { // it pauses the jobs after those that c resumes
			before.done = max(before.done, c.last)
			return errors.Join(c.finish(ctx, q, t, now), before.keep(ctx, q, untouched))
		}
		if !pauses {
			err = before.finish(ctx, q, t, now)
		}
		if err = errors.Join(err, endChange(ctx, q, t, now)); err != nil {
			return err
		}
	}
	if _, err := c.step(ctx, q, changedAtOnce, t, now); err != nil || c.ended() {
		return err
	}
	return c.keep(ctx, q, untouched)
}

// untouched is when a change was last continued of which the rest is left to FinishChanges from the start.
const untouched = 0

// finish changes all ranges that are left.
func (c *taskChange) finish(ctx context.Context, q tx, t lockedTask, now int64) error {
	for !c.ended() {
		if _, err := c.step(ctx, q, changedAtOnce, t, now); err != nil {
			return err
		}
	}
	return nil
}

// finishChange changes the remaining ranges of a task's change, each in its own transaction, as many as begin within a
// time. It reports whether the change has ended, and returns how many jobs it canceled or retried. Others may do so at
// the same time.
func (s *Store) finishChange(ctx context.Context, id dispatch.TaskID, within time.Duration) (ended bool, n int,
	err error) {
	ctx = allow(ctx, listWithin)
	until := time.Now().Add(within)
	for length := s.atOnce(changedAtOnce); !ended && time.Now().Before(until); {
		if s.beforeRange != nil {
			s.beforeRange(ctx)
		}
		if err := ctx.Err(); err != nil {
			return false, n, fail("ContinueChange", err)
		}
		began, changed := time.Now(), 0
		err = s.in(ctx, s.write, "ContinueChange", func(q tx, now int64) error {
			ended, changed, err = continueChange(ctx, q, id, int64(length), now)
			return err
		})
		if err != nil {
			return false, n, err
		}
		n += changed
		length = s.atOnce(nextLength(length, time.Since(began)))
	}
	return ended, n, nil
}

// nextLength returns how many jobs the next transaction should change, after one that changed length jobs took so long.
func nextLength(length int, took time.Duration) int {
	fit := float64(length) * float64(rangeWithin) / float64(max(took, 1))
	return int(max(fewestAtOnce, min(fit, float64(2*length), mostAtOnce)))
}

// continueChange changes the next range of at most length jobs, and reports whether it was the last.
func continueChange(ctx context.Context, q tx, id dispatch.TaskID, length, now int64) (ended bool, n int, err error) {
	t, err := lockTask(ctx, q, id)
	if errors.Is(err, sql.ErrNoRows) { // purged, with its change
		return true, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	c, err := openChange(ctx, q, id)
	if err != nil || c == nil {
		return err == nil, 0, err
	}
	if n, err = c.step(ctx, q, length, t, now); err != nil {
		return false, 0, err
	}
	if !c.ended() {
		return false, n, c.keep(ctx, q, now)
	}
	return true, n, endChange(ctx, q, t, now)
}

// endChange ends the change of a task, and wakes its accounts, which may have passed over its jobs meanwhile.
func endChange(ctx context.Context, q tx, t lockedTask, now int64) error {
	_, err := q.ExecContext(ctx, "DELETE FROM task_changes WHERE task = CAST($1 AS BIGINT)", t.id)
	return errors.Join(err, wakeTask(ctx, q, t, now))
}

// atOnce returns how many jobs a transaction of a change may write at most: n, or what ChangeInRanges has set.
func (s *Store) atOnce(n int) int {
	if s.changeRange > 0 {
		return s.changeRange
	}
	return n
}

// FinishChanges finishes the changes of tasks that nobody has continued for idle. One whose time is in the future was
// continued before the clock was set back.
func (s *Store) FinishChanges(ctx context.Context, idle time.Duration) (finished []dispatch.FinishedChange, err error) {
	type changes = []dispatch.FinishedChange
	open, err := result(ctx, s.readOnly, s.read, "FinishChanges", func(q tx, now int64) (changes, error) {
		return list(ctx, q, func(c *dispatch.FinishedChange) []any {
			return []any{&c.Task, &c.Owner, &c.Account, &c.Action}
		}, `SELECT task, owner, account, action FROM task_changes
			WHERE touched <= CAST($1 AS BIGINT) OR touched > CAST($2 AS BIGINT) ORDER BY task`,
			now-idle.Microseconds(), now)
	})
	for _, c := range open {
		if err != nil {
			return finished, err
		}
		ended := false
		if ended, _, err = s.finishChange(ctx, c.Task, listWithin); ended {
			finished = append(finished, c)
		}
	}
	return finished, err
}
