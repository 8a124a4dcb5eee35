package broker_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/detector"
)

// The tests of this file run in a bubble of testing/synctest, see with.

// varied is a platform whose jobs run for log-normal times. It reports a progress that says nothing.
type varied struct {
	script
	mu   sync.Mutex
	rand *rand.Rand
	ends map[string]time.Time
}

func newVaried(deviation float64) *varied {
	p := &varied{rand: rand.New(rand.NewPCG(1, 2)), ends: map[string]time.Time{}}
	p.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ends[s.Tag] = time.Now().Add(time.Duration(float64(10*time.Minute) *
			math.Exp(deviation*p.rand.NormFloat64())))
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}
	return p
}

func (p *varied) Status(_ context.Context, _ dispatch.Token, ref dispatch.Ref) (dispatch.Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	half := 50.
	if time.Now().Before(p.ends[ref.ID]) {
		return dispatch.Report{Status: dispatch.Running, Progress: &half}, nil
	}
	return dispatch.Report{Status: dispatch.Finished}, nil
}

func (h *testBroker) forecast(t *testing.T, id dispatch.TaskID) dispatch.TaskRecord {
	t.Helper()
	r, err := h.ForecastTask(t.Context(), h.taskRecord(t, id))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// untilEnded waits until n jobs of a task have ended.
func (h *testBroker) untilEnded(t *testing.T, id dispatch.TaskID, n int) {
	t.Helper()
	for range 10_000 {
		if c := h.taskRecord(t, id).Counts; c[dispatch.Finished] >= n {
			return
		}
		time.Sleep(time.Minute)
	}
	t.Fatalf("%d jobs of task %d have not ended", n, id)
}

// The forecast of a task is hidden until eight of its user's jobs of the service have finished. From then on the task
// ends in it, or not far from it. A job that waits starts before it ends. There is no forecast for another user, and
// none for a task that is paused or has several placements.
func TestForecastTask_ContainsTheEnd(t *testing.T) {
	detector.Skip(t)
	with(t, dispatch.AccessShared, newVaried(.3), func(t *testing.T, h *testBroker) {
		const tasks, jobs = 3, 16
		for i := range tasks {
			id := h.task(t, jobs)
			h.untilEnded(t, id, 4)
			if f := h.forecast(t, id).Forecast; (f == nil) != (i == 0) {
				t.Fatalf("task %d, some jobs have ended: %+v", i, f)
			}
			h.untilEnded(t, id, 9)
			f := h.forecast(t, id).Forecast
			if f == nil || f.Basis != dispatch.OfTask || f.Runs < 9 || f.Start != nil {
				t.Fatalf("task %d: %+v", i, f)
			}
			h.untilEnded(t, id, jobs)
			end, wide := h.taskRecord(t, id).Updated, f.End.Late.Sub(f.End.Early)
			if end.Before(f.End.Early.Add(-2*wide)) || end.After(f.End.Late.Add(2*wide)) || wide <= 0 ||
				wide > time.Hour {
				t.Errorf("it ended at %v, not from %v to %v", end, f.End.Early, f.End.Late)
			}
			if f := h.forecast(t, id).Forecast; f != nil {
				t.Errorf("a task that has ended: %+v", f)
			}
		}

		id := h.task(t, jobs)
		time.Sleep(time.Minute)
		all, err := h.Store.TaskJobs(t.Context(), "ann", id, dispatch.Page{})
		if err != nil {
			t.Fatal(err)
		}
		shown := func(of dispatch.JobID) *dispatch.Forecast {
			r, err := h.Read(t.Context(), "ann", of, broker.AsKnown)
			if err == nil {
				r, err = h.ForecastJob(t.Context(), r)
			}
			if err != nil || r.Forecast == nil {
				t.Fatalf("a job that is %s: %+v, %v", r.Status, r.Forecast, err)
			}
			return r.Forecast
		}
		if f := shown(all[jobs-1].ID); f.Start == nil || !f.Start.Early.Before(f.Start.Late) ||
			!f.Start.Late.Before(f.End.Late) || !f.Start.Early.Before(f.End.Early) {
			t.Errorf("a job that waits: %+v", f)
		}
		if f := shown(all[0].ID); f.Start != nil || !f.End.Early.After(time.Now()) ||
			!f.End.Late.Before(time.Now().Add(time.Hour)) {
			t.Errorf("a job that runs: %+v", f)
		}
		at := h.forecast(t, id)
		several := h.taskRecord(t, id)
		several.Request.Placements = []dispatch.Placement{{Account: several.Account}, {Account: "q/shared"}}
		if several, err = h.ForecastTask(t.Context(), several); err != nil || at.Forecast == nil ||
			several.Forecast != nil {
			t.Errorf("at one platform: %+v, at several: %+v, %v", at.Forecast, several.Forecast, err)
		}
		if _, err := h.PauseTask(t.Context(), "ann", id); err != nil {
			t.Fatal(err)
		}
		if r := h.forecast(t, id); r.Forecast != nil || r.Rest != nil {
			t.Errorf("a paused task: %+v, %+v", r.Forecast, r.Rest)
		}
		r := request("a")
		is, err := h.AcceptTask(t.Context(), "bob", r, dispatch.Dimension{Name: "tile", Values: values(3)},
			dispatch.Key{})
		if err == nil {
			is, err = h.ForecastTask(t.Context(), is)
		}
		if err != nil || is.Forecast != nil {
			t.Errorf("bob's first task: %+v, %v", is.Forecast, err)
		}
	})
}

// After a trial the task tells what its rest costs, and how long it takes on the slots of the account.
// A trial is judged by its own jobs, also when its owner looks after many jobs of other tasks have finished.
func TestForecastTask_RestIsMadeFromOwnJobs(t *testing.T) {
	detector.Skip(t)
	with(t, dispatch.AccessShared, newBiller(0), func(t *testing.T, h *testBroker) {
		id := h.limitedTask(t, 24, `{"trial":4}`)
		time.Sleep(time.Hour)
		h.limitedTask(t, dispatch.EstimatedFrom, `{}`)
		time.Sleep(2 * time.Hour)
		if r := h.forecast(t, id).Rest; r == nil || r.Charged != 4 || r.Timed != 4 || r.Basis != dispatch.OfTask {
			t.Errorf("%+v", r)
		}
	})
}

// Jobs that are being submitted when a budget is reached show the status created, and are not of the rest.
func TestForecastTask_RestIsWithoutWhatIsBeingSubmitted(t *testing.T) {
	with(t, dispatch.AccessShared, newBiller(0), func(t *testing.T, h *testBroker) {
		id := h.limitedTask(t, 20, `{"budget":8}`)
		time.Sleep(time.Hour)
		task, err := h.Task(t.Context(), "ann", id)
		if err != nil || task.Attention != dispatch.BudgetReached {
			t.Fatalf("%q, %v", task.Attention, err)
		}
		all := task.Counts[dispatch.Accepted]
		for running, want := range map[int]int{2: all - 2, 3: all - 3, 0: all} {
			task.Spending.Running = running
			if r, err := h.ForecastTask(t.Context(), task); err != nil || r.Rest == nil || r.Rest.Jobs != want {
				t.Errorf("%d of %d are being submitted: %+v, %v", running, all, r.Rest, err)
			}
		}
	})
}

func TestForecastTask_TellsTheRestAfterATrial(t *testing.T) {
	for trial, from := range map[int]string{4: "three or more", 1: "one"} {
		with(t, dispatch.AccessShared, newBiller(0), func(t *testing.T, h *testBroker) {
			id := h.limitedTask(t, 20+trial, `{"trial":`+string(rune('0'+trial))+`}`)
			if r := h.forecast(t, id); r.Rest != nil || r.Forecast != nil {
				t.Errorf("on trial: %+v, %+v", r.Rest, r.Forecast)
			}
			time.Sleep(time.Hour)
			r := h.forecast(t, id).Rest
			if r == nil || r.Jobs != 20 || r.Charged != trial || r.Timed != trial || r.Basis != dispatch.OfTask ||
				*r.Costs != (dispatch.Spread{Low: 40, Likely: 40, High: 40}) || r.Unit != "credits" {
				t.Fatalf("from %s: %+v", from, r)
			}
			if took := r.Took; took.Likely < 5*180 || took.Likely > 7*180 || took.Low > took.Likely ||
				took.Likely > took.High {
				t.Errorf("from %s, five rounds of three minutes take %+v seconds", from, took)
			}
			if _, err := h.ResumeTask(t.Context(), "ann", id, nil); err != nil {
				t.Fatal(err)
			}
			if r := h.forecast(t, id); r.Rest != nil {
				t.Errorf("resumed: %+v", r.Rest)
			}
		})
	}
}
