package broker_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// faulty is a store whose calls fail as a test says.
type faulty struct {
	conformance.Store
	mu      sync.Mutex
	save    func([]dispatch.Job) (lost bool, err error) // lost: it is committed all the same
	load    func(dispatch.JobID) error
	request func() error
	await   func() error
	stale   func() bool              // whether saves change nothing
	woken   func([]dispatch.Account) // called with what a save wakes
}

func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faulty) Save(ctx context.Context, jobs []dispatch.Job, wake ...dispatch.Account) ([]dispatch.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.woken != nil {
		f.woken(wake)
	}
	if f.stale != nil && f.stale() {
		return nil, nil
	}
	if f.save != nil {
		if lost, err := f.save(jobs); err != nil {
			if lost {
				_, _ = f.Store.Save(ctx, jobs, wake...)
			}
			return nil, err
		}
	}
	return f.Store.Save(ctx, jobs, wake...)
}

func (f *faulty) Load(ctx context.Context, id dispatch.JobID) (dispatch.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.load != nil {
		if err := f.load(id); err != nil {
			return dispatch.Job{}, err
		}
	}
	return f.Store.Load(ctx, id)
}

func (f *faulty) MarkAwaited(ctx context.Context, u dispatch.UserID, s dispatch.Scope, fresh,
	gap time.Duration) ([]dispatch.Account, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.await != nil {
		return nil, f.await()
	}
	return f.Store.MarkAwaited(ctx, u, s, fresh, gap)
}

func (f *faulty) Request(ctx context.Context, id dispatch.JobID) (dispatch.Request, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.request != nil {
		if err := f.request(); err != nil {
			return dispatch.Request{}, err
		}
	}
	return f.Store.Request(ctx, id)
}

func withFaulty(t *testing.T, p dispatch.Platform, test func(*testing.T, *testBroker, *faulty)) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: conformance.NewMemStore(clock{})}
		h := open(f, backend("a", dispatch.AccessShared, p))
		test(t, h, f)
		h.stop()
	})
}

// A report of failure whose save was committed, though its answer was lost, is one report however often it is saved
// again.
func TestSave_OneReportOfFailureCountsOnce(t *testing.T) {
	var fails atomic.Bool
	p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
		if fails.CompareAndSwap(true, false) {
			return dispatch.Report{Status: dispatch.Failed}, nil
		}
		return dispatch.Report{Status: dispatch.Running}, nil
	}}
	withFaulty(t, p, func(t *testing.T, h *testBroker, f *faulty) {
		r := h.accept(t)
		time.Sleep(time.Minute)
		first := true
		var away time.Time
		f.set(func() {
			f.save = func(jobs []dispatch.Job) (bool, error) {
				if jobs[0].Seen == dispatch.Failed && first {
					first, away = false, time.Now().Add(8*time.Second)
				}
				lost := time.Until(away) == 8*time.Second
				if time.Now().Before(away) {
					return lost, failure(dispatch.Uncertain)
				}
				return false, nil
			}
		})
		fails.Store(true)
		time.Sleep(5 * time.Minute)
		if r := h.stored(t, r.ID); first || r.Status != dispatch.Running {
			t.Errorf("after one report of failure the job is %s", r.Status)
		}
	})
}

// A read that did not find the job counts once, though its save had to be repeated.
func TestSave_ACheckCountsOnce(t *testing.T) {
	var lost atomic.Bool
	p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
		if lost.Load() {
			return dispatch.Report{}, failure(dispatch.NotFound)
		}
		return dispatch.Report{Status: dispatch.Running}, nil
	}}
	withFaulty(t, p, func(t *testing.T, h *testBroker, f *faulty) {
		r := h.accept(t)
		time.Sleep(time.Minute)
		reads := 0
		f.set(func() {
			f.save = func(jobs []dispatch.Job) (bool, error) {
				if reads++; lost.Load() && reads%2 == 1 {
					return true, failure(dispatch.Uncertain)
				}
				return false, nil
			}
		})
		lost.Store(true)
		asked := p.statuses.Load()
		time.Sleep(4*time.Minute + 30*time.Second)
		if r, n := h.stored(t, r.ID), p.statuses.Load()-asked; r.Polls != int(n) || r.Status == dispatch.Failed {
			t.Errorf("%d reads were counted as %d, and the job is %s", n, r.Polls, r.Status)
		}
	})
}

