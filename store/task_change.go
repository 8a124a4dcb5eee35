package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

const (
	changedAtOnce = 200                   // jobs of a task that its change begins with
	rangeWithin   = 25 * time.Millisecond // how long a transaction of a change should take
	fewestAtOnce  = 20                    // jobs of a transaction, however long it takes
	mostAtOnce    = 2000                  // likewise, however short
)

// What changes of tasks do with their jobs.
const (
	changeCancel     = "cancel"      // and end their pause
	changeDelete     = "delete"      // likewise, and hide them
	changeDiscard    = "discard"     // likewise, and plan their removal
	changeCancelSome = "cancel some" // those with some statuses or numbers
	changePause      = "pause"
	changeResume     = "resume"
	changeRetry      = "retry"
)

// taskChange is a change of jobs of a task, range by range in the order of their numbers. The first range is changed in the transaction that decides
// on the change. If more are left, it stores what is left in the table task_changes, and others follow: whoever made the change, the next change of
// the task, which comes after all ranges of this one, or FinishChanges; what a visit begins is left to FinishChanges at once. From the first commit on, Intend submits no waiting job of a task whose
// change stops it, and the jobs that a retry will add count in quotas.
type taskChange struct {
	query.TaskChange
	numbers []int64 // of the jobs that it concerns, in order; nil: all
}

// changeOfAll returns a change of all jobs of a task.
func changeOfAll(ctx context.Context, q tx, id dispatch.TaskID, action string) (*taskChange, error) {
	last, err := q.LastNumber(ctx, int64(id))
	return &taskChange{TaskChange: query.TaskChange{Task: int64(id), Action: action, Stops: action != changeResume && action != changeRetry, Last: last}}, err
}

// only limits the change to jobs with some numbers.
func (c *taskChange) only(numbers []int64) *taskChange {
	slices.Sort(numbers)
	c.numbers, c.Last = slices.Compact(numbers), 0
	if n := len(c.numbers); n > 0 {
		c.Last = c.numbers[n-1]
	}
	c.Numbers = numbersText(c.numbers)
	return c
}

func (c *taskChange) ended() bool { return c.Done >= c.Last }

// next returns the next range of at most n jobs: from the number after first up to last and, of these, the given ones or, if that is nil, all.
func (c *taskChange) next(n int64) (first, last int64, numbers []int64) {
	if c.numbers == nil {
		return c.Done, min(c.Done+n, c.Last), nil
	}
	at, _ := slices.BinarySearch(c.numbers, c.Done+1)
	numbers = c.numbers[at:min(int64(at)+n, int64(len(c.numbers)))]
	return numbers[0] - 1, numbers[len(numbers)-1], numbers
}

// step changes the next range of at most n jobs, and returns how many it canceled or retried.
func (c *taskChange) step(ctx context.Context, q tx, n, spread, now int64) (changed int, err error) {
	if c.ended() {
		return 0, nil
	}
	first, last, numbers := c.next(n)
	switch c.Action {
	case changePause:
		err = q.PauseTaskJobs(ctx, query.PauseTaskJobsParams{Now: now, Never: micros(dispatch.Never), Task: c.Task, First: first, Last: last})
	case changeResume:
		err = q.ResumeTaskJobs(ctx, query.ResumeTaskJobsParams{Now: now, Task: c.Task, First: first, Last: last})
	case changeRetry:
		changed, err = c.retry(ctx, q, numbers, spread, now)
	default:
		changed, err = c.cancel(ctx, q, first, last, numbers, now)
	}
	c.Done = last
	return changed, err
}

func (c *taskChange) cancel(ctx context.Context, q tx, first, last int64, numbers []int64, now int64) (int, error) {
	n, err := q.CancelTaskJobs(ctx, query.CancelTaskJobsParams{Margin: dispatch.SettleMargin.Microseconds(), Now: now, Task: c.Task, First: first, Last: last,
		Numbers: joinNumbers(numbers), Statuses: c.Statuses})
	if err == nil && c.Action != changeCancelSome {
		err = q.ResumeTaskJobs(ctx, query.ResumeTaskJobsParams{Now: now, Task: c.Task, First: first, Last: last})
	}
	if err == nil && (c.Action == changeDelete || c.Action == changeDiscard) {
		err = q.HideTaskJobs(ctx, c.Task, first, last)
	}
	if err == nil && c.Action == changeDiscard {
		err = q.PlanRemovals(ctx, query.PlanRemovalsParams{Now: now, Task: c.Task, First: first, Last: last})
	}
	return int(n), err
}

