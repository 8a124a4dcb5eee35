package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// elsewhere is a store whose owners' reads go to a server that lacks the last commits, or to none.
type elsewhere struct {
	dispatch.Store
	says error
}

func (s elsewhere) RecordIncludingHidden(context.Context, dispatch.UserID, dispatch.JobID) (dispatch.Record, error) {
	return dispatch.Record{}, s.says
}

// TestAccept_ReturnsTheJobAsCommitted: the row that was written is not found, or cannot be read, right after the commit. The
// job is accepted, and the answer says so.
func TestAccept_ReturnsTheJobAsCommitted(t *testing.T) {
	for _, kind := range []dispatch.Kind{dispatch.NotFound, dispatch.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			kept := conformance.NewMemStore(skewed(0))
			h := open(elsewhere{kept, &dispatch.Error{Kind: kind, Op: "store.Record"}}, backend("a", dispatch.AccessShared, &script{}))
			defer h.stop()
			r := h.accept(t)
			if r.ID == 0 || r.Status != dispatch.Accepted || r.Owner != "ann" || r.Created.IsZero() || r.Request.Service.Endpoint != request("a").Service.Endpoint {
				t.Errorf("%v: answered %+v", kind, r)
			}
			if _, err := kept.Record(t.Context(), "ann", r.ID); err != nil {
				t.Error(err)
			}
		})
	}
}
