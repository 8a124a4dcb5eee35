package dispatch_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// A job at whose submission the adapter panics each time is set aside after three. The other jobs of the account go on.
func TestAJobThatAlwaysPanicsIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics atomic.Int32
		p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.Step, error) {
			if s.Request.Title == "bad" {
				panics.Add(1)
				panic("a bug")
			}
			return dispatch.Step{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
		}}
		b := backend("a", dispatch.AccessShared, p)
		b.AtLeastOnce = true
		h := open(conformance.NewMemStore(clock{}), b)
		r := request("a")
		r.Title = "bad"
		bad, err := h.Accept(t.Context(), "ann", r, dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(time.Minute)
			good := h.accept(t)
			time.Sleep(6 * time.Second)
			if r := h.now(t, good.ID); r.Phase != dispatch.Started || r.Begun != 0 {
				t.Errorf("another job of the account is %s, with %d submissions without a response", r.Phase, r.Begun)
			}
			if err := h.Delete(t.Context(), "ann", good.ID); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if r := h.now(t, bad.ID); panics.Load() != 3 || r.Status != dispatch.Failed || r.Attention != dispatch.SetAside || r.Failure == "" {
			t.Errorf("after %d panics the job is %s %q: %s", panics.Load(), r.Status, r.Attention, r.Failure)
		}
		h.stop()
	})
}
