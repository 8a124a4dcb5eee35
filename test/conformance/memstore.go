package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/dispatch"
)

// MemStore is a [dispatch.Store] in memory: fast, and the model against which the SQL stores are compared.
type MemStore struct {
	clock dispatch.Clock

	mu       sync.Mutex
	lastJob  dispatch.JobID
	lastTask dispatch.TaskID
	jobs     []*row // by id
	tasks    map[dispatch.TaskID]dispatch.Task
	keys     map[ownKey]*usedKey
	accounts map[dispatch.Account]*account
	tables   map[string]*dispatch.Timetable // by platform
	defined  map[owned]*definition
	runs     []*syncRun                   // synchronous, by id
	heard    map[string]dispatch.Standing // of platforms
	found    map[found]dispatch.Unrecognized
	served   map[string]time.Time // when a process last noted that it serves a platform
}

// owned identifies a task, or a job without one.
type owned struct {
	task dispatch.TaskID
	job  dispatch.JobID
}

// definition is the document that a task or job was accepted with.
type definition struct {
	owner dispatch.UserID
	dispatch.Document
	told string // hash of the current document of its origin, if that has changed
}

type row struct {
	dispatch.Job
	body, result []byte
}

type ownKey struct {
	owner dispatch.UserID
	text  string
}

type usedKey struct {
	fingerprint string
	first       dispatch.Repeated
	at          time.Time
}

type account struct {
	generation       int64
	until, due, hold time.Time
	since            time.Time // when it began to wait for its user
	wakes            int64
	why              dispatch.Attention
	notice           string
	booked           [2]time.Time // per purpose
	restored         dispatch.Restored
	served           int64 // number of slots given to its jobs
	lapses           int   // number of expired leases
	lapsed           time.Time
	turns            map[dispatch.Line]int64
	owners           map[dispatch.UserID]int64
}

var _ dispatch.Store = (*MemStore)(nil)

// NewMemStore returns an empty store that uses the time of c.
func NewMemStore(c dispatch.Clock) *MemStore {
	return &MemStore{
		clock: c, tasks: map[dispatch.TaskID]dispatch.Task{}, keys: map[ownKey]*usedKey{},
		accounts: map[dispatch.Account]*account{}, tables: map[string]*dispatch.Timetable{},
		defined: map[owned]*definition{}, heard: map[string]dispatch.Standing{}, served: map[string]time.Time{},
	}
}

// lock locks the store and returns the time and the function to unlock.
func (s *MemStore) lock() (now time.Time, unlock func()) {
	s.mu.Lock()
	return micros(s.clock.Now()), s.mu.Unlock
}

func micros(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Round(0).Truncate(time.Microsecond)
}

// of returns an account's row, and creates it if there is none.
func (s *MemStore) of(a dispatch.Account) *account {
	if s.accounts[a] == nil {
		s.accounts[a] = &account{}
	}
	return s.accounts[a]
}

// wake wakes an account. One that is already due keeps its place in the queue.
func (s *MemStore) wake(a dispatch.Account, now time.Time) {
	acc := s.of(a)
	acc.wakes++
	if acc.due.IsZero() || acc.due.After(now) {
		acc.due = now
	}
}

func notFound() error {
	return &dispatch.Error{Kind: dispatch.NotFound, Op: "conformance.MemStore", Text: "There is no such job."}
}

func conflict() error {
	return &dispatch.Error{Kind: dispatch.Conflict, Op: "conformance.MemStore", Text: "The record was changed by another request."}
}

func (s *MemStore) find(id dispatch.JobID) (*row, error) {
	for _, r := range s.jobs {
		if r.ID == id {
			return r, nil
		}
	}
	return nil, notFound()
}

// owned returns a job of its owner, even if it is hidden.
func (s *MemStore) owned(u dispatch.UserID, id dispatch.JobID) (*row, error) {
	r, err := s.find(id)
	if err == nil && r.Owner != u {
		return nil, notFound()
	}
	return r, err
}

// visible returns a job of its owner unless it is hidden.
func (s *MemStore) visible(u dispatch.UserID, id dispatch.JobID) (*row, error) {
	r, err := s.owned(u, id)
	if err == nil && r.Hidden {
		return nil, notFound()
	}
	return r, err
}

func (r *row) job() dispatch.Job {
	j := r.Job
	j.Strays, j.Past = slices.Clone(j.Strays), slices.Clone(j.Past)
	return j
}

