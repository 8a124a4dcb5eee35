package conformance

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// cancelAndKeep checks that a canceled task stays, with what finished, and that its pause is over.
func (t storeTest) cancelAndKeep() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 4)
	t.end(jobs[0].ID, dispatch.Finished, nil)
	t.end(jobs[1].ID, dispatch.Running, func(j *dispatch.Job) { j.Phase = dispatch.Started })
	_, err := t.s.PauseTask(ctx, ann, task.ID)
	t.must(err)
	t.db.Pass(time.Second)
	wakes := t.readAgenda().Wakes
	for range 2 {
		a, err := t.s.CancelTask(ctx, ann, task.ID, false)
		t.must(err)
		if a != shared || t.readAgenda().Wakes == wakes {
			t.Errorf("account %q, woken: %v", a, t.readAgenda().Wakes != wakes)
		}
		got, err := t.s.Task(ctx, ann, task.ID)
		t.must(err)
		t.equal(got.Counts, dispatch.Counts{dispatch.Finished: 1, dispatch.Running: 1, dispatch.Canceled: 2})
		if got.Paused || got.Attention != dispatch.None {
			t.Errorf("paused: %v, attention %q", got.Paused, got.Attention)
		}
	}
	g := t.readAgenda()
	if len(g.Cancel) != 1 || g.Cancel[0].ID != jobs[1].ID || len(g.Queues) != 0 || g.NextWaiting != (time.Time{}) {
		t.Errorf("agenda %+v", g)
	}
	_, err = t.s.CancelTask(ctx, bob, task.ID, false)
	t.kind(err, dispatch.NotFound)
}

// pauses checks what a pause does to a task's jobs in each phase, and that its end undoes it.
func (t storeTest) pauses() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 6)
	other, _ := t.acceptTask(ann, 1)
	phases := []dispatch.Phase{dispatch.Waiting, dispatch.Creating, dispatch.Created, dispatch.Started, dispatch.Ended,
		dispatch.Ended}
	before := make([]dispatch.Job, len(jobs))
	for i, p := range phases {
		before[i] = t.load(jobs[i].ID)
		before[i].Phase, before[i].Status, before[i].Tries, before[i].Attention, before[i].Notice = p,
			dispatch.Accepted, 2, dispatch.NotTaken, "busy"
		before[i].Refused = t.readAgenda().Now
		if p == dispatch.Ended {
			before[i].Status = []dispatch.Status{dispatch.Failed, dispatch.Finished}[i-4]
		}
		before[i] = t.save(before[i])
	}
	t.db.Pass(time.Minute)
	wakes, now := t.readAgenda().Wakes, t.readAgenda().Now
	_, err := t.s.PauseTask(ctx, ann, task.ID)
	t.must(err)
	if t.readAgenda().Wakes == wakes {
		t.Error("the account was not woken")
	}
	paused := make([]dispatch.Job, len(jobs))
	for i, want := range before {
		want.Paused = i < 5
		if i < 2 {
			want.Version++
		}
		if i == 0 {
			want.Due, want.Tries, want.Refused, want.Updated = time.Time{}, 0, time.Time{}, now
			want.Attention, want.Notice = dispatch.Paused, ""
		}
		paused[i] = t.load(want.ID)
		t.equal(paused[i], want)
	}
	t.pausedTask(task, other)
	t.db.Pass(time.Minute)
	now = t.readAgenda().Now
	_, err = t.s.ResumeTask(ctx, ann, task.ID, nil)
	t.must(err)
	for i, want := range paused {
		want.Paused = false
		if i < 2 {
			want.Version++
		}
		if i == 0 {
			want.Due, want.Updated, want.Attention = now, now, dispatch.None
		}
		t.equal(t.load(want.ID), want)
	}
	got, err := t.s.Task(ctx, ann, task.ID)
	t.must(err)
	t.equal(fmt.Sprint(got.Paused, got.Edited, len(t.readAgenda().Queues)), fmt.Sprint(false, now, 2))
}

