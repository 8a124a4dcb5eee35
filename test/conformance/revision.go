package conformance

import (
	"cmp"
	"fmt"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// revisions holds that a task's revision changes with all that is shown of it, and with nothing else.
func (t storeTest) revisions() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 3)
	revision := func() dispatch.TaskRevision {
		r, err := t.s.TaskRevision(ctx, ann, task.ID, time.Minute)
		t.must(err)
		return r
	}
	was := revision()
	for _, c := range []struct {
		name   string
		change func()
		shown  bool
	}{
		{"nothing", func() {}, false},
		{"a status", func() {
			t.change(jobs[0].ID, func(j *dispatch.Job) { j.Phase, j.Status = dispatch.Started, dispatch.Running })
		}, true},
		{"the time of asking",
			func() { t.touchJob(jobs[0].ID, func(j *dispatch.Job) { j.Checked = j.Checked.Add(time.Hour) }) }, false},
		{"another's job", func() { t.acceptFor(bob, shared) }, false},
		{"a hold", func() { t.must(t.s.Hold(ctx, shared, time.Hour, dispatch.NeedsSignIn, "because")) }, true},
		{"its end", func() { t.must(t.s.Hold(ctx, shared, 0, dispatch.None, "")) }, true},
		{"a progress", func() { half := 50.0; t.change(jobs[0].ID, func(j *dispatch.Job) { j.Progress = &half }) }, true},
		{"a pause", func() { _, err := t.s.PauseTask(ctx, ann, task.ID); t.must(err) }, true},
		{"a pause again", func() { _, err := t.s.PauseTask(ctx, ann, task.ID); t.must(err) }, false},
		{"its end too", func() { _, err := t.s.ResumeTask(ctx, ann, task.ID, nil); t.must(err) }, true},
		{"a job is deleted", func() { _, err := t.s.Cancel(ctx, ann, jobs[1].ID, true); t.must(err) }, true},
		{"a job is canceled", func() { _, err := t.s.Cancel(ctx, ann, jobs[2].ID, false); t.must(err) }, true},
	} {
		t.db.Pass(time.Second)
		c.change()
		now := revision()
		if now.Revision != was.Revision != c.shown {
			t.Errorf("%s: %+v, before %+v", c.name, now, was)
		}
		if now.TimeDependent != 0 {
			t.Errorf("%s: %d time-dependent", c.name, now.TimeDependent)
		}
		was = now
	}
	t.touchJob(jobs[0].ID, func(j *dispatch.Job) { j.Tries = 1 })
	if r := revision(); r.TimeDependent != 1 {
		t.Errorf("a request for a status failed: %d time-dependent", r.TimeDependent)
	}
	t.touchJob(jobs[0].ID, func(j *dispatch.Job) { j.Tries, j.Awaited, j.Due = 0, true, t.look().Now })
	if r := revision(); r.TimeDependent != 0 {
		t.Errorf("a status is awaited: %d time-dependent", r.TimeDependent)
	}
	t.db.Pass(time.Minute)
	if r := revision(); r.TimeDependent != 1 {
		t.Errorf("a status is late: %d time-dependent", r.TimeDependent)
	}
	_, err := t.s.TaskRevision(ctx, bob, task.ID, time.Minute)
	t.kind(err, dispatch.NotFound)
	_, err = t.s.CancelTask(ctx, ann, task.ID, true)
	t.must(err)
	_, err = t.s.TaskRevision(ctx, ann, task.ID, time.Minute)
	t.kind(err, dispatch.NotFound)
}

