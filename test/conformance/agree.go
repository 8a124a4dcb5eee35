package conformance

import (
	stdcmp "cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TestAgreement performs the same random operations on a database and on its model, and compares all their results.
func TestAgreement(t *testing.T, new, model func(*testing.T) Database) {
	rapid.Check(t, func(r *rapid.T) {

		p := &pair{T: t, r: r, sides: [2]Database{new(t), model(t)}, budgeted: map[dispatch.TaskID]bool{}}
		for i, db := range p.sides {
			p.stores[i] = db.Open()
		}
		r.Repeat(map[string]func(*rapid.T){
			"accept":  p.accept,
			"cancel":  p.cancel,
			"await":   p.await,
			"drop":    p.cancelTask,
			"pause":   p.pauseTask,
			"label":   p.annotate,
			"choose":  p.cancelJobs,
			"retry":   p.retryTask,
			"dequeue": p.dequeue,
			"serve":   p.serve,
			"renew":   p.renew,
			"release": p.release,
			"intend":  p.intend,
			"save":    p.save,
			"hold":    p.hold,
			"take":    p.take,
			"answer":  p.answer,
			"starts":  p.noteStarts,
			"settle":  p.compared,
			"purge":   p.purge,
			"pass":    p.pass,
			"define":  p.redefine,
			"prepare": p.createUnstarted,
			"start":   p.start,
			"":        p.compare,
		})
		CheckCounts(t, p.stores[0])
		if t.Failed() {
			r.Fatal("the kept counts are wrong")
		}
	})
}

// pair is a database, its model, and what a visit knows of both.
type pair struct {
	*testing.T
	r      *rapid.T
	sides  [2]Database
	stores [2]Store
	jobs   int
	tasks  int
	leases []dispatch.Lease
	known  []dispatch.Job

	budgeted map[dispatch.TaskID]bool // accepted with a budget

	numbers map[any][][2]int64 // of changes, that both sides had at some moments
}

// both calls f on each store and compares the results.
func both[V any](p *pair, r *rapid.T, f func(Store) (V, error)) V {
	var values [2]V
	var errs [2]error
	for i, s := range p.stores {
		values[i], errs[i] = f(s)
	}
	if (errs[0] == nil) != (errs[1] == nil) || errs[0] != nil && dispatch.KindOf(errs[0]) != dispatch.KindOf(errs[1]) {
		r.Fatalf("the database returns %v, the model %v", errs[0], errs[1])
	}
	if d := cmp.Diff(values[1], values[0], same); d != "" && errs[0] == nil {
		r.Fatalf("(-model +database)\n%s", d)
	}
	return values[0]
}

var (
	users    = rapid.SampledFrom([]dispatch.UserID{"ann", "Bob", "é/1"})
	accounts = rapid.SampledFrom([]dispatch.Account{"p/shared", "q/ann"})
	spans    = rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, 10 * time.Second, time.Minute,
		7 * time.Hour})
)

var documents = rapid.SampledFrom([]*dispatch.Document{nil, text("a", "1"), text("a", "2"), text("b", "2")})

func text(application, body string) *dispatch.Document {
	return &dispatch.Document{Body: []byte(body),
		Origin: dispatch.Origin{Platform: "p", Service: dispatch.Service{Endpoint: "https://p.example",
			Application: application}}}
}

func (p *pair) redefine(r *rapid.T) {
	now := documents.Draw(r, "document")
	if now == nil {
		return
	}
	both(p, r, func(s Store) ([]dispatch.UserID, error) {
		owners, err := s.SetDocumentHash(p.Context(), now.Origin, now.Hash())
		slices.Sort(owners)
		return owners, err
	})
	both(p, r, func(s Store) ([]dispatch.Origin, error) { return origins(p.Context(), s) })
	u, id := users.Draw(r, "owner"), p.id(r)
	both(p, r, func(s Store) ([]byte, error) { return s.Document(p.Context(), u, id) })
}

// origins returns the origins, sorted.
func origins(ctx context.Context, s Store) ([]dispatch.Origin, error) {
	all, err := s.Origins(ctx)
	slices.SortFunc(all, func(a, b dispatch.Origin) int {
		return stdcmp.Compare(a.Platform+" "+a.Service.Application, b.Platform+" "+b.Service.Application)
	})
	return all, err
}

