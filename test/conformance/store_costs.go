package conformance

import (
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// ledger checks that what runs cost stays booked by month and unit through retries and deletion, and that corrections
// are.
func (t storeTest) ledger() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 2)
	cost := func(c float64, unit string) func(*dispatch.Job) {
		return func(j *dispatch.Job) { j.Costs, j.Unit, j.Updated = &c, unit, t.readAgenda().Now }
	}
	months := func(want ...dispatch.Charge) {
		t.Helper()
		got, err := t.s.Usage(ctx, ann, time.Hour)
		t.must(err)
		if len(got) != 1 {
			t.Fatalf("usage %+v", got)
		}
		t.equal(got[0].Charges, want)
	}
	this := t.readAgenda().Now.UTC().Format("2006-01")
	t.end(jobs[0].ID, dispatch.Running, func(j *dispatch.Job) { j.Phase = dispatch.Started })
	t.end(jobs[0].ID, dispatch.Failed, cost(2.5, "credits"))
	t.end(jobs[1].ID, dispatch.Finished, cost(0.25, "€"))
	months(dispatch.Charge{Month: this, Unit: "credits", Costs: 2.5, Runs: 1}, dispatch.Charge{Month: this, Unit: "€",
		Costs: 0.25, Runs: 1})
	_, n, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{})
	t.must(err)
	again := t.load(jobs[0].ID)
	if n != 1 || again.Spent != 2.5 || again.Costs != nil || again.Unit != "credits" {
		t.Errorf("%d retried, spent %v, costs %v %s", n, again.Spent, again.Costs, again.Unit)
	}
	t.end(jobs[0].ID, dispatch.Finished, cost(4, "credits"))
	months(dispatch.Charge{Month: this, Unit: "credits", Costs: 6.5, Runs: 2}, dispatch.Charge{Month: this, Unit: "€",
		Costs: 0.25, Runs: 1})
	t.end(jobs[0].ID, dispatch.Finished, cost(3, "credits")) // corrected
	t.end(jobs[0].ID, dispatch.Finished, func(j *dispatch.Job) { j.Spent += 1 })
	t.db.Pass(40 * 24 * time.Hour)
	t.end(jobs[0].ID, dispatch.Finished, cost(-1, "credits")) // nonsense counts as 0
	next := t.readAgenda().Now.UTC().Format("2006-01")
	want := []dispatch.Charge{{Month: next, Unit: "credits", Costs: -3}, {Month: this, Unit: "credits", Costs: 6.5,
		Runs: 3}, {Month: this, Unit: "€", Costs: 0.25, Runs: 1}}
	months(want...)
	_, err = t.s.CancelTask(ctx, ann, task.ID, true)
	t.must(err)
	t.db.Pass(time.Hour)
	t.must(t.s.Purge(ctx, time.Minute))
	months(want...)
}

// retriedCosts checks that what a job cost in the end is booked when it is retried by itself at once, also if the
// platform reported some of it before.
func (t storeTest) retriedCosts() {
	for _, before := range []func(*dispatch.Job){costs(1, "credits"), nil} {
		j := t.end(t.accept().ID, dispatch.Running, func(j *dispatch.Job) {
			j.Phase = dispatch.Started
			if before != nil {
				before(j)
			}
		})
		j.Costs, j.Unit, j.Phase, j.Status = amountOf(2.5), "credits", dispatch.Ended, dispatch.Failed
		t.save(j.Retry(t.readAgenda().Now))
	}
	usage, err := t.s.Usage(t.Context(), ann, time.Hour)
	t.must(err)
	t.equal(usage[0].Charges, []dispatch.Charge{{Month: t.readAgenda().Now.UTC().Format("2006-01"), Unit: "credits",
		Costs: 5, Runs: 2}})
}

