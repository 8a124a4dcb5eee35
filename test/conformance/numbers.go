package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// since reads what changed of ann's jobs, or of a task, after a number.
func (t storeTest) since(id dispatch.TaskID, n int64) dispatch.ChangedPage {
	t.Helper()
	c, err := t.s.ChangesSince(t.Context(), ann, id, dispatch.AfterNumber(n), dispatch.Page{})
	t.must(err)
	return c
}

// kinds returns what a page has: j1 is a job, t1 a task, and -j1 a job that is deleted.
func kinds(c dispatch.ChangedPage) (all []string) {
	for _, e := range c.Changed {
		text := fmt.Sprint("t", e.Task)
		if e.Job != 0 {
			text = fmt.Sprint("j", e.Job)
		}
		if e.Deleted {
			text = "-" + text
		}
		all = append(all, text)
	}
	return all
}

// takenNumbers checks which changes take a number, and that they are found by it.
func (t storeTest) takenNumbers() {
	ctx := t.Context()
	if c := t.since(0, 0); c.Number != 0 || c.Anew {
		t.Errorf("nothing was ever there: %+v", c)
	}
	alone := t.accept()
	if c := t.since(0, 0); c.Number <= 0 || !c.Anew {
		t.Errorf("what was before the first number is not known: %+v", c)
	}
	task, jobs := t.acceptTask(ann, 3)
	deleted := t.accept()
	a, k := fmt.Sprint("j", alone.ID), fmt.Sprint("t", task.ID)
	x, y, z := fmt.Sprint("j", jobs[0].ID), fmt.Sprint("j", jobs[1].ID), fmt.Sprint("j", jobs[2].ID)
	half, title := 50.0, "x"
	last, lastOfTask := t.since(0, 0).Number, t.since(task.ID, 0).Number
	for _, c := range []struct {
		name        string
		change      func()
		owner, jobs []string
	}{
		{"nothing", func() {}, nil, nil},
		{"a status", func() {
			t.change(alone.ID, func(j *dispatch.Job) { j.Phase, j.Status = dispatch.Started, dispatch.Running })
		}, []string{a}, nil},
		{"the time of asking", func() {
			t.touchJob(alone.ID, func(j *dispatch.Job) {
				j.Checked, j.Due, j.Tries = j.Checked.Add(time.Hour), t.readAgenda().Now, 1
			})
		}, nil, nil},
		{"a progress", func() { t.touchJob(alone.ID, func(j *dispatch.Job) { j.Progress = &half }) }, []string{a}, nil},
		{"a duration", func() { t.touchJob(alone.ID, func(j *dispatch.Job) { j.Duration = time.Second }) }, []string{a},
			nil},
		{"another's job", func() { t.acceptFor(bob, shared) }, nil, nil},
		{"an intent", func() {
			t.touchJob(jobs[0].ID, func(j *dispatch.Job) { *j = j.Intend(t.readAgenda().Now.Add(time.Minute)) })
		}, nil, nil},
		{"a platform's id", func() {
			t.touchJob(jobs[0].ID, func(j *dispatch.Job) { j.Phase, j.Ref.ID = dispatch.Created, "r" })
		}, []string{k}, []string{x}},
		{"a notice", func() { t.touchJob(jobs[0].ID, func(j *dispatch.Job) { j.Notice = "n" }) }, []string{k},
			[]string{x}},
		{"jobs at once", func() {
			one, two := t.load(alone.ID), t.load(jobs[1].ID)
			one.Failure, two.Failure = "f", "f"
			_, err := t.s.Save(ctx, []dispatch.Job{one, two})
			t.must(err)
		}, []string{a, k}, []string{y}},
		{"labels", func() {
			t.must(t.s.AnnotateJob(ctx, ann, alone.ID,
				dispatch.AnnotationChange{Labels: map[string]*string{"a": &title}}))
		}, []string{a}, nil}, {"labels of a task", func() {
			t.must(t.s.AnnotateTask(ctx, ann, task.ID,
				dispatch.AnnotationChange{Labels: map[string]*string{"a": &title}}))
		}, []string{k}, nil}, {"labels of another's", func() {
			t.kind(t.s.AnnotateTask(ctx, bob, task.ID, dispatch.AnnotationChange{}), dispatch.NotFound)
		}, nil, nil},
		{"a pause", func() { _, err := t.s.PauseTask(ctx, ann, task.ID); t.must(err) }, []string{k}, []string{y, z}},
		{"a pause again", func() { _, err := t.s.PauseTask(ctx, ann, task.ID); t.must(err) }, nil, nil},
		{"its end", func() { _, err := t.s.ResumeTask(ctx, ann, task.ID, nil); t.must(err) }, []string{k},
			[]string{y, z}},
		{"a hold", func() { t.must(t.s.Hold(ctx, shared, time.Hour, dispatch.Full, "why")) }, nil, nil},
		{"its end too", func() { t.must(t.s.Hold(ctx, shared, 0, dispatch.None, "")) }, nil, nil},
		{"a job is canceled", func() { _, err := t.s.Cancel(ctx, ann, jobs[1].ID, false); t.must(err) },
			[]string{k}, []string{y}},
		{"a wish", func() { _, err := t.s.Cancel(ctx, ann, alone.ID, false); t.must(err) }, []string{a}, nil},
		{"the same wish", func() { _, err := t.s.Cancel(ctx, ann, alone.ID, false); t.must(err) }, nil, nil},
		{"a job is deleted", func() { _, err := t.s.Cancel(ctx, ann, deleted.ID, true); t.must(err) },
			[]string{fmt.Sprint("-j", deleted.ID)}, nil},
		{"a deleted job changes", func() { t.change(deleted.ID, func(j *dispatch.Job) { j.Failure = "f" }) }, nil, nil},
		{"a job of the task is deleted", func() { _, err := t.s.Cancel(ctx, ann, jobs[2].ID, true); t.must(err) },
			[]string{k}, []string{"-" + z}},
		{"what users only start later", func() {
			n := dispatch.Unstarted{Owner: ann, Account: shared, Body: []byte("{}")}
			t.must(t.s.CreateUnstarted(ctx, &n, false, time.Hour))
		}, nil, nil},
	} {
		t.db.Pass(time.Second)
		c.change()
		owner, ofTask := t.since(0, last), t.since(task.ID, lastOfTask)
		got, gotOfTask := kinds(owner), kinds(ofTask)
		slices.Sort(got)
		slices.Sort(gotOfTask)
		if !slices.Equal(got, c.owner) || !slices.Equal(gotOfTask, c.jobs) || owner.Anew || ofTask.Anew {
			t.Errorf("%s: %v and of the task %v, want %v and %v", c.name, got, gotOfTask, c.owner, c.jobs)
		}
		if (owner.Number > last) != (len(c.owner) > 0) && c.name != "what users only start later" {
			t.Errorf("%s: number %d after %d", c.name, owner.Number, last)
		}
		if slices.Contains(got, k) != (ofTask.Number > lastOfTask) ||
			(ofTask.Task != nil) != (ofTask.Number > lastOfTask) {
			t.Errorf("%s: number of the task %d after %d", c.name, ofTask.Number, lastOfTask)
		}
		last, lastOfTask = owner.Number, ofTask.Number
	}
}

