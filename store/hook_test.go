package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// hookTest is a store with jobs of ann.
type hookTest struct {
	*testing.T
	s    conformance.Store
	kept *store.Store
	jobs []dispatch.Job
}

func eachHookTest(t *testing.T, jobs int, f func(*hookTest)) {
	eachDatabase(t, func(t *testing.T, s conformance.Store, _ func()) {
		all := drafts(jobs)
		if _, err := s.Accept(t.Context(), dispatch.Key{}, nil, all); err != nil {
			t.Fatal(err)
		}
		h := &hookTest{T: t, s: s, kept: s.(*store.Store)}
		for _, d := range all {
			h.jobs = append(h.jobs, d.Job)
		}
		f(h)
	})
}

func (t *hookTest) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t *hookTest) add(id string, u dispatch.UserID, statuses ...dispatch.Status) dispatch.Hook {
	t.Helper()
	t.must(t.kept.AddHook(t.Context(), dispatch.Hook{ID: id, Owner: u, Kind: dispatch.Webhook,
		URL: "https://r.example.org/" + id, Statuses: statuses, Sealed: dispatch.Sealed{Key: "k", Text: "sealed"}}, 2))
	h, err := t.kept.Hook(t.Context(), u, id)
	t.must(err)
	return h
}

// end saves the nth job with a status.
func (t *hookTest) end(n int, status dispatch.Status) {
	t.Helper()
	j := t.jobs[n]
	j.Phase, j.Status, j.Epoch, j.Updated, j.Moved = dispatch.Ended, status, j.Epoch+1, start, start
	saved, err := t.s.Save(t.Context(), []dispatch.Job{j})
	t.must(err)
	if len(saved) != 1 {
		t.Fatal("the job was not saved")
	}
	t.jobs[n] = saved[0]
}

func (t *hookTest) claim(hook string, n int) []dispatch.Delivery {
	t.Helper()
	all, err := t.kept.ClaimDeliveries(t.Context(), hook, time.Hour, n)
	t.must(err)
	return all
}

// log returns the deliveries of a hook of ann, oldest job first.
func (t *hookTest) log(hook string) (all []string) {
	t.Helper()
	deliveries, err := t.kept.Deliveries(t.Context(), "ann", hook, 100)
	t.must(err)
	for _, d := range deliveries {
		all = append(all, fmt.Sprintf("%d %s %s", slices.IndexFunc(t.jobs,
			func(j dispatch.Job) bool { return j.ID == d.Job }), d.Status, d.State))
	}
	slices.Sort(all)
	return all
}

