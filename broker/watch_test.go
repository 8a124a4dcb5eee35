package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// Who watches a job is notified of that job alone, however it changes and wherever, and of what is done to many at
// once.
func TestWatchJob_SignalsThatJobOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &script{}
		h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, p))
		defer h.stop()
		task := h.acceptTask(t, "1", "2")
		_, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", task, broker.AsKnown)
		if err != nil {
			t.Fatal(err)
		}
		single := h.accept(t)
		time.Sleep(time.Minute)
		watched := map[dispatch.JobID]<-chan struct{}{}
		for _, id := range []dispatch.JobID{single.ID, jobs[0].ID, jobs[1].ID} {
			changed, stop := h.WatchJob("ann", id)
			defer stop()
			watched[id] = changed
		}
		heard := func(what string, want ...dispatch.JobID) {
			t.Helper()
			synctest.Wait()
			for id, changed := range watched {
				got, wanted := false, false
				select {
				case <-changed:
					got = true
				default:
				}
				for _, w := range want {
					wanted = wanted || w == id
				}
				if got != wanted {
					t.Errorf("%s: job %d was notified: %v", what, id, got)
				}
			}
		}
		heard("nothing happened")
		other := h.accept(t)
		time.Sleep(10 * time.Second)
		heard("another job was submitted and started")
		if _, err := h.Cancel(t.Context(), "ann", other.ID); err != nil {
			t.Fatal(err)
		}
		heard("another job was canceled")
		if _, err := h.Cancel(t.Context(), "ann", single.ID); err != nil {
			t.Fatal(err)
		}
		heard("the job was canceled", single.ID)
		h.HandleBroadcast([]dispatch.JobID{jobs[0].ID}, []dispatch.UserID{"ann"})
		heard("another process saved it", jobs[0].ID)
		h.HandleBroadcast(nil, []dispatch.UserID{"bob"})
		heard("another user's changed elsewhere")
		h.HandleBroadcast(nil, []dispatch.UserID{"ann"})
		heard("the user's changed elsewhere", single.ID, jobs[0].ID, jobs[1].ID)
		h.HandleBroadcast(nil, nil)
		heard("something may have been missed", single.ID, jobs[0].ID, jobs[1].ID)
		if err := h.DeleteTask(t.Context(), "ann", task); err != nil {
			t.Fatal(err)
		}
		heard("its task was deleted", single.ID, jobs[0].ID, jobs[1].ID)
	})
}
