package dispatch_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// An adapter that panics ends neither the process nor the other jobs of its account.
func TestAPanicEndsNothing(t *testing.T) {
	var bad atomic.Bool
	p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
		if bad.Load() {
			panic("a bug")
		}
		return dispatch.Report{Status: dispatch.Running}, nil
	}}
	p.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.Step, error) {
		if p.submits.Load() == 1 {
			panic("a bug")
		}
		return dispatch.Step{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *house) {
		first := h.accept(t)
		second := h.accept(t)
		bad.Store(true)
		time.Sleep(5 * time.Minute)
		bad.Store(false)
		time.Sleep(15 * time.Minute) // after three panics a status is read ten minutes later
		if r := h.now(t, first.ID); r.Attention != dispatch.InDoubt && r.Attention != dispatch.SubmissionUnknown {
			t.Errorf("a submission that may have been taken is %s %q", r.Phase, r.Attention)
		}
		if r := h.now(t, second.ID); r.Phase != dispatch.Started || r.Tries != 0 || p.submits.Load() != 2 {
			t.Errorf("the other job is %s after %d submits, and %d questions without an answer", r.Phase, p.submits.Load(), r.Tries)
		}
		if logs := h.logs.String(); !strings.Contains(logs, "a bug") || !strings.Contains(logs, "panic_test.go") {
			t.Error("the log does not tell where the panic was")
		}
	})
}

// resting is a store at whose first intent the machine is suspended, once it is committed.
type resting struct {
	dispatch.Store
	suspend func()
}

func (r resting) Intend(ctx context.Context, l dispatch.Lease, limits dispatch.Limits, jobs []dispatch.Job) ([]dispatch.Job, error) {
	defer r.suspend()
	return r.Store.Intend(ctx, l, limits, jobs)
}

// A machine that was suspended past its lease sends nothing of what it was about to send: another process has the account.
func TestASuspendedMachineSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		asleep := []time.Duration{time.Hour}
		p := &script{}
		s := resting{conformance.NewMemStore(clock{}), func() {
			if len(asleep) > 0 {
				ahead.Add(int64(asleep[0]))
				asleep = nil
			}
		}}
		h := open(s, backend("a", dispatch.AccessShared, p))
		h.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		var early atomic.Int32
		time.AfterFunc(500*time.Millisecond, func() { early.Store(p.submits.Load()) })
		r := h.accept(t)
		time.Sleep(time.Minute)
		if r := h.now(t, r.ID); early.Load() != 0 || p.submits.Load() != 1 || r.Phase != dispatch.Started || r.Attempt != 2 {
			t.Errorf("%d submits at once, then %d; the job is %s after %d attempts", early.Load(), p.submits.Load(), r.Phase, r.Attempt)
		}
		h.stop()
	})
}