func (p *pair) id(r *rapid.T) dispatch.JobID {
	return dispatch.JobID(rapid.IntRange(1, p.jobs+1).Draw(r, "id"))
}

func (p *pair) accept(r *rapid.T) {
	u, a, n := users.Draw(r, "owner"), accounts.Draw(r, "account"), rapid.IntRange(1, 3).Draw(r, "jobs")
	withTask, document := rapid.Bool().Draw(r, "task"), documents.Draw(r, "document")
	within := []dispatch.Quota{{Live: rapid.IntRange(0, 9).Draw(r, "live"), Bytes: int64(rapid.IntRange(0, 2000).Draw(r,
		"bytes"))}, {Account: a, Daily: rapid.IntRange(0, 9).Draw(r, "daily")}}
	budget, trial := rapid.SampledFrom([]dispatch.Budget{{}, {}, {Amount: 4}, {Amount: 2, Unit: "credits"}}).Draw(r,
		"budget"), rapid.IntRange(0, 2).Draw(r, "trial")
	type kept struct {
		Repeated dispatch.KeyTarget
		Task     dispatch.Task
		Jobs     []dispatch.Draft
	}
	got := both(p, r, func(s Store) (k kept, err error) {
		var task *dispatch.Task
		if withTask {
			task = &dispatch.Task{Owner: u, Account: a, Request: request(), Dimension: "d", Document: document,
				Budget: budget}
			if trial > 0 {
				task.Trial, task.Paused, task.PausedFor = trial, true, dispatch.Trial
			}
		}
		for i := range n {
			k.Jobs = append(k.Jobs, draft(u, a))
			if withTask {
				k.Jobs[i].Number, k.Jobs[i].Body, k.Jobs[i].Budgeted = i+1, []byte("1"), budget != dispatch.Budget{}
				if trial > 0 && i >= trial {
					k.Jobs[i].Paused, k.Jobs[i].Attention = true, dispatch.Paused
				}
			}
			k.Jobs[i].Document = document
		}
		k.Repeated, err = s.Accept(p.Context(), dispatch.Key{}, task, k.Jobs, within...)
		if task != nil {
			k.Task = *task
		}
		return k, err
	})
	p.tasks = max(p.tasks, int(got.Task.ID))
	if got.Task.Budget != (dispatch.Budget{}) {
		p.budgeted[got.Task.ID] = true
	}
	for _, j := range got.Jobs {
		p.jobs = max(p.jobs, int(j.ID))
		p.known = append(p.known, j.Job)
	}
}

func (p *pair) cancel(r *rapid.T) {
	u, id, hide := users.Draw(r, "owner"), p.id(r), rapid.Bool().Draw(r, "hide")
	both(p, r, func(s Store) (dispatch.Job, error) { return s.Cancel(p.Context(), u, id, hide) })
}

func (p *pair) task(r *rapid.T) dispatch.TaskID {
	return dispatch.TaskID(rapid.IntRange(1, p.tasks+1).Draw(r, "task"))
}

func (p *pair) cancelTask(r *rapid.T) {
	u, id, hide := users.Draw(r, "owner"), p.task(r), rapid.Bool().Draw(r, "hide")
	both(p, r, func(s Store) (dispatch.Account, error) { return s.CancelTask(p.Context(), u, id, hide) })
}

func (p *pair) cancelJobs(r *rapid.T) {
	u, id, c := users.Draw(r, "owner"), p.task(r), p.choice(r)
	both(p, r, func(s Store) (string, error) {
		a, n, err := s.CancelJobs(p.Context(), u, id, c)
		return fmt.Sprint(a, n), err
	})
}

// choice selects some jobs, which may not exist, some statuses, or all.
func (p *pair) choice(r *rapid.T) (c dispatch.Choice) {
	switch rapid.IntRange(0, 3).Draw(r, "choice") {
	case 0:
		c.Jobs = rapid.SliceOfN(rapid.Custom(p.id), 1, 2).Draw(r, "chosen")
	case 1:
		c.Statuses = rapid.SampledFrom([][]dispatch.Status{{dispatch.Accepted}, {dispatch.Failed, dispatch.Running},
			{}}).Draw(r, "statuses")
	}
	return c
}

