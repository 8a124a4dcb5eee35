package conformance

import (
	"fmt"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func labeled(note string, labels ...string) dispatch.Annotations {
	a := dispatch.Annotations{Note: note}
	for i := 0; i < len(labels); i += 2 {
		if a.Labels == nil {
			a.Labels = map[string]string{}
		}
		a.Labels[labels[i]] = labels[i+1]
	}
	return a
}

// setting returns the change that sets a label.
func setting(key, value string) dispatch.AnnotationChange {
	return dispatch.AnnotationChange{Labels: map[string]*string{key: &value}}
}

func (t storeTest) annotations() {
	ctx := t.Context()
	jobs := []dispatch.Draft{draft(ann, shared)}
	jobs[0].Annotations = labeled("first", "project", "a|b", "season", "")
	_, err := t.s.Accept(ctx, dispatch.Key{}, nil, jobs)
	t.must(err)
	id := jobs[0].ID
	t.equal(t.load(id).Annotations, jobs[0].Annotations)
	t.db.Pass(time.Minute)

	read := t.load(id)
	note := "second"
	t.must(t.s.AnnotateJob(ctx, ann, id, dispatch.AnnotationChange{Labels: map[string]*string{"season": nil},
		Note: &note}))
	r, err := t.s.Record(ctx, ann, id)
	t.must(err)
	t.equal(r.Annotations, labeled("second", "project", "a|b"))
	if !r.Updated.Equal(read.Updated.Add(time.Minute)) || r.Version == read.Version {
		t.Errorf("updated %v, version %d", r.Updated, r.Version)
	}
	if stale, err := t.s.Save(ctx, []dispatch.Job{read}); err != nil || len(stale) > 0 {
		t.Errorf("a visit that read the job before the change has saved %v, %v", stale, err)
	}
	ended := t.end(id, dispatch.Failed, func(j *dispatch.Job) { j.Annotations = labeled("not the visit's") })
	t.equal(t.load(id).Annotations, labeled("second", "project", "a|b"))
	t.equal(t.load(id).Retry(ended.Updated).Annotations, labeled("second", "project", "a|b"))

	task, its := t.acceptTask(ann, 2)
	t.db.Pass(time.Minute)
	t.must(t.s.AnnotateTask(ctx, ann, task.ID, setting("project", "x")))
	t.must(t.s.AnnotateJob(ctx, ann, its[0].ID, setting("checked", "yes")))
	of, err := t.s.Task(ctx, ann, task.ID)
	t.must(err)
	t.equal(of.Annotations, labeled("", "project", "x"))
	if !of.Edited.Equal(task.Created.Add(time.Minute)) || !of.Updated.Equal(of.Edited) {
		t.Errorf("edited %v, updated %v", of.Edited, of.Updated)
	}
	listed, err := t.s.TaskJobs(ctx, ann, task.ID, dispatch.Page{Most: -1})
	t.must(err)
	t.equal([]dispatch.Annotations{listed[0].Annotations, listed[1].Annotations},
		[]dispatch.Annotations{labeled("", "checked", "yes"), {}})

	t.kind(t.s.AnnotateJob(ctx, bob, id, setting("a", "b")), dispatch.NotFound)
	t.kind(t.s.AnnotateTask(ctx, bob, task.ID, setting("a", "b")), dispatch.NotFound)
	t.kind(t.s.AnnotateJob(ctx, ann, id, setting("no key", "")), dispatch.Invalid)
	t.kind(t.s.AnnotateTask(ctx, ann, task.ID, setting("no key", "")), dispatch.Invalid)
	t.equal(t.load(id).Annotations, labeled("second", "project", "a|b"))
	_, err = t.s.Cancel(ctx, ann, id, true)
	t.must(err)
	t.kind(t.s.AnnotateJob(ctx, ann, id, setting("a", "b")), dispatch.NotFound)
}

// labelFilters reads lists by a label, which other filters and places narrow.
func (t storeTest) labelFilters() {
	ctx := t.Context()
	var all []dispatch.JobID
	for i := range 6 {
		jobs := []dispatch.Draft{draft(ann, []dispatch.Account{shared, "q/shared"}[i%2])}
		jobs[0].Annotations = labeled("", "n", "1", "other", fmt.Sprint(i))
		_, err := t.s.Accept(ctx, dispatch.Key{}, nil, jobs)
		t.must(err)
		all = append([]dispatch.JobID{jobs[0].ID}, all...)
		t.db.Pass(time.Duration(i%2) * time.Millisecond) // some have the same time
	}
	t.accept()
	foreign := t.acceptFor(bob, shared)
	t.must(t.s.AnnotateJob(ctx, bob, foreign.ID, setting("n", "1")))
	task, its := t.acceptTask(ann, 2)
	t.must(t.s.AnnotateJob(ctx, ann, its[0].ID, setting("n", "1"))) // its list is not filtered here
	page := func(p dispatch.Page) (ids []dispatch.JobID, last dispatch.Place) {
		t.Helper()
		records, err := t.s.Records(ctx, ann, p)
		t.must(err)
		for _, r := range records {
			ids, last = append(ids, r.ID), dispatch.Place{Created: r.Created, ID: int64(r.ID)}
		}
		return ids, last
	}
	one := dispatch.LabelMatch{Key: "n", Value: "1"}
	t.equal(inParts(2, func(p dispatch.Page) ([]dispatch.JobID, dispatch.Place) { p.Label = one; return page(p) },
		func(first dispatch.JobID) {
			t.must(t.s.AnnotateJob(ctx, ann, first, setting("n", "2")))
		}), all)
	all = all[1:]
	running := t.load(all[1])
	running.Status, running.Updated = dispatch.Running, running.Updated.Add(time.Hour)
	t.save(running)
	for _, c := range []struct {
		page dispatch.Page
		want []dispatch.JobID
	}{
		{dispatch.Page{Label: one}, all},
		{dispatch.Page{Label: one, Accounts: []dispatch.Account{"q/shared"}}, []dispatch.JobID{all[1], all[3]}},
		{dispatch.Page{Label: one, Statuses: []dispatch.Status{dispatch.Running}}, []dispatch.JobID{all[1]}},
		{dispatch.Page{Label: one, Since: running.Updated.Add(-time.Minute)}, []dispatch.JobID{all[1]}},
		{dispatch.Page{Label: dispatch.LabelMatch{Key: "n", Value: "12"}}, nil},
		{dispatch.Page{Label: dispatch.LabelMatch{Key: "other", Value: "0"}}, []dispatch.JobID{all[4]}},
	} {
		ids, _ := page(c.page)
		t.equal(ids, c.want)
	}
	t.must(t.s.AnnotateTask(ctx, ann, task.ID, setting("n", "1")))
	t.acceptTask(ann, 1)
	for value, want := range map[string][]dispatch.TaskID{"1": {task.ID}, "2": nil} {
		tasks, err := t.s.Tasks(ctx, ann, dispatch.Page{Limit: 5, Label: dispatch.LabelMatch{Key: "n", Value: value}})
		t.must(err)
		var ids []dispatch.TaskID
		for _, found := range tasks {
			ids = append(ids, found.ID)
		}
		t.equal(ids, want)
	}
	_, err := t.s.Cancel(ctx, ann, all[0], true)
	t.must(err)
	ids, _ := page(dispatch.Page{Label: one})
	t.equal(ids, all[1:])
}

// parallelAnnotations changes different labels of one job, and of one task, at once: none is lost.
func (t storeTest) parallelAnnotations() {
	ctx, job := t.Context(), t.accept()
	task, _ := t.acceptTask(ann, 1)
	var wait sync.WaitGroup
	for i := range 8 {
		s, label := t.db.Open(), setting(fmt.Sprint("k", i), fmt.Sprint(i))
		wait.Go(func() {
			if err := s.AnnotateJob(ctx, ann, job.ID, label); err != nil {
				t.Error(err)
			}
			if err := s.AnnotateTask(ctx, ann, task.ID, label); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	of, err := t.s.Task(ctx, ann, task.ID)
	t.must(err)
	if got := t.load(job.ID).Annotations.Labels; len(got) != 8 || len(of.Annotations.Labels) != 8 {
		t.Errorf("the job has %v, the task %v", got, of.Annotations.Labels)
	}
}
