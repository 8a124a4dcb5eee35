package broker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// AcceptTask stores a task and a job for each value, or combination of values, of its dimensions, all or none, and does
// not wait for the platform. A key that was used before returns the task stored then; Conflict if it was deleted since.
func (b *Broker) AcceptTask(ctx context.Context, u dispatch.UserID, r dispatch.Request, d dispatch.Dimension,
	k dispatch.Key) (dispatch.TaskRecord, error) {
	drafts, err := b.draftTask(ctx, u, r, &d)
	if err != nil {
		return b.RepeatedTask(ctx, u, k, err)
	}
	var t *dispatch.Task
	var first dispatch.KeyTarget
	for i, shared := range drafts { // at the first placement where the user's quota permits all jobs
		var jobs []dispatch.Draft
		var refused error
		t, jobs = shared.task(&d)
		first, refused = b.storeSubmission(ctx, u, k, t, jobs)
		if i == 0 || !dispatch.Is(refused, dispatch.LimitReached) {
			err = refused
		}
		if !dispatch.Is(refused, dispatch.LimitReached) {
			break
		}
	}
	switch {
	case err != nil:
		return dispatch.TaskRecord{}, err
	case first.Job != 0:
		return dispatch.TaskRecord{}, keyReused()
	case first.Task != 0:
		return b.repeatedTask(ctx, u, first.Task)
	}
	accepted := dispatch.TaskRecord{Task: *t, Counts: dispatch.Counts{dispatch.Accepted: d.Jobs()},
		Attention: t.PausedFor}
	if len(t.Request.Placements) == 0 && t.PausedFor == dispatch.None {
		accepted.Attention = b.signInAttention(ctx, t.Account)
	}
	if t.Budget != (dispatch.Budget{}) {
		accepted.Spending = &dispatch.Spending{}
	}
	return accepted, nil
}

// signInAttention returns NeedsSignIn if it is soon known that the jobs of an account wait for their user. The visit
// that will show it asks for the same token.
func (b *Broker) signInAttention(ctx context.Context, a dispatch.Account) dispatch.Attention {
	defer idleIfSlow(ctx)()
	ctx, cancel := context.WithTimeout(ctx, signInWithin)
	defer cancel()
	if b.missingSignIn(ctx, a) == "" {
		return dispatch.None
	}
	return dispatch.NeedsSignIn
}

// RepeatedTask returns the task that was stored under a key, for a request that is refused now; refused if there is
// none.
func (b *Broker) RepeatedTask(ctx context.Context, u dispatch.UserID, k dispatch.Key,
	refused error) (dispatch.TaskRecord, error) {
	if first := b.storedUnder(ctx, u, k); first.Task != 0 {
		return b.repeatedTask(ctx, u, first.Task)
	}
	return dispatch.TaskRecord{}, refused
}

// repeatedTask returns the task that a key stands for.
func (b *Broker) repeatedTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	t, err := b.Records.Task(ctx, u, id)
	if dispatch.Is(err, dispatch.NotFound) {
		err = &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.AcceptTask",
			Text: "This key belongs to a deleted task. Use another key."}
	}
	return t, err
}

// DeleteTask hides a task and its jobs at once. The broker cancels the jobs that have not ended at the platform.
func (b *Broker) DeleteTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) error {
	return b.changeTask(ctx, u, id, "cancel", func() (dispatch.Account, int, error) {
		return whole(b.Store.CancelTask(ctx, u, id, true))
	})
}

// CancelTask cancels the chosen jobs of a task that have not ended. The task and its jobs stay in their owner's lists.
func (b *Broker) CancelTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	c dispatch.Choice) (dispatch.TaskRecord, error) {
	err := b.changeTask(ctx, u, id, "cancel", func() (dispatch.Account, int, error) {
		if c.All() {
			return whole(b.Store.CancelTask(ctx, u, id, false))
		}
		return b.Store.CancelJobs(ctx, u, id, c)
	})
	return b.changedTask(ctx, u, id, err)
}

// PauseTask stops submitting the jobs of a task that wait. Those that were submitted go on.
func (b *Broker) PauseTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	err := b.changeTask(ctx, u, id, "pause", func() (dispatch.Account, int, error) {
		return whole(b.Store.PauseTask(ctx, u, id))
	})
	return b.changedTask(ctx, u, id, err)
}

// ResumeTask submits the jobs of a paused task that wait, if their owner is still entitled to run them. If budget is
// not nil, it replaces that of a task that was submitted with one, see [dispatch.Budget.Replaced]; the zero value ends
// the budget. Conflict if the budget has no room for another job.
func (b *Broker) ResumeTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	budget *dispatch.Budget) (dispatch.TaskRecord, error) {
	err := b.changeTask(ctx, u, id, "resume", func() (dispatch.Account, int, error) {
		t, err := b.runnableTask(ctx, u, id)
		if err != nil {
			return "", 0, err
		}
		if budget != nil && budget.Amount > 0 && t.Request.Asked().Budget == (dispatch.Budget{}) {
			return "", 0, dispatch.InvalidBody("dispatch.ResumeTask",
				"The task was submitted without a budget, and cannot get one.", "budget")
		}
		return whole(b.Store.ResumeTask(ctx, u, id, budget))
	})
	return b.changedTask(ctx, u, id, err)
}

