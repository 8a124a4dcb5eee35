package conformance

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (t storeTest) versions() {
	j := t.accept()
	handles := t.handles(20)
	var mu sync.Mutex
	var won []dispatch.Job
	var all sync.WaitGroup
	for i, h := range handles {
		all.Go(func() {
			mine := j
			mine.Notice = fmt.Sprint(i)
			saved, err := h.Save(t.Context(), []dispatch.Job{mine})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			won = append(won, saved...)
			mu.Unlock()
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("%d won", len(won))
	}
	t.equal(t.load(j.ID), won[0])

	other, none := t.accept(), dispatch.Job{Identity: dispatch.Identity{ID: j.ID + 1e6}}
	other.Notice = "kept"
	saved, err := t.s.Save(t.Context(), []dispatch.Job{j, none, other})
	t.must(err)
	if len(saved) != 1 || saved[0].ID != other.ID || t.load(other.ID).Notice != "kept" {
		t.Errorf("saved %+v", saved)
	}
	t.saveAndWake(saved[0])
}

// saveAndWake checks that Save wakes the named accounts in the same commit, and none if it stored nothing.
func (t storeTest) saveAndWake(j dispatch.Job) {
	for _, c := range []struct {
		of    string
		wake  []dispatch.Account
		stale int64 // by how many versions the saved job is behind
		woken int64
	}{{"with a lease", nil, 0, 0}, {"without a lease", []dispatch.Account{shared}, 0, 1}, {"what has changed",
		[]dispatch.Account{shared}, 1, 0}} {
		is, before := t.load(j.ID), t.readAgenda().Wakes
		is.Version -= c.stale
		saved, err := t.s.Save(t.Context(), []dispatch.Job{is}, c.wake...)
		t.must(err)
		if woken := t.readAgenda().Wakes - before; woken != c.woken || len(saved) != 1-int(c.stale) {
			t.Errorf("%s: kept %d jobs and woke %d times", c.of, len(saved), woken)
		}
	}
}

// saveMany saves more jobs than fit into a statement; some have changed meanwhile, and one does not exist.
func (t storeTest) saveMany() {
	_, drafts := t.acceptTask(ann, 123)
	want := map[dispatch.JobID]dispatch.Job{}
	jobs := []dispatch.Job{{Identity: dispatch.Identity{ID: drafts[0].ID + 1e6}}}
	for i, d := range drafts {
		j := filled(d.Job)
		j.Failure = fmt.Sprint("of ", i)
		jobs = append(jobs, j)
		if i%7 == 0 {
			want[j.ID] = t.save(d.Job)
			continue
		}
		j.Version, j.Result = j.Version+1, nil
		want[j.ID] = j
	}
	saved, err := t.s.Save(t.Context(), jobs)
	t.must(err)
	if len(saved) != 123-18 {
		t.Errorf("%d saved", len(saved))
	}
	for _, j := range saved {
		t.equal(j, want[j.ID])
	}
	for id, j := range want {
		t.equal(t.load(id), j)
	}
}

func (t storeTest) cancel() {
	ctx := t.Context()
	j := t.accept()
	j.Attention, j.Notice = dispatch.ApplicationUnreachable, "silent" // why it waits: it does no more
	j = t.save(j)
	t.db.Pass(time.Second)
	now := t.readAgenda().Now
	want := j
	want.Desired, want.Phase, want.Status, want.Epoch, want.Version = dispatch.WantCancel, dispatch.Ended,
		dispatch.Canceled, 1, 3
	want.Attention, want.Notice = dispatch.None, ""
	want.Due, want.Moved, want.Updated = now, now, now
	got, err := t.s.Cancel(ctx, ann, j.ID, false)
	t.must(err)
	t.equal(got, want)
	wakes := t.readAgenda().Wakes
	t.db.Pass(time.Second)
	got, err = t.s.Cancel(ctx, ann, j.ID, false)
	t.must(err)
	t.equal(got, want)
	if t.readAgenda().Wakes != wakes {
		t.Error("a cancel without effect wakes the account")
	}

	const soon = 30 * time.Second
	for _, c := range []struct {
		phase     dispatch.Phase
		sendBy    time.Duration // from now
		due, want time.Duration // from now
	}{
		{dispatch.Created, soon, time.Hour, 0},
		{dispatch.Started, soon, time.Hour, 0},
		{dispatch.Creating, soon, time.Hour, soon + dispatch.SettleMargin},
		{dispatch.Starting, soon, time.Hour, soon + dispatch.SettleMargin},
		{dispatch.Starting, soon, time.Second, time.Second},
		{dispatch.Creating, -dispatch.SettleMargin, time.Hour, 0},
		{dispatch.Starting, -soon, time.Hour, 0},
	} {
		j, phase, now := t.accept(), c.phase, t.readAgenda().Now
		j.Phase, j.SendBy, j.Due = phase, now.Add(c.sendBy), now.Add(c.due)
		j = t.save(j)
		wakes := t.readAgenda().Wakes
		got, err := t.s.Cancel(ctx, ann, j.ID, true)
		t.must(err)
		want := j
		want.Desired, want.Hidden, want.Version, want.Due = dispatch.WantCancel, true, j.Version+1, now.Add(c.want)
		t.equal(got, want)
		if t.readAgenda().Wakes == wakes {
			t.Errorf("a cancel of what is %s does not wake", phase)
		}
		if kept, err := t.s.Save(ctx, []dispatch.Job{j}); err != nil || len(kept) > 0 {
			t.Errorf("saved over a cancel: %v, %v", kept, err)
		}
		j = got
		j.Desired, j.Hidden = dispatch.WantRun, false
		if saved := t.save(j); saved.Desired != dispatch.WantCancel || !saved.Hidden {
			t.Errorf("Save wrote what is the owner's: %+v", saved)
		}
	}

	j = t.accept()
	j.Phase, j.Status = dispatch.Ended, dispatch.Finished
	j = t.save(j)
	got, err = t.s.Cancel(ctx, ann, j.ID, false)
	t.must(err)
	t.equal(got, j)
	got, err = t.s.Cancel(ctx, ann, j.ID, true)
	t.must(err)
	if !got.Hidden || got.Status != dispatch.Finished || got.Desired != dispatch.WantRun {
		t.Errorf("hidden after it ended: %+v", got)
	}
}

func (t storeTest) intend() {
	ctx := t.Context()
	jobs := []dispatch.Job{t.accept(), t.accept(), t.accept(), t.accept()}
	l := t.lease()
	_, err := t.s.Cancel(ctx, ann, jobs[0].ID, false)
	t.must(err)
	jobs[1].Phase = dispatch.Created
	created := t.save(jobs[1])
	wish, err := t.s.Cancel(ctx, ann, created.ID, false) // of a created job
	t.must(err)
	t.save(jobs[2]) // so that its version changes
	t.db.Pass(30 * time.Second)
	kept, err := t.s.Intend(ctx, l, limits, []dispatch.Job{jobs[0], wish, jobs[2], jobs[3]})
	t.must(err)
	want := jobs[3].Intend(t.readAgenda().Now.Add(limits.Send))
	want.Version++
	t.equal(kept, []dispatch.Job{want})
	t.equal(t.load(want.ID), want)
	t.equal(t.load(created.ID), wish)
	t.db.Pass(40 * time.Second) // longer than the first lease
	if leases, _, err := t.s.Dequeue(ctx, dispatch.Room{Others: 9}, time.Minute); err != nil || len(leases) > 0 {
		t.Errorf("an intent did not renew the lease: %v, %v", leases, err)
	}
}

func (t storeTest) await() {
	ctx := t.Context()
	const fresh, gap = 10 * time.Second, 4 * time.Second
	start := t.firstTime()
	job := func(u dispatch.UserID, a dispatch.Account, phase dispatch.Phase, checked, due time.Duration) dispatch.Job {
		j := t.acceptFor(u, a)
		j.Phase, j.Checked, j.Due = phase, start.Add(checked), start.Add(due)
		return t.save(j)
	}
	t.db.Pass(time.Hour)
	start = start.Add(time.Hour)
	stale := job(ann, shared, dispatch.Started, -20*time.Second, time.Minute)
	checked := job(ann, shared, dispatch.Started, -10*time.Second, time.Minute)
	fair := job(ann, "d/shared", dispatch.Started, -8*time.Second, time.Minute)
	soonDue := job(ann, shared, dispatch.Started, -8*time.Second, time.Second)
	other := job(ann, "a/shared", dispatch.Started, -11*time.Second, -time.Minute)
	ahead := job(ann, "e/shared", dispatch.Started, time.Hour, 61*time.Minute) // the clock was set back
	waits := job(ann, "b/shared", dispatch.Waiting, -20*time.Second, time.Minute)
	hers := job(bob, "c/shared", dispatch.Started, -20*time.Second, time.Minute)

	as, err := t.s.MarkAwaited(ctx, ann, dispatch.Scope{Job: checked.ID}, fresh, gap)
	t.must(err)
	t.equal(as, []dispatch.Account{})
	wakes := t.readAgenda().Wakes
	as, err = t.s.MarkAwaited(ctx, ann, dispatch.Scope{Alone: true}, fresh, gap)
	t.must(err)
	t.equal(as, []dispatch.Account{"a/shared", "e/shared", shared})
	if t.readAgenda().Wakes == wakes {
		t.Error("awaiting a status does not wake the account")
	}
	for _, c := range []struct {
		job     dispatch.Job
		due     time.Duration
		awaited bool
	}{{stale, 0, true}, {checked, 0, false}, {fair, 2 * time.Second, false}, {soonDue, time.Second, false},
		{other, -time.Minute, true}, {ahead, 0, true}, {waits, time.Minute, false}, {hers, time.Minute, false}} {
		want := c.job
		want.Due, want.Awaited = start.Add(c.due), c.awaited
		t.equal(t.load(want.ID), want)
	}

	soon := job(ann, shared, dispatch.Started, -time.Second, time.Minute)
	_, err = t.s.MarkAwaited(ctx, ann, dispatch.Scope{Job: soon.ID}, 0, gap)
	t.must(err)
	if j := t.load(soon.ID); !j.Due.Equal(start.Add(3*time.Second)) || !j.Awaited {
		t.Errorf("due %v after now, want the gap kept: 3s", j.Due.Sub(start))
	}
	near := job(ann, shared, dispatch.Started, -time.Second, time.Second)
	_, err = t.s.MarkAwaited(ctx, ann, dispatch.Scope{Job: near.ID}, 0, gap)
	t.must(err)
	if j := t.load(near.ID); !j.Due.Equal(near.Due) {
		t.Errorf("due %v after now: it was put off", j.Due.Sub(start))
	}
}

// firstTime returns the store's time when there is no account yet.
func (t storeTest) firstTime() time.Time { return t.accept().Created }

// giveUp checks that jobs that need their user fail after a while, but only if they were not started.
func (t storeTest) giveUp() {
	ctx := t.Context()
	waits, created, unwanted, started := t.accept(), t.accept(), t.accept(), t.accept()
	created.Phase, created.Ref = dispatch.Created, dispatch.Ref{ID: "p"}
	created = t.save(created)
	unwanted.Phase, unwanted.Ref = dispatch.Created, dispatch.Ref{ID: "q"}
	t.save(unwanted)
	unwanted, err := t.s.Cancel(ctx, ann, unwanted.ID, false)
	t.must(err)
	started.Phase = dispatch.Started
	started = t.save(started)
	hold := func(d time.Duration, why dispatch.Attention) { t.must(t.s.Hold(ctx, shared, d, why, "n")) }
	gives := func(n int) {
		t.Helper()
		given, err := t.s.FailWithoutSignIn(ctx, shared, time.Minute, "Nobody signed in.")
		t.must(err)
		if len(given) != n {
			t.Errorf("%d given up, not %d", len(given), n)
		}
	}
	gives(0)
	hold(time.Hour, dispatch.NotTaken)
	t.db.Pass(2 * time.Minute)
	gives(0)
	hold(time.Hour, dispatch.NeedsSignIn)
	t.db.Pass(40 * time.Second)
	gives(0)
	hold(0, dispatch.None) // the user came
	hold(time.Hour, dispatch.NeedsSignIn)
	t.db.Pass(40 * time.Second)
	hold(time.Hour, dispatch.Unreachable) // another reason
	hold(time.Hour, dispatch.NeedsSignIn)
	t.db.Pass(40 * time.Second)
	gives(0)
	hold(time.Hour, dispatch.NeedsSignIn) // the same reason as before
	t.db.Pass(40 * time.Second)
	for _, j := range []dispatch.Job{waits, created, started} {
		r, err := t.s.Record(ctx, ann, j.ID)
		t.must(err)
		if shown := r.Attention == dispatch.NeedsSignIn && r.Notice == "n"; shown != j.Phase.Inert() {
			t.Errorf("%s, it shows %q %q", j.Phase, r.Attention, r.Notice)
		}
	}
	gives(2)
	gives(0)
	r, err := t.s.Record(ctx, ann, waits.ID)
	t.must(err)
	if r.Phase != dispatch.Ended || r.Status != dispatch.Failed || r.Attention != dispatch.NeedsSignIn ||
		r.Failure != "Nobody signed in." ||
		r.Epoch != waits.Epoch+1 || r.Version != waits.Version+1 || !r.Moved.After(waits.Moved) ||
		!r.Updated.Equal(r.Moved) {
		t.Errorf("given up as %+v", r.Job)
	}
	if j := t.load(created.ID); j.Phase != dispatch.Ended || j.Status != dispatch.Failed || j.Ref != created.Ref ||
		j.Failure != "Nobody signed in." {
		t.Errorf("created, it is given up as %+v", j)
	}
	t.equal(t.load(unwanted.ID), unwanted)
	t.equal(t.load(started.ID), started)
}

func (t storeTest) standings() {
	ctx := t.Context()
	start := t.accept().Created
	_, jobs := t.acceptTask(bob, 3)
	started := jobs[0].Job
	started.Phase = dispatch.Started
	t.save(started)
	stalled := t.accept()
	stalled.Phase = dispatch.Started
	t.save(stalled)
	t.end(t.accept().ID, dispatch.Finished, nil)
	t.acceptFor(ann, "p/"+dispatch.Account(bob))
	t.acceptFor(ann, "q/shared")
	accounts := func(u dispatch.UserID, stalled time.Duration) []dispatch.AccountInfo {
		t.Helper()
		all, err := t.s.AccountInfo(ctx, u, []dispatch.Account{"", shared, "r/shared"},
			map[dispatch.Account]time.Duration{shared: stalled})
		t.must(err)
		return all
	}
	t.equal(accounts(ann, time.Hour), []dispatch.AccountInfo{{Live: 4, Lately: 5, Bytes: 4 * int64(len(body()))},
		{Account: shared, Held: 2, Waiting: 1, Active: 1, Live: 2, Lately: 3, Queue: 4}, {Account: "r/shared"}})
	t.must(t.s.NoteResponse(ctx, "p", "", 0))
	t.must(t.s.NoteResponse(ctx, "r", "It is \x00 away.", time.Minute))
	t.must(t.s.Hold(ctx, shared, 48*time.Hour, dispatch.NotTaken, "Later."))
	t.db.Pass(25 * time.Hour)
	t.must(t.s.NoteResponse(ctx, "p", "No connection.", 25*time.Hour))
	t.equal(accounts(bob, 24*time.Hour)[1:], []dispatch.AccountInfo{
		{Account: shared, Hold: start.Add(48 * time.Hour), Why: dispatch.NotTaken, Notice: "Later.", Waiting: 2,
			Active: 1, Live: 3, Queue: 4,
			Answered: start, Failed: start.Add(25 * time.Hour), Failure: "No connection."},
		{Account: "r/shared", Failed: start, Failure: "It is \uFFFD away."}})
	t.must(t.s.NoteResponse(ctx, "p", "", 0))
	t.db.Pass(24 * time.Hour)
	if is := accounts(bob, 24*time.Hour)[1]; !is.Hold.IsZero() || is.Why != dispatch.None ||
		!is.Answered.After(is.Failed.Add(-1)) || is.State() != dispatch.StateOK {
		t.Errorf("when it answers again: %+v", is)
	}
}

func (t storeTest) usage() {
	ctx := t.Context()
	first := t.accept()
	costs := 2.5
	first.Phase, first.Status, first.Costs = dispatch.Ended, dispatch.Finished, &costs
	t.save(first)
	t.db.Pass(time.Minute)
	second := t.accept()
	if _, err := t.s.Cancel(ctx, ann, second.ID, true); err != nil {
		t.Fatal(err)
	}
	t.accept()
	got, err := t.s.Usage(ctx, ann, 30*time.Second)
	t.must(err)
	if len(got) != 1 || got[0].Account != shared || got[0].Live != 1 || got[0].Lately != 2 || got[0].Jobs != 3 ||
		got[0].Costs == nil || *got[0].Costs != 2.5 {
		t.Errorf("usage %+v", got)
	}
	if none, err := t.s.Usage(ctx, "nobody", time.Hour); err != nil || len(none) != 0 {
		t.Errorf("another's usage: %+v %v", none, err)
	}
}

func (t storeTest) hold() {
	ctx := t.Context()
	waits, started := t.accept(), t.accept()
	started.Phase, started.Attention = dispatch.Started, dispatch.InDoubt
	started = t.save(started)
	attention := func(id dispatch.JobID, a dispatch.Attention, notice string) {
		t.Helper()
		r, err := t.s.Record(ctx, ann, id)
		t.must(err)
		list, err := t.s.Records(ctx, ann, dispatch.Page{})
		t.must(err)
		i := slices.IndexFunc(list, func(r dispatch.Record) bool { return r.ID == id })
		if r.Attention != a || r.Notice != notice || list[i].Attention != a || list[i].Notice != notice {
			t.Errorf("attention %q %q, and %q %q in the list; want %q %q", r.Attention, r.Notice, list[i].Attention,
				list[i].Notice, a, notice)
		}
	}
	attention(waits.ID, dispatch.None, "")
	t.must(t.s.Hold(ctx, shared, time.Minute, dispatch.NeedsSignIn, "Sign in."))
	attention(waits.ID, dispatch.NeedsSignIn, "Sign in.")
	attention(started.ID, dispatch.InDoubt, "")
	if g := t.readAgenda(); !g.Hold.Equal(g.Now.Add(time.Minute)) || g.Why != dispatch.NeedsSignIn {
		t.Errorf("held for %v, %s", g.Hold.Sub(g.Now), g.Why)
	}
	t.equal(t.load(waits.ID), waits) // visits see the row unchanged
	wakes := t.readAgenda().Wakes
	t.must(t.s.Hold(ctx, shared, 0, dispatch.None, ""))
	attention(waits.ID, dispatch.None, "")
	if g := t.readAgenda(); g.Wakes == wakes || g.Hold.After(g.Now) {
		t.Errorf("the end of a hold does not wake, or it has not ended: %v", g)
	}
	t.must(t.s.Hold(ctx, shared, time.Minute, dispatch.NotTaken, ""))
	t.db.Pass(time.Minute)
	attention(waits.ID, dispatch.None, "")
}
