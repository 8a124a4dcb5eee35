package store

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Accept implements broker.Store. It reserves the ids before its transaction, so a failed one leaves a gap.
func (s *Store) Accept(ctx context.Context, k dispatch.Key, t *dispatch.Task, jobs []dispatch.Draft,
	within ...dispatch.Quota) (r dispatch.KeyTarget, err error) {
	a, err := newAcceptance("Accept", k, t, jobs)
	if err != nil {
		return r, err
	}
	ctx = allow(ctx, callWithin+time.Duration(a.n)*perJob)
	if a.n > rowsAtOnce { // smaller ones are counted one after the other in batches
		end, err := s.lockCount(ctx, "Accept", a.jobs[0].Owner, within)
		if err != nil {
			return r, err
		}
		defer end()
	}
	err = s.withNewIDs(ctx, func() error {
		r, err = s.accept(ctx, a, within)
		return err
	})
	return r, err
}

func (s *Store) accept(ctx context.Context, a acceptance, within []dispatch.Quota) (r dispatch.KeyTarget, err error) {
	if err := s.number(ctx, &a); err != nil {
		return r, fail("Accept", err)
	}
	err = s.inAcceptance(ctx, a.jobs[0].Owner, a.n, func(q tx, now int64) error {
		r, err = s.useKey(ctx, q, a.jobs[0].Owner, a.key, a.id, a.first, now)
		if err != nil || r != (dispatch.KeyTarget{}) {
			return err
		}
		if err := s.admit(ctx, q, a.jobs[0].Owner, a.n, a.bytes, within, now); err != nil {
			return err
		}
		return a.insert(ctx, q, now)
	})
	if err == nil && r == (dispatch.KeyTarget{}) {
		a.fillIn()
	}
	return r, err
}

// acceptance holds what Accept stores, and under which ids. The caller's task and drafts change only after the commit.
type acceptance struct {
	key   dispatch.Key
	task  *dispatch.Task
	jobs  []dispatch.Draft
	n     int // of jobs
	id    dispatch.TaskID
	first dispatch.JobID
	now   int64
	hold  hold // of the account

	shared string // the task's request, encoded
	bytes  int64  // of all requests
}

// newAcceptance returns what is to be stored, unless a database cannot store it.
func newAcceptance(op string, k dispatch.Key, t *dispatch.Task, jobs []dispatch.Draft) (a acceptance, err error) {
	a = acceptance{key: k, task: t, jobs: jobs}
	texts := []string{k.Text, k.Fingerprint}
	if t != nil {
		r := t.Request
		texts = append(texts, string(t.Owner), string(t.Account), t.Dimension, r.Title, r.Format, string(r.Parameters),
			string(r.Options))
		if a.shared, err = encode(r); err != nil {
			return a, fail(op, err)
		}
		a.bytes = int64(len(a.shared)) + t.Document.Sent()
	}
	for j := range dispatch.EachJob(jobs) {
		if j.Account != jobs[0].Account {
			return a, fail(op, errors.New("jobs of two accounts"))
		}
		if err := allStorable(op, string(j.Owner), string(j.Account), j.Base, string(j.Body)); err != nil {
			return a, err
		}
		a.n++
		a.bytes += j.Bytes()
	}
	if a.n == 0 {
		return a, &dispatch.Error{Kind: dispatch.Invalid, Op: "store." + op, Text: "The task has no values."}
	}
	return a, allStorable(op, texts...)
}

func (s *Store) number(ctx context.Context, a *acceptance) error {
	if a.task != nil {
		id, err := s.take(ctx, "task", 1)
		if err != nil {
			return err
		}
		a.id = dispatch.TaskID(id)
	}
	first, err := s.take(ctx, "job", a.n)
	a.first = dispatch.JobID(first)
	return err
}

