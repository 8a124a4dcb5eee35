package conformance

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (t storeTest) fields() {
	_, jobs := t.acceptTask(ann, 1)
	j := jobs[0].Job
	is := t.load(j.ID)
	t.equal(is, j)
	want := filled(j)
	saved := t.save(want)
	want.Version++
	want.Result = nil
	t.equal(saved, want)
	t.s = t.db.Restart()
	t.equal(t.load(j.ID), want)
	record, err := t.s.Record(t.Context(), ann, j.ID)
	t.must(err)
	t.equal(record.Job, want)
}

// filled sets every field that visits may write to a value other than zero and than j's. Fields that visits may not
// write keep j's values.
func filled(j dispatch.Job) dispatch.Job {
	v := reflect.ValueOf(&j).Elem()
	keep := []string{"ID", "Task", "Number", "Owner", "Account", "Base", "Service", "Names", "Desired", "Hidden",
		"Paused", "Budgeted", "Annotations", "MaxDuration", "Retries", "Created", "Version", "Traceparent", "Loaded"}
	for i, field := range reflect.VisibleFields(v.Type()) {
		if !field.Anonymous && !slices.Contains(keep, field.Name) {
			fill(v.FieldByIndex(field.Index), field.Name, i+2, j.Created)
		}
	}
	return j
}

func fill(v reflect.Value, name string, n int, base time.Time) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = base.Add(time.Duration(n) * time.Microsecond)
	case *time.Duration:
		*x = time.Duration(n) * time.Microsecond
	case **float64:
		f := float64(n) + 0.1
		*x = &f
	case *float64:
		*x = float64(n) + 0.1
	case *dispatch.Metered:
		*x = dispatch.Metered{CPU: &dispatch.Amount{Value: 12.5, Unit: "cpu-seconds"},
			Input: &dispatch.Amount{Value: 1}}
	case *[]dispatch.Unmetered:
		*x = []dispatch.Unmetered{{Ref: dispatch.Ref{Base: "b c", ID: "y\"z"}, Ended: base,
			Due: base.Add(time.Duration(n) * time.Microsecond)}, {Ended: base, Due: base.Add(time.Hour)}}
	case *dispatch.Removal:
		*x = dispatch.Removal{Due: base.Add(time.Duration(n) * time.Microsecond), Since: base, Tries: n,
			Removed: base.Add(time.Hour)}
	case *[]byte:
		*x = []byte(`{"type":"Collection"}`)
	case *[]dispatch.Ref:
		*x = []dispatch.Ref{{Base: "b c", ID: "x"}, {ID: "y\"z"}}
	case *dispatch.Ref:
		*x = dispatch.Ref{Base: "base é", ID: "id"}
	case *dispatch.Versions:
		*x = dispatch.Versions{Software: "a \"b\"", Version: "1.2", API: "1.0", Process: "7", Definition: "ab01"}
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(name)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(n))
		default:
			panic("a field of a kind that was not thought of: " + name)
		}
	}
}

func (t storeTest) requests() {
	single := t.accept()
	task, jobs := t.acceptTask(ann, 2)
	t.s = t.db.Restart()
	record, err := t.s.Record(t.Context(), ann, single.ID)
	t.must(err)
	t.equal(record, dispatch.Record{Job: single, Request: request(), Read: t.readAgenda().Now})
	for _, j := range jobs {
		want, err := task.RequestFor(j.Job, j.Body)
		t.must(err)
		record, err := t.s.Record(t.Context(), ann, j.ID)
		t.must(err)
		t.equal(record, dispatch.Record{Job: j.Job, Request: want, Read: t.readAgenda().Now})
		got, err := t.s.Request(t.Context(), j.ID)
		t.must(err)
		t.equal(got, want)
	}
	t.db.Pass(time.Second)
	newer := t.accept()
	list, err := t.s.Records(t.Context(), ann, dispatch.Page{})
	t.must(err)
	now := t.readAgenda().Now
	t.equal(list, []dispatch.Record{{Job: newer, Request: request(), Read: now}, {Job: single, Request: request(),
		Read: now}})
}

func (t storeTest) owners() {
	j := t.accept()
	for _, id := range []dispatch.JobID{j.ID, j.ID + 1e6} {
		t.foreign(bob, id)
	}
	if list, err := t.s.Records(t.Context(), bob, dispatch.Page{}); err != nil || len(list) > 0 {
		t.Errorf("bob has %v, %v", list, err)
	}
	_, err := t.s.RecordIncludingHidden(t.Context(), bob, j.ID)
	t.kind(err, dispatch.NotFound)

	hidden, err := t.s.Cancel(t.Context(), ann, j.ID, true)
	t.must(err)
	t.foreign(ann, j.ID)
	if list, err := t.s.Records(t.Context(), ann, dispatch.Page{}); err != nil || len(list) > 0 {
		t.Errorf("ann still sees %v, %v", list, err)
	}
	refused, err := t.s.RecordIncludingHidden(t.Context(), ann, j.ID)
	t.must(err)
	t.equal(refused.Job, hidden)
	t.equal(t.load(j.ID), hidden)
}

