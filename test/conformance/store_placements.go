package conformance

import (
	"fmt"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const elsewhere dispatch.Account = "q/shared"

// acceptSpread stores a task of n jobs with two placements, and one that is not used.
func (t storeTest) acceptSpread(n int) (dispatch.Task, []dispatch.Draft) {
	t.Helper()
	task := dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "tile"}
	task.Request.Placements = []dispatch.Placement{
		{Label: dispatch.OpenEO, Service: task.Request.Service, Account: shared, Base: "base", Hash: -7},
		{Label: dispatch.OpenEO, Service: dispatch.Service{Endpoint: "https://r.example"}, Account: "r/shared",
			Unused: "You may not."},
		{Label: dispatch.OGCProcess, Service: dispatch.Service{Endpoint: "https://q.example", Application: "b"},
			Account: elsewhere, Base: "there", Hash: 8, Document: atPlacement("1").Hash()},
	}
	jobs := make([]dispatch.Draft, n)
	for i := range jobs {
		jobs[i] = draft(ann, shared)
		jobs[i].Number, jobs[i].Body = i+1, fmt.Appendf(nil, `{"n":%d.0}`, i+1)
	}
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, &task, jobs)
	t.must(err)
	return task, jobs
}

// atPlacement returns what defines the service of the second placement of a task of acceptSpread.
func atPlacement(body string) *dispatch.Document {
	return &dispatch.Document{Origin: dispatch.Origin{Platform: elsewhere.Platform(),
		Service: dispatch.Service{Endpoint: "https://q.example", Application: "b"}}, Body: []byte(body)}
}

// placementsInLists checks that lists select by the accounts at which jobs are: a task at each of its placements, and a
// job where it is.
func (t storeTest) placementsInLists() {
	task, jobs := t.acceptSpread(4)
	label := dispatch.LabelMatch{Key: "project", Value: "placements"}
	t.must(t.s.AnnotateTask(t.Context(), ann, task.ID,
		dispatch.AnnotationChange{Labels: map[string]*string{label.Key: &label.Value}}))
	n, err := t.move(0, 1, false)
	t.equal(fmt.Sprint(n, err), "1 <nil>")
	var here, there []dispatch.JobID
	for _, j := range jobs {
		if t.load(j.ID).Account == elsewhere {
			there = append(there, j.ID)
		} else {
			here = append(here, j.ID)
		}
	}
	t.equal(fmt.Sprint(len(here), len(there)), "3 1")
	began := t.load(jobs[0].ID).Created.Add(-time.Hour)
	for _, c := range []struct {
		accounts []dispatch.Account
		tasks    int
		jobs     []dispatch.JobID
	}{
		{[]dispatch.Account{shared}, 1, here},
		{[]dispatch.Account{elsewhere}, 1, there},
		{[]dispatch.Account{"s/shared", elsewhere}, 1, there},
		{[]dispatch.Account{"r/shared"}, 0, []dispatch.JobID{}}, // a placement that is not used
		{[]dispatch.Account{"s/shared"}, 0, []dispatch.JobID{}},
	} {
		waiting := []dispatch.Status{dispatch.Accepted, dispatch.Failed}
		for _, p := range []dispatch.Page{{}, {Statuses: waiting}, {Since: began}, {Statuses: waiting, Limit: 9},
			{Since: began, Statuses: waiting, Limit: 9}} {
			p.Accounts = c.accounts
			t.equal(t.numbers(task.ID, p), c.jobs)
			for _, p.Label = range []dispatch.LabelMatch{{}, label} {
				tasks, err := t.s.Tasks(t.Context(), ann,
					dispatch.Page{Accounts: p.Accounts, Since: p.Since, Label: p.Label, Limit: p.Limit})
				t.must(err)
				t.equal(len(tasks), c.tasks)
			}
		}
		first := t.numbers(task.ID, dispatch.Page{Accounts: c.accounts, Limit: 1})
		t.equal(first, c.jobs[:min(1, len(c.jobs))])
	}
}

