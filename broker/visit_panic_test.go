package broker_test

import (
	"context"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// crashing is a platform whose adapter panics at one job's status, at a listing, or at every cancel. Its jobs end after
// an hour.
type crashing struct {
	script
	twoStep             bool
	badStatus, badLists bool
	badCancels          bool
	loses               bool // the create of the job "lost" has no effect and gets no answer

	mu     sync.Mutex
	jobs   map[dispatch.Ref]time.Time
	bad    dispatch.Ref
	panics atomic.Int32
	lists  atomic.Int32
}

func (p *crashing) TwoStep() bool { return p.twoStep }

func (p *crashing) Submit(_ context.Context, _ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs == nil {
		p.jobs = map[dispatch.Ref]time.Time{}
	}
	if p.loses && s.Request.Title == "lost" {
		return dispatch.SubmitResult{}, failure(dispatch.Uncertain)
	}
	if p.twoStep && s.Ref == (dispatch.Ref{}) {
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}}, nil
	}
	r := dispatch.Ref{ID: s.Tag}
	p.jobs[r] = time.Now()
	if s.Request.Title == "bad" {
		p.bad = r
	}
	return dispatch.SubmitResult{Ref: r, Started: true}, nil
}

func (p *crashing) report(r dispatch.Ref) dispatch.Report {
	if time.Since(p.jobs[r]) > time.Hour {
		return dispatch.Report{Status: dispatch.Finished}
	}
	return dispatch.Report{Status: dispatch.Running}
}

func (p *crashing) Status(_ context.Context, _ dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.badStatus && r == p.bad {
		p.panics.Add(1)
		panic("a bug")
	}
	return p.report(r), nil
}

func (p *crashing) Cancel(ctx context.Context, t dispatch.Token, r dispatch.Ref) error {
	if p.badCancels {
		p.panics.Add(1)
		panic("a bug")
	}
	return p.script.Cancel(ctx, t, r)
}

// listing is a crashing platform that lists.
type listing struct{ crashing }

func (p *listing) List(context.Context, dispatch.Token, string) iter.Seq2[dispatch.Listed, error] {
	p.lists.Add(1)
	return func(yield func(dispatch.Listed, error) bool) {
		if p.badLists {
			p.panics.Add(1)
			panic("a bug")
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for r := range p.jobs {
			if !yield(dispatch.Listed{Ref: r, Tag: r.ID, Report: p.report(r)}, nil) {
				return
			}
		}
	}
}

func titled(title string) dispatch.Request {
	r := request("a")
	r.Title = title
	return r
}

// A job at whose status the adapter panics each time is asked about less and less often, and says so. Other jobs of the
// account go on, and the platform is not blamed. Its owner can delete it.
func TestPanic_StatusIsReadRarely(t *testing.T) {
	p := &crashing{badStatus: true}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		bad, err := h.Accept(t.Context(), "ann", titled("bad"), dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		good := h.accept(t)
		time.Sleep(90 * time.Minute)
		if r := h.stored(t, good.ID); r.Status != dispatch.Finished {
			t.Errorf("another job of the account is %s %q", r.Status, r.Attention)
		}
		time.Sleep(24 * time.Hour)
		if r := h.stored(t, bad.ID); p.panics.Load() > 32 || r.Phase != dispatch.Started ||
			r.Attention != dispatch.SetAside || r.Notice == "" {
			t.Errorf("after %d panics in a day the job is %s %q: %s", p.panics.Load(), r.Status, r.Attention, r.Notice)
		}
		if err := h.Delete(t.Context(), "ann", bad.ID); err != nil {
			t.Fatal(err)
		}
		panics := p.panics.Load()
		time.Sleep(time.Minute)
		if j, err := h.Store.Load(t.Context(), bad.ID); err != nil || j.Phase != dispatch.Ended ||
			p.cancels.Load() != 1 || p.panics.Load() != panics {
			t.Errorf("after its owner deleted it the job is %s, with %d cancels: %v", j.Phase, p.cancels.Load(), err)
		}
	})
}

