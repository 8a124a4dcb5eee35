package conformance

import (
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// end gives a task's job a status, as a visit does.
func (t storeTest) end(id dispatch.JobID, s dispatch.Status, change func(*dispatch.Job)) dispatch.Job {
	t.Helper()
	j := t.load(id)
	j.Status = s
	if s.Final() {
		j.Phase = dispatch.Ended
	}
	if change != nil {
		change(&j)
	}
	return t.save(j)
}

// dimensions stores a job with two dimensions as it stores one: the text between the name of the first and the end of
// the parameters.
func (t storeTest) dimensions() {
	const value = `[ 5.0,51],"when":["2024-01-01","2024-02-01"]`
	task := dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "tile"}
	one := draft(ann, shared)
	one.Number, one.Body, one.Names = 1, []byte(value), []string{"31UFS <é>", ""}
	jobs := []dispatch.Draft{one}
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, &task, jobs)
	t.must(err)
	r, err := t.s.Request(t.Context(), jobs[0].ID)
	t.must(err)
	records, err := t.s.TaskJobs(t.Context(), ann, task.ID, dispatch.Page{Most: dispatch.PartMost})
	t.must(err)
	want := []dispatch.Argument{{Name: "tile", Value: []byte(`[ 5.0,51]`)},
		{Name: "when", Value: []byte(`["2024-01-01","2024-02-01"]`)}}
	t.equal(task.Arguments(task.ValueOf(r)), want)
	t.equal(task.Arguments(records[0].Value), want)

	title := request().Title + " - Processing Job 1 (31UFS <é>)"
	t.equal([]string{r.Title, records[0].Request.Title}, []string{title, title})
	t.equal(records[0].Names, one.Names)
	ended := t.load(jobs[0].ID)
	ended.Phase, ended.Status = dispatch.Ended, dispatch.Failed
	t.equal(t.save(ended.Retry(t.readAgenda().Now)).Names, one.Names)
}

func (t storeTest) tasks() {
	ctx := t.Context()
	t.accept()
	first, jobs := t.acceptTask(ann, 5)
	t.db.Pass(time.Second)
	second, _ := t.acceptTask(ann, 3)
	hers, _ := t.acceptTask(bob, 1)
	half := 50.0
	t.end(jobs[0].ID, dispatch.Finished, func(j *dispatch.Job) { j.Progress = &half }) // its progress no longer counts
	t.end(jobs[1].ID, dispatch.Failed, nil)
	t.end(jobs[2].ID, dispatch.Running, func(j *dispatch.Job) { j.Phase, j.Progress = dispatch.Started, &half })
	_, err := t.s.Cancel(ctx, ann, jobs[4].ID, true)
	t.must(err)
	t.s = t.db.Restart()

	record := func(of dispatch.Task, progress float64, c dispatch.Counts) dispatch.TaskRecord {
		return dispatch.TaskRecord{Task: of, Counts: c, Progress: progress}
	}
	want := []dispatch.TaskRecord{record(second, 0, dispatch.Counts{dispatch.Accepted: 3}),
		record(first, 62.5, dispatch.Counts{dispatch.Finished: 1, dispatch.Failed: 1, dispatch.Running: 1,
			dispatch.Accepted: 1})}
	got, err := t.s.Tasks(ctx, ann, dispatch.Page{})
	t.must(err)
	t.equal(got, want)
	one, err := t.s.Task(ctx, ann, first.ID)
	t.must(err)
	t.equal(one, want[1])
	records, err := t.s.TaskJobs(ctx, ann, first.ID, dispatch.Page{})
	t.must(err)
	if len(records) != 4 {
		t.Fatalf("%d jobs, want 4", len(records))
	}
	for i, r := range records {
		want, err := t.s.Record(ctx, ann, jobs[i].ID)
		t.must(err)
		t.equal(r, want)
	}
	t.must(t.s.Hold(ctx, shared, time.Minute, dispatch.NeedsSignIn, "Sign in."))
	records, err = t.s.TaskJobs(ctx, ann, first.ID, dispatch.Page{})
	t.must(err)
	if records[3].Attention != dispatch.NeedsSignIn || records[2].Attention != dispatch.None {
		t.Errorf("attentions %q, %q", records[3].Attention, records[2].Attention)
	}
	t.attentions(dispatch.NeedsSignIn, first.ID, second.ID)
	_, err = t.s.PauseTask(ctx, ann, second.ID)
	t.must(err)
	t.attentions(dispatch.Paused, second.ID) // not what its jobs would wait for then
	t.db.Pass(2 * time.Minute)
	t.attentions(dispatch.None, first.ID)
	t.noTask(ann, hers.ID)
	t.noTask(ann, hers.ID+1e6)
	t.endOfTask()
}