func (c *taskChange) retry(ctx context.Context, q tx, numbers []int64, spread, now int64) (int, error) {
	rows, err := q.ListFailed(ctx, c.Task, numbers[0]-1, numbers[len(numbers)-1])
	rows = slices.DeleteFunc(rows, func(r query.Job) bool {
		_, chosen := slices.BinarySearch(numbers, int64(r.Number))
		return !chosen
	})
	for _, r := range rows {
		c.Bytes -= r.Bytes
	}
	c.Jobs -= int64(len(numbers))
	jobs, err := jobsOf(rows, err)
	if err != nil {
		return 0, err
	}
	for i, j := range jobs {
		jobs[i] = j.RetryAmong(spread != notSpread, at(now))
	}
	kept, err := write(ctx, q, jobs, true)
	return len(kept), err
}

// keep stores what is left of the change.
func (c *taskChange) keep(ctx context.Context, q tx, now int64) error {
	c.Touched = now
	return q.WriteTaskChange(ctx, query.WriteTaskChangeParams(c.TaskChange))
}

// openChange returns the change of a task that is under way; nil if there is none.
func openChange(ctx context.Context, q tx, id dispatch.TaskID) (*taskChange, error) {
	row, err := q.GetTaskChange(ctx, int64(id))
	if err != nil {
		return nil, missing(err)
	}
	c := &taskChange{TaskChange: row}
	c.numbers, err = parseNumbers(row.Numbers)
	return c, err
}

// changeTask changes a task and its jobs for its owner, and wakes its account. Changes of the same task come one after the other. The account's
// row is written last, as in Save. begin returns the change of the jobs; nil: nothing changes, and nobody is woken. It returns how many jobs were
// canceled or retried. After an error the change may have begun, and then FinishChanges ends it.
func (s *Store) changeTask(ctx context.Context, op string, u dispatch.UserID, id dispatch.TaskID, begin func(q tx, now int64) (*taskChange, error)) (a dispatch.Account, n int, err error) {
	for {
		var before, c *taskChange
		err = s.in(allow(ctx, listWithin), s.write, op, func(q tx, now int64) error {
			before, c, n = nil, nil, 0
			is, err := q.LockTask(ctx, id, u)
			if err != nil {
				return err
			}
			a = is.Account
			if before, err = openChange(ctx, q, id); err != nil || before != nil {
				return err
			}
			if c, err = begin(q, now); err != nil || c == nil {
				return err
			}
			c.Owner, c.Account = string(u), string(a)
			switch n, err = c.step(ctx, q, int64(s.atOnce(changedAtOnce)), is.Spread, now); {
			case err != nil:
				return err
			case !c.ended():
				return c.keep(ctx, q, now)
			}
			return wakeTask(ctx, q, id, is.Account, is.Spread, now)
		})
		if err == nil && before != nil {
			if _, err = s.finishChange(ctx, id); err == nil {
				continue
			}
		}
		if err != nil || c == nil || c.ended() {
			return a, n, err
		}
		more, err := s.finishChange(ctx, id)
		return a, n + more, err
	}
}

// begin begins to pause or to resume the jobs of a task, in a transaction of a visit. What is left after the first range is left to FinishChanges,
// so that a large task delays no other job of the account. It reports whether something is left.
func (c *taskChange) begin(ctx context.Context, q tx, now int64) (more bool, err error) {
	id := dispatch.TaskID(c.Task)
	is, err := q.LockAnyTask(ctx, id)
	if err != nil {
		return false, err
	}
	c.Owner, c.Account = string(is.Owner), string(is.Account)
	before, err := openChange(ctx, q, id)
	if err != nil {
		return false, err
	}
	if before != nil {
		if before, err = before.givePlace(ctx, q, c, is, now); err != nil {
			return false, err
		}
	}
	if before != nil { // it pauses the jobs after those that c resumes
		for err == nil && !c.ended() {
			_, err = c.step(ctx, q, changedAtOnce, is.Spread, now)
		}
		before.Done = max(before.Done, c.Last)
		return true, errors.Join(err, before.keep(ctx, q, untouched))
	}
	if _, err := c.step(ctx, q, changedAtOnce, is.Spread, now); err != nil || c.ended() {
		return false, err
	}
	return true, c.keep(ctx, q, untouched)
}

// untouched is when a change was last continued of which the rest is left to FinishChanges from the start.
const untouched = 0

// givePlace ends a change that is under way because another begins that pauses or resumes. A pause or resume is dropped if the other comes to all
// jobs that it leaves: they are as they were before it. If the other comes only to some, it is returned, because it must go on. Any other change is
// carried out, which is rare: its caller is in the middle of it.
func (c *taskChange) givePlace(ctx context.Context, q tx, to *taskChange, is query.LockAnyTaskRow, now int64) (left *taskChange, err error) {
	if c.Action == changePause || c.Action == changeResume {
		if to.Last < c.Last {
			return c, nil
		}
		return nil, endChange(ctx, q, dispatch.TaskID(c.Task), is, now)
	}
	for !c.ended() {
		if _, err := c.step(ctx, q, changedAtOnce, is.Spread, now); err != nil {
			return nil, err
		}
	}
	return nil, endChange(ctx, q, dispatch.TaskID(c.Task), is, now)
}