// A replica of the database that lags behind does not know a job for a while. The identifier that the platform gave is
// kept.
func TestSave_ResponseOutlivesANotFound(t *testing.T) {
	for _, absent := range []time.Duration{time.Second, 10 * time.Minute} {
		var at atomic.Int64
		p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
			at.Store(time.Now().Add(absent).UnixNano())
			return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
		}}
		withFaulty(t, p, func(t *testing.T, h *testBroker, f *faulty) {
			stale := func() bool { return time.Now().UnixNano() < at.Load() }
			f.set(func() {
				f.stale = stale
				f.load = func(dispatch.JobID) error {
					if stale() {
						return failure(dispatch.NotFound)
					}
					return nil
				}
			})
			r := h.accept(t)
			time.Sleep(absent + time.Minute)
			if r := h.stored(t, r.ID); r.Ref.ID == "" || r.Phase != dispatch.Started || p.submits.Load() != 1 {
				t.Errorf("after %v the job is %s %q, its ref %q, after %d submits", absent, r.Phase, r.Attention,
					r.Ref.ID, p.submits.Load())
			}
		})
	}
}

// A request that cannot be read from the database says nothing about the platform: its account is not held, and nobody
// learns that it does not answer.
func TestVisit_DatabaseErrorIsNotThePlatforms(t *testing.T) {
	p := &script{}
	withFaulty(t, p, func(t *testing.T, h *testBroker, f *faulty) {
		f.set(func() { f.request = func() error { return failure(dispatch.Unavailable) } })
		r := h.accept(t)
		time.Sleep(20 * time.Second)
		all, _, _, err := h.Platforms(t.Context(), "ann")
		if err != nil || all[0].State == dispatch.StateUnreachable || !all[0].Hold.IsZero() || !all[0].Failed.IsZero() {
			t.Errorf("the platform is %s, held until %v: %v", all[0].State, all[0].Hold, err)
		}
		if r := h.stored(t, r.ID); r.Attention != dispatch.None || r.Phase != dispatch.Waiting {
			t.Errorf("the job is %s %q", r.Phase, r.Attention)
		}
		f.set(func() { f.request = nil })
		time.Sleep(20 * time.Second)
		if r := h.stored(t, r.ID); r.Phase != dispatch.Started || p.submits.Load() != 1 {
			t.Errorf("the job is %s after %d submits", r.Phase, p.submits.Load())
		}
	})
}

// A token that cannot be got because the vault is in a database that does not answer says nothing about the platform or
// its user's sign-in.
func TestVisit_VaultErrorIsNotThePlatforms(t *testing.T) {
	p := &script{}
	with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
		h.tokens.set(&dispatch.Error{Kind: dispatch.Unavailable, Op: "store.Grant",
			Text: "The database does not answer.", Database: true})
		r := h.accept(t)
		time.Sleep(3 * time.Minute)
		all, _, _, err := h.Platforms(t.Context(), "ann")
		if err != nil || !all[0].Hold.IsZero() || all[0].State != dispatch.StateUnknown {
			t.Errorf("the platform is %s, held until %v for %q: %v", all[0].State, all[0].Hold, all[0].Why, err)
		}
		if r := h.stored(t, r.ID); r.Attention != dispatch.None || r.Phase != dispatch.Waiting {
			t.Errorf("the job is %s %q", r.Phase, r.Attention)
		}
		h.tokens.set(nil)
		time.Sleep(time.Minute)
		if r := h.stored(t, r.ID); r.Phase != dispatch.Started || p.submits.Load() != 1 {
			t.Errorf("the job is %s after %d submits", r.Phase, p.submits.Load())
		}
	})
}

// A database that can be read and not written gives what it keeps: the statuses are as of the time that comes with
// them. The platform is not said to be silent for that. A database that does not answer at all is an error at once, and
// not after one wait more.
func TestRead_WhileTheDatabaseRefusesWrites(t *testing.T) {
	withFaulty(t, &script{}, func(t *testing.T, h *testBroker, f *faulty) {
		r := h.accept(t)
		time.Sleep(time.Minute)
		refuse := func(answered bool) {
			err := &dispatch.Error{Kind: dispatch.Unavailable, Op: "store", Text: "The database cannot be written.",
				Database: true, Answered: answered}
			f.set(func() {
				f.await = func() error { return err }
				f.save = func([]dispatch.Job) (bool, error) { return false, err }
			})
		}
		// the next status is awaited, and cannot be saved
		if _, err := f.Store.MarkAwaited(t.Context(), "ann", dispatch.Scope{}, 0, 0); err != nil {
			t.Fatal(err)
		}
		refuse(true)
		for range 20 {
			time.Sleep(10 * time.Second)
			began := time.Now()
			got, err := h.Read(t.Context(), "ann", r.ID, time.Second)
			if err != nil || got.Status != dispatch.Running || got.Attention != dispatch.None || time.Since(began) > 0 {
				t.Fatalf("after %v the job is %s %q: %v", time.Since(began), got.Status, got.Attention, err)
			}
			all, err := conformance.Jobs(t.Context(), h.Broker, "ann", time.Second)
			if err != nil || len(all) != 1 || all[0].Attention != dispatch.None || time.Since(began) > 0 {
				t.Fatalf("after %v the list is %+v: %v", time.Since(began), all, err)
			}
		}
		refuse(false)
		if err := h.Freshen(t.Context(), "ann", dispatch.Scope{}, time.Second); dispatch.DatabaseError(err) == nil {
			t.Errorf("a database that does not answer: %v", err)
		}
		f.set(func() { f.await, f.save = nil, nil })
		time.Sleep(time.Minute)
	})
}