// endOfTask checks that a task ended when the last of its jobs did, whatever is reported of them later.
func (t storeTest) endOfTask() {
	task, jobs := t.acceptTask(ann, 3)
	ended := func(want time.Time) {
		t.Helper()
		one, err := t.s.Task(t.Context(), ann, task.ID)
		t.must(err)
		list, err := t.s.Tasks(t.Context(), ann, dispatch.Page{Limit: 1})
		t.must(err)
		t.equal([]time.Time{one.Ended, list[0].Ended}, []time.Time{want, want})
	}
	end := func(i int, s dispatch.Status) time.Time {
		t.db.Pass(time.Minute)
		return t.end(jobs[i].ID, s, func(j *dispatch.Job) { j.Moved = t.readAgenda().Now; j.Updated = j.Moved }).Moved
	}
	first := end(0, dispatch.Finished)
	end(1, dispatch.Canceled)
	ended(time.Time{})
	last := end(2, dispatch.Failed)
	ended(last)
	t.db.Pass(time.Hour)
	t.end(jobs[0].ID, dispatch.Finished, func(j *dispatch.Job) { j.Costs, j.Updated = new(2.5), t.readAgenda().Now })
	ended(last)
	for _, j := range jobs[1:] { // their owner deletes them
		_, err := t.s.Cancel(t.Context(), ann, j.ID, true)
		t.must(err)
	}
	ended(first)
}

// attentions checks what tasks show as their attention, alone and in a list.
func (t storeTest) attentions(want dispatch.Attention, ids ...dispatch.TaskID) {
	t.Helper()
	list, err := t.s.Tasks(t.Context(), ann, dispatch.Page{})
	t.must(err)
	for _, id := range ids {
		one, err := t.s.Task(t.Context(), ann, id)
		t.must(err)
		i := slices.IndexFunc(list, func(r dispatch.TaskRecord) bool { return r.ID == id })
		if i < 0 || one.Attention != want || list[i].Attention != want {
			t.Errorf("task %d shows %q, and in the list %v; want %q", id, one.Attention, list, want)
		}
	}
}

// noTask checks that u cannot find or change the task by any method.
func (t storeTest) noTask(u dispatch.UserID, id dispatch.TaskID) {
	t.Helper()
	_, err := t.s.Task(t.Context(), u, id)
	t.kind(err, dispatch.NotFound)
	_, err = t.s.TaskJobs(t.Context(), u, id, dispatch.Page{})
	t.kind(err, dispatch.NotFound)
	_, err = t.s.CancelTask(t.Context(), u, id, true)
	t.kind(err, dispatch.NotFound)
	t.noPause(u, id)
	_, _, err = t.s.RetryTask(t.Context(), u, id, dispatch.Choice{})
	t.kind(err, dispatch.NotFound)
	tasks, err := t.s.Tasks(t.Context(), u, dispatch.Page{})
	t.must(err)
	if slices.ContainsFunc(tasks, func(r dispatch.TaskRecord) bool { return r.ID == id }) {
		t.Errorf("task %d is listed", id)
	}
}