// numbersOfAccounts checks that what jobs show of their accounts takes no number.
func (t storeTest) numbersOfAccounts() {
	j := t.accept()
	n := t.since(0, 0).Number
	t.must(t.s.Hold(t.Context(), shared, time.Hour, dispatch.Full, "why"))
	t.must(t.s.Hold(t.Context(), "q/ann", time.Hour, dispatch.Full, "why"))
	c := t.since(0, n)
	want := dispatch.AccountState{Account: shared, Why: dispatch.Full, Notice: "why"}
	t.equal(c, dispatch.ChangedPage{Number: n, Live: true, Accounts: []dispatch.AccountState{want}})
	t.db.Pass(time.Hour)
	t.equal(t.since(0, n), dispatch.ChangedPage{Number: n, Live: true})
	t.must(t.s.NoteResponse(t.Context(), shared.Platform(), "", 0))
	t.db.Pass(dispatch.SilentAfter)
	t.must(t.s.NoteResponse(t.Context(), shared.Platform(), "why", 0))
	t.equal(t.since(0, n), dispatch.ChangedPage{Number: n, Live: true})
	t.db.Pass(time.Second)
	t.must(t.s.NoteResponse(t.Context(), shared.Platform(), "why", time.Minute))
	t.equal(t.since(0, n), dispatch.ChangedPage{Number: n, Live: true})
	t.must(t.s.NoteResponse(t.Context(), shared.Platform(), "why", time.Second))
	silent := []dispatch.AccountState{{Account: shared, Silent: true}}
	t.equal(t.since(0, n), dispatch.ChangedPage{Number: n, Live: true, Accounts: silent})
	t.change(j.ID, func(j *dispatch.Job) { j.Phase, j.Status = dispatch.Started, dispatch.Running })
	t.equal(t.since(0, n).Changed[0].Record.Attention, dispatch.Unreachable)
	t.change(j.ID, func(j *dispatch.Job) { j.Phase, j.Status = dispatch.Ended, dispatch.Finished })
	if c := t.since(0, n); c.Live || c.Accounts != nil || c.Changed[0].Record.Attention != dispatch.None {
		t.Errorf("after the end: %+v", c)
	}
}

