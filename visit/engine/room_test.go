package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/visit/engine"
)

// deaf is a notifier whose notifications never arrive.
type deaf struct{}

func (deaf) Notify(engine.Notification)                           {}
func (deaf) Run(ctx context.Context, _ func(engine.Notification)) { <-ctx.Done() }

func wake(t *testing.T, s conformance.Store, a dispatch.Account) {
	t.Helper()
	if _, err := s.Accept(t.Context(), dispatch.Key{}, nil,
		[]dispatch.Draft{{Job: dispatch.Job{Target: dispatch.Target{Account: a}}}}); err != nil {
		t.Fatal(err)
	}
}

// visited counts visits by platform; each takes as long as its platform.
type visited struct {
	store conformance.Store
	takes map[string]time.Duration

	mu        sync.Mutex
	done      map[string]int
	now, most map[string]int
}

func (v *visited) visit(ctx context.Context, l dispatch.Lease) error {
	name := l.Account.Platform()
	v.mu.Lock()
	v.now[name]++
	v.most[name] = max(v.most[name], v.now[name])
	v.mu.Unlock()
	time.Sleep(v.takes[name])
	v.mu.Lock()
	v.now[name]--
	v.done[name]++
	v.mu.Unlock()
	return v.store.Release(context.WithoutCancel(ctx), l, 1, time.Time{})
}

// ended returns how many visits of a platform have ended.
func (v *visited) ended(platform string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.done[platform]
}

func newVisited(s conformance.Store, takes map[string]time.Duration) *visited {
	return &visited{store: s, takes: takes, done: map[string]int{}, now: map[string]int{}, most: map[string]int{}}
}

func run(t *testing.T, c engine.Config) (stop func()) {
	c.Log = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		engine.New(c).Run(ctx)
	}()
	return func() { cancel(); <-ended }
}

// A platform that does not respond, with more accounts than there can be visits, does not delay another platform.
func TestEngine_SilentPlatformDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := conformance.NewMemStore(wall{})
		for i := range 500 {
			wake(t, s, dispatch.Account(fmt.Sprintf("silent/%d", i)))
		}
		v := newVisited(s, map[string]time.Duration{"silent": 30 * time.Second, "quick": 10 * time.Millisecond})
		stop := run(t, engine.Config{Store: s, Visit: v.visit, Visits: 200, Platforms: []string{"silent", "quick"}})
		time.Sleep(time.Second)
		for i := range 50 {
			wake(t, s, dispatch.Account(fmt.Sprintf("quick/%d", i)))
		}
		time.Sleep(4 * time.Second)
		v.mu.Lock()
		if v.done["quick"] != 50 || v.most["silent"] != 100 {
			t.Errorf("%d of 50 visits of the quick platform after 4 s, beside %d of the silent one", v.done["quick"],
				v.most["silent"])
		}
		v.mu.Unlock()
		time.Sleep(3 * time.Minute)
		stop()
		if n := v.ended("silent"); n != 500 {
			t.Errorf("%d of 500 visits of the silent platform", n)
		}
	})
}

// TestEngine_SilentPlatformOfManyDelaysNothing: of 10,000 accounts on ten platforms the visits of nine platforms end at
// the same time, whether the tenth responds or not, by three processes. Of each platform a process visits no more
// accounts at once than its part of the visits.
func TestEngine_SilentPlatformOfManyDelaysNothing(t *testing.T) {
	const platforms, accounts, visits, processes = 10, 10_000, 1000, 3
	last := func(silent time.Duration) (ended time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := conformance.NewMemStore(wall{})
			takes := map[string]time.Duration{"p0": silent}
			names := []string{"p0"}
			for i := range platforms - 1 {
				names = append(names, fmt.Sprint("p", i+1))
				takes[names[i+1]] = 10 * time.Millisecond
			}
			for i := range accounts {
				if err := s.Wake(t.Context(), dispatch.Account(fmt.Sprintf("p%d/%d", i%platforms, i))); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			replicas := make([]*visited, processes)
			for i := range replicas {
				replicas[i] = newVisited(s, takes)
				stop := run(t, engine.Config{Store: s, Visit: replicas[i].visit, Visits: visits, Platforms: names})
				defer stop()
			}
			for _, name := range names[1:] {
				for visitsOf(replicas, name) < accounts/platforms {
					time.Sleep(time.Millisecond)
				}
			}
			ended = time.Since(began)
			for _, v := range replicas {
				v.checkMost(t, names, visits/platforms)
			}
		})
		return ended
	}
	if quick, slow := last(10*time.Millisecond), last(30*time.Second); slow > quick {
		t.Errorf("the visits of nine platforms ended after %v, and after %v where the tenth was silent", quick, slow)
	}
}

// visitsOf returns how many visits of a platform have ended in all processes.
func visitsOf(replicas []*visited, platform string) (n int) {
	for _, v := range replicas {
		n += v.ended(platform)
	}
	return n
}

// checkMost checks that a process visited at most so many accounts of each platform at once, and so many of the first,
// which has more that are due.
func (v *visited) checkMost(t *testing.T, platforms []string, most int) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, name := range platforms {
		if v.most[name] > most || i == 0 && v.most[name] != most {
			t.Errorf("%d visits of %s at once", v.most[name], name)
		}
	}
}

// During a rolling change of the configuration a process that does not know a new platform leaves its accounts to
// others. When no process has served the platform for some minutes, it visits them, so that their jobs show that.
func TestEngine_LeavesUnknownPlatformsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := conformance.NewMemStore(wall{})
		old, fresh := newVisited(s, nil), newVisited(s, nil)
		stopOld := run(t, engine.Config{Store: s, Visit: old.visit, Notifier: deaf{}, Platforms: []string{"p"}})
		defer stopOld()
		time.Sleep(time.Hour)
		both := engine.Config{Store: s, Visit: fresh.visit, Notifier: deaf{}, Platforms: []string{"p", "x"}}
		stop := run(t, both)
		time.Sleep(time.Second)
		for i := range 20 {
			wake(t, s, dispatch.Account(fmt.Sprintf("x/%d", i)))
			time.Sleep(10 * time.Second)
		}
		stop() // it is restarted
		wake(t, s, "x/late")
		time.Sleep(3 * time.Minute)
		if old.ended("x") != 0 {
			t.Errorf("%d visits by a process that does not know the platform", old.ended("x"))
		}
		stop = run(t, both)
		time.Sleep(5 * time.Second)
		if fresh.ended("x") != 21 {
			t.Errorf("%d of 21 visits by the process that knows the platform", fresh.ended("x"))
		}
		stop()
		wake(t, s, "x/orphan")
		time.Sleep(engine.Unserved + 5*time.Second)
		if old.ended("x") != 1 {
			t.Errorf("%d visits of an account whose platform no process serves any more", old.ended("x"))
		}
	})
}

// A single process marks jobs of an unknown platform at once.
func TestEngine_LoneProcessVisitsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := conformance.NewMemStore(wall{})
		v := newVisited(s, nil)
		for i := range 30 {
			wake(t, s, dispatch.Account(fmt.Sprintf("gone/%d", i)))
		}
		stop := run(t, engine.Config{Store: s, Visit: v.visit, Platforms: []string{"p"}})
		time.Sleep(10 * time.Second)
		stop()
		if v.done["gone"] != 30 || v.most["gone"] > 10 {
			t.Errorf("%d of 30 visits, %d at once", v.done["gone"], v.most["gone"])
		}
	})
}
