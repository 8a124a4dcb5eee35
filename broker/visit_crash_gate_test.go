package broker_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// A job at whose submission the adapter panics each time is set aside after three. The other jobs of the account go on.
func TestSuspects_JobThatAlwaysPanicsIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics atomic.Int32
		p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
			if s.Request.Title == "bad" {
				panics.Add(1)
				panic("a bug")
			}
			return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
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
			if r := h.stored(t, good.ID); r.Phase != dispatch.Started || r.Begun != 0 {
				t.Errorf("another job of the account is %s, with %d submissions without a response", r.Phase, r.Begun)
			}
			if err := h.Delete(t.Context(), "ann", good.ID); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if r := h.stored(t, bad.ID); panics.Load() != 3 || r.Status != dispatch.Failed ||
			r.Attention != dispatch.SetAside || r.Failure == "" {
			t.Errorf("after %d panics the job is %s %q: %s", panics.Load(), r.Status, r.Attention, r.Failure)
		}
		h.stop()
	})
}

// suspect accepts n jobs that were in hand when a process was killed, and gives their ids.
func suspect(t *testing.T, s conformance.Store, n, begun int) (ids []dispatch.JobID) {
	t.Helper()
	task := &dispatch.Task{Owner: "ann", Account: "a/shared", Request: request("a"), Dimension: "tile"}
	drafts := make([]dispatch.Draft, n)
	for i := range drafts {
		drafts[i] = dispatch.Draft{Body: json.RawMessage("1"), Job: dispatch.Job{
			Identity: dispatch.Identity{Number: i + 1, Owner: "ann"}, Target: dispatch.Target{Account: "a/shared"},
			Wish: dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: dispatch.Waiting},
			Condition: dispatch.Condition{Status: dispatch.Accepted}}}
	}
	if _, err := s.Accept(t.Context(), dispatch.Key{}, task, drafts); err != nil {
		t.Fatal(err)
	}
	records, err := s.TaskJobs(t.Context(), "ann", task.ID, dispatch.Page{})
	if err != nil {
		t.Fatal(err)
	}
	var jobs []dispatch.Job
	for _, r := range records {
		r.Begun = begun
		jobs, ids = append(jobs, r.Job), append(ids, r.ID)
	}
	if saved, err := s.Save(t.Context(), jobs); err != nil || len(saved) != n {
		t.Fatal(len(saved), err)
	}
	return ids
}

// Many jobs that were in hand when a process was killed are submitted 32 at once. A thousand took 1.7 s and 32 s.
func TestSuspects_ManyAreSubmittedInMinutes(t *testing.T) {
	const jobs = 300
	for _, latency := range []time.Duration{50 * time.Millisecond, time.Second} {
		t.Run(latency.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var started, most, now atomic.Int32
				p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
					most.Store(max(most.Load(), now.Add(1)))
					defer now.Add(-1)
					time.Sleep(latency)
					started.Add(1)
					return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
				}}
				s := conformance.NewMemStore(clock{})
				suspect(t, s, jobs, 1)
				b := backend("a", dispatch.AccessShared, p)
				b.Limits = dispatch.Limits{Jobs: 2000, Requests: 100, Send: 30 * time.Second}
				began := time.Now()
				h := open(s, b)
				for started.Load() < jobs && time.Since(began) < time.Hour {
					time.Sleep(100 * time.Millisecond)
				}
				took := time.Since(began)
				t.Logf("%d jobs started after %v, %d at once", started.Load(), took, most.Load())
				if took > jobs*100*time.Millisecond || most.Load() > 32 {
					t.Errorf("%d jobs started after %v, %d at once", started.Load(), took, most.Load())
				}
				h.stop()
			})
		})
	}
}
