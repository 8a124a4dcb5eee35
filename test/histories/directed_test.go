package histories

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// calm returns a history without random events, on a correct two-step platform.
func calm(t *testing.T, l dispatch.Limits) *history {
	h := newHistory(t, 1)
	h.rand, h.limits, h.jumps, h.twoStep, h.atLeastOnce = rand.New(rand.NewPCG(1, 1)), l, false, true, false
	h.world.Mean, h.world.Slots, h.world.Limit = 0, 0, l.Jobs
	h.platform = func(l conformance.Link) dispatch.Platform { return conformance.TwoStep{Link: l} }
	h.store = conformance.NewMemStore(h.clock)
	return h
}

func (h *history) end() {
	for _, p := range h.procs {
		p.stop()
		<-p.done
	}
	time.Sleep(time.Hour)
	report(h.t, h)
}

// TestVisit_LongOneKeepsItsLease checks that a visit that lasts longer than its lease renews the lease.
func TestVisit_LongOneKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 24, Requests: 4, Pace: time.Second, Send: 30 * time.Second})
		// no listings, so visits stay long
		h.platform = func(l conformance.Link) dispatch.Platform { return conformance.OneStep{Link: l} }
		one, two := h.start("one"), h.start("two")
		h.procs = []*process{one, two}
		time.Sleep(time.Second)
		one.acceptTask("ann", request(), 23)
		time.Sleep(time.Second)
		two.Accept(t.Context(), "ann", request(), dispatch.Key{}) // now the engine of two also knows the account
		time.Sleep(80 * time.Second)
		if first, second := one.visited(), two.visited(); first < 80 || second > 0 {
			t.Errorf("one had %d turns, two had %d", first, second)
		}
		h.end()
	})
}

// TestVisit_ShortRequestsHaveTheirTime checks that statuses are read between two renewals even with a short
// limits.send.
func TestVisit_ShortRequestsHaveTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 24, Requests: 4, Pace: time.Second, Send: 2 * time.Second})
		h.platform = func(l conformance.Link) dispatch.Platform { return conformance.OneStep{Link: l} }
		p := h.start("one")
		h.procs = []*process{p}
		time.Sleep(time.Second)
		p.acceptTask("ann", request(), 20)
		time.Sleep(80 * time.Second)
		h.locked(func() {
			for _, j := range h.jobs { // with one request per second
				// the broker waits a minute after a status that was not found
				if age := time.Since(j.Checked); j.Phase == dispatch.Started && j.Polls == 0 && age > 45*time.Second {
					t.Errorf("the status of job %d is %v old", j.ID, age)
				}
			}
		})
		h.end()
	})
}

// TestVisit_OneUserDoesNotDelayAnother checks that a user's job gets the next free slot however many jobs of another
// user wait.
func TestVisit_OneUserDoesNotDelayAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 2, Requests: 4, Pace: 50 * time.Millisecond, Send: 30 * time.Second})
		h.procs = []*process{h.start("one")}
		time.Sleep(time.Second)
		h.procs[0].acceptTask("ann", request(), 40)
		time.Sleep(20 * time.Minute)
		before := len(h.world.Runs())
		j, _ := h.procs[0].Accept(t.Context(), "bob", request(), dispatch.Key{})
		time.Sleep(30 * time.Minute)
		j, _ = h.store.Record(t.Context(), "bob", j.ID)
		for i, r := range h.world.Runs() {
			if r.Tag == j.Tag(installation) && i > before {
				t.Errorf("bob's job was submitted after %d more jobs of ann", i-before)
			}
		}
		if j.Phase == dispatch.Waiting {
			t.Errorf("bob's job still waits")
		}
		h.end()
	})
}

// TestVisit_ReadIsFresh checks that a client's read returns a fresh status although no poll is due.
func TestVisit_ReadIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 2, Requests: 4, Pace: 50 * time.Millisecond, Send: 30 * time.Second})
		h.procs = []*process{h.start("one")}
		time.Sleep(time.Second)
		j, err := h.procs[0].Accept(t.Context(), "ann", request(), dispatch.Key{})
		if err != nil || j.Status != dispatch.Submitted {
			t.Fatalf("Accept = %s, %v", j.Status, err)
		}
		for j.Phase != dispatch.Ended {
			time.Sleep(31 * time.Second)
			began := time.Now()
			if j, err = h.procs[0].Read(t.Context(), "ann", j.ID, 10*time.Second); err != nil ||
				time.Since(began) > 3*time.Second {
				t.Fatalf("Read = %v after %v", err, time.Since(began))
			}
			if age := time.Since(j.Checked); j.Phase == dispatch.Started && age > 10*time.Second {
				t.Errorf("the status is %v old", age)
			}
		}
		h.end()
	})
}
