package openeo_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// startedMeanwhile is a store in which another request starts a batch job just before it is deleted.
type startedMeanwhile struct {
	broker.Store
	start func()
}

func (s startedMeanwhile) DeleteUnstarted(ctx context.Context, u dispatch.UserID, id dispatch.UnstartedID) error {
	s.start()
	return s.Store.DeleteUnstarted(ctx, u, id)
}

// A batch job that is started while it is deleted is deleted, and stopped: its client knows that it is gone.
func TestJobs_DeletedWhileStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	w.backends[0].Limits = dispatch.Limits{Jobs: 20, Requests: 4, Send: 30 * time.Second}
	var path string
	w.broker.Store = startedMeanwhile{w.broker.Store, func() { w.is(http.StatusAccepted, "POST", path+"/results", "") }}
	t.Cleanup(conformance.RunBroker(w.broker))
	path = w.create(
		`{"process": {"process_graph": {"a": {"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": true}}}}`)
	w.is(http.StatusNoContent, "DELETE", path, "")
	refusedWith(t, w.ask("GET", path, "", "Authorization", anna), http.StatusNotFound, "JobNotFound")
}
