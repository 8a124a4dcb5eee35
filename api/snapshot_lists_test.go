package api

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// followList returns the API of a world with ten jobs, the topic of their list, and the snapshot with which a stream of
// its changes began.
func followList(t *testing.T, w *world) (*api, topic, *snapshot) {
	t.Helper()
	h := New(w.config())
	t.Cleanup(h.Close)
	for range 10 {
		decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	}
	a, of := h.(*api), topic{user: anna, want: filter{upscaling: true, processing: true}}
	t.Cleanup(a.follow(of))
	p, err := a.readListChanges(t.Context(), of, true)
	if err != nil {
		t.Fatal(err)
	}
	return a, of, p
}

// tellOthers signals that anything may have changed.
func (w *world) tellOthers() {
	for f := range w.feeds {
		f.AddOthers()
	}
}

// changesOfLists are what may happen to a job between two reads, and whether the whole list is read for that.
var changesOfLists = []struct {
	name   string
	whole  bool
	change func(*world, dispatch.JobID)
}{
	{"nothing", false, func(*world, dispatch.JobID) {}},
	{"a status", false, func(w *world, id dispatch.JobID) {
		w.set(id, func(r *dispatch.Record) { r.Status = statuses[int(r.Updated.Unix())%len(statuses)] })
	}},
	{"an end", false, func(w *world, id dispatch.JobID) {
		w.set(id, func(r *dispatch.Record) { r.Phase, r.Status = dispatch.Ended, dispatch.Finished })
	}},
	{"late news", false, func(w *world, id dispatch.JobID) {
		old := w.jobs[id].Job
		w.set(id, func(r *dispatch.Record) { r.Status = dispatch.Failed })
		old.Status = dispatch.Running
		for f := range w.feeds {
			f.Add(old)
		}
	}},
	{"a job that waits", true, func(w *world, id dispatch.JobID) {
		w.set(id, func(r *dispatch.Record) { r.Phase, r.Status = dispatch.Waiting, dispatch.Accepted })
	}},
	{"an unreachable platform", true, func(w *world, id dispatch.JobID) {
		w.set(id, func(r *dispatch.Record) { r.Phase, r.Tries, r.Attention = dispatch.Started, 1, dispatch.Unreachable })
	}},
	{"a deleted job", true, func(w *world, id dispatch.JobID) {
		w.set(id, func(r *dispatch.Record) { r.Hidden, r.Owner = true, bert }) // as the lists of the world show hidden jobs
		w.tellOthers()
	}},
	{"a change of all jobs", true, func(w *world, _ dispatch.JobID) {
		for id, r := range w.jobs {
			r.Attention = dispatch.Full
			w.jobs[id] = r
		}
		w.tellOthers()
	}},
}

// A list that is derived from the jobs that were saved is the whole list, whatever happens.
func TestListChanges_AreTheWholeList(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random, w := rand.New(rand.NewPCG(seed, 0)), newWorld()
			a, of, last := followList(t, w)
			for range 60 {
				for range random.IntN(4) {
					id := dispatch.JobID(1 + random.IntN(10))
					if w.jobs[id].Owner == anna {
						changesOfLists[random.IntN(len(changesOfLists))].change(w, id)
					}
				}
				last = checkNext(t, a, of, last)
			}
		})
	}
}

// The whole list is read again only after changes that may concern more than the jobs that were saved.
func TestListChanges_ReadWhatChanged(t *testing.T) {
	for _, c := range changesOfLists {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			a, of, last := followList(t, w)
			w.asked = nil
			c.change(w, 7)
			checkNext(t, a, of, last)
			if n := len(w.asked) - 2; n > 0 != c.whole { // checkNext itself reads the tasks and the jobs
				t.Errorf("tasks and jobs were read %d times", n)
			}
		})
	}
}

// What is not signaled, such as a platform that does not respond, is found while other jobs are live: with the first
// change after usualInterval, and whenever the list is read anew.
func TestListChanges_FindWhatIsNotSignaled(t *testing.T) {
	silent := func(w *world) {
		r := w.jobs[3]
		r.Attention = dispatch.Unreachable
		w.jobs[3] = r
	}
	end := func(w *world) {
		w.set(7, func(r *dispatch.Record) { r.Phase, r.Status = dispatch.Ended, dispatch.Finished })
	}
	for _, row := range []struct {
		after time.Duration
		anew  bool
		found int
	}{{0, false, 1}, {0, true, 2}, {usualInterval, false, 2}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			a, of, last := followList(t, w)
			silent(w)
			end(w)
			time.Sleep(row.after)
			p, err := a.readListChanges(t.Context(), of, row.anew)
			if err != nil {
				t.Fatal(err)
			}
			if d, err := p.since(last.items); err != nil || len(d.jobs) != row.found {
				t.Errorf("after %v, anew %t: %v changed, %v", row.after, row.anew, d.jobs, err)
			}
		})
	}
}

// Who watches the changes of a list gets the job that changed, without a read of the list.
func TestStream_OfAListsChanges(t *testing.T) {
	w := newWorld()
	s := serveWorld(t, w, nil)
	for range 3 {
		decode[any](t, ask(s.api, "POST", "/unit_jobs", goodBody), 201)
	}
	c := s.open("/job_status?interval=3600&changes=true")
	c.until("status")
	reads := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.asked)
	}
	before := reads()
	for id := range int64(3) {
		w.set(dispatch.JobID(id+1), func(r *dispatch.Record) { r.Phase, r.Status = dispatch.Ended, dispatch.Finished })
		l := listIn(t, c.until("changes"))
		if len(l.ProcessingJobs) != 1 || l.ProcessingJobs[0].ID != id+1 || l.ProcessingJobs[0].Status != "finished" ||
			l.ProcessingJobs[0].Title == "" {
			t.Errorf("%+v", l)
		}
	}
	if n := reads() - before; n > 0 {
		t.Errorf("the list was read %d times", n)
	}
}
