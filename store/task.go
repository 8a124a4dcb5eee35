package store

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Tasks returns the owner's tasks, by creation. The database does not know their statuses, which are derived: tasks
// of other statuses than the wanted ones are skipped here.
func (s *Store) Tasks(ctx context.Context, u dispatch.UserID, p dispatch.Page) ([]dispatch.TaskRecord, error) {
	ctx = allow(ctx, listWithin)
	return result(ctx, s.readOnly, s.read, "Tasks", func(q tx, now int64) ([]dispatch.TaskRecord, error) {
		return listTasks(ctx, q, u, p, now)
	})
}

func listTasks(
	ctx context.Context, q tx, u dispatch.UserID, p dispatch.Page, now int64,
) (records []dispatch.TaskRecord, err error) {
	for {
		rows, err := pageOfTasks(ctx, q, u, p)
		if err != nil || len(rows) == 0 {
			return records, err
		}
		page, err := recordsOf(ctx, q, rows, p.Most, now)
		for _, t := range page {
			if len(p.Statuses) == 0 || slices.Contains(p.Statuses, t.Counts.Status()) {
				records = append(records, t)
			}
		}
		if full := p.Limit > 0 && len(records) >= p.Limit; full {
			records = records[:p.Limit]
		}
		if err != nil || p.Limit == 0 || len(page) < p.Limit || len(records) == p.Limit {
			return records, err
		}
		p.After = page[len(page)-1].Place()
	}
}