func (t storeTest) cancelTask() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 6)
	other, _ := t.acceptTask(ann, 2)
	phases := []dispatch.Phase{dispatch.Waiting, dispatch.Creating, dispatch.Created, dispatch.Started, dispatch.Ended,
		dispatch.Waiting}
	before := make([]dispatch.Job, len(jobs))
	for i, p := range phases {
		before[i] = t.load(jobs[i].ID)
		if p != dispatch.Waiting {
			before[i].Phase, before[i].Status, before[i].Due = p, dispatch.Submitted, t.readAgenda().Now.Add(time.Hour)
			before[i].SendBy = t.readAgenda().Now.Add(30 * time.Second)
			before[i] = t.save(before[i])
		}
	}
	alone, err := t.s.Cancel(ctx, ann, jobs[5].ID, false)
	t.must(err)
	before[5] = alone
	wakes := t.readAgenda().Wakes
	t.db.Pass(time.Second)
	a, err := t.s.CancelTask(ctx, ann, task.ID, true)
	t.must(err)
	if a != shared || t.readAgenda().Wakes == wakes {
		t.Errorf("account %q, woken: %v", a, t.readAgenda().Wakes != wakes)
	}
	now := t.readAgenda().Now
	for i, p := range phases {
		want := before[i]
		want.Hidden = true
		if i < 4 {
			want.Desired, want.Version = dispatch.WantCancel, want.Version+1
		}
		switch {
		case i == 0:
			want.Phase, want.Status, want.Epoch, want.Due, want.Moved, want.Updated = dispatch.Ended, dispatch.Canceled,
				1, now, now, now
		case p.InDoubt():
			want.Due = want.SendBy.Add(dispatch.SettleMargin)
		case p == dispatch.Created, p == dispatch.Started:
			want.Due = now
		}
		t.equal(t.load(want.ID), want)
		t.foreign(ann, want.ID)
	}
	t.noTask(ann, task.ID)
	rest, err := t.s.Task(ctx, ann, other.ID)
	t.must(err)
	t.equal(rest.Counts, dispatch.Counts{dispatch.Accepted: 2})

	for _, j := range jobs {
		t.end(j.ID, dispatch.Canceled, nil)
	}
	t.db.Pass(2 * time.Hour)
	t.must(t.s.Purge(ctx, time.Hour))
	_, err = t.s.Load(ctx, jobs[0].ID)
	t.kind(err, dispatch.NotFound)
	_, err = t.s.Task(ctx, ann, other.ID)
	t.must(err)
}

func (t storeTest) retryTask() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 6)
	failed := t.end(jobs[0].ID, dispatch.Failed, func(j *dispatch.Job) {
		j.Ref, j.Failure = dispatch.Ref{Base: "b",
			ID: "x"}, "no data"
	})
	twice := t.end(jobs[1].ID, dispatch.Failed, func(j *dispatch.Job) { j.Past = []dispatch.Ref{{ID: "y"}} })
	finished := t.end(jobs[2].ID, dispatch.Finished, nil)
	deleted := t.end(jobs[3].ID, dispatch.Failed, nil)
	_, err := t.s.Cancel(ctx, ann, deleted.ID, true)
	t.must(err)
	unwanted, err := t.s.Cancel(ctx, ann, jobs[4].ID, false)
	t.must(err)
	unwanted = t.end(unwanted.ID, dispatch.Failed, nil)
	t.db.Pass(time.Minute)
	wakes := t.readAgenda().Wakes
	a, n, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{})
	t.must(err)
	if a != shared || n != 2 || t.readAgenda().Wakes == wakes {
		t.Errorf("account %q, %d jobs, woken: %v", a, n, t.readAgenda().Wakes != wakes)
	}
	for _, j := range []dispatch.Job{failed, twice} {
		want := j.Retry(t.readAgenda().Now)
		want.Version++
		t.equal(t.load(j.ID), want)
	}
	for _, j := range []dispatch.Job{finished, unwanted, jobs[5].Job} {
		t.equal(t.load(j.ID), j)
	}
	if j := t.load(deleted.ID); j.Phase != dispatch.Ended {
		t.Errorf("a deleted job is %s", j.Phase)
	}
	wakes = t.readAgenda().Wakes
	if _, n, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{}); err != nil || n != 0 ||
		t.readAgenda().Wakes != wakes {
		t.Errorf("nothing failed, and %d are retried, %v", n, err)
	}
	if kept, err := t.s.Save(ctx, []dispatch.Job{failed}); err != nil || len(kept) > 0 {
		t.Errorf("saved over a retry: %v, %v", kept, err)
	}
}

