package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// budgets are the tasks with a budget of jobs that are about to be submitted or were saved. Their rows are locked, as
// by all other changes of a task, before their jobs are written.
type budgets struct {
	q        tx
	now      int64
	budgeted map[dispatch.TaskID]*budgeted
}

type budgeted struct {
	lockedTask
	room  int
	more  bool // a job was kept back
	stops bool // a change of the task that is under way keeps all back
}

// lockBudgets locks the tasks with a budget of the jobs that wait or have ended. A job without one costs no statement.
func lockBudgets(ctx context.Context, q tx, now int64, jobs ...[]dispatch.Job) (budgets, error) {
	var ids []dispatch.TaskID
	for _, part := range jobs {
		for i := range part {
			if j := &part[i]; j.Budgeted && !j.Phase.HoldsSlot() {
				ids = append(ids, j.Task)
			}
		}
	}
	b := budgets{q, now, map[dispatch.TaskID]*budgeted{}}
	slices.Sort(ids) // in one order, so that two processes do not deadlock
	for _, id := range slices.Compact(ids) {
		t, err := lockTask(ctx, q, id)
		if errors.Is(err, sql.ErrNoRows) { // purged
			continue
		}
		if err != nil {
			return b, err
		}
		open, err := openChange(ctx, q, id)
		if err != nil {
			return b, err
		}
		b.budgeted[id] = &budgeted{lockedTask: t, stops: open != nil && open.stops}
	}
	return b, nil
}

// admit returns the jobs for which there is room in the budgets of their tasks.
func (b budgets) admit(ctx context.Context, jobs []dispatch.Job) (admitted []dispatch.Job, err error) {
	if len(b.budgeted) == 0 || len(jobs) == 0 {
		return jobs, nil
	}
	for id, t := range b.budgeted {
		if t.stops {
			continue
		}
		if t.room, _, err = roomOf(ctx, b.q, id, t.budget); err != nil {
			return nil, err
		}
	}
	for _, j := range jobs {
		t := b.budgeted[j.Task]
		if t == nil || j.Phase != dispatch.Waiting {
			admitted = append(admitted, j)
			continue
		}
		if t.room == 0 {
			t.more = !t.stops
			continue
		}
		t.room--
		admitted = append(admitted, j)
	}
	return admitted, nil
}

// pause pauses the tasks whose jobs were kept back, and returns the jobs whose intents were stored, as they are then. A
// task that its owner has paused since the visit read its jobs stays so, and one with room goes on: a job that was to
// have it was not stored.
func (b budgets) pause(ctx context.Context, kept []dispatch.Job) (_ []dispatch.Job, err error) {
	for _, id := range b.tasks() {
		t := b.budgeted[id]
		if !t.more || t.paused && t.pausedFor != dispatch.Trial {
			continue
		}
		room, why, err := roomOf(ctx, b.q, id, t.budget)
		if err != nil {
			return nil, err
		}
		if room > 0 {
			continue
		}
		done, err := pauseTask(ctx, b.q, id, why, b.now)
		if err != nil {
			return nil, err
		}
		t.paused, t.pausedFor = true, why
		for i, j := range kept {
			if j.Task == id && !j.Paused && int64(j.Number) <= done {
				kept[i].Paused = true
				if j.Phase == dispatch.Creating {
					kept[i].Version++
				}
			}
		}
	}
	return kept, nil
}

// resume resumes the tasks that waited for the costs of their first runs, if these are known by jobs that were written,
// and returns the accounts of the tasks.
func (b budgets) resume(ctx context.Context, written []dispatch.Job) (accounts []dispatch.Account, err error) {
	defer func() {
		if err == nil {
			err = b.q.number(ctx)
		}
	}()
	for _, id := range b.tasks() {
		t := b.budgeted[id]
		ended := func(j dispatch.Job) bool { return j.Task == id && !j.Phase.HoldsSlot() }
		if !t.paused || t.pausedFor != dispatch.CostsAwaited || !slices.ContainsFunc(written, ended) {
			continue
		}
		room, why, err := roomOf(ctx, b.q, id, t.budget)
		switch {
		case err != nil:
			return nil, err
		case room > 0:
			err = b.goOn(ctx, id, t)
			accounts = append(accounts, t.account)
		case why != dispatch.CostsAwaited:
			err = markTask(ctx, b.q, id, true, why, b.now)
		}
		if err != nil {
			return nil, err
		}
	}
	return accounts, nil
}

// goOn resumes a task that a budget paused. Of a task on trial only the first jobs go on.
func (b budgets) goOn(ctx context.Context, id dispatch.TaskID, t *budgeted) error {
	why := dispatch.None
	if t.trial > 0 {
		why = dispatch.Trial
	}
	if err := markTask(ctx, b.q, id, t.trial > 0, why, b.now); err != nil {
		return err
	}
	c, err := changeOfAll(ctx, b.q, id, changeResume)
	if err != nil {
		return err
	}
	if t.trial > 0 {
		c.last = min(c.last, t.trial)
	}
	return c.begin(ctx, b.q, b.now)
}

func (b budgets) tasks() []dispatch.TaskID {
	ids := make([]dispatch.TaskID, 0, len(b.budgeted))
	for id := range b.budgeted {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// roomOf returns how many further runs of a task its budget has room for, or why for none.
func roomOf(ctx context.Context, q tx, id dispatch.TaskID, b dispatch.Budget) (int, dispatch.Attention, error) {
	if b.Amount == 0 {
		n, why := dispatch.Budget{}.Room(dispatch.Spending{})
		return n, why, nil
	}
	s, err := spending(ctx, q, id)
	n, why := b.Room(s)
	return n, why, err
}

// setBudget replaces the budget of a task, unless replacement is nil, and returns Conflict if a paused task has no
// room for another job. One whose first costs are awaited is paused for that again when a job is about to be
// submitted, and then goes on by itself.
func setBudget(ctx context.Context, q tx, t lockedTask, replacement *dispatch.Budget) error {
	if replacement == nil && (t.budget.Amount == 0 || !t.paused) {
		return nil
	}
	b := t.budget
	if replacement != nil {
		b = b.Replaced(*replacement)
		_, err := q.ExecContext(ctx, "UPDATE tasks SET budget = $1, budget_unit = $2 WHERE id = $3", b.Amount, b.Unit,
			t.id)
		if err != nil {
			return err
		}
		if b != t.budget {
			q.numbers.task(t.id, t.owner, false)
		}
	}
	room, why, err := roomOf(ctx, q, t.id, b)
	if err != nil || room > 0 || why == dispatch.CostsAwaited {
		return err
	}
	return dispatch.NoRoom("store.ResumeTask", why)
}
