package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (s *MemStore) Accept(_ context.Context, k dispatch.Key, t *dispatch.Task, jobs []dispatch.Draft,
	within ...dispatch.Quota) (dispatch.KeyTarget, error) {
	now, unlock := s.lock()
	defer unlock()
	drafts, jobs := jobs, slices.Collect(dispatch.EachJob(jobs))
	if err := acceptable(jobs); err != nil {
		return dispatch.KeyTarget{}, err
	}
	task, first := s.number(t, len(jobs))
	owner := jobs[0].Owner
	if r, err := s.used(k, owner, now); err != nil || r != (dispatch.KeyTarget{}) {
		return r, err
	}
	if err := s.admit(owner, len(jobs), bytesOf(t, jobs), within, now); err != nil {
		return dispatch.KeyTarget{}, err
	}
	s.use(k, owner, task, first, now)
	s.insert(t, jobs, task, first, now)
	fillIn(drafts, jobs)
	return dispatch.KeyTarget{}, nil
}

// fillIn sets in drafts what was stored of their jobs, or of the first job of several.
func fillIn(drafts, stored []dispatch.Draft) {
	for i := range drafts {
		drafts[i].Job = stored[i].Job
	}
}

// bytesOf returns the bytes of the requests of a task, or of jobs without one.
func bytesOf(t *dispatch.Task, jobs []dispatch.Draft) (n int64) {
	if t != nil {
		n = sizeOf(t.Request) + t.Document.Sent()
	}
	for _, j := range jobs {
		n += j.Bytes()
	}
	return n
}

// insert stores a task and jobs under their ids.
func (s *MemStore) insert(t *dispatch.Task, jobs []dispatch.Draft, task dispatch.TaskID, first dispatch.JobID,
	now time.Time) {
	if t != nil {
		t.ID, t.Created, t.Updated = task, now, now
		s.define(owned{task: task}, t.Owner, t.Document)
		s.definePlacements(*t)
		kept := *t
		kept.Document = nil
		s.tasks[t.ID] = kept
	}
	for i := range jobs {
		j := &jobs[i].Job
		j.ID, j.Task, j.Version = first+dispatch.JobID(i), task, 1
		j.Due, j.Created, j.Updated, j.Moved = now, now, now, now
		if j.Paused {
			j.Due = time.Time{}
		}
		s.jobs = append(s.jobs, &row{Job: *j, body: slices.Clone(jobs[i].Body), bytes: jobs[i].Bytes()})
		if t == nil {
			s.define(owned{job: j.ID}, j.Owner, jobs[i].Document)
		}
	}
	s.wake(jobs[0].Account, now)
	for i := range jobs {
		jobs[i].Job = s.showHold(jobs[i].Job, now)
	}
}

func acceptable(jobs []dispatch.Draft) error {
	if len(jobs) == 0 {
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "conformance.Accept", Text: "The task has no values."}
	}
	for _, j := range jobs {
		if j.Account != jobs[0].Account {
			return &dispatch.Error{Kind: dispatch.Internal, Op: "conformance.Accept",
				Err: fmt.Errorf("jobs of two accounts")}
		}
		if !utf8.Valid(j.Body) || bytes.IndexByte(j.Body, 0) >= 0 {
			return &dispatch.Error{Kind: dispatch.Invalid, Op: "conformance.Accept",
				Text: "A text is not valid UTF-8, or holds a NUL character."}
		}
	}
	return nil
}

func (s *MemStore) number(t *dispatch.Task, jobs int) (task dispatch.TaskID, first dispatch.JobID) {
	if t != nil {
		s.lastTask++
		task = s.lastTask
	}
	first = s.lastJob + 1
	s.lastJob += dispatch.JobID(jobs)
	return task, first
}

func (s *MemStore) FindKey(_ context.Context, u dispatch.UserID, k dispatch.Key) (dispatch.KeyTarget, error) {
	now, unlock := s.lock()
	defer unlock()
	return s.used(k, u, now)
}

// used returns what a key stands for.
func (s *MemStore) used(k dispatch.Key, u dispatch.UserID, now time.Time) (r dispatch.KeyTarget, err error) {
	switch used := s.keys[ownKey{u, k.Text}]; {
	case used == nil || now.Sub(used.at) >= dispatch.KeyLife:
		return r, nil
	case used.fingerprint != k.Fingerprint:
		return r, conflict()
	default:
		return used.first, nil
	}
}

