package dispatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// A document that can be fetched again clears its jobs' attention and gives them their places in the queue, also while all slots of the
// platform are taken. Documents of other waiting jobs are not fetched meanwhile.
func TestADocumentIsBackWhileNoSlotIsFree(t *testing.T) {
	withDefined(t, func(b *dispatch.Broker) { b.Backends[0].Limits.Jobs = 1 }, func(t *testing.T, h *house, p *defined) {
		const bad, good = "https://x.example/a", "https://y.example/b"
		p.set(bad, fails(dispatch.DocumentUnreachable))
		waits := []dispatch.Record{h.one(t, "ann", bad), h.one(t, "bob", bad)}
		if r := h.one(t, "cem", good); r.Status != dispatch.Submitted {
			t.Fatalf("the job that takes the slot is %s %q", r.Status, r.Attention)
		}
		later := h.one(t, "cem", good)
		time.Sleep(20 * time.Minute)
		fetched := p.counted(p.fetched)
		if n := fetched[bad]; n < 4 || n > 10 {
			t.Errorf("the document was tried %d times in 20 minutes", n)
		}
		if n := fetched[good]; n > 2 {
			t.Errorf("the document of a job without attention was fetched %d times", n)
		}
		for _, r := range waits {
			if r = h.of(t, r.Owner, r.ID); r.Attention != dispatch.ApplicationUnreachable || r.Ahead != nil {
				t.Errorf("before: %s %q, %v ahead", r.Status, r.Attention, r.Ahead)
			}
		}
		p.set(bad, nil)
		time.Sleep(11 * time.Minute) // the longest pause of an address
		for _, r := range append(waits, later) {
			r = h.of(t, r.Owner, r.ID)
			if r.Phase != dispatch.Waiting || r.Attention != dispatch.None || r.Notice != "" || r.Tries != 0 || !r.Refused.IsZero() || r.Ahead == nil {
				t.Errorf("job %d: %s %q %q, %d tries, refused %v, ahead %v", r.ID, r.Phase, r.Attention, r.Notice, r.Tries, r.Refused, r.Ahead)
			}
		}
		if n := p.submits.Load(); n != 1 {
			t.Errorf("%d jobs were submitted for one slot", n)
		}
	})
}

// A document that stays away while no slot is free fails its jobs after give_up_after, and one that turns out to define nothing fails them
// at once.
func TestADocumentThatStaysAwayWhileNoSlotIsFree(t *testing.T) {
	withDefined(t, func(b *dispatch.Broker) { b.Backends[0].Limits.Jobs, b.GiveUpAfter = 1, time.Hour }, func(t *testing.T, h *house, p *defined) {
		for i, k := range []dispatch.Kind{dispatch.DocumentUnreachable, dispatch.DocumentUnreachable} {
			p.set(fmt.Sprintf("https://x%d.example/a", i), fails(k))
		}
		away, none := h.one(t, "ann", "https://x0.example/a"), h.one(t, "ann", "https://x1.example/a")
		h.one(t, "bob", "https://y.example/b")
		p.set("https://x1.example/a", fails(dispatch.DocumentInvalid))
		time.Sleep(80 * time.Minute)
		if r := h.of(t, "ann", away.ID); r.Status != dispatch.Failed || r.Attention != dispatch.ApplicationUnreachable {
			t.Errorf("the document stays away: %s %q", r.Status, r.Attention)
		}
		if r := h.of(t, "ann", none.ID); r.Status != dispatch.Failed || r.Attention != dispatch.ApplicationInvalid {
			t.Errorf("the document defines nothing: %s %q", r.Status, r.Attention)
		}
	})
}
