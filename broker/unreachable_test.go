package broker_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// skewed is a clock that differs from the process's own.
type skewed time.Duration

func (s skewed) Now() time.Time { return time.Now().Add(time.Duration(s)) }

// A client that reads while the platform takes 0.5 s to answer another client's request does not learn that the
// platform is unreachable, whatever the database's clock says. If the platform stays silent both are informed.
func TestMarkUnreachable_NotWhileAReadIsUnderWay(t *testing.T) {
	for _, skew := range []time.Duration{0, -time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			answersIn := 500 * time.Millisecond
			p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
				time.Sleep(answersIn)
				return dispatch.Report{Status: dispatch.Running}, nil
			}}
			h := open(conformance.NewMemStore(skewed(skew)), backend("a", dispatch.AccessShared, p))
			defer h.stop()
			id := h.accept(t).ID
			time.Sleep(90 * time.Minute) // the broker asks once a minute by itself
			h.rest(t, id, 30*time.Second, 50*time.Second)

			var first sync.WaitGroup
			first.Go(func() { h.attends(t, id, 10*time.Second, dispatch.None) })
			for range 5 {
				time.Sleep(90 * time.Millisecond)
				h.listed(t, dispatch.None)
				h.attends(t, id, broker.AsKnown, dispatch.None)
			}
			first.Wait()
			h.listed(t, dispatch.None)

			answersIn = time.Minute
			h.rest(t, id, 30*time.Second, 50*time.Second)
			h.attends(t, id, 10*time.Second, dispatch.Unreachable)
			h.attends(t, id, broker.AsKnown, dispatch.Unreachable)
			h.listed(t, dispatch.Unreachable)
		})
	}
}

// rest returns when the last status is between two ages.
func (h *testBroker) rest(t *testing.T, id dispatch.JobID, from, to time.Duration) {
	t.Helper()
	for range 600 {
		time.Sleep(time.Second)
		r, err := h.Store.Record(t.Context(), "ann", id)
		if err != nil {
			t.Fatal(err)
		}
		if age := r.Read.Sub(r.Checked); age > from && age < to {
			return
		}
	}
	t.Fatal("the status never has that age")
}

func (h *testBroker) attends(t *testing.T, id dispatch.JobID, fresh time.Duration, want dispatch.Attention) {
	t.Helper()
	if r, err := h.Read(t.Context(), "ann", id, fresh); err != nil || r.Attention != want {
		t.Errorf("read with freshness %v: attention %q, not %q; %v", fresh, r.Attention, want, err)
	}
}

// listed reads the list as it is known.
func (h *testBroker) listed(t *testing.T, want dispatch.Attention) {
	t.Helper()
	jobs, err := conformance.Jobs(t.Context(), h.Broker, "ann", broker.AsKnown)
	if err != nil || len(jobs) != 1 || jobs[0].Attention != want {
		t.Errorf("listed: %+v, not with attention %q; %v", jobs, want, err)
	}
}
