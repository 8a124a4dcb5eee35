package broker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// A job that was turned away once, then waited for a slot for longer than a job is tried for, and is turned away again
// goes on.
func TestTurnedAway_NotWhileWaitingForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPlatform(3 * time.Hour)
		accept, asked := p.submit, 0
		p.submit = func(token dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
			if asked++; asked == 1 || asked == 3 {
				return dispatch.SubmitResult{}, failure(dispatch.Unavailable)
			}
			return accept(token, s)
		}
		b := backend("a", dispatch.AccessShared, p)
		b.Limits.Jobs = 1
		h := open(conformance.NewMemStore(clock{}), b)
		defer h.stop()
		h.Timing.GiveUpAfter = time.Hour
		id := h.task(t, 2)
		time.Sleep(4 * time.Hour)
		if counts := h.taskRecord(t, id).Counts; counts[dispatch.Failed] > 0 || counts[dispatch.Finished] != 1 {
			t.Errorf("after one job and two refusals: %v", counts)
		}
		time.Sleep(3 * time.Hour)
		if counts := h.taskRecord(t, id).Counts; counts[dispatch.Finished] != 2 {
			t.Errorf("in the end: %v", counts)
		}
	})
}

// late is a document that comes after two seconds.
func late(context.Context) error {
	time.Sleep(2 * time.Second)
	return nil
}

// The same holds for a document that was slow twice.
func TestUnprepared_NotWhileWaitingForASlot(t *testing.T) {
	withDefined(t, func(b *broker.Broker) {
		b.Timing.GiveUpAfter = time.Hour
		b.Backends[0].Limits.Jobs = 1
	}, func(t *testing.T, h *testBroker, p *defined) {
		const slow = "https://slow.example/a"
		p.set(slow, fails(dispatch.DocumentUnreachable))
		r := h.one(t, "ann", slow)
		other := h.one(t, "bob", "https://good.example/b")
		p.set(slow, late)
		time.Sleep(3 * time.Hour)
		h.finish(t, p)
		time.Sleep(5 * time.Minute)
		if other = h.of(t, "bob", other.ID); other.Status != dispatch.Finished {
			t.Fatal(other.Status)
		}
		if r = h.of(t, "ann", r.ID); r.Status != dispatch.Finished {
			t.Errorf("%s %q %q", r.Status, r.Attention, r.Failure)
		}
	})
}
