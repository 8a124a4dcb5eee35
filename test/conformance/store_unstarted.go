package conformance

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch"
)

func unstarted(u dispatch.UserID, a dispatch.Account) dispatch.Unstarted {
	return dispatch.Unstarted{Owner: u, Account: a, Title: "é", Body: []byte(`{"title":"é","process":{}}`)}
}

// createUnstarted stores an unstarted job, or task, and lets a second pass.
func (t storeTest) createUnstarted(u dispatch.UserID, a dispatch.Account, task bool) dispatch.Unstarted {
	t.Helper()
	n := unstarted(u, a)
	t.must(t.s.CreateUnstarted(t.Context(), &n, task, time.Hour))
	t.db.Pass(time.Second)
	return n
}

// listsBeginnings checks that lists have only the beginning of a long body.
func (t storeTest) listsBeginnings() {
	const carol = "carol"
	long := t.createUnstarted(carol, shared, false)
	long.Body = []byte(`{"title":"` + strings.Repeat("é", 1_000) + `"}`)
	t.must(t.s.ChangeUnstarted(t.Context(), &long))
	long.Body = []byte(string([]rune(string(long.Body))[:dispatch.UnstartedBeginning]))
	all, err := t.s.UnstartedJobs(t.Context(), carol, dispatch.Page{})
	t.must(err)
	t.equal(all, []dispatch.Unstarted{long})
}

// unstarted checks that unstarted jobs come back to their owner only, newest first, change by version, and end.
func (t storeTest) unstarted() {
	ctx := t.Context()
	first, job, task := t.createUnstarted(ann, shared, false), t.accept(), t.createUnstarted(ann, "q/shared", true)
	if first.ID.Job == 0 || first.ID.Task != 0 || task.ID.Task == 0 || task.ID.Job != 0 || first.ID.Job == job.ID ||
		first.Version != 1 || first.Expires.Sub(first.Created) != time.Hour {
		t.Errorf("ids %v %v, job %d, %+v", first.ID, task.ID, job.ID, first)
	}
	if other := t.createUnstarted(bob, shared, false); other.ID == first.ID {
		t.Errorf("the id %v twice", other.ID)
	}
	for _, asTask := range []bool{false, true} {
		keyed, again, other := unstarted(ann, shared), unstarted(ann, shared), unstarted(ann, shared)
		keyed.Key = dispatch.Key{Text: fmt.Sprint("later", asTask), Fingerprint: "f"}
		again.Key, other.Key = keyed.Key, dispatch.Key{Text: keyed.Key.Text, Fingerprint: "g"}
		t.must(t.s.CreateUnstarted(ctx, &keyed, asTask, time.Hour))
		t.must(t.s.CreateUnstarted(ctx, &again, asTask, time.Hour))
		if again.ID != keyed.ID || again.Version != 0 {
			t.Errorf("the same key created %v and %v", keyed.ID, again.ID)
		}
		t.kind(t.s.CreateUnstarted(ctx, &other, asTask, time.Hour), dispatch.Conflict)
		t.must(t.s.DeleteUnstarted(ctx, ann, keyed.ID))
	}
	n, err := t.s.Unstarted(ctx, ann, first.ID)
	t.must(err)
	t.equal(n, first)
	for _, missing := range []dispatch.UnstartedID{{}, {Job: 999}, {Task: dispatch.TaskID(first.ID.Job) + 100}} {
		_, err := t.s.Unstarted(ctx, ann, missing)
		t.kind(err, dispatch.NotFound)
	}
	_, err = t.s.Unstarted(ctx, bob, first.ID)
	t.kind(err, dispatch.NotFound)
	_, err = t.s.Record(ctx, ann, first.ID.Job)
	t.kind(err, dispatch.NotFound)
	for _, c := range []struct {
		page dispatch.Page
		want []dispatch.Unstarted
	}{
		{dispatch.Page{}, []dispatch.Unstarted{task, first}},
		{dispatch.Page{Limit: 1}, []dispatch.Unstarted{task}},
		{dispatch.Page{After: dispatch.Place{Created: task.Created, ID: task.ID.Number()}},
			[]dispatch.Unstarted{first}},
		{dispatch.Page{Accounts: []dispatch.Account{shared}}, []dispatch.Unstarted{first}},
	} {
		all, err := t.s.UnstartedJobs(ctx, ann, c.page)
		t.must(err)
		t.equal(all, c.want)
	}
	t.listsBeginnings()

	changed := first
	changed.Title, changed.Body = "other", []byte(`{"title":"other"}`)
	t.must(t.s.ChangeUnstarted(ctx, &changed))
	if n, err := t.s.Unstarted(ctx, ann, first.ID); err != nil || string(n.Body) != string(changed.Body) ||
		n.Title != "other" || n.Version != 2 || !n.Updated.After(n.Created) {
		t.Errorf("after the change %+v, %v", n, err)
	}
	t.kind(t.s.ChangeUnstarted(ctx, &first), dispatch.Conflict)
	foreign := changed
	foreign.Owner = bob
	t.kind(t.s.ChangeUnstarted(ctx, &foreign), dispatch.NotFound)
	t.kind(t.s.DeleteUnstarted(ctx, bob, first.ID), dispatch.NotFound)
	t.must(t.s.DeleteUnstarted(ctx, ann, first.ID))
	t.kind(t.s.DeleteUnstarted(ctx, ann, first.ID), dispatch.NotFound)
	bad := unstarted(ann, shared)
	bad.Body = []byte("no \x00 text")
	t.kind(t.s.CreateUnstarted(ctx, &bad, false, time.Hour), dispatch.Invalid)

	t.db.Pass(time.Hour)
	t.kind(t.s.ChangeUnstarted(ctx, &task), dispatch.NotFound)
	t.kind(t.s.DeleteUnstarted(ctx, ann, task.ID), dispatch.NotFound)
	t.kind(t.s.Start(ctx, task, &dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "x"},
		[]dispatch.Draft{draft(ann, shared)}), dispatch.NotFound)
	if all, err := t.s.UnstartedJobs(ctx, ann, dispatch.Page{}); err != nil || len(all) != 0 {
		t.Errorf("expired ones are listed: %+v, %v", all, err)
	}
	t.must(t.s.Purge(ctx, time.Hour))
}

