package conformance

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (t storeTest) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t storeTest) pages() {
	ctx := t.Context()
	all := []dispatch.JobID{}
	for i := range 7 {
		j := t.acceptFor(ann, []dispatch.Account{shared, "q/shared"}[i%2])
		if i%3 == 0 {
			j.Status, j.Updated = dispatch.Running, j.Updated.Add(time.Hour)
			j = t.save(j)
		}
		all = append([]dispatch.JobID{j.ID}, all...)
		t.db.Pass(time.Duration(i%2) * time.Millisecond) // some have the same time
	}
	t.acceptFor(bob, shared)
	t.acceptTask(ann, 2)
	page := func(p dispatch.Page) (ids []dispatch.JobID, last dispatch.Place) {
		t.Helper()
		records, err := t.s.Records(ctx, ann, p)
		t.must(err)
		for _, r := range records {
			ids, last = append(ids, r.ID), dispatch.Place{Created: r.Created, ID: int64(r.ID)}
		}
		return ids, last
	}
	t.equal(inParts(3, page, func(first dispatch.JobID) { // a new one comes first, and a deleted one shifts nothing
		t.acceptFor(ann, shared)
		_, err := t.s.Cancel(ctx, ann, first, true)
		t.must(err)
	}), all)
	ids, _ := page(dispatch.Page{Limit: 9, Statuses: []dispatch.Status{dispatch.Running, dispatch.Queued}})
	t.equal(ids, []dispatch.JobID{all[3], all[6]})
	ids, _ = page(dispatch.Page{Limit: 9, Accounts: []dispatch.Account{"q/shared", "r/shared"}})
	t.equal(ids, []dispatch.JobID{all[1], all[3], all[5]})
	ids, _ = page(dispatch.Page{Limit: 9, Since: t.load(all[3]).Updated.Add(-time.Minute)})
	t.equal(ids, []dispatch.JobID{all[3], all[6]}[:len(ids)])
	for _, p := range []dispatch.Page{ // all of them, from the parts by account and status
		{Statuses: []dispatch.Status{dispatch.Accepted, dispatch.Running}},
		{Accounts: []dispatch.Account{shared, "q/shared"}}, {Since: t.load(all[6]).Created.Add(-time.Hour)},
	} {
		read := inParts(3, func(part dispatch.Page) ([]dispatch.JobID, dispatch.Place) {
			part.Statuses, part.Accounts, part.Since = p.Statuses, p.Accounts, p.Since
			return page(part)
		}, func(dispatch.JobID) {})
		t.equal(read[len(read)-6:], all[1:])
	}
}

// oldestFirst reads jobs and tasks in the order of their creation, in parts, while a new one is added and a deleted one
// disappears.
func (t storeTest) oldestFirst() {
	ctx := t.Context()
	var jobs []dispatch.JobID
	var tasks []dispatch.TaskID
	for i := range 7 {
		j := t.acceptFor(ann, []dispatch.Account{shared, "q/shared"}[i%2])
		t.must(t.s.AnnotateJob(ctx, ann, j.ID, setting("a", "x")))
		task, its := t.acceptTask(ann, 2)
		t.must(t.s.AnnotateTask(ctx, ann, task.ID, setting("a", "x")))
		t.end(its[0].ID, dispatch.Failed, nil)
		jobs, tasks = append(jobs, j.ID), append(tasks, task.ID)
		t.db.Pass(time.Duration(i%2) * time.Millisecond) // some have the same time
	}
	began := t.load(jobs[0]).Created.Add(-time.Hour)
	t.acceptFor(bob, shared)
	label := dispatch.LabelMatch{Key: "a", Value: "x"}
	for i, p := range []dispatch.Page{{}, {Label: label}, {Since: began},
		{Statuses: []dispatch.Status{dispatch.Accepted,
			dispatch.Failed}}, {Accounts: []dispatch.Account{shared, "q/shared"}}} {
		read := inParts(3, func(part dispatch.Page) (ids []dispatch.JobID, last dispatch.Place) {
			p.After, p.Limit, p.Oldest = part.After, part.Limit, true
			records, err := t.s.Records(ctx, ann, p)
			t.must(err)
			for _, r := range records {
				ids, last = append(ids, r.ID), r.Place()
			}
			return ids, last
		}, func(dispatch.JobID) {})
		t.equal(read, jobs)
		if i == 3 { // the status of a task is derived from its jobs
			p.Statuses = nil
		}
		seen := inParts(3, func(part dispatch.Page) (ids []dispatch.TaskID, last dispatch.Place) {
			p.After, p.Limit, p.Oldest = part.After, part.Limit, true
			records, err := t.s.Tasks(ctx, ann, p)
			t.must(err)
			for _, r := range records {
				ids, last = append(ids, r.ID), r.Place()
				t.equal(r.Counts, dispatch.Counts{dispatch.Accepted: 1, dispatch.Failed: 1})
			}
			return ids, last
		}, func(dispatch.TaskID) {})
		t.equal(seen, tasks)
	}
	of, err := t.s.Records(ctx, ann, dispatch.Page{Oldest: true, Limit: 2, Accounts: []dispatch.Account{"q/shared"}})
	t.must(err)
	t.equal([]dispatch.JobID{of[0].ID, of[1].ID}, []dispatch.JobID{jobs[1], jobs[3]})
	read := inParts(3, func(part dispatch.Page) (ids []dispatch.JobID, last dispatch.Place) {
		part.Oldest = true
		records, err := t.s.Records(ctx, ann, part)
		t.must(err)
		for _, r := range records {
			ids, last = append(ids, r.ID), r.Place()
		}
		return ids, last
	}, func(first dispatch.JobID) {
		_, err := t.s.Cancel(ctx, ann, first, true)
		t.must(err)
		jobs = append(jobs, t.acceptFor(ann, shared).ID)
	})
	t.equal(read, jobs)
}

