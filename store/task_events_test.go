package store_test

import (
	"cmp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
)

// notified are the statuses that the hook of a task in these tests wants to know.
var notified = []dispatch.Status{"task_share_25", "task_share_50", "task_share_75", dispatch.TaskEnded}

// addTask stores a task whose hook is notified of it, and returns its jobs.
func (t *hookTest) addTask(id string, jobs int) (dispatch.TaskID, []dispatch.Job) {
	t.Helper()
	all := drafts(jobs)
	for i := range all {
		all[i].Number = i + 1
	}
	task := &dispatch.Task{Owner: "ann", Account: all[0].Account, Dimension: "tile",
		Hooks: []dispatch.Hook{{ID: id, Owner: "ann", Kind: dispatch.Webhook, Statuses: notified}}}
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

// events returns the events that a hook of ann got, in the order in which they are sent.
func (t *hookTest) events(hook string) (all []string) {
	t.Helper()
	deliveries, err := t.kept.Deliveries(t.Context(), "ann", hook, 100)
	t.must(err)
	slices.SortFunc(deliveries, func(a, b dispatch.Delivery) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Status, b.Status))
	})
	for _, d := range deliveries {
		all = append(all, string(d.Status))
	}
	return all
}

// TestTaskEvents_Once: each share is sent once and the end once for each time that the task ends, although the jobs end
// at the same time. The shares come before the end.
func TestTaskEvents_Once(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		id, jobs := t.addTask("h", 16)
		t.equal(t.events("h"), nil)
		for i := range 3 {
			jobs[i] = t.endNow(jobs[i])
		}
		t.equal(t.events("h"), nil)
		jobs[3] = t.endNow(jobs[3])
		t.equal(t.events("h"), []string{"task_share_25"})
		var all sync.WaitGroup
		for i := 4; i < len(jobs); i++ {
			all.Go(func() { jobs[i] = t.endNow(jobs[i]) })
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
		t.equal(t.events("h"), append(want, "task_ended"))
		t.must(t.kept.SendAgain(t.Context(), "ann", "h", dispatch.Event{Of: id, Epoch: 25, Status: "task_share_25"}))
	})
}

// TestTaskEvents_AsOneJob: those to whom a task is one job learn that some of its jobs have ended, and how it ended,
// once for each end.
func TestTaskEvents_AsOneJob(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		all := drafts(3)
		for i := range all {
			all[i].Number = i + 1
		}
		task := &dispatch.Task{Owner: "ann", Account: all[0].Account, Dimension: "tile"}
		for _, status := range []dispatch.Status{dispatch.TaskRunning, dispatch.TaskFinished, dispatch.TaskFailed} {
			task.Hooks = append(task.Hooks, dispatch.Hook{ID: string(status), Owner: "ann",
				Kind: dispatch.OGCSubscriber, Statuses: []dispatch.Status{status}})
		}
		_, err := t.s.Accept(t.Context(), dispatch.Key{}, task, all)
		t.must(err)
		seen := func(want ...string) {
			t.Helper()
			t.equal(append(append(t.events("task_running"), t.events("task_finished")...), t.events("task_failed")...),
				want)
		}
		jobs := []dispatch.Job{t.endNow(all[0].Job), all[1].Job, all[2].Job}
		seen("task_running")
		jobs[1] = t.endNow(jobs[1])
		seen("task_running")
		jobs[2] = t.endNow(jobs[2])
		seen("task_running", "task_failed")
		again, err := t.s.Save(t.Context(), []dispatch.Job{jobs[0].Retry(start)})
		t.must(err)
		again[0].Phase, again[0].Status, again[0].Epoch, again[0].Updated, again[0].Moved = dispatch.Ended,
			dispatch.Finished, again[0].Epoch+1, start, start
		_, err = t.s.Save(t.Context(), again)
		t.must(err)
		seen("task_running", "task_finished", "task_failed")
	})
}

// TestTaskEvents_AsOneJobAtOnce: a task whose jobs all end at once tells that it ran, if it was successful, before its
// end.
func TestTaskEvents_AsOneJobAtOnce(t *testing.T) {
	for status, want := range map[dispatch.Status]map[string]int{dispatch.Finished: {"task_running": 1,
		"task_finished": 1}, dispatch.Failed: {"task_failed": 1}} {
		t.Run(string(status), func(t *testing.T) {
			eachHookTest(t, 1, func(t *hookTest) {
				all := drafts(2)
				task := &dispatch.Task{Owner: "ann", Account: all[0].Account, Dimension: "tile"}
				hooks := []string{"task_running", "task_finished", "task_failed"}
				for _, hook := range hooks {
					task.Hooks = append(task.Hooks, dispatch.Hook{ID: hook, Owner: "ann", Kind: dispatch.OGCSubscriber,
						Statuses: []dispatch.Status{dispatch.Status(hook)}})
				}
				_, err := t.s.Accept(t.Context(), dispatch.Key{}, task, all)
				t.must(err)
				jobs := []dispatch.Job{all[0].Job, all[1].Job}
				for i := range jobs {
					j := &jobs[i]
					j.Phase, j.Status, j.Epoch, j.Updated, j.Moved = dispatch.Ended, status, j.Epoch+1, start, start
				}
				_, err = t.s.Save(t.Context(), jobs)
				t.must(err)
				for _, hook := range hooks {
					if n := len(t.events(hook)); n != want[hook] {
						t.Errorf("%s: %d", hook, n)
					}
				}
				if want["task_running"] == 0 {
					return
				}
				if n := len(t.claim("task_finished", 1)); n != 0 {
					t.Error("the end is sent first")
				}
				h, err := t.kept.Hook(t.Context(), "ann", "task_running")
				t.must(err)
				got := t.claim("task_running", 1)
				for i := range got {
					got[i].State, got[i].Due, got[i].Answer = dispatch.DeliveryDone, time.Time{}, 204
				}
				t.must(t.kept.SettleDeliveries(t.Context(), h, got))
				if n := len(t.claim("task_finished", 1)); n != 1 {
					t.Errorf("then the end is sent %d times", n)
				}
			})
		})
	}
}