func (s *MemStore) Accept(_ context.Context, k dispatch.Key, t *dispatch.Task, jobs []dispatch.Draft, within ...dispatch.Quota) (dispatch.Repeated, error) {
	now, unlock := s.lock()
	defer unlock()
	if err := acceptable(jobs); err != nil {
		return dispatch.Repeated{}, err
	}
	task, first := s.number(t, len(jobs))
	owner := jobs[0].Owner
	if r, err := s.used(k, owner, now); err != nil || r != (dispatch.Repeated{}) {
		return r, err
	}
	var bytes int64
	if t != nil {
		bytes = sizeOf(t.Request)
	}
	for _, j := range jobs {
		bytes += int64(len(j.Body))
	}
	if err := s.admit(owner, len(jobs), bytes, within, now); err != nil {
		return dispatch.Repeated{}, err
	}
	s.use(k, owner, task, first, now)
	if t != nil {
		t.ID, t.Created, t.Updated = task, now, now
		s.define(owned{task: task}, t.Owner, t.Document)
		kept := *t
		kept.Document = nil
		s.tasks[t.ID] = kept
	}
	for i := range jobs {
		j := &jobs[i].Job
		j.ID, j.Task, j.Version = first+dispatch.JobID(i), task, 1
		j.Due, j.Created, j.Updated, j.Moved = now, now, now, now
		s.jobs = append(s.jobs, &row{Job: *j, body: slices.Clone(jobs[i].Body)})
		if t == nil {
			s.define(owned{job: j.ID}, j.Owner, jobs[i].Document)
		}
	}
	s.wake(jobs[0].Account, now)
	return dispatch.Repeated{}, nil
}