func (t *hookTest) equal(got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// TestHooks_GetEnds: each hook of the owner that wants to know, and nobody else, in the transaction that ends the
// job.
func TestHooks_GetEnds(t *testing.T) {
	eachHookTest(t, 5, func(t *hookTest) {
		t.end(0, dispatch.Finished) // before there is a hook
		t.add("all", "ann", dispatch.Finished, dispatch.Failed, dispatch.Canceled)
		t.add("failures", "ann", dispatch.Failed)
		t.add("other", "bob", dispatch.Finished)
		t.end(1, dispatch.Finished)
		t.end(2, dispatch.Failed)
		t.end(3, dispatch.Running)
		deleted := t.jobs[4]
		deleted.Phase, deleted.Status, deleted.Epoch = dispatch.Started, dispatch.Running, 1
		_, err := t.s.Save(t.Context(), []dispatch.Job{deleted})
		t.must(err)
		t.jobs[4], err = t.s.Cancel(t.Context(), "ann", deleted.ID, true) // deletes it, too
		t.must(err)
		t.end(4, dispatch.Canceled)
		t.equal(t.log("all"), []string{"1 finished waiting", "2 failed waiting"})
		t.equal(t.log("failures"), []string{"2 failed waiting"})
		if n := len(t.claim("other", 10)); n != 0 {
			t.Errorf("another user is notified of %d ends", n)
		}
		stale := t.jobs[3]
		stale.Version--
		stale.Status = dispatch.Finished
		if _, err := t.s.Save(t.Context(), []dispatch.Job{stale}); err != nil {
			t.Fatal(err)
		}
		t.equal(t.log("all"), []string{"1 finished waiting", "2 failed waiting"})
	})
}

// TestHooks_DeliveriesAreClaimedOnce and again after the lease, and those of one job one after the other.
func TestHooks_DeliveriesAreClaimedOnce(t *testing.T) {
	eachHookTest(t, 3, func(t *hookTest) {
		h := t.add("h", "ann", dispatch.Finished, dispatch.Failed)
		t.end(0, dispatch.Failed)
		again := t.jobs[0].Retry(start)
		saved, err := t.s.Save(t.Context(), []dispatch.Job{again})
		t.must(err)
		t.jobs[0] = saved[0]
		t.end(0, dispatch.Finished)
		t.end(1, dispatch.Finished)
		due, err := t.kept.DueHooks(t.Context(), 10, 10)
		t.must(err)
		if len(due) != 1 || due[0].ID != "h" || due[0].Text != "sealed" {
			t.Errorf("due: %+v", due)
		}
		first := t.claim("h", 10)
		if len(first) != 2 || len(t.claim("h", 10)) != 0 {
			t.Fatalf("claimed: %+v", first)
		}
		for i := range first {
			if first[i].Tries != 1 || first[i].Job == t.jobs[0].ID && first[i].Status != dispatch.Failed {
				t.Errorf("claimed: %+v", first[i])
			}
			first[i].State, first[i].Due, first[i].Answer = dispatch.DeliveryDone, time.Time{}, 204
		}
		t.must(t.kept.SettleDeliveries(t.Context(), h, first))
		second := t.claim("h", 10)
		if len(second) != 1 || second[0].Status != dispatch.Finished || second[0].Job != t.jobs[0].ID {
			t.Fatalf("claimed: %+v", second)
		}
		second[0].Due = start // it failed, and is due again
		t.must(t.kept.SettleDeliveries(t.Context(), h, second))
		third, err := t.kept.ClaimDeliveries(t.Context(), "h", -time.Second, 10) // a lease that has run out
		t.must(err)
		fourth := t.claim("h", 10)
		if len(third) != 1 || len(fourth) != 1 || fourth[0].Tries != 3 {
			t.Fatalf("claimed: %+v, %+v", third, fourth)
		}
		third[0].State, third[0].Due = dispatch.DeliveryFailed, time.Time{} // too late: another try has begun
		t.must(t.kept.SettleDeliveries(t.Context(), h, third))
		t.equal(t.log("h"), []string{"0 failed delivered", "0 finished waiting", "1 finished delivered"})
	})
}

// TestHooks_OfOneOwnerLeavePlaces: of an owner with many hooks that are due, a bounded number comes back, so that those
// of others do.
func TestHooks_OfOneOwnerLeavePlaces(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		for i := range 8 {
			t.must(t.kept.AddHook(t.Context(), dispatch.Hook{ID: fmt.Sprint("a", i), Owner: "ann",
				Kind: dispatch.Webhook,
				URL:  "https://r.example.org"}, 8))
			t.must(t.kept.TestHook(t.Context(), "ann", fmt.Sprint("a", i)))
		}
		t.add("z", "bob")
		t.must(t.kept.TestHook(t.Context(), "bob", "z"))
		for _, c := range []struct {
			n, each int
			want    []string
		}{{5, 3, []string{"a0", "a1", "a2", "z"}}, {3, 3, []string{"a0", "a1", "a2"}},
			{3, 2, []string{"a0", "a1", "z"}}, {100, 1, []string{"a0", "z"}}} {
			due, err := t.kept.DueHooks(t.Context(), c.n, c.each)
			t.must(err)
			var ids []string
			for _, h := range due {
				ids = append(ids, h.ID)
			}
			t.equal(ids, c.want)
		}
	})
}

