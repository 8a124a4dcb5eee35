package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Visit is the function that an engine runs.
type Visit func(context.Context, dispatch.Lease) error

// Cluster provides the processes of an engine test, which share one database.
type Cluster struct {
	Store func() Store // of one more process
	// Start runs an engine until ctx is done; ended is closed when it has returned.
	Start func(ctx context.Context, s Store, v Visit) (e dispatch.Engine, ended <-chan struct{})
	// Slack is added to each time limit: what a busy machine takes besides, outside of a bubble. With more than 0.1 s a
	// visit within hinted may also be due to a poll; that notifications arrive is tested by
	// visit/engine/TestPostgres_NotifiesOtherProcesses and visit/engine/TestEngine_WakesOtherProcesses.
	Slack time.Duration
}

// TestEngine runs the tests that every Engine must pass. In runs a test with an empty cluster, in a bubble of
// testing/synctest or in real time.
func TestEngine(t *testing.T, in func(*testing.T, func(*testing.T, Cluster))) {
	for _, c := range []struct {
		name string
		test func(engineTest)
	}{
		{"a wake starts a visit", engineTest.wake},
		{"what was due before the start is visited", engineTest.late},
		{"a wake during a visit is not lost", engineTest.during},
		{"planned times are kept", engineTest.planned},
		{"the visits of an account never overlap", engineTest.overlap},
		{"a dead engine's accounts are taken over", engineTest.dead},
		{"stop waits for visits and begins none", engineTest.stop},
		{"a visit that fails stops nobody", engineTest.fails},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T, c2 Cluster) { c.test(engineTest{storeTest{T: t, s: c2.Store()}, c2}) })
		})
	}
}

type engineTest struct {
	storeTest
	c Cluster
}

const (
	hinted  = 1900 * time.Millisecond // a notification is faster than the 2 s poll
	patient = 5 * time.Second         // limit for everything else
)

// start runs one more engine until the test ends.
func (t engineTest) start(v Visit) dispatch.Engine {
	ctx, stop := context.WithCancel(context.Background())
	e, ended := t.c.Start(ctx, t.c.Store(), v)
	t.Cleanup(func() { stop(); <-ended })
	return e
}

// reporting returns a visit that reports its lease, and ends when it receives the wakes it has seen and its next due
// time.
func (t engineTest) reporting() (Visit, <-chan dispatch.Lease, chan<- end) {
	begun, ends := make(chan dispatch.Lease, 100), make(chan end)
	return func(ctx context.Context, l dispatch.Lease) error {
		begun <- l
		select {
		case e := <-ends:
			return t.s.Release(context.WithoutCancel(ctx), l, e.wakes, e.due)
		case <-t.Context().Done(): // the test has failed
			return t.Context().Err()
		}
	}, begun, ends
}

type end struct {
	wakes int64
	due   time.Time
}

func (t engineTest) soon(begun <-chan dispatch.Lease, d time.Duration) dispatch.Lease {
	t.Helper()
	timer := time.NewTimer(d + t.c.Slack)
	defer timer.Stop()
	select {
	case l := <-begun:
		return l
	case <-timer.C:
		t.Fatalf("no visit in %v", d)
		return dispatch.Lease{}
	}
}

// idle waits until a started engine has polled: later wakes need a notification.
func (t engineTest) idle(e dispatch.Engine, begun <-chan dispatch.Lease, end chan<- end) {
	t.Helper()
	t.accept()
	e.Wake(shared)
	t.soon(begun, patient)
	end <- t.seen()
}

// seen returns the end of a visit that has seen all wakes.
func (t engineTest) seen() end { return end{wakes: t.readAgenda().Wakes} }

func (t engineTest) wake() {
	v, begun, end := t.reporting()
	e := t.start(v)
	for range 3 {
		t.idle(e, begun, end)
	}
	t.accept()
	e.Wake(shared)
	t.soon(begun, hinted)
	end <- t.seen()
}

func (t engineTest) late() {
	t.accept()
	v, begun, end := t.reporting()
	t.start(v)
	t.soon(begun, hinted)
	end <- t.seen()
}

func (t engineTest) during() {
	v, begun, end := t.reporting()
	e := t.start(v)
	t.accept()
	e.Wake(shared)
	first := t.soon(begun, patient)
	before := t.seen()
	t.accept()
	e.Wake(shared)
	end <- before
	if again := t.soon(begun, hinted); again.Generation == first.Generation {
		t.Error("the same lease was used twice")
	}
	end <- t.seen()
}

