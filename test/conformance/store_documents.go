package conformance

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (t storeTest) acceptWith(d *dispatch.Document) dispatch.Job {
	t.Helper()
	jobs := []dispatch.Draft{draft(ann, shared)}
	jobs[0].Document = d
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, nil, jobs)
	t.must(err)
	return jobs[0].Job
}

// acceptTaskWith returns the task's id and its jobs.
func (t storeTest) acceptTaskWith(d *dispatch.Document) (dispatch.TaskID, []dispatch.Draft) {
	t.Helper()
	task := dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "d", Document: d}
	jobs := []dispatch.Draft{draft(ann, shared), draft(ann, shared)}
	for i := range jobs {
		jobs[i].Number, jobs[i].Body = i+1, []byte("1")
	}
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, &task, jobs)
	t.must(err)
	return task.ID, jobs
}

func (t storeTest) documents() {
	ctx := t.Context()
	one, large := text("one", `{"id":"é","none":null}`), text("large", strings.Repeat("x", 2<<20))
	binary := text("binary", "\xff\x00")
	a, b, c := t.acceptWith(one), t.acceptWith(large), t.acceptWith(large)
	none, odd := t.acceptWith(nil), t.acceptWith(binary)
	_, jobs := t.acceptTaskWith(one)
	is := func(id dispatch.JobID, want string) {
		t.Helper()
		if got, err := t.s.Document(ctx, ann, id); err != nil || string(got) != want {
			t.Errorf("the document of job %d is %.99q, %v", id, got, err)
		}
	}
	for _, s := range []func(){func() {}, func() { t.must(t.s.Purge(ctx, time.Hour)) },
		func() { t.s = t.db.Restart() }} {
		s()
		is(a.ID, string(one.Body))
		is(b.ID, string(large.Body))
		is(c.ID, string(large.Body))
		is(jobs[1].ID, string(one.Body))
		is(none.ID, "")
	}
	if _, err := t.s.Document(ctx, ann, odd.ID); err != nil {
		t.Errorf("of what is no text: %v", err)
	}
	_, err := t.s.Document(ctx, bob, a.ID)
	t.kind(err, dispatch.NotFound)
	_, err = t.s.Cancel(ctx, ann, b.ID, true)
	t.must(err)
	_, err = t.s.Document(ctx, ann, b.ID)
	t.kind(err, dispatch.NotFound)
	t.db.Pass(2 * time.Hour)
	t.must(t.s.Purge(ctx, time.Hour))
	is(c.ID, string(large.Body))
	is(a.ID, string(one.Body))
}

// redefine checks which waiting jobs and tasks show that the document of their service has changed.
func (t storeTest) redefine() {
	ctx := t.Context()
	was, is := text("moving", "1"), text("moving", "2")
	other := text("other", "1")
	single, alone := t.acceptWith(was), t.acceptWith(other)
	task, jobs := t.acceptTaskWith(was)
	running := jobs[0].Job
	running.Phase, running.Status = dispatch.Started, dispatch.Running
	t.save(running)
	over := t.acceptWith(text("over", "1"))
	_, err := t.s.Cancel(ctx, ann, over.ID, true)
	t.must(err)

	all, err := origins(ctx, t.s)
	t.must(err)
	t.equal(all, []dispatch.Origin{was.Origin, other.Origin})
	t.setHash(was, 0)
	t.showsChange(task, jobs, single, alone, dispatch.None)
	t.setHash(is, 2)
	t.setHash(is, 0) // once
	t.showsChange(task, jobs, single, alone, dispatch.ServiceChanged)
	t.setHash(text("moving", "3"), 2)
	t.showsChange(task, jobs, single, alone, dispatch.ServiceChanged)
	t.setHash(was, 2) // back again
	t.showsChange(task, jobs, single, alone, dispatch.None)
	t.setHash(is, 2)
	t.changedJobsGoOn(task, jobs[1].ID, single, alone)
}

