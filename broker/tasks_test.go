package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

func values(n int) []json.RawMessage {
	all := make([]json.RawMessage, n)
	for i := range all {
		all[i] = fmt.Appendf(nil, "%d.0", i+1)
	}
	return all
}

// task keeps one of n jobs of ann's.
func (h *testBroker) task(t *testing.T, n int) dispatch.TaskID {
	t.Helper()
	r, err := h.AcceptTask(t.Context(), "ann", request("a"), dispatch.Dimension{Name: "tile", Values: values(n)},
		dispatch.Key{})
	if err != nil {
		t.Fatalf("AcceptTask: %v", err)
	}
	return r.ID
}

// taskRecord returns the task as the store keeps it.
func (h *testBroker) taskRecord(t *testing.T, id dispatch.TaskID) dispatch.TaskRecord {
	t.Helper()
	r, err := h.Store.Task(t.Context(), "ann", id)
	if err != nil {
		t.Fatalf("Task: %v", err)
	}
	return r
}

// The response to a task says that its owner must sign in, as the response to a job does, and does not wait for an
// identity provider that is late.
func TestAcceptTask_ShowsThatASignInIsMissing(t *testing.T) {
	for _, c := range []struct {
		access dispatch.Access
		late   time.Duration
		want   dispatch.Attention
	}{{dispatch.AccessUser, 0, dispatch.NeedsSignIn}, {dispatch.AccessUser, time.Minute, dispatch.None},
		{dispatch.AccessShared, 0, dispatch.None}} {
		with(t, c.access, &script{}, func(t *testing.T, h *testBroker) {
			h.tokens.set(failure(dispatch.SignInRequired))
			h.tokens.delay(c.late)
			began := time.Now()
			r, err := h.AcceptTask(t.Context(), "ann", request("a"),
				dispatch.Dimension{Name: "tile", Values: values(2)}, dispatch.Key{})
			if took := time.Since(began); err != nil || r.Attention != c.want || took > time.Second {
				t.Errorf("%+v: %q, %v after %v", c, r.Attention, err, took)
			}
		})
	}
}

func TestAcceptTask_TaskDrains(t *testing.T) {
	var running, most atomic.Int32
	var mu sync.Mutex
	ends, seen := map[dispatch.Ref]time.Time{}, []string{}
	p := &refs{script: &script{}, report: func(r dispatch.Ref) dispatch.Report {
		mu.Lock()
		defer mu.Unlock()
		if time.Now().Before(ends[r]) {
			return dispatch.Report{Status: dispatch.Running}
		}
		if end, known := ends[r]; known && !end.IsZero() {
			ends[r] = time.Time{}
			running.Add(-1)
		}
		return dispatch.Report{Status: dispatch.Finished}
	}}
	p.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		mu.Lock()
		defer mu.Unlock()
		ref := dispatch.Ref{ID: s.Tag}
		ends[ref], seen = time.Now().Add(time.Minute), append(seen, s.Title+string(s.Parameters))
		most.Store(max(most.Load(), running.Add(1)))
		return dispatch.SubmitResult{Ref: ref, Started: true}, nil
	}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		began := time.Now()
		r, err := h.AcceptTask(t.Context(), "ann", request("a"), dispatch.Dimension{Name: "tile", Values: values(10)},
			dispatch.Key{})
		if err != nil || time.Since(began) > time.Second || r.Counts[dispatch.Accepted] != 10 || r.Progress != 0 {
			t.Fatalf("%+v after %v, %v", r, time.Since(began), err)
		}
		time.Sleep(30 * time.Minute)
		task, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", r.ID, time.Second)
		if err != nil || task.Counts.Status() != dispatch.Finished || task.Counts[dispatch.Finished] != 10 ||
			task.Progress != 100 || len(jobs) != 10 {
			t.Errorf("%+v, %v", task, err)
		}
		if most.Load() != 4 {
			t.Errorf("%d ran at once, want 4", most.Load())
		}
		if !slices.Contains(seen, `t - Processing Job 3{"x":"<canary-body>","tile":3.0}`) {
			t.Errorf("submitted %q", seen)
		}
		if !task.Updated.After(task.Created) {
			t.Errorf("created %v, updated %v", task.Created, task.Updated)
		}
	})
}