// useKey stores what an idempotency key stands for, or returns what a key that is in use already stands for. A
// concurrent second use of a key waits until the first commits.
func (s *Store) useKey(ctx context.Context, q tx, owner dispatch.UserID, k dispatch.Key, task dispatch.TaskID,
	job dispatch.JobID, now int64) (r dispatch.KeyTarget, err error) {
	if k == (dispatch.Key{}) {
		return r, nil
	}
	used, err := exec(ctx, q, `
		INSERT INTO keys (owner, name, fingerprint, task, job, created)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (owner, name) DO UPDATE SET fingerprint = excluded.fingerprint, task = excluded.task,
			job = excluded.job, created = excluded.created
		WHERE keys.created <= $7`,
		owner, k.Text, k.Fingerprint, task, job, now, now-s.keyLife.Microseconds())
	if err != nil || used == 1 {
		return r, err
	}
	return s.usedKey(ctx, q, owner, k, now)
}

// FindKey returns what was accepted when a key was first used.
func (s *Store) FindKey(ctx context.Context, u dispatch.UserID, k dispatch.Key) (dispatch.KeyTarget, error) {
	return result(ctx, s.in, s.read, "FindKey", func(q tx, now int64) (dispatch.KeyTarget, error) {
		r, err := s.usedKey(ctx, q, u, k, now)
		return r, missing(err)
	})
}

// usedKey returns what a key stands for.
func (s *Store) usedKey(ctx context.Context, q querier, owner dispatch.UserID, k dispatch.Key, now int64,
) (r dispatch.KeyTarget, err error) {
	var fingerprint string
	err = q.QueryRowContext(ctx, `
		SELECT fingerprint, task, job FROM keys WHERE owner = $1 AND name = $2 AND created > $3`,
		owner, k.Text, now-s.keyLife.Microseconds()).Scan(&fingerprint, &r.Task, &r.Job)
	switch {
	case err != nil:
	case fingerprint != k.Fingerprint:
		err = &dispatch.Error{Kind: dispatch.Conflict, Op: "store.Accept",
			Text: "The key was used for another request."}
	case r.Task != 0:
		r.Job = 0
	}
	if err != nil {
		return dispatch.KeyTarget{}, err
	}
	return r, nil
}

func (a *acceptance) insert(ctx context.Context, q tx, now int64) (err error) {
	a.now = now
	if a.task != nil {
		if err := insertTask(ctx, q, *a.task, a.id, a.shared, now); err != nil {
			return err
		}
		if err := a.insertPlacements(ctx, q); err != nil {
			return err
		}
	}
	for _, insert := range []func(context.Context, tx) error{
		a.storeDocuments, a.insertJobs, a.insertHooks, a.insertLabels,
	} {
		if err := insert(ctx, q); err != nil {
			return err
		}
	}
	a.hold, err = wakeToAccept(ctx, q, a.jobs[0].Account, now)
	return err
}