// start checks that an unstarted job becomes a job or a task under its id, once, and that ids stay unique across
// restarts.
func (t storeTest) start() {
	ctx := t.Context()
	n, task := t.createUnstarted(ann, shared, false), t.createUnstarted(ann, shared, true)
	stale := n
	t.must(t.s.ChangeUnstarted(ctx, &n))
	t.kind(t.s.Start(ctx, stale, nil, []dispatch.Draft{draft(ann, shared)}), dispatch.Conflict)
	foreign := n
	foreign.Owner = bob
	t.kind(t.s.Start(ctx, foreign, nil, []dispatch.Draft{draft(bob, shared)}), dispatch.NotFound)
	t.s = t.db.Restart()
	jobs := []dispatch.Draft{draft(ann, shared)}
	t.must(t.s.Start(ctx, n, nil, jobs))
	if jobs[0].ID != n.ID.Job {
		t.Errorf("job %d, want %d", jobs[0].ID, n.ID.Job)
	}
	r, err := t.s.Record(ctx, ann, n.ID.Job)
	t.must(err)
	if r.Request.Title != request().Title || r.Created.Before(n.Updated) {
		t.Errorf("started as %+v", r)
	}
	t.kind(t.s.Start(ctx, n, nil, []dispatch.Draft{draft(ann, shared)}), dispatch.NotFound)
	_, err = t.s.Unstarted(ctx, ann, n.ID)
	t.kind(err, dispatch.NotFound)

	tiles := []dispatch.Draft{draft(ann, shared), draft(ann, shared)}
	for i := range tiles {
		tiles[i].Number, tiles[i].Body = i+1, fmt.Appendf(nil, "%d", i)
	}
	whole := dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "tile"}
	t.must(t.s.Start(ctx, task, &whole, tiles))
	if whole.ID != task.ID.Task || tiles[0].Task != whole.ID || tiles[0].ID == jobs[0].ID {
		t.Errorf("task %d, want %d; jobs %d %d", whole.ID, task.ID.Task, tiles[0].ID, tiles[1].ID)
	}
	if is, err := t.s.Task(ctx, ann, whole.ID); err != nil || is.Counts.Jobs() != 2 {
		t.Errorf("started as %+v, %v", is, err)
	}
	next := t.accept()
	if next.ID <= tiles[1].ID {
		t.Errorf("the next job is %d", next.ID)
	}
	if agenda := t.readAgenda(); len(agenda.Queues) != 2 {
		t.Errorf("queues %+v", agenda.Queues)
	}
}