// refs is a script that tells each job's own status.
type refs struct {
	*script
	report func(dispatch.Ref) dispatch.Report
}

func (p *refs) Status(_ context.Context, _ dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	p.statuses.Add(1)
	return p.report(r), nil
}

// A task that is deleted while a request about it is on its way: what the platform took is canceled, the rest never
// sent.
func TestDeleteTask_WhileItIsSubmitted(t *testing.T) {
	p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		time.Sleep(10 * time.Second)
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.task(t, 100)
		time.Sleep(5 * time.Second) // two are on their way
		if err := h.DeleteTask(t.Context(), "ann", id); err != nil {
			t.Fatal(err)
		}
		if _, _, err := conformance.Task(t.Context(), h.Broker, "ann", id, time.Second); !dispatch.Is(err,
			dispatch.NotFound) {
			t.Errorf("it is still shown: %v", err)
		}
		wantKind(t, h.DeleteTask(t.Context(), "ann", id), dispatch.NotFound)
		time.Sleep(time.Hour)
		if s, c := p.submits.Load(), p.cancels.Load(); s != 2 || c != 2 {
			t.Errorf("%d submitted, %d canceled; want 2 and 2", s, c)
		}
		for n := range 100 {
			j, err := h.Store.Load(t.Context(), dispatch.JobID(n+1))
			if err != nil || j.Phase != dispatch.Ended || j.Status != dispatch.Canceled || !j.Hidden {
				t.Errorf("job %d is %s %s, %v", n+1, j.Phase, j.Status, err)
			}
		}
	})
}

// Only what failed is tried again, also while the rest goes on; and doing it twice does it once.
func TestRetryTask_WhileItRuns(t *testing.T) {
	var heal atomic.Bool
	p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		if !heal.Load() && s.Title == "t - Processing Job 2" {
			return dispatch.SubmitResult{}, failure(dispatch.Invalid)
		}
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.task(t, 3)
		time.Sleep(time.Minute)
		if c := h.taskRecord(t, id).Counts; c[dispatch.Failed] != 1 || c[dispatch.Running] != 2 ||
			c.Status() != dispatch.Running {
			t.Fatalf("%v", c)
		}
		before, err := h.Store.TaskJobs(t.Context(), "ann", id, dispatch.Page{})
		if err != nil || before[1].Failure != "because" {
			t.Fatalf("%q, %v", before[1].Failure, err)
		}
		heal.Store(true)
		for i := range 2 {
			r, err := h.RetryTask(t.Context(), "ann", id, dispatch.Choice{})
			// the visit may be as fast
			if err != nil || i == 0 && r.Counts[dispatch.Accepted]+r.Counts[dispatch.Submitted] != 1 {
				t.Errorf("%v, %v", r.Counts, err)
			}
		}
		time.Sleep(time.Minute)
		after, err := h.Store.TaskJobs(t.Context(), "ann", id, dispatch.Page{})
		if err != nil || after[1].Status != dispatch.Running || after[1].ID != before[1].ID || after[1].Failure != "" {
			t.Errorf("%+v, %v", after[1].Job, err)
		}
		if after[0].Ref != before[0].Ref || p.submits.Load() != 4 {
			t.Errorf("what ran was touched: %v, %v; %d submits", after[0].Ref, before[0].Ref, p.submits.Load())
		}
		_, err = h.RetryTask(t.Context(), "bob", id, dispatch.Choice{})
		wantKind(t, err, dispatch.NotFound)
	})
}

