package conformance

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// take requests a send time as visits and calls do.
func (t storeTest) take(a dispatch.Account, p dispatch.Purpose) dispatch.SendTime {
	t.Helper()
	ahead := time.Second
	if p == dispatch.Calling {
		ahead = 10 * time.Second
	}
	served, err := t.s.ReserveSendTime(t.Context(), dispatch.SendTimeRequest{Account: a, Pace: limits.Pace, Purpose: p,
		Ahead: ahead})
	t.must(err)
	return served
}

// rate checks that each send time is given or booked once, however many ask concurrently, and that bookings are served
// in order.
func (t storeTest) rate() {
	const accounts = 48
	name := func(i int) dispatch.Account { return dispatch.Account(fmt.Sprintf("p/%d", i)) }
	for i := range accounts {
		t.acceptFor(ann, name(i))
	}
	sendTimes := make([]time.Duration, accounts)
	var all sync.WaitGroup
	for n, h := range t.handles(16) {
		all.Go(func() {
			for i := n; i < accounts; i += 16 {
				served, err := h.ReserveSendTime(t.Context(),
					dispatch.SendTimeRequest{Account: name(i), Pace: limits.Pace, Ahead: time.Second})
				if err != nil {
					t.Error(err)
				}
				if sendTimes[i] = served.Wait; !served.Given {
					sendTimes[i] += time.Second // a visit begins this long before its send time
				}
			}
		})
	}
	all.Wait()
	var want []time.Duration
	for sendTime := 0; len(want) < accounts; sendTime++ {
		if sendTime%10 != 9 {
			want = append(want, time.Duration(sendTime)*limits.Pace)
		}
	}
	t.equal(slices.Sorted(slices.Values(sendTimes)), want)

	booked := slices.IndexFunc(sendTimes, func(d time.Duration) bool { return d > 3*time.Second })
	again := func(want dispatch.SendTime) {
		t.Helper()
		t.equal(t.take(name(booked), dispatch.Reading), want)
	}
	again(dispatch.SendTime{Wait: sendTimes[booked] - time.Second})
	t.db.Pass(sendTimes[booked] - time.Second)
	again(dispatch.SendTime{Given: true, Wait: time.Second})
	// the next turn comes after all others
	again(dispatch.SendTime{Wait: max(0, want[accounts-1]+limits.Pace-sendTimes[booked])})
	t.equal(t.take("q/shared", dispatch.Reading), dispatch.SendTime{Given: true}) // another platform
}

// kept checks that calls that people wait for do not queue behind status reads.
func (t storeTest) kept() {
	for i := range 200 {
		a := dispatch.Account(fmt.Sprintf("p/%d", i))
		t.acceptFor(ann, a)
		t.take(a, dispatch.Reading)
	}
	given := func(wait time.Duration) dispatch.SendTime { return dispatch.SendTime{Given: true, Wait: wait} }
	t.equal(t.take("p/0", dispatch.Acting), given(9*limits.Pace))
	t.equal(t.take("p/1", dispatch.Acting), dispatch.SendTime{Wait: 19*limits.Pace - time.Second})
	t.equal(t.take("p/1", dispatch.Acting), dispatch.SendTime{Wait: 19*limits.Pace - time.Second}) // it has booked
	t.equal(t.take("nobody's", dispatch.Calling), given(0))
	t.equal(t.take("p/nobody's", dispatch.Calling), given(29*limits.Pace))
}

// ahead checks that a read that is not due yet books no earlier send time.
func (t storeTest) ahead() {
	t.accept()
	now := t.readAgenda().Now
	ask := func(due time.Duration) dispatch.SendTime {
		t.Helper()
		served, err := t.s.ReserveSendTime(t.Context(), dispatch.SendTimeRequest{Account: shared, Pace: time.Second,
			Ahead: time.Second, Due: now.Add(due)})
		t.must(err)
		return served
	}
	for range 3 {
		if served, err := t.s.ReserveSendTime(t.Context(),
			dispatch.SendTimeRequest{Account: "p/other", Pace: time.Second,
				Purpose: dispatch.Calling, Ahead: 10 * time.Second}); err != nil || !served.Given {
			t.Errorf("%v, %v", served, err)
		}
	}
	t.equal(ask(4*time.Second), dispatch.SendTime{Wait: 4 * time.Second})
	t.equal(ask(2500*time.Millisecond), dispatch.SendTime{Wait: 2 * time.Second})
	t.equal(ask(9*time.Second), dispatch.SendTime{Wait: 2 * time.Second}) // it is booked
	t.db.Pass(2 * time.Second)
	t.equal(ask(0), dispatch.SendTime{Given: true, Wait: time.Second})
}

// planned checks that a status that is polled repeatedly becomes due when it is no longer fresh.
func (t storeTest) planned() {
	ctx := t.Context()
	j := t.accept()
	l := t.lease()
	t.db.Pass(time.Minute)
	g := t.readAgenda()
	j.Phase, j.Checked, j.Due = dispatch.Started, g.Now.Add(-8*time.Second), g.Now.Add(time.Minute)
	t.save(j)
	t.must(t.s.Release(ctx, l, g.Wakes, j.Due))
	for range 2 {
		as, err := t.s.MarkAwaited(ctx, ann, dispatch.Scope{Alone: true}, 10*time.Second, 4*time.Second)
		t.must(err)
		leases, wait, err := t.s.Dequeue(ctx, dispatch.Room{Others: 9}, time.Minute)
		t.must(err)
		if len(as)+len(leases) > 0 || wait != 2*time.Second {
			t.Errorf("woken %v, visited %v, the next in %v", as, leases, wait)
		}
	}
}

// turn checks that no account is woken for a booked read.
func (t storeTest) turn() {
	ctx := t.Context()
	j := t.accept()
	j.Phase = dispatch.Started
	t.save(j)
	await := func(n int) {
		t.Helper()
		t.db.Pass(time.Second)
		as, err := t.s.MarkAwaited(ctx, ann, dispatch.Scope{Alone: true}, 0, 0)
		t.must(err)
		if len(as) != n {
			t.Errorf("woken: %v", as)
		}
		j = t.load(j.ID)
		j.Awaited, j.Due, j.Checked = false, j.Due.Add(time.Minute), t.readAgenda().Now
		t.save(j)
	}
	for range 200 {
		t.take("p/other", dispatch.Calling)
	}
	l := t.lease()
	for range 100 {
		t.take(shared, dispatch.Acting)
	}
	served := t.take(shared, dispatch.Reading)
	if served.Given {
		t.Fatalf("given in %v", served.Wait)
	}
	await(1) // it is visited now
	g := t.readAgenda()
	t.must(t.s.Release(ctx, l, g.Wakes, g.Now.Add(served.Wait-time.Second)))
	await(0)
	t.db.Pass(served.Wait + time.Second)
	await(1) // its send time has passed
}

func (t storeTest) rateJumps() {
	t.accept()
	for _, jump := range []time.Duration{-5 * time.Hour, 5 * time.Hour, -time.Minute} {
		for range 30 {
			t.take(shared, dispatch.Acting)
			t.take(shared, dispatch.Reading)
			t.take("p/nobody's", dispatch.Calling)
		}
		t.db.Pass(jump)
		for i, p := range []dispatch.Purpose{dispatch.Calling, dispatch.Acting, dispatch.Reading} {
			t.equal(t.take(shared, p), dispatch.SendTime{Given: true, Wait: time.Duration(i) * limits.Pace})
		}
	}
}