// changesOfTasks checks that a task is read together with its revision and with the jobs that changed.
func (t storeTest) changesOfTasks() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 4)
	t.db.Pass(time.Minute)
	since := t.look().Now
	t.db.Pass(time.Second)
	t.change(jobs[2].ID, func(j *dispatch.Job) { j.Phase, j.Status = dispatch.Started, dispatch.Running })
	t.change(jobs[0].ID, func(j *dispatch.Job) { j.Phase, j.Status = dispatch.Ended, dispatch.Failed })
	t.touchJob(jobs[1].ID, func(j *dispatch.Job) { j.Checked = t.look().Now })
	for _, limit := range []int{0, 1} {
		page := dispatch.Page{Since: since, Limit: limit, Most: 1000}
		is, err := t.s.TaskChanges(ctx, ann, task.ID, page, time.Minute)
		t.must(err)
		var ids []dispatch.JobID
		for _, j := range is.Jobs {
			ids = append(ids, j.ID)
		}
		want := []dispatch.JobID{jobs[0].ID, jobs[2].ID}
		t.equal(ids, want[:min(len(want), cmp.Or(limit, len(want)))])
		its, err := t.s.TaskJobs(ctx, ann, task.ID, page)
		t.must(err)
		t.equal(is.Jobs, its)
		revision, err := t.s.TaskRevision(ctx, ann, task.ID, time.Minute)
		t.must(err)
		t.equal(is.Revision, revision)
		whole, err := t.s.Task(ctx, ann, task.ID)
		t.must(err)
		t.equal(is.Task, whole)
	}
	_, err := t.s.TaskChanges(ctx, bob, task.ID, dispatch.Page{}, time.Minute)
	t.kind(err, dispatch.NotFound)
}

// revisionsOfPhases checks that a revision changes with what a hold or a changed document shows of a job, which depends
// on the job's phase. The phase changes without Job.Updated, both when a request is begun and when it was not sent
// after all.
func (t storeTest) revisionsOfPhases() {
	ctx := t.Context()
	was, is := text("moving", "1"), text("moving", "2")
	id, drafts := t.acceptTaskWith(was)
	l, job := t.lease(), drafts[0].Job
	seen := map[dispatch.Revision]string{}
	step := func(name string, change func()) {
		t.Helper()
		change()
		r, err := t.s.TaskRevision(ctx, ann, id, time.Minute)
		t.must(err)
		jobs, err := t.s.TaskJobs(ctx, ann, id, dispatch.Page{})
		t.must(err)
		var shown string
		for _, j := range jobs {
			shown += fmt.Sprintln(j.ID, j.Status, j.Attention, j.Notice)
		}
		if before, known := seen[r.Revision]; known && before != shown {
			t.Errorf("%s: the revision %+v stands for\n%sand for\n%s", name, r.Revision, before, shown)
		}
		seen[r.Revision] = shown
	}
	begin := func() { job = t.intended(l, job)[0] }
	unsent := func() {
		job.Phase, job.Epoch = dispatch.Waiting, job.Epoch+1
		job = t.save(job)
	}
	step("accepted", func() {})
	step("begun", begin)
	step("not sent", unsent)
	step("a new document", func() {
		_, err := t.s.SetDocumentHash(ctx, is.Origin, is.Hash())
		t.must(err)
	})
	step("begun with it", begin)
	step("held meanwhile", func() { t.must(t.s.Hold(ctx, shared, time.Hour, dispatch.Full, "why")) })
	step("not sent, and held", unsent)
	step("created while held", func() {
		job.Phase, job.Epoch = dispatch.Created, job.Epoch+1
		job = t.save(job)
	})
	step("begun again while held", begin)
	step("the end of the hold", func() { t.must(t.s.Hold(ctx, shared, 0, dispatch.None, "")) })
	if len(seen) < 7 {
		t.Errorf("%d revisions", len(seen))
	}
}

// touchJob changes what is not shown of a job.
func (t storeTest) touchJob(id dispatch.JobID, change func(*dispatch.Job)) {
	t.Helper()
	j := t.load(id)
	change(&j)
	t.save(j)
}

// change changes what is shown of a job.
func (t storeTest) change(id dispatch.JobID, change func(*dispatch.Job)) {
	t.Helper()
	t.touchJob(id, func(j *dispatch.Job) {
		change(j)
		j.Updated = t.look().Now
	})
}