func acceptable(jobs []dispatch.Draft) error {
	if len(jobs) == 0 {
		return &dispatch.Error{Kind: dispatch.Invalid, Op: "conformance.Accept", Text: "The task has no values."}
	}
	for _, j := range jobs {
		if j.Account != jobs[0].Account {
			return &dispatch.Error{Kind: dispatch.Internal, Op: "conformance.Accept", Err: fmt.Errorf("jobs of two accounts")}
		}
		if !utf8.Valid(j.Body) || bytes.IndexByte(j.Body, 0) >= 0 {
			return &dispatch.Error{Kind: dispatch.Invalid, Op: "conformance.Accept", Text: "A text is not valid UTF-8, or holds a NUL character."}
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

func (s *MemStore) Repeated(_ context.Context, u dispatch.UserID, k dispatch.Key) (dispatch.Repeated, error) {
	now, unlock := s.lock()
	defer unlock()
	return s.used(k, u, now)
}

// used returns what a key stands for.
func (s *MemStore) used(k dispatch.Key, u dispatch.UserID, now time.Time) (r dispatch.Repeated, err error) {
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
	first := dispatch.Repeated{Task: task}
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

func (s *MemStore) Refused(_ context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	now, unlock := s.lock()
	defer unlock()
	r, err := s.owned(u, id)
	if err != nil {
		return dispatch.Record{}, err
	}
	return s.record(r, now)
}

// record returns a job with the reason why its account submits nothing, if the job was not started.
func (s *MemStore) record(r *row, now time.Time) (dispatch.Record, error) {
	j := r.job()
	if acc := s.of(j.Account); j.Phase.Inert() && acc.hold.After(now) {
		j.Attention, j.Notice = acc.why, acc.notice
	}
	if d := s.defined[definedBy(j)]; d != nil && d.told != "" && j.Phase == dispatch.Waiting && j.Attention == dispatch.None {
		j.Attention = dispatch.ServiceChanged
	}
	request, err := s.request(r)
	return dispatch.Record{Job: j, Request: request, Read: now}, err
}

func (s *MemStore) request(r *row) (q dispatch.Request, err error) {
	if r.Task != 0 {
		return s.tasks[r.Task].For(r.Number, r.body)
	}
	return q, json.Unmarshal(r.body, &q)
}

func (s *MemStore) Records(_ context.Context, u dispatch.UserID, p dispatch.Page) ([]dispatch.Record, error) {
	now, unlock := s.lock()
	defer unlock()
	records := []dispatch.Record{}
	for _, r := range s.jobs {
		if r.Owner != u || r.Task != 0 || r.Hidden || !r.fits(p) || !p.After.Before(r.Created, int64(r.ID)) {
			continue
		}
		record, err := s.record(r, now)
		if err != nil {
			return nil, err
		}
		records = append(records, s.bounded(record, r, p))
	}
	slices.SortFunc(records, func(a, b dispatch.Record) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID))
	})
	return limited(records, p), nil
}

// bounded removes from a record what a page does not read.
func (s *MemStore) bounded(record dispatch.Record, r *row, p dispatch.Page) dispatch.Record {
	if p.Most == 0 {
		return record
	}
	record.Size, record.Cut = len(r.body), len(r.body) > p.Most
	switch {
	case r.Task != 0:
		t := s.tasks[r.Task]
		t.Request = head(t.Request, p)
		if record.Request = t.HeadFor(r.Number); !record.Cut {
			record.Value = r.body
		}
	case record.Cut:
		record.Request = dispatch.HeadOf(cut(string(r.body), p))
	}
	return record
}

// head returns the part of a task's request that a page reads.
func head(r dispatch.Request, p dispatch.Page) dispatch.Request {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(r) // cannot fail: it was decoded before
	if body := strings.TrimSuffix(text.String(), "\n"); p.Most != 0 && len(body) > p.Most {
		return dispatch.HeadOf(cut(body, p))
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

func (s *MemStore) Result(_ context.Context, u dispatch.UserID, id dispatch.JobID) ([]byte, error) {
	_, unlock := s.lock()
	defer unlock()
	r, err := s.visible(u, id)
	if err != nil {
		return nil, err
	}
	return r.result, nil
}

func (s *MemStore) define(o owned, u dispatch.UserID, d *dispatch.Document) {
	if d != nil {
		s.defined[o] = &definition{owner: u, Document: *d}
	}
}

// definedBy returns the job or task that a job's document is stored for.
func definedBy(j dispatch.Job) owned {
	if j.Task != 0 {
		return owned{task: j.Task}
	}
	return owned{job: j.ID}
}

func (s *MemStore) Document(_ context.Context, u dispatch.UserID, id dispatch.JobID) ([]byte, error) {
	_, unlock := s.lock()
	defer unlock()
	r, err := s.visible(u, id)
	if err != nil || s.defined[definedBy(r.Job)] == nil {
		return nil, err
	}
	return s.defined[definedBy(r.Job)].Body, nil
}

// waiting returns the definitions of waiting jobs.
func (s *MemStore) waiting() map[owned]*definition {
	all := map[owned]*definition{}
	for _, r := range s.jobs {
		if d := s.defined[definedBy(r.Job)]; d != nil && r.Phase == dispatch.Waiting && r.Status == dispatch.Accepted && !r.Hidden {
			all[definedBy(r.Job)] = d
		}
	}
	return all
}

func (s *MemStore) Origins(context.Context) (origins []dispatch.Origin, err error) {
	_, unlock := s.lock()
	defer unlock()
	for _, d := range s.waiting() {
		if !slices.ContainsFunc(origins, func(o dispatch.Origin) bool { return sameOrigin(o, d.Origin) }) {
			origins = append(origins, d.Origin)
		}
	}
	return origins, nil
}

func sameOrigin(a, b dispatch.Origin) bool { return reflect.DeepEqual(a, b) }

func (s *MemStore) Redefine(_ context.Context, o dispatch.Origin, hash string) (owners []dispatch.UserID, err error) {
	_, unlock := s.lock()
	defer unlock()
	for _, d := range s.waiting() {
		told := hash
		if d.Hash() == hash {
			told = ""
		}
		if sameOrigin(d.Origin, o) && d.told != told {
			d.told = told
			owners = append(owners, d.owner)
		}
	}
	return owners, nil
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
		r.Phase, r.Status, r.Turn, r.Moved, r.Updated = dispatch.Ended, dispatch.Canceled, r.Turn+1, now, now
		r.Attention, r.Notice = dispatch.None, ""
	}
	return true
}

func (s *MemStore) Await(_ context.Context, u dispatch.UserID, scope dispatch.Scope, fresh, gap time.Duration) (accounts []dispatch.Account, err error) {
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
			if r.Looks > 0 || !r.Due.After(first) {
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
	return !a.until.After(now) && booked.After(now) && !a.due.IsZero() && !a.due.After(booked) && !a.due.After(now.Add(time.Minute))
}

// asked reports whether the scope of an owner's request includes a job.
func (r *row) asked(u dispatch.UserID, scope dispatch.Scope) bool {
	return scope.Holds(r.Job) && r.Owner == u && !r.Hidden && r.Phase == dispatch.Started
}

func (s *MemStore) Awaited(_ context.Context, u dispatch.UserID, scope dispatch.Scope) (bool, error) {
	_, unlock := s.lock()
	defer unlock()
	return slices.ContainsFunc(s.jobs, func(r *row) bool { return r.Awaited && r.asked(u, scope) }), nil
}

// task returns a task of its owner.
func (s *MemStore) task(u dispatch.UserID, id dispatch.TaskID) (dispatch.Task, error) {
	t, known := s.tasks[id]
	if !known || t.Owner != u || t.Hidden {
		return t, notFound()
	}
	return t, nil
}

func (s *MemStore) Tasks(_ context.Context, u dispatch.UserID, p dispatch.Page) ([]dispatch.TaskRecord, error) {
	_, unlock := s.lock()
	defer unlock()
	records := []dispatch.TaskRecord{}
	for id := range s.tasks {
		if t, err := s.task(u, id); err == nil && s.wanted(t, p) {
			record := s.counted(t)
			record.Request = head(record.Request, p)
			records = append(records, record)
		}
	}
	slices.SortFunc(records, func(a, b dispatch.TaskRecord) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID))
	})
	return limited(records, p), nil
}

// wanted reports whether a page selects a task.
func (s *MemStore) wanted(t dispatch.Task, p dispatch.Page) bool {
	changed := slices.ContainsFunc(s.jobs, func(r *row) bool { return r.Task == t.ID && !r.Hidden && r.Updated.After(p.Since) })
	return p.After.Before(t.Created, int64(t.ID)) && (p.Since.IsZero() || changed) &&
		(len(p.Statuses) == 0 || slices.Contains(p.Statuses, s.counted(t).Counts.Status())) &&
		(len(p.Accounts) == 0 || slices.Contains(p.Accounts, t.Account))
}

func (s *MemStore) Task(_ context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	_, unlock := s.lock()
	defer unlock()
	t, err := s.task(u, id)
	if err != nil {
		return dispatch.TaskRecord{}, err
	}
	return s.counted(t), nil
}

