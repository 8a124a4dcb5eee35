package broker_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// The tests of this file run in a bubble of testing/synctest, see with.

func holdOf(t *testing.T, h *testBroker, scope string) {
	t.Helper()
	s := h.Store.(*conformance.MemStore)
	if err := s.HoldScope(t.Context(), dispatch.OperatorHold{Scope: scope, Notice: "until noon",
		By: "root"}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// A platform, or one account, is held for hours: what was submitted goes on, nothing else is submitted, its owner is
// notified, and all goes on after the release.
func TestOperator_HoldsAndReleases(t *testing.T) {
	for _, scope := range []string{"a", "a/shared"} {
		var ends atomic.Bool
		p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
			if ends.Load() {
				return dispatch.Report{Status: dispatch.Finished}, nil
			}
			return dispatch.Report{Status: dispatch.Running}, nil
		}}
		with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
			first := h.accept(t)
			time.Sleep(time.Minute)
			submitted := p.submits.Load()
			holdOf(t, h, scope)
			ends.Store(true)
			second := h.accept(t)
			time.Sleep(5 * time.Hour)
			if j := h.stored(t, first.ID); j.Status != dispatch.Finished {
				t.Errorf("%s: what was submitted is %s", scope, j.Status)
			}
			if j := h.stored(t, second.ID); j.Attention != dispatch.HeldByOperator || j.Notice != "until noon" ||
				p.submits.Load() != submitted {
				t.Errorf("%s: %s %q, %d submitted", scope, j.Attention, j.Notice, p.submits.Load()-submitted)
			}
			if err := h.Store.(*conformance.MemStore).ReleaseScope(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if j := h.stored(t, second.ID); j.Status != dispatch.Finished || j.Attention != dispatch.None {
				t.Errorf("%s: after the release it is %s, %s", scope, j.Status, j.Attention)
			}
		})
	}
}

// inTwoSteps is a platform on which jobs are created and then started. created is called when it has created a job.
func inTwoSteps(created func()) (p *twoSteps, started *atomic.Int32) {
	started = new(atomic.Int32)
	p = &twoSteps{}
	p.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		if s.Ref == (dispatch.Ref{}) {
			created()
			time.Sleep(agendaFresh)
			return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}}, nil
		}
		started.Add(1)
		return dispatch.SubmitResult{Ref: s.Ref, Started: true}, nil
	}
	return p, started
}

// agendaFresh is for how long a visit acts by what it has read.
const agendaFresh = 50 * time.Millisecond

type twoSteps struct{ script }

func (*twoSteps) TwoStep() bool { return true }

// A hold that begins while a job is created keeps it from being started, and its owner is notified.
func TestOperator_HoldsTheStartOfCreatedJobs(t *testing.T) {
	hold := func() {}
	p, started := inTwoSteps(func() { hold() })
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		s := h.Store.(*conformance.MemStore)
		hold = func() {
			if err := s.HoldScope(t.Context(), dispatch.OperatorHold{Scope: "a", Notice: "until noon",
				By: "root"}); err != nil {
				t.Error(err)
			}
		}
		j := h.accept(t)
		time.Sleep(5*time.Hour + 10*time.Minute) // not when the hold is renewed
		if got := h.stored(t, j.ID); started.Load() != 0 || got.Phase != dispatch.Created ||
			got.Attention != dispatch.HeldByOperator {
			t.Errorf("%s, %s, %d starts", got.Phase, got.Attention, started.Load())
		}
		if err := s.ReleaseScope(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := h.stored(t, j.ID); started.Load() != 1 || got.Phase != dispatch.Started ||
			got.Attention != dispatch.None {
			t.Errorf("after the release: %s, %s, %d starts", got.Phase, got.Attention, started.Load())
		}
	})
}

// The costs of a job that an operator ended are read, as those of any other.
func TestEndJob_ReadsTheCosts(t *testing.T) {
	var ended atomic.Bool
	costs := 4.5
	p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
		if ended.Load() {
			return dispatch.Report{Status: dispatch.Canceled, Costs: &costs, Unit: "credits"}, nil
		}
		return dispatch.Report{Status: dispatch.Running}, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		j := h.accept(t)
		time.Sleep(time.Minute)
		if _, err := h.EndJob(t.Context(), j.ID, "it hangs"); err != nil {
			t.Fatal(err)
		}
		ended.Store(true)
		time.Sleep(time.Hour)
		if got := h.stored(t, j.ID); got.Status != dispatch.Failed || got.AllCosts() == nil ||
			*got.AllCosts() != costs {
			t.Errorf("%s, costs %v", got.Status, got.AllCosts())
		}
	})
}

// A job that its platform reports as running for ever is ended: it fails with the reason, and its job at the platform
// is canceled.
func TestEndJob_EndsWhatDoesNotEnd(t *testing.T) {
	p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
		return dispatch.Report{Status: dispatch.Running}, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		j := h.accept(t)
		time.Sleep(time.Minute)
		if _, err := h.EndJob(t.Context(), j.ID, "the platform is gone."); err != nil {
			t.Fatal(err)
		}
		got := h.stored(t, j.ID)
		if got.Status != dispatch.Failed || got.Attention != dispatch.EndedByOperator ||
			got.Failure != "The operator of this service ended the job: the platform is gone." {
			t.Errorf("%s %s %q", got.Status, got.Attention, got.Failure)
		}
		_, err := h.EndJob(t.Context(), j.ID, "again")
		wantKind(t, err, dispatch.Conflict)
		_, err = h.EndJob(t.Context(), j.ID+100, "none")
		wantKind(t, err, dispatch.NotFound)
		time.Sleep(time.Hour)
		if left, err := h.Store.Load(t.Context(), j.ID); err != nil || len(left.Orphans) > 0 ||
			left.Status != dispatch.Failed {
			t.Errorf("%+v, %v", left, err)
		}
	})
}

// A job that is being submitted is not ended before the request is over: nobody would look for the run that it may
// begin.
func TestEndJob_WaitsForASubmission(t *testing.T) {
	during := func() {}
	p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
		return dispatch.Report{Status: dispatch.Running}, nil
	}}
	p.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		during()
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		asked := false
		during = func() {
			_, err := h.EndJob(t.Context(), 1, "it hangs")
			wantKind(t, err, dispatch.Conflict)
			asked = true
		}
		j := h.accept(t)
		time.Sleep(time.Minute)
		ended, err := h.EndJob(t.Context(), j.ID, "it hangs")
		if !asked || j.ID != 1 || err != nil || len(ended.Orphans) != 1 {
			t.Errorf("asked %v, %+v, %v", asked, ended, err)
		}
	})
}
