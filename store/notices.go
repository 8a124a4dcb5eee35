package store

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// event is a change of a job that hooks may be notified of.
type event struct {
	dispatch.Job
	what dispatch.Status // its new status, or what needs its owner; "": it has ended for its task only
	ends bool            // it was a job of a task that had not ended
}

// eventsOf returns what happened to a job whose owner has hooks. One that its owner deletes before it has ended ends
// for its task: the others may have ended.
func eventsOf(before, now *stored) (all []event) {
	if !before.exists() || !now.exists() || !now.watched || before.Hidden {
		return nil
	}
	if now.Hidden && now.Phase != dispatch.Ended && now.Task != 0 {
		all = append(all, event{Job: now.Job, ends: true})
	}
	if ended := now.Status.Final(); now.Status != before.Status && (ended || now.Status == dispatch.Running) {
		all = append(all, event{now.Job, now.Status, ended && now.Task != 0})
	}
	if now.Attention != before.Attention && !now.Hidden && now.Phase != dispatch.Ended &&
		slices.Contains(needOwner, now.Attention) {
		all = append(all, event{now.Job, dispatch.Needs(now.Attention), false})
	}
	return all
}

// needOwner are the reasons for which a job waits for its owner.
var needOwner = []dispatch.Attention{dispatch.NeedsSignIn, dispatch.SubmissionUnknown, dispatch.SetAside,
	dispatch.Stalled}

// notify returns the statements that add the deliveries of events, but for those of tasks, see notifyTasks.
func (e *effects) notify(ctx context.Context, q tx) (all []command, err error) {
	if len(e.events) == 0 {
		return nil, nil
	}
	hooks, err := hooksFor(ctx, q, e.events)
	for _, event := range e.events {
		for _, h := range hooks {
			if h.Owner == event.Owner && (h.Job == 0 || h.Job == event.ID) && (h.Task == 0 || h.Task == event.Task) {
				all = append(all, deliver(h, event)...)
			}
		}
		if notified := ofTasks(hooks, event.Job); event.ends && len(notified) > 0 {
			e.addTask(event.Job, notified)
		}
	}
	return all, err
}

// hooksFor returns the hooks that may be notified of events: of all jobs of an owner, of one job, or of one task.
func hooksFor(ctx context.Context, q tx, events []event) (hooks []dispatch.Hook, err error) {
	owners, jobs, tasks := map[dispatch.UserID]bool{}, map[dispatch.UserID][]int64{}, map[dispatch.UserID][]int64{}
	for _, e := range events {
		owners[e.Owner] = true
		jobs[e.Owner] = append(jobs[e.Owner], int64(e.ID))
		if e.Task != 0 && !slices.Contains(tasks[e.Owner], int64(e.Task)) {
			tasks[e.Owner] = append(tasks[e.Owner], int64(e.Task))
		}
	}
	for _, u := range slices.Sorted(maps.Keys(owners)) {
		all, err := hooksOfSome(ctx, q, u, append(jobs[u], 0), []int64{0})
		if err == nil && len(tasks[u]) > 0 {
			ofTasks, failed := hooksOfSome(ctx, q, u, []int64{0}, tasks[u])
			all, err = append(all, ofTasks...), failed
		}
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, all...)
	}
	return hooks, nil
}

// idsAtOnce is how many ids one query lists.
const idsAtOnce = 100

// hooksOfSome returns the hooks of a user that are of some jobs and tasks and want to be notified; 0 stands for all.
// By its lists both databases find the hooks in the index hooks_of_job, so that those of the owner's other jobs are not
// read.
func hooksOfSome(ctx context.Context, q tx, u dispatch.UserID, jobs, tasks []int64) ([]dispatch.Hook, error) {
	var w where
	w.and("owner = " + w.arg(string(u)) + " AND NOT gone")
	anyOf(q, &w, "job", jobs)
	anyOf(q, &w, "task", tasks)
	return listHooks(ctx, q, "SELECT "+hookColumns+" FROM hooks WHERE "+w.String(), w.args...)
}