// pausedOrphan checks that an orphan of a paused job is to be canceled, and hides no other cancel of the account.
func (t storeTest) pausedOrphan() {
	task, jobs := t.acceptTask(ann, 1)
	waiting := t.load(jobs[0].ID)
	waiting.Orphans = []dispatch.Ref{{ID: "x"}}
	t.save(waiting)
	other := t.accept()
	other.Phase, other.Status = dispatch.Started, dispatch.Running
	t.save(other)
	t.db.Pass(time.Minute)
	_, err := t.s.PauseTask(t.Context(), ann, task.ID)
	t.must(err)
	_, err = t.s.Cancel(t.Context(), ann, other.ID, false)
	t.must(err)
	t.db.Pass(time.Minute)
	var ids []dispatch.JobID
	for _, j := range t.readAgenda().Cancel {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	t.equal(ids, []dispatch.JobID{waiting.ID, other.ID})
}

// pausedJobsAlone checks a task of which some jobs are still being resumed.
func (t storeTest) pausedJobsAlone() {
	task, jobs := t.acceptTask(ann, 2)
	j := t.load(jobs[0].ID)
	j.Attention = dispatch.Paused
	t.save(j)
	got, err := t.s.Task(t.Context(), ann, task.ID)
	t.must(err)
	t.equal(fmt.Sprint(got.Paused, got.Attention), "false")
	all, err := t.s.Tasks(t.Context(), ann, dispatch.Page{})
	t.must(err)
	t.equal(all[0].Attention, dispatch.None)
	_, err = t.s.PauseTask(t.Context(), ann, task.ID)
	t.must(err)
	got, err = t.s.Task(t.Context(), ann, task.ID)
	t.must(err)
	t.equal(fmt.Sprint(got.Paused, got.Attention), "truepaused")
}

// pauseAfterEnd checks that a task that has ended is not paused, until a job of it is retried.
func (t storeTest) pauseAfterEnd() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 2)
	t.end(jobs[0].ID, dispatch.Finished, nil)
	_, err := t.s.PauseTask(ctx, ann, task.ID)
	t.must(err)
	_, err = t.s.ResumeTask(ctx, ann, task.ID, nil)
	t.must(err)
	t.end(jobs[1].ID, dispatch.Failed, nil)
	before, err := t.s.Task(ctx, ann, task.ID)
	t.must(err)
	_, err = t.s.PauseTask(ctx, ann, task.ID)
	t.kind(err, dispatch.Conflict)
	after, err := t.s.Task(ctx, ann, task.ID)
	t.must(err)
	t.equal(after, before)
	_, _, err = t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{})
	t.must(err)
	_, err = t.s.PauseTask(ctx, ann, task.ID)
	t.must(err)
}

// pausedTask checks what is shown of a paused task, and that its jobs count for a quota and nowhere else as waiting.
func (t storeTest) pausedTask(task, other dispatch.Task) {
	t.Helper()
	ctx := t.Context()
	got, err := t.s.Task(ctx, ann, task.ID)
	t.must(err)
	want := fmt.Sprint(true, t.readAgenda().Now, t.readAgenda().Now, dispatch.Paused)
	t.equal(fmt.Sprint(got.Paused, got.Edited, got.Updated, got.Attention), want)
	_, err = t.s.PauseTask(ctx, ann, task.ID)
	t.must(err)
	again, err := t.s.Task(ctx, ann, task.ID)
	t.must(err)
	t.equal(again, got)
	queues, err := t.s.Queues(ctx, shared)
	t.must(err)
	if len(queues) != 1 || queues[0].Task != other.ID {
		t.Errorf("queues %+v", queues)
	}
	waiting, err := t.s.Waiting(ctx, shared, dispatch.Queue{Owner: ann, Task: task.ID}, dispatch.Rank{},
		dispatch.Rank{Due: dispatch.Never})
	t.must(err)
	if len(waiting) != 0 {
		t.Errorf("%v wait", waiting)
	}
	info, err := t.s.AccountInfo(ctx, ann, []dispatch.Account{shared}, nil)
	t.must(err)
	// the other task's job waits; four of this one have not ended
	t.equal(fmt.Sprint(info[0].Waiting, info[0].Queue, info[0].Live), fmt.Sprint(1, 1, 5))
	t.must(t.s.Hold(ctx, shared, time.Hour, dispatch.NeedsSignIn, "Sign in."))
	records, err := t.s.TaskJobs(ctx, ann, task.ID, dispatch.Page{})
	t.must(err)
	if records[0].Attention != dispatch.Paused || records[2].Attention != dispatch.NeedsSignIn {
		t.Errorf("attentions %q and %q", records[0].Attention, records[2].Attention)
	}
	t.must(t.s.Hold(ctx, shared, 0, dispatch.None, ""))
	t.noPause(bob, task.ID)
	t.noPause(ann, task.ID+1e6)
}