// use stores what a key stands for.
func (s *MemStore) use(k dispatch.Key, u dispatch.UserID, task dispatch.TaskID, job dispatch.JobID, now time.Time) {
	if k == (dispatch.Key{}) {
		return
	}
	first := dispatch.KeyTarget{Task: task}
	if task == 0 {
		first.Job = job
	}
	s.keys[ownKey{u, k.Text}] = &usedKey{k.Fingerprint, first, now}
}

func (s *MemStore) Record(_ context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	now, unlock := s.lock()
	defer unlock()
	r, err := s.visible(u, id)
	if err != nil {
		return dispatch.Record{}, err
	}
	return s.record(r, now)
}

func (s *MemStore) RecordIncludingHidden(_ context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record,
	error) {
	now, unlock := s.lock()
	defer unlock()
	r, err := s.owned(u, id)
	if err != nil {
		return dispatch.Record{}, err
	}
	return s.record(r, now)
}

// record returns a job as its owner sees it.
func (s *MemStore) record(r *row, now time.Time) (dispatch.Record, error) {
	j := s.showHold(r.job(), now)
	changed := j.Task != 0 && s.changedAt(s.tasks[j.Task], j.Account)
	if d := s.defined[owned{job: j.ID}]; (changed || d != nil && d.current != "") && j.Phase == dispatch.Waiting &&
		j.Attention == dispatch.None {
		j.Attention = dispatch.ServiceChanged
	}
	request, err := s.request(r)
	return dispatch.Record{Job: j, Request: request, Read: now}, err
}

// showHold returns a job with the reason why its account submits nothing, if the job was not started and is not paused,
// or with that its platform does not respond.
func (s *MemStore) showHold(j dispatch.Job, now time.Time) dispatch.Job {
	if acc := s.of(j.Account); j.Phase.Inert() && acc.hold.After(now) && j.Attention != dispatch.Paused {
		j.Attention, j.Notice = acc.why, acc.notice
	}
	if s.silent(j.Account) {
		j = j.Unanswered()
	}
	return j
}

// silent reports whether jobs show that the platform of an account does not respond.
func (s *MemStore) silent(a dispatch.Account) bool {
	heard := s.heard[a.Platform()]
	return !heard.Failed.IsZero() && (heard.Answered.IsZero() ||
		heard.Failed.Sub(heard.Answered) > dispatch.SilentAfter)
}

func (s *MemStore) request(r *row) (q dispatch.Request, err error) {
	if r.Task != 0 {
		return s.tasks[r.Task].RequestFor(r.Job, r.body)
	}
	return q, json.Unmarshal(r.body, &q)
}

func (s *MemStore) Records(_ context.Context, u dispatch.UserID, p dispatch.Page) ([]dispatch.Record, error) {
	now, unlock := s.lock()
	defer unlock()
	records := []dispatch.Record{}
	for _, r := range s.jobs {
		if r.Owner != u || r.Task != 0 || r.Hidden || !r.fits(p) || !p.Label.Selects(r.Annotations.Labels) ||
			!p.Follows(dispatch.Place{Created: r.Created, ID: int64(r.ID)}) {
			continue
		}
		record, err := s.record(r, now)
		if err != nil {
			return nil, err
		}
		records = append(records, s.bounded(record, r, p))
	}
	slices.SortFunc(records, func(a, b dispatch.Record) int { return p.Compare(a.Place(), b.Place()) })
	return limited(records, p), nil
}

// bounded removes from a record what a page does not read.
func (s *MemStore) bounded(record dispatch.Record, r *row, p dispatch.Page) dispatch.Record {
	if p.Most == 0 {
		return record
	}
	record.Job = record.Job.Listed()
	record.Size, record.Cut = len(r.body), len(r.body) > p.Most
	switch {
	case r.Task != 0:
		t := s.tasks[r.Task]
		t.Request = head(t.Request, p)
		if record.Request = t.RequestHeadFor(r.Job); !record.Cut {
			record.Value = r.body
		}
	case record.Cut:
		record.Request = dispatch.ParseRequestHead(cut(string(r.body), p))
	}
	return record
}

// head returns the part of a task's request that a page reads.
func head(r dispatch.Request, p dispatch.Page) dispatch.Request {
	text, _ := dispatch.Encode(r) // cannot fail: it was decoded before
	if body := string(text); p.Most != 0 && len(body) > p.Most {
		return dispatch.ParseRequestHead(cut(body, p))
	}
	return r
}

// cut returns the first characters of a text, as many as a page reads.
func cut(text string, p dispatch.Page) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), max(p.Most, 0))])
}

