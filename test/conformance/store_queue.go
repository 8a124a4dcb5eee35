package conformance

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (t storeTest) handles(n int) []Store {
	handles := make([]Store, n)
	for i := range handles {
		handles[i] = t.db.Open()
	}
	return handles
}

func (t storeTest) dequeue() {
	const accounts = 200
	for i := range accounts {
		t.acceptFor(ann, dispatch.Account(fmt.Sprintf("p/%d", i)))
	}
	var mu sync.Mutex
	times := map[dispatch.Account]int{}
	var all sync.WaitGroup
	for _, h := range t.handles(16) {
		all.Go(func() {
			for {
				leases, _, err := h.Dequeue(t.Context(), dispatch.Room{Others: 1 + rand.IntN(9)}, time.Minute)
				if err != nil {
					t.Error(err)
				}
				if len(leases) == 0 {
					return
				}
				mu.Lock()
				for _, l := range leases {
					times[l.Account]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	// accounts that another Dequeue skipped because it was being leased
	leases, _, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: accounts}, time.Minute)
	t.must(err)
	for _, l := range leases {
		times[l.Account]++
	}
	for a, n := range times {
		if n != 1 {
			t.Errorf("%s was given out %d times", a, n)
		}
	}
	if len(times) != accounts {
		t.Errorf("%d of %d were given out", len(times), accounts)
	}
}

// room checks that a process is given as many accounts of each platform as it has room for, and accounts of an unknown
// platform only if no process has served that platform for a while.
func (t storeTest) room() {
	for i := range 4 {
		for _, platform := range []string{"p", "pp", "full", "new", "gone"} {
			t.acceptFor(ann, dispatch.Account(fmt.Sprintf("%s/%d", platform, i)))
		}
	}
	t.must(t.s.NoteServed(t.Context(), []string{"new", "gone"}))
	t.db.Pass(5 * time.Minute)
	t.must(t.s.NoteServed(t.Context(), []string{"new"}))
	given := func(r dispatch.Room) (map[string]int, time.Duration) {
		leases, wait, err := t.s.Dequeue(t.Context(), r, time.Hour)
		t.must(err)
		n := map[string]int{}
		for _, l := range leases {
			n[l.Account.Platform()]++
		}
		return n, wait
	}
	r := dispatch.Room{Platforms: map[string]int{"p": 3, "pp": 9, "full": 0}, Others: 2, Unserved: 2 * time.Minute}
	got, wait := given(r)
	t.equal(got, map[string]int{"p": 3, "pp": 4, "gone": 2})
	t.equal(wait, time.Duration(0))
	r.Platforms["p"], r.Others = 0, 0
	got, wait = given(r)
	t.equal(got, map[string]int{})
	t.equal(wait, time.Hour)
	t.db.Pass(2 * time.Minute)
	got, _ = given(dispatch.Room{Others: 20, Unserved: 2 * time.Minute})
	t.equal(got, map[string]int{"p": 1, "full": 4, "new": 4, "gone": 2})
}

func (t storeTest) next() {
	ctx := t.Context()
	wait := func(n, given int, want time.Duration) {
		t.Helper()
		leases, got, err := t.s.Dequeue(ctx, dispatch.Room{Others: n}, time.Minute)
		t.must(err)
		if got != want || len(leases) != given {
			t.Errorf("%d given, %v until the next; want %d, %v", len(leases), got, given, want)
		}
	}
	wait(9, 0, time.Hour)
	t.accept()
	t.db.Pass(time.Millisecond)
	t.acceptFor(ann, "q/shared")
	first, got, err := t.s.Dequeue(ctx, dispatch.Room{Others: 1}, 30*time.Second)
	t.must(err)
	if len(first) != 1 || first[0].Account != shared || got != 0 {
		t.Errorf("given %v, %v until the next, which is due", first, got)
	}
	wait(9, 1, 30*time.Second) // the first lease may expire
	t.must(t.s.Release(ctx, first[0], t.readAgenda().Wakes, t.readAgenda().Now.Add(20*time.Second)))
	wait(9, 0, 20*time.Second)
	t.db.Pass(20 * time.Second)
	wait(9, 1, 40*time.Second)
}

func (t storeTest) lapse() {
	t.accept()
	l := t.lease()
	t.db.Pass(59 * time.Second)
	t.must(t.s.Renew(t.Context(), l, time.Minute))
	t.db.Pass(59 * time.Second)
	if leases, _, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: 9}, time.Minute); err != nil ||
		len(leases) > 0 {
		t.Errorf("given out while it was held: %v, %v", leases, err)
	}
	t.db.Pass(2 * time.Second)
	t.must(t.s.Renew(t.Context(), l, time.Second)) // nobody else took it
	t.db.Pass(2 * time.Second)
	if again := t.lease(); again.Generation == l.Generation {
		t.Error("the generation did not move")
	}
	t.kind(t.s.Renew(t.Context(), l, time.Minute), dispatch.Conflict)
}

func (t storeTest) fence() {
	j, other := t.accept(), t.accept()
	old := t.lease()
	t.db.Pass(2 * time.Minute)
	l := t.lease()
	stale := func(old dispatch.Lease) {
		t.Helper()
		t.kind(t.s.Renew(t.Context(), old, time.Minute), dispatch.Conflict)
		t.kind(t.s.Release(t.Context(), old, 0, time.Time{}), dispatch.Conflict)
		is := other
		is.Phase = dispatch.Created
		_, err := t.s.Intend(t.Context(), old, limits, []dispatch.Job{j}, is)
		t.kind(err, dispatch.Conflict)
		t.equal(t.load(j.ID), j)
		t.equal(t.load(other.ID), other)
	}
	stale(old)
	t.must(t.s.Release(t.Context(), l, 0, time.Time{}))
	stale(l)
	if leases, _, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: 9}, time.Minute); err != nil ||
		len(leases) != 1 {
		t.Errorf("released with an unseen wake, it is not due: %v, %v", leases, err)
	}
}

func (t storeTest) wakes() {
	j := t.accept()
	l := t.lease()
	seen := t.readAgenda().Wakes
	t.accept()
	t.must(t.s.Release(t.Context(), l, seen, time.Time{}))
	l = t.lease()
	seen = t.readAgenda().Wakes
	_, err := t.s.Cancel(t.Context(), ann, j.ID, false)
	t.must(err)
	t.must(t.s.Release(t.Context(), l, seen, t.readAgenda().Now.Add(time.Hour)))
	l = t.lease()
	t.must(t.s.Release(t.Context(), l, t.readAgenda().Wakes, time.Time{}))
	if leases, wait, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: 9}, time.Minute); err != nil ||
		len(leases) > 0 || wait != time.Hour {
		t.Errorf("given out without a wake: %v, %v, %v", leases, wait, err)
	}
}
