package broker_test

import (
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// In these tests time is that of testing/synctest, as in all that use with.

// Costs of a user who has signed out are asked for some times within a day and not again; nobody is asked to sign in
// for them.
func TestMetering_NobodySignsInForIt(t *testing.T) {
	p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
		return dispatch.Report{Status: dispatch.Finished, Unit: "credits"}, nil
	}}
	with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
		r := h.accept(t)
		time.Sleep(30 * time.Second)
		if r := h.stored(t, r.ID); r.Status != dispatch.Finished || r.MeterDue().IsZero() {
			t.Fatalf("%s, costs are read at %v", r.Status, r.MeterDue())
		}
		h.tokens.set(failure(dispatch.SignInRequired))
		asked := p.statuses.Load()
		time.Sleep(30 * time.Hour)
		if now := h.stored(t, r.ID); p.statuses.Load() != asked || !now.MeterDue().IsZero() ||
			now.Status != dispatch.Finished || now.Attention != dispatch.None {
			t.Errorf("%d requests, costs are read at %v, %s %s", p.statuses.Load()-asked, now.MeterDue(), now.Status,
				now.Attention)
		}
		all, _, _, err := h.Platforms(t.Context(), "ann")
		if err != nil || !all[0].Hold.IsZero() {
			t.Errorf("the platform is shown as %+v, %v", all, err)
		}
	})
}

// While jobs are submitted, no costs are read; once nothing else is due, those of a job that was retried are read as
// well as those of the job itself.
func TestMetering_IsDoneWhenNothingElseIsDue(t *testing.T) {
	var billed atomic.Bool
	costs := 2.0
	p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
		r := dispatch.Report{Status: dispatch.Failed, Unit: "credits"}
		if billed.Load() {
			r.Costs = &costs
		}
		return r, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		task, err := h.AcceptTask(t.Context(), "ann", request("a"), dispatch.Dimension{Name: "tile",
			Values: slices.Repeat([]json.RawMessage{[]byte("1")}, 6)}, dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if task, err = h.RetryTask(t.Context(), "ann", task.ID, dispatch.Choice{}); err != nil ||
			task.Counts[dispatch.Failed] == 6 {
			t.Fatalf("%v, %v", task.Counts, err)
		}
		time.Sleep(5 * time.Minute)
		billed.Store(true)
		time.Sleep(2 * time.Hour)
		asked := p.statuses.Load()
		use, err := h.Usage(t.Context(), "ann")
		if err != nil || len(use) != 1 || len(use[0].Charges) != 1 || use[0].Charges[0].Costs != 24 ||
			use[0].Charges[0].Runs != 12 {
			t.Errorf("usage %+v, %v", use, err)
		}
		time.Sleep(30 * time.Hour)
		if more := p.statuses.Load() - asked; more != 0 {
			t.Errorf("%d requests after all costs were known", more)
		}
	})
}
