package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

// mortalPlatform is a platform that can list, and that may be dead: then it answers nothing.
type mortalPlatform struct {
	script
	mu    sync.Mutex
	refs  []dispatch.Ref
	lists atomic.Int32
	dead  atomic.Bool
}

func (r *mortalPlatform) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult,
	error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refs = append(r.refs, dispatch.Ref{ID: s.Tag})
	return r.script.Submit(ctx, t, s)
}

func (r *mortalPlatform) Status(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (dispatch.Report, error) {
	r.statuses.Add(1)
	if r.dead.Load() {
		return dispatch.Report{}, r.silent(ctx)
	}
	return dispatch.Report{Status: dispatch.Running}, nil
}

func (r *mortalPlatform) List(ctx context.Context, _ dispatch.Token, _ string) iter.Seq2[dispatch.Listed, error] {
	r.lists.Add(1)
	return func(yield func(dispatch.Listed, error) bool) {
		if r.dead.Load() {
			yield(dispatch.Listed{}, r.silent(ctx))
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, ref := range r.refs {
			if !yield(dispatch.Listed{Ref: ref, Report: dispatch.Report{Status: dispatch.Running}}, nil) {
				return
			}
		}
	}
}

func (r *mortalPlatform) silent(ctx context.Context) error {
	<-ctx.Done()
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: "test", Text: "It does not answer.", Err: ctx.Err()}
}

// fill accepts n jobs at a platform, which it takes at once.
func (h *testBroker) fill(t *testing.T, name string, n int) {
	t.Helper()
	for range n {
		if _, err := h.Accept(t.Context(), "ann", request(name), dispatch.Key{}); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait() // a submission is answered before its account is held
}

// What was last heard of a platform, and why an account is held, says what a user can expect of it; it is not asked for
// that.
func TestPlatforms_StateFollowsResponses(t *testing.T) {
	p, silent := &mortalPlatform{}, &script{}
	with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
		h.Backends = append(h.Backends, backend("b", dispatch.AccessShared, silent))
		h.UserJobs = 10
		is := func(u dispatch.UserID, want ...dispatch.State) (all []broker.PlatformInfo) {
			t.Helper()
			all, overall, within, err := h.Platforms(t.Context(), u)
			if err != nil || len(all) != 2 || within.Live != 10 || overall.Live != all[0].Live+all[1].Live {
				t.Fatalf("%+v %+v %+v %v", all, overall, within, err)
			}
			for i, state := range want {
				if all[i].State != state {
					t.Errorf("%s is %q for %s, not %q: %+v", all[i].Name, all[i].State, u, state, all[i].AccountInfo)
				}
			}
			return all
		}
		is("ann", dispatch.StateUnknown, dispatch.StateUnknown)
		h.fill(t, "a", 2)
		answered := time.Now()
		all := is("ann", dispatch.StateOK, dispatch.StateUnknown)
		if got := all[0]; got.Held != 2 || got.Active != 2 || time.Since(got.Answered) > noteEvery {
			t.Errorf("%+v", got.AccountInfo)
		}
		p.dead.Store(true)
		time.Sleep(2 * time.Minute)
		asked := p.statuses.Load() + p.lists.Load()
		for range 100 {
			all = is("ann", dispatch.StateUnreachable, dispatch.StateUnknown)
		}
		if got := all[0]; got.Failure != "It does not answer." || got.Answered.After(answered.Add(time.Minute)) ||
			p.statuses.Load()+p.lists.Load() != asked {
			t.Errorf("%+v", got.AccountInfo)
		}
		p.dead.Store(false)
		time.Sleep(2 * time.Minute)
		is("ann", dispatch.StateOK)

		h.tokens.set(failure(dispatch.SignInRequired))
		time.Sleep(2 * time.Minute)
		if all := is("ann", dispatch.StateSignInRequired); all[0].Notice != "because" {
			t.Errorf("%+v", all[0].AccountInfo)
		}
		is("bob", dispatch.StateOK)
		h.Backends[0].Entitled = func(context.Context) bool { return false }
		is("bob", dispatch.StateForbidden)

		h.tokens.set(nil)
		silent.submit = func(dispatch.Token, dispatch.Submission) (dispatch.SubmitResult, error) {
			return dispatch.SubmitResult{}, failure(dispatch.Busy)
		}
		h.fill(t, "b", 1)
		if all := is("bob", dispatch.StateForbidden, dispatch.StateBusy); all[1].Queue != 1 || all[1].Waiting != 0 {
			t.Errorf("%+v", all[1].AccountInfo)
		}
	})
}