func (p *pair) pauseTask(r *rapid.T) {
	u, id, pause := users.Draw(r, "owner"), p.task(r), rapid.Bool().Draw(r, "pause")
	budget := rapid.SampledFrom([]*dispatch.Budget{nil, nil, {}, {Amount: 6}, {Amount: 6, Unit: "credits"}}).Draw(r,
		"budget")
	if budget != nil && !p.budgeted[id] { // Broker.ResumeTask refuses it
		budget = nil
	}
	both(p, r, func(s Store) (dispatch.Account, error) {
		if pause {
			return s.PauseTask(p.Context(), u, id)
		}
		return s.ResumeTask(p.Context(), u, id, budget)
	})
}

func (p *pair) annotate(r *rapid.T) {
	u, job, task, value := users.Draw(r, "owner"), p.id(r), p.task(r), rapid.SampledFrom([]string{"x", "y", ""}).Draw(r,
		"value")
	c := dispatch.AnnotationChange{Replace: rapid.Bool().Draw(r, "replace"),
		Labels: map[string]*string{rapid.SampledFrom([]string{"a", "b"}).Draw(r, "key"): &value}}
	both(p, r, func(s Store) (string, error) { return "", s.AnnotateJob(p.Context(), u, job, c) })
	both(p, r, func(s Store) (string, error) { return "", s.AnnotateTask(p.Context(), u, task, c) })
}

func (p *pair) retryTask(r *rapid.T) {
	u, id := users.Draw(r, "owner"), p.task(r)
	within := dispatch.Quota{Live: rapid.IntRange(0, 9).Draw(r, "live"), Bytes: int64(rapid.IntRange(0, 2000).Draw(r,
		"bytes"))}
	c := p.choice(r)
	both(p, r, func(s Store) (string, error) {
		a, n, err := s.RetryTask(p.Context(), u, id, c, within)
		return fmt.Sprint(a, n), err
	})
}

func (p *pair) await(r *rapid.T) {
	u, fresh, gap := users.Draw(r, "owner"), spans.Draw(r, "fresh"), spans.Draw(r, "gap")
	scope := rapid.SampledFrom([]dispatch.Scope{{}, {Job: p.id(r)}, {Task: p.task(r)}, {Alone: true}, {Tasks: true},
		{Alone: true, Tasks: true}}).Draw(r, "scope")
	both(p, r, func(s Store) ([]dispatch.Account, error) {
		return s.MarkAwaited(p.Context(), u, scope, fresh, gap)
	})
	both(p, r, func(s Store) (bool, error) { return s.AnyAwaited(p.Context(), u, scope) })
}

func (p *pair) serve(r *rapid.T) {
	names := rapid.SampledFrom([][]string{nil, {"p"}, {"q"}, {"q", "p"}}).Draw(r, "platforms")
	both(p, r, func(s Store) (any, error) { return nil, s.NoteServed(p.Context(), names) })
}

func (p *pair) dequeue(r *rapid.T) {
	n, ttl := rapid.IntRange(1, 3).Draw(r, "n"), time.Second+spans.Draw(r, "ttl")
	room := dispatch.Room{Others: n, Unserved: spans.Draw(r, "unserved")}
	if rapid.Bool().Draw(r, "known") {
		room.Platforms = map[string]int{"p": n - 1}
	}
	type given struct {
		Leases map[dispatch.Account]dispatch.Lease
		Wait   time.Duration
	}
	got := both(p, r, func(s Store) (g given, err error) {
		leases, wait, err := s.Dequeue(p.Context(), room, ttl)
		g = given{map[dispatch.Account]dispatch.Lease{}, wait}
		for _, l := range leases {
			g.Leases[l.Account] = l
		}
		return g, err
	})
	for _, a := range []dispatch.Account{"p/shared", "q/ann"} {
		if l, ok := got.Leases[a]; ok {
			p.leases = append(p.leases, l)
		}
	}
}

func (p *pair) lease(r *rapid.T) dispatch.Lease {
	return rapid.SampledFrom(append(p.leases, dispatch.Lease{Account: "p/shared"})).Draw(r, "lease")
}

func (p *pair) renew(r *rapid.T) {
	l, ttl := p.lease(r), time.Second+spans.Draw(r, "ttl")
	if l.Generation == 0 {
		return // there is no lease yet
	}
	both(p, r, func(s Store) (any, error) { return nil, s.Renew(p.Context(), l, ttl) })
}

