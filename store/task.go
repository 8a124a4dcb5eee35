package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// Tasks returns the owner's tasks, by creation. The database does not know their statuses, which are derived: tasks of other
// statuses than the wanted ones are skipped here.
func (s *Store) Tasks(ctx context.Context, u dispatch.UserID, p dispatch.Page) (records []dispatch.TaskRecord, err error) {
	ctx = allow(ctx, listWithin)
	q := s.queries(s.read) // not a transaction, which takes longer than to find that there are none
	for {
		some, err := s.someTasks(ctx, q, u, p)
		for _, t := range some {
			if len(p.Statuses) == 0 || slices.Contains(p.Statuses, t.Counts.Status()) {
				records = append(records, t)
			}
		}
		if full := p.Limit > 0 && len(records) >= p.Limit; full {
			records = records[:p.Limit]
		}
		if err != nil || p.Limit == 0 || len(some) < p.Limit || len(records) == p.Limit {
			return records, fail("Tasks", err)
		}
		last := some[len(some)-1]
		p.After = last.Place()
	}
}

// someTasks returns a page of tasks of any status.
func (s *Store) someTasks(ctx context.Context, q *query.Queries, u dispatch.UserID, p dispatch.Page) ([]dispatch.TaskRecord, error) {
	created, before := beginOf(p)
	all := query.ListTasksParams{Owner: u, Created: created, Before: before, OfAccounts: joinList(p.Accounts), Since: micros(p.Since), Most: int64(p.Most), N: most(p.Limit)}
	lists := q
	if p.Oldest {
		lists = query.New(oldestFirst{s.traced(s.adapt(s.read, s.read))})
	}
	rows, err := listTasks(ctx, lists, all, p.Label)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	first, last := rows[len(rows)-1].Created, rows[0].Created
	if p.Oldest {
		first, last = last, first
	}
	counts, err := q.CountTasks(ctx, u, first, last)
	if err != nil {
		return nil, err
	}
	attentions, err := attentionsOf(ctx, q, u, first, last)
	if err != nil {
		return nil, err
	}
	now := int64(0)
	if slices.ContainsFunc(rows, func(r query.ListTasksRow) bool { return r.Hold > 0 }) {
		if now, err = s.now(ctx, s.read); err != nil {
			return nil, err
		}
	}
	of := map[dispatch.TaskID][]query.CountTaskRow{}
	for _, c := range counts {
		of[c.Task] = append(of[c.Task], query.CountTaskRow(c))
	}
	records := make([]dispatch.TaskRecord, len(rows))
	for i, row := range rows {
		if records[i], err = taskOf(query.GetTaskRow(row), p.Most, of[row.ID]); err != nil {
			return nil, err
		}
		if row.Hold, row.HoldAttention, err = holdOf(ctx, q, records[i], row.Hold, row.HoldAttention); err != nil {
			return nil, err
		}
		showAttention(&records[i], attentions[row.ID], row.Hold, row.HoldAttention, now)
		if err := showSpending(ctx, q, &records[i]); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// listTasks reads a page of tasks, or of those that have a label.
func listTasks(ctx context.Context, q *query.Queries, p query.ListTasksParams, l dispatch.LabelMatch) ([]query.ListTasksRow, error) {
	if l == (dispatch.LabelMatch{}) {
		return q.ListTasks(ctx, p)
	}
	rows, err := q.ListLabeledTasks(ctx, query.ListLabeledTasksParams{Owner: p.Owner, Name: l.Key, Value: l.Value, Created: p.Created, Before: p.Before,
		OfAccounts: p.OfAccounts, Since: p.Since, Most: p.Most, N: p.N})
	return rowsAs(rows, func(r query.ListLabeledTasksRow) query.ListTasksRow { return query.ListTasksRow(r) }), err
}

// attentionsOf returns the attentions of the jobs of an owner's tasks that were created between two times.
func attentionsOf(ctx context.Context, q *query.Queries, u dispatch.UserID, first, last int64) (map[dispatch.TaskID][]dispatch.Attention, error) {
	rows, err := q.ListAttentions(ctx, u, first, last)
	of := map[dispatch.TaskID][]dispatch.Attention{}
	for _, r := range rows {
		of[r.Task] = append(of[r.Task], r.Attention)
	}
	return of, err
}

// Task returns a task of its owner.
func (s *Store) Task(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (r dispatch.TaskRecord, err error) {
	err = s.in(ctx, s.read, "Task", func(q tx, now int64) error {
		r, err = readTask(ctx, q, u, id, now)
		return err
	})
	return r, err
}

func readTask(ctx context.Context, q tx, u dispatch.UserID, id dispatch.TaskID, now int64) (dispatch.TaskRecord, error) {
	row, err := q.GetTask(ctx, 0, id, u)
	if err != nil {
		return dispatch.TaskRecord{}, err
	}
	counts, err := q.CountTask(ctx, int64(id))
	if err != nil {
		return dispatch.TaskRecord{}, err
	}
	r, err := taskOf(row, 0, counts)
	if err != nil {
		return r, err
	}
	if err := showSpending(ctx, q.Queries, &r); err != nil {
		return r, err
	}
	attentions, err := attentionsOf(ctx, q.Queries, u, row.Created, row.Created)
	if err != nil {
		return r, err
	}
	row.Hold, row.HoldAttention, err = holdOf(ctx, q.Queries, r, row.Hold, row.HoldAttention)
	showAttention(&r, attentions[id], row.Hold, row.HoldAttention, now)
	return r, err
}

// showAttention sets the attention of a task of which some jobs have the given ones. That of its account counts if the account submits nothing
// at present, and jobs of the task wait for that.
func showAttention(r *dispatch.TaskRecord, of []dispatch.Attention, hold int64, why dispatch.Attention, now int64) {
	if hold > now && !r.Paused && r.Counts[dispatch.Accepted] > 0 {
		of = append(of, why)
	}
	r.Attention = r.Attend(of...)
}

// TaskRevision returns a task's revision. Apart from the started jobs, it reads a few rows, however many jobs the task has.
func (s *Store) TaskRevision(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, late time.Duration) (r dispatch.TaskRevision, err error) {
	err = s.in(ctx, s.read, "TaskRevision", func(q tx, now int64) error {
		r, err = revise(ctx, q, u, id, late, now)
		return err
	})
	return r, err
}

func revise(ctx context.Context, q tx, u dispatch.UserID, id dispatch.TaskID, late time.Duration, now int64) (r dispatch.TaskRevision, err error) {
	row, err := q.ReviseTask(ctx, id, u)
	if err != nil {
		return r, err
	}
	sums, err := q.SumTask(ctx, int64(id))
	if err != nil {
		return r, err
	}
	dependent, err := q.CountTimeDependent(ctx, u, int64(id), now-late.Microseconds())
	r = dispatch.TaskRevision{Hold: row.Hold, Wakes: row.Wakes, TimeDependent: int(dependent), Revision: dispatch.Revision{Jobs: int(sums.N),
		Updated: row.Updated, Sums: [2]int64{sums.First, sums.Second}, Edited: row.Edited, ServiceChanged: row.Changed, HomesChanged: row.HomesChanged}}
	if row.Hold > now {
		r.Why, r.Notice = row.HoldAttention, row.HoldNotice
	}
	if row.Changed || row.HomesChanged != 0 || row.Hold > now {
		r.Epochs = sums.Epochs
	}
	return r, err
}

// TaskChanges returns a task, its revision, and the jobs that changed after a time.
func (s *Store) TaskChanges(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, p dispatch.Page, late time.Duration) (c dispatch.TaskChanges, err error) {
	err = s.inSnapshot(ctx, s.read, "TaskChanges", func(q tx, now int64) error {
		if c.Revision, err = revise(ctx, q, u, id, late, now); err != nil {
			return err
		}
		if c.Task, err = readTask(ctx, q, u, id, now); err != nil {
			return err
		}
		c.Jobs, err = readTaskJobs(ctx, q, u, id, p, now)
		return err
	})
	return c, err
}

func countsOf(rows []query.CountTaskRow) dispatch.Counts {
	counts := dispatch.Counts{}
	for _, c := range rows {
		counts[c.Status] = int(c.N)
	}
	return counts
}

// taskOf returns a task of a page. most is the number of bytes of a request that the page reads.
func taskOf(row query.GetTaskRow, most int, counts []query.CountTaskRow) (dispatch.TaskRecord, error) {
	r := dispatch.TaskRecord{Counts: countsOf(counts), Task: dispatch.Task{ID: row.ID, Owner: row.Owner, Account: row.Account,
		Dimension: row.Dimension, Created: at(row.Created), Edited: at(row.Edited), Paused: row.Paused, PausedFor: row.PausedFor, Hidden: row.Hidden,
		Budget: dispatch.Budget{Amount: row.Budget, Unit: row.BudgetUnit}, Trial: int(row.Trial)}}
	if r.PausedFor == dispatch.Trial && !row.Trying {
		r.PausedFor = dispatch.TrialEnded
	}
	if row.Changed {
		r.Attention = dispatch.ServiceChanged
	}
	var err error
	if r.Annotations, err = decoded[dispatch.Annotations](row.Annotations); err != nil {
		return r, err
	}
	live := int64(0)
	for _, c := range counts {
		if !c.Status.Final() {
			live += c.Progress
		}
	}
	r.Progress, r.Updated = r.Counts.Progress(float64(live)/1e6), at(max(row.Created, row.Edited, row.Updated))
	r.Ended = r.Counts.End(at(max(row.Finished, row.Stopped)))
	if most != 0 && row.Size > int64(most) {
		r.Request = dispatch.ParseRequestHead(row.Request)
		return r, nil
	}
	return r, json.Unmarshal([]byte(row.Request), &r.Request)
}

// TaskJobs returns a task's jobs, ordered by number.
func (s *Store) TaskJobs(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, p dispatch.Page) (records []dispatch.Record, err error) {
	err = s.inSnapshot(allow(ctx, listWithin), s.read, "TaskJobs", func(q tx, now int64) error {
		records, err = readTaskJobs(ctx, q, u, id, p, now)
		return err
	})
	return records, err
}

func readTaskJobs(ctx context.Context, q tx, u dispatch.UserID, id dispatch.TaskID, p dispatch.Page, now int64) ([]dispatch.Record, error) {
	task, err := q.GetTask(ctx, int64(p.Most), id, u)
	if err != nil {
		return nil, err
	}
	shared, err := taskOf(task, p.Most, nil)
	if err != nil {
		return nil, err
	}
	changed, err := changedAt(ctx, q, shared)
	if err != nil {
		return nil, err
	}
	records, err := listTaskJobs(ctx, q, shared.Task, p, func(row *query.ListTaskJobsRow) (dispatch.Record, error) {
		return jobOfTask(&shared, row, p.Most, now)
	})
	if err != nil {
		return nil, err
	}
	return records, showAccounts(ctx, q, records, changed, now)
}

// showAccounts sets on jobs that were not started what holds their accounts, and that the document of the service has changed. changed is what changedAt
// returns.
func showAccounts(ctx context.Context, q tx, records []dispatch.Record, changed []dispatch.Account, now int64) (err error) {
	holds := map[dispatch.Account]query.GetHoldRow{}
	for i := range records {
		j := &records[i].Job
		if !j.Phase.Inert() {
			continue
		}
		hold, known := holds[j.Account]
		if !known {
			if hold, err = q.GetHold(ctx, j.Account); err != nil {
				return err
			}
			holds[j.Account] = hold
		}
		*j = redefined(showHold(*j, hold.Hold, hold.HoldAttention, hold.HoldNotice, now), slices.Contains(changed, j.Account))
	}
	return nil
}

// changedAt returns the accounts of a task where the document of its service has changed.
func changedAt(ctx context.Context, q tx, t dispatch.TaskRecord) ([]dispatch.Account, error) {
	switch {
	case t.Attention != dispatch.ServiceChanged:
		return nil, nil
	case len(t.Request.Homes) == 0:
		return []dispatch.Account{t.Account}, nil
	}
	return q.ListChangedHomes(ctx, int64(t.ID))
}

// jobOfTask returns a job of a task, without what its account shows on it.
func jobOfTask(t *dispatch.TaskRecord, row *query.ListTaskJobsRow, most int, now int64) (dispatch.Record, error) {
	j, err := jobOf(row.Job)
	if err != nil {
		return dispatch.Record{}, err
	}
	if most != 0 {
		r := dispatch.Record{Job: j, Request: t.RequestHeadFor(j), Pruned: row.Job.Pruned, Read: at(now), Size: int(row.Size), Cut: row.Size > int64(most)}
		if !r.Cut {
			r.Value = json.RawMessage(row.Body)
		}
		return r, nil
	}
	r, err := t.RequestFor(j, json.RawMessage(row.Body))
	return dispatch.Record{Job: j, Request: r, Pruned: row.Job.Pruned, Read: at(now)}, err
}

// FinishedJobs returns finished jobs of a task in the order in which they finished.
func (s *Store) FinishedJobs(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ResultPosition, n int) (records []dispatch.Record, err error) {
	err = s.in(allow(ctx, listWithin), s.read, "FinishedJobs", func(q tx, now int64) error {
		row, err := q.GetTask(ctx, dispatch.PartMost, id, u)
		if err != nil {
			return err
		}
		task, err := taskOf(row, dispatch.PartMost, nil)
		if err != nil {
			return err
		}
		finished := func(q *query.Queries) ([]query.ListFinishedRow, error) {
			return q.ListFinished(ctx, query.ListFinishedParams{Task: int64(id), Moved: micros(after.At), After: int64(after.Job), N: int64(n)})
		}
		records, err = collect(ctx, q, ofWholeJobs, finished, func(row *query.ListFinishedRow) (dispatch.Record, error) {
			j, err := jobOf(row.Job)
			return dispatch.Record{Job: j, Request: task.RequestHeadFor(j), Value: json.RawMessage(row.Body), Size: len(row.Body), Read: at(now)}, err
		})
		return err
	})
	return records, err
}

// CancelTask cancels all jobs of a task, and with hide hides them and the task.
func (s *Store) CancelTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, hide bool) (dispatch.Account, error) {
	action := changeCancel
	if hide {
		action = changeDelete
	}
	return s.endTask(ctx, "CancelTask", u, id, action)
}

// endTask cancels all jobs of a task. If they are hidden, the task is hidden first.
func (s *Store) endTask(ctx context.Context, op string, u dispatch.UserID, id dispatch.TaskID, action string) (dispatch.Account, error) {
	a, _, err := s.changeTask(ctx, op, u, id, func(q tx, now int64) (c *taskChange, err error) {
		err = q.MarkTask(ctx, query.MarkTaskParams{Now: now, ID: id})
		if err == nil && action != changeCancel {
			err = q.HideTask(ctx, id)
		}
		if err != nil {
			return nil, err
		}
		return changeOfAll(ctx, q, id, action)
	})
	return a, err
}

// CancelJobs cancels the chosen jobs of a task.
func (s *Store) CancelJobs(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice) (a dispatch.Account, n int, err error) {
	return s.changeTask(ctx, "CancelJobs", u, id, func(q tx, now int64) (*taskChange, error) {
		change, err := changeOfAll(ctx, q, id, changeCancelSome)
		if err != nil {
			return nil, err
		}
		change.Statuses = joinList(c.Statuses)
		if c.Jobs == nil && (c.Statuses == nil || len(c.Statuses) > 0) { // the query takes no statuses for any
			return change, nil
		}
		jobs, err := chosen(ctx, q, u, id, c)
		numbers := make([]int64, len(jobs))
		for i, j := range jobs {
			numbers[i] = int64(j.Number)
		}
		return change.only(numbers), err
	})
}

// chosen returns the chosen jobs of a task, by id.
func chosen(ctx context.Context, q tx, u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice) (jobs []dispatch.Job, err error) {
	for i, job := range c.Jobs {
		row, err := q.GetOwned(ctx, job, u)
		if missing(err) != nil {
			return nil, err
		}
		if err != nil || row.Task != id {
			return nil, c.NoSuchJob(i)
		}
		j, err := jobOf(row)
		if err != nil {
			return nil, err
		}
		if c.Contains(j) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b dispatch.Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs, nil
}

// PauseTask keeps the waiting jobs of a task from being submitted.
func (s *Store) PauseTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.Account, error) {
	a, _, err := s.changeTask(ctx, "PauseTask", u, id, func(q tx, now int64) (*taskChange, error) {
		counts, err := q.CountTask(ctx, int64(id))
		if err == nil {
			err = countsOf(counts).Pausable("store.PauseTask")
		}
		if err != nil {
			return nil, err
		}
		switch is, err := q.LockBudget(ctx, id); {
		case err != nil:
			return nil, err
		case is.Paused && is.PausedFor != dispatch.Trial:
			return &taskChange{}, nil
		}
		return markPaused(ctx, q, id, dispatch.None, now)
	})
	return a, err
}

// markPaused pauses a task for its owner, or for the reason that its attention shows, and returns the change of its jobs.
func markPaused(ctx context.Context, q tx, id dispatch.TaskID, why dispatch.Attention, now int64) (*taskChange, error) {
	if err := q.MarkTask(ctx, query.MarkTaskParams{Paused: true, PausedFor: why, Now: now, ID: id}); err != nil {
		return nil, err
	}
	return changeOfAll(ctx, q, id, changePause)
}

// pauseTask pauses a task in the transaction of another change, see begin.
func pauseTask(ctx context.Context, q tx, id dispatch.TaskID, why dispatch.Attention, now int64) (more bool, err error) {
	c, err := markPaused(ctx, q, id, why, now)
	if err != nil {
		return false, err
	}
	return c.begin(ctx, q, now)
}

// ResumeTask undoes PauseTask, and ends a trial.
func (s *Store) ResumeTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, budget *dispatch.Budget) (dispatch.Account, error) {
	a, _, err := s.changeTask(ctx, "ResumeTask", u, id, func(q tx, now int64) (*taskChange, error) {
		if err := setBudget(ctx, q, id, budget); err != nil {
			return nil, err
		}
		if err := q.MarkTask(ctx, query.MarkTaskParams{Now: now, ID: id}); err != nil {
			return nil, err
		}
		return changeOfAll(ctx, q, id, changeResume)
	})
	return a, err
}

// RetryTask resets the chosen failed jobs of a task to waiting.
func (s *Store) RetryTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice, within ...dispatch.Quota) (a dispatch.Account, n int, err error) {
	end, err := s.lockCount(allow(ctx, listWithin), "RetryTask", u, within)
	if err != nil {
		return "", 0, err
	}
	defer end()
	return s.changeTask(ctx, "RetryTask", u, id, func(q tx, now int64) (*taskChange, error) {
		if _, err := chosen(ctx, q, u, id, c); err != nil {
			return nil, err
		}
		rows, err := q.ListFailedNumbers(ctx, int64(id))
		if err == nil && len(rows) == 0 {
			err = refusePruned(ctx, q, id)
		}
		if err != nil {
			return nil, err
		}
		change := &taskChange{TaskChange: query.TaskChange{Task: int64(id), Action: changeRetry}}
		var numbers []int64
		for _, r := range rows {
			if c.Contains(dispatch.Job{ID: r.ID, Status: dispatch.Failed}) {
				numbers = append(numbers, int64(r.Number))
				change.Jobs, change.Bytes = change.Jobs+1, change.Bytes+r.Bytes
			}
		}
		if len(numbers) == 0 {
			return nil, s.admit(ctx, q, u, 0, 0, within, now)
		}
		shared, err := q.CountShared(ctx, id)
		if err != nil {
			return nil, err
		}
		return change.only(numbers), s.admit(ctx, q, u, len(numbers), change.Bytes+shared, within, now)
	})
}

// refusePruned returns Conflict for a task whose failed jobs cannot run again, because their parameters were deleted.
func refusePruned(ctx context.Context, q tx, id dispatch.TaskID) error {
	pruned, err := q.HasPrunedFailure(ctx, int64(id))
	if err != nil || !pruned {
		return err
	}
	return &dispatch.Error{Kind: dispatch.Conflict, Op: "store.RetryTask",
		Text: "The parameters of the failed jobs were deleted, because the jobs ended long ago. Submit the task again."}
}
