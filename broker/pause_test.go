package broker_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

// The tests of this file run in a bubble of testing/synctest, see with.

// paused returns the counts of the jobs of a task that show that they are paused, and of the others that have not
// ended.
func (h *testBroker) paused(t *testing.T, id dispatch.TaskID) (paused, others int) {
	t.Helper()
	_, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", id, broker.AsKnown)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		switch {
		case j.Attention == dispatch.Paused && j.Phase == dispatch.Waiting && j.Ahead == nil:
			paused++
		case j.Phase != dispatch.Ended:
			others++
		}
	}
	return paused, others
}

// A task is paused while two submissions are under way: these go on, no other job is submitted until the task is
// resumed, and another task is submitted meanwhile.
func TestPauseTask_NothingNewStarts(t *testing.T) {
	var end atomic.Bool
	p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		time.Sleep(10 * time.Second)
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}, status: func(dispatch.Token) (dispatch.Report, error) {
		if end.Load() {
			return dispatch.Report{Status: dispatch.Finished}, nil
		}
		return dispatch.Report{Status: dispatch.Running}, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.task(t, 6)
		time.Sleep(5 * time.Second) // two are on their way
		for range 2 {
			if r, err := h.PauseTask(t.Context(), "ann", id); err != nil || !r.Paused ||
				r.Attention != dispatch.Paused {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		time.Sleep(time.Hour)
		if paused, others := h.paused(t, id); paused != 4 || others != 2 || p.submits.Load() != 2 {
			t.Errorf("%d jobs are paused, %d are not, %d submitted", paused, others, p.submits.Load())
		}
		if c := h.taskRecord(t, id).Counts; c[dispatch.Running] != 2 || c[dispatch.Accepted] != 4 {
			t.Errorf("%v", c)
		}
		other := h.task(t, 1)
		time.Sleep(time.Minute)
		if c := h.taskRecord(t, other).Counts; c[dispatch.Running] != 1 {
			t.Errorf("another task: %v", c)
		}
		end.Store(true)
		time.Sleep(time.Hour)
		if paused, others := h.paused(t, id); paused != 4 || others != 0 || p.submits.Load() != 3 {
			t.Errorf("slots are free: %d jobs are paused, %d are not, %d submitted", paused, others, p.submits.Load())
		}
		if r, err := h.ResumeTask(t.Context(), "ann", id, nil); err != nil || r.Paused || r.Attention != dispatch.None {
			t.Fatalf("%+v, %v", r, err)
		}
		time.Sleep(time.Hour)
		if c := h.taskRecord(t, id).Counts; c[dispatch.Finished] != 6 || p.submits.Load() != 7 {
			t.Errorf("%v, %d submitted", c, p.submits.Load())
		}
		_, err := h.PauseTask(t.Context(), "bob", id)
		wantKind(t, err, dispatch.NotFound)
		_, err = h.PauseTask(t.Context(), "ann", id)
		wantKind(t, err, dispatch.Conflict)
		if r := h.taskRecord(t, id); r.Paused || !strings.Contains(err.Error(), "is finished") {
			t.Errorf("an ended task: paused %v, %v", r.Paused, err)
		}
	})
}

// A submission that is turned away while its task is paused is not repeated until the task is resumed, however long
// that takes.
func TestPauseTask_TurnedAwayJobWaits(t *testing.T) {
	detector.Skip(t)
	var heal atomic.Bool
	p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		time.Sleep(10 * time.Second)
		if !heal.Load() {
			return dispatch.SubmitResult{}, failure(dispatch.Unavailable)
		}
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.task(t, 1)
		time.Sleep(5 * time.Second)
		if _, err := h.PauseTask(t.Context(), "ann", id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Hour) // longer than jobs are tried again
		if paused, _ := h.paused(t, id); paused != 1 || p.submits.Load() != 1 {
			t.Errorf("%d jobs are paused, %d submitted", paused, p.submits.Load())
		}
		if _, err := h.ResumeTask(t.Context(), "ann", id, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // it is turned away, and tried again
		heal.Store(true)
		time.Sleep(time.Hour)
		if c := h.taskRecord(t, id).Counts; c[dispatch.Running] != 1 {
			t.Errorf("%v", c)
		}
	})
}

// What waits is not submitted, what runs is canceled, what finished stays; and the task is still there.
func TestCancelTask_KeepsIt(t *testing.T) {
	var first atomic.Value
	p := &refs{script: &script{}, report: func(r dispatch.Ref) dispatch.Report {
		if r == first.Load() {
			return dispatch.Report{Status: dispatch.Finished}
		}
		return dispatch.Report{Status: dispatch.Running}
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.task(t, 8)
		time.Sleep(time.Minute)
		jobs, err := h.Store.TaskJobs(t.Context(), "ann", id, dispatch.Page{})
		if err != nil {
			t.Fatal(err)
		}
		first.Store(jobs[0].Ref)
		time.Sleep(5 * time.Minute)
		for range 2 {
			if _, err := h.CancelTask(t.Context(), "ann", id, dispatch.Choice{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			task := h.taskRecord(t, id)
			if task.Counts[dispatch.Finished] != 1 || task.Counts[dispatch.Canceled] != 7 ||
				task.Counts.Status() != dispatch.Finished {
				t.Errorf("%v", task.Counts)
			}
			if s, c := p.submits.Load(), p.cancels.Load(); s != 5 || c != 4 {
				t.Errorf("%d submitted, %d canceled; want 5 and 4", s, c)
			}
		}
		_, err = h.CancelTask(t.Context(), "bob", id, dispatch.Choice{})
		wantKind(t, err, dispatch.NotFound)
	})
}

// A withdrawn permission holds the account of a user all of whose jobs are paused.
func TestPause_HoldsPausedJobs(t *testing.T) {
	p := &script{submit: func(dispatch.Token, dispatch.Submission) (dispatch.SubmitResult, error) {
		return dispatch.SubmitResult{}, failure(dispatch.Unavailable)
	}}
	with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
		id := h.task(t, 1)
		time.Sleep(time.Second)
		if _, err := h.PauseTask(t.Context(), "ann", id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := h.PauseUntilSignIn(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		submits := p.submits.Load()
		if _, err := h.ResumeTask(t.Context(), "ann", id, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		jobs, err := h.Store.TaskJobs(t.Context(), "ann", id, dispatch.Page{})
		if err != nil || jobs[0].Attention != dispatch.NeedsSignIn || p.submits.Load() != submits {
			t.Errorf("%+v, %v, %d submitted meanwhile", jobs, err, p.submits.Load()-submits)
		}
		h.HandleSignIn(t.Context(), "ann", false)
		time.Sleep(time.Second)
		if p.submits.Load() == submits {
			t.Error("after the sign-in it is not submitted")
		}
	})
}