// TestHooks_OfTheirOwnerOnly: others find nothing; a user has so many at most; a hook that is gone or held waits until
// it is released.
func TestHooks_OfTheirOwnerOnly(t *testing.T) {
	eachHookTest(t, 2, func(t *hookTest) {
		h := t.add("h", "ann", dispatch.Finished)
		t.add("second", "ann", dispatch.Finished)
		if err := t.kept.AddHook(t.Context(), dispatch.Hook{ID: "third", Owner: "ann"}, 2); !dispatch.Is(err,
			dispatch.LimitReached) {
			t.Errorf("a third: %v", err)
		}
		t.end(0, dispatch.Finished)
		e := t.claim("h", 1)[0].Event
		for name, err := range map[string]error{
			"delete": t.kept.DeleteHook(t.Context(), "bob", "h"), "test": t.kept.TestHook(t.Context(), "bob", "h"),
			"send": t.kept.SendAgain(t.Context(), "bob", "h", e), "none": t.kept.SendAgain(t.Context(), "ann", "h",
				dispatch.Event{Job: 77}),
		} {
			if !dispatch.Is(err, dispatch.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		h.Gone = true
		t.must(t.kept.SettleDeliveries(t.Context(), h, nil))
		t.end(1, dispatch.Finished)
		t.equal(t.log("h"), []string{"0 finished failed"})
		t.must(t.kept.SendAgain(t.Context(), "ann", "h", e))
		t.must(t.kept.TestHook(t.Context(), "ann", "h"))
		if all := t.claim("h", 10); len(all) != 2 {
			t.Errorf("released: %+v", all)
		}
		t.must(t.kept.DeleteHook(t.Context(), "ann", "h"))
		if _, err := t.kept.Hook(t.Context(), "ann", "h"); !dispatch.Is(err, dispatch.NotFound) ||
			len(t.claim("h", 10)) != 0 {
			t.Errorf("deleted: %v", err)
		}
	})
}

// TestHooks_TestsAreBounded: in number, and they end the pause of a receiver only if it was not tried a moment ago.
func TestHooks_TestsAreBounded(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		h := t.add("h", "ann", dispatch.Finished)
		t.add("other", "ann", dispatch.Finished)
		for range dispatch.MostTests {
			t.must(t.kept.TestHook(t.Context(), "ann", "h"))
		}
		if err := t.kept.TestHook(t.Context(), "ann", "h"); !dispatch.Is(err, dispatch.LimitReached) {
			t.Errorf("one more: %v", err)
		}
		t.must(t.kept.TestHook(t.Context(), "ann", "other"))
		if n := len(t.log("h")); n != dispatch.MostTests {
			t.Errorf("%d tests", n)
		}
		tests := t.claim("h", 1) // they are sent one after the other
		h.Failures, h.Hold = 1, start.Add(100*365*24*time.Hour)
		t.must(t.kept.SettleDeliveries(t.Context(), h, tests))
		t.must(t.kept.SendAgain(t.Context(), "ann", "h", tests[0].Event))
		if h, err := t.kept.Hook(t.Context(), "ann", "h"); err != nil || !h.Hold.After(start.Add(time.Hour)) {
			t.Errorf("the pause of a receiver that was just tried is over: %+v, %v", h, err)
		}
		store.Exec(t, t.s.(*store.Store), "UPDATE hooks SET ran = ran - 61000000") // more than a minute passes
		t.must(t.kept.SendAgain(t.Context(), "ann", "h", tests[0].Event))
		if h, err := t.kept.Hook(t.Context(), "ann", "h"); err != nil || h.Hold.After(start) {
			t.Errorf("the pause stays: %+v, %v", h, err)
		}
	})
}