func (t storeTest) awaitTask() {
	ctx := t.Context()
	alone := t.accept()
	task, jobs := t.acceptTask(ann, 2)
	other, more := t.acceptTask(ann, 1)
	all := []dispatch.JobID{alone.ID, jobs[0].ID, more[0].ID}
	for _, c := range []struct {
		scope dispatch.Scope
		want  []dispatch.JobID
	}{
		{dispatch.Scope{Task: task.ID}, []dispatch.JobID{jobs[0].ID}},
		{dispatch.Scope{Task: other.ID}, []dispatch.JobID{more[0].ID}},
		{dispatch.Scope{Alone: true}, []dispatch.JobID{alone.ID}},
		{dispatch.Scope{Tasks: true}, []dispatch.JobID{jobs[0].ID, more[0].ID}},
		{dispatch.Scope{Alone: true, Tasks: true}, all},
		{dispatch.Scope{Job: jobs[0].ID}, []dispatch.JobID{jobs[0].ID}},
		{dispatch.Scope{Job: jobs[1].ID}, nil}, // it waits
		{dispatch.Scope{}, nil},
	} {
		for _, id := range all {
			j := t.load(id)
			j.Phase, j.Awaited = dispatch.Started, false
			t.save(j)
		}
		as, err := t.s.MarkAwaited(ctx, ann, c.scope, time.Second, 0)
		t.must(err)
		awaited, err := t.s.AnyAwaited(ctx, ann, c.scope)
		t.must(err)
		if len(as) > 0 != (len(c.want) > 0) || awaited != (len(c.want) > 0) {
			t.Errorf("%+v: accounts %v, awaited %v", c.scope, as, awaited)
		}
		for _, id := range all {
			if is := t.load(id).Awaited; is != slices.Contains(c.want, id) {
				t.Errorf("%+v: job %d awaited: %v", c.scope, id, is)
			}
		}
		if hers, err := t.s.AnyAwaited(ctx, bob, c.scope); err != nil || hers {
			t.Errorf("%+v: awaited by another: %v, %v", c.scope, hers, err)
		}
	}
}

// taskAttention checks the attention of a task whose jobs wait for different things.
func (t storeTest) taskAttention() {
	task, jobs := t.acceptTask(ann, 3)
	shows := func(want dispatch.Attention) {
		t.Helper()
		is, err := t.s.Task(t.Context(), ann, task.ID)
		t.must(err)
		list, err := t.s.Tasks(t.Context(), ann, dispatch.Page{})
		t.must(err)
		t.equal([]dispatch.Attention{is.Attention, list[0].Attention}, []dispatch.Attention{want, want})
	}
	shows(dispatch.None)
	for i, step := range []struct{ is, want dispatch.Attention }{
		{dispatch.NotTaken, dispatch.NotTaken}, {dispatch.NeedsSignIn, dispatch.NeedsSignIn},
		{dispatch.Stalled, dispatch.NeedsSignIn},
	} {
		j := t.load(jobs[i].ID)
		j.Attention = step.is
		t.save(j)
		shows(step.want)
	}
	_, err := t.s.Cancel(t.Context(), ann, jobs[1].ID, true)
	t.must(err)
	shows(dispatch.Stalled)
}

// numbers returns the ids of a page of a task's jobs.
func (t storeTest) numbers(id dispatch.TaskID, p dispatch.Page) (ids []dispatch.JobID) {
	t.Helper()
	records, err := t.s.TaskJobs(t.Context(), ann, id, p)
	t.must(err)
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return ids
}
