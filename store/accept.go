package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store/query"
)

// Accept implements dispatch.Store. It reserves the ids before its transaction, so a failed one leaves a gap.
func (s *Store) Accept(ctx context.Context, k dispatch.Key, t *dispatch.Task, jobs []dispatch.Draft, within ...dispatch.Quota) (r dispatch.KeyTarget, err error) {
	if err := acceptable(k, t, jobs); err != nil {
		return r, err
	}
	if s.remote && t == nil && len(jobs) == 1 && jobs[0].Bytes() <= togetherBytes {
		return s.acceptOne(ctx, k, jobs, within)
	}
	return s.acceptAll(ctx, acceptance{keys: []dispatch.Key{k}, task: t, jobs: jobs}, within)
}

func (s *Store) acceptAll(ctx context.Context, a acceptance, within []dispatch.Quota) (r dispatch.KeyTarget, err error) {
	ctx = allow(ctx, callWithin+time.Duration(len(a.jobs))*perJob)
	if err := a.measure(); err != nil {
		return r, fail("Accept", err)
	}
	end, err := s.lockCount(ctx, "Accept", a.jobs[0].Owner, within)
	if err != nil {
		return r, err
	}
	defer end()
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
	err = s.inClient(ctx, "Accept", len(a.jobs), func(q tx, now int64) error {
		if r, err = s.useKeys(ctx, q, a, now); err != nil || r != (dispatch.KeyTarget{}) {
			return err
		}
		if err := s.admit(ctx, q, a.jobs[0].Owner, len(a.jobs), a.bytes, within, now); err != nil {
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
	keys  []dispatch.Key // of the task, or of each job
	task  *dispatch.Task
	jobs  []dispatch.Draft
	id    dispatch.TaskID
	first dispatch.JobID
	now   int64
	hold  query.WakeToAcceptRow // of the account

	shared string // the task's request, encoded
	sent   int64  // bytes of the process that was sent with the task's request
	bytes  int64  // of all requests

	counted bool // the jobs are counted by count, and not by the triggers
}

// measure encodes what the jobs share and counts the bytes of all requests.
func (a *acceptance) measure() (err error) {
	if a.task != nil {
		a.shared, err = encode(a.task.Request)
		a.sent = a.task.Document.Sent()
	}
	a.bytes, a.counted = int64(len(a.shared))+a.sent, a.alike()
	for _, j := range a.jobs {
		a.bytes += j.Bytes()
	}
	return err
}

func acceptable(k dispatch.Key, t *dispatch.Task, jobs []dispatch.Draft) error {
	if len(jobs) == 0 {
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "store.Accept", Text: "The task has no values."}
	}
	texts := []string{k.Text, k.Fingerprint}
	if t != nil {
		r := t.Request
		texts = append(texts, string(t.Owner), string(t.Account), t.Dimension, r.Title, r.Format, string(r.Parameters), string(r.Options))
	}
	good := !slices.ContainsFunc(texts, func(s string) bool { return !storable(s) })
	for _, j := range jobs {
		if j.Account != jobs[0].Account {
			return &dispatch.Error{Kind: dispatch.Internal, Op: "store.Accept", Err: fmt.Errorf("jobs of two accounts")}
		}
		good = good && storable(string(j.Owner)) && storable(string(j.Account)) && storable(j.Base) && storable(string(j.Body))
	}
	if good {
		return nil
	}
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "store.Accept", Text: "A text is not valid UTF-8, or holds a NUL character."}
}

func (s *Store) number(ctx context.Context, a *acceptance) error {
	if a.task != nil {
		id, err := s.take(ctx, "task", 1)
		if err != nil {
			return err
		}
		a.id = dispatch.TaskID(id)
	}
	first, err := s.take(ctx, "job", len(a.jobs))
	a.first = dispatch.JobID(first)
	return err
}

// useKeys stores what the idempotency keys stand for, or returns what a key that is in use already stands for; errAlone if there are several keys, since
// those before it would stand for jobs that are not stored.
func (s *Store) useKeys(ctx context.Context, q tx, a acceptance, now int64) (r dispatch.KeyTarget, err error) {
	owner := a.jobs[0].Owner
	for i, k := range a.keys {
		if k == (dispatch.Key{}) {
			continue
		}
		used, err := q.UseKey(ctx, query.UseKeyParams{Owner: owner, Name: k.Text, Fingerprint: k.Fingerprint,
			Task: a.id, Job: a.first + dispatch.JobID(i), Now: now, Expired: now - s.keyLife.Microseconds()})
		if err != nil {
			return r, err
		}
		switch {
		case used == 1:
		case len(a.keys) > 1:
			return r, errAlone
		default:
			return s.usedKey(ctx, q, owner, k, now)
		}
	}
	return r, nil
}

// FindKey returns what was accepted when a key was first used.
func (s *Store) FindKey(ctx context.Context, u dispatch.UserID, k dispatch.Key) (r dispatch.KeyTarget, err error) {
	err = s.in(ctx, s.read, "FindKey", func(q tx, now int64) error {
		r, err = s.usedKey(ctx, q, u, k, now)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return r, err
}

// usedKey returns what a key stands for.
func (s *Store) usedKey(ctx context.Context, q tx, owner dispatch.UserID, k dispatch.Key, now int64) (r dispatch.KeyTarget, err error) {
	is, err := q.GetKey(ctx, owner, k.Text, now-s.keyLife.Microseconds())
	if err != nil {
		return r, err
	}
	if is.Fingerprint != k.Fingerprint {
		return r, &dispatch.Error{Kind: dispatch.Conflict, Op: "store.Accept", Text: "The key was used for another request."}
	}
	if is.Task != 0 {
		return dispatch.KeyTarget{Task: is.Task}, nil
	}
	return dispatch.KeyTarget{Job: is.Job}, nil
}

func (a *acceptance) insert(ctx context.Context, q tx, now int64) error {
	a.now = now
	if a.task != nil {
		if err := q.InsertTask(ctx, query.InsertTaskParams{ID: a.id, Owner: a.task.Owner, Account: a.task.Account,
			Request: a.shared, Dimension: a.task.Dimension, Created: now, Sent: a.sent, Annotations: annotationsText(a.task.Annotations),
			Paused: a.task.Paused, PausedFor: a.task.PausedFor, Budget: a.task.Budget.Amount, BudgetUnit: a.task.Budget.Unit, Trial: int64(a.task.Trial), Spread: a.spread()}); err != nil {
			return err
		}
		if err := a.insertHomes(ctx, q); err != nil {
			return err
		}
	}
	if err := a.storeDocuments(ctx, q); err != nil {
		return err
	}
	if err := a.insertJobs(ctx, q); err != nil {
		return err
	}
	if err := a.insertRequests(ctx, q); err != nil {
		return err
	}
	if err := a.count(ctx, q); err != nil {
		return err
	}
	if err := a.insertHooks(ctx, q); err != nil {
		return err
	}
	if err := a.insertLabels(ctx, q); err != nil {
		return err
	}
	var err error
	a.hold, err = q.WakeToAccept(ctx, a.jobs[0].Account, now)
	return err
}

func (a *acceptance) insertJobs(ctx context.Context, q tx) error {
	columns := []string{"id", "task", "number", "owner", "account", "base", "service_hash", "desired", "phase", "status", "awaited", "max_duration", "bytes", "counted", "due", "created", "updated", "moved"}
	extended := slices.ContainsFunc(a.jobs, func(j dispatch.Draft) bool { return j.Retries > 0 || !j.Annotations.Empty() })
	if extended {
		columns = append(columns, "retries", "annotations")
	}
	traced := slices.ContainsFunc(a.jobs, func(j dispatch.Draft) bool { return j.Traceparent != "" })
	if traced {
		columns = append(columns, "traceparent")
	}
	limited := slices.ContainsFunc(a.jobs, func(j dispatch.Draft) bool { return j.Budgeted || j.Paused })
	if limited {
		columns = append(columns, "budgeted", "paused", "attention")
	}
	named := slices.ContainsFunc(a.jobs, func(j dispatch.Draft) bool { return j.Names != nil })
	if named {
		columns = append(columns, "names")
	}
	b := newBulk(q, "jobs", columns...)
	defer b.close()
	for i, j := range a.jobs {
		row := []any{a.first + dispatch.JobID(i), a.id, j.Number, j.Owner, j.Account, j.Base, j.Service, j.Desired, j.Phase, j.Status, j.Awaited, j.MaxDuration.Microseconds(),
			j.Bytes(), a.counted, a.dueOf(j.Job), a.now, a.now, a.now}
		if extended {
			row = append(row, j.Retries, annotationsText(j.Annotations))
		}
		if traced {
			row = append(row, j.Traceparent)
		}
		if limited {
			row = append(row, j.Budgeted, j.Paused, j.Attention)
		}
		if named {
			row = append(row, namesText(j.Names))
		}
		if err := b.add(ctx, row...); err != nil {
			return err
		}
	}
	return b.flush(ctx)
}

// dueOf returns when a new job is due.
func (a *acceptance) dueOf(j dispatch.Job) int64 {
	if j.Paused {
		return micros(dispatch.Never)
	}
	return a.now
}

func (a *acceptance) insertRequests(ctx context.Context, q tx) error {
	b := newBulk(q, "requests", "job", "body")
	defer b.close()
	for i, j := range a.jobs {
		if err := b.add(ctx, a.first+dispatch.JobID(i), string(j.Body)); err != nil {
			return err
		}
	}
	return b.flush(ctx)
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
		if err := q.InsertHook(ctx, query.InsertHookParams{ID: h.ID, Owner: h.Owner, Kind: string(h.Kind), Job: h.Job, Task: h.Task, Url: h.URL,
			Statuses: joinStatuses(h.Statuses), Key: h.Key, Sealed: h.Text, Now: a.now}); err != nil {
			return err
		}
	}
	return nil
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
		*j = showHold(*j, a.hold.Hold, a.hold.HoldAttention, a.hold.HoldNotice, a.now)
	}
}