func (t engineTest) planned() {
	v, begun, end := t.reporting()
	e := t.start(v)
	t.accept()
	e.Wake(shared)
	t.soon(begun, patient)
	const later = 700 * time.Millisecond
	plan := t.seen()
	plan.due = t.readAgenda().Now.Add(later)
	end <- plan
	t.soon(begun, patient)
	if late := t.readAgenda().Now.Sub(plan.due); late < 0 || late > hinted+t.c.Slack {
		t.Errorf("visited %v after the planned time", late)
	}
	end <- t.seen()
}

func (t engineTest) overlap() {
	const accounts, engines, wakes = 10, 3, 120
	name := func(i int) dispatch.Account { return dispatch.Account(fmt.Sprintf("p/%d", i)) }
	var mu sync.Mutex
	visited, seen := map[dispatch.Account]bool{}, map[dispatch.Account]int64{}
	sent := map[dispatch.Account]int64{}
	changed := make(chan struct{}, 1)
	visit := func(ctx context.Context, l dispatch.Lease) error {
		mu.Lock()
		if visited[l.Account] {
			t.Errorf("two visits of %s", l.Account)
		}
		visited[l.Account] = true
		mu.Unlock()
		g, err := t.s.Agenda(ctx, l.Account, 1, stalledAfter)
		if err != nil {
			return err
		}
		mu.Lock()
		visited[l.Account] = false
		seen[l.Account] = g.Wakes
		mu.Unlock()
		err = t.s.Release(context.WithoutCancel(ctx), l, g.Wakes, time.Time{})
		select {
		case changed <- struct{}{}:
		default:
		}
		return err
	}
	var all []dispatch.Engine
	for range engines {
		all = append(all, t.start(visit))
	}
	for range wakes {
		a := name(rand.IntN(accounts))
		t.acceptFor(ann, a)
		mu.Lock()
		sent[a]++
		mu.Unlock()
		all[rand.IntN(engines)].Wake(a)
	}
	timeout := time.After(4*patient + t.c.Slack)
	for {
		mu.Lock()
		missing := 0
		for a, n := range sent {
			if seen[a] != n {
				missing++
			}
		}
		mu.Unlock()
		if missing == 0 {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%d accounts have wakes that no visit saw", missing)
		}
	}
}

func (t engineTest) dead() {
	t.accept()
	const ttl = 900 * time.Millisecond
	taken := time.Now()
	old, _, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: 9}, ttl) // by a process that dies then
	t.must(err)
	v, begun, end := t.reporting()
	t.start(v)
	if l := t.soon(begun, ttl+patient); l.Generation == old[0].Generation {
		t.Error("the dead engine's lease was used")
	}
	if held := time.Since(taken); held < ttl-100*time.Millisecond || held > ttl+2*hinted+t.c.Slack {
		t.Errorf("taken over after %v of a lease of %v", held, ttl)
	}
	end <- t.seen()
}

func (t engineTest) stop() {
	v, begun, end := t.reporting()
	ctx, stop := context.WithCancel(context.Background())
	e, ended := t.c.Start(ctx, t.c.Store(), v)
	t.accept()
	e.Wake(shared)
	t.soon(begun, patient)
	stop()
	t.acceptFor(ann, "q/shared")
	e.Wake("q/shared")
	select {
	case <-ended:
		t.Error("it ended with a visit under way")
	case l := <-begun:
		t.Errorf("%s was visited after the stop", l.Account)
	case <-time.After(hinted / 10):
	}
	end <- t.seen()
	<-ended
	if leases, _, err := t.s.Dequeue(t.Context(), dispatch.Room{Others: 9}, time.Minute); err != nil ||
		len(leases) != 1 || leases[0].Account != "q/shared" {
		t.Errorf("left behind: %v, %v", leases, err)
	}
}

func (t engineTest) fails() {
	begun := make(chan dispatch.Lease, 100)
	var mu sync.Mutex
	failed := false
	e := t.start(func(ctx context.Context, l dispatch.Lease) error {
		defer func() { begun <- l }()
		mu.Lock()
		defer mu.Unlock()
		if !failed {
			failed = true
			return &dispatch.Error{Kind: dispatch.Unavailable, Op: "visit", Text: "The database does not answer."}
		}
		return t.s.Release(context.WithoutCancel(ctx), l, 1, time.Time{})
	})
	t.accept()
	e.Wake(shared)
	t.soon(begun, patient)
	t.acceptFor(ann, "q/shared")
	e.Wake("q/shared")
	if l := t.soon(begun, hinted); l.Account != "q/shared" {
		t.Errorf("visited %s", l.Account)
	}
}