// TestTaskEvents_Attention: each reason for which a job waits for its owner is sent once in an epoch, and an account
// that waits for a sign-in once, to hooks of all jobs, and of a task there that has not ended.
func TestTaskEvents_Attention(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		t.add("all", "ann", dispatch.NeedsOwner)
		t.add("ends", "ann", dispatch.Finished)
		t.add("other", "bob", dispatch.NeedsOwner)
		for range 2 {
			j := t.jobs[0]
			j.Phase, j.Status, j.Epoch = dispatch.Started, dispatch.Running, 1
			for _, j.Attention = range []dispatch.Attention{dispatch.Stalled, dispatch.Unreachable, dispatch.SetAside,
				dispatch.None} {
				saved, err := t.s.Save(t.Context(), []dispatch.Job{j})
				t.must(err)
				j = saved[0]
			}
			t.jobs[0] = j
		}
		account := dispatch.Account("p/ann")
		waiting := drafts(1)
		waiting[0].Account = account
		waiting[0].Hooks = []dispatch.Hook{{ID: "one", Owner: "ann", Kind: dispatch.Webhook,
			Statuses: []dispatch.Status{dispatch.NeedsOwner}}}
		_, err := t.s.Accept(t.Context(), dispatch.Key{}, nil, waiting)
		t.must(err)
		for range 2 {
			t.must(t.s.Hold(t.Context(), account, 1e12, dispatch.NeedsSignIn, "sign in"))
		}
		t.equal(t.events("all"), []string{"attention_set_aside", "attention_stalled", "sign_in_required"})
		t.equal(t.events("one"), []string{"sign_in_required"})
		t.equal(t.events("ends"), nil)
		if n := len(t.claim("other", 10)); n != 0 {
			t.Errorf("another user is notified of %d events", n)
		}
	})
}

// TestTaskEvents_JobsDeleted: the end is sent if the last job that has not ended is deleted, once; and sent again after
// a retry although a job that counted in the first end was deleted meanwhile.
func TestTaskEvents_JobsDeleted(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		_, jobs := t.addTask("h", 3)
		running := jobs[2]
		running.Phase, running.Status = dispatch.Started, dispatch.Running
		saved, err := t.s.Save(t.Context(), []dispatch.Job{running})
		t.must(err)
		running = saved[0]
		for i := range 2 {
			for range 3 {
				again, err := t.s.Save(t.Context(), []dispatch.Job{t.endNow(jobs[i]).Retry(start)})
				t.must(err)
				jobs[i] = again[0]
			}
		}
		jobs[0], jobs[1] = t.endNow(jobs[0]), t.endNow(jobs[1])
		shares := []string{"task_share_25", "task_share_50"}
		t.equal(t.events("h"), shares)
		_, err = t.s.Cancel(t.Context(), "ann", running.ID, true)
		t.must(err)
		want := append(shares, "task_share_75", "task_ended")
		t.equal(t.events("h"), want)
		again, err := t.s.Save(t.Context(), []dispatch.Job{jobs[1].Retry(start)})
		t.must(err)
		_, err = t.s.Cancel(t.Context(), "ann", jobs[0].ID, true)
		t.must(err)
		t.endNow(again[0])
		t.equal(t.events("h"), append(want, "task_ended"))
	})
}

// TestTaskEvents_LateHook: a hook does not get the shares that a task passed before there was any hook, and shares are
// not sent again when their deliveries are deleted.
func TestTaskEvents_LateHook(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		all := drafts(4)
		for i := range all {
			all[i].Number = i + 1
		}
		_, err := t.s.Accept(t.Context(), dispatch.Key{}, &dispatch.Task{Owner: "ann", Account: all[0].Account,
			Dimension: "tile"}, all)
		t.must(err)
		t.endNow(all[0].Job)
		t.endNow(all[1].Job)
		t.add("late", "ann", notified...)
		t.endNow(all[2].Job)
		t.equal(t.events("late"), []string{"task_share_75"})
		store.Exec(t, t.s.(*store.Store), "DELETE FROM deliveries")
		t.endNow(all[3].Job)
		t.equal(t.events("late"), []string{"task_ended"})
	})
}

