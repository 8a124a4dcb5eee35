package broker_test

import (
	"testing"
	"testing/synctest"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// A list of several parts is read to its end and in order. A started job of it shows that its platform does not
// respond.
func TestLists_AreReadInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 600
		h := open(conformance.NewMemStore(skewed(0)), backend("a", dispatch.AccessShared, &script{}))
		h.stop() // nothing is visited
		drafts := make([]dispatch.Draft, n)
		for i := range drafts {
			drafts[i] = dispatch.Draft{Body: []byte(`{"title":"t","parameters":{}}`), Job: dispatch.Job{
				Identity: dispatch.Identity{Owner: "ann"}, Target: dispatch.Target{Account: "a/shared"},
				Wish: dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: dispatch.Waiting},
				Condition: dispatch.Condition{Status: dispatch.Accepted}}}
		}
		if _, err := h.Store.Accept(t.Context(), dispatch.Key{}, nil, drafts); err != nil {
			t.Fatal(err)
		}
		last, first := drafts[0].Job, drafts[n-1].Job
		last.Phase, last.Status = dispatch.Started, dispatch.Running
		first.Phase, first.Status = dispatch.Started, dispatch.Running
		if _, err := h.Store.Save(t.Context(), []dispatch.Job{last, first}); err != nil {
			t.Fatal(err)
		}
		h.inParts(t, drafts, dispatch.None)
		if err := h.Store.NoteResponse(t.Context(), "a", "It does not respond.", 0); err != nil {
			t.Fatal(err)
		}
		h.inParts(t, drafts, dispatch.Unreachable)
	})
}

// inParts reads the whole list, the last of which has an attention, and the first 300 of it.
func (h *testBroker) inParts(t *testing.T, drafts []dispatch.Draft, last dispatch.Attention) {
	t.Helper()
	i := len(drafts)
	for r, err := range h.Jobs(t.Context(), "ann", dispatch.Page{}) {
		i--
		if err != nil || r.ID != drafts[i].ID || r.Request.Title != "t" {
			t.Fatalf("job %d in place of %d, %v", r.ID, drafts[i].ID, err)
		}
		if waits := i > 0 && i < len(drafts)-1; waits != (r.Ahead != nil) {
			t.Fatalf("job %d waits: %v, ahead: %v", r.ID, waits, r.Ahead)
		}
		if i == 0 && r.Attention != last {
			t.Errorf("the last has the attention %q, not %q", r.Attention, last)
		}
	}
	if i != 0 {
		t.Errorf("%d were not read", i)
	}
	some := 0
	for _, err := range h.Jobs(t.Context(), "ann", dispatch.Page{Limit: 300}) {
		if some++; err != nil {
			t.Fatal(err)
		}
	}
	if some != 300 {
		t.Errorf("read %d of 300", some)
	}
}