// foreign checks that u cannot find or change the job by any method.
func (t storeTest) foreign(u dispatch.UserID, id dispatch.JobID) {
	t.Helper()
	_, err := t.s.Record(t.Context(), u, id)
	t.kind(err, dispatch.NotFound)
	if text := dispatch.TextFor(err); text != "There is no such job." {
		t.Errorf("the text is %q", text)
	}
	if items, err := t.s.Items(t.Context(), u, []dispatch.JobID{id}, true); err != nil || len(items) > 0 {
		t.Errorf("Items = %v, %v", items, err)
	}
	for _, hide := range []bool{false, true} {
		_, err = t.s.Cancel(t.Context(), u, id, hide)
		t.kind(err, dispatch.NotFound)
	}
	if as, err := t.s.MarkAwaited(t.Context(), u, dispatch.Scope{Job: id}, 0, 0); err != nil || len(as) > 0 {
		t.Errorf("MarkAwaited = %v, %v", as, err)
	}
}

func (t storeTest) allOrNone() {
	before := t.accept()
	task := dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "tile"}
	jobs := make([]dispatch.Draft, 1201)
	for i := range jobs {
		jobs[i] = draft(ann, shared)
		jobs[i].Number, jobs[i].Body = i+1, []byte(`1`)
	}
	jobs[777].Body = []byte("\"\x00\"")
	_, err := t.s.Accept(t.Context(), dispatch.Key{Text: "k", Fingerprint: "f"}, &task, jobs)
	t.kind(err, dispatch.Invalid)
	if task.ID != 0 || jobs[0].ID != 0 {
		t.Error("ids were assigned to jobs that were not stored")
	}
	g := t.readAgenda()
	if ready, err := t.s.Ready(t.Context(), shared, dispatch.Queue{Owner: ann}, 9); err != nil || len(ready) != 1 ||
		ready[0].ID != before.ID || len(g.Queues) != 1 {
		t.Errorf("ready %v, queues %v, %v", ready, g.Queues, err)
	}
	jobs[777].Body = []byte(`1`)
	repeated, err := t.s.Accept(t.Context(), dispatch.Key{Text: "k", Fingerprint: "f"}, &task, jobs)
	t.must(err)
	if repeated != (dispatch.KeyTarget{}) {
		t.Errorf("the key of a failed Accept stands for %v", repeated)
	}
	ready, err := t.s.Ready(t.Context(), shared, dispatch.Queue{Owner: ann, Task: task.ID}, 2000)
	t.must(err)
	for i, j := range ready {
		t.equal(j, jobs[i].Job)
	}
	if len(ready) != len(jobs) {
		t.Errorf("%d of %d were kept", len(ready), len(jobs))
	}
	_, err = t.s.Accept(t.Context(), dispatch.Key{}, nil, nil)
	t.kind(err, dispatch.Invalid)
}

// dimension checks that one draft with a dimension stores all jobs of a task, of which some run on trial.
func (t storeTest) dimension() {
	d := dispatch.Dimension{Name: "tile", Values: []json.RawMessage{[]byte(`1`), []byte(`2`)}, Names: []string{"A", ""},
		With: []dispatch.Dimension{{Name: "year", Values: []json.RawMessage{[]byte(`3`), []byte(`4`)}}}}
	r := request()
	r.Options = []byte(`{"trial": 3}`)
	task := dispatch.Task{Owner: ann, Account: shared, Request: r, Dimension: d.Name}
	jobs := []dispatch.Draft{task.Draft(draft(ann, shared), &d)}
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, &task, jobs, dispatch.Quota{Live: 3})
	t.kind(err, dispatch.LimitReached)
	_, err = t.s.Accept(t.Context(), dispatch.Key{}, &task, jobs, dispatch.Quota{Live: 4})
	t.must(err)
	records, err := t.s.TaskJobs(t.Context(), ann, task.ID, dispatch.Page{})
	t.must(err)
	if len(records) != 4 || records[0].ID != jobs[0].ID {
		t.Fatalf("the first of %d jobs is not %d", len(records), jobs[0].ID)
	}
	for i, got := range records {
		if got.Number != i+1 || got.Paused != (i == 3) || got.Due.IsZero() != got.Paused ||
			!slices.Equal(got.Names, [][]string{{"A", ""}, {"", ""}}[i/2]) {
			t.Errorf("job %d is %+v", i+1, got.Job)
		}
		if want := fmt.Sprintf(`"tile":%d,"year":%d}`, i/2+1, i%2+3); !strings.HasSuffix(string(got.Request.Parameters),
			want) {
			t.Errorf("job %d has the parameters %s", i+1, got.Request.Parameters)
		}
	}
}

