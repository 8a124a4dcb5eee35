package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/detector"
)

// The tests of this file run in a bubble of testing/synctest, see with.

// biller is a platform that reports some time after the end of a run, three minutes after its start, that it cost 2.
type biller struct {
	script
	after time.Duration

	mu     sync.Mutex
	starts map[string]time.Time
}

func newBiller(after time.Duration) *biller {
	b := &biller{after: after, starts: map[string]time.Time{}}
	b.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.starts[s.Tag] = time.Now()
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}
	return b
}

func (b *biller) Status(_ context.Context, _ dispatch.Token, ref dispatch.Ref) (dispatch.Report, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := dispatch.Report{Status: dispatch.Running, Unit: "credits"}
	switch ran := time.Since(b.starts[ref.ID]); {
	case ran >= 3*time.Minute+b.after:
		r.Costs = new(2.0)
		fallthrough
	case ran >= 3*time.Minute:
		r.Status = dispatch.Finished
	}
	return r, nil
}

// limitedTask submits a task of ann with options.
func (h *testBroker) limitedTask(t *testing.T, n int, options string) dispatch.TaskID {
	t.Helper()
	r := request("a")
	r.Options = json.RawMessage(options)
	is, err := h.AcceptTask(t.Context(), "ann", r, dispatch.Dimension{Name: "tile", Values: values(n)}, dispatch.Key{})
	if err != nil {
		t.Fatal(err)
	}
	return is.ID
}

// stands returns the state of a task in words.
func (h *testBroker) stands(t *testing.T, id dispatch.TaskID) string {
	t.Helper()
	r := h.taskRecord(t, id)
	text := fmt.Sprint(r.Counts[dispatch.Finished], " of ", r.Counts.Jobs(), " ", r.Attention)
	if r.Spending != nil {
		text += fmt.Sprintf(", %g of %g", r.Budget.Use(*r.Spending).Spent, r.Budget.Amount)
	}
	return text
}

// However late the platform reports costs, a task never costs more than its budget. It waits for the first costs, goes
// on by itself, stops where another job would exceed the budget, and goes on within a higher one.
func TestBudget_IsKeptWithLateCosts(t *testing.T) {
	detector.Skip(t)
	for _, after := range []time.Duration{0, 5 * time.Hour, 23 * time.Hour} {
		p := newBiller(after)
		with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
			id := h.limitedTask(t, 20, `{"budget":13,"memory":"4g"}`)
			time.Sleep(4 * time.Minute)
			if is := h.stands(t, id); after > 0 && is != "1 of 20 costs_awaited, 0 of 13" {
				t.Errorf("after 4 minutes: %s", is)
			}
			time.Sleep(3 * 24 * time.Hour)
			if is := h.stands(t, id); is != "6 of 20 budget_reached, 12 of 13" || p.submits.Load() != 6 {
				t.Fatalf("%s, %d submitted", is, p.submits.Load())
			}
			low, high := dispatch.Budget{Amount: 13.5}, dispatch.Budget{Amount: 17}
			_, err := h.ResumeTask(t.Context(), "ann", id, &low)
			wantKind(t, err, dispatch.Conflict)
			if _, err := h.ResumeTask(t.Context(), "ann", id, &high); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * 24 * time.Hour)
			if is := h.stands(t, id); is != "8 of 20 budget_reached, 16 of 17" {
				t.Errorf("%s", is)
			}
			if _, err := h.ResumeTask(t.Context(), "ann", id, &dispatch.Budget{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(24 * time.Hour)
			if is := h.stands(t, id); is != "20 of 20 " {
				t.Errorf("%s", is)
			}
			_, err = h.ResumeTask(t.Context(), "ann", h.task(t, 1), &high)
			wantKind(t, err, dispatch.Invalid)
		})
	}
}

// A budget that has room for one job is not exceeded by the first jobs of a task, also if these are all that is known,
// or earlier runs of the user tell their costs.
func TestBudget_OfOneJobIsKept(t *testing.T) {
	detector.Skip(t)
	p := newBiller(5 * time.Hour)
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.limitedTask(t, 10, `{"budget":2}`)
		time.Sleep(24 * time.Hour)
		if is := h.stands(t, id); is != "1 of 10 budget_reached, 2 of 2" || p.submits.Load() != 1 {
			t.Errorf("nothing is known: %s, %d submitted", is, p.submits.Load())
		}
		h.limitedTask(t, 4, `{}`)
		time.Sleep(24 * time.Hour)
		for budget, want := range map[int]string{2: "1 of 10 costs_awaited, 0 of 2", 5: "2 of 10 costs_awaited, 0 of 5",
			9: "3 of 10 costs_awaited, 0 of 9", 1: "0 of 10 budget_reached, 0 of 1"} {
			id := h.limitedTask(t, 10, fmt.Sprintf(`{"budget":%d}`, budget))
			time.Sleep(4 * time.Minute)
			if is := h.stands(t, id); is != want {
				t.Errorf("earlier runs tell the costs, budget %d: %s", budget, is)
			}
			time.Sleep(3 * 24 * time.Hour)
			if is := h.stands(t, id); is != fmt.Sprintf("%d of 10 budget_reached, %d of %d", budget/2, budget/2*2,
				budget) {
				t.Errorf("budget %d: %s", budget, is)
			}
		}
	})
}

// The first values of a task run; the others when its owner resumes it. The platform gets the options without those of
// the task.
func TestTrial_OthersWaitForTheOwner(t *testing.T) {
	p := newBiller(0)
	var options []string
	var mu sync.Mutex
	submit := p.submit
	p.submit = func(t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		mu.Lock()
		options = append(options, string(s.PlatformOptions()))
		mu.Unlock()
		return submit(t, s)
	}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.limitedTask(t, 6, `{"trial":2,"memory":"4g"}`)
		if is := h.stands(t, id); is != "0 of 6 trial" {
			t.Error(is)
		}
		time.Sleep(time.Hour)
		if is := h.stands(t, id); is != "2 of 6 trial_ended" {
			t.Error(is)
		}
		if _, err := h.ResumeTask(t.Context(), "ann", id, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if is := h.stands(t, id); is != "6 of 6 " || options[0] != `{"memory":"4g"}` {
			t.Errorf("%s, options %s", is, options)
		}
		if all := h.limitedTask(t, 2, `{"trial":2}`); h.taskRecord(t, all).Paused {
			t.Error("a task all of whose jobs are tried is paused")
		}
	})
}