func (t storeTest) noPause(u dispatch.UserID, id dispatch.TaskID) {
	t.Helper()
	_, err := t.s.PauseTask(t.Context(), u, id)
	t.kind(err, dispatch.NotFound)
	_, err = t.s.ResumeTask(t.Context(), u, id, nil)
	t.kind(err, dispatch.NotFound)
}

// pausesAndOthers checks that a paused job is not submitted by a visit that read it before, waits while it is retried
// or its user must sign in, stays as it is when the clock is set back, and is canceled like any other.
func (t storeTest) pausesAndOthers() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 3)
	l, stale := t.lease(), t.load(jobs[0].ID)
	failed := t.end(jobs[1].ID, dispatch.Failed, nil)
	t.must(t.s.NoteServed(ctx, []string{"p"}))
	_, err := t.s.PauseTask(ctx, ann, task.ID)
	t.must(err)
	if g := t.readAgenda(); !g.NextWaiting.IsZero() || len(g.Queues) > 0 {
		t.Errorf("a visit is needed at %v for %d queues", g.NextWaiting, len(g.Queues))
	}
	kept, err := t.s.Intend(ctx, l, limits, []dispatch.Job{stale})
	t.must(err)
	if len(kept) > 0 {
		t.Error("a paused job is submitted")
	}
	_, n, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{})
	t.must(err)
	again := t.load(failed.ID)
	if n != 1 || again.Phase != dispatch.Waiting || !again.Due.IsZero() || again.Attention != dispatch.Paused {
		t.Errorf("retried %d: %+v", n, again)
	}
	t.must(t.s.Hold(ctx, shared, time.Minute, dispatch.NeedsSignIn, "Sign in."))
	t.db.Pass(time.Hour)
	given, err := t.s.FailWithoutSignIn(ctx, shared, time.Minute, "nobody signed in")
	t.must(err)
	t.must(t.s.NoteServed(ctx, []string{"p"}))
	t.db.Pass(-30 * time.Minute)
	t.must(t.s.NoteServed(ctx, []string{"p"}))
	if j := t.load(stale.ID); len(given) > 0 || !j.Due.IsZero() {
		t.Errorf("%d jobs failed; a paused one is due %v", len(given), j.Due)
	}
	canceled, err := t.s.Cancel(ctx, ann, stale.ID, false)
	t.must(err)
	if canceled.Phase != dispatch.Ended || canceled.Status != dispatch.Canceled || canceled.Attention != dispatch.None {
		t.Errorf("canceled: %+v", canceled)
	}
	_, err = t.s.ResumeTask(ctx, ann, task.ID, nil)
	t.must(err)
	if j := t.load(stale.ID); j.Phase != dispatch.Ended {
		t.Errorf("the canceled job is %s", j.Phase)
	}
	t.equal(len(t.readAgenda().Queues), 1)
}

