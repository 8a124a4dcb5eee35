package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eodispatch/eodispatch/api/items"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/hub"
	"github.com/eodispatch/eodispatch/identity"
)

var (
	_ Broker   = (*broker.Broker)(nil)
	_ Verifier = (*identity.Verifier)(nil)
)

const (
	anna = dispatch.UserID("https://idp.example.org anna")
	bert = dispatch.UserID("https://idp.example.org bert")
)

var moment = time.Date(2026, 5, 1, 12, 30, 0, 0, time.FixedZone("", 2*3600))

// world is a broker, a verifier and a database in memory that fail on demand.
type world struct {
	Broker // nil: no test calls other methods

	mu        sync.Mutex
	jobs      map[dispatch.JobID]dispatch.Record
	results   map[dispatch.JobID]json.RawMessage
	lacks     map[dispatch.JobID]error // why a job has no results
	tasks     map[dispatch.TaskID]dispatch.TaskRecord
	platforms []broker.PlatformInfo // nil: one that is down

	policy    dispatch.Policy
	discarded int // jobs and tasks that were to be removed from their platforms

	budget *dispatch.Budget // with which a task was resumed last

	parameters map[string][]dispatch.Parameter // by application
	formats    []dispatch.OutputFormat
	logs       []dispatch.LogEntry
	document   []byte
	keys       []dispatch.Key
	fresh      time.Duration
	signed     []identity.Caller
	fail       error // what the broker answers
	panics     any
	down       error // what the database answers
	unsure     error // what the verifier answers to any token
	sync       func(context.Context, dispatch.Request) (*dispatch.SyncResult, error)
	log        syncBuffer

	expires  time.Time // of every token
	hub      hub.Hub
	watched  atomic.Int64 // how often
	seen     map[dispatch.UserID]map[string]seen
	numbers  map[dispatch.UserID]int64
	accounts []dispatch.AccountState
	anew     bool                 // the next reader of changes begins anew
	reads    int                  // of single jobs
	used     map[string]time.Time // names that are used once
	choices  []dispatch.Choice    // of jobs that were canceled or retried
}

func (w *world) useOnce(_ context.Context, name string, until time.Time) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return false, w.fail
	}
	if _, used := w.used[name]; used {
		return false, nil
	}
	if w.used == nil {
		w.used = map[string]time.Time{}
	}
	w.used[name] = until
	return true, nil
}

func newWorld() *world {
	return &world{jobs: map[dispatch.JobID]dispatch.Record{}, results: map[dispatch.JobID]json.RawMessage{},
		tasks: map[dispatch.TaskID]dispatch.TaskRecord{}}
}

func (w *world) config() Config {
	return Config{
		Broker: w, Verifier: w, Log: slog.New(slog.NewJSONHandler(&w.log,
			&slog.HandlerOptions{Level: slog.LevelDebug})),
		Health: func(context.Context) error { return w.down },
		OnRequest: func(_ context.Context, c identity.Caller) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.signed = append(w.signed, c)
		},
		Grants: w, AsUser: []string{"cdse"}, Linked: []string{"cdse"}, UseOnce: w.useOnce,
		Title: "Dispatch test", Version: "1.2.3",
	}
}

func (w *world) Verify(_ context.Context, token dispatch.Secret) (identity.Caller, error) {
	user := map[string]dispatch.UserID{"token-anna": anna, "token-bert": bert}[token.Reveal()]
	switch {
	case w.unsure != nil:
		return identity.Caller{}, w.unsure
	case token == "token-old":
		return identity.Caller{}, &dispatch.Error{Kind: dispatch.SignInRequired, Op: "fake", Err: fmt.Errorf("%w: %w",
			identity.ErrUnauthenticated, identity.ErrExpired)}
	case user == "":
		return identity.Caller{}, &dispatch.Error{Kind: dispatch.SignInRequired, Op: "fake",
			Err: errors.New("bad token " + token.Reveal()[:3])}
	}
	return identity.Caller{User: user, Token: token, Expires: w.expires}, nil
}

