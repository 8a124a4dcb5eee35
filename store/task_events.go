package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// AddTaskEvents adds the deliveries about tasks whose jobs have ended since it was last called, of n tasks at most,
// and reports whether there may be more. On PostgreSQL the jobs of a task end in transactions that do not see one
// another, so none of them can find out which one passed a share. So each leaves a mark. The process that takes the
// marks of a task counts its jobs afterwards, and so sees all whose marks it took. The task's row, locked meanwhile,
// records what was notified: a share once, and the end once for each time that the task ends. Tasks that a change
// under way stops come after it, as if it had changed all jobs at once.
func (s *Store) AddTaskEvents(ctx context.Context, n int) (more bool, err error) {
	tasks, err := list(ctx, s.on(s.read), single[dispatch.TaskID], `
		SELECT DISTINCT task
		FROM task_marks
		WHERE NOT EXISTS (SELECT 1 FROM task_changes s WHERE s.task = task_marks.task AND s.stops)
		ORDER BY task
		LIMIT CAST($1 AS BIGINT)`, n)
	for _, id := range tasks {
		if err == nil {
			err = s.in(ctx, s.write, "AddTaskEvents", func(q tx, now int64) error { return addTaskEvents(ctx, q, id, now) })
		}
	}
	return len(tasks) == n, fail("AddTaskEvents", err)
}

// notified is what was sent to hooks about a task.
type notified struct {
	share, ends int64
	endedAs     string
	pausedFor   dispatch.Attention
	trial       int64
}

// lockNotified locks a task.
func lockNotified(ctx context.Context, q tx, id dispatch.TaskID) (n notified, err error) {
	err = q.QueryRowContext(ctx, `
		UPDATE tasks
		SET times_ended = times_ended
		WHERE id = $1 AND NOT hidden
		RETURNING notified_share, times_ended, ended_as, paused_for, trial`, id).
		Scan(number(&n.share), number(&n.ends), &n.endedAs, text(&n.pausedFor), number(&n.trial))
	return n, err
}

func addTaskEvents(ctx context.Context, q tx, task dispatch.TaskID, now int64) error {
	sent, err := lockNotified(ctx, q, task)
	gone := errors.Is(err, sql.ErrNoRows)
	if err = missing(err); err != nil {
		return err
	}
	taken, err := exec(ctx, q, `
		DELETE FROM task_marks
		WHERE task = CAST($1 AS BIGINT)`, task)
	if err != nil || taken == 0 || gone {
		return err
	}
	p, err := progressOf(ctx, q, task, taken)
	if err != nil || p.jobs == 0 {
		return err
	}
	since := max(sent.share, p.before)
	ended := p.ended == p.jobs && p.state != sent.endedAs
	if ended {
		sent.ends, sent.endedAs = sent.ends+1, p.state
	}
	tried, err := trialEnded(ctx, q, task, sent)
	if err != nil {
		return err
	}
	hooks, err := listTaskHooks(ctx, q, task)
	var all []command
	for _, h := range hooks {
		for _, status := range h.Statuses {
			epoch, happened := p.event(status, since, ended)
			switch {
			case status == dispatch.NeedsOwner:
				status, epoch, happened = dispatch.Needs(dispatch.TrialEnded), tried, tried > 0
			case status == dispatch.TaskRunning && ended: // it was not looked at meanwhile; nothing if it was
				epoch, happened = afterShares, sent.ends == 1 && p.status == dispatch.Finished
			case epoch == 0:
				epoch = afterShares + sent.ends
			}
			due := now
			if h.Kind == dispatch.OGCSubscriber && status != dispatch.TaskRunning {
				due-- // see ClaimDeliveries
			}
			if happened {
				e := dispatch.Event{Of: task, Epoch: int(epoch), Status: status}
				all = append(all, addDelivery(dispatch.Delivery{Hook: h.ID, Event: e}, now, due))
			}
		}
	}
	if err = errors.Join(err, q.runAll(ctx, all)); err != nil {
		return err
	}
	_, err = q.ExecContext(ctx, `
		UPDATE tasks
		SET notified_share = $2, times_ended = $3, ended_as = $4
		WHERE id = $1`,
		task, max(sent.share, 100*p.ended/p.jobs), sent.ends, sent.endedAs)
	return err
}

