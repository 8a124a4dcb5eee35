package broker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// In these tests, as in all that use with, time is that of testing/synctest.

// TestSubmit_IdentifierOfAnotherJob checks that a platform which gives one identifier to two jobs does not merge them:
// the second fails and says why, whether the first still runs, has ended, or was submitted at the same moment, and
// whoever owns it.
func TestSubmit_IdentifierOfAnotherJob(t *testing.T) {
	p := &script{}
	p.submit = func(dispatch.Token, dispatch.Submission) (dispatch.SubmitResult, error) {
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: "same"}, Started: true}, nil
	}
	var ends atomic.Bool
	p.status = func(dispatch.Token) (dispatch.Report, error) {
		if ends.Load() {
			return dispatch.Report{Status: dispatch.Finished}, nil
		}
		return dispatch.Report{Status: dispatch.Running}, nil
	}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		task, err := h.AcceptTask(t.Context(), "ann", request("a"), tiles(4), dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		ends.Store(true)
		time.Sleep(time.Hour)
		after, err := h.Accept(t.Context(), "bob", request("a"), dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if after, err = h.Read(t.Context(), "bob", after.ID, broker.AsKnown); err != nil {
			t.Fatal(err)
		}
		jobs := []dispatch.Record{after}
		for j, err := range h.TaskJobs(t.Context(), "ann", task.ID, dispatch.Page{}) {
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, j)
		}
		finished := 0
		for _, j := range jobs {
			switch {
			case j.Status == dispatch.Finished && j.Ref.ID == "same":
				finished++
			case j.Status != dispatch.Failed || j.Attention != dispatch.SubmissionUnknown ||
				j.Ref != (dispatch.Ref{}) ||
				!strings.Contains(j.Failure, `identifier "same" for this job, which it has given to another job`):
				t.Errorf("job %d: %s %s %q %v %s", j.ID, j.Phase, j.Status, j.Attention, j.Ref, j.Failure)
			}
		}
		if finished != 1 || len(jobs) != 5 || after.Status != dispatch.Failed || p.submits.Load() != 5 ||
			p.cancels.Load() != 0 {
			t.Errorf("%d of %d jobs finished as the job of the platform, %d submitted, %d canceled", finished,
				len(jobs), p.submits.Load(), p.cancels.Load())
		}
	})
}

// holderless does not answer who has an identifier for some time.
type holderless struct {
	conformance.Store
	from, until time.Time
}

func (s holderless) RefHolder(ctx context.Context, a dispatch.Account, r dispatch.Ref) (dispatch.JobID, error) {
	if now := time.Now(); now.After(s.from) && now.Before(s.until) {
		return 0, &dispatch.Error{Kind: dispatch.Unavailable}
	}
	return s.Store.RefHolder(ctx, a, r)
}

// TestSubmit_IdentifierIsSavedOnceItIsChecked checks that no job gets the identifier of another one while the database
// does not answer who has it, within a visit and after its lease has run out.
func TestSubmit_IdentifierIsSavedOnceItIsChecked(t *testing.T) {
	for _, silent := range []time.Duration{5 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p := &script{}
			p.submit = func(dispatch.Token, dispatch.Submission) (dispatch.SubmitResult, error) {
				return dispatch.SubmitResult{Ref: dispatch.Ref{ID: "same"}, Started: true}, nil
			}
			p.status = func(dispatch.Token) (dispatch.Report, error) {
				return dispatch.Report{Status: dispatch.Running}, nil
			}
			from := time.Now().Add(time.Minute)
			s := holderless{conformance.NewMemStore(clock{}), from, from.Add(silent)}
			h := open(s, backend("a", dispatch.AccessShared, p))
			first := h.accept(t)
			time.Sleep(time.Until(from) + time.Millisecond)
			second, err := h.Accept(t.Context(), "ann", request("a"), dispatch.Key{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(s.until) - time.Second)
			if job := h.stored(t, second.ID); job.Ref != (dispatch.Ref{}) {
				t.Errorf("after a silence of %v the job has %v unchecked", silent, job.Ref)
			}
			time.Sleep(10 * time.Minute)
			if job := h.stored(t, second.ID); job.Status != dispatch.Failed ||
				job.Attention != dispatch.SubmissionUnknown {
				t.Errorf("after a silence of %v: %s %s %q", silent, job.Phase, job.Status, job.Attention)
			}
			if job := h.stored(t, first.ID); job.Ref.ID != "same" || job.Status != dispatch.Running {
				t.Errorf("after a silence of %v the first job: %s %s %v", silent, job.Phase, job.Status, job.Ref)
			}
			h.stop()
		})
	}
}