// whole returns what changes a whole task, for changeTask.
func whole(a dispatch.Account, err error) (dispatch.Account, int, error) { return a, 0, err }

// changeTask changes a task for its owner in the user's turn, and signals everyone who waits for its changes. change
// returns how many jobs it changed that the owner chose; 0: the whole task.
func (b *Broker) changeTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, action string,
	change func() (dispatch.Account, int, error)) error {
	release, err := b.takeChangeTurn(ctx, u)
	if err != nil {
		return err
	}
	defer release()
	a, n, err := change()
	if err == nil {
		b.audit(ctx, action, u, dispatch.Job{Identity: dispatch.Identity{Task: id},
			Target: dispatch.Target{Account: a}}, n)
		b.counted.Delete(a)
		b.Wake(a)
		b.NotifyUser(u)
	}
	return err
}

// takeChangeTurn waits until the broker changes no other task for the user. A change writes all jobs of a task: a user
// who changes several large tasks at once would keep the database busy.
func (b *Broker) takeChangeTurn(ctx context.Context, u dispatch.UserID) (release func(), err error) {
	if release, err = b.limits.acquire(ctx, "changes of "+string(u), 1); err != nil {
		err = &dispatch.Error{Kind: dispatch.LimitReached, Op: "dispatch.changeTask",
			RetryAfter: dispatch.EnterWithin,
			Text:       "Other tasks of yours are being changed. Try again in a few seconds."}
	}
	return release, err
}

// changedTask returns a task after a change that returned err.
func (b *Broker) changedTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	err error) (dispatch.TaskRecord, error) {
	if err != nil {
		return dispatch.TaskRecord{}, err
	}
	return b.Records.Task(ctx, u, id)
}

// RetryTask runs the chosen jobs of a task that failed again, under their ids. Jobs that run, wait or were canceled do
// not change.
func (b *Broker) RetryTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	c dispatch.Choice) (dispatch.TaskRecord, error) {
	err := b.changeTask(ctx, u, id, "retry", func() (dispatch.Account, int, error) {
		t, err := b.runnableTask(ctx, u, id)
		if err != nil {
			return "", 0, err
		}
		within := b.quotas(t.Account)
		for i := range within {
			within[i].Daily = 0 // the jobs were submitted before
		}
		return b.Store.RetryTask(ctx, u, id, c, within...)
	})
	return b.changedTask(ctx, u, id, err)
}

// runnableTask returns a task whose jobs are to run again, or go on. Forbidden if the requesting user is no longer
// entitled to run its service, at any of the platforms where its jobs may run.
func (b *Broker) runnableTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	t, err := b.Records.Task(ctx, u, id)
	if err != nil {
		return dispatch.TaskRecord{}, err
	}
	placements := []dispatch.Placement{{Account: t.Account, Service: t.Request.Service}}
	if len(t.Request.Placements) > 0 {
		placements = slices.DeleteFunc(slices.Clone(t.Request.Placements),
			func(h dispatch.Placement) bool { return h.Unused != "" })
	}
	for _, h := range placements {
		backend := b.BackendNamed(h.Account.Platform())
		if backend == nil { // nothing is submitted there
			continue
		}
		r := t.Request
		r.Service = h.Service
		if err := cmp.Or(backend.CheckEntitled(ctx), b.checkPolicyEntitles(ctx, backend, r)); err != nil {
			return dispatch.TaskRecord{}, err
		}
	}
	return t, nil
}

const (
	finishEvery = 2 * time.Second // how often changes of tasks are looked for that nobody continues
	changeIdle  = 3 * time.Second // how long such a change has stood still
)

// FinishChanges finishes the changes of tasks that a visit began, or a process began and did not end, until ctx is
// done. Every process runs it.
func (b *Broker) FinishChanges(ctx context.Context) {
	for ctx.Err() == nil {
		changes, err := b.Store.FinishChanges(ctx, changeIdle)
		for _, c := range changes {
			b.Log.InfoContext(ctx, "a change of a task was finished in the background", "action", c.Action, "user",
				string(c.Owner), "account", string(c.Account), "task", int64(c.Task))
			b.counted.Delete(c.Account)
			b.Wake(c.Account)
			b.NotifyUser(c.Owner)
		}
		if err != nil && ctx.Err() == nil {
			b.Log.Log(ctx, dispatch.LogLevel(err), "finishing changes of tasks in the background failed", "error", err)
		}
		_ = dispatch.Sleep(ctx, finishEvery)
	}
}

// DiscardTask does what DeleteTask does. It also has its jobs removed from the platform, with their results, once they
// have ended.
func (b *Broker) DiscardTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) error {
	return b.changeTask(ctx, u, id, "remove", func() (dispatch.Account, int, error) {
		return whole(b.Store.DiscardTask(ctx, u, id))
	})
}