// countingStore counts how often the waiting jobs are counted and listed.
type countingStore struct {
	conformance.Store
	counts atomic.Int32
	lists  atomic.Int32 // of the ids of a queue
	ids    atomic.Int64 // in these lists
}

func (c *countingStore) Queues(ctx context.Context, a dispatch.Account) ([]dispatch.Queue, error) {
	c.counts.Add(1)
	return c.Store.Queues(ctx, a)
}

// However many look, it is counted once in two seconds who waits, and at once when more was submitted.
func TestQueuePlaces_CountedOnceForManyReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backend("a", dispatch.AccessShared, &script{})
		b.Limits.Jobs = 1
		s := &countingStore{Store: conformance.NewMemStore(clock{})}
		h := open(s, b)
		defer h.stop()
		id := h.task(t, 20)
		time.Sleep(5 * time.Second)
		before := s.counts.Load()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				_, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", id, broker.AsKnown)
				if err != nil || len(jobs) != 20 || jobs[0].Ahead != nil || *jobs[1].Ahead != 0 ||
					*jobs[19].Ahead != 18 {
					t.Errorf("%d jobs, %v", len(jobs), err)
				}
			})
		}
		all.Wait()
		if n := s.counts.Load() - before; n != 1 {
			t.Errorf("it was counted %d times", n)
		}
		if _, err := h.AcceptTask(t.Context(), "bob", request("a"), dispatch.Dimension{Name: "tile", Values: values(2)},
			dispatch.Key{}); err != nil {
			t.Fatal(err)
		}
		_, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", id, broker.AsKnown)
		if err != nil || *jobs[1].Ahead != 1 || *jobs[2].Ahead != 3 {
			t.Errorf("after bob's: %v, %v, %v", jobs[1].Ahead, jobs[2].Ahead, err)
		}
	})
}

func (c *countingStore) Waiting(ctx context.Context, a dispatch.Account, l dispatch.Queue, from,
	to dispatch.Rank) ([]dispatch.JobID, error) {
	c.lists.Add(1)
	ids, err := c.Store.Waiting(ctx, a, l, from, to)
	c.ids.Add(int64(len(ids)))
	return ids, err
}

// The places that a page shows are those of the whole list, and are found without the ids of the jobs on other pages.
func TestQueuePlaces_OfAPageWithoutTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backend("a", dispatch.AccessShared, &script{})
		b.Limits.Jobs = 1
		s := &countingStore{Store: conformance.NewMemStore(clock{})}
		h := open(s, b)
		defer h.stop()
		const jobs = 1500 // six parts
		id := h.task(t, jobs)
		time.Sleep(5 * time.Second)
		read := func(p dispatch.Page) (all []dispatch.Record, err error) {
			for r, err := range h.TaskJobs(t.Context(), "ann", id, p) {
				if err != nil {
					return nil, err
				}
				all = append(all, r)
			}
			return all, nil
		}
		whole, err := read(dispatch.Page{Most: -1})
		if err != nil || len(whole) != jobs {
			t.Fatalf("%d jobs, %v", len(whole), err)
		}
		if n := s.ids.Load(); n > 2*jobs {
			t.Errorf("the ids of %d jobs were read for the whole list", n)
		}
		for i, r := range whole {
			if i == 0 && r.Ahead != nil || i > 0 && (r.Ahead == nil || *r.Ahead != i-1) {
				t.Fatalf("job %d: %v", i, r.Ahead)
			}
		}
		s.ids.Store(0)
		page, err := read(dispatch.Page{Limit: 20, After: dispatch.Place{ID: int64(whole[999].Number)}})
		if err != nil || len(page) != 20 || *page[0].Ahead != 999 || *page[19].Ahead != 1018 {
			t.Fatalf("%d jobs from %v, %v", len(page), page[0].Ahead, err)
		}
		if n := s.ids.Load(); n > 20 {
			t.Errorf("the ids of %d jobs were read for a page of 20", n)
		}
	})
}