func insertTask(
	ctx context.Context, q querier, t dispatch.Task, id dispatch.TaskID, shared string, created int64,
) error {
	spread, moves := len(t.Request.Placements) > 0, int64(noMoves)
	if spread {
		moves = max(created, 1)
	}
	_, err := q.ExecContext(ctx, `
		INSERT INTO tasks (id, owner, account, request, head, dimension, created, sent, annotations,
			paused, paused_for, budget, budget_unit, trial, spread, moves)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		id, t.Owner, t.Account, shared, dispatch.RequestHead(shared), t.Dimension, created, t.Document.Sent(),
		encoded(t.Annotations, dispatch.Annotations.Empty), t.Paused, t.PausedFor, t.Budget.Amount, t.Budget.Unit,
		int64(t.Trial), spread, moves)
	return err
}

// insertJobs inserts the accepted jobs.
func (a *acceptance) insertJobs(ctx context.Context, q tx) error {
	return insertJobs(ctx, q, func(yield func(dispatch.Draft) bool) {
		id, now := a.first, at(a.now)
		for j := range dispatch.EachJob(a.jobs) {
			j.ID, j.Task = id, a.id
			j.Due, j.Created, j.Updated, j.Moved = at(a.dueOf(j.Job)), now, now, now
			if !yield(j) {
				return
			}
			id++
		}
	})
}

// insertJobs inserts jobs with their requests, and counts them. Columns that no job needs keep their defaults, and so
// does the version. The jobs of a task may be too many to have them all in memory.
func insertJobs(ctx context.Context, q tx, jobs iter.Seq[dispatch.Draft]) error {
	alone, needed, j := make([]dispatch.UserID, 0, 1), make([]bool, len(allColumns)), dispatch.Draft{}
	for j = range jobs {
		if j.Task == 0 && !slices.Contains(alone, j.Owner) {
			alone = append(alone, j.Owner)
		}
		for i, c := range allColumns {
			needed[i] = needed[i] || c.value(&j.Job) != emptyColumns[i]
		}
	}
	numbers, err := takeNumbers(ctx, q, alone)
	if err != nil {
		return err
	}
	var columns []column
	for i, c := range allColumns {
		if (needed[i] || slices.Contains(required, c.name)) && c.name != "version" {
			columns = append(columns, c)
		}
	}
	names := []string{"bytes", "changed"}
	for _, c := range columns {
		names = append(names, c.name)
	}
	rows, bodies := newBulk(q, "jobs", names...), newBulk(q, "requests", "job", "head", "body")
	var e effects
	for j = range jobs {
		values := []any{j.Bytes(), int64(0)} // the jobs of a task are known by the task
		if j.Task == 0 {
			values[1] = numbers[j.Owner]
		} else {
			e.numbers.task(j.Task, j.Owner, true)
		}
		for _, c := range columns {
			values = append(values, c.value(&j.Job))
		}
		if err := rows.add(ctx, values...); err != nil {
			return err
		}
		body, head := storableText(string(j.Body)), ""
		if j.Task == 0 {
			head = dispatch.RequestHead(body)
		}
		if err := bodies.add(ctx, int64(j.ID), head, body); err != nil { // after its job
			return err
		}
		e.change(&stored{}, &stored{Job: j.Job, bytes: j.Bytes()})
	}
	if err := cmp.Or(rows.flush(ctx), bodies.flush(ctx)); err != nil {
		return err
	}
	follow, err := e.statements(ctx, q)
	if err != nil {
		return err
	}
	return q.runAll(ctx, slices.Concat(e.numbers.take(q.now), e.numbers.ofTasks(), follow))
}

// emptyColumns are the values of the columns of a job that lacks all.
var emptyColumns = func() (all []any) {
	for _, c := range allColumns {
		all = append(all, c.value(&dispatch.Job{}))
	}
	return all
}()

// required are the columns without a default.
var required = []string{"id", "task", "number", "owner", "account", "base", "desired", "phase", "status", "awaited",
	"due", "created", "updated", "moved"}

// dueOf returns when a new job is due: never if it is paused.
func (a *acceptance) dueOf(j dispatch.Job) int64 {
	if j.Paused {
		return 0
	}
	return a.now
}

// insertHooks stores the hooks of the task, or of the jobs.
func (a *acceptance) insertHooks(ctx context.Context, q tx) error {
	var all []dispatch.Hook
	if a.task != nil {
		for _, h := range a.task.Hooks {
			h.Task = a.id
			all = append(all, h)
		}
	}
	for i, j := range a.jobs {
		for _, h := range j.Hooks {
			h.Job = a.first + dispatch.JobID(i)
			all = append(all, h)
		}
	}
	for _, h := range all {
		if err := insertHook(ctx, q, h, a.now); err != nil {
			return err
		}
	}
	return nil
}

// insertHook stores the hook of one job or task.
func insertHook(ctx context.Context, q querier, h dispatch.Hook, now int64) error {
	_, err := q.ExecContext(ctx, `
		INSERT INTO hooks (id, owner, kind, job, task, url, statuses, key, sealed, created)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		h.ID, h.Owner, string(h.Kind), h.Job, h.Task, h.URL, encoded(h.Statuses, isEmpty), h.Key, h.Text, now)
	return err
}

// fillIn sets ids and times in the caller's task and drafts, and why their account submits nothing.
func (a *acceptance) fillIn() {
	now := at(a.now)
	if a.task != nil {
		a.task.ID, a.task.Created, a.task.Updated = a.id, now, now
	}
	for i := range a.jobs {
		j := &a.jobs[i].Job
		j.ID, j.Task, j.Version = a.first+dispatch.JobID(i), a.id, 1
		j.Due, j.Created, j.Updated, j.Moved = at(a.dueOf(*j)), now, now, now
		*j = showHold(*j, a.hold, a.now)
	}
}