// listTaskHooks returns the hooks that are notified of a task.
func listTaskHooks(ctx context.Context, q tx, task dispatch.TaskID) ([]dispatch.Hook, error) {
	return listHooks(ctx, q, `
		SELECT `+hookColumns+`
		FROM tasks t
			JOIN hooks ON hooks.owner = t.owner AND hooks.job = 0 AND hooks.task IN (0, t.id)
		WHERE t.id = $1 AND NOT t.hidden AND NOT hooks.gone`, task)
}

// trialEnded returns the epoch of the event that the trial of a task has ended, and 0 if the task is not on trial or
// jobs of the trial still run. The epoch, the sum of dispatch.Job.Epoch, grows if some of these jobs are retried.
func trialEnded(ctx context.Context, q tx, task dispatch.TaskID, sent notified) (epoch int64, err error) {
	if sent.pausedFor != dispatch.Trial {
		return 0, nil
	}
	var running int
	err = q.QueryRowContext(ctx, `
		SELECT CAST(COALESCE(SUM(CASE WHEN phase <> 'ended' THEN 1 ELSE 0 END), 0) AS BIGINT),
			CAST(COALESCE(SUM(epoch), 0) AS BIGINT)
		FROM jobs
		WHERE task = CAST($1 AS BIGINT) AND task <> 0 AND NOT hidden AND number <= $2`,
		task, sent.trial).
		Scan(number(&running), number(&epoch))
	if running > 0 {
		epoch = 0
	}
	return epoch, err
}

// afterShares is the epoch of what happens after all shares have passed, and before the task has ended once.
const afterShares = 100

// event reports whether an event of a hook has happened and was not notified yet. since is the share that was
// notified last, ended whether the task has just ended. The epoch is 0 for what happens once for each time that the
// task ends.
func (p taskProgress) event(status dispatch.Status, since int64, ended bool) (epoch int64, happened bool) {
	switch status {
	case dispatch.TaskEnded:
		return 0, ended
	case dispatch.TaskFinished:
		return 0, ended && p.status == dispatch.Finished
	case dispatch.TaskFailed:
		return 0, ended && p.status != dispatch.Finished
	case dispatch.TaskRunning:
		return 0, p.ended > 0 && p.ended < p.jobs
	}
	epoch = shareOf(status)
	return epoch, epoch > since && 100*p.ended >= epoch*p.jobs
}

// taskProgress is how many jobs of a task have ended.
type taskProgress struct {
	jobs, ended int64
	status      dispatch.Status // as one job
	before      int64           // percent that had ended before the marks were left, or less
	state       string          // differs after each retry and after each deletion of a job
}

// progressOf counts the jobs of a task after marks of it were taken. Those that ended since have left other marks,
// which are counted last: so before may be too small, which repeats nothing that notified_share knows, and is never too
// large, which would lose a share.
func progressOf(ctx context.Context, q tx, task dispatch.TaskID, taken int64) (p taskProgress, err error) {
	counts, err := countJobsOf(ctx, q, task)
	if err != nil {
		return p, err
	}
	for _, c := range counts {
		p.jobs += int64(c.n)
		if c.status.Final() {
			p.ended += int64(c.n)
		}
	}
	p.status = countsOf(counts).AsOneJob()
	sums, err := sumTask(ctx, q, task)
	if err != nil {
		return p, err
	}
	p.state = fmt.Sprint(sums.n, "/", sums.epochs)
	left, err := value[int64](ctx, q, `
		SELECT count(*)
		FROM task_marks
		WHERE task = CAST($1 AS BIGINT)`, task)
	if p.jobs > 0 {
		p.before = max(0, 100*(p.ended-taken-left)/p.jobs)
	}
	return p, err
}

// shareOf returns the percent of an event that is about a share, and 0 for any other.
func shareOf(status dispatch.Status) int64 {
	share, _ := strings.CutPrefix(string(status), dispatch.SharePrefix)
	percent, err := strconv.ParseInt(share, 10, 64)
	if err != nil {
		return 0
	}
	return percent
}