// TestHooks_OfOneJobOrTask are stored with it, are notified of nothing else, and are deleted with it.
func TestHooks_OfOneJobOrTask(t *testing.T) {
	eachHookTest(t, 1, func(t *hookTest) {
		hook := func(id string) []dispatch.Hook {
			return []dispatch.Hook{{ID: id, Owner: "ann", Kind: dispatch.OGCSubscriber,
				URL:      "https://r.example.org/" + id,
				Statuses: []dispatch.Status{dispatch.Running, dispatch.Finished}}}
		}
		alone, ofTask := drafts(2), drafts(2)
		alone[0].Hooks = hook("one")
		_, err := t.s.Accept(t.Context(), dispatch.Key{}, nil, alone[:1])
		t.must(err)
		task := &dispatch.Task{Owner: "ann", Account: alone[0].Account, Dimension: "tile", Hooks: hook("task")}
		_, err = t.s.Accept(t.Context(), dispatch.Key{}, task, ofTask)
		t.must(err)
		t.add("all", "ann", dispatch.Finished)
		t.jobs = append(t.jobs, alone[0].Job, ofTask[0].Job, ofTask[1].Job)
		j := t.jobs[1]
		j.Phase, j.Status, j.Epoch = dispatch.Started, dispatch.Running, 1
		saved, err := t.s.Save(t.Context(), []dispatch.Job{j})
		t.must(err)
		t.jobs[1] = saved[0]
		for n := range t.jobs {
			t.end(n, dispatch.Finished)
		}
		t.equal(t.log("one"), []string{"1 finished waiting", "1 running waiting"})
		t.equal(t.log("task"), []string{"2 finished waiting", "3 finished waiting"})
		t.equal(t.log("all"), []string{"0 finished waiting", "1 finished waiting", "2 finished waiting",
			"3 finished waiting"})
		if first := t.claim("one", 10); len(first) != 1 || first[0].Status != dispatch.Running {
			t.Errorf("the job ended before it began: %+v", first)
		}
		for want, about := range map[string]struct {
			job  dispatch.JobID
			task dispatch.TaskID
		}{"all": {}, "one": {job: t.jobs[1].ID}, "task": {task: task.ID}} {
			hooks, err := t.kept.Hooks(t.Context(), "ann", about.job, about.task)
			t.must(err)
			if len(hooks) != 1 || hooks[0].ID != want || hooks[0].Job != about.job || hooks[0].Task != about.task ||
				want != "all" && hooks[0].Kind != dispatch.OGCSubscriber {
				t.Errorf("%s: %+v", want, hooks)
			}
		}
		due, err := t.kept.DueHooks(t.Context(), 10, 10)
		t.must(err)
		if len(due) != 3 {
			t.Errorf("due: %+v", due)
		}
		_, err = t.s.CancelTask(t.Context(), "ann", task.ID, true)
		t.must(err)
		t.must(t.s.Purge(t.Context(), -time.Hour))
		if _, err := t.kept.Hook(t.Context(), "ann", "task"); !dispatch.Is(err, dispatch.NotFound) {
			t.Errorf("the hook of a deleted task: %v", err)
		}
		_, err = t.kept.Hook(t.Context(), "ann", "one")
		t.must(err)
	})
}

