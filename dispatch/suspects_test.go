package dispatch_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// suspect accepts n jobs that were in hand when a process was killed, and gives their ids.
func suspect(t *testing.T, s dispatch.Store, n, begun int) (ids []dispatch.JobID) {
	t.Helper()
	task := &dispatch.Task{Owner: "ann", Account: "a/shared", Request: request("a"), Dimension: "tile"}
	drafts := make([]dispatch.Draft, n)
	for i := range drafts {
		drafts[i] = dispatch.Draft{Body: json.RawMessage("1"), Job: dispatch.Job{Number: i + 1, Owner: "ann", Account: "a/shared",
			Desired: dispatch.WantRun, Phase: dispatch.Waiting, Status: dispatch.Accepted}}
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
func TestManySuspectsAreSubmittedInMinutes(t *testing.T) {
	const jobs = 300
	for _, latency := range []time.Duration{50 * time.Millisecond, time.Second} {
		t.Run(latency.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var started, most, now atomic.Int32
				p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.Step, error) {
					most.Store(max(most.Load(), now.Add(1)))
					defer now.Add(-1)
					time.Sleep(latency)
					started.Add(1)
					return dispatch.Step{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
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