// numbersAnew checks when readers learn that they have to begin anew.
func (t storeTest) numbersAnew() {
	ctx := t.Context()
	kept, old := t.accept(), t.accept()
	task, jobs := t.acceptTask(ann, 2)
	gone, _ := t.acceptTask(ann, 1)
	before := t.since(0, 0).Number
	ofTask := t.since(task.ID, 0).Number
	for _, id := range []dispatch.JobID{old.ID, jobs[0].ID} {
		_, err := t.s.Cancel(ctx, ann, id, true)
		t.must(err)
	}
	hidden := t.since(task.ID, 0).Number
	t.equal(t.since(0, before).Anew, false)
	t.db.Pass(time.Hour)
	t.change(kept.ID, func(j *dispatch.Job) { j.Notice = "n" })
	after := t.since(0, before).Number
	t.db.Pass(time.Hour)
	t.must(t.s.Purge(ctx, time.Hour))
	t.equal(t.since(0, before).Anew, true)
	t.equal(t.since(task.ID, ofTask).Anew, true)
	t.equal(t.since(0, after).Anew, false)
	t.equal(t.since(task.ID, hidden).Anew, false)

	_, err := t.s.CancelTask(ctx, ann, gone.ID, true)
	t.must(err)
	t.equal(kinds(t.since(0, after)), []string{fmt.Sprint("-t", gone.ID)})
	_, err = t.s.ChangesSince(ctx, ann, gone.ID, dispatch.AfterNumber(after), dispatch.Page{})
	t.kind(err, dispatch.NotFound)
	_, err = t.s.ChangesSince(ctx, bob, task.ID, dispatch.AfterNumber(after), dispatch.Page{})
	t.kind(err, dispatch.NotFound)
	last := t.since(0, after).Number
	t.db.Pass(2 * time.Hour)
	t.must(t.s.Purge(ctx, time.Hour))
	t.equal(t.since(0, after).Anew, true)
	t.equal(t.since(0, last).Anew, false)
	t.equal(t.since(0, last+1).Anew, true)

	_, err = t.s.MarkRestored(ctx, dispatch.CompareFirst)
	t.must(err)
	t.equal(t.since(0, last).Anew, true)
	t.equal(t.since(task.ID, t.since(task.ID, 0).Number).Anew, false)
	t.equal(t.since(task.ID, hidden).Anew, true)
	if c := t.since(0, last); c.Number <= last {
		t.Errorf("number %d after %d", c.Number, last)
	}
}