// recordsOf returns the records of tasks.
func recordsOf(ctx context.Context, q tx, rows []taskRow, most int, now int64) ([]dispatch.TaskRecord, error) {
	ids := make([]dispatch.TaskID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	counts, err := countTasks(ctx, q, ids...)
	if err != nil {
		return nil, err
	}
	attentions, err := attentionsOf(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	records := make([]dispatch.TaskRecord, len(rows))
	for i, r := range rows {
		if records[i], err = r.record(most, counts[r.ID]); err != nil {
			return nil, err
		}
		showAttention(&records[i], attentions[r.ID], r.hold, now)
	}
	return records, showSpending(ctx, q, records)
}

// taskRow is a row of a task.
type taskRow struct {
	dispatch.TaskRecord

	request                          string
	size, updated, finished, stopped int64
	trying                           bool // jobs of a trial have not ended
	changed                          bool // the document of the service
	hold                             hold // of the account or, of several placements, the one that ends first
}

// taskColumns are the columns of a task, with those of its account, without its request.
const taskColumns = `
		tasks.id, tasks.owner, tasks.account, tasks.dimension, tasks.hidden, tasks.created, tasks.edited, tasks.paused,
		tasks.paused_for, tasks.annotations, tasks.budget, tasks.budget_unit, tasks.trial,
		tasks.trial > 0 AND EXISTS (
			SELECT 1 FROM jobs k
			WHERE k.task = tasks.id AND k.task <> 0 AND k.number <= tasks.trial AND k.phase <> 'ended' AND NOT k.hidden),
		COALESCE(task_changes.action, ''), COALESCE(task_changes.done, 0), COALESCE(task_changes.last, 0),
		octet_length(tasks.request),
		COALESCE((
			SELECT j.updated FROM jobs j
			WHERE j.task = tasks.id AND j.task <> 0 AND NOT j.hidden
			ORDER BY j.updated DESC LIMIT 1), 0),
		COALESCE((
			SELECT j.moved FROM jobs j
			WHERE j.task = tasks.id AND j.task <> 0 AND j.status = 'finished' AND NOT j.hidden
			ORDER BY j.moved DESC LIMIT 1), 0),
		COALESCE((
			SELECT j.moved FROM jobs j
			WHERE j.task = tasks.id AND j.task <> 0 AND j.status IN ('failed', 'canceled') AND NOT j.hidden
			ORDER BY j.moved DESC LIMIT 1), 0),
		COALESCE((
			SELECT definitions.changed_to <> '' FROM definitions
			WHERE definitions.task = tasks.id AND definitions.job = 0), FALSE)
			OR tasks.spread AND COALESCE((SELECT MAX(h.changed_to) <> '' FROM task_placements h WHERE h.task = tasks.id), FALSE),
		CASE WHEN tasks.spread THEN ` + firstHold + ` ELSE accounts.hold END,
		CASE WHEN tasks.spread THEN (
			SELECT COALESCE(max(b.hold_attention), '')
			FROM task_placements g
				JOIN accounts b ON b.id = g.account
			WHERE g.task = tasks.id AND b.hold = ` + firstHold + `) ELSE accounts.hold_attention END`

// firstHold is when the first hold of the placements of a task ends.
const firstHold = `COALESCE((
			SELECT min(COALESCE(a.hold, 0))
			FROM task_placements h
				LEFT JOIN accounts a ON a.id = h.account
			WHERE h.task = tasks.id), 0)`

// columns returns where taskColumns are scanned to, with the request.
func (r *taskRow) columns() []any {
	t := &r.Task
	return []any{number(&t.ID), text(&t.Owner), text(&t.Account), &t.Dimension, &t.Hidden, instant(&t.Created),
		instant(&t.Edited), &t.Paused, text(&t.PausedFor), encodedIn[dispatch.Annotations]{&t.Annotations},
		&t.Budget.Amount, &t.Budget.Unit,
		number(&t.Trial), &r.trying, &r.Change.Action, number(&r.Change.Done), number(&r.Change.Last), number(&r.size),
		number(&r.updated),
		number(&r.finished), number(&r.stopped), &r.changed, number(&r.hold.until), text(&r.hold.why), &r.request}
}

// selectTasks reads tasks from tables, as much of their requests as a page has.
func selectTasks(
	ctx context.Context, q tx, most int, from string, w where, more string,
) ([]taskRow, error) {
	request := partOf(&w, most, "tasks.request", true)
	return list(ctx, q, (*taskRow).columns, `
		SELECT `+taskColumns+`, `+request+`
		FROM `+from+`
			JOIN accounts ON accounts.id = tasks.account
			LEFT JOIN task_changes ON task_changes.task = tasks.id
		WHERE `+w.String()+more,
		w.args...)
}

// pageOfTasks reads a page of tasks of any status, or of those that have a label.
func pageOfTasks(ctx context.Context, q tx, u dispatch.UserID, p dispatch.Page) ([]taskRow, error) {
	var w where
	d, from, created, id := directionOf(p), "tasks", "tasks.created", "tasks.id"
	if p.Label != (dispatch.LabelMatch{}) {
		from, created, id = "task_labels l JOIN tasks ON tasks.id = l.task", "l.created", "l.task"
		w.and("l.owner = " + w.arg(u) + " AND l.name = " + w.arg(p.Label.Key) + " AND l.value " +
			"= " + w.arg(p.Label.Value))
	} else {
		w.and("tasks.owner = " + w.arg(u))
	}
	w.and("NOT tasks.hidden")
	d.follows(&w, p.After, created, id)
	if len(p.Accounts) > 0 {
		// PostgreSQL would read all placements for EXISTS in an alternative.
		w.and(`EXISTS (
				SELECT 1 FROM task_placements h
				WHERE h.task = tasks.id AND ` + isAny(q, &w, "h.account", p.Accounts) + `
				UNION ALL
				SELECT 1 WHERE ` + isAny(q, &w, "tasks.account", p.Accounts) + ")")
	}
	if !p.Since.IsZero() {
		since := w.arg(micros(p.Since))
		w.and(`EXISTS (
				SELECT 1 FROM jobs
				WHERE jobs.task = tasks.id AND jobs.task <> 0 AND NOT jobs.hidden AND jobs.updated > ` + since + `
				UNION ALL
				SELECT 1 WHERE tasks.edited > ` + since + ")")
	}
	return selectTasks(ctx, q, p.Most, from, w, `
		ORDER BY `+d.by(created, id)+`
		LIMIT CAST(`+w.arg(most(p.Limit))+` AS BIGINT)`)
}

// attentionsOf returns the attentions of the jobs of tasks. The condition on jobs is given twice: the first form
// permits jobs_attention, and for the second SQLite, which has not counted its rows, takes it rather than the index of
// all jobs of a task.
func attentionsOf(
	ctx context.Context, q tx, tasks []dispatch.TaskID,
) (map[dispatch.TaskID][]dispatch.Attention, error) {
	w, all := whereAny(q, "task", tasks), map[dispatch.TaskID][]dispatch.Attention{}
	return all, eachRow(ctx, q, func(j *dispatch.Job) []any {
		return []any{number(&j.Task), text(&j.Attention)}
	}, func(j *dispatch.Job) error {
		all[j.Task] = append(all[j.Task], j.Attention)
		return nil
	}, `
		SELECT DISTINCT task, attention
		FROM jobs
		WHERE `+w.String()+` AND task <> 0 AND attention <> '' AND attention > '' AND NOT hidden`,
		w.args...)
}

// taskCount is how many jobs of a task have a status, and the sum of their progress in millionths of a percent.
type taskCount struct {
	task     dispatch.TaskID
	status   dispatch.Status
	n        int
	progress int64
}

// countTasks counts the jobs of tasks.
func countTasks(
	ctx context.Context, q tx, tasks ...dispatch.TaskID,
) (map[dispatch.TaskID][]taskCount, error) {
	w, all := whereAny(q, "task", tasks), map[dispatch.TaskID][]taskCount{}
	return all, eachRow(ctx, q, func(c *taskCount) []any {
		return []any{number(&c.task), text(&c.status), number(&c.n), number(&c.progress)}
	}, func(c *taskCount) error {
		all[c.task] = append(all[c.task], *c)
		return nil
	}, `
		SELECT task, status, jobs, progress
		FROM task_counts
		WHERE jobs <> 0 AND `+w.String(),
		w.args...)
}

// Task returns a task of its owner.
func (s *Store) Task(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	return result(ctx, s.in, s.read, "Task", func(q tx, now int64) (dispatch.TaskRecord, error) {
		return readTask(ctx, q, u, id, now)
	})
}

func readTask(
	ctx context.Context, q tx, u dispatch.UserID, id dispatch.TaskID, now int64,
) (dispatch.TaskRecord, error) {
	return firstOf(readTasks(ctx, q, u, []dispatch.TaskID{id}, 0, now))
}

// readTasks reads those of some tasks that their owner sees, with most bytes of their requests, in no order.
func readTasks(
	ctx context.Context, q tx, u dispatch.UserID, ids []dispatch.TaskID, most int, now int64,
) (all []dispatch.TaskRecord, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	w := whereAny(q, "tasks.id", ids)
	w.and("tasks.owner || '' = " + w.arg(u) + " AND NOT tasks.hidden")
	rows, err := selectTasks(ctx, q, most, "tasks", w, "")
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return recordsOf(ctx, q, rows, most, now)
}

// getTask reads a task of its owner, with most bytes of its request.
func getTask(ctx context.Context, q tx, u dispatch.UserID, id dispatch.TaskID, most int) (taskRow, error) {
	var w where
	w.and("tasks.id = " + w.arg(id) + " AND tasks.owner = " + w.arg(u) + " AND NOT tasks.hidden")
	return firstOf(selectTasks(ctx, q, most, "tasks", w, ""))
}

// showAttention sets the attention of a task whose jobs have the given ones. That of its account counts if the account
// submits nothing at present, and jobs of the task wait for that.
func showAttention(r *dispatch.TaskRecord, jobs []dispatch.Attention, h hold, now int64) {
	if h.until > now && !r.Paused && r.Counts[dispatch.Accepted] > 0 {
		jobs = append(jobs, h.why)
	}
	r.Attention = r.Attend(jobs...)
}

func countsOf(all []taskCount) dispatch.Counts {
	counts := dispatch.Counts{}
	for _, c := range all {
		counts[c.status] = c.n
	}
	return counts
}

// record returns a task of a page. most is the number of bytes of a request that the page reads.
func (r *taskRow) record(most int, counts []taskCount) (t dispatch.TaskRecord, err error) {
	t = r.TaskRecord
	t.Counts = countsOf(counts)
	if t.PausedFor == dispatch.Trial && !r.trying {
		t.PausedFor = dispatch.TrialEnded
	}
	if r.changed {
		t.Attention = dispatch.ServiceChanged
	}
	live := int64(0)
	for _, c := range counts {
		if !c.status.Final() {
			live += c.progress
		}
	}
	t.Progress, t.Updated = t.Counts.Progress(float64(live)/1e6),
		at(max(micros(t.Created), micros(t.Edited), r.updated))
	t.Ended = t.Counts.End(at(max(r.finished, r.stopped)))
	if most != 0 && r.size > int64(most) {
		t.Request = dispatch.ParseRequestHead(r.request)
		return t, nil
	}
	return t, json.Unmarshal([]byte(r.request), &t.Request)
}

// TaskJobs returns a task's jobs, ordered by number.
func (s *Store) TaskJobs(
	ctx context.Context, u dispatch.UserID, id dispatch.TaskID, p dispatch.Page,
) ([]dispatch.Record, error) {
	ctx = allow(ctx, listWithin)
	return result(ctx, s.inSnapshot, s.read, "TaskJobs", func(q tx, now int64) ([]dispatch.Record, error) {
		return readTaskJobs(ctx, q, u, id, p, now)
	})
}

func readTaskJobs(
	ctx context.Context, q tx, u dispatch.UserID, id dispatch.TaskID, p dispatch.Page, now int64,
) ([]dispatch.Record, error) {
	row, err := getTask(ctx, q, u, id, p.Most)
	if err != nil {
		return nil, err
	}
	shared, err := row.record(p.Most, nil)
	if err != nil {
		return nil, err
	}
	changed, err := row.changedAt(ctx, q)
	if err != nil {
		return nil, err
	}
	records, err := listTaskJobs(ctx, q, id, p, func(r *recordRow) (dispatch.Record, error) {
		return r.jobOfTask(&shared, p.Most, now)
	})
	if err != nil {
		return nil, err
	}
	return records, showAccounts(ctx, q, records, changed, now)
}

// showAccounts sets on jobs what they show of their accounts, and that the document of the service has changed. changed
// is what changedAt returns.
func showAccounts(
	ctx context.Context, q tx, records []dispatch.Record, changed []dispatch.Account, now int64,
) (err error) {
	states := map[dispatch.Account]accountState{}
	for i := range records {
		j := &records[i].Job
		if j.Phase == dispatch.Ended {
			continue
		}
		s, known := states[j.Account]
		if !known {
			if s, err = getAccountState(ctx, q, j.Account); err != nil {
				return err
			}
			states[j.Account] = s
		}
		*j = redefined(s.shownOn(*j, now), slices.Contains(changed, j.Account))
	}
	return nil
}

// changedAt returns the accounts of the task where the document of its service has changed. Its attention does not
// tell: it may be a more important one.
func (r *taskRow) changedAt(ctx context.Context, q tx) ([]dispatch.Account, error) {
	if !r.changed {
		return nil, nil
	}
	return list(ctx, q, single[dispatch.Account], `
		SELECT h.account
		FROM task_placements h
		WHERE h.task = CAST($1 AS BIGINT) AND h.changed_to <> ''
		UNION ALL
		SELECT tasks.account
		FROM tasks
			JOIN definitions d ON d.task = tasks.id AND d.job = 0
		WHERE tasks.id = CAST($1 AS BIGINT) AND d.changed_to <> ''`,
		r.Task.ID)
}

// jobOfTask returns a job of a task, without what its account shows on it.
func (r *recordRow) jobOfTask(t *dispatch.TaskRecord, most int, now int64) (record dispatch.Record, err error) {
	record = dispatch.Record{Job: r.Job, Pruned: r.pruned, Read: at(now)}
	if most == 0 {
		record.Request, err = t.RequestFor(r.Job, json.RawMessage(r.body))
		return record, err
	}
	record.Request, record.Size, record.Cut = t.RequestHeadFor(r.Job), int(r.size), r.size > int64(most)
	if !record.Cut {
		record.Value = json.RawMessage(r.body)
	}
	return record, nil
}

// FinishedJobs returns finished jobs of a task in the order in which they finished.
func (s *Store) FinishedJobs(
	ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ResultPosition, n int,
) ([]dispatch.Record, error) {
	ctx = allow(ctx, listWithin)
	return result(ctx, s.in, s.read, "FinishedJobs", func(q tx, now int64) ([]dispatch.Record, error) {
		shared, err := getTask(ctx, q, u, id, dispatch.PartMost)
		if err != nil {
			return nil, err
		}
		task, err := shared.record(dispatch.PartMost, nil)
		if err != nil {
			return nil, err
		}
		l := jobList{from: "jobs", order: "jobs.moved, jobs.id", n: int64(n), ofTask: true}
		w := &l.where
		w.and("jobs.task = CAST(" + w.arg(id) + " AS BIGINT) AND jobs.task <> 0")
		w.and("jobs.status = 'finished' AND NOT jobs.hidden")
		ascending.after(w, "jobs.moved", "jobs.id", micros(after.At), int64(after.Job))
		return l.read(ctx, q, func(r *recordRow) (dispatch.Record, error) {
			return dispatch.Record{Job: r.Job, Request: task.RequestHeadFor(r.Job), Value: json.RawMessage(r.body),
				Size: len(r.body), Read: at(now)}, nil
		})
	})
}

// chosen returns the jobs that a choice of a task, which is locked, names: their numbers and statuses.
func chosen(
	ctx context.Context, q tx, id dispatch.TaskID, c dispatch.Choice,
) (map[dispatch.JobID]dispatch.Job, error) {
	w := whereAny(q, "id", c.Jobs)
	w.and("task = CAST(" + w.arg(id) + " AS BIGINT) AND NOT hidden")
	all, err := list(ctx, q, func(j *dispatch.Job) []any {
		return []any{number(&j.ID), number(&j.Number), text(&j.Status)}
	}, "SELECT id, number, status FROM jobs WHERE "+w.String(), w.args...)
	jobs := map[dispatch.JobID]dispatch.Job{}
	for _, j := range all {
		jobs[j.ID] = j
	}
	for i, job := range c.Jobs {
		if _, found := jobs[job]; err == nil && !found {
			err = c.NoSuchJob(i)
		}
	}
	return jobs, err
}