func (p *pair) release(r *rapid.T) {
	l, wakes, later := p.lease(r), rapid.Int64Range(0, 5).Draw(r, "wakes"), spans.Draw(r, "due")
	if l.Generation == 0 {
		return
	}
	both(p, r, func(s Store) (any, error) {
		g, err := s.Agenda(p.Context(), l.Account, 1, stalledAfter)
		if err != nil {
			return nil, err
		}
		return nil, s.Release(p.Context(), l, g.Wakes-wakes/5, g.Now.Add(later))
	})
}

func (p *pair) intend(r *rapid.T) {
	l := p.lease(r)
	known := slices.DeleteFunc(slices.Clone(p.known), func(j dispatch.Job) bool { return j.Account != l.Account })
	if len(known) == 0 || l.Generation == 0 {
		return
	}
	j := rapid.SampledFrom(known).Draw(r, "job")
	var outcomes []dispatch.Job
	if o := p.outcome(r); rapid.Bool().Draw(r, "with an outcome") && o.ID != j.ID {
		outcomes = append(outcomes, o)
	}
	p.known = append(p.known, both(p, r, func(s Store) ([]dispatch.Job, error) {
		return s.Intend(p.Context(), l, limits, []dispatch.Job{j}, outcomes...)
	})...)
}

func (p *pair) save(r *rapid.T) {
	if len(p.known) == 0 {
		return
	}
	j := p.outcome(r)
	p.known = append(p.known, both(p, r, func(s Store) ([]dispatch.Job, error) {
		return s.Save(p.Context(), []dispatch.Job{j})
	})...)
}

// outcome returns a job that is known, after a response.
func (p *pair) outcome(r *rapid.T) dispatch.Job {
	j := rapid.SampledFrom(p.known).Draw(r, "outcome")
	j.Phase = rapid.SampledFrom([]dispatch.Phase{dispatch.Waiting, dispatch.Creating, dispatch.Created,
		dispatch.Starting, dispatch.Started, dispatch.Ended}).Draw(r, "phase")
	j.Orphans = nil
	if rapid.IntRange(0, 5).Draw(r, "orphan") == 0 {
		j.Orphans = []dispatch.Ref{{ID: "x"}}
	}
	// It was paused: whoever submits a job, or finds an orphan, says when it is due.
	if j.Due.IsZero() && (j.Phase != dispatch.Waiting || len(j.Orphans) > 0) {
		j.Due = j.Created
	}
	j.Due, j.Moved, j.Checked = j.Due.Add(spans.Draw(r, "due")), j.Created.Add(spans.Draw(r, "moved")),
		j.Created.Add(spans.Draw(r, "checked"))
	if j.Phase == dispatch.Started {
		j.Status = rapid.SampledFrom([]dispatch.Status{dispatch.Submitted, dispatch.Queued, dispatch.Running}).Draw(r,
			"status")
	}
	if j.Phase == dispatch.Ended {
		j.Status = rapid.SampledFrom([]dispatch.Status{dispatch.Finished, dispatch.Failed}).Draw(r, "status")
	}
	j.Started, j.Ended = j.Created.Add(spans.Draw(r, "started")), j.Created.Add(spans.Draw(r, "ended"))
	j.Costs = rapid.SampledFrom([]*float64{nil, j.Costs, new(float64), amountOf(1.5), amountOf(-1),
		amountOf(2e12)}).Draw(r, "costs")
	j.Unit, j.Spent = rapid.SampledFrom([]string{"", "credits"}).Draw(r, "unit"), j.Spent+
		rapid.SampledFrom([]float64{0, 0, 2.5}).Draw(r, "spent")
	j.Unmetered = nil
	if rapid.Bool().Draw(r, "unmetered") {
		j.Unmetered = []dispatch.Unmetered{{Ref: dispatch.Ref{ID: "x"}, Ended: j.Created,
			Due: j.Created.Add(spans.Draw(r, "meter")), Priced: rapid.Bool().Draw(r, "priced")}}
	}
	j.Awaited = rapid.Bool().Draw(r, "awaited")
	return j
}

func amountOf(f float64) *float64 { return &f }