func TestAccept_UserQuota(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		h.UserJobs = 5
		k := dispatch.Key{Text: "k", Fingerprint: "f"}
		d := dispatch.Dimension{Name: "tile", Values: values(4)}
		first, err := h.AcceptTask(t.Context(), "ann", request("a"), d, k)
		if err != nil {
			t.Fatal(err)
		}
		again, err := h.AcceptTask(t.Context(), "ann", request("a"), d, k)
		if err != nil || again.ID != first.ID {
			t.Errorf("repeated beyond the limit: task %d, %v", again.ID, err)
		}
		_, err = h.AcceptTask(t.Context(), "ann", request("a"), d, dispatch.Key{Text: "k", Fingerprint: "other"})
		wantKind(t, err, dispatch.Invalid)
		_, err = h.AcceptTask(t.Context(), "ann", request("a"), d, dispatch.Key{Text: "new", Fingerprint: "f"})
		if wantKind(t, err,
			dispatch.LimitReached); dispatch.TextFor(err) != "A user may have 5 unfinished jobs. You have 4, "+
			"and request 4." {
			t.Errorf("%q", dispatch.TextFor(err))
		}
		h.accept(t)
		_, err = h.Accept(t.Context(), "ann", request("a"), dispatch.Key{})
		wantKind(t, err, dispatch.LimitReached)
		if _, err := h.Accept(t.Context(), "bob", request("a"), dispatch.Key{}); err != nil {
			t.Errorf("another's limit: %v", err)
		}
		if err := h.DeleteTask(t.Context(), "ann", first.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := h.AcceptTask(t.Context(), "ann", request("a"), d, dispatch.Key{}); err != nil {
			t.Errorf("after others ended: %v", err)
		}
	})
}

// A platform that turns everything away is asked ever more rarely, and after a day each job says that it was given up.
func TestVisit_PlatformTurnsEverythingAway(t *testing.T) {
	p := &script{submit: func(dispatch.Token, dispatch.Submission) (dispatch.SubmitResult, error) {
		return dispatch.SubmitResult{}, failure(dispatch.Busy)
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		id := h.task(t, 3)
		time.Sleep(23 * time.Hour)
		task := h.taskRecord(t, id)
		if task.Counts[dispatch.Accepted] != 3 || p.submits.Load() > 600 || p.submits.Load() < 100 {
			t.Errorf("%v after %d submits", task.Counts, p.submits.Load())
		}
		time.Sleep(2 * time.Hour)
		_, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", id, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if j.Status != dispatch.Failed || j.Attention != dispatch.GivenUp || j.Failure == "" {
				t.Errorf("job %d is %s %q %q", j.ID, j.Status, j.Attention, j.Failure)
			}
		}
	})
}

// What waits because the account's other jobs take the platform's slots is never given up, and goes on when one of them
// ends.
func TestVisit_FullPlatformIsNoFailure(t *testing.T) {
	detector.Skip(t)
	const runs = 30 * time.Hour // longer than what is turned away is tried for
	var mu sync.Mutex
	ends := map[dispatch.Ref]time.Time{}
	p := &refs{script: &script{}}
	p.report = func(r dispatch.Ref) dispatch.Report {
		mu.Lock()
		defer mu.Unlock()
		if time.Now().Before(ends[r]) {
			return dispatch.Report{Status: dispatch.Running}
		}
		return dispatch.Report{Status: dispatch.Finished}
	}
	p.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, end := range ends {
			if time.Now().Before(end) {
				n++
			}
		}
		if n >= 2 {
			return dispatch.SubmitResult{}, failure(dispatch.Busy)
		}
		ref := dispatch.Ref{ID: s.Tag}
		ends[ref] = time.Now().Add(runs)
		return dispatch.SubmitResult{Ref: ref, Started: true}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		b := backend("a", dispatch.AccessShared, p)
		b.Limits.Jobs = 0 // to be learned
		h := open(conformance.NewMemStore(clock{}), b)
		defer h.stop()
		id := h.task(t, 6)
		time.Sleep(runs - time.Minute)
		_, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", id, time.Hour)
		if err != nil || jobs[5].Status != dispatch.Accepted || jobs[5].Attention != dispatch.Full {
			t.Fatalf("%s %q, %v", jobs[5].Status, jobs[5].Attention, err)
		}
		time.Sleep(5 * time.Minute) // the next two follow at once
		if c := h.taskRecord(t, id).Counts; c[dispatch.Running] != 2 || c[dispatch.Finished] != 2 {
			t.Errorf("when the first two have ended: %v", c)
		}
		time.Sleep(3 * runs)
		if c := h.taskRecord(t, id).Counts; c[dispatch.Finished] != 6 {
			t.Errorf("in the end: %v after %d submits", c, p.submits.Load())
		}
	})
}