// What is saved without a lease wakes its account in the same commit, so that the visit which has the account reads
// even if this process ends right after: here no other wake gets through.
func TestBacklog_LateSaveWakesInItsCommit(t *testing.T) {
	for name, late := range map[string]time.Duration{"from the backlog": 5 * time.Minute, "by a frozen visit": 0} {
		var wakes []dispatch.Account
		p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
			time.Sleep(2 * time.Minute) // longer than the lease; nobody renews it meanwhile
			return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
		}}
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{Store: conformance.NewMemStore(clock{})}
			h := open(frozenStore{f}, backend("a", dispatch.AccessShared, p))
			away := time.Now().Add(late)
			f.set(func() {
				f.save = func([]dispatch.Job) (bool, error) {
					if time.Now().Before(away) {
						return false, failure(dispatch.Unavailable)
					}
					return false, nil
				}
				f.woken = func(a []dispatch.Account) { wakes = append(wakes, a...) }
			})
			h.accept(t)
			time.Sleep(10 * time.Minute)
			h.stop()
		})
		if !slices.Contains(wakes, "a/shared") {
			t.Errorf("%s: the saves woke %v", name, wakes)
		}
	}
}

// frozenStore is the store of a process that was frozen: leases are not renewed, and no account is woken.
type frozenStore struct{ *faulty }

func (frozenStore) Renew(context.Context, dispatch.Lease, time.Duration) error {
	return failure(dispatch.Unavailable)
}
func (frozenStore) Wake(context.Context, dispatch.Account) error {
	return failure(dispatch.Unavailable)
}

// A database that cannot be written for longer than a lease costs no identifier: responses wait in memory, their number
// is logged, and politely stopping waits for them.
func TestBacklog_KeepsUnsavedResponses(t *testing.T) {
	p := &script{}
	withFaulty(t, p, func(t *testing.T, h *testBroker, f *faulty) {
		f.set(func() {
			f.save = func([]dispatch.Job) (bool, error) { return false, failure(dispatch.Unavailable) }
		})
		r := h.accept(t)
		time.Sleep(10 * time.Minute)
		if n := h.Unsaved(); n != 1 || !strings.Contains(h.logs.String(), "unsaved=1") {
			t.Errorf("%d responses wait, and the log says %s", n, h.logs)
		}
		f.set(func() { f.save = nil })
		h.Drain()
		if r := h.stored(t, r.ID); h.Unsaved() != 0 || r.Ref.ID == "" || r.Phase != dispatch.Started ||
			p.submits.Load() != 1 {
			t.Errorf("%d responses wait; the job is %s %q after %d submits", h.Unsaved(), r.Phase, r.Attention,
				p.submits.Load())
		}
		if n := strings.Count(h.logs.String(), "kept in memory"); n < 2 || n > 12 ||
			!strings.Contains(h.logs.String(), "all responses of platforms are saved") {
			t.Errorf("%d log lines: %s", n, h.logs)
		}
	})
}

// A response whose job was deleted and forgotten while the response could not be saved does not hold up the end of the
// process, and is logged with its ref. What can be saved is saved at once then, without a pause.
func TestBacklog_ResponseWithoutItsJobDelaysNoEnd(t *testing.T) {
	p := &script{}
	withFaulty(t, p, func(t *testing.T, h *testBroker, f *faulty) {
		f.set(func() {
			f.save = func([]dispatch.Job) (bool, error) { return false, failure(dispatch.Unavailable) }
		})
		gone, kept := h.accept(t), h.accept(t)
		time.Sleep(10 * time.Minute)
		f.set(func() {
			f.save = func(jobs []dispatch.Job) (bool, error) {
				if jobs[0].ID == gone.ID {
					return false, failure(dispatch.NotFound)
				}
				return false, nil
			}
			f.load = func(id dispatch.JobID) error {
				if id == gone.ID {
					return failure(dispatch.NotFound)
				}
				return nil
			}
		})
		begun := time.Now()
		h.Drain()
		if took := time.Since(begun); took > 10*time.Second || h.Unsaved() != 0 {
			t.Errorf("%d responses wait after %v", h.Unsaved(), took)
		}
		f.set(func() { f.load = nil })
		if r := h.stored(t, kept.ID); r.Ref.ID == "" || r.Phase != dispatch.Started {
			t.Errorf("the other job is %s, its ref %q", r.Phase, r.Ref.ID)
		}
		if !strings.Contains(h.logs.String(), "a response is dropped") {
			t.Errorf("the log says %s", h.logs)
		}
	})
}