// redefinePlacements checks that the change of a document at a placement is shown on the task, and on the jobs that
// wait there, for as long as jobs wait.
func (t storeTest) redefinePlacements() {
	task, jobs := t.acceptSpread(3)
	shows := func(want, here, there dispatch.Attention) {
		t.Helper()
		shown, err := t.s.Task(t.Context(), ann, task.ID)
		t.must(err)
		all, err := t.s.Tasks(t.Context(), ann, dispatch.Page{})
		t.must(err)
		its, err := t.s.TaskJobs(t.Context(), ann, task.ID, dispatch.Page{})
		t.must(err)
		got := []dispatch.Attention{shown.Attention, all[0].Attention}
		for i, j := range jobs {
			r, err := t.s.Record(t.Context(), ann, j.ID)
			t.must(err)
			t.equal(r.Attention, its[i].Attention)
			got = append(got, r.Attention)
		}
		t.equal(got, []dispatch.Attention{want, want, there, here, here})
	}
	const none, changed = dispatch.None, dispatch.ServiceChanged
	all, err := t.s.Origins(t.Context())
	t.must(err)
	t.equal(all, []dispatch.Origin{atPlacement("").Origin})
	t.setHash(atPlacement("1"), 0)
	shows(none, none, none)
	t.setHash(atPlacement("2"), 1)
	t.setHash(atPlacement("2"), 0) // once
	shows(changed, none, none)
	n, err := t.move(0, 1, false)
	t.must(err)
	t.equal(n, 1)
	shows(changed, none, changed)
	t.setHash(atPlacement("1"), 1) // back again
	shows(none, none, none)
	t.setHash(atPlacement("3"), 1)
	for _, j := range jobs {
		is := t.load(j.ID)
		is.Phase, is.Status = dispatch.Started, dispatch.Submitted
		t.save(is)
	}
	all, err = t.s.Origins(t.Context())
	t.must(err)
	t.equal(all, []dispatch.Origin{})
	t.setHash(atPlacement("4"), 0) // no job waits
}

// spreadOf returns the only task that is spread.
func (t storeTest) spreadOf() dispatch.SpreadTask {
	t.Helper()
	all, err := t.s.SpreadTasks(t.Context())
	t.must(err)
	if len(all) != 1 {
		t.Fatalf("%d tasks are spread, want one", len(all))
	}
	return all[0]
}

// move moves jobs from the first placement to the second, and returns how many.
func (t storeTest) move(skip, n int, retrying bool, within ...dispatch.Quota) (int, error) {
	t.Helper()
	spread := t.spreadOf()
	n, seen, err := t.s.MoveJobs(t.Context(), dispatch.JobMove{Task: spread.ID, Seen: spread.Seen,
		From: spread.Placements[0].Placement,
		To:   spread.Placements[1].Placement, Skip: skip, N: n, Retrying: retrying}, within...)
	if (n > 0) == (seen == spread.Seen) {
		t.Errorf("%d jobs were moved, and the task's number was %d and is %d", n, spread.Seen, seen)
	}
	return n, err
}

// placements checks which jobs of a task move to another placement, and what becomes of them.
func (t storeTest) placements() {
	t.acceptTask(ann, 2) // has one placement
	task, jobs := t.acceptSpread(8)
	for i, change := range map[int]func(*dispatch.Job){
		1: func(j *dispatch.Job) { j.Phase, j.Begun = dispatch.Creating, 1 },
		2: func(j *dispatch.Job) { j.Orphans = []dispatch.Ref{{ID: "x"}} },
		3: func(j *dispatch.Job) {
			j.Due, j.Attention, j.Notice, j.Past, j.Tries, j.Retried = j.Due.Add(time.Minute), dispatch.Retrying, "why",
				[]dispatch.Ref{{ID: "old"}}, 2, 1
		},
		4: func(j *dispatch.Job) { j.Begun = 1 },
		5: func(j *dispatch.Job) {
			j.Unmetered = []dispatch.Unmetered{{Ref: dispatch.Ref{ID: "y"}, Ended: j.Due, Due: j.Due}}
		},
	} {
		j := t.load(jobs[i].ID)
		change(&j)
		t.save(j)
	}
	t.db.Pass(time.Second)
	spread := t.spreadOf()
	t.equal(spread.Placements, []dispatch.PlacementLoad{{Placement: dispatch.Placement{Account: shared, Base: "base",
		Hash: -7}, Held: 1, Waiting: 7, Retrying: 1},
		{Placement: dispatch.Placement{Account: elsewhere, Base: "there", Hash: 8}}})
	for _, want := range []struct {
		skip     int
		retrying bool
		job      int // that moves
	}{{1, false, 6}, {0, true, 3}} {
		before, now := t.load(jobs[want.job].ID), t.readAgenda().Now
		n, err := t.move(want.skip, 1, want.retrying)
		t.must(err)
		moved, can := before.MovedTo(spread.Placements[1].Placement, now)
		moved.Version++
		t.equal(t.load(before.ID), moved)
		if !can || n != 1 {
			t.Errorf("%d jobs moved, by the domain: %v", n, can)
		}
		r, err := t.s.Request(t.Context(), before.ID)
		t.must(err)
		t.equal(r.Service, task.Request.Placements[2].Service)
		t.equal(r.Label, dispatch.OGCProcess)
	}
	g, err := t.s.Agenda(t.Context(), elsewhere, 10, 0)
	t.must(err)
	t.equal(fmt.Sprint(len(g.Queues), g.Wakes > 0), "1 true")
	saved, err := t.s.Save(t.Context(), []dispatch.Job{jobs[6].Job}) // by a visit that has read it before
	t.must(err)
	t.equal(saved, []dispatch.Job(nil))
	n, err := t.move(1, 10, false)
	t.equal(fmt.Sprint(n, err), "1 <nil>") // the last of those that certainly run nowhere
	n, _, err = t.s.MoveJobs(t.Context(), dispatch.JobMove{Task: task.ID, Seen: spread.Seen,
		From: spread.Placements[0].Placement, To: spread.Placements[1].Placement, N: 5})
	t.equal(fmt.Sprint(n, err), "0 <nil>") // others were moved since
	listed, err := t.s.TaskJobs(t.Context(), ann, task.ID, dispatch.Page{Most: 1000})
	t.must(err)
	t.equal(fmt.Sprint(listed[0].Request.Service.Application, listed[3].Request.Service.Application,
		listed[6].Request.Service.Application), "abb")
}