func (s *MemStore) counted(t dispatch.Task) dispatch.TaskRecord {
	counts, live := dispatch.Counts{}, 0.0
	var attentions []dispatch.Attention
	for _, r := range s.jobs {
		if r.Task != t.ID || r.Hidden {
			continue
		}
		attentions = append(attentions, r.Attention)
		counts[r.Status]++
		t.Updated = latest(t.Updated, r.Updated)
		if !r.Status.Final() && r.Progress != nil {
			live += *r.Progress
		}
	}
	r := dispatch.TaskRecord{Task: t, Counts: counts, Progress: counts.Progress(live)}
	if d := s.defined[owned{task: t.ID}]; d != nil && d.told != "" {
		r.Attention = dispatch.ServiceChanged
	}
	r.Attention = dispatch.Foremost(append(attentions, r.Attention)...)
	return r
}

func (s *MemStore) TaskJobs(_ context.Context, u dispatch.UserID, id dispatch.TaskID, p dispatch.Page) (records []dispatch.Record, err error) {
	now, unlock := s.lock()
	defer unlock()
	if _, err := s.task(u, id); err != nil {
		return nil, err
	}
	for _, r := range s.jobs { // ordered by id, and so by number
		if r.Task != id || r.Hidden || !r.fits(p) || int64(r.Number) <= p.After.ID {
			continue
		}
		record, err := s.record(r, now)
		if err != nil {
			return nil, err
		}
		records = append(records, s.bounded(record, r, p))
	}
	return limited(records, p), nil
}

func (s *MemStore) CancelTask(_ context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.Account, error) {
	now, unlock := s.lock()
	defer unlock()
	t, err := s.task(u, id)
	if err != nil {
		return "", err
	}
	kept := s.tasks[id]
	kept.Hidden = true
	s.tasks[id] = kept
	for _, r := range s.jobs {
		if r.Task == id && !r.Hidden {
			r.cancel(now)
			r.Hidden = true
		}
	}
	s.wake(t.Account, now)
	return t.Account, nil
}

func (s *MemStore) RetryTask(_ context.Context, u dispatch.UserID, id dispatch.TaskID, within ...dispatch.Quota) (dispatch.Account, int, error) {
	now, unlock := s.lock()
	defer unlock()
	t, err := s.task(u, id)
	if err != nil {
		return "", 0, err
	}
	var failed []*row
	for _, r := range s.jobs {
		if r.Task == id && r.Retryable() {
			failed = append(failed, r)
		}
	}
	if err := s.admit(u, len(failed), s.bytesAgain(u, failed, now), within, now); err != nil {
		return "", 0, err
	}
	for _, r := range failed {
		r.Job = r.Retry(now)
		r.Version++
	}
	if len(failed) > 0 {
		s.wake(t.Account, now)
	}
	return t.Account, len(failed), nil
}

// admit returns nil if an owner may have n more jobs with requests of so many bytes.
func (s *MemStore) admit(u dispatch.UserID, n int, bytes int64, within []dispatch.Quota, now time.Time) error {
	for _, q := range within {
		live, lately := 0, 0
		for _, r := range s.jobs {
			if r.Owner != u || q.Account != "" && r.Account != q.Account {
				continue
			}
			if r.Phase != dispatch.Ended && live < q.Live {
				live++
			}
			if r.Created.After(now.Add(-dispatch.Day)) && lately < q.Daily {
				lately++
			}
		}
		running, begun := s.countRuns(u, q, now)
		has := dispatch.Holding{Live: live + running, Lately: lately + begun, Bytes: s.bytes(u, now)}
		if err := q.Admit(has, n, bytes); err != nil {
			return err
		}
	}
	return nil
}

func (s *MemStore) Usage(_ context.Context, u dispatch.UserID, d time.Duration) (all []dispatch.Usage, err error) {
	now, unlock := s.lock()
	defer unlock()
	by := map[dispatch.Account]*dispatch.Usage{}
	for _, r := range s.jobs {
		if r.Owner != u {
			continue
		}
		if by[r.Account] == nil {
			by[r.Account] = &dispatch.Usage{Account: r.Account}
		}
		use := by[r.Account]
		use.Jobs++
		if r.Phase != dispatch.Ended {
			use.Live++
		}
		if r.Created.After(now.Add(-d)) {
			use.Lately++
		}
		if r.Costs != nil {
			if use.Costs == nil {
				use.Costs = new(float64)
			}
			*use.Costs += *r.Costs
		}
	}
	s.addRuns(by, u, now, d)
	for _, a := range slices.Sorted(maps.Keys(by)) {
		all = append(all, *by[a])
	}
	return all, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *MemStore) Dequeue(ctx context.Context, room dispatch.Room, ttl time.Duration) (leases []dispatch.Lease, wait time.Duration, err error) {
	if err := ctx.Err(); err != nil { // the leases would have no holder
		return nil, 0, &dispatch.Error{Kind: dispatch.Unavailable, Op: "conformance.Dequeue", Err: err}
	}
	now, unlock := s.lock()
	defer unlock()
	wait = time.Hour
	given := map[string]int{}
	for _, name := range s.byPlatform(s.queue(), now) {
		acc := s.accounts[name]
		n, counted := s.roomFor(room, name.Platform(), now)
		switch {
		case acc.until.After(now):
			wait = min(wait, acc.until.Sub(now))
		case acc.due.After(now):
			wait = min(wait, acc.due.Sub(now))
		case n <= 0:
		case given[counted] == n:
			wait = 0
		default:
			given[counted]++
			acc.generation++
			acc.countLapse(now)
			acc.until = now.Add(ttl)
			leases = append(leases, dispatch.Lease{Account: name, Generation: acc.generation, Lapses: acc.lapses})
		}
	}
	return leases, wait, nil
}

