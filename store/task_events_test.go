package store_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// told are the statuses that the hook of a task in these tests is told of.
var told = []dispatch.Status{"task_share_25", "task_share_50", "task_share_75", dispatch.TaskEnded}

// addTask stores a task whose hook is told of it, and returns its jobs.
func (t *hookTest) addTask(id string, jobs int) (dispatch.TaskID, []dispatch.Job) {
	t.Helper()
	all := drafts(jobs)
	for i := range all {
		all[i].Number = i + 1
	}
	task := &dispatch.Task{Owner: "ann", Account: all[0].Account, Dimension: "tile", Hooks: []dispatch.Hook{{ID: id, Owner: "ann", Kind: dispatch.Webhook, Statuses: told}}}
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, task, all)
	t.must(err)
	var stored []dispatch.Job
	for _, d := range all {
		stored = append(stored, d.Job)
	}
	return task.ID, stored
}

// endNow ends a job, as another process may meanwhile.
func (t *hookTest) endNow(j dispatch.Job) dispatch.Job {
	j.Phase, j.Status, j.Epoch, j.Updated, j.Moved = dispatch.Ended, dispatch.Failed, j.Epoch+1, start, start
	saved, err := t.s.Save(t.Context(), []dispatch.Job{j})
	if err != nil || len(saved) != 1 {
		t.Errorf("%d saved, %v", len(saved), err)
		return j
	}
	return saved[0]
}

// look has the store look for events of tasks until there are none.
func (t *hookTest) look() {
	for more := true; more; {
		var err error
		if more, err = t.kept.AddTaskEvents(t.Context(), 1); err != nil {
			t.Error(err)
			return
		}
	}
}

// events returns the events that a hook of ann was told, in the order in which they are sent.
func (t *hookTest) events(hook string) (all []string) {
	t.Helper()
	deliveries, err := t.kept.Deliveries(t.Context(), "ann", hook, 100)
	t.must(err)
	slices.SortFunc(deliveries, func(a, b dispatch.Delivery) int { return a.Epoch - b.Epoch })
	for _, d := range deliveries {
		all = append(all, string(d.Status))
	}
	return all
}

// TestTaskEvents_Once: each share is told once and the end once for each time that the task ends, although the jobs end at the same time and
// several processes look. The shares come before the end.
func TestTaskEvents_Once(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		id, jobs := t.addTask("h", 16)
		t.look()
		t.equal(t.events("h"), nil)
		for i := range 3 {
			jobs[i] = t.endNow(jobs[i])
		}
		t.look()
		t.equal(t.events("h"), nil)
		jobs[3] = t.endNow(jobs[3])
		t.look()
		t.equal(t.events("h"), []string{"task_share_25"})
		var all sync.WaitGroup
		for i := 4; i < len(jobs); i++ {
			all.Go(func() { jobs[i] = t.endNow(jobs[i]); t.look() })
		}
		all.Wait()
		want := []string{"task_share_25", "task_share_50", "task_share_75", "task_ended"}
		t.equal(t.events("h"), want)
		for i := range want {
			got := t.claim("h", 10)
			if len(got) != 1 || got[0].Of != id || string(got[0].Status) != want[i] {
				t.Fatalf("%d: %+v", i, got)
			}
			if e, err := dispatch.ParseEvent(got[0].Event.String()); e != got[0].Event || err != nil {
				t.Errorf("%v, %v", e, err)
			}
			h, err := t.kept.Hook(t.Context(), "ann", "h")
			t.must(err)
			got[0].State, got[0].Due = dispatch.DeliveryDone, time.Time{}
			t.must(t.kept.SettleDeliveries(t.Context(), h, got))
		}
		again, err := t.s.Save(t.Context(), []dispatch.Job{jobs[0].Retry(start)})
		t.must(err)
		t.endNow(again[0])
		t.look()
		t.equal(t.events("h"), append(want, "task_ended"))
		t.must(t.kept.SendAgain(t.Context(), "ann", "h", dispatch.Event{Of: id, Epoch: 25, Status: "task_share_25"}))
	})
}

// TestTaskEvents_Attention: a job that waits for its owner is told once in an epoch, and an account that waits for a sign-in once, to hooks of all
// jobs, and of a task there that has not ended.
func TestTaskEvents_Attention(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		t.add("all", "ann", dispatch.NeedsOwner)
		t.add("ends", "ann", dispatch.Finished)
		t.add("other", "bob", dispatch.NeedsOwner)
		for range 2 {
			j := t.jobs[0]
			j.Phase, j.Status, j.Attention, j.Epoch = dispatch.Started, dispatch.Running, dispatch.Stalled, 1
			for _, j.Attention = range []dispatch.Attention{dispatch.Stalled, dispatch.None} {
				saved, err := t.s.Save(t.Context(), []dispatch.Job{j})
				t.must(err)
				j = saved[0]
			}
			t.jobs[0] = j
		}
		account := dispatch.Account("p/ann")
		waiting := drafts(1)
		waiting[0].Account = account
		waiting[0].Hooks = []dispatch.Hook{{ID: "one", Owner: "ann", Kind: dispatch.Webhook, Statuses: []dispatch.Status{dispatch.NeedsOwner}}}
		_, err := t.s.Accept(t.Context(), dispatch.Key{}, nil, waiting)
		t.must(err)
		for range 2 {
			t.must(t.s.Hold(t.Context(), account, 1e12, dispatch.NeedsSignIn, "sign in"))
		}
		t.equal(t.events("all"), []string{"attention", "sign_in_required"})
		t.equal(t.events("one"), []string{"sign_in_required"})
		t.equal(t.events("ends"), nil)
		if n := len(t.claim("other", 10)); n != 0 {
			t.Errorf("another user is told of %d events", n)
		}
	})
}