// placementsCosts checks that what a job cost at one placement stays booked there, once and in the unit of that
// platform, when it is retried at another one.
func (t storeTest) placementsCosts() {
	ctx := t.Context()
	task, jobs := t.acceptSpread(2)
	t.must(t.s.AnnotateTask(ctx, ann, task.ID, setting("project", "x")))
	id := jobs[0].ID
	end := func(s dispatch.Status, costs float64, unit string) {
		t.end(id, s, func(j *dispatch.Job) { j.Costs, j.Unit, j.Updated = &costs, unit, t.readAgenda().Now })
	}
	end(dispatch.Failed, 2.5, "credits")
	_, _, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{})
	t.must(err)
	t.equal(t.spreadOf().Placements[0].Retrying, 1)
	was := t.load(id)
	n, err := t.move(0, 1, true)
	t.equal(fmt.Sprint(n, err), "1 <nil>")
	moved := t.load(id)
	t.equal(fmt.Sprint(was.Spent, was.Unit, moved.Account, moved.Spent, moved.Unit),
		fmt.Sprint(2.5, "credits", elsewhere, 0, ""))
	end(dispatch.Finished, 4, "€")
	month := t.readAgenda().Now.UTC().Format("2006-01")
	here, there := dispatch.Charge{Month: month, Unit: "credits", Costs: 2.5, Runs: 1}, dispatch.Charge{Month: month,
		Unit: "€", Costs: 4, Runs: 1}
	usage, err := t.s.Usage(ctx, ann, time.Hour)
	t.must(err)
	charges := map[dispatch.Account][]dispatch.Charge{}
	for _, u := range usage {
		charges[u.Account] = u.Charges
	}
	t.equal(charges, map[dispatch.Account][]dispatch.Charge{shared: {here}, elsewhere: {there}})
	labeled, err := t.s.LabelCharges(ctx, ann, "project", 10)
	t.must(err)
	label := "x"
	here.Label, there.Label = &label, &label
	t.equal(labeled, []dispatch.AccountCharge{{Account: elsewhere, Charge: there}, {Account: shared, Charge: here}})
}