// countLapse records at a Dequeue whether the last lease expired.
func (a *account) countLapse(now time.Time) {
	if !a.lapsed.After(now.Add(-dispatch.LapsesCount)) {
		a.lapses = 0
	}
	if !a.until.IsZero() {
		a.lapses, a.lapsed = a.lapses+1, now
	}
}

// byPlatform orders a queue by platform, beginning with the platform of the longest-due account.
func (s *MemStore) byPlatform(queue []dispatch.Account, now time.Time) []dispatch.Account {
	first := map[string]time.Time{}
	for _, name := range slices.Backward(queue) {
		if acc := s.accounts[name]; !acc.until.After(now) {
			first[name.Platform()] = acc.due
		}
	}
	slices.SortStableFunc(queue, func(a, b dispatch.Account) int {
		return cmp.Or(first[a.Platform()].Compare(first[b.Platform()]), cmp.Compare(a.Platform(), b.Platform()))
	})
	return queue
}

// roomFor returns how many accounts of a platform may be leased, and under which name they are counted.
func (s *MemStore) roomFor(room dispatch.Room, platform string, now time.Time) (n int, counted string) {
	if n, known := room.Platforms[platform]; known {
		return n, platform
	}
	if seen, noted := s.served[platform]; noted && seen.After(now.Add(-room.Unserved)) {
		return 0, ""
	}
	return room.Others, ""
}

func (s *MemStore) Serve(_ context.Context, platforms []string) error {
	now, unlock := s.lock()
	defer unlock()
	s.follow(now)
	for _, platform := range platforms {
		s.served[platform] = now
	}
	return nil
}

// follow moves planned times if the clock was set back since a process last served.
func (s *MemStore) follow(now time.Time) {
	var last time.Time
	for _, seen := range s.served {
		last = latest(last, seen)
	}
	soon, back := now.Add(dispatch.ClockJump), last.Sub(now)
	if !last.After(soon) {
		return
	}
	move := func(t *time.Time) {
		if t.After(soon) {
			*t = t.Add(-back)
		}
	}
	for platform := range s.served {
		if s.served[platform].After(now) {
			s.served[platform] = now
		}
	}
	for _, r := range s.jobs {
		if r.Due.After(soon) {
			move(&r.SendBy)
			move(&r.Due)
		}
	}
	for _, acc := range s.accounts {
		move(&acc.due)
		move(&acc.hold)
	}
}

// queue returns the accounts that have a planned visit, ordered by due time.
func (s *MemStore) queue() (names []dispatch.Account) {
	for name, acc := range s.accounts {
		if !acc.due.IsZero() {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b dispatch.Account) int {
		return cmp.Or(s.accounts[a].due.Compare(s.accounts[b].due), strings.Compare(string(a), string(b)))
	})
	return names
}

func (s *MemStore) Renew(_ context.Context, l dispatch.Lease, ttl time.Duration) error {
	now, unlock := s.lock()
	defer unlock()
	return s.renew(l, now.Add(ttl))
}

func (s *MemStore) renew(l dispatch.Lease, until time.Time) error {
	acc := s.of(l.Account)
	if acc.generation != l.Generation {
		return conflict()
	}
	acc.until = until
	return nil
}

func (s *MemStore) Release(_ context.Context, l dispatch.Lease, wakes int64, due time.Time) error {
	now, unlock := s.lock()
	defer unlock()
	acc := s.of(l.Account)
	if acc.generation != l.Generation {
		return conflict()
	}
	if acc.wakes != wakes {
		due = now
	}
	acc.generation++
	acc.until, acc.due = time.Time{}, micros(due)
	return nil
}

func (s *MemStore) Wake(_ context.Context, a dispatch.Account) error {
	now, unlock := s.lock()
	defer unlock()
	s.wake(a, now)
	return nil
}

func (s *MemStore) Load(_ context.Context, id dispatch.JobID) (dispatch.Job, error) {
	_, unlock := s.lock()
	defer unlock()
	r, err := s.find(id)
	if err != nil {
		return dispatch.Job{}, err
	}
	return r.job(), nil
}

func (s *MemStore) Request(_ context.Context, id dispatch.JobID) (dispatch.Request, error) {
	_, unlock := s.lock()
	defer unlock()
	r, err := s.find(id)
	if err != nil {
		return dispatch.Request{}, err
	}
	return s.request(r)
}