// numbersOfDocuments checks what a changed document of a service does to what waits for it.
func (t storeTest) numbersOfDocuments() {
	was, is := text("moving", "1"), text("moving", "2")
	id, drafts := t.acceptTaskWith(was)
	alone := []dispatch.Draft{draft(ann, shared)}
	alone[0].Document = was
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, nil, alone)
	t.must(err)
	n, ofTask := t.since(0, 0).Number, t.since(id, 0).Number
	_, err = t.s.SetDocumentHash(t.Context(), is.Origin, is.Hash())
	t.must(err)
	c := t.since(0, n)
	t.equal(kinds(c), []string{fmt.Sprint("j", alone[0].ID), fmt.Sprint("t", id)})
	t.equal(c.Changed[0].Record.Attention, dispatch.ServiceChanged)
	t.equal(c.Changed[1].Whole.Attention, dispatch.ServiceChanged)
	t.equal(t.since(id, ofTask).Anew, true) // all that wait look different
	_, err = t.s.SetDocumentHash(t.Context(), is.Origin, is.Hash())
	t.must(err)
	t.equal(t.since(0, c.Number).Number, c.Number)
	t.change(drafts[0].ID, func(j *dispatch.Job) { j.Notice = "n" })
	t.equal(kinds(t.since(id, t.since(id, 0).Number)), []string(nil))

	// The trial of a task is a more important attention of it, but not of the jobs that it runs.
	tried := dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "d", Document: is, Trial: 1,
		Paused: true, PausedFor: dispatch.Trial}
	jobs := []dispatch.Draft{draft(ann, shared)}
	jobs[0].Number, jobs[0].Body, jobs[0].Document = 1, []byte("1"), is
	_, err = t.s.Accept(t.Context(), dispatch.Key{}, &tried, jobs)
	t.must(err)
	_, err = t.s.SetDocumentHash(t.Context(), was.Origin, was.Hash())
	t.must(err)
	n = t.since(tried.ID, 0).Number
	note := "a note"
	t.must(t.s.AnnotateJob(t.Context(), ann, jobs[0].ID, dispatch.AnnotationChange{Note: &note}))
	c = t.since(tried.ID, n)
	t.equal(kinds(c), []string{fmt.Sprint("j", jobs[0].ID)})
	t.equal(c.Task.Attention, dispatch.Trial)
	t.equal(c.Changed[0].Record.Attention, dispatch.ServiceChanged)
}

// numberedPages checks that pages of changes lack nothing and repeat nothing, also of many changes with one number.
func (t storeTest) numberedPages() {
	var jobs []dispatch.Job
	task, drafts := t.acceptTask(ann, 5)
	for range 3 {
		jobs = append(jobs, t.accept())
	}
	n := t.since(0, 0).Number
	jobs = append(jobs, drafts[0].Job, drafts[3].Job, drafts[1].Job)
	for i := range jobs {
		jobs[i].Notice = "n"
	}
	_, err := t.s.Save(t.Context(), jobs) // all of one number
	t.must(err)
	t.since(0, n)
	t.change(jobs[1].ID, func(j *dispatch.Job) { j.Notice = "later" })
	name := func(j dispatch.Job) string { return fmt.Sprint("j", j.ID) }
	for id, want := range map[dispatch.TaskID][]string{
		0:       {name(jobs[0]), name(jobs[2]), fmt.Sprint("t", task.ID), name(jobs[1])},
		task.ID: {name(drafts[0].Job), name(drafts[1].Job), name(drafts[3].Job)},
	} {
		for limit := range 6 {
			var got []string
			after := dispatch.AfterNumber(n)
			for {
				c, err := t.s.ChangesSince(t.Context(), ann, id, after, dispatch.Page{Limit: limit, Most: 20})
				t.must(err)
				got = append(got, kinds(c)...)
				if limit > 0 && len(c.Changed) > limit {
					t.Errorf("%d of %d", len(c.Changed), limit)
				}
				if !c.More {
					break
				}
				after = c.Changed[len(c.Changed)-1].Place()
			}
			t.equal(got, want)
		}
	}
}