// finishAll finishes what changes of tasks have left, as far as the context permits: FinishChanges does the rest.
func (s *Store) finishAll(ctx context.Context, tasks []dispatch.TaskID) {
	for _, id := range tasks {
		if _, err := s.finishChange(ctx, id); err != nil {
			return
		}
	}
}

// finishChange changes the remaining ranges of a task's change, each in its own transaction, and returns how many jobs it canceled or retried. Others
// may do so at the same time.
func (s *Store) finishChange(ctx context.Context, id dispatch.TaskID) (n int, err error) {
	ctx = allow(ctx, listWithin)
	for length, ended := s.atOnce(changedAtOnce), false; !ended; {
		if s.beforeRange != nil {
			s.beforeRange(ctx)
		}
		if err := ctx.Err(); err != nil {
			return n, fail("ContinueChange", err)
		}
		began, some := time.Now(), 0
		err = s.in(ctx, s.write, "ContinueChange", func(q tx, now int64) error {
			ended, some, err = continueChange(ctx, q, id, int64(length), now)
			return err
		})
		if err != nil {
			return n, err
		}
		n += some
		length = s.atOnce(nextLength(length, time.Since(began)))
	}
	return n, nil
}

// nextLength returns how many jobs the next transaction should change, after one that changed length jobs took so long.
func nextLength(length int, took time.Duration) int {
	fit := float64(length) * float64(rangeWithin) / float64(max(took, 1))
	return int(max(fewestAtOnce, min(fit, float64(2*length), mostAtOnce)))
}

// continueChange changes the next range of at most length jobs, and reports whether it was the last.
func continueChange(ctx context.Context, q tx, id dispatch.TaskID, length, now int64) (ended bool, n int, err error) {
	is, err := q.LockAnyTask(ctx, id)
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
	if n, err = c.step(ctx, q, length, is.Spread, now); err != nil {
		return false, 0, err
	}
	if !c.ended() {
		return false, n, c.keep(ctx, q, now)
	}
	return true, n, endChange(ctx, q, id, is, now)
}

// endChange ends the change of a task, and wakes its accounts, which may have passed over its jobs meanwhile.
func endChange(ctx context.Context, q tx, id dispatch.TaskID, is query.LockAnyTaskRow, now int64) error {
	return errors.Join(q.EndTaskChange(ctx, int64(id)), wakeTask(ctx, q, id, is.Account, is.Spread, now))
}

// atOnce returns how many jobs a transaction of a change may write at most: n, or what ChangeInRanges has set.
func (s *Store) atOnce(n int) int {
	if s.changeRange > 0 {
		return s.changeRange
	}
	return n
}

// ChangeInRanges sets how many jobs of a task one transaction changes at most, and what is called before each transaction after the first. For tests,
// before the store is used.
func (s *Store) ChangeInRanges(jobs int, before func(context.Context)) {
	s.changeRange, s.beforeRange = jobs, before
}

// FinishChanges finishes the changes of tasks that nobody has continued for idle.
func (s *Store) FinishChanges(ctx context.Context, idle time.Duration) (finished []dispatch.FinishedChange, err error) {
	var open []query.ListTaskChangesRow
	err = s.readOnly(ctx, s.read, "FinishChanges", func(q tx, now int64) error {
		open, err = q.ListTaskChanges(ctx, now-idle.Microseconds(), now)
		return err
	})
	for _, c := range open {
		if err != nil {
			return finished, err
		}
		if _, err = s.finishChange(ctx, dispatch.TaskID(c.Task)); err == nil {
			finished = append(finished, dispatch.FinishedChange{Task: dispatch.TaskID(c.Task), Owner: dispatch.UserID(c.Owner), Account: dispatch.Account(c.Account), Action: c.Action})
		}
	}
	return finished, err
}

// joinNumbers returns numbers each between bars.
func joinNumbers(numbers []int64) string {
	var b strings.Builder
	for _, n := range numbers {
		fmt.Fprintf(&b, "|%d|", n)
	}
	return b.String()
}

// numbersText returns ascending numbers as runs, such as 1-3,7.
func numbersText(numbers []int64) string {
	var b strings.Builder
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(numbers[i], 10))
		if end > i {
			fmt.Fprintf(&b, "-%d", numbers[end])
		}
		i = end + 1
	}
	return b.String()
}

// parseNumbers is the inverse of numbersText.
func parseNumbers(text string) (numbers []int64, err error) {
	if text == "" {
		return nil, nil
	}
	for run := range strings.SplitSeq(text, ",") {
		from, to, isRun := strings.Cut(run, "-")
		if !isRun {
			to = from
		}
		first, failed := strconv.ParseInt(from, 10, 64)
		last, err := strconv.ParseInt(to, 10, 64)
		if err = errors.Join(failed, err); err != nil {
			return nil, err
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}