// The place of a single job is the one that the list shows, and is found without the ids of the other jobs of its
// queue.
func TestQueuePlaces_OfASingleJobByACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backend("a", dispatch.AccessShared, &script{})
		b.Limits.Jobs = 1
		s := &countingStore{Store: conformance.NewMemStore(clock{})}
		h := open(s, b)
		defer h.stop()
		id := h.task(t, 20)
		if _, err := h.AcceptTask(t.Context(), "bob", request("a"), dispatch.Dimension{Name: "tile", Values: values(5)},
			dispatch.Key{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		_, jobs, err := conformance.Task(t.Context(), h.Broker, "ann", id, broker.AsKnown)
		if err != nil || len(jobs) != 20 || s.lists.Load() != 1 {
			t.Fatalf("%d jobs, %d lists, %v", len(jobs), s.lists.Load(), err)
		}
		for _, j := range jobs {
			one := h.of(t, "ann", j.ID)
			if (j.Ahead == nil) != (one.Ahead == nil) || j.Ahead != nil && *j.Ahead != *one.Ahead {
				t.Errorf("job %d: %v ahead in the list, %v alone", j.Number, j.Ahead, one.Ahead)
			}
		}
		if n := s.lists.Load(); n != 1 || jobs[19].Ahead == nil || *jobs[19].Ahead < 19 {
			t.Errorf("%d lists were read, the last job has %v ahead", n, jobs[19].Ahead)
		}
	})
}

const noteEvery = 10 * time.Second

// However many look at however many jobs, the platform is asked once: one listing, nothing else.
func TestFreshen_ManyReadersCostOneListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &mortalPlatform{}
		b := backend("a", dispatch.AccessShared, p)
		b.Limits.Jobs = 1000
		h := open(conformance.NewMemStore(clock{}), b)
		defer h.stop()
		h.fill(t, "a", 100)
		for range 3 {
			time.Sleep(4 * time.Second) // too soon for the broker to ask by itself again
			lists, statuses := p.lists.Load(), p.statuses.Load()
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					jobs, err := conformance.Jobs(t.Context(), h.Broker, "ann", 3*time.Second)
					if err != nil || len(jobs) != 100 {
						t.Errorf("%d jobs, %v", len(jobs), err)
					}
					for _, j := range jobs {
						if time.Since(j.Checked) > 3*time.Second || j.Status != dispatch.Running {
							t.Errorf("%s, checked %v ago", j.Status, time.Since(j.Checked))
						}
					}
				})
			}
			all.Wait()
			if lists, statuses = p.lists.Load()-lists, p.statuses.Load()-statuses; lists > 1 || statuses > 0 {
				t.Errorf("%d listings and %d single questions", lists, statuses)
			}
		}
	})
}

// A platform that is dead holds up no list for long, and its jobs alone say why they are old.
func TestFreshen_DeadPlatformDelaysNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alive, dead := &mortalPlatform{}, &mortalPlatform{}
		h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, alive),
			backend("b", dispatch.AccessShared, dead))
		defer h.stop()
		h.fill(t, "a", 3)
		h.fill(t, "b", 3)
		dead.dead.Store(true)
		for round := range 20 {
			time.Sleep(12 * time.Second)
			begin := time.Now()
			jobs, err := conformance.Jobs(t.Context(), h.Broker, "ann", 10*time.Second)
			if took := time.Since(begin); err != nil || len(jobs) != 6 || took > 5*time.Second {
				t.Fatalf("%d jobs after %v, %v", len(jobs), took, err)
			}
			for _, j := range jobs {
				silent := j.Account == "b/shared"
				want := map[bool]dispatch.Attention{true: dispatch.Unreachable}[silent]
				if j.Attention != want || !silent && time.Since(j.Checked) > 10*time.Second {
					t.Errorf("round %d: %s says %q, checked %v ago", round, j.Account, j.Attention,
						time.Since(j.Checked))
				}
			}
		}
		dead.dead.Store(false)
		time.Sleep(2 * time.Minute)
		jobs, err := conformance.Jobs(t.Context(), h.Broker, "ann", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if j.Attention != dispatch.None || time.Since(j.Checked) > 10*time.Second {
				t.Errorf("it is back: %s says %q, checked %v ago", j.Account, j.Attention, time.Since(j.Checked))
			}
		}
	})
}

