package histories

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

type twoStep = conformance.TwoStep

// losing is a two-step platform that loses so many requests which create: they have no effect and get no answer.
type losing struct {
	twoStep
	creates *atomic.Int32
}

func (l losing) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.Step, error) {
	if s.Ref == (dispatch.Ref{}) && l.creates.Add(-1) >= 0 {
		return dispatch.Step{}, &dispatch.Error{Kind: dispatch.Uncertain, Op: "losing", Text: "no answer"}
	}
	return l.twoStep.Submit(ctx, t, s)
}

// A database that was set back gives out ids again. A create in doubt must then not adopt the run that the same id had
// before, nor cancel it as a stray: it belongs to another job, perhaps another user's.
func TestACreateInDoubtLeavesAnothersRunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 4, Requests: 4, Pace: 50 * time.Millisecond, Send: 30 * time.Second})
		first := h.start("one")
		time.Sleep(time.Second)
		lost, err := first.Accept(t.Context(), "ann", request(), dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		first.stop()
		<-first.done

		h.store, h.jobs = conformance.NewMemStore(h.clock), map[dispatch.JobID]dispatch.Job{} // as it was before the job came
		h.seed++                                                                              // chance does not repeat
		creates := new(atomic.Int32)
		creates.Store(1)
		h.platform = func(l conformance.Link) dispatch.Platform { return losing{conformance.TwoStep{Link: l}, creates} }
		second := h.start("two")
		h.procs = []*process{second}
		time.Sleep(time.Second)
		again, err := second.Accept(t.Context(), "bob", request(), dispatch.Key{})
		if err != nil || again.ID != lost.ID {
			t.Fatalf("Accept = job %d, %v; want id %d again", again.ID, err, lost.ID)
		}
		time.Sleep(time.Hour)
		again, err = second.Read(t.Context(), "bob", again.ID, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range h.world.Runs() {
			switch {
			case r.Ref == again.Ref && r.Ref == (dispatch.Ref{ID: "p1"}):
				t.Errorf("bob's job adopted ann's run %s", r.Ref)
			case r.Ref.ID == "p1" && (r.Dropped || !r.Stopped.IsZero()):
				t.Errorf("ann's run was canceled")
			}
		}
		if again.Phase != dispatch.Ended || again.Ref == (dispatch.Ref{}) {
			t.Errorf("bob's job is %s %s with ref %q", again.Phase, again.Status, again.Ref)
		}
		h.end()
	})
}

// An account whose platform has no list submits nothing after a restore until the operator allows it.
func TestARestoredAccountWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 4, Requests: 4, Send: 30 * time.Second})
		h.platform = func(l conformance.Link) dispatch.Platform { return conformance.OneStep{Link: l} }
		first := h.start("one")
		time.Sleep(time.Second)
		first.acceptTask("ann", request(), 6) // two wait
		time.Sleep(10 * time.Second)
		first.stop()
		<-first.done
		if _, err := h.store.MarkRestored(t.Context(), dispatch.CompareFirst); err != nil {
			t.Fatal(err)
		}
		before := len(h.world.Runs())
		second := h.start("two")
		h.procs = []*process{second}
		time.Sleep(2 * time.Hour)
		if n := len(h.world.Runs()); n != before || before == 0 {
			t.Errorf("%d runs before the restore, %d two hours after it", before, n)
		}
		all, err := h.store.TaskJobs(t.Context(), "ann", 1, dispatch.Page{})
		if err != nil || all[5].Phase != dispatch.Waiting || all[5].Attention != dispatch.NeedsOperator {
			t.Errorf("what waits shows %s %q, %v", all[5].Phase, all[5].Attention, err)
		}
		if _, err := h.store.MarkRestored(t.Context(), dispatch.CompareIfLists); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if n := len(h.world.Runs()); n != 6 {
			t.Errorf("%d runs after the operator allowed it", n)
		}
		h.end()
	})
}