// labelCosts checks that what runs cost is booked by the labels that the job, or else its task, had then, through
// retries, changes and deletion, and for LabelCostsLife.
func (t storeTest) labelCosts() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 2)
	alone, plain := t.accept(), t.accept()
	t.must(t.s.AnnotateTask(ctx, ann, task.ID, setting("project", "x")))
	t.must(t.s.AnnotateTask(ctx, ann, task.ID, setting("season", "wet")))
	t.must(t.s.AnnotateJob(ctx, ann, jobs[1].ID, setting("project", "é \"y\"")))
	note := "no label"
	t.must(t.s.AnnotateJob(ctx, ann, plain.ID, dispatch.AnnotationChange{Note: &note}))
	t.must(t.s.AnnotateJob(ctx, ann, alone.ID, setting("project", "")))
	t.must(t.s.AnnotateJob(ctx, ann, alone.ID, dispatch.AnnotationChange{Note: &note}))
	cost := func(c float64) func(*dispatch.Job) {
		return func(j *dispatch.Job) { j.Costs, j.Unit, j.Updated = &c, "credits", t.readAgenda().Now }
	}
	this := t.readAgenda().Now.UTC().Format("2006-01")
	charge := func(costs float64, runs int, value string) dispatch.AccountCharge {
		return dispatch.AccountCharge{Account: shared,
			Charge: dispatch.Charge{Month: this, Unit: "credits", Costs: costs, Runs: runs, Label: &value}}
	}
	by := func(u dispatch.UserID, label string, n int, want ...dispatch.AccountCharge) {
		t.Helper()
		got, err := t.s.LabelCharges(ctx, u, label, n)
		t.must(err)
		t.equal(append([]dispatch.AccountCharge{}, got...), append([]dispatch.AccountCharge{}, want...))
	}
	by(ann, "project", 9)
	t.end(jobs[0].ID, dispatch.Failed, cost(2.5))
	t.end(jobs[1].ID, dispatch.Finished, cost(0.25))
	t.end(alone.ID, dispatch.Finished, cost(1))
	t.end(plain.ID, dispatch.Finished, cost(7))
	by(ann, "project", 9, charge(2.5, 1, "x"), charge(1, 1, ""), charge(0.25, 1, "é \"y\""))
	by(ann, "season", 9, charge(2.75, 2, "wet"))
	by(ann, "project", 1, charge(2.5, 1, "x"))
	by(bob, "project", 9)
	by(ann, "other", 9)
	t.must(t.s.AnnotateTask(ctx, ann, task.ID, setting("project", "z")))
	_, _, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{})
	t.must(err)
	t.end(jobs[0].ID, dispatch.Finished, cost(4))
	want := []dispatch.AccountCharge{charge(4, 1, "z"), charge(2.5, 1, "x"), charge(1, 1, ""),
		charge(0.25, 1, "é \"y\"")}
	by(ann, "project", 9, want...)
	_, err = t.s.CancelTask(ctx, ann, task.ID, true)
	t.must(err)
	t.db.Pass(time.Hour)
	t.must(t.s.Purge(ctx, time.Minute))
	by(ann, "project", 9, want...)
	t.db.Pass(dispatch.LabelCostsLife + 32*dispatch.Day)
	t.must(t.s.Purge(ctx, time.Minute))
	by(ann, "project", 9)
}

// costQuota checks that a quota on the costs of a month counts what was reported in it, at its account, and not what
// others cost.
func (t storeTest) costQuota() {
	ctx := t.Context()
	within := dispatch.Quota{Account: shared, Costs: 5}
	ask := func(u dispatch.UserID, a dispatch.Account, q dispatch.Quota) error {
		_, err := t.s.Accept(ctx, dispatch.Key{}, nil, []dispatch.Draft{draft(u, a)}, q)
		return err
	}
	for _, costs := range []float64{4.5, 0.5} {
		t.must(ask(ann, shared, within))
		j := t.accept()
		j.Phase, j.Status, j.Costs, j.Unit, j.Updated = dispatch.Ended, dispatch.Finished, &costs, "credits",
			t.readAgenda().Now
		t.save(j)
	}
	month := t.readAgenda().Now.UTC().Format("2006-01")
	err := ask(ann, shared, within)
	t.kind(err, dispatch.LimitReached)
	t.equal(dispatch.TextFor(err),
		"A user's jobs at p may cost 5 credits in a month. Yours have cost 5 since the first of "+month+
			" (UTC). Submit again next month, or ask the operator of this service.")
	t.must(ask(bob, shared, within))
	t.must(ask(ann, "q/shared", dispatch.Quota{Account: "q/shared", Costs: 5}))
	t.db.Pass(31 * 24 * time.Hour)
	t.must(ask(ann, shared, within))
}

