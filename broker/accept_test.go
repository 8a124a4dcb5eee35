package broker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// elsewhere is a store whose owners' reads go to a server that lacks the last commits, or to none.
type elsewhere struct {
	conformance.Store
	says error
}

func (s elsewhere) RecordIncludingHidden(context.Context, dispatch.UserID, dispatch.JobID) (dispatch.Record, error) {
	return dispatch.Record{}, s.says
}

// TestAccept_ReadsNothingInBetween: the row that was written is not found, or cannot be read, after the commit. The job
// is accepted, and the answer says so.
func TestAccept_ReadsNothingInBetween(t *testing.T) {
	for _, kind := range []dispatch.Kind{dispatch.NotFound, dispatch.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			kept := conformance.NewMemStore(skewed(0))
			h := open(elsewhere{kept, &dispatch.Error{Kind: kind, Op: "store.Record"}},
				backend("a", dispatch.AccessShared, &script{}))
			defer h.stop()
			r := h.accept(t)
			if r.ID == 0 || r.Phase != dispatch.Waiting || r.Owner != "ann" || r.Created.IsZero() ||
				r.Request.Service.Endpoint != request("a").Service.Endpoint {
				t.Errorf("%v: answered %+v", kind, r)
			}
			if stored, err := kept.Record(t.Context(), "ann", r.ID); err != nil || stored.Phase != dispatch.Started {
				t.Errorf("%v: the job is %+v", err, stored.Job)
			}
		})
	}
}

// TestAccept_SeesWhatWasSavedBefore: a response that was saved before its request waits for it is seen at once.
func TestAccept_SeesWhatWasSavedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(conformance.NewMemStore(skewed(0)), backend("a", dispatch.AccessShared, &script{}))
		defer h.stop()
		h.Broker.Store = lateReturn{h.Store, h.Engine}
		began := time.Now()
		if r := h.accept(t); r.Phase != dispatch.Started || time.Since(began) != time.Minute {
			t.Errorf("after %v the job is %s", time.Since(began), r.Phase)
		}
	})
}

// lateReturn is a store whose Accept returns a minute after its commit, when the account was visited already.
type lateReturn struct {
	conformance.Store
	engine dispatch.Engine
}

func (s lateReturn) Accept(ctx context.Context, k dispatch.Key, t *dispatch.Task, jobs []dispatch.Draft,
	within ...dispatch.Quota) (dispatch.KeyTarget, error) {
	first, err := s.Store.Accept(ctx, k, t, jobs, within...)
	s.engine.Wake(jobs[0].Account)
	time.Sleep(time.Minute)
	return first, err
}