// fits reports whether a page selects a job, regardless of its position.
func (r *row) fits(p dispatch.Page) bool {
	return r.Updated.After(p.Since) && (len(p.Statuses) == 0 || slices.Contains(p.Statuses, r.Status)) &&
		(len(p.Accounts) == 0 || slices.Contains(p.Accounts, r.Account))
}

func limited[T any](list []T, p dispatch.Page) []T {
	if p.Limit == 0 || p.Limit > len(list) {
		return list
	}
	return list[:p.Limit]
}

func (s *MemStore) Cancel(_ context.Context, u dispatch.UserID, id dispatch.JobID, hide bool) (dispatch.Job, error) {
	now, unlock := s.lock()
	defer unlock()
	r, err := s.visible(u, id)
	if err != nil {
		return dispatch.Job{}, err
	}
	r.Hidden = hide
	if r.cancel(now) {
		s.wake(r.Account, now)
	}
	return r.job(), nil
}

func (s *MemStore) Discard(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Job, error) {
	if _, err := s.Cancel(ctx, u, id, true); err != nil {
		return dispatch.Job{}, err
	}
	now, unlock := s.lock()
	defer unlock()
	r, err := s.find(id)
	if err != nil {
		return dispatch.Job{}, err
	}
	r.planRemoval(now)
	s.wake(r.Account, now)
	return r.job(), nil
}

// planRemoval plans the removal of a job from its platform.
func (r *row) planRemoval(now time.Time) {
	if r.Removable() {
		r.Removal.Due, r.Version = now, r.Version+1
	}
}

// cancel marks a job as no longer wanted, and reports whether that is new.
func (r *row) cancel(now time.Time) bool {
	if r.Desired == dispatch.WantCancel || r.Phase == dispatch.Ended {
		return false
	}
	r.Desired, r.Version = dispatch.WantCancel, r.Version+1
	if over := r.SendBy.Add(dispatch.SettleMargin); !r.Phase.InDoubt() || !over.After(now) {
		r.Due = now
	} else if over.Before(r.Due) {
		r.Due = over
	}
	if r.Phase == dispatch.Waiting {
		r.Phase, r.Status, r.Epoch, r.Moved, r.Updated = dispatch.Ended, dispatch.Canceled, r.Epoch+1, now, now
		r.Attention, r.Notice = dispatch.None, ""
	}
	return true
}

func (s *MemStore) MarkAwaited(_ context.Context, u dispatch.UserID, scope dispatch.Scope, fresh,
	gap time.Duration) (accounts []dispatch.Account, err error) {
	now, unlock := s.lock()
	defer unlock()
	plan := map[dispatch.Account]time.Time{} // zero: now
	for _, r := range s.jobs {
		if !r.asked(u, scope) || r.Awaited || r.Tries > 1 {
			continue
		}
		setBack := r.Checked.After(now) // the clock was set back
		stale, first := r.Checked.Before(now.Add(-fresh)) || setBack, time.Time{}
		if setBack {
			r.Due = now
		} else if !stale {
			first = r.Checked.Add(max(fresh, gap))
			if r.Polls > 0 || !r.Due.After(first) {
				continue
			}
			r.Due = first
		} else if soonest := latest(now, r.Checked.Add(gap)); soonest.Before(r.Due) {
			r.Due = soonest
		}
		r.Awaited = stale
		if due, known := plan[r.Account]; !known || first.Before(due) {
			plan[r.Account] = first
		}
	}
	for _, a := range slices.Sorted(maps.Keys(plan)) {
		acc, due := s.of(a), plan[a]
		switch {
		case !due.IsZero():
			if acc.until.After(now) || acc.due.IsZero() || acc.due.After(due) {
				s.wake(a, due)
			}
		case !acc.comes(now):
			s.wake(a, now)
			accounts = append(accounts, a)
		}
	}
	return accounts, nil
}

// comes reports whether the account's next reading happens without a wake.
func (a *account) comes(now time.Time) bool {
	booked := a.booked[dispatch.Reading]
	return !a.until.After(now) && booked.After(now) && !a.due.IsZero() && !a.due.After(booked) &&
		!a.due.After(now.Add(time.Minute))
}

// asked reports whether the scope of an owner's request includes a job.
func (r *row) asked(u dispatch.UserID, scope dispatch.Scope) bool {
	return scope.Contains(r.Job) && r.Owner == u && !r.Hidden && r.Phase == dispatch.Started
}

func (s *MemStore) AnyAwaited(_ context.Context, u dispatch.UserID, scope dispatch.Scope) (bool, error) {
	_, unlock := s.lock()
	defer unlock()
	return slices.ContainsFunc(s.jobs, func(r *row) bool { return r.Awaited && r.asked(u, scope) }), nil
}