// TestHooks_OfASubscriber: inProgressUri is notified of each job that was successful, once, and its first try comes
// before the end is sent. A job that was never seen to run and failed tells its end only, and other hooks are notified
// of what was seen.
func TestHooks_OfASubscriber(t *testing.T) {
	running, unknown, finished, failed := dispatch.Running, dispatch.Unknown, dispatch.Finished, dispatch.Failed
	for name, c := range map[string]struct {
		statuses []dispatch.Status
		progress int
		end      string
		webhook  []string
	}{
		"seen to run": {[]dispatch.Status{running, finished}, 1, "success", []string{"1 finished waiting",
			"1 running waiting"}},
		"lost sight of": {[]dispatch.Status{running, unknown, finished}, 1, "success", []string{"1 finished waiting",
			"1 running waiting"}},
		"between two readings": {[]dispatch.Status{finished}, 1, "success", []string{"1 finished waiting"}},
		"refused":              {[]dispatch.Status{failed}, 0, "failure", nil},
	} {
		t.Run(name, func(t *testing.T) {
			eachHookTest(t, 1, func(t *hookTest) {
				subscriber := func(id string, kind dispatch.HookKind, kept ...dispatch.Status) dispatch.Hook {
					return dispatch.Hook{ID: id, Owner: "ann", Kind: kind, URL: "https://r.example.org/" + id,
						Statuses: kept}
				}
				d := drafts(1)
				d[0].Hooks = []dispatch.Hook{subscriber("success", dispatch.OGCSubscriber, finished),
					subscriber("failure", dispatch.OGCSubscriber, failed, dispatch.Canceled),
					subscriber("progress", dispatch.OGCSubscriber, running),
					subscriber("webhook", dispatch.Webhook, running, finished)}
				_, err := t.s.Accept(t.Context(), dispatch.Key{}, nil, d)
				t.must(err)
				j := d[0].Job
				for i, status := range c.statuses {
					if j.Phase, j.Status, j.Epoch, j.Updated = dispatch.Started, status, i+1, start; status != unknown {
						j.Seen = status
					}
					if status.Final() {
						j.Phase = dispatch.Ended
					}
					saved, err := t.s.Save(t.Context(), []dispatch.Job{j})
					t.must(err)
					j = saved[0]
				}
				t.jobs = append(t.jobs, j)
				t.equal(t.log("webhook"), c.webhook)
				if n := len(t.log("success")) + len(t.log("failure")); n != 1 {
					t.Errorf("%d ends", n)
				}
				if c.progress > 0 && len(t.claim(c.end, 1)) > 0 {
					t.Error("the end is sent first")
				}
				got := t.claim("progress", 10)
				if len(got) != c.progress || c.progress > 0 &&
					(got[0].Status != running || len(t.claim(c.end, 1)) > 0) {
					t.Fatalf("inProgressUri gets %+v, or the end meanwhile", got)
				}
				if len(got) > 0 {
					h, err := t.kept.Hook(t.Context(), "ann", "progress")
					t.must(err)
					got[0].Notice, got[0].Due = "It does not answer.", start.Add(100*365*24*time.Hour)
					t.must(t.kept.SettleDeliveries(t.Context(), h, got))
				}
				if n := len(t.claim(c.end, 10)); n != 1 {
					t.Errorf("then the end is sent %d times", n)
				}
			})
		})
	}
}

// TestHooks_AreCounted for the metrics: what waits, since when, what is late, and which receivers are paused.
func TestHooks_AreCounted(t *testing.T) {
	eachHookTest(t, 2, func(t *hookTest) {
		check := func(when string, waiting, paused int, old, late bool) {
			t.Helper()
			// a second passes
			store.Exec(t, t.s.(*store.Store),
				"UPDATE deliveries SET queued = queued - 1000000, due = due - 1000000 WHERE due > 0")
			found, ours, err := t.kept.Stats(t.Context(), "a", time.Minute)
			t.must(err)
			if h := found.Hooks; !ours || h.Waiting != waiting || h.Paused != paused || h.Oldest > 0 != old ||
				h.Lag > 0 != late {
				t.Errorf("%s: %+v", when, h)
			}
		}
		check("no hook", 0, 0, false, false)
		working, paused := t.add("working", "ann", dispatch.Failed, dispatch.Finished), t.add("paused", "ann",
			dispatch.Failed, dispatch.Finished)
		check("no end", 0, 0, false, false)
		t.end(0, dispatch.Failed)
		check("an end", 2, 0, true, true)
		paused.Failures, paused.Hold = 1, start.Add(100*365*24*time.Hour)
		t.must(t.kept.SettleDeliveries(t.Context(), paused, nil))
		check("a receiver is paused", 2, 1, true, true)
		first := t.claim("working", 10)
		check("the other is sent to", 2, 1, true, false)
		saved, err := t.s.Save(t.Context(), []dispatch.Job{t.jobs[0].Retry(start)})
		t.must(err)
		t.jobs[0] = saved[0]
		t.end(0, dispatch.Finished)
		first[0].Due = start.Add(100 * 365 * 24 * time.Hour)
		t.must(t.kept.SettleDeliveries(t.Context(), working, first))
		check("a later end waits for the first", 4, 1, true, false)
		t.end(1, dispatch.Finished)
		check("the end of another job", 6, 1, true, true)
		paused.Gone = true
		t.must(t.kept.SettleDeliveries(t.Context(), paused, nil))
		check("a receiver is gone", 3, 0, true, true)
		t.must(t.kept.DeleteHook(t.Context(), "ann", "working"))
		check("no hook any more", 0, 0, false, false)
	})
}