// unmetered checks that jobs whose costs are still to be read come back, and are on the agenda when they are due,
// whatever their phase.
func (t storeTest) unmetered() {
	first, second := t.accept(), t.accept()
	now, three := t.readAgenda().Now, 3.0
	first.Metered = dispatch.Metered{CPU: &dispatch.Amount{Value: 12.5, Unit: "cpu-seconds"},
		Input: &dispatch.Amount{Value: 1}}
	first.Phase, first.Status, first.Costs, first.Spent, first.Unit = dispatch.Ended, dispatch.Finished, &three, 1.5,
		"credits"
	first.Unmetered = []dispatch.Unmetered{{Ref: dispatch.Ref{ID: "b"}, Ended: now, Due: now.Add(2 * time.Hour),
		Priced: true}, {Ref: dispatch.Ref{Base: "https://p.example/b", ID: "a"}, Ended: now, Due: now.Add(time.Hour)}}
	first = t.save(first)
	t.equal(t.load(first.ID), first)
	second.Unmetered = []dispatch.Unmetered{{Ref: dispatch.Ref{ID: "c"}, Ended: now, Due: now.Add(time.Minute)}}
	second = t.save(second)
	if g := t.readAgenda(); !g.NextMeter.Equal(now.Add(time.Minute)) || len(g.Meter) != 0 || g.NextWaiting.IsZero() {
		t.Errorf("agenda %+v", g)
	}
	t.db.Pass(time.Hour)
	t.equal(t.readAgenda().Meter, []dispatch.Job{second, first})
	second.Unmetered = nil
	t.save(second)
	if g := t.readAgenda(); len(g.Meter) != 1 || !g.NextMeter.Equal(now.Add(time.Hour)) {
		t.Errorf("agenda %+v", g)
	}
}

// finishedRuns checks that the latest finished jobs of a service come back, and none of others.
func (t storeTest) finishedRuns() {
	ctx := t.Context()
	service := draft(ann, shared).Service
	var ends []time.Time
	for i, status := range []dispatch.Status{dispatch.Finished, dispatch.Failed, dispatch.Finished, dispatch.Finished} {
		j, costs := t.accept(), float64(i)
		j.Phase, j.Status, j.Costs, j.Unit, j.Duration = dispatch.Ended, status, &costs, "credits",
			time.Duration(i)*time.Minute
		j.Moved = t.readAgenda().Now
		j.SendBy = j.Moved.Add(-time.Second)
		ends = append(ends, j.Moved)
		t.save(j)
		t.db.Pass(time.Minute)
	}
	three, two := 3.0, 2.0
	got, err := t.s.FinishedRuns(ctx, ann, shared, service, 2)
	t.must(err)
	t.equal(got, []dispatch.FinishedRun{{Costs: &three, Unit: "credits", Duration: 3 * time.Minute,
		SendBy: ends[3].Add(-time.Second), Ended: ends[3]},
		{Costs: &two, Unit: "credits", Duration: 2 * time.Minute, SendBy: ends[2].Add(-time.Second), Ended: ends[2]}})
	sized, err := t.s.FinishedRequests(ctx, ann, shared, service, 2)
	t.must(err)
	for i := range sized {
		t.equal(string(sized[i].Body), string(draft(ann, shared).Body))
		sized[i].Body = nil
	}
	t.equal(sized, got)
	task, jobs := t.acceptLimited(3, dispatch.Budget{}, 0)
	t.equal(t.intendAll(t.lease(), jobs[:2]), []int{1, 2})
	t.end(jobs[0].ID, dispatch.Running, func(j *dispatch.Job) { j.Phase = dispatch.Started })
	t.end(jobs[1].ID, dispatch.Finished, nil)
	underway, err := t.s.Underway(ctx, task.ID)
	t.must(err)
	t.equal(underway, []time.Time{t.load(jobs[0].ID).SendBy})
	one := t.load(jobs[1].ID)
	got, err = t.s.FinishedRunsOfTask(ctx, task.ID, 9)
	t.must(err)
	t.equal(got, []dispatch.FinishedRun{{Costs: one.Costs, Unit: one.Unit, Duration: one.Duration, Task: task.ID,
		SendBy: one.SendBy, Ended: one.Moved}})
	t.db.Pass(time.Minute)
	t.end(jobs[0].ID, dispatch.Finished, nil)
	got, err = t.s.FinishedRunsOfTask(ctx, task.ID, 1)
	if t.must(err); len(got) != 1 || !got[0].Ended.Equal(t.load(jobs[0].ID).Moved) {
		t.Errorf("the latest run of two: %+v", got)
	}
	for _, none := range []func() ([]dispatch.FinishedRun, error){
		func() ([]dispatch.FinishedRun, error) { return t.s.FinishedRunsOfTask(ctx, 0, 9) },
		func() ([]dispatch.FinishedRun, error) { return t.s.FinishedRunsOfTask(ctx, task.ID+1, 9) },
		func() ([]dispatch.FinishedRun, error) { return t.s.FinishedRuns(ctx, bob, shared, service, 9) },
		func() ([]dispatch.FinishedRun, error) { return t.s.FinishedRuns(ctx, ann, "q/shared", service, 9) },
		func() ([]dispatch.FinishedRun, error) { return t.s.FinishedRuns(ctx, ann, shared, service+1, 9) },
	} {
		if got, err := none(); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
	}
}