// parallelNumbers checks that readers who go on from the number that they have read miss no change of many who write at
// once: numbers become visible in their order.
func (t storeTest) parallelNumbers() {
	const writers, each = 6, 15
	stores := t.handles(4)
	var jobs []dispatch.Job
	task, drafts := t.acceptTask(ann, writers/2)
	for i := range writers {
		if i%2 == 0 {
			jobs = append(jobs, t.accept())
		} else {
			jobs = append(jobs, drafts[i/2].Job)
		}
	}
	writing, end := context.WithCancel(t.Context())
	var all, reading sync.WaitGroup
	for _, id := range []dispatch.TaskID{0, task.ID} {
		begin := t.since(id, 0).Number
		reading.Go(func() { t.followChanges(writing, stores[len(stores)-1], id, begin, jobs, fmt.Sprint(each)) })
	}
	for i, j := range jobs {
		all.Go(func() {
			s := stores[i%(len(stores)-1)]
			for n := range each {
				j.Notice = fmt.Sprint(n + 1)
				// Some transactions change other owners' jobs, too, and some end later than they began.
				saved, err := s.Save(t.Context(), []dispatch.Job{j})
				if err != nil || len(saved) != 1 {
					t.Errorf("%d was not saved: %v", j.ID, err)
					return
				}
				j = saved[0]
				if n%5 == 0 {
					if _, err := s.Accept(t.Context(), dispatch.Key{}, nil,
						[]dispatch.Draft{draft(ann, shared)}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	end()
	reading.Wait()
}

// followChanges reads changes until those who write have ended, and compares what it has heard of jobs with what they
// are.
func (t storeTest) followChanges(
	writing context.Context, s Store, id dispatch.TaskID, n int64, jobs []dispatch.Job, last string,
) {
	heard := map[dispatch.JobID]string{}
	for ended := false; !ended; {
		ended = writing.Err() != nil // one more look afterwards
		after := dispatch.AfterNumber(n)
		for more := true; more; {
			c, err := s.ChangesSince(context.WithoutCancel(writing), ann, id, after, dispatch.Page{Limit: 3})
			if err != nil || c.Anew || c.Number < n {
				t.Errorf("after %d: %+v, %v", n, c, err)
				return
			}
			for _, e := range c.Changed {
				if e.Record != nil {
					heard[e.Job] = e.Record.Notice
				}
			}
			if more = c.More; more {
				after = c.Changed[len(c.Changed)-1].Place()
			} else {
				n = c.Number
			}
		}
	}
	for _, j := range jobs {
		if j.Task == id && heard[j.ID] != last {
			t.Errorf("of job %d was heard %q at last", j.ID, heard[j.ID])
		}
	}
}

// changes compares what changed since a moment at which both sides were read.
func (p *pair) changes(r *rapid.T, u dispatch.UserID, id dispatch.TaskID, limit int) {
	type moment struct {
		u  dispatch.UserID
		id dispatch.TaskID
	}
	at := moment{u, id}
	kept := p.numbers[at]
	if len(kept) == 0 {
		kept = [][2]int64{{-1, -1}} // anew
	}
	from := kept[rapid.IntRange(0, len(kept)-1).Draw(r, "moment")]
	var got [2]dispatch.ChangedPage
	var errs [2]error
	for i, s := range p.stores {
		got[i], errs[i] = allSince(p.Context(), s, u, id, from[i], limit)
	}
	if (errs[0] == nil) != (errs[1] == nil) {
		r.Fatalf("the database returns %v, the model %v", errs[0], errs[1])
	}
	if errs[0] != nil {
		return
	}
	if got[1].Number == 0 { // an unstarted job takes a number, which the model does not know
		return
	}
	if d := cmp.Diff(alike(got[1], got[1]), alike(got[0], got[1]), same); d != "" {
		r.Fatalf("changes of %s and task %d since %v (-model +database)\n%s", u, id, from, d)
	}
	kept = append(kept, [2]int64{got[0].Number, got[1].Number})
	if p.numbers == nil {
		p.numbers = map[any][][2]int64{}
	}
	p.numbers[at] = kept[max(0, len(kept)-10):]
}

// alike returns what two sides must have in common: numbers differ, and so does the order. A database may give numbers
// to tasks of which nothing that is shown has changed, which the model does not know.
func alike(c, model dispatch.ChangedPage) dispatch.ChangedPage {
	c.Number = 0
	if model.Task == nil {
		c.Task = nil
	}
	c.Changed = slices.DeleteFunc(slices.Clone(c.Changed), func(e dispatch.Changed) bool {
		return e.Job == 0 && !slices.ContainsFunc(model.Changed, func(m dispatch.Changed) bool {
			return m.Job == 0 && m.Task == e.Task
		})
	})
	for i := range c.Changed {
		c.Changed[i].Number = 0
	}
	slices.SortFunc(c.Changed, func(a, b dispatch.Changed) int { return a.Place().Compare(b.Place()) })
	return c
}

// allSince reads all that changed after a number.
func allSince(
	ctx context.Context, s broker.Records, u dispatch.UserID, id dispatch.TaskID, n int64, limit int,
) (all dispatch.ChangedPage, err error) {
	after := dispatch.AfterNumber(n)
	for {
		c, err := s.ChangesSince(ctx, u, id, after, dispatch.Page{Limit: limit})
		if err != nil {
			return c, err
		}
		c.Changed = append(all.Changed, c.Changed...)
		if all = c; !c.More {
			return all, nil
		}
		after = c.Changed[len(c.Changed)-1].Place()
	}
}