// parallelStarts checks that of many requests that start the same job one starts it.
func (t storeTest) parallelStarts() {
	ctx := t.Context()
	n := t.createUnstarted(ann, shared, false)
	handles := []Store{t.s, t.db.Open()}
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = handles[i%2].Start(ctx, n, nil, []dispatch.Draft{draft(ann, shared)}) })
	}
	all.Wait()
	started := 0
	for _, err := range errs {
		if err == nil {
			started++
		} else {
			t.kind(err, dispatch.NotFound)
		}
	}
	if records, err := t.s.Records(ctx, ann, dispatch.Page{}); err != nil || started != 1 || len(records) != 1 {
		t.Errorf("started %d times, jobs %+v, %v", started, records, err)
	}
}

// unstartedInQuotas checks that unstarted jobs count like jobs, except in the number of a day, and that starting one
// needs no more.
func (t storeTest) unstartedInQuotas() {
	ctx := t.Context()
	t.accept()
	n := t.createUnstarted(ann, shared, false)
	for _, full := range []dispatch.Quota{{Live: 2}, {Account: shared, Live: 2}} {
		more := unstarted(ann, shared)
		t.kind(t.s.CreateUnstarted(ctx, &more, false, time.Hour, full), dispatch.LimitReached)
		_, err := t.s.Accept(ctx, dispatch.Key{}, nil, []dispatch.Draft{draft(ann, shared)}, full)
		t.kind(err, dispatch.LimitReached)
	}
	infos, err := t.s.AccountInfo(ctx, ann, []dispatch.Account{"", shared}, nil)
	t.must(err)
	held := infos[0].Bytes
	if infos[0].Live != 2 || infos[1].Live != 2 || infos[1].Lately != 1 || held < int64(len(n.Body)) {
		t.Errorf("states %+v", infos)
	}
	more := unstarted(ann, shared)
	t.kind(t.s.CreateUnstarted(ctx, &more, false, time.Hour, dispatch.Quota{Bytes: held + 1}), dispatch.LimitReached)
	larger := n
	larger.Body = append([]byte("      "), n.Body...)
	t.kind(t.s.ChangeUnstarted(ctx, &larger, dispatch.Quota{Bytes: held + 1}), dispatch.LimitReached)
	t.must(t.s.ChangeUnstarted(ctx, &n, dispatch.Quota{Live: 2, Bytes: held}))
	for _, later := range []dispatch.Quota{{Daily: 1}, {Account: shared, Daily: 1}} {
		t.kind(t.s.Start(ctx, n, nil, []dispatch.Draft{draft(ann, shared)}, later), dispatch.LimitReached)
	}
	if _, err := t.s.Unstarted(ctx, ann, n.ID); err != nil {
		t.Errorf("a refused start: %v", err)
	}
	t.must(t.s.Start(ctx, n, nil, []dispatch.Draft{draft(ann, shared)}, dispatch.Quota{Live: 2, Daily: 2}))
}

