package conformance

import (
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// clockBack sets the clock back an hour while a job's next read, its account's visit and a hold are planned.
func (t storeTest) clockBack() {
	ctx := t.Context()
	start := t.firstTime()
	plan := func(due time.Duration) dispatch.Job {
		j := t.accept()
		j.Phase, j.Due, j.SendBy = dispatch.Started, start.Add(due), start.Add(due-time.Second)
		return t.save(j)
	}
	soon, late := plan(time.Minute), plan(20*time.Minute)
	t.must(t.s.Hold(ctx, shared, time.Minute, dispatch.NotTaken, "Later."))
	held := t.readAgenda().Hold
	l := t.lease()
	t.must(t.s.Release(ctx, l, t.readAgenda().Wakes, start.Add(time.Minute)))
	t.must(t.s.NoteServed(ctx, []string{"p"}))

	t.db.Pass(-time.Hour)
	for range 2 { // the second time there is nothing left to move
		t.must(t.s.NoteServed(ctx, []string{"p"}))
		for _, j := range []dispatch.Job{soon, late} {
			want := j
			want.Due, want.SendBy = j.Due.Add(-time.Hour), j.SendBy.Add(-time.Hour)
			t.equal(t.load(j.ID), want)
		}
	}
	if hold := t.readAgenda().Hold; !hold.Equal(held.Add(-time.Hour)) {
		t.Errorf("held until %v, want an hour before %v", hold, held)
	}
	due := func() int {
		leases, _, err := t.s.Dequeue(ctx, dispatch.Room{Others: 9}, time.Minute)
		t.must(err)
		return len(leases)
	}
	t.db.Pass(59 * time.Second)
	if n := due(); n != 0 {
		t.Errorf("%d visits before their time", n)
	}
	t.db.Pass(time.Second)
	if n := due(); n != 1 {
		t.Errorf("%d visits are due", n)
	}
}

// leaseBack sets the clock back an hour after the process that had a lease has died. A long lease that was taken since
// stays.
func (t storeTest) leaseBack() {
	ctx := t.Context()
	leased := func(ttl time.Duration) (accounts []dispatch.Account) {
		leases, _, err := t.s.Dequeue(ctx, dispatch.Room{Others: 9}, ttl)
		t.must(err)
		for _, l := range leases {
			accounts = append(accounts, l.Account)
		}
		return accounts
	}
	t.accept()
	t.equal(leased(time.Minute), []dispatch.Account{shared})
	t.must(t.s.NoteServed(ctx, []string{"p"}))
	t.db.Pass(-time.Hour)
	t.acceptFor(ann, "q/shared")
	t.equal(leased(20*time.Minute), []dispatch.Account{"q/shared"})
	t.must(t.s.NoteServed(ctx, []string{"p"}))
	t.db.Pass(59 * time.Second)
	t.equal(leased(time.Minute), []dispatch.Account(nil))
	t.db.Pass(time.Second)
	t.equal(leased(time.Minute), []dispatch.Account{shared})
}
