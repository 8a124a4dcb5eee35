package broker_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// synchronous is a platform whose process only runs synchronously, for the given time. fail is its error, or nil.
type synchronous struct {
	script
	takes time.Duration
	fail  func() error

	now, most, ended atomic.Int32 // runs under way, the most at once, and those that ended by themselves
}

func (s *synchronous) Submit(ctx context.Context, _ dispatch.Token, sent dispatch.Submission) (dispatch.SubmitResult,
	error) {
	ctx, err := sent.Runs(ctx)
	if err != nil {
		return dispatch.SubmitResult{}, err
	}
	s.submits.Add(1)
	n := s.now.Add(1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	defer s.now.Add(-1)
	select {
	case <-ctx.Done():
		return dispatch.SubmitResult{}, failure(dispatch.Uncertain)
	case <-time.After(s.takes):
	}
	s.ended.Add(1)
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return dispatch.SubmitResult{}, err
		}
	}
	return dispatch.SubmitResult{Started: true, Result: []byte(`{"type":"Collection","id":"made"}`)}, nil
}

// A run whose results are the response to its submission shows that it runs, holds its slot, and is kept when it has
// ended, however long that takes. Visits of the account end meanwhile, and begin when there is other work.
func TestRun_LongerThanAVisit(t *testing.T) {
	p := &synchronous{takes: 20 * time.Minute}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		begun := time.Now()
		r := h.accept(t)
		if r.Status != dispatch.Running || time.Since(begun) > 3*time.Second {
			t.Errorf("%s after %v", r.Status, time.Since(begun))
		}
		time.Sleep(19 * time.Minute)
		if r := h.stored(t, r.ID); r.Status != dispatch.Running || r.Attention != dispatch.None ||
			r.Phase != dispatch.Creating || r.Started.IsZero() {
			t.Errorf("after 19 minutes it is %s %s %q", r.Phase, r.Status, r.Attention)
		}
		time.Sleep(2 * time.Minute)
		if r := h.stored(t, r.ID); r.Status != dispatch.Finished || r.Duration.Round(time.Minute) != p.takes {
			t.Errorf("after 21 minutes it is %s, %v", r.Status, r.Duration)
		}
		got, err := h.Results(t.Context(), "ann", r.ID)
		if err != nil || !strings.Contains(string(got), `"made"`) || p.submits.Load() != 1 {
			t.Errorf("%s, %v, after %d submits", got, err, p.submits.Load())
		}
		if n := strings.Count(h.logs.String(), "cannot be saved"); n > 0 {
			t.Errorf("logged: %s", h.logs)
		}
	})
}

// Tasks run as many at once as there are slots; without limits.jobs sixteen in each process.
func TestRun_KeepsTheSlots(t *testing.T) {
	for slots, most := range map[int]int32{3: 3, 0: 16} {
		for _, takes := range []time.Duration{time.Second / 2, time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				p := &synchronous{takes: takes}
				b := backend("a", dispatch.AccessShared, p)
				b.Limits.Jobs = slots
				h := open(conformance.NewMemStore(clock{}), b)
				defer h.stop()
				begun := time.Now()
				id := h.task(t, 40)
				for h.taskRecord(t, id).Counts[dispatch.Finished] < 40 && time.Since(begun) < time.Hour {
					time.Sleep(time.Second)
				}
				took, rounds := time.Since(begun), time.Duration((40+most-1)/most)
				if p.most.Load() > most || takes > time.Second && p.most.Load() < most || p.submits.Load() != 40 {
					t.Errorf("%d slots: %d at once, %d submits", slots, p.most.Load(), p.submits.Load())
				}
				if took > rounds*(takes+10*time.Second) {
					t.Errorf("%d slots, runs of %v: the task took %v", slots, takes, took)
				}
			})
		}
	}
}