func (s *MemStore) Intend(_ context.Context, l dispatch.Lease, limits dispatch.Limits, jobs []dispatch.Job) (kept []dispatch.Job, err error) {
	now, unlock := s.lock()
	defer unlock()
	if err := s.renew(l, now.Add(limits.Lease())); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if r, err := s.find(j.ID); err != nil || r.Desired != dispatch.WantRun {
			continue
		}
		waited := j.Phase == dispatch.Waiting
		if j, ok := s.write(j.Intend(now.Add(limits.Send))); ok {
			kept = append(kept, j)
			if waited {
				s.of(l.Account).serve(j)
			}
		}
	}
	return kept, nil
}

// serve records that a job got a slot.
func (a *account) serve(j dispatch.Job) {
	if a.turns == nil {
		a.turns, a.owners = map[dispatch.Line]int64{}, map[dispatch.UserID]int64{}
	}
	a.served++
	a.turns[dispatch.Line{Owner: j.Owner, Task: j.Task}] = a.served
	a.owners[j.Owner] = a.served
}

// forgetTurns deletes the turns of those who were served before all who wait.
func (s *MemStore) forgetTurns() {
	for name, a := range s.accounts {
		least := a.served + 1
		for _, l := range s.lines(name, func(dispatch.Job) bool { return true }) {
			least = min(least, l.Served)
		}
		maps.DeleteFunc(a.turns, func(_ dispatch.Line, served int64) bool { return served < least })
		maps.DeleteFunc(a.owners, func(_ dispatch.UserID, served int64) bool { return served < least })
	}
}

// write replaces what visits may write, if the version matches.
func (s *MemStore) write(j dispatch.Job) (dispatch.Job, bool) {
	r, err := s.find(j.ID)
	if err != nil || r.Version != j.Version {
		return j, false
	}
	if j.Result != nil {
		r.result = slices.Clone(j.Result)
	}
	j.MaxDuration, j.Duration = r.MaxDuration, j.Duration.Truncate(time.Microsecond)
	j.Unmoved = j.Unmoved.Truncate(time.Microsecond)
	j.Desired, j.Hidden, j.Version, j.Result = r.Desired, r.Hidden, r.Version+1, nil
	for _, t := range []*time.Time{&j.Due, &j.SendBy, &j.Refused, &j.Deadline, &j.Updated, &j.Checked, &j.Moved} {
		*t = micros(*t)
	}
	r.Job = j
	return r.job(), true
}

func (s *MemStore) Save(_ context.Context, jobs []dispatch.Job, wake ...dispatch.Account) (saved []dispatch.Job, err error) {
	now, unlock := s.lock()
	defer unlock()
	for _, j := range jobs {
		if j, ok := s.write(j); ok {
			saved = append(saved, j)
		}
	}
	for _, a := range wake {
		if len(saved) > 0 {
			s.wake(a, now)
		}
	}
	return saved, nil
}

func (s *MemStore) Hold(_ context.Context, a dispatch.Account, d time.Duration, why dispatch.Attention, notice string) error {
	now, unlock := s.lock()
	defer unlock()
	acc := s.of(a)
	if d <= 0 {
		acc.hold, acc.since, acc.why, acc.notice = time.Time{}, time.Time{}, dispatch.None, ""
		s.wake(a, now)
		return nil
	}
	switch {
	case why != dispatch.NeedsSignIn:
		acc.since = time.Time{}
	case acc.since.IsZero(), !acc.hold.After(now.Add(-24 * time.Hour)):
		acc.since = now
	}
	acc.hold, acc.why, acc.notice = now.Add(d.Truncate(time.Microsecond)), why, notice
	return nil
}

func (s *MemStore) GiveUp(_ context.Context, a dispatch.Account, patience time.Duration, failure string) (given []dispatch.Job, err error) {
	now, unlock := s.lock()
	defer unlock()
	if acc := s.of(a); acc.since.IsZero() || acc.since.After(now.Add(-patience)) {
		return nil, nil
	}
	for id, r := range s.jobs {
		if r.Account != a || !r.Phase.Inert() || r.Desired != dispatch.WantRun {
			continue
		}
		j := &r.Job
		j.Phase, j.Status, j.Attention, j.Notice, j.Failure = dispatch.Ended, dispatch.Failed, dispatch.NeedsSignIn, "", failure
		j.Awaited, j.Moved, j.Updated = false, now, now
		j.Turn++
		j.Version++
		s.jobs[id] = r
		given = append(given, *j)
	}
	return given, nil
}

func (s *MemStore) Take(_ context.Context, a dispatch.Ask) (dispatch.Served, error) {
	now, unlock := s.lock()
	defer unlock()
	platform := a.Account.Platform()
	if s.tables[platform] == nil {
		s.tables[platform] = &dispatch.Timetable{}
	}
	booked := new(time.Time)
	if acc := s.accounts[a.Account]; acc != nil && a.Purpose != dispatch.Calling {
		booked = &acc.booked[a.Purpose]
	}
	served, anew := s.tables[platform].Serve(a, booked, now)
	if is := *booked; anew {
		for name, acc := range s.accounts {
			if name.Platform() == platform {
				acc.booked = [2]time.Time{}
			}
		}
		*booked = is
	}
	return served, nil
}