// processes checks that a process that was sent with a request comes back with it, counts as bytes, and is stored once.
func (t storeTest) processes() {
	ctx := t.Context()
	process := []byte(`{"process_graph": {"add": {"process_id": "add", "arguments": {"x": 1.50}}}}`)
	document := &dispatch.Document{Body: process, Origin: dispatch.Origin{Platform: "p"}}
	document.Service.Application = "process_graph#" + document.Hash()
	d := draft(ann, shared)
	d.Document, d.Body = document,
		fmt.Appendf(nil, `{"title":"t","service":{"endpoint":"","namespace":null,"application":%q},"parameters":{}}`,
			document.Service.Application)
	size := int64(len(d.Body) + len(process))
	_, err := t.s.Accept(ctx, dispatch.Key{}, nil, []dispatch.Draft{d}, dispatch.Quota{Bytes: size - 1})
	t.kind(err, dispatch.LimitReached)
	jobs := []dispatch.Draft{d}
	_, err = t.s.Accept(ctx, dispatch.Key{}, nil, jobs, dispatch.Quota{Bytes: size})
	t.must(err)
	infos, err := t.s.AccountInfo(ctx, ann, []dispatch.Account{""}, nil)
	t.must(err)
	if infos[0].Bytes != size {
		t.Errorf("%d bytes, want %d", infos[0].Bytes, size)
	}
	r, err := t.s.Request(ctx, jobs[0].ID)
	t.must(err)
	if string(r.Process) != string(process) {
		t.Errorf("process %s", r.Process)
	}
	if body, err := t.s.Document(ctx, ann, jobs[0].ID); err != nil || string(body) != string(process) {
		t.Errorf("document %s, %v", body, err)
	}
	shown, err := t.s.Record(ctx, ann, jobs[0].ID)
	t.must(err)
	if shown.Request.Process != nil || !shown.Request.Service.Inline() {
		t.Errorf("record %+v", shown.Request)
	}
	task := dispatch.Task{Owner: ann, Account: shared, Request: shown.Request, Dimension: "x", Document: document}
	tile := draft(ann, shared)
	tile.Number, tile.Body = 1, []byte("7")
	tiles := []dispatch.Draft{tile}
	_, err = t.s.Accept(ctx, dispatch.Key{}, &task, tiles)
	t.must(err)
	if r, err := t.s.Request(ctx, tiles[0].ID); err != nil || string(r.Process) != string(process) ||
		string(r.Parameters) != `{"x":7}` {
		t.Errorf("of a task: %+v, %v", r, err)
	}
}

// createUnstarted creates an unstarted job on both sides.
func (p *pair) createUnstarted(r *rapid.T) {
	u, task := users.Draw(r, "owner"), rapid.Bool().Draw(r, "task")
	within := dispatch.Quota{Live: rapid.IntRange(0, 9).Draw(r, "live")}
	got := both(p, r, func(s Store) (dispatch.Unstarted, error) {
		n := unstarted(u, "p/shared")
		err := s.CreateUnstarted(p.Context(), &n, task, 20*time.Minute, within)
		return n, err
	})
	p.jobs = max(p.jobs, int(got.ID.Job))
}

// start starts the newest unstarted job of a user, if it is no task.
func (p *pair) start(r *rapid.T) {
	u, within := users.Draw(r, "owner"), dispatch.Quota{Live: rapid.IntRange(0, 9).Draw(r, "live")}
	all := both(p, r, func(s Store) ([]dispatch.Unstarted, error) {
		return s.UnstartedJobs(p.Context(), u, dispatch.Page{Limit: 1})
	})
	if len(all) == 0 || all[0].ID.Job == 0 {
		return
	}
	both(p, r, func(s Store) ([]dispatch.Draft, error) {
		jobs := []dispatch.Draft{draft(u, all[0].Account)}
		return jobs, s.Start(p.Context(), all[0], nil, jobs, within)
	})
}