// addLimited stores a task with a budget or a trial, whose hook learns when it waits for its owner, and returns its
// jobs.
func (t *hookTest) addLimited(task dispatch.Task, jobs int) (dispatch.TaskID, []dispatch.Job) {
	t.Helper()
	all := drafts(jobs)
	for i := range all {
		all[i].Number, all[i].Budgeted = i+1, task.Budget != dispatch.Budget{}
	}
	task.Owner, task.Account, task.Dimension = "ann", all[0].Account, "tile"
	task.Hooks = []dispatch.Hook{{ID: "limited", Owner: "ann", Kind: dispatch.Webhook,
		Statuses: []dispatch.Status{dispatch.NeedsOwner}}}
	_, err := t.s.Accept(t.Context(), dispatch.Key{}, &task, all)
	t.must(err)
	var stored []dispatch.Job
	for _, d := range all {
		stored = append(stored, d.Job)
	}
	return task.ID, stored
}

// TestTaskEvents_Trial: those who are notified of what waits for its owner get one message that a trial has ended, and
// again if its jobs are retried. Jobs that are not of the trial, and the end of a task that is not on trial, tell
// nothing.
func TestTaskEvents_Trial(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		t.add("ends", "ann", dispatch.Finished)
		_, jobs := t.addLimited(dispatch.Task{Trial: 2, Paused: true, PausedFor: dispatch.Trial}, 4)
		heard := func(want ...string) {
			t.Helper()
			t.equal(t.events("limited"), want)
		}
		jobs[0], jobs[3] = t.endNow(jobs[0]), t.endNow(jobs[3])
		heard()
		jobs[1] = t.endNow(jobs[1])
		heard("attention_trial_ended")
		jobs[2] = t.endNow(jobs[2])
		heard("attention_trial_ended")
		again, err := t.s.Save(t.Context(), []dispatch.Job{jobs[1].Retry(start)})
		t.must(err)
		t.endNow(again[0])
		heard("attention_trial_ended", "attention_trial_ended")
		all := t.claim("limited", 1)
		if len(all) != 1 || all[0].Of == 0 || all[0].Job != 0 {
			t.Errorf("%+v", all)
		}
		if e, err := dispatch.ParseEvent(all[0].Event.String()); e != all[0].Event || err != nil {
			t.Errorf("%v, %v", e, err)
		}
		t.equal(t.events("ends"), nil)
	})
}

// TestTaskEvents_Budget: the owner is notified each time that the budget of a task pauses it, and not of pauses that
// end by themselves or are the owner's.
func TestTaskEvents_Budget(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		t.add("all", "ann", dispatch.NeedsOwner)
		t.add("ends", "ann", dispatch.Finished)
		id, jobs := t.addLimited(dispatch.Task{Budget: dispatch.Budget{Amount: 5}}, 9)
		leases, _, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: 100}, time.Hour)
		t.must(err)
		at := slices.IndexFunc(leases, func(l dispatch.Lease) bool { return l.Account == jobs[0].Account })
		if at < 0 {
			t.Fatal("the account is not due")
		}
		submitted := 0
		submit := func(want int) {
			t.Helper()
			var waiting []dispatch.Job
			for _, j := range jobs[submitted:] {
				j, err := t.s.Load(t.Context(), j.ID)
				t.must(err)
				waiting = append(waiting, j)
			}
			kept, err := t.s.Intend(t.Context(), leases[at], dispatch.Limits{Send: time.Minute}, waiting)
			t.must(err)
			if len(kept) != want {
				t.Fatalf("%d jobs may be submitted, not %d", len(kept), want)
			}
			copy(jobs[submitted:], kept)
			submitted += want
		}
		submit(1)
		t.equal(t.events("limited"), nil) // it waits for the costs of the first job
		for _, d := range jobs[:1] {
			j, err := t.s.Load(t.Context(), d.ID)
			t.must(err)
			costs := 1.
			j.Costs, j.Unit = &costs, "credits"
			t.endNow(j)
		}
		submit(4)
		t.equal(t.events("limited"), []string{"attention_budget_reached"})
		_, err = t.s.PauseTask(t.Context(), "ann", id)
		t.must(err)
		more := dispatch.Budget{Amount: 6}
		_, err = t.s.ResumeTask(t.Context(), "ann", id, &more)
		t.must(err)
		_, err = t.s.PauseTask(t.Context(), "ann", id)
		t.must(err)
		_, err = t.s.ResumeTask(t.Context(), "ann", id, nil)
		t.must(err)
		t.equal(t.events("limited"), []string{"attention_budget_reached"})
		store.Exec(t, t.s.(*store.Store), "UPDATE deliveries SET epoch = epoch - 1000000") // a second passes
		submit(1)
		want := []string{"attention_budget_reached", "attention_budget_reached"}
		t.equal(t.events("limited"), want)
		t.equal(t.events("all"), want)
		t.equal(t.events("ends"), nil)
		if heard := t.claim("limited", 10); len(heard) != 1 || heard[0].Of != id || heard[0].Epoch == 0 {
			t.Errorf("%+v", heard)
		}
	})
}