func (s *MemStore) Answered(_ context.Context, platform, failure string) error {
	now, unlock := s.lock()
	defer unlock()
	heard := s.heard[platform]
	if failure == "" {
		heard.Answered = now
	} else {
		heard.Failed, heard.Failure = now, strings.ReplaceAll(failure, "\x00", "\uFFFD")
	}
	s.heard[platform] = heard
	return nil
}

func (s *MemStore) NoteStarts(_ context.Context, platform string, seen dispatch.StartsSeen) error {
	_, unlock := s.lock()
	defer unlock()
	heard := s.heard[platform]
	if seen.Lagged {
		heard.Starts.Starts = 0
	}
	heard.Starts.Starts += seen.Prompt
	heard.Starts.Lag = max(heard.Starts.Lag, seen.Lag.Truncate(time.Microsecond))
	s.heard[platform] = heard
	return nil
}

func (s *MemStore) Standings(_ context.Context, u dispatch.UserID, accounts []dispatch.Account, stalled map[dispatch.Account]time.Duration) (all []dispatch.Standing, err error) {
	now, unlock := s.lock()
	defer unlock()
	for _, a := range accounts {
		heard := s.heard[a.Platform()]
		is := dispatch.Standing{Account: a, Answered: heard.Answered, Failed: heard.Failed, Failure: heard.Failure, Starts: heard.Starts}
		if acc := s.accounts[a]; acc != nil && acc.hold.After(now) {
			is.Hold, is.Why, is.Notice = acc.hold, acc.why, acc.notice
		}
		for _, r := range s.jobs {
			is = s.stands(is, u, r.Job, now, stalled[a])
		}
		live, lately := s.countRuns(u, dispatch.Quota{Account: a, Live: math.MaxInt, Daily: math.MaxInt}, now)
		is.Live, is.Lately = is.Live+live, is.Lately+lately
		if a == "" {
			is.Bytes = s.bytes(u, now)
		}
		all = append(all, is)
	}
	return all, nil
}

// stands adds a job to a standing.
func (s *MemStore) stands(is dispatch.Standing, u dispatch.UserID, j dispatch.Job, now time.Time, stalled time.Duration) dispatch.Standing {
	if j.Phase == dispatch.Waiting && j.Account.Platform() == is.Account.Platform() {
		is.Queue++
	}
	here := j.Account == is.Account
	if here && j.Phase.Holds() && !j.FreesSlot(stalled, now) {
		is.Held++
	}
	if j.Owner != u || !here && is.Account != "" {
		return is
	}
	if j.Phase != dispatch.Ended {
		is.Live++
	}
	if j.Created.After(now.Add(-dispatch.Day)) {
		is.Lately++
	}
	switch {
	case !here:
	case j.Phase == dispatch.Waiting:
		is.Waiting++
	case j.Phase.Holds():
		is.Active++
	}
	return is
}

func (s *MemStore) Installation(context.Context) (string, error) { return "memory", nil }

func (s *MemStore) Purge(_ context.Context, keep time.Duration) error {
	now, unlock := s.lock()
	defer unlock()
	s.jobs = slices.DeleteFunc(s.jobs, func(r *row) bool {
		return r.Hidden && r.Phase == dispatch.Ended && len(r.Strays) == 0 && r.Moved.Before(now.Add(-keep))
	})
	for id, t := range s.tasks {
		if t.Hidden && !slices.ContainsFunc(s.jobs, func(r *row) bool { return r.Task == id }) {
			delete(s.tasks, id)
		}
	}
	s.runs = slices.DeleteFunc(s.runs, func(r *syncRun) bool {
		old := now.Add(-dispatch.SyncRunLife)
		return r.Created.Before(old) && r.lapses.Before(old)
	})
	for k, used := range s.keys {
		if now.Sub(used.at) >= dispatch.KeyLife {
			delete(s.keys, k)
		}
	}
	s.forgetTurns()
	return nil
}

func (s *MemStore) Ping(context.Context) error { return nil }

func (s *MemStore) Agenda(_ context.Context, a dispatch.Account, n int, stalled time.Duration) (dispatch.Agenda, error) {
	now, unlock := s.lock()
	defer unlock()
	acc := s.accounts[a]
	if acc == nil {
		return dispatch.Agenda{}, notFound()
	}
	g := dispatch.Agenda{Now: now, Wakes: acc.wakes, Hold: acc.hold, Why: acc.why, Starts: s.heard[a.Platform()].Starts, Restored: acc.restored}
	for _, j := range s.byDue(a) {
		if j.Phase.Holds() && !j.FreesSlot(stalled, now) {
			g.Held++
		}
		if j.Phase == dispatch.Started {
			g.Active++
		}
		enter(&g, j)
	}
	for _, list := range []*[]dispatch.Job{&g.Cancel, &g.Settle, &g.Start, &g.Learn} {
		*list = (*list)[:min(n, len(*list))]
	}
	g.Lines = s.lines(a, func(j dispatch.Job) bool { return !j.Due.After(now) })
	for i := range g.Lines {
		g.Lines[i].Waiting = 0
	}
	return g, nil
}