// The request of a job that its owner cancels, or that runs for longer than its owner permits, ends.
func TestRun_Unwanted(t *testing.T) {
	for limit, attention := range map[time.Duration]dispatch.Attention{0: dispatch.None,
		5 * time.Minute: dispatch.Overdue} {
		p := &synchronous{takes: time.Hour}
		with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
			r := request("a")
			if limit > 0 {
				r.Options = json.RawMessage(`{"max_duration":300}`)
			}
			job, err := h.Accept(t.Context(), "ann", r, dispatch.Key{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Minute)
			if got := h.stored(t, job.ID); got.Status != dispatch.Running {
				t.Errorf("after 4 minutes it is %s", got.Status)
			}
			if limit == 0 {
				if _, err := h.Cancel(t.Context(), "ann", job.ID); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(75 * time.Second)
			if got := h.stored(t, job.ID); got.Status != dispatch.Canceled || got.Attention != attention ||
				p.now.Load() != 0 || p.ended.Load() != 0 {
				t.Errorf("max_duration %v: %s %q, %d under way", limit, got.Status, got.Attention, p.now.Load())
			}
		})
	}
}

// A failed run ends its job and is not sent again. It is no refusal: clients that submitted it see the failed job.
func TestRun_Failed(t *testing.T) {
	p := &synchronous{takes: 5 * time.Second, fail: func() error { return failure(dispatch.Invalid) }}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		r := h.accept(t)
		time.Sleep(time.Minute)
		if r := h.stored(t, r.ID); r.Status != dispatch.Failed || r.Failure != "because" || r.Hidden ||
			p.submits.Load() != 1 {
			t.Errorf("it is %s: %q, after %d submits", r.Status, r.Failure, p.submits.Load())
		}
	})
}

// A run whose process was lost is settled as every submission whose response was lost: within minutes it is unknown, or
// submitted again where the operator permits that.
func TestRun_Lost(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := &synchronous{takes: 10 * time.Minute}
			b := backend("a", dispatch.AccessShared, p)
			b.AtLeastOnce = again
			store := conformance.NewMemStore(clock{})
			f := &faulty{Store: store}
			lost := open(f, b)
			r := lost.accept(t)
			time.Sleep(time.Minute)
			lost.stop()
			f.set(func() { // the process is dead: nothing of it reaches the store
				f.save = func([]dispatch.Job) (bool, error) { return false, failure(dispatch.Unavailable) }
			})
			h := open(store, b)
			time.Sleep(2 * time.Minute)
			got := h.stored(t, r.ID)
			if again && (got.Status != dispatch.Running || p.submits.Load() != 2) {
				t.Errorf("at least once: %s %q after %d submits", got.Status, got.Attention, p.submits.Load())
			}
			if !again && got.Attention != dispatch.InDoubt {
				t.Errorf("after two minutes it is %s %q", got.Status, got.Attention)
			}
			time.Sleep(4 * time.Minute)
			got = h.stored(t, r.ID)
			if !again && (got.Status != dispatch.Unknown || got.Attention != dispatch.SubmissionUnknown ||
				p.submits.Load() != 1) {
				t.Errorf("after five minutes: %s %q, %d submits", got.Status, got.Attention, p.submits.Load())
			}
			time.Sleep(10 * time.Minute)
			f.set(func() { f.save = nil })
			lost.Drain()
			if got = h.stored(t, r.ID); got.Status != dispatch.Finished {
				t.Errorf("the results arrived, and it is %s %q", got.Status, got.Attention)
			}
			h.stop()
		})
	}
}

// A process that stops waits for its runs, and keeps their results.
func TestRun_IsAwaitedAtTheEnd(t *testing.T) {
	p := &synchronous{takes: 30 * time.Second}
	synctest.Test(t, func(t *testing.T) {
		h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, p))
		r := h.accept(t)
		time.Sleep(5 * time.Second)
		h.stop()
		h.Drain()
		if got := h.stored(t, r.ID); got.Status != dispatch.Finished {
			t.Errorf("it is %s %q", got.Status, got.Attention)
		}
	})
}