// deliver returns the statements that add the delivery of an event to a hook.
func deliver(h dispatch.Hook, e event) []command {
	ogc, progress := h.Kind == dispatch.OGCSubscriber, slices.Equal(h.Statuses, []dispatch.Status{dispatch.Running})
	reason, _ := e.what.Needed()
	happened := micros(e.Updated)
	switch due := happened; {
	case slices.Contains(h.Statuses, e.what), reason != dispatch.None &&
		slices.Contains(h.Statuses, dispatch.NeedsOwner):
		if ogc && e.what.Final() {
			due-- // an end comes after the progress, see ClaimDeliveries
		}
		return []command{addDelivery(dispatch.Delivery{Hook: h.ID, Task: e.Task, Number: e.Number,
			Event: dispatch.Event{Job: e.ID, Epoch: e.Epoch, Status: e.what}}, happened, due)}
	case ogc && progress && e.what == dispatch.Finished:
		// OGC API - Processes has its inProgressUri notified also of a job that has finished without having been seen
		// to run. One that failed or was canceled may never have run.
		return []command{{`
			INSERT INTO deliveries (hook, job, task, epoch, status, number, happened, queued, due)
			SELECT h.id, CAST($2 AS BIGINT), CAST($4 AS BIGINT), CAST($3 AS BIGINT), 'running', CAST($5 AS BIGINT),
				CAST($6 AS BIGINT), CAST($6 AS BIGINT), CAST($6 AS BIGINT)
			FROM hooks h
			WHERE h.id = $1 AND NOT EXISTS (SELECT 1 FROM deliveries d
				WHERE d.hook = h.id AND d.job = CAST($2 AS BIGINT) AND d.status = 'running')
			ON CONFLICT (hook, job, task, epoch, status) DO NOTHING`,
			[]any{h.ID, int64(e.ID), int64(e.Epoch), int64(e.Task), int64(e.Number), happened}}}
	}
	return nil
}

// addDelivery returns the statement that adds a delivery, unless there is one of the same event.
func addDelivery(d dispatch.Delivery, happened, due int64) command {
	return command{`
		INSERT INTO deliveries (hook, job, task, epoch, status, number, happened, queued, due)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)
		ON CONFLICT (hook, job, task, epoch, status) DO NOTHING`,
		[]any{d.Hook, int64(d.Job), int64(max(d.Task, d.Of)), int64(d.Epoch), string(d.Status), int64(d.Number),
			happened, due}}
}

// notifyPause adds the deliveries for a task that is paused because of its budget, once for each pause.
func notifyPause(ctx context.Context, q tx, id dispatch.TaskID, why dispatch.Attention, now int64) error {
	hooks, err := listTaskHooks(ctx, q, id)
	return errors.Join(err, notifyOwner(ctx, q, hooks, dispatch.Event{Of: id, Epoch: int(now),
		Status: dispatch.Needs(why)}, now))
}

// notifySignIn adds the deliveries when all jobs of an account begin to wait for the sign-in of its user, once each
// time.
func notifySignIn(ctx context.Context, q tx, a dispatch.Account, now int64) error {
	hooks, err := listHooks(ctx, q, `
		SELECT `+hookColumns+`
		FROM hooks
		WHERE owner = $1 AND NOT gone
			AND (job = 0 AND task = 0
				OR EXISTS (SELECT 1 FROM jobs j WHERE j.id = hooks.job AND j.account = $2 AND j.phase <> 'ended')
				OR EXISTS (
					SELECT 1 FROM jobs j
					WHERE j.task = hooks.task AND j.task <> 0 AND j.account = $2 AND j.phase <> 'ended'))`,
		a.Identity(), string(a))
	return errors.Join(err, notifyOwner(ctx, q, hooks, dispatch.Event{Epoch: int(now), Status: dispatch.SignInEvent},
		now))
}

// notifyOwner adds the deliveries of an event that needs the owner of some hooks.
func notifyOwner(ctx context.Context, q tx, hooks []dispatch.Hook, e dispatch.Event, now int64) error {
	var all []command
	for _, h := range hooks {
		if slices.Contains(h.Statuses, dispatch.NeedsOwner) {
			all = append(all, addDelivery(dispatch.Delivery{Hook: h.ID, Event: e}, now, now))
		}
	}
	return q.runAll(ctx, all)
}