func (p *pair) hold(r *rapid.T) {
	a, d := accounts.Draw(r, "account"), spans.Draw(r, "time")
	both(p, r, func(s Store) (any, error) { return nil, s.Hold(p.Context(), a, d, dispatch.NotTaken, "why") })
}

func (p *pair) take(r *rapid.T) {
	a := dispatch.SendTimeRequest{Account: accounts.Draw(r, "account"),
		Pace: rapid.SampledFrom([]time.Duration{time.Millisecond, 400 * time.Millisecond, 3 * time.Second}).Draw(r,
			"pace"),
		Purpose: rapid.SampledFrom([]dispatch.Purpose{dispatch.Reading, dispatch.Acting, dispatch.Calling}).Draw(r,
			"purpose"), Ahead: time.Second}
	both(p, r, func(s Store) (dispatch.SendTime, error) { return s.ReserveSendTime(p.Context(), a) })
}

func (p *pair) answer(r *rapid.T) {
	failure := rapid.SampledFrom([]string{"", "It does not answer."}).Draw(r, "failure")
	unless := spans.Draw(r, "unless")
	both(p, r, func(s Store) (any, error) { return nil, s.NoteResponse(p.Context(), "p", failure, unless) })
}

func (p *pair) purge(r *rapid.T) {
	keep := spans.Draw(r, "keep")
	both(p, r, func(s Store) (any, error) { return nil, s.Purge(p.Context(), keep) })
}

func (p *pair) pass(r *rapid.T) {
	d := spans.Draw(r, "time")
	for _, db := range p.sides {
		db.Pass(d)
	}
}

// since returns the time of some change; zero if there was none.
func (p *pair) since(r *rapid.T) time.Time {
	if len(p.known) == 0 {
		return time.Time{}
	}
	return rapid.SampledFrom(p.known).Draw(r, "since").Updated
}

// after returns the place of some job; zero if there is none.
func (p *pair) after(r *rapid.T) dispatch.Place {
	if len(p.known) == 0 {
		return dispatch.Place{}
	}
	j := rapid.SampledFrom(p.known).Draw(r, "after")
	return dispatch.Place{Created: j.Created, ID: int64(j.ID)}
}