// inParts reads a list completely, some entries at a time. After the first part it calls change with the first entry.
func inParts[ID any](some int, page func(dispatch.Page) ([]ID, dispatch.Place), change func(first ID)) (read []ID) {
	for after := (dispatch.Place{}); ; {
		ids, last := page(dispatch.Page{After: after, Limit: some})
		if len(ids) == 0 {
			return read
		}
		read, after = append(read, ids...), last
		if len(read) == some {
			change(read[0])
		}
	}
}

// taskPages reads tasks, and the jobs of one, in parts while they change.
func (t storeTest) taskPages() {
	ctx := t.Context()
	var all []dispatch.TaskID
	var jobs []dispatch.Draft
	for i := range 6 {
		task, its := t.acceptTask(ann, 3)
		all, jobs = append([]dispatch.TaskID{task.ID}, all...), its
		if i%2 == 0 {
			for _, j := range its {
				t.end(j.ID, dispatch.Failed, nil)
			}
		}
		t.db.Pass(time.Duration(i%2) * time.Millisecond) // some have the same time
	}
	t.acceptTask(bob, 1)
	tasks := func(p dispatch.Page) (ids []dispatch.TaskID, last dispatch.Place) {
		t.Helper()
		records, err := t.s.Tasks(ctx, ann, p)
		t.must(err)
		for _, r := range records {
			ids, last = append(ids, r.ID), dispatch.Place{Created: r.Created, ID: int64(r.ID)}
		}
		return ids, last
	}
	t.equal(inParts(2, tasks, func(first dispatch.TaskID) { // as in pages
		t.acceptTask(ann, 1)
		_, err := t.s.CancelTask(ctx, ann, first, true)
		t.must(err)
	}), all)
	all = all[1:]
	failed := []dispatch.TaskID{all[0], all[2], all[4]}
	for limit := range 4 {
		ids, _ := tasks(dispatch.Page{Limit: limit, Statuses: []dispatch.Status{dispatch.Failed, dispatch.Unknown}})
		want := failed
		if limit > 0 {
			want = failed[:limit]
		}
		t.equal(ids, want)
	}
	ids, _ := tasks(dispatch.Page{Limit: 9, Accounts: []dispatch.Account{"q/shared"}})
	t.equal(ids, []dispatch.TaskID{})

	id := jobs[0].Task
	is, err := t.s.Task(ctx, ann, all[0])
	t.must(err)
	j := t.load(t.numbers(all[0], dispatch.Page{})[1])
	j.Updated = is.Updated.Add(time.Second)
	t.save(j)
	ids, _ = tasks(dispatch.Page{Since: is.Updated})
	t.equal(ids[len(ids)-1:], all[:1])
	now, err := t.s.Task(ctx, ann, all[0])
	t.must(err)
	t.equal(now.Updated, j.Updated)
	t.equal(t.numbers(all[0], dispatch.Page{Since: is.Updated}), []dispatch.JobID{j.ID})
	t.noTask(ann, id)

	task, its := t.acceptTask(ann, 5)
	t.end(its[1].ID, dispatch.Running, nil)
	t.end(its[3].ID, dispatch.Running, nil)
	_, err = t.s.Cancel(ctx, ann, its[2].ID, true)
	t.must(err)
	t.equal(t.numbers(task.ID, dispatch.Page{Limit: 2}), []dispatch.JobID{its[0].ID, its[1].ID})
	t.equal(t.numbers(task.ID, dispatch.Page{Limit: 2, After: dispatch.Place{ID: 2}}), []dispatch.JobID{its[3].ID,
		its[4].ID})
	t.equal(t.numbers(task.ID, dispatch.Page{After: dispatch.Place{ID: 5}}), []dispatch.JobID{})
	t.equal(t.numbers(task.ID, dispatch.Page{Limit: 1, After: dispatch.Place{ID: 2},
		Statuses: []dispatch.Status{dispatch.Running}}), []dispatch.JobID{its[3].ID})
	t.equal(t.numbers(task.ID, dispatch.Page{Limit: 3,
		Statuses: []dispatch.Status{dispatch.Running, dispatch.Accepted}}),
		[]dispatch.JobID{its[0].ID, its[1].ID, its[3].ID})
	t.equal(t.numbers(task.ID, dispatch.Page{Accounts: []dispatch.Account{"q/shared"}}), []dispatch.JobID{})
}

