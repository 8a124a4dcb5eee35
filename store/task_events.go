package store

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// taskEnds are the ends of jobs of a task in one transaction, for the hooks that are notified of the task.
type taskEnds struct {
	ended int64 // number of jobs
	first int   // the smallest number of these jobs
	hooks []dispatch.Hook
}

// addTask notes the end of a job for the hooks that are notified of its task.
func (e *effects) addTask(j dispatch.Job, hooks []dispatch.Hook) {
	if e.tasks == nil {
		e.tasks = map[dispatch.TaskID]*taskEnds{}
	}
	t := e.tasks[j.Task]
	if t == nil {
		t = &taskEnds{first: j.Number, hooks: hooks}
		e.tasks[j.Task] = t
	}
	t.ended, t.first = t.ended+1, min(t.first, j.Number)
}

// ofTasks are the hooks that are notified of what happens to a task.
func ofTasks(hooks []dispatch.Hook, j dispatch.Job) (all []dispatch.Hook) {
	for _, h := range hooks {
		if h.Owner == j.Owner && h.Job == 0 && (h.Task == 0 || h.Task == j.Task) &&
			slices.ContainsFunc(h.Statuses, func(s dispatch.Status) bool {
				return s == dispatch.NeedsOwner || strings.HasPrefix(string(s), "task_")
			}) {
			all = append(all, h)
		}
	}
	return all
}

// notifyTasks adds the deliveries about tasks whose jobs have ended in this transaction. It counts the jobs of a task
// after the transaction has taken a number of its owner, so that those of the same owner come before or after: one of
// them sees that a share was passed. Each time that a task ends has the number as its epoch.
func (e *effects) notifyTasks(ctx context.Context, q tx) error {
	var all []command
	for _, id := range slices.Sorted(maps.Keys(e.tasks)) {
		p, err := e.tasks[id].progress(ctx, q, id)
		if err != nil {
			return err
		}
		for _, h := range e.tasks[id].hooks {
			for _, status := range h.Statuses {
				epoch, happened := p.event(status)
				due := q.now
				if h.Kind == dispatch.OGCSubscriber && status != dispatch.TaskRunning {
					due-- // see ClaimDeliveries
				}
				if status == dispatch.NeedsOwner {
					status = dispatch.Needs(dispatch.TrialEnded)
				}
				if happened {
					d := dispatch.Delivery{Hook: h.ID, Event: dispatch.Event{Of: id, Epoch: int(epoch), Status: status}}
					all = append(all, addDelivery(d, q.now, due))
				}
			}
		}
	}
	return q.runAll(ctx, all)
}

// taskProgress is how many jobs of a task have ended, and had before.
type taskProgress struct {
	jobs, ended, before int64
	status              dispatch.Status // as one job
	triedNow            bool            // the last job on trial has ended just now
	number              int64           // of the change
}

func (t *taskEnds) progress(ctx context.Context, q tx, id dispatch.TaskID) (p taskProgress, err error) {
	var trial int64
	err = q.QueryRowContext(ctx, `
		SELECT o.change, CASE WHEN t.paused_for = 'trial' THEN t.trial ELSE 0 END
		FROM tasks t
			JOIN owners o ON o.owner = t.owner
		WHERE t.id = $1 AND NOT t.hidden`, id).Scan(&p.number, &trial)
	if err != nil {
		return p, missing(err)
	}
	if int64(t.first) <= trial {
		p.triedNow, err = value[bool](ctx, q, `
			SELECT NOT EXISTS (
				SELECT 1 FROM jobs
				WHERE task = CAST($1 AS BIGINT) AND task <> 0 AND NOT hidden AND number <= $2 AND phase <> 'ended')`, id, trial)
		if err != nil {
			return p, err
		}
	}
	counts, err := countTasks(ctx, q, id)
	for _, c := range counts[id] {
		p.jobs += int64(c.n)
		if c.status.Final() {
			p.ended += int64(c.n)
		}
	}
	p.before, p.status = p.ended-t.ended, countsOf(counts[id]).AsOneJob()
	return p, err
}

// afterShares is the epoch of what happens once, after all shares have passed or before the task has ended.
const afterShares = 100

// event reports whether an event of a hook has happened just now, and returns its epoch.
func (p taskProgress) event(status dispatch.Status) (epoch int64, happened bool) {
	if p.jobs == 0 {
		return 0, false
	}
	ended := p.ended == p.jobs
	switch status {
	case dispatch.NeedsOwner:
		return p.number, p.triedNow
	case dispatch.TaskEnded:
		return p.number, ended
	case dispatch.TaskFinished:
		return p.number, ended && p.status == dispatch.Finished
	case dispatch.TaskFailed:
		return p.number, ended && p.status != dispatch.Finished
	case dispatch.TaskRunning: // also if all ended at once
		return afterShares, p.ended > 0 && (p.ended < p.jobs || p.status == dispatch.Finished)
	}
	epoch = shareOf(status)
	return epoch, epoch > 0 && 100*p.before < epoch*p.jobs && 100*p.ended >= epoch*p.jobs
}

// listTaskHooks returns the hooks that are notified of a task.
func listTaskHooks(ctx context.Context, q tx, task dispatch.TaskID) ([]dispatch.Hook, error) {
	return listHooks(ctx, q, `
		SELECT `+hookColumns+`
		FROM tasks t
			JOIN hooks ON hooks.owner = t.owner AND hooks.job = 0 AND hooks.task IN (0, t.id)
		WHERE t.id = $1 AND NOT t.hidden AND NOT hooks.gone`, task)
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