// texts checks that a response with characters that a database cannot store is not lost.
func (t storeTest) texts() {
	j := t.accept()
	j.Notice, j.Failure, j.Ref, j.Status = "a\x00b", "c\xffd", dispatch.Ref{ID: "e\x00"}, dispatch.Failed
	j.Result = []byte("{\"f\":\"\xff\"}")
	saved := t.save(j)
	if saved.Status != dispatch.Failed || saved.Notice == "" || saved.Failure == "" || saved.Ref.ID == "" {
		t.Errorf("saved %+v", saved)
	}
	t.must(t.s.Hold(t.Context(), shared, time.Minute, dispatch.NotTaken, "x\x00\xff"))
	held := t.accept()
	record, err := t.s.Record(t.Context(), ann, held.ID)
	t.must(err)
	if t.equal(record.Job, held); held.Attention != dispatch.NotTaken {
		t.Errorf("a job of an account that submits nothing: %+v", held)
	}
}

func (t storeTest) keys() {
	ctx, k := t.Context(), dispatch.Key{Text: "k", Fingerprint: "f"}
	accept := func(u dispatch.UserID, k dispatch.Key, task *dispatch.Task) (dispatch.KeyTarget, dispatch.JobID, error) {
		jobs := []dispatch.Draft{draft(u, shared), draft(u, shared)}
		r, err := t.s.Accept(ctx, k, task, jobs)
		return r, jobs[0].ID, err
	}
	r, first, err := accept(ann, k, nil)
	t.must(err)
	t.equal(r, dispatch.KeyTarget{})
	wakes := t.readAgenda().Wakes
	r, _, err = accept(ann, k, nil)
	t.must(err)
	t.equal(r, dispatch.KeyTarget{Job: first})
	_, _, err = accept(ann, dispatch.Key{Text: "k", Fingerprint: "g"}, nil)
	t.kind(err, dispatch.Conflict)
	t.repeated(ann, k, dispatch.KeyTarget{Job: first})
	t.repeated(bob, k, dispatch.KeyTarget{})
	t.repeated(ann, dispatch.Key{Text: "l", Fingerprint: "f"}, dispatch.KeyTarget{})
	_, err = t.s.FindKey(ctx, ann, dispatch.Key{Text: "k", Fingerprint: "g"})
	t.kind(err, dispatch.Conflict)
	if g := t.readAgenda(); g.Wakes != wakes {
		t.Error("a failed Accept wakes the account")
	}
	if list, err := t.s.Records(ctx, ann, dispatch.Page{}); err != nil || len(list) != 2 {
		t.Errorf("%d jobs were kept, %v", len(list), err)
	}
	r, _, err = accept(bob, k, nil)
	t.must(err)
	t.equal(r, dispatch.KeyTarget{})

	task := &dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "tile"}
	k = dispatch.Key{Text: "task", Fingerprint: "f"}
	_, _, err = accept(ann, k, task)
	t.must(err)
	r, _, err = accept(ann, k, &dispatch.Task{Owner: ann, Account: shared, Request: request(), Dimension: "tile"})
	t.must(err)
	t.equal(r, dispatch.KeyTarget{Task: task.ID})
	t.repeated(ann, k, dispatch.KeyTarget{Task: task.ID})

	t.db.Pass(dispatch.KeyLife + time.Second)
	t.repeated(ann, k, dispatch.KeyTarget{})
	r, _, err = accept(ann, dispatch.Key{Text: "k", Fingerprint: "g"}, nil)
	t.must(err)
	t.equal(r, dispatch.KeyTarget{})
}

func (t storeTest) repeated(u dispatch.UserID, k dispatch.Key, want dispatch.KeyTarget) {
	t.Helper()
	r, err := t.s.FindKey(t.Context(), u, k)
	t.must(err)
	t.equal(r, want)
}

func (t storeTest) parallelKeys() {
	handles := t.handles(8)
	ids := make(chan dispatch.JobID, 32)
	var kept sync.Map
	var all sync.WaitGroup
	for i := range cap(ids) {
		all.Go(func() {
			jobs := []dispatch.Draft{draft(ann, shared)}
			r, err := handles[i%len(handles)].Accept(t.Context(), dispatch.Key{Text: "k", Fingerprint: "f"}, nil, jobs)
			if err != nil {
				t.Error(err)
			}
			if r.Job == 0 {
				kept.Store(jobs[0].ID, true)
				r.Job = jobs[0].ID
			}
			ids <- r.Job
		})
	}
	all.Wait()
	close(ids)
	first := <-ids
	for id := range ids {
		if id != first {
			t.Errorf("the key stands for %d and for %d", first, id)
		}
	}
	n := 0
	kept.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d were the first", n)
	}
	if list, err := t.s.Records(t.Context(), ann, dispatch.Page{}); err != nil || len(list) != 1 {
		t.Errorf("%d jobs were kept, %v", len(list), err)
	}
}