// Who watches hears of each change that its owner sees, once it can be read, and of no other's.
func TestWatch_SignalsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &mortalPlatform{}
		h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, p))
		defer h.stop()
		changed, stop := h.Watch("ann")
		defer stop()
		others, stopOthers := h.Watch("bob")
		defer stopOthers()
		var called atomic.Bool
		defer h.OnChange("ann", func() { called.Store(true) })()
		heard := func(what string, want bool) {
			t.Helper()
			synctest.Wait()
			if called.Swap(false) != want {
				t.Errorf("%s: called: %v", what, !want)
			}
			select {
			case <-changed:
				if !want {
					t.Errorf("%s: notified", what)
				}
			default:
				if want {
					t.Errorf("%s: not notified", what)
				}
			}
		}
		r := h.accept(t)
		heard("accepted", true)
		time.Sleep(20 * time.Second)
		heard("it runs", true)
		time.Sleep(20 * time.Second)
		heard("the same again", false)
		if _, err := h.Cancel(t.Context(), "ann", r.ID); err != nil {
			t.Fatal(err)
		}
		heard("canceled", true)
		if r, err := h.Read(t.Context(), "ann", r.ID, time.Second); err != nil || r.Status != dispatch.Canceled {
			t.Errorf("canceled, it is %s, %v", r.Status, err)
		}
		if err := h.Delete(t.Context(), "ann", r.ID); err != nil {
			t.Fatal(err)
		}
		heard("deleted", true)
		h.HandleBroadcast(nil, nil)
		heard("something may have been missed", true)
		h.HandleBroadcast([]dispatch.JobID{r.ID}, []dispatch.UserID{"ann"})
		heard("another process said so", true)
		h.HandleBroadcast([]dispatch.JobID{r.ID}, []dispatch.UserID{"eve"})
		heard("of another", false)
		if len(others) != 1 { // of what may have been missed
			t.Error(fmt.Sprint("bob heard ", len(others)))
		}
	})
}

// Each job that was given a time and takes longer is canceled at the platform, and says why; one without runs on.
func TestMaxDuration_OverdueJobIsCanceled(t *testing.T) {
	detector.Skip(t)
	p := &script{}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		free := h.accept(t)
		r := request("a")
		r.Options = json.RawMessage(`{"max_duration":5400,"queue":"x"}`)
		task, err := h.AcceptTask(t.Context(), "ann", r, dispatch.Dimension{Name: "tile", Values: values(2)},
			dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(89 * time.Minute)
		if at := h.taskRecord(t, task.ID); at.Counts[dispatch.Running] != 2 || p.cancels.Load() != 0 {
			t.Fatalf("before its time is over: %v, %d canceled", at.Counts, p.cancels.Load())
		}
		time.Sleep(70 * time.Second)
		jobs, err := h.Store.TaskJobs(t.Context(), "ann", task.ID, dispatch.Page{})
		if err != nil || len(jobs) != 2 || p.cancels.Load() != 2 {
			t.Fatalf("%d jobs, %d canceled, %v", len(jobs), p.cancels.Load(), err)
		}
		for _, j := range jobs {
			if j.Status != dispatch.Canceled || j.Attention != dispatch.Overdue ||
				!strings.Contains(j.Failure, "1h30m0s") || j.Desired != dispatch.WantRun {
				t.Errorf("%s %q %q", j.Status, j.Attention, j.Failure)
			}
		}
		time.Sleep(72 * time.Hour)
		if j := h.stored(t, free.ID); j.Status != dispatch.Running || j.Attention != dispatch.Stalled ||
			p.cancels.Load() != 2 {
			t.Errorf("without a time: %s %q, %d canceled", j.Status, j.Attention, p.cancels.Load())
		}
	})
}

// What has finished in time is finished, though nobody looked before the time was over; the last look comes before a
// cancel.
func TestMaxDuration_FinishedJobIsNotCanceled(t *testing.T) {
	var end time.Time
	p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
		if time.Now().Before(end) {
			return dispatch.Report{Status: dispatch.Running}, nil
		}
		return dispatch.Report{Status: dispatch.Finished, Duration: time.Minute}, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		r := request("a")
		r.Options = json.RawMessage(`{"max_duration":3600}`)
		end = time.Now().Add(time.Hour - time.Millisecond)
		j, err := h.Accept(t.Context(), "ann", r, dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + time.Minute)
		if got := h.stored(t, j.ID); got.Status != dispatch.Finished || got.Attention != dispatch.None ||
			got.Duration != time.Minute || p.cancels.Load() != 0 {
			t.Errorf("%s %q after %v, %d canceled", got.Status, got.Attention, got.Duration, p.cancels.Load())
		}
	})
}