// changedJobsGoOn checks that the change of a document hides no other attention, is not kept with the jobs, and
// concerns no job that was submitted.
func (t storeTest) changedJobsGoOn(task dispatch.TaskID, member dispatch.JobID, single, alone dispatch.Job) {
	ctx := t.Context()
	t.must(t.s.Hold(ctx, shared, time.Minute, dispatch.NotTaken, "why"))
	record, err := t.s.Record(ctx, ann, single.ID)
	t.must(err)
	if record.Attention != dispatch.NotTaken || record.Notice != "why" {
		t.Errorf("while the account is held: %s", record.Attention)
	}
	job := t.load(single.ID) // a visit does not see the attention
	if job.Attention != dispatch.None || job.Version != single.Version {
		t.Errorf("kept with the job: %+v", job)
	}
	for _, j := range []dispatch.Job{job, t.load(member), t.load(alone.ID)} {
		j.Phase, j.Status = dispatch.Started, dispatch.Submitted
		t.save(j)
	}
	all, err := t.s.Origins(ctx)
	t.must(err)
	t.equal(all, []dispatch.Origin{})
	t.setHash(text("moving", "4"), 0) // no job waits
	shown, err := t.s.Task(ctx, ann, task)
	t.must(err)
	if record, err := t.s.Record(ctx, ann, single.ID); err != nil || record.Attention != dispatch.None ||
		shown.Attention != dispatch.ServiceChanged {
		t.Errorf("when it was submitted: %s, %v, and the task: %s", record.Attention, err, shown.Attention)
	}
}

// setHash stores the hash of a document and checks how many owners of jobs are to be signaled.
func (t storeTest) setHash(d *dispatch.Document, want int) {
	t.Helper()
	owners, err := t.s.SetDocumentHash(t.Context(), d.Origin, d.Hash())
	t.must(err)
	t.equal(owners, slices.Repeat([]dispatch.UserID{ann}, want))
}

// showsChange checks the attention of a task, of its job that waits, and of a single job of the same document, in each
// list, and that jobs that run or have another document have none.
func (t storeTest) showsChange(task dispatch.TaskID, jobs []dispatch.Draft, single, alone dispatch.Job,
	want dispatch.Attention) {
	ctx := t.Context()
	t.Helper()
	shown, err := t.s.Task(ctx, ann, task)
	t.must(err)
	tasks, err := t.s.Tasks(ctx, ann, dispatch.Page{})
	t.must(err)
	its, err := t.s.TaskJobs(ctx, ann, task, dispatch.Page{})
	t.must(err)
	mine, err := t.s.Records(ctx, ann, dispatch.Page{})
	t.must(err)
	record, err := t.s.Record(ctx, ann, single.ID)
	t.must(err)
	second, err := t.s.Record(ctx, ann, jobs[1].ID)
	t.must(err)
	first, err := t.s.Record(ctx, ann, jobs[0].ID)
	t.must(err)
	got := []dispatch.Attention{shown.Attention, tasks[0].Attention, its[1].Attention, second.Attention,
		record.Attention, mine[1].Attention, first.Attention, its[0].Attention, mine[0].Attention}
	t.equal(got, []dispatch.Attention{want, want, want, want, want, want, dispatch.None, dispatch.None, dispatch.None})
	if mine[0].ID != alone.ID {
		t.Fatalf("the first is %d", mine[0].ID)
	}
}

// redefineMany checks a change that concerns more jobs than a store changes in one transaction.
func (t storeTest) redefineMany() {
	const many = 101
	for range many {
		t.acceptWith(text("popular", "1"))
	}
	t.setHash(text("popular", "2"), many)
	t.setHash(text("popular", "2"), 0)
}

// parallelDocuments accepts and deletes jobs with the same document concurrently.
func (t storeTest) parallelDocuments() {
	d := text("shared", "body")
	var all sync.WaitGroup
	for _, s := range t.handles(4) {
		all.Go(func() {
			for range 10 {
				jobs := []dispatch.Draft{draft(ann, shared)}
				jobs[0].Document = d
				if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, jobs); err != nil {
					t.Error(err)
					return
				}
				if got, err := s.Document(t.Context(), ann, jobs[0].ID); err != nil || string(got) != "body" {
					t.Errorf("the document is %q, %v", got, err)
				}
				if _, err := s.Cancel(t.Context(), ann, jobs[0].ID, true); err != nil {
					t.Error(err)
				}
				if err := s.Purge(t.Context(), -time.Minute); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
