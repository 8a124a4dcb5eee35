package store

import (
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Cancel stores that the owner no longer wants the job, and wakes its account; doc.go lists all that this writes. A
// waiting job ends with that; a job that runs is canceled at the platform by a visit.
func (s *Store) Cancel(ctx context.Context, u dispatch.UserID, id dispatch.JobID, hide bool) (dispatch.Job, error) {
	return s.changeOwn(ctx, "Cancel", u, id, func(j dispatch.Job, now time.Time) (_ dispatch.Job, wakes bool) {
		j, canceled := j.Cancel(now)
		if hide {
			j, _ = j.Hide()
		}
		return j, canceled
	})
}

// CancelTask cancels all jobs of a task, and with hide hides them and the task.
func (s *Store) CancelTask(
	ctx context.Context, u dispatch.UserID, id dispatch.TaskID, hide bool,
) (dispatch.Account, error) {
	action := changeCancel
	if hide {
		action = changeDelete
	}
	return s.endTask(ctx, "CancelTask", u, id, action)
}

// CancelJobs cancels the chosen jobs of a task.
func (s *Store) CancelJobs(
	ctx context.Context, u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice,
) (a dispatch.Account, n int, err error) {
	return s.changeTask(ctx, "CancelJobs", u, id, func(q tx, t lockedTask, now int64) (*taskChange, error) {
		change, err := changeOfAll(ctx, q, id, changeCancelSome)
		if err != nil {
			return nil, err
		}
		change.statuses = c.Statuses
		if c.Jobs == nil && (c.Statuses == nil || len(c.Statuses) > 0) { // none are kept as any
			return change, nil
		}
		jobs, err := chosen(ctx, q, id, c)
		numbers := make([]int64, 0, len(jobs))
		for _, j := range jobs {
			if c.Statuses == nil || slices.Contains(c.Statuses, j.Status) {
				numbers = append(numbers, int64(j.Number))
			}
		}
		return change.only(numbers), err
	})
}

// endTask cancels all jobs of a task. If they are hidden, the task is hidden first.
func (s *Store) endTask(ctx context.Context, op string, u dispatch.UserID, id dispatch.TaskID,
	action string) (dispatch.Account, error) {
	a, _, err := s.changeTask(ctx, op, u, id, func(q tx, t lockedTask, now int64) (*taskChange, error) {
		if err := markTask(ctx, q, id, false, dispatch.None, now); err != nil {
			return nil, err
		}
		if action != changeCancel {
			if err := hideTask(ctx, q, id); err != nil {
				return nil, err
			}
		}
		return changeOfAll(ctx, q, id, action)
	})
	return a, err
}

// hideTask hides a task from its owner.
func hideTask(ctx context.Context, q tx, id dispatch.TaskID) error {
	owner, err := value[dispatch.UserID](ctx, q, "UPDATE tasks SET hidden = TRUE WHERE id = $1 RETURNING owner", id)
	if err == nil {
		q.numbers.task(id, owner, false)
	}
	return missing(err)
}

// markTask writes that a task is paused, and for what reason, or that it is not: then its trial is over, too. Nothing
// changes if that is so already. Hooks are notified of a pause because of the budget.
func markTask(ctx context.Context, q tx, id dispatch.TaskID, paused bool, why dispatch.Attention, now int64) error {
	owner, err := value[dispatch.UserID](ctx, q, `
		UPDATE tasks SET paused = $1, paused_for = $2, trial = CASE WHEN CAST($1 AS BOOLEAN) THEN trial ELSE 0 END, edited = $3
		WHERE id = $4 AND (paused <> CAST($1 AS BOOLEAN) OR paused_for <> $2)
		RETURNING owner`, paused, string(why), now, id)
	if err != nil {
		return missing(err)
	}
	if q.numbers.task(id, owner, false); why != dispatch.BudgetReached && why != dispatch.BudgetUnusable {
		return nil
	}
	return notifyPause(ctx, q, id, why, now)
}

// Discard cancels and hides a job, and plans its removal from its platform.
func (s *Store) Discard(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Job, error) {
	return s.changeOwn(ctx, "Discard", u, id, func(j dispatch.Job, now time.Time) (_ dispatch.Job, wakes bool) {
		j, _ = j.Cancel(now)
		j, _ = j.PlanRemoval(now)
		j, _ = j.Hide()
		return j, true
	})
}

// DiscardTask cancels and hides a task with its jobs, and plans their removal from their platform.
func (s *Store) DiscardTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.Account, error) {
	return s.endTask(ctx, "DiscardTask", u, id, changeDiscard)
}
