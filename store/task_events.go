package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// AddTaskEvents adds the deliveries about tasks whose jobs have ended since it was last called, of n tasks at most, and reports whether there may be
// more. On PostgreSQL the jobs of a task end in transactions that do not see one another, so none of them can find out which one passed a share. So each
// leaves a mark. The process that takes the marks of a task counts its jobs afterwards, and so sees all whose marks it took. The task's row, locked
// meanwhile, records what was notified: a share once, and the end once for each time that the task ends.
func (s *Store) AddTaskEvents(ctx context.Context, n int) (more bool, err error) {
	tasks, err := s.queries(s.read).ListMarkedTasks(ctx, int64(n))
	for _, id := range tasks {
		if err == nil {
			err = s.in(ctx, s.write, "AddTaskEvents", func(q tx, now int64) error { return addTaskEvents(ctx, q, id, now) })
		}
	}
	return len(tasks) == n, fail("AddTaskEvents", err)
}

func addTaskEvents(ctx context.Context, q tx, task, now int64) error {
	told, err := q.LockTold(ctx, dispatch.TaskID(task))
	gone := errors.Is(err, sql.ErrNoRows)
	if err = missing(err); err != nil {
		return err
	}
	taken, err := q.TakeMarks(ctx, task)
	if err != nil || taken == 0 || gone {
		return err
	}
	p, err := progressOf(ctx, q, task, taken)
	if err != nil || p.jobs == 0 {
		return err
	}
	since := max(told.ToldShare, p.before)
	ended := p.ended == p.jobs && p.state != told.EndedAs
	if ended {
		told.Ends, told.EndedAs = told.Ends+1, p.state
	}
	tried, err := trialEnded(ctx, q, task, told)
	if err != nil {
		return err
	}
	hooks, err := q.ListTaskHooks(ctx, task)
	for _, h := range hooks {
		for _, of := range splitStatuses(h.Statuses) {
			epoch, happened := p.event(of, since, ended)
			switch {
			case of == dispatch.NeedsOwner:
				of, epoch, happened = dispatch.Needs(dispatch.TrialEnded), tried, tried > 0
			case of == dispatch.TaskRunning && ended:
				epoch, happened = afterShares, told.Ends == 1 && p.status == dispatch.Finished // it was not looked at meanwhile; nothing if it was
			case epoch == 0:
				epoch = afterShares + told.Ends
			}
			due := now
			if h.Kind == string(dispatch.OGCSubscriber) && of != dispatch.TaskRunning {
				due-- // see ClaimDeliveries
			}
			if happened && err == nil {
				err = q.AddTaskDelivery(ctx, query.AddTaskDeliveryParams{Hook: h.ID, Subject: dispatch.JobID(-task), Epoch: int(epoch), Status: of, Task: dispatch.TaskID(task), Now: now, Due: due})
			}
		}
	}
	if err != nil {
		return err
	}
	return q.WriteTold(ctx, query.WriteToldParams{ToldShare: max(told.ToldShare, 100*p.ended/p.jobs), Ends: told.Ends, EndedAs: told.EndedAs, ID: dispatch.TaskID(task)})
}

// trialEnded returns the epoch of the event that the trial of a task has ended, and 0 if the task is not on trial or jobs of the trial still run. The
// epoch grows if some of these jobs are retried.
func trialEnded(ctx context.Context, q tx, task int64, told query.LockToldRow) (epoch int64, err error) {
	if told.PausedFor != dispatch.Trial {
		return 0, nil
	}
	trial, err := q.CountTrial(ctx, task, told.Trial)
	if err != nil || trial.Running > 0 {
		return 0, err
	}
	return trial.Epochs, nil
}

// afterShares is the epoch of what happens after all shares have passed, and before the task has ended once.
const afterShares = 100

// event reports whether an event of a hook has happened and was not notified yet. since is the share that was notified last, ended whether the task
// has just ended. The epoch is 0 for what happens once for each time that the task ends.
func (p taskProgress) event(of dispatch.Status, since int64, ended bool) (epoch int64, happened bool) {
	switch of {
	case dispatch.TaskEnded:
		return 0, ended
	case dispatch.TaskFinished:
		return 0, ended && p.status == dispatch.Finished
	case dispatch.TaskFailed:
		return 0, ended && p.status != dispatch.Finished
	case dispatch.TaskRunning:
		return 0, p.ended > 0 && p.ended < p.jobs
	}
	epoch = shareOf(of)
	return epoch, epoch > since && 100*p.ended >= epoch*p.jobs
}

// taskProgress is how many jobs of a task have ended.
type taskProgress struct {
	jobs, ended int64
	status      dispatch.Status // as one job
	before      int64           // percent that had ended before the marks were left, or less
	state       string          // differs after each retry and after each deletion of a job
}

// progressOf counts the jobs of a task after marks of it were taken. Those that ended since have left other marks, which are counted last: so before
// may be too small, which repeats nothing that told_share knows, and is never too large, which would lose a share.
func progressOf(ctx context.Context, q tx, task, taken int64) (p taskProgress, err error) {
	counts, err := q.CountTask(ctx, task)
	if err != nil {
		return p, err
	}
	for _, c := range counts {
		p.jobs += c.N
		if c.Status.Final() {
			p.ended += c.N
		}
	}
	p.status = countsOf(counts).AsOneJob()
	sums, err := q.SumTask(ctx, task)
	if err != nil {
		return p, err
	}
	p.state = fmt.Sprint(sums.N, "/", sums.Epochs)
	left, err := q.CountMarks(ctx, task)
	if p.jobs > 0 {
		p.before = max(0, 100*(p.ended-taken-left)/p.jobs)
	}
	return p, err
}

// shareOf returns the percent of an event that is about a share, and 0 for any other.
func shareOf(of dispatch.Status) int64 {
	share, _ := strings.CutPrefix(string(of), dispatch.SharePrefix)
	percent, err := strconv.ParseInt(share, 10, 64)
	if err != nil {
		return 0
	}
	return percent
}
