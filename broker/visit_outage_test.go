package broker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// agendaOutage is a store whose agendas cannot be read for a while.
type agendaOutage struct {
	conformance.Store
	down atomic.Bool
}

func (s *agendaOutage) Agenda(ctx context.Context, a dispatch.Account, n int, stalled time.Duration) (dispatch.Agenda,
	error) {
	if s.down.Load() {
		return dispatch.Agenda{}, failure(dispatch.Unavailable)
	}
	return s.Store.Agenda(ctx, a, n, stalled)
}

// A response that comes while the agenda cannot be read is saved with the time of the store, so that its job goes on.
func TestVisit_OutageOfTheAgenda(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
			time.Sleep(10 * time.Second)
			return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
		}}
		s := &agendaOutage{Store: conformance.NewMemStore(clock{})}
		h := open(s, backend("a", dispatch.AccessShared, p))
		defer h.stop()
		begin := time.Now()
		go func() {
			time.Sleep(5 * time.Second)
			s.down.Store(true)
			h.accept(t) // wakes the visit, which reads its agenda
		}()
		first := h.accept(t)
		time.Sleep(20 * time.Second)
		s.down.Store(false)
		if j := h.stored(t, first.ID); j.Checked.Before(begin) || j.Due.Before(begin) {
			t.Errorf("checked at %v, due at %v", j.Checked, j.Due)
		}
	})
}
