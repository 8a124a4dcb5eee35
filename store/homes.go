package store

import (
	"context"
	"errors"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// The values of tasks.spread that are no number of a move.
const (
	notSpread   = 0
	spreadEnded = 1
)

// spread returns what tasks.spread is of a new task.
func (a *acceptance) spread() int64 {
	if len(a.task.Request.Homes) == 0 {
		return notSpread
	}
	return max(a.now, spreadEnded+1)
}

// insertHomes stores the homes of the task that its jobs may run at.
func (a *acceptance) insertHomes(ctx context.Context, q tx) error {
	for i, h := range a.task.Request.Homes {
		if h.Unused != "" {
			continue
		}
		home := query.InsertHomeParams{Task: a.id, Account: h.Account, Number: int64(i), Platform: h.Account.Platform(), Base: h.Base, ServiceHash: h.Hash}
		if h.Document != "" && h.Account != a.task.Account { // that of the task's own account is stored with its document
			service, err := encode(h.Service)
			if err != nil {
				return err
			}
			home.Service, home.Document = service, h.Document
		}
		if err := q.InsertHome(ctx, home); err != nil {
			return err
		}
	}
	return nil
}

// wakeTask wakes the account of a task, which was locked, or the accounts of all its homes. The jobs of a task with several homes are spread again from
// now on.
func wakeTask(ctx context.Context, q tx, id dispatch.TaskID, is query.LockTaskRow, now int64) error {
	if is.Spread == notSpread {
		return q.Wake(ctx, is.Account, now)
	}
	if _, err := q.SetSpread(ctx, max(now, is.Spread+1), id, is.Spread); err != nil {
		return err
	}
	accounts, err := q.ListHomes(ctx, int64(id))
	slices.Sort(accounts) // in one order, so that two processes do not deadlock
	for _, a := range accounts {
		err = errors.Join(err, q.Wake(ctx, a, now))
	}
	return err
}

// holdOf returns the hold of a task's account or, if it has several homes, the one that ends first.
func holdOf(ctx context.Context, q *query.Queries, t dispatch.TaskRecord, hold int64, why dispatch.Attention) (int64, dispatch.Attention, error) {
	if len(t.Request.Homes) == 0 || hold == 0 {
		return hold, why, nil
	}
	row, err := q.GetFirstHold(ctx, int64(t.ID))
	return row.Hold, dispatch.Attention(row.HoldAttention), err
}

// SpreadTasks returns the tasks with several homes that have jobs which have not ended.
func (s *Store) SpreadTasks(ctx context.Context) (tasks []dispatch.SpreadTask, err error) {
	var ended []query.ListSpreadRow
	err = s.readOnly(ctx, s.look, "SpreadTasks", func(q tx, now int64) error {
		tasks, ended = nil, nil
		rows, err := q.ListSpread(ctx)
		for _, r := range rows {
			if !r.Live {
				ended = append(ended, r)
				continue
			}
			if n := len(tasks); n == 0 || tasks[n-1].ID != r.ID {
				tasks = append(tasks, dispatch.SpreadTask{ID: r.ID, Owner: r.Owner, Seen: r.Spread})
			}
			t := &tasks[len(tasks)-1]
			t.Homes = append(t.Homes, loadOf(r, now))
		}
		return err
	})
	for _, r := range ended {
		if err == nil {
			_, err = s.queries(s.write).SetSpread(ctx, spreadEnded, r.ID, r.Spread)
			err = fail("SpreadTasks", err)
		}
	}
	return tasks, err
}

func loadOf(r query.ListSpreadRow, now int64) dispatch.HomeLoad {
	l := dispatch.HomeLoad{Home: dispatch.Home{Account: r.Account, Base: r.Base, Hash: r.ServiceHash}, Held: int(r.Held), Waiting: int(r.Waiting), Retrying: int(r.Retrying), Failing: r.Failures >= dispatch.FailuresInRow}
	switch {
	case r.Operator:
		l.Why = dispatch.HeldByOperator
	case r.Hold > now:
		l.Why = dispatch.Attention(r.HoldAttention)
	case r.Restored != 0:
		l.Why = dispatch.Unreachable
	}
	return l
}

// pauseSpread pauses the tasks with several homes, of which a job that waits at one may have been moved to another since, and may run there.
// It returns those whose jobs are yet to be paused, see finishChange.
func pauseSpread(ctx context.Context, q tx, now int64) (changing []dispatch.TaskID, err error) {
	ids, err := q.ListSpreadTasks(ctx)
	for _, id := range ids {
		more, failed := pauseTask(ctx, q, id, dispatch.None, now)
		if err = errors.Join(err, failed); more {
			changing = append(changing, id)
		}
	}
	return changing, err
}

// errNothingMoved undoes a move that moved nothing.
var errNothingMoved = errors.New("nothing was moved")

// MoveJobs moves jobs that wait to another account. Those who move jobs of a task do so one after the other.
func (s *Store) MoveJobs(ctx context.Context, m dispatch.JobMove, within ...dispatch.Quota) (n int, seen int64, err error) {
	ctx = allow(ctx, listWithin)
	owner, err := s.queries(s.look).GetTaskOwner(ctx, m.Task)
	if err != nil {
		return 0, m.Seen, fail("MoveJobs", err)
	}
	end, err := s.lockCount(ctx, "MoveJobs", owner, within)
	if err != nil {
		return 0, m.Seen, err
	}
	defer end()
	err = s.in(ctx, s.write, "MoveJobs", func(q tx, now int64) error {
		n, seen = 0, max(now, m.Seen+1)
		if rows, err := q.SetSpread(ctx, seen, m.Task, m.Seen); err != nil {
			return err
		} else if rows == 0 {
			return errNothingMoved
		}
		if err := s.admit(ctx, q, owner, m.N, 0, within, now); err != nil {
			return err
		}
		rows, err := q.MoveToHome(ctx, query.MoveToHomeParams{NewAccount: m.To.Account, Base: m.To.Base, ServiceHash: m.To.Hash, Now: now, Account: m.From.Account,
			Line: lineOf(dispatch.Line{Owner: owner, Task: m.Task}), Retrying: m.Retrying, N: int64(m.N), Skip: int64(m.Skip)})
		if err != nil {
			return err
		}
		if n = int(rows); n == 0 {
			return errNothingMoved
		}
		return q.Wake(ctx, m.To.Account, now)
	})
	if errors.Is(err, errNothingMoved) {
		return 0, m.Seen, nil
	}
	if err != nil {
		return 0, m.Seen, err
	}
	return n, seen, nil
}
