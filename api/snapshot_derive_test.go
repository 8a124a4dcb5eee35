package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// follow returns the API of a world with a task of 40 jobs, the task's topic, and the snapshot with which a stream of
// its changes began.
func follow(t *testing.T, w *world) (*api, topic, *snapshot) {
	t.Helper()
	h := New(w.config())
	t.Cleanup(h.Close)
	values := strings.TrimSuffix(strings.Repeat("1,", 40), ",")
	body := strings.Replace(goodBody, `{"title"`, `{"dimension":{"name":"tile","values":[`+values+`]},"title"`, 1)
	decode[any](t, ask(h, "POST", "/upscale_tasks", body), 201)
	a, of := h.(*api), topic{user: anna, task: 1}
	t.Cleanup(a.followers.enter(of))
	p, err := a.buildChanges(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	return a, of, p
}

// changesOf are what may happen to a job between two reads, and whether all jobs are read again for that.
var changesOf = []struct {
	name   string
	whole  bool
	change func(*world, dispatch.JobID)
}{
	{"nothing", false, func(*world, dispatch.JobID) {}},
	{"a status", false, func(w *world, id dispatch.JobID) {
		w.set(id, func(r *dispatch.Record) { r.Status = statuses[int(r.Updated.Unix())%len(statuses)] })
	}},
	{"a time of asking", false, touch},
	{"a wake of the account", false, func(w *world, _ dispatch.JobID) { w.wakes++ }},
	{"a deleted job", true, func(w *world, id dispatch.JobID) { w.set(id, func(r *dispatch.Record) { r.Task = 0 }) }},
	{"an unreachable platform", true, func(w *world, id dispatch.JobID) {
		w.set(id, func(r *dispatch.Record) { r.Phase, r.Tries, r.Attention = dispatch.Started, 1, dispatch.Unreachable })
	}},
	{"an answer", true, func(w *world, _ dispatch.JobID) {
		for id, r := range w.jobs {
			if r.Tries = 0; r.Attention == dispatch.Unreachable {
				r.Attention = dispatch.None // not a change of the job, and so without a new time
			}
			w.jobs[id] = r
		}
	}},
	{"a pause", true, func(w *world, _ dispatch.JobID) {
		task := w.tasks[1]
		task.Paused, task.Edited = !task.Paused, task.Edited.Add(time.Second)
		w.tasks[1] = task
	}},
	{"a changed document", true, func(w *world, _ dispatch.JobID) {
		task := w.tasks[1]
		task.Attention = map[dispatch.Attention]dispatch.Attention{dispatch.None: dispatch.ServiceChanged}[task.Attention]
		w.tasks[1] = task
	}},
}

// A state that is derived from the jobs that changed is the one that all jobs have, whatever happens.
func TestDerive_IsTheWholeTask(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random, w := rand.New(rand.NewPCG(seed, 0)), newWorld()
			a, of, last := follow(t, w)
			for range 60 {
				for range random.IntN(4) {
					c := changesOf[random.IntN(len(changesOf))]
					id := dispatch.JobID(1 + random.IntN(40))
					if w.jobs[id].Task == 1 {
						c.change(w, id)
					}
				}
				last = checkNext(t, a, of, last)
			}
		})
	}
}

// checkNext reads the next snapshot, and compares it and what it says has changed with a snapshot of all jobs.
func checkNext(t *testing.T, a *api, of topic, last *snapshot) *snapshot {
	t.Helper()
	build := a.buildChanges
	if of.task == 0 {
		build = a.buildListChanges
	}
	p, err := build(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := a.buildSnapshot(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	same := func(i, j item) bool { return i.digest == j.digest && i.updated == j.updated }
	if p.digest != whole.digest || p.live != whole.live || !maps.EqualFunc(maps.Collect(p.items.all()),
		maps.Collect(whole.items.all()), same) {
		t.Fatalf("derived %+v, not %+v", p.outline, whole.outline)
	}
	d, err := p.since(last.items)
	if err != nil {
		t.Fatal(err)
	}
	want := compare(last.items, whole.items)
	if len(d.jobs) != len(want.jobs) || len(d.tasks) != len(want.tasks) || len(d.removedJobs) != len(want.removedJobs) {
		t.Fatalf("changes %+v, not %+v", d, want)
	}
	if d.none() {
		return p
	}
	var m struct{ Data StatusChanges }
	if err := json.Unmarshal(d.message, &m); err != nil || len(m.Data.ProcessingJobs) != len(want.jobs) ||
		len(m.Data.UpscalingTasks) != len(want.tasks) {
		t.Fatalf("%v in %s", err, d.message)
	}
	for i, id := range d.jobs {
		if is := shown(whole.message, whole.items, false, []int64{id}); string(m.Data.ProcessingJobs[i]) != string(is[0]) {
			t.Fatalf("job %d is sent as %s, not %s", id, m.Data.ProcessingJobs[i], is[0])
		}
	}
	return p
}

// All jobs of a task are read again only after changes that may concern all of them.
func TestDerive_ReadsWhatChanged(t *testing.T) {
	for _, c := range changesOf {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			a, of, last := follow(t, w)
			if c.name == "an answer" {
				changesOf[5].change(w, 7)
				last = checkNext(t, a, of, last)
			}
			c.change(w, 7)
			before := w.listed()
			checkNext(t, a, of, last)
			if n := w.listed() - before - 1; n > 0 != c.whole { // checkNext itself reads them once
				t.Errorf("all jobs were read %d times", n)
			}
		})
	}
}

// Who watches the changes of a task gets those of its jobs that changed, and the task, without a read of all jobs.
func TestStream_OfATasksChanges(t *testing.T) {
	s := serveWorld(t, newWorld(), nil)
	decode[any](t, ask(s.api, "POST", "/upscale_tasks", goodTask), 201)
	c := s.open("/ws/upscale_tasks/1?interval=3600&changes=true")
	c.until("status")
	before := s.w.listed()
	for id := range int64(2) {
		s.w.set(dispatch.JobID(id+1), func(r *dispatch.Record) { r.Status = dispatch.Running })
		l := listIn(t, c.until("changes"))
		if len(l.ProcessingJobs) != 1 || l.ProcessingJobs[0].ID != id+1 || l.ProcessingJobs[0].Status != "running" {
			t.Errorf("%+v", l)
		}
	}
	if n := s.w.listed() - before; n > 0 {
		t.Errorf("all jobs were read %d times", n)
	}
}

// A whole read and a derived one add up progress in different orders. Rounding errors are no change.
func TestTaskDigest_OfRoundingErrors(t *testing.T) {
	whole, derived := dispatch.TaskRecord{}, dispatch.TaskRecord{}
	whole.Progress, derived.Progress = 29, 28.999999999999996
	if taskDigest(whole) != taskDigest(derived) {
		t.Error("the digests differ")
	}
}