func (w *world) broken() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.panics != nil {
		panic(w.panics)
	}
	return w.fail
}

func (w *world) Accept(_ context.Context, u dispatch.UserID, r dispatch.Request, k dispatch.Key) (dispatch.Record,
	error) {
	if err := w.broken(); err != nil {
		return dispatch.Record{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = append(w.keys, k)
	id := dispatch.JobID(len(w.jobs) + 1)
	rec := dispatch.Record{Request: r, Job: dispatch.Job{Identity: dispatch.Identity{ID: id, Owner: u, Created: moment},
		Target: dispatch.Target{Account: "cdse/shared"}, Wish: dispatch.Wish{Annotations: r.Annotations},
		Handover:  dispatch.Handover{Phase: dispatch.Started, Ref: dispatch.Ref{ID: "j-7"}},
		Condition: dispatch.Condition{Status: dispatch.Submitted, Updated: moment}}}
	w.jobs[id] = rec
	return rec, nil
}

func (w *world) RepeatedJob(_ context.Context, _ dispatch.UserID, _ dispatch.Key, refused error) (dispatch.Record,
	error) {
	return dispatch.Record{}, refused
}

func (w *world) RepeatedTask(_ context.Context, _ dispatch.UserID, _ dispatch.Key, refused error) (dispatch.TaskRecord,
	error) {
	return dispatch.TaskRecord{}, refused
}

func (w *world) Read(_ context.Context, u dispatch.UserID, id dispatch.JobID, fresh time.Duration) (dispatch.Record,
	error) {
	if err := w.broken(); err != nil {
		return dispatch.Record{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(fresh)
	w.reads++
	if r, ok := w.jobs[id]; ok && r.Owner == u {
		return r, nil
	}
	return dispatch.Record{}, &dispatch.Error{Kind: dispatch.NotFound, Op: "fake.Read"}
}

func (w *world) AcceptTask(_ context.Context, u dispatch.UserID, r dispatch.Request, d dispatch.Dimension,
	k dispatch.Key) (dispatch.TaskRecord, error) {
	if err := w.broken(); err != nil {
		return dispatch.TaskRecord{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = append(w.keys, k)
	t := dispatch.TaskRecord{Counts: dispatch.Counts{dispatch.Accepted: d.Jobs()},
		Task: dispatch.Task{ID: dispatch.TaskID(len(w.tasks) + 1),
			Owner: u, Account: "cdse/shared", Request: r, Dimension: d.Name, Created: moment, Updated: moment}}
	w.tasks[t.ID] = t
	number := 0
	for v, names := range d.Each() {
		number++
		j := dispatch.Job{Identity: dispatch.Identity{ID: dispatch.JobID(len(w.jobs) + 1), Task: t.ID, Number: number,
			Owner: u, Names: names, Created: moment}, Target: dispatch.Target{Account: "cdse/shared"},
			Handover:  dispatch.Handover{Phase: dispatch.Waiting},
			Condition: dispatch.Condition{Status: dispatch.Accepted, Updated: moment}}
		r, _ := t.RequestFor(j, v)
		w.jobs[j.ID] = dispatch.Record{Request: r, Job: j}
	}
	return t, nil
}

func (w *world) ReadTask(_ context.Context, u dispatch.UserID, id dispatch.TaskID,
	fresh time.Duration) (t dispatch.TaskRecord, jobs []dispatch.Record, err error) {
	if err := w.broken(); err != nil {
		return t, nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(fresh)
	t = w.tasks[id]
	if t.Owner != u {
		return t, nil, &dispatch.Error{Kind: dispatch.NotFound, Op: "fake.ReadTask", Text: "There is no such job."}
	}
	for id := range dispatch.JobID(len(w.jobs)) {
		if j := w.jobs[id+1]; j.Task == t.ID {
			jobs = append(jobs, j)
		}
	}
	return t, jobs, nil
}

func (w *world) Task(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	t, _, err := w.ReadTask(ctx, u, id, broker.AsKnown)
	return t, err
}

func (w *world) Tasks(_ context.Context, u dispatch.UserID, p dispatch.Page) iter.Seq2[dispatch.TaskRecord, error] {
	err := w.broken()
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []dispatch.TaskRecord
	for _, t := range w.tasks {
		if err == nil && t.Owner == u && p.Follows(t.Place()) &&
			(len(p.Statuses) == 0 || slices.Contains(p.Statuses, t.Counts.Status())) &&
			(len(p.Accounts) == 0 || slices.Contains(p.Accounts, t.Account)) {
			list = append(list, t)
		}
	}
	return sequence(firstOf(list, p), err)
}

func (w *world) Jobs(_ context.Context, u dispatch.UserID, p dispatch.Page) iter.Seq2[dispatch.Record, error] {
	err := w.broken()
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []dispatch.Record
	for _, r := range w.jobs {
		if err == nil && r.Owner == u && r.Task == 0 && p.Follows(r.Place()) && fits(r, p) {
			list = append(list, r)
		}
	}
	return sequence(w.bounded(firstOf(list, p), p), err)
}

func (w *world) History(ctx context.Context, u dispatch.UserID, at broker.Position, want broker.Kinds,
	p dispatch.Page) iter.Seq2[broker.Entry, error] {
	var all []broker.Entry
	var failed error
	if p.After = at.Job; want.Jobs {
		for j, err := range w.Jobs(ctx, u, p) {
			all, failed = append(all, broker.Entry{Job: &j}), cmp.Or(failed, err)
		}
	}
	if p.After = at.Task; want.Tasks {
		for t, err := range w.Tasks(ctx, u, p) {
			all, failed = append(all, broker.Entry{Task: &t}), cmp.Or(failed, err)
		}
	}
	if failed != nil {
		return sequence[broker.Entry](nil, failed)
	}
	slices.SortStableFunc(all, func(a, b broker.Entry) int {
		return p.Compare(dispatch.Place{Created: a.Created()}, dispatch.Place{Created: b.Created()})
	})
	for i, e := range all {
		if e.Job != nil {
			at.Job = e.Job.Place()
		} else {
			at.Task = e.Task.Place()
		}
		all[i].After = at
	}
	return sequence(all, nil)
}

func (w *world) TaskJobs(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	p dispatch.Page) iter.Seq2[dispatch.Record, error] {
	_, all, err := w.ReadTask(ctx, u, id, broker.AsKnown)
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []dispatch.Record
	for _, r := range all {
		if fits(r, p) && int64(r.Number) > p.After.ID && (p.Limit == 0 || len(list) < p.Limit) {
			list = append(list, r)
		}
	}
	return sequence(w.bounded(list, p), err)
}

// firstOf returns the first elements of a page.
func firstOf[T interface{ Place() dispatch.Place }](list []T, p dispatch.Page) []T {
	slices.SortFunc(list, func(a, b T) int { return p.Compare(a.Place(), b.Place()) })
	if p.Limit == 0 {
		return list
	}
	return list[:min(p.Limit, len(list))]
}

func sequence[T any](list []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// bounded removes from records what a page does not read.
func (w *world) bounded(list []dispatch.Record, p dispatch.Page) []dispatch.Record {
	list = slices.Clone(list)
	for i, r := range list {
		text, _ := json.Marshal(r.Request)
		r.Size = len(text)
		if r.Task != 0 {
			t := w.tasks[r.Task]
			r.Value = t.ValueOf(r.Request)
			r.Size, r.Request = len(r.Value), t.RequestHeadFor(r.Job)
		}
		if r.Cut = r.Size > cmp.Or(p.Most, dispatch.PartMost); r.Cut {
			r.Value, r.Request = nil,
				dispatch.ParseRequestHead(string(text[:min(len(text), max(cmp.Or(p.Most, dispatch.PartMost), 0))]))
		}
		list[i] = r
	}
	return list
}

func (w *world) Request(_ context.Context, r dispatch.Record) (dispatch.Request, error) {
	if err := w.broken(); err != nil {
		return dispatch.Request{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	is, there := w.jobs[r.ID]
	if !there {
		return dispatch.Request{}, &dispatch.Error{Kind: dispatch.NotFound, Op: "fake.Request"}
	}
	return is.Request, nil
}

func fits(r dispatch.Record, p dispatch.Page) bool {
	return r.Updated.After(p.Since) && (len(p.Statuses) == 0 || slices.Contains(p.Statuses, r.Status)) &&
		(len(p.Accounts) == 0 || slices.Contains(p.Accounts, r.Account))
}

func (w *world) DiscardTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) error {
	w.discarded++
	return w.DeleteTask(ctx, u, id)
}

func (w *world) DeleteTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) error {
	_, _, err := w.ReadTask(ctx, u, id, 0)
	if err == nil {
		delete(w.tasks, id)
	}
	return err
}

func (w *world) CancelTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	c dispatch.Choice) (dispatch.TaskRecord, error) {
	return w.RetryTask(ctx, u, id, c)
}

func (w *world) PauseTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord, error) {
	return w.pause(ctx, u, id, true)
}

func (w *world) ResumeTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	budget *dispatch.Budget) (dispatch.TaskRecord, error) {
	w.budget = budget
	return w.pause(ctx, u, id, false)
}

func (w *world) pause(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, paused bool) (dispatch.TaskRecord,
	error) {
	if _, _, err := w.ReadTask(ctx, u, id, 0); err != nil {
		return dispatch.TaskRecord{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tasks[id]
	if t.Paused != paused {
		t.Paused, t.Edited = paused, time.Now()
	}
	w.tasks[id] = t
	return t, nil
}

func (w *world) AnnotateJob(ctx context.Context, u dispatch.UserID, id dispatch.JobID,
	c dispatch.AnnotationChange) (dispatch.Record, error) {
	r, err := w.Read(ctx, u, id, broker.AsKnown)
	if err != nil {
		return r, err
	}
	if r.Annotations, err = c.Apply(r.Annotations); err == nil {
		w.set(id, func(stored *dispatch.Record) { *stored = r })
	}
	return r, err
}

func (w *world) AnnotateTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	c dispatch.AnnotationChange) (dispatch.TaskRecord, error) {
	t, _, err := w.ReadTask(ctx, u, id, 0)
	if err == nil {
		t.Annotations, err = c.Apply(t.Annotations)
	}
	return t, err
}

func (w *world) RetryTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	c dispatch.Choice) (dispatch.TaskRecord, error) {
	t, _, err := w.ReadTask(ctx, u, id, 0)
	w.choices = append(w.choices, c)
	return t, err
}

// note records the freshness that was asked for.
func (w *world) note(fresh time.Duration) {
	if fresh != broker.AsKnown {
		w.fresh = fresh
	}
}

func (w *world) Cancel(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (dispatch.Record, error) {
	r, err := w.Read(ctx, u, id, broker.AsKnown)
	if err == nil {
		w.set(id, func(r *dispatch.Record) { r.Status, r.Phase = dispatch.Canceled, dispatch.Ended })
		r, err = w.Read(ctx, u, id, broker.AsKnown)
	}
	return r, err
}

func (w *world) Freshen(_ context.Context, _ dispatch.UserID, _ dispatch.Scope, fresh time.Duration) error {
	if err := w.broken(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(fresh)
	return nil
}

func (w *world) OnChange(u dispatch.UserID, changed func()) (stop func()) {
	w.watched.Add(1)
	return w.hub.OnChange(u, changed)
}

func (w *world) Watch(u dispatch.UserID) (<-chan struct{}, func()) {
	w.watched.Add(1)
	return w.hub.Watch(u)
}

func (w *world) WatchJob(u dispatch.UserID, id dispatch.JobID) (<-chan struct{}, func()) {
	w.watched.Add(1)
	return w.hub.WatchJob(u, id)
}

// set changes a job and signals the change to those who watch its owner.
func (w *world) set(id dispatch.JobID, change func(*dispatch.Record)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.jobs[id]
	change(&r)
	r.Updated = r.Updated.Add(time.Second)
	r.Version++
	w.jobs[id] = r
	w.hub.HandleBroadcast([]dispatch.JobID{id}, []dispatch.UserID{r.Owner})
}

// seen is a job or a task as its owner saw it when the world was last asked for changes.
type seen struct {
	task   dispatch.TaskID
	look   string
	gone   bool
	number int64
}

// number gives the next number to all of a user's jobs and tasks that look different than before, and returns it.
func (w *world) number(u dispatch.UserID) int64 {
	now := map[string]seen{}
	for id, r := range w.jobs {
		if r.Owner == u {
			r.Checked, r.Ahead, r.Version, r.Request = time.Time{}, nil, 0, dispatch.Request{}
			now[fmt.Sprint("j", id)] = seen{task: r.Task, look: fmt.Sprintf("%+v", r)}
		}
	}
	for id, t := range w.tasks {
		if t.Request = (dispatch.Request{}); t.Owner == u {
			now[fmt.Sprint("t", id)] = seen{task: id, look: fmt.Sprintf("%+v", t)}
		}
	}
	if w.seen == nil {
		w.seen, w.numbers = map[dispatch.UserID]map[string]seen{}, map[dispatch.UserID]int64{}
	}
	if w.seen[u] == nil {
		w.seen[u] = map[string]seen{}
	}
	before, next := w.seen[u], w.numbers[u]+1
	changed := func(key string, is seen) {
		is.number, w.numbers[u] = next, next
		before[key] = is
		key = fmt.Sprint("t", is.task)
		if t, known := before[key]; known {
			t.number = next
			before[key] = t
		}
	}
	for key, is := range now {
		if was, known := before[key]; !known || was.look != is.look || was.gone {
			changed(key, is)
		}
	}
	for key, was := range before {
		if _, there := now[key]; !there && !was.gone {
			was.gone = true
			changed(key, was)
		}
	}
	return w.numbers[u]
}

func (w *world) Changes(_ context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ChangedPlace,
	n int) (c dispatch.ChangedPage, err error) {
	if err := w.broken(); err != nil {
		return c, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t, there := w.tasks[id]
	if id != 0 && (!there || t.Owner != u) {
		return c, &dispatch.Error{Kind: dispatch.NotFound, Op: "fake.Changes"}
	}
	c.Number, c.Accounts = w.number(u), w.accounts
	if id != 0 {
		c.Number = w.seen[u][fmt.Sprint("t", id)].number
	}
	for _, r := range w.jobs {
		c.Live = c.Live || r.Owner == u && r.Phase != dispatch.Ended
	}
	if c.Anew = w.anew || after.Number > c.Number; c.Anew || after == dispatch.AfterNumber(c.Number) {
		w.anew = w.anew && after == dispatch.NumberOnly
		return c, nil
	}
	if id != 0 {
		c.Task = &t
	}
	for key, is := range w.seen[u] {
		e := dispatch.Changed{Number: is.number, Task: is.task, Deleted: is.gone}
		if ofTask := key[0] == 'j' && is.task != 0; ofTask != (id != 0) || id != 0 && is.task != id {
			continue
		}
		if key[0] == 'j' {
			number, _ := strconv.Atoi(key[1:])
			e.Job = dispatch.JobID(number)
			if r := w.bounded([]dispatch.Record{w.jobs[e.Job]}, dispatch.Page{Most: dispatch.PartMost}); !is.gone {
				e.Record = &r[0]
			}
		} else if whole := w.tasks[is.task]; !is.gone {
			e.Whole = &whole
		}
		if e.Place().Compare(after) > 0 {
			c.Changed = append(c.Changed, e)
		}
	}
	slices.SortFunc(c.Changed, func(a, b dispatch.Changed) int { return a.Place().Compare(b.Place()) })
	c.More, c.Changed = len(c.Changed) > n, c.Changed[:min(n, len(c.Changed))]
	return c, nil
}

func (w *world) TaskOutline(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.TaskRecord,
	iter.Seq2[broker.JobResult, error], error) {
	g, err := w.allResults(ctx, u, id)
	return g.Task, func(yield func(broker.JobResult, error) bool) {
		for _, p := range g.Jobs {
			if !yield(p, nil) {
				return
			}
		}
	}, err
}

func (w *world) allResults(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (g broker.TaskResults,
	err error) {
	t, jobs, err := w.ReadTask(ctx, u, id, 0)
	if err != nil {
		return g, err
	}
	var tally dispatch.Tally
	for _, j := range jobs {
		tally.Add(j.Job)
		if j.Status == dispatch.Finished {
			j.Value = t.ValueOf(j.Request)
			p := broker.JobResult{Record: j, Collection: w.results[j.ID], Err: w.lacks[j.ID]}
			p.Item = items.Describe(p, t)
			p.Item.Job = j.ID
			g.Jobs = append(g.Jobs, p)
		}
	}
	g.Task = tally.CountsFor(t)
	return g, nil
}

func (w *world) TaskResults(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ResultPosition,
	n int) (broker.TaskResults, error) {
	g, err := w.allResults(ctx, u, id)
	g.Jobs = slices.DeleteFunc(g.Jobs, func(p broker.JobResult) bool { return p.ID <= after.Job })
	g.More = len(g.Jobs) > n
	g.Jobs = g.Jobs[:min(n, len(g.Jobs))]
	return g, err
}

func (w *world) TaskResult(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	job dispatch.JobID) (broker.TaskResults, error) {
	g, err := w.allResults(ctx, u, id)
	if err != nil {
		return g, err
	}
	g.Jobs = slices.DeleteFunc(g.Jobs, func(p broker.JobResult) bool { return p.ID != job })
	if len(g.Jobs) == 0 {
		return g, &dispatch.Error{Kind: dispatch.NotFound, Op: "fake.TaskResult"}
	}
	return g, nil
}

func (w *world) JobResult(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (broker.JobResult, error) {
	r, err := w.Read(ctx, u, id, 0)
	if err != nil {
		return broker.JobResult{}, err
	}
	return broker.JobResult{Record: r, Collection: w.results[id]}, nil
}

func (w *world) Document(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (*dispatch.Document, error) {
	_, err := w.Read(ctx, u, id, 0)
	if err != nil || w.document == nil {
		return nil, err
	}
	return &dispatch.Document{Body: w.document}, nil
}

func (w *world) Discard(ctx context.Context, u dispatch.UserID, id dispatch.JobID) error {
	w.discarded++
	return w.Delete(ctx, u, id)
}

func (w *world) Delete(ctx context.Context, u dispatch.UserID, id dispatch.JobID) error {
	_, err := w.Read(ctx, u, id, 0)
	if err == nil {
		delete(w.jobs, id)
	}
	return err
}

func (w *world) Grants(_ context.Context, u dispatch.UserID) ([]dispatch.Grant, error) {
	if err := w.broken(); err != nil || u != anna {
		return nil, err
	}
	return []dispatch.Grant{{ID: "g1", Owner: u, Kind: dispatch.OfflineGrant, Created: moment, Renewed: moment,
		Sealed: dispatch.Sealed{Key: "k", Text: "canary"}},
		{ID: "g2", Kind: dispatch.SessionGrant, Expires: moment}}, nil
}

func (w *world) Revoke(_ context.Context, u dispatch.UserID, id string) error {
	if err := w.broken(); err != nil {
		return err
	}
	if u != anna || id != "g1" {
		return &dispatch.Error{Kind: dispatch.NotFound, Op: "fake.Revoke"}
	}
	return nil
}

func (w *world) CheckRequest(context.Context, dispatch.UserID, dispatch.Request, *dispatch.Dimension) error {
	return w.broken()
}

func (w *world) Estimate(_ context.Context, _ dispatch.UserID, _ dispatch.Request, jobs int,
	_ ...json.RawMessage) (dispatch.Estimate, error) {
	return dispatch.Estimate{Jobs: jobs, Charged: 7, Costs: &dispatch.Spread{Low: 1, Likely: 2, High: 4},
		Unit: "credits", Timed: 2}, nil
}

func (w *world) ForecastTask(_ context.Context, t dispatch.TaskRecord) (dispatch.TaskRecord, error) {
	return t, nil
}

func (w *world) ForecastJob(_ context.Context, r dispatch.Record) (dispatch.Record, error) {
	return r, nil
}

func (w *world) UsageByLabel(ctx context.Context, u dispatch.UserID, label string) ([]dispatch.Usage, error) {
	use, err := w.Usage(ctx, u)
	if err == nil && len(use) > 0 && len(use[0].Charges) > 0 {
		value := "of " + label
		use[0].Charges[0].Label = &value
	}
	return use, err
}

func (w *world) Usage(_ context.Context, u dispatch.UserID) ([]dispatch.Usage, error) {
	if err := w.broken(); err != nil || u != anna {
		return nil, err
	}
	costs := 1.5
	return []dispatch.Usage{{Account: "cdse/shared", Quota: dispatch.Quota{Live: 4}, Live: 1, Lately: 2, Jobs: 3,
		Costs:   &costs,
		Charges: []dispatch.Charge{{Month: "2026-11", Unit: "credits", Costs: 4.5, Runs: 3}}}, {Account: "open/open",
		Jobs: 1}}, nil
}

func (w *world) Platforms(_ context.Context, u dispatch.UserID) (all []broker.PlatformInfo,
	overall dispatch.AccountInfo, within dispatch.Quota, err error) {
	if err := w.broken(); err != nil || u != anna {
		return nil, overall, within, err
	}
	if w.platforms != nil {
		return w.platforms, overall, within, nil
	}
	b := &dispatch.Backend{Name: "cdse", Label: dispatch.OpenEO, Endpoint: "https://openeo.example.org",
		Access: dispatch.AccessUser,
		Limits: dispatch.Limits{Jobs: 2, Pace: 100 * time.Millisecond}, Quota: dispatch.Quota{Live: 7}}
	s := dispatch.AccountInfo{Account: "cdse/x", Hold: moment, Why: dispatch.NeedsSignIn, Held: 2, Waiting: 3,
		Active: 1, Live: 4, Lately: 5, Queue: 6, Failed: moment, Failure: "It is away."}
	return []broker.PlatformInfo{{Backend: b, AccountInfo: s, State: s.State()}}, dispatch.AccountInfo{Live: 4,
		Lately: 5}, dispatch.Quota{Live: 9, Daily: 10}, nil
}

func (w *world) RunSync(ctx context.Context, _ dispatch.UserID, r dispatch.Request) (*dispatch.SyncResult, error) {
	if err := w.broken(); err != nil {
		return nil, err
	}
	return w.sync(ctx, r)
}

func (w *world) Policy(dispatch.Service, dispatch.Label) dispatch.Policy { return w.policy }

func (w *world) Parameters(_ context.Context, _ dispatch.UserID, s dispatch.Service,
	_ dispatch.Label) ([]dispatch.Parameter, error) {
	if err := w.broken(); err != nil {
		return nil, err
	}
	return w.parameters[s.Application], nil
}

func (w *world) Formats(context.Context, dispatch.UserID, dispatch.Service, dispatch.Label) ([]dispatch.OutputFormat,
	error) {
	return w.formats, w.broken()
}

func (w *world) Logs(ctx context.Context, u dispatch.UserID, id dispatch.JobID) ([]dispatch.LogEntry, error) {
	_, err := w.Read(ctx, u, id, 0)
	return w.logs, err
}