// parallelPauses checks that a task is paused as a whole or not at all after several processes paused, resumed,
// canceled and retried it at once, while a visit saved its jobs.
func (t storeTest) parallelPauses() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 20)
	handles := t.handles(4)
	var all sync.WaitGroup
	for i, s := range handles {
		for _, change := range []func() error{
			func() error {
				_, err := s.PauseTask(ctx, ann, task.ID)
				if dispatch.Is(err, dispatch.Conflict) { // all jobs have failed
					return nil
				}
				return err
			},
			func() error { _, err := s.ResumeTask(ctx, ann, task.ID, nil); return err },
			func() error { _, _, err := s.RetryTask(ctx, ann, task.ID, dispatch.Choice{}); return err },
			func() error { return t.failSome(s, jobs[5*i:5*i+5]) },
		} {
			all.Go(func() {
				for range 5 {
					if err := change(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	got, err := t.s.Task(ctx, ann, task.ID)
	t.must(err)
	for _, d := range jobs {
		j := t.load(d.ID)
		waits := j.Phase == dispatch.Waiting
		if j.Paused != got.Paused || waits && j.Due.IsZero() != got.Paused {
			t.Errorf("job %d is %s, paused: %v, due %v; the task is paused: %v", j.ID, j.Phase, j.Paused, j.Due,
				got.Paused)
		}
	}
	_, err = t.s.CancelTask(ctx, ann, task.ID, false)
	t.must(err)
	t.equal(t.readAgenda().NextWaiting, time.Time{})
}

// failSome saves jobs as failed, those that another process changes meanwhile excepted.
func (t storeTest) failSome(s Store, drafts []dispatch.Draft) error {
	var jobs []dispatch.Job
	for _, d := range drafts {
		j, err := s.Load(t.Context(), d.ID)
		if err != nil {
			return err
		}
		j.Phase, j.Status = dispatch.Ended, dispatch.Failed
		jobs = append(jobs, j)
	}
	_, err := s.Save(t.Context(), jobs)
	return err
}

// choices checks that chosen jobs of a task are canceled and retried, and no others.
func (t storeTest) choices() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 6)
	_, others := t.acceptTask(ann, 1)
	for i := range 3 {
		t.end(jobs[i].ID, dispatch.Failed, nil)
	}
	t.end(jobs[3].ID, dispatch.Running, func(j *dispatch.Job) { j.Phase = dispatch.Started })
	choice := func(n ...int) (c dispatch.Choice) {
		for _, i := range n {
			c.Jobs = append(c.Jobs, jobs[i].ID)
		}
		return c
	}
	both := choice(1, 4)
	both.Statuses = []dispatch.Status{dispatch.Failed}
	for _, c := range []struct {
		choice          dispatch.Choice
		retried, counts string
	}{{choice(0, 3), "1", "map[created:3 failed:2 running:1]"}, {both, "1", "map[created:4 failed:1 running:1]"},
		{dispatch.Choice{Statuses: []dispatch.Status{dispatch.Running}}, "0", "map[created:4 failed:1 running:1]"},
		{dispatch.Choice{Statuses: []dispatch.Status{}}, "0", "map[created:4 failed:1 running:1]"}} {
		a, n, err := t.s.RetryTask(ctx, ann, task.ID, c.choice)
		t.must(err)
		got, err := t.s.Task(ctx, ann, task.ID)
		t.must(err)
		t.equal(fmt.Sprintf("%s %d %v", a, n, got.Counts), fmt.Sprintf("%s %s %s", shared, c.retried, c.counts))
	}
	for _, c := range []struct {
		choice           dispatch.Choice
		canceled, counts string
	}{{choice(5, 2), "1", "map[canceled:1 created:3 failed:1 running:1]"},
		{choice(5), "0", "map[canceled:1 created:3 failed:1 running:1]"},
		{dispatch.Choice{Statuses: []dispatch.Status{}}, "0", "map[canceled:1 created:3 failed:1 running:1]"},
		{dispatch.Choice{Statuses: []dispatch.Status{dispatch.Accepted}}, "3", "map[canceled:4 failed:1 running:1]"}} {
		a, n, err := t.s.CancelJobs(ctx, ann, task.ID, c.choice)
		t.must(err)
		got, err := t.s.Task(ctx, ann, task.ID)
		t.must(err)
		t.equal(fmt.Sprintf("%s %d %v", a, n, got.Counts), fmt.Sprintf("%s %s %s", shared, c.canceled, c.counts))
	}
	for _, wrong := range []dispatch.JobID{others[0].ID, jobs[0].ID + 1e6} {
		c := dispatch.Choice{Jobs: []dispatch.JobID{jobs[3].ID, wrong}}
		_, _, err := t.s.CancelJobs(ctx, ann, task.ID, c)
		t.kind(err, dispatch.Invalid)
		_, _, err = t.s.RetryTask(ctx, ann, task.ID, c)
		t.kind(err, dispatch.Invalid)
	}
	if j := t.load(jobs[3].ID); j.Desired != dispatch.WantRun {
		t.Error("a job was canceled although the choice was wrong")
	}
	_, _, err := t.s.CancelJobs(ctx, bob, task.ID, choice(3))
	t.kind(err, dispatch.NotFound)
}