// byDue returns an account's jobs ordered by due time and id.
func (s *MemStore) byDue(a dispatch.Account) (jobs []dispatch.Job) {
	for _, r := range s.jobs {
		if r.Account == a {
			jobs = append(jobs, r.job())
		}
	}
	slices.SortFunc(jobs, func(a, b dispatch.Job) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID)) })
	return jobs
}

// enter adds j to its list of the agenda. Jobs must come ordered by due time.
func enter(g *dispatch.Agenda, j dispatch.Job) {
	strays, canceled := len(j.Strays) > 0, j.Desired == dispatch.WantCancel
	next, list := &g.NextLearn, &g.Learn
	switch {
	case strays, canceled && j.Phase.Holds() && j.Phase != dispatch.Creating:
		next, list = &g.Next, &g.Cancel
	case j.Phase == dispatch.Waiting:
		next, list = &g.NextWaiting, nil
		if j.Attention == dispatch.ApplicationUnreachable && g.NextUnprepared.IsZero() {
			g.NextUnprepared = j.Due
		}
	case j.Phase == dispatch.Ended:
		return
	case j.Phase.InDoubt():
		next, list = &g.Next, &g.Settle
	case j.Phase == dispatch.Created:
		next, list = &g.NextStart, &g.Start
	}
	if next.IsZero() {
		*next = j.Due
	}
	if list != nil && !j.Due.After(g.Now) {
		*list = append(*list, j)
	}
}

// lines returns the lines of an account that have wanted waiting jobs.
func (s *MemStore) lines(a dispatch.Account, wanted func(dispatch.Job) bool) (lines []dispatch.Line) {
	byLine, byOwner, waiting := map[dispatch.Line]int{}, map[dispatch.UserID]int{}, map[dispatch.Line][]dispatch.Job{}
	for _, j := range s.byDue(a) {
		line := dispatch.Line{Owner: j.Owner, Task: j.Task}
		if j.Phase.Holds() {
			byLine[line]++
			byOwner[j.Owner]++
		}
		if j.Phase == dispatch.Waiting && wanted(j) {
			waiting[line] = append(waiting[line], j)
		}
	}
	acc := s.of(a)
	for of, jobs := range waiting {
		l := of
		l.Held, l.OwnerHeld, l.Waiting, l.First, l.Due = byLine[of], byOwner[of.Owner], len(jobs), jobs[0].ID, jobs[0].Due
		l.Served, l.OwnerServed = acc.turns[of], acc.owners[of.Owner]
		lines = append(lines, l)
	}
	sortLines(lines)
	return lines
}

func (s *MemStore) Lines(_ context.Context, a dispatch.Account) ([]dispatch.Line, error) {
	_, unlock := s.lock()
	defer unlock()
	if s.accounts[a] == nil {
		return nil, nil
	}
	return s.lines(a, func(dispatch.Job) bool { return true }), nil
}

func (s *MemStore) Waiting(_ context.Context, a dispatch.Account, l dispatch.Line) (ids []dispatch.JobID, err error) {
	_, unlock := s.lock()
	defer unlock()
	for _, j := range s.byDue(a) {
		if j.Phase == dispatch.Waiting && j.Owner == l.Owner && j.Task == l.Task {
			ids = append(ids, j.ID)
		}
	}
	return ids, nil
}

func sortLines(lines []dispatch.Line) {
	slices.SortFunc(lines, func(a, b dispatch.Line) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Task, b.Task))
	})
}

func (s *MemStore) Ready(_ context.Context, a dispatch.Account, l dispatch.Line, n int) (jobs []dispatch.Job, err error) {
	now, unlock := s.lock()
	defer unlock()
	for _, j := range s.byDue(a) {
		if j.Owner == l.Owner && j.Task == l.Task && j.Phase == dispatch.Waiting && !j.Due.After(now) && len(jobs) < n {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

func (s *MemStore) Bases(_ context.Context, a dispatch.Account) ([]string, error) {
	_, unlock := s.lock()
	defer unlock()
	bases := map[string]bool{}
	for _, r := range s.jobs {
		if r.Account == a {
			bases[r.Base] = true
		}
	}
	return slices.Sorted(maps.Keys(bases)), nil
}

func (s *MemStore) Unprepared(_ context.Context, a dispatch.Account, n int) (jobs []dispatch.Job, err error) {
	now, unlock := s.lock()
	defer unlock()
	for _, j := range s.byDue(a) {
		if j.Phase == dispatch.Waiting && len(j.Strays) == 0 && j.Attention == dispatch.ApplicationUnreachable && !j.Due.After(now) && len(jobs) < n {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

func (s *MemStore) Listable(_ context.Context, a dispatch.Account, base string) (jobs []dispatch.Job, err error) {
	_, unlock := s.lock()
	defer unlock()
	for _, j := range s.byDue(a) {
		if j.Base == base && (j.Phase == dispatch.Creating || j.Phase == dispatch.Started) {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}