// Where the listing panics, or never answers, statuses are read singly, also while a create in doubt has to be looked
// for in it.
func TestPanic_ListingIsReplacedBySingleReads(t *testing.T) {
	for name, loses := range map[string]bool{"no doubt": false, "creates in doubt": true} {
		t.Run(name, func(t *testing.T) {
			p := &listing{crashing{badLists: true, loses: loses, twoStep: true}}
			b := backend("a", dispatch.AccessShared, p)
			b.Limits.Jobs = 20
			synctest.Test(t, func(t *testing.T) {
				h := open(conformance.NewMemStore(clock{}), b)
				var ids []dispatch.JobID
				for range 8 {
					ids = append(ids, h.accept(t).ID)
				}
				for range 3 {
					if _, err := h.Accept(t.Context(), "ann", titled("lost"), dispatch.Key{}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(30 * time.Minute)
				for _, id := range ids {
					if r := h.stored(t, id); r.Status != dispatch.Running || r.Attention != dispatch.None ||
						time.Since(r.Checked) > 2*time.Minute {
						t.Errorf("a job is %s %q, checked %v ago", r.Status, r.Attention, time.Since(r.Checked))
					}
				}
				time.Sleep(32 * time.Minute)
				for _, id := range ids {
					if r := h.stored(t, id); r.Status != dispatch.Finished {
						t.Errorf("a job is %s %q, checked %v ago", r.Status, r.Attention, time.Since(r.Checked))
					}
				}
				time.Sleep(24 * time.Hour)
				if n := p.panics.Load(); n > 300 {
					t.Errorf("%d panics in a day", n)
				}
				h.stop()
			})
		})
	}
}

// An orphan whose cancel panics is tried again after pauses.
func TestPanic_CancelOfAnOrphanIsTriedAfterPauses(t *testing.T) {
	p := &crashing{badCancels: true}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		r := h.accept(t)
		time.Sleep(2 * time.Hour)
		j, err := h.Store.Load(t.Context(), r.ID)
		if err != nil || j.Phase != dispatch.Ended {
			t.Fatal(j.Phase, err)
		}
		j.Orphans, j.Due = []dispatch.Ref{{ID: "orphan"}}, time.Now()
		if saved, err := h.Store.Save(t.Context(), []dispatch.Job{j}); err != nil || len(saved) != 1 {
			t.Fatal(saved, err)
		}
		if err := h.Store.Wake(t.Context(), j.Account); err != nil {
			t.Fatal(err)
		}
		h.Engine.Wake(j.Account)
		time.Sleep(time.Hour)
		if n := p.panics.Load(); n < 3 || n > 30 {
			t.Errorf("%d panics in an hour", n)
		}
	})
}

// An adapter that panics ends neither the process nor the other jobs of its account.
func TestPanic_EndsNoVisit(t *testing.T) {
	var bad atomic.Bool
	p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
		if bad.Load() {
			panic("a bug")
		}
		return dispatch.Report{Status: dispatch.Running}, nil
	}}
	p.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		if p.submits.Load() == 1 {
			panic("a bug")
		}
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		first := h.accept(t)
		second := h.accept(t)
		bad.Store(true)
		time.Sleep(5 * time.Minute)
		bad.Store(false)
		time.Sleep(15 * time.Minute) // after three panics a status is read ten minutes later
		if r := h.stored(t, first.ID); r.Attention != dispatch.InDoubt && r.Attention != dispatch.SubmissionUnknown {
			t.Errorf("a submission that may have been taken is %s %q", r.Phase, r.Attention)
		}
		if r := h.stored(t, second.ID); r.Phase != dispatch.Started || r.Tries != 0 || p.submits.Load() != 2 {
			t.Errorf("the other job is %s after %d submits, and %d questions without an answer", r.Phase,
				p.submits.Load(), r.Tries)
		}
		if logs := h.logs.String(); !strings.Contains(logs, "a bug") || !strings.Contains(logs, "panic_test.go") {
			t.Error("the log does not tell where the panic was")
		}
	})
}

// TestPanic_OfAVisitLosesNoResponse: what was sent before a visit ends with a panic may create a job after that.
func TestPanic_OfAVisitLosesNoResponse(t *testing.T) {
	p := &script{}
	p.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		time.Sleep(time.Duration(p.submits.Load()) * 5 * time.Second)
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}
	withFaulty(t, p, func(t *testing.T, h *testBroker, f *faulty) {
		f.set(func() {
			f.save = func([]dispatch.Job) (bool, error) {
				f.save = nil
				panic("a bug")
			}
		})
		var accepted sync.WaitGroup
		for range 3 {
			accepted.Go(func() { h.accept(t) })
		}
		accepted.Wait()
		time.Sleep(10 * time.Minute)
		for id := range dispatch.JobID(3) {
			if r := h.stored(t, id+1); r.Phase != dispatch.Started || r.Ref.ID == "" {
				t.Errorf("job %d is %s %q", r.ID, r.Phase, r.Attention)
			}
		}
		if logs := h.logs.String(); p.submits.Load() != 3 || !strings.Contains(logs, "visit_panic_test.go") {
			t.Errorf("%d submits; %s", p.submits.Load(), logs)
		}
	})
}

// resting is a store at whose first intent the machine is suspended, once it is committed.
type resting struct {
	conformance.Store
	suspend func()
}

func (r resting) Intend(ctx context.Context, l dispatch.Lease, limits dispatch.Limits,
	jobs []dispatch.Job, outcomes ...dispatch.Job) ([]dispatch.Job, error) {
	defer r.suspend()
	return r.Store.Intend(ctx, l, limits, jobs, outcomes...)
}

// A machine that was suspended past its lease sends nothing of what it was about to send: another process has the
// account.
func TestSend_SuspendedMachineSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		frozenStore := []time.Duration{time.Hour}
		p := &script{}
		s := resting{conformance.NewMemStore(clock{}), func() {
			if len(frozenStore) > 0 {
				ahead.Add(int64(frozenStore[0]))
				frozenStore = nil
			}
		}}
		h := open(s, backend("a", dispatch.AccessShared, p))
		h.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		var early atomic.Int32
		time.AfterFunc(500*time.Millisecond, func() { early.Store(p.submits.Load()) })
		r := h.accept(t)
		time.Sleep(time.Minute)
		if r := h.stored(t, r.ID); early.Load() != 0 || p.submits.Load() != 1 || r.Phase != dispatch.Started ||
			r.Attempt != 2 {
			t.Errorf("%d submits at once, then %d; the job is %s after %d attempts", early.Load(), p.submits.Load(),
				r.Phase, r.Attempt)
		}
		h.stop()
	})
}