// compare compares everything that can be read.
func (p *pair) compare(r *rapid.T) {
	ctx := p.Context()
	page := dispatch.Page{Limit: rapid.IntRange(0, 3).Draw(r, "limit"),
		Statuses: rapid.SampledFrom([][]dispatch.Status{nil, {dispatch.Failed}, {dispatch.Failed, dispatch.Accepted,
			dispatch.Failed}}).Draw(r, "statuses"),
		Accounts: rapid.SampledFrom([][]dispatch.Account{nil, {"q/ann"}, {"p/shared", "q/ann", "q/bob"}}).Draw(r,
			"accounts"),
		Most: rapid.SampledFrom([]int{0, -1, 1, 60, 1000}).Draw(r, "most")}
	for _, u := range []dispatch.UserID{"ann", "Bob", "é/1"} {
		both(p, r, func(s Store) ([]dispatch.Record, error) { return s.Records(ctx, u, page) })
		both(p, r, func(s Store) ([]dispatch.TaskRecord, error) { return s.Tasks(ctx, u, page) })
		both(p, r, func(s Store) ([]dispatch.Record, error) { return s.Records(ctx, u, dispatch.Page{}) })
		both(p, r, func(s Store) ([]dispatch.TaskRecord, error) { return s.Tasks(ctx, u, dispatch.Page{}) })
		both(p, r, func(s Store) ([]dispatch.Usage, error) { return s.Usage(ctx, u, time.Minute) })
		both(p, r, func(s Store) ([]dispatch.AccountCharge, error) { return s.LabelCharges(ctx, u, "a", 100) })
		since, after, oldest := p.since(r), p.after(r), rapid.Bool().Draw(r, "oldest first")
		label := dispatch.LabelMatch{Key: "a", Value: "x"}
		both(p, r, func(s Store) ([]dispatch.Record, error) {
			return s.Records(ctx, u, dispatch.Page{Label: label, After: after, Oldest: oldest, Limit: page.Limit,
				Statuses: page.Statuses, Accounts: page.Accounts, Since: since})
		})
		both(p, r, func(s Store) ([]dispatch.TaskRecord, error) {
			return s.Tasks(ctx, u, dispatch.Page{Label: label, Oldest: oldest, Limit: page.Limit,
				Statuses: page.Statuses})
		})
		both(p, r, func(s Store) ([]dispatch.Record, error) {
			return s.Records(ctx, u, dispatch.Page{After: after, Oldest: oldest, Limit: page.Limit,
				Statuses: page.Statuses, Accounts: page.Accounts, Since: since})
		})
		both(p, r, func(s Store) ([]dispatch.TaskRecord, error) {
			return s.Tasks(ctx, u, dispatch.Page{After: after, Oldest: oldest, Limit: page.Limit,
				Statuses: page.Statuses, Accounts: page.Accounts})
		})
		both(p, r, func(s Store) ([]dispatch.Record, error) {
			return s.Records(ctx, u, dispatch.Page{After: after, Oldest: oldest, Limit: page.Limit,
				Statuses: page.Statuses, Accounts: page.Accounts})
		})
		p.changes(r, u, 0, page.Limit)
		for id := range dispatch.TaskID(min(p.tasks, 5)) {
			p.changes(r, u, id+1, page.Limit)
			both(p, r, func(s Store) (dispatch.TaskRecord, error) { return s.Task(ctx, u, id+1) })
			both(p, r, func(s Store) ([]dispatch.Record, error) { return s.TaskJobs(ctx, u, id+1, dispatch.Page{}) })
			both(p, r, func(s Store) ([]dispatch.Record, error) {
				return s.TaskJobs(ctx, u, id+1, dispatch.Page{Limit: page.Limit, Most: page.Most})
			})
			both(p, r, func(s Store) ([]dispatch.Record, error) {
				return s.TaskJobs(ctx, u, id+1, dispatch.Page{After: dispatch.Place{ID: after.ID % 3},
					Limit: page.Limit, Statuses: page.Statuses, Accounts: page.Accounts})
			})
			both(p, r, func(s Store) ([]dispatch.Record, error) {
				return s.TaskJobs(ctx, u, id+1, dispatch.Page{Limit: page.Limit, Most: page.Most, Since: since})
			})
			both(p, r, func(s Store) ([]dispatch.Record, error) {
				return s.FinishedJobs(ctx, u, id+1, dispatch.ResultPosition{}, 2)
			})
		}
	}
	for _, a := range []dispatch.Account{"p/shared", "q/ann"} {
		both(p, r, func(s Store) ([]dispatch.Job, error) { return s.Unprepared(ctx, a, 3) })
		both(p, r, func(s Store) ([]dispatch.Job, error) { return s.Running(ctx, a, 3) })
		both(p, r, func(s Store) ([]string, error) { return s.Bases(ctx, a) })
		both(p, r, func(s Store) (dispatch.Agenda, error) { return s.Agenda(ctx, a, 4, stalledAfter) })
		g := both(p, r, func(s Store) (dispatch.Agenda, error) { return s.Agenda(ctx, a, 4, 0) })
		for _, l := range g.Queues {
			ready := both(p, r, func(s Store) ([]dispatch.Job, error) { return s.Ready(ctx, a, l, 3) })
			both(p, r, func(s Store) ([]dispatch.Queue, error) { return s.Queues(ctx, a) })
			both(p, r, func(s Store) ([]dispatch.JobID, error) {
				return s.Waiting(ctx, a, l, dispatch.Rank{}, dispatch.Rank{Due: dispatch.Never})
			})
			for _, j := range ready {
				both(p, r, func(s Store) (int, error) { return s.WaitingBefore(ctx, a, l, j.Rank()) })
			}
		}
	}
	for _, u := range []dispatch.UserID{"ann", "Bob", "é/1"} {
		both(p, r, func(s Store) ([]dispatch.AccountInfo, error) {
			return s.AccountInfo(ctx, u, []dispatch.Account{"", "p/shared", "q/ann", "q/Bob"},
				map[dispatch.Account]time.Duration{"p/shared": stalledAfter})
		})
	}
	for id := range dispatch.JobID(min(p.jobs, 20)) {
		both(p, r, func(s Store) (dispatch.Job, error) { return s.Load(ctx, id+1) })
		both(p, r, func(s Store) (dispatch.Request, error) { return s.Request(ctx, id+1) })
	}
}