// finishedPages reads the finished jobs of a task in parts, while others finish.
func (t storeTest) finishedPages() {
	ctx := t.Context()
	task, jobs := t.acceptTask(ann, 9)
	began := t.readAgenda().Now
	finish := func(i int, after time.Duration) dispatch.JobID {
		return t.end(jobs[i].ID, dispatch.Finished, func(j *dispatch.Job) { j.Moved = began.Add(after) }).ID
	}
	want := []dispatch.JobID{finish(4, time.Second), finish(2, time.Minute), finish(3, time.Minute),
		finish(0, time.Hour)}
	t.end(jobs[5].ID, dispatch.Failed, nil)
	finish(6, time.Minute)
	_, err := t.s.Cancel(ctx, ann, jobs[6].ID, true)
	t.must(err)
	var read []dispatch.JobID
	for after := (dispatch.ResultPosition{}); ; {
		page, err := t.s.FinishedJobs(ctx, ann, task.ID, after, 2)
		t.must(err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			read, after = append(read, r.ID), r.ResultPosition()
			t.equal(r.Job, t.load(r.ID))
		}
		if len(read) == 2 {
			want = append(want, finish(1, 2*time.Hour))
		}
	}
	t.equal(read, want)

	whole, err := t.s.TaskJobs(ctx, ann, task.ID, dispatch.Page{Statuses: []dispatch.Status{dispatch.Finished},
		Most: math.MaxInt32})
	t.must(err)
	page, err := t.s.FinishedJobs(ctx, ann, task.ID, whole[0].ResultPosition(), 9)
	t.must(err)
	whole[1].Job = t.load(whole[1].ID) // of which TaskJobs reads a part
	t.equal(page, whole[1:2])
	_, err = t.s.FinishedJobs(ctx, bob, task.ID, dispatch.ResultPosition{}, 1)
	t.kind(err, dispatch.NotFound)
}

// largePages reads lists of requests that are too large to be read at once.
func (t storeTest) largePages() {
	ctx := t.Context()
	large := dispatch.Request{Title: "é \"quoted\"", Label: dispatch.OpenEO,
		Service:    dispatch.Service{Endpoint: "https://p.example", Application: "a"},
		Parameters: json.RawMessage(`{"x":"` + strings.Repeat("é", 4000) + `"}`), Format: "json"}
	small := large
	small.Parameters = json.RawMessage(`{"x":1}`)
	for _, r := range []dispatch.Request{large, small} {
		d := draft(ann, shared)
		d.Body = must(json.Marshal(r))
		_, err := t.s.Accept(ctx, dispatch.Key{}, nil, []dispatch.Draft{d})
		t.must(err)
		t.db.Pass(time.Millisecond)
	}
	head := large
	head.Parameters, head.Format = nil, ""
	records, err := t.s.Records(ctx, ann, dispatch.Page{Most: 1000})
	t.must(err)
	t.equal([]dispatch.Request{records[0].Request, records[1].Request}, []dispatch.Request{small, head})
	t.equal([]bool{records[0].Cut, records[1].Cut}, []bool{false, true})
	if is := len(must(json.Marshal(large))); records[1].Size != is {
		t.Errorf("the large request has %d bytes, not %d", records[1].Size, is)
	}
	records, err = t.s.Records(ctx, ann, dispatch.Page{Most: -1})
	t.must(err)
	t.equal([]dispatch.Request{records[0].Request, records[1].Request}, []dispatch.Request{{}, {}})

	value := json.RawMessage(`"` + strings.Repeat("v", 2000) + `"`)
	task := &dispatch.Task{Owner: ann, Account: shared, Request: large, Dimension: "d"}
	drafts := []dispatch.Draft{draft(ann, shared), draft(ann, shared)}
	for i, v := range []json.RawMessage{json.RawMessage("7"), value} {
		drafts[i].Number, drafts[i].Body = i+1, v
	}
	_, err = t.s.Accept(ctx, dispatch.Key{}, task, drafts)
	t.must(err)
	jobs, err := t.s.TaskJobs(ctx, ann, task.ID, dispatch.Page{Most: 1000})
	t.must(err)
	head.Title = "é \"quoted\" - Processing Job 2"
	t.equal(jobs[1].Request, head)
	t.equal([]json.RawMessage{jobs[0].Value, jobs[1].Value}, []json.RawMessage{json.RawMessage("7"), nil})
	t.equal([]bool{jobs[0].Cut, jobs[1].Cut}, []bool{false, true})
	tasks, err := t.s.Tasks(ctx, ann, dispatch.Page{Most: 1000})
	t.must(err)
	head.Title = large.Title
	t.equal(tasks[0].Request, head)
	whole, err := t.s.Request(ctx, jobs[1].ID)
	t.must(err)
	want, err := task.RequestFor(jobs[1].Job, value)
	t.must(err)
	t.equal(whole, want)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