// placementsHeld checks that a placement says why it submits nothing, that a quota limits what moves there, and that
// the task shows the hold that ends first.
func (t storeTest) placementsHeld() {
	task, _ := t.acceptSpread(4)
	t.must(t.s.Hold(t.Context(), shared, time.Hour, dispatch.Unreachable, "down"))
	why := func() string {
		spread := t.spreadOf()
		return fmt.Sprintf("%s,%s", spread.Placements[0].Why, spread.Placements[1].Why)
	}
	t.equal(why(), "platform_unavailable,")
	shows := func() dispatch.Attention {
		r, err := t.s.Task(t.Context(), ann, task.ID)
		t.must(err)
		return r.Attention
	}
	t.equal(shows(), dispatch.None)
	t.must(t.s.Hold(t.Context(), elsewhere, time.Minute, dispatch.NeedsSignIn, ""))
	t.equal(shows(), dispatch.NeedsSignIn)
	t.equal(why(), "platform_unavailable,sign_in_required")
	two := dispatch.Quota{Account: elsewhere, Live: 2}
	n, err := t.move(0, 3, false, two)
	t.kind(err, dispatch.LimitReached)
	t.equal(n, 0)
	n, err = t.move(0, 2, false, two)
	t.equal(fmt.Sprint(n, err), "2 <nil>")
	_, err = t.s.PauseTask(t.Context(), ann, task.ID)
	t.must(err)
	n, err = t.move(0, 2, false)
	t.equal(fmt.Sprint(n, err), "0 <nil>")
	wakes := func() int64 { g, err := t.s.Agenda(t.Context(), elsewhere, 1, 0); t.must(err); return g.Wakes }
	before := wakes()
	_, err = t.s.CancelTask(t.Context(), ann, task.ID, false)
	t.must(err)
	if wakes() == before {
		t.Error("a cancel does not wake the other placement")
	}
	all, err := t.s.SpreadTasks(t.Context())
	t.must(err)
	t.equal(len(all), 0)
}

// placementsFailing checks that a placement at which the last jobs failed says so until one finishes there, and that a
// retried job is to go elsewhere.
func (t storeTest) placementsFailing() {
	task, jobs := t.acceptSpread(6)
	ends := func(i int, s dispatch.Status) {
		t.db.Pass(time.Second)
		t.end(jobs[i].ID, s, func(j *dispatch.Job) { j.Moved = t.readAgenda().Now })
	}
	for i, want := range []bool{false, false, true} {
		ends(i, dispatch.Failed)
		spread := t.spreadOf()
		t.equal([]bool{spread.Placements[0].Failing, spread.Placements[1].Failing}, []bool{want, false})
	}
	ends(3, dispatch.Finished)
	t.equal(t.spreadOf().Placements[0].Failing, false)
	_, n, err := t.s.RetryTask(t.Context(), ann, task.ID, dispatch.Choice{})
	t.must(err)
	t.equal(fmt.Sprint(n, t.spreadOf().Placements[0].Retrying, t.load(jobs[1].ID).Attention), "3 3retrying")
	n, err = t.move(0, 3, true)
	t.equal(fmt.Sprint(n, err), "3 <nil>")
}

// placementsRestored checks that a task with several placements is paused after a restore, and one with a single
// placement is not.
func (t storeTest) placementsRestored() {
	spread, _ := t.acceptSpread(2)
	other, _ := t.acceptTask(ann, 1)
	_, err := t.s.MarkRestored(t.Context(), dispatch.CompareFirst)
	t.must(err)
	for id, want := range map[dispatch.TaskID]bool{spread.ID: true, other.ID: false} {
		is, err := t.s.Task(t.Context(), ann, id)
		t.must(err)
		t.equal(is.Paused, want)
	}
	_, err = t.s.ResumeTask(t.Context(), ann, spread.ID, nil)
	t.must(err)
	n, err := t.move(0, 2, false)
	t.equal(fmt.Sprint(n, err), "0 <nil>") // the account is not compared yet
}

// parallelMoves checks that each job is moved or intended, never both, while many do so at once.
func (t storeTest) parallelMoves() {
	const jobs = 40
	task, drafts := t.acceptSpread(jobs)
	lease := t.lease()
	var all sync.WaitGroup
	for _, s := range t.handles(3) {
		all.Go(func() {
			for range jobs {
				spread, err := s.SpreadTasks(t.Context())
				if err != nil || len(spread) != 1 {
					t.Error(len(spread), err)
					return
				}
				if _, _, err := s.MoveJobs(t.Context(), dispatch.JobMove{Task: task.ID, Seen: spread[0].Seen,
					From: spread[0].Placements[0].Placement, To: spread[0].Placements[1].Placement, N: 2}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	intended := map[dispatch.JobID]bool{}
	for _, d := range drafts {
		kept, err := t.s.Intend(t.Context(), lease, limits, []dispatch.Job{d.Job})
		t.must(err)
		for _, j := range kept {
			intended[j.ID] = true
		}
	}
	all.Wait()
	for _, d := range drafts {
		j := t.load(d.ID)
		if at := j.Account == shared; at != intended[j.ID] || at != (j.Phase == dispatch.Creating) {
			t.Errorf("job %d is %s at %s, intended: %v", j.ID, j.Phase, j.Account, intended[j.ID])
		}
	}
}
