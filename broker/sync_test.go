package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// running is a platform whose synchronous runs give a few bytes.
func running() *talking {
	return &talking{run: func(dispatch.Token) (*dispatch.SyncResult, error) {
		return &dispatch.SyncResult{ContentType: "image/tiff", Body: io.NopCloser(strings.NewReader("bytes"))}, nil
	}}
}

// syncRuns returns ann's runs as "status failure", newest first.
func (h *testBroker) syncRuns(t *testing.T, u dispatch.UserID) (all []string) {
	t.Helper()
	runs, err := h.SyncRuns(t.Context(), u, dispatch.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		all = append(all, strings.TrimSpace(string(r.Status)+" "+r.Failure))
	}
	return all
}

// TestRunSync_SlotsAreSharedByUsers: one user has four runs at a platform, all users together sixteen, each until its
// body is closed.
func TestRunSync_SlotsAreSharedByUsers(t *testing.T) {
	with(t, dispatch.AccessShared, running(), func(t *testing.T, h *testBroker) {
		var open []*dispatch.SyncResult
		run := func(u dispatch.UserID) error {
			r, err := h.RunSync(t.Context(), u, request("a"))
			if err == nil {
				open = append(open, r)
			}
			return err
		}
		for i := range 20 {
			if err := run("ann"); (err == nil) != (i < 4) || err != nil && !dispatch.Is(err, dispatch.LimitReached) {
				t.Errorf("run %d of one user: %v", i, err)
			}
		}
		for i := range 12 {
			if err := run(dispatch.UserID(fmt.Sprint("user", i%6))); err != nil {
				t.Errorf("run %d of others: %v", i, err)
			}
		}
		if err := run("zoe"); !dispatch.Is(err, dispatch.Busy) {
			t.Errorf("the seventeenth at once: %v", err)
		}
		open[0].Body.Close()
		open[0].Body.Close() // gives its slot back once
		if err := run("ann"); err != nil {
			t.Errorf("after one was closed: %v", err)
		}
		if err := run("ann"); !dispatch.Is(err, dispatch.LimitReached) {
			t.Errorf("a body closed twice makes two slots: %v", err)
		}
		for _, r := range open {
			r.Body.Close()
		}
	})
}

// TestRunSync_CountsLikeAJob: in quotas of all platforms and of a shared account, in the usage and in the audit.
func TestRunSync_CountsLikeAJob(t *testing.T) {
	with(t, dispatch.AccessShared, running(), func(t *testing.T, h *testBroker) {
		h.UserJobs, h.Backends[0].Quota = 3, dispatch.Quota{Live: 2, Daily: 4}
		h.accept(t)
		first, err := h.RunSync(t.Context(), "ann", request("a"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.RunSync(t.Context(), "ann", request("a"))
		wantKind(t, err, dispatch.LimitReached)
		_, err = h.Accept(t.Context(), "ann", request("a"), dispatch.Key{})
		wantKind(t, err, dispatch.LimitReached)
		io.Copy(io.Discard, first.Body)
		first.Body.Close()
		for range 2 { // one after the other
			r, err := h.RunSync(t.Context(), "ann", request("a"))
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
		}
		_, err = h.RunSync(t.Context(), "ann", request("a"))
		if wantKind(t, err, dispatch.LimitReached); !strings.Contains(dispatch.TextFor(err), "24 hours") {
			t.Errorf("beyond the day's quota: %q", dispatch.TextFor(err))
		}
		use, err := h.Usage(t.Context(), "ann")
		if err != nil || len(use) != 1 || use[0].Live != 1 || use[0].Lately != 4 || use[0].Jobs != 4 {
			t.Errorf("usage %+v, %v", use, err)
		}
		if n := strings.Count(h.logs.String(), "msg=audit action=run "); n != 3 {
			t.Errorf("%d audit lines for 3 runs", n)
		}
		records, err := conformance.Jobs(t.Context(), h.Broker, "ann", broker.AsKnown)
		if err != nil || len(records) != 1 {
			t.Errorf("runs are among the jobs: %+v, %v", records, err)
		}
	})
}

// TestRunSync_RecordsHowItEnded, whoever ended it.
func TestRunSync_RecordsHowItEnded(t *testing.T) {
	p := running()
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		ends := map[string]func(){
			"finished": func() {
				r, _ := h.RunSync(t.Context(), "finished", request("a"))
				io.Copy(io.Discard, r.Body)
				if now := h.syncRuns(t, "finished"); now[0] != "running" {
					t.Errorf("before the body is closed: %v", now)
				}
				r.Body.Close()
			},
			"canceled": func() { // the client leaves while the result comes
				ctx, leave := context.WithCancel(t.Context())
				r, _ := h.RunSync(ctx, "canceled", request("a"))
				leave()
				r.Body.Close()
			},
			"failed Too dry.": func() {
				was := p.run
				p.run = func(dispatch.Token) (*dispatch.SyncResult, error) {
					return nil, &dispatch.Error{Kind: dispatch.BadUpstream, Text: "Too dry."}
				}
				_, err := h.RunSync(t.Context(), "failed Too dry.", request("a"))
				wantKind(t, err, dispatch.BadUpstream)
				p.run = was
			},
			"failed The connection broke off.": func() {
				was := p.run
				p.run = func(dispatch.Token) (*dispatch.SyncResult, error) {
					broken := io.MultiReader(strings.NewReader("part"),
						failing{&dispatch.Error{Kind: dispatch.Unavailable,
							Text: "The connection broke off."}})
					return &dispatch.SyncResult{Body: io.NopCloser(broken)}, nil
				}
				r, _ := h.RunSync(t.Context(), "failed The connection broke off.", request("a"))
				io.Copy(io.Discard, r.Body)
				r.Body.Close()
				p.run = was
			},
		}
		for how, end := range ends {
			time.Sleep(time.Minute)
			p.create = how
			end()
			if is := h.syncRuns(t, dispatch.UserID(how)); len(is) != 1 || is[0] != how {
				t.Errorf("%s: %v", how, is)
			}
			runs, _ := h.SyncRuns(t.Context(), dispatch.UserID(how), dispatch.Page{})
			if runs[0].Ref.ID != how || runs[0].Phase != dispatch.Ended || runs[0].Request.Title != request("a").Title {
				t.Errorf("%s: %+v", how, runs[0])
			}
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestRunSync_LongRunStaysRunning: it is confirmed for as long as it takes, and is unknown soon after its process was
// lost.
func TestRunSync_LongRunStaysRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &losing{Store: conformance.NewMemStore(clock{})}
		h := open(s, backend("a", dispatch.AccessShared, running()))
		defer h.stop()
		r, err := h.RunSync(t.Context(), "ann", request("a"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if is := h.syncRuns(t, "ann"); is[0] != "running" {
			t.Errorf("after an hour: %v", is)
		}
		s.lost.Store(true) // as for a process that was killed
		time.Sleep(3 * time.Minute)
		if is := h.syncRuns(t, "ann"); is[0] != "unknown" {
			t.Errorf("after its process was lost: %v", is)
		}
		s.lost.Store(false)
		r.Body.Close()
	})
}

// losing is a store that a process does not reach any more with what it says of its runs.
type losing struct {
	conformance.Store
	lost atomic.Bool
}

func (s *losing) RenewSyncRun(ctx context.Context, id dispatch.JobID, d time.Duration) error {
	if s.lost.Load() {
		return errors.New("lost")
	}
	return s.Store.RenewSyncRun(ctx, id, d)
}

func (s *losing) EndSyncRun(ctx context.Context, r dispatch.SyncRun) error {
	if s.lost.Load() {
		return errors.New("lost")
	}
	return s.Store.EndSyncRun(ctx, r)
}

// TestRunSync_JobOfAnother: a run whose platform names the job of another job or run, whoever owns it, gets nothing of
// that job, and neither does a job whose platform names that of a run.
func TestRunSync_JobOfAnother(t *testing.T) {
	p := running()
	next := "job"
	p.submit = func(dispatch.Token, dispatch.Submission) (dispatch.SubmitResult, error) {
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: next}, Started: true}, nil
	}
	p.status = func(dispatch.Token) (dispatch.Report, error) { return dispatch.Report{Status: dispatch.Running}, nil }
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		h.accept(t)
		time.Sleep(time.Minute)
		run := func(u dispatch.UserID, id string) error {
			p.create = id
			r, err := h.RunSync(t.Context(), u, request("a"))
			if err == nil {
				io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
			return err
		}
		if err := run("ann", "run"); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"job", "run"} {
			err := run("bob", id)
			wantKind(t, err, dispatch.BadUpstream)
			want := fmt.Sprintf("identifier %q for this run, which it has given to another job", id)
			if text := dispatch.TextFor(err); !strings.Contains(text, want) {
				t.Error(text)
			}
			runs, err := h.SyncRuns(t.Context(), "bob", dispatch.Page{})
			if err != nil || runs[0].Status != dispatch.Failed || runs[0].Ref != (dispatch.Ref{}) {
				t.Errorf("%+v, %v", runs, err)
			}
		}
		if n := p.cancels.Load(); n != 0 {
			t.Errorf("%d jobs of others were canceled", n)
		}
		next = "run"
		j, err := h.Accept(t.Context(), "bob", request("a"), dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if j, err = h.Read(t.Context(), "bob", j.ID, broker.AsKnown); err != nil || j.Status != dispatch.Failed ||
			j.Ref != (dispatch.Ref{}) {
			t.Errorf("%+v, %v", j.Job, err)
		}
	})
}

// TestRunSync_NothingIsSentUnrecorded: a run that the store cannot keep is not sent.
func TestRunSync_NothingIsSentUnrecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := running()
		p.run = func(dispatch.Token) (*dispatch.SyncResult, error) {
			t.Error("it was sent")
			return nil, errors.New("sent")
		}
		h := open(refusing{conformance.NewMemStore(clock{})}, backend("a", dispatch.AccessShared, p))
		defer h.stop()
		for range 5 { // and gives its slots back
			_, err := h.RunSync(t.Context(), "ann", request("a"))
			wantKind(t, err, dispatch.Unavailable)
		}
	})
}

type refusing struct{ conformance.Store }

func (refusing) BeginSyncRun(context.Context, *dispatch.SyncRun, time.Duration, ...dispatch.Quota) error {
	return failure(dispatch.Unavailable)
}

// heeding is a platform whose synchronous runs, and their results, end only with the context.
type heeding struct {
	*talking
	began bool // the result comes, a byte a second
}

func (p heeding) RunSync(ctx context.Context, _ dispatch.Token, _ dispatch.Submission) (*dispatch.SyncResult, error) {
	late := &dispatch.Error{Kind: dispatch.Uncertain, Text: "The process did not end in time."}
	if !p.began {
		<-ctx.Done()
		return nil, late
	}
	return &dispatch.SyncResult{Body: io.NopCloser(trickle{ctx, late})}, nil
}

type trickle struct {
	ctx context.Context
	err error
}

func (r trickle) Read(b []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		return copy(b, "x"), nil
	case <-r.ctx.Done():
		return 0, r.err
	}
}

// TestRunSync_HasADeadline: a platform that never answers, or whose result comes a byte a second, does not hold a slot
// for ever. The run has failed then, and its client learns why.
func TestRunSync_HasADeadline(t *testing.T) {
	for _, began := range []bool{false, true} {
		with(t, dispatch.AccessShared, heeding{running(), began}, func(t *testing.T, h *testBroker) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
			defer cancel()
			start := time.Now()
			r, err := h.RunSync(ctx, "ann", request("a"))
			if err == nil {
				_, err = io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
			if wantKind(t, err, dispatch.Uncertain); !errors.Is(err, dispatch.ErrTooLong) {
				t.Errorf("the result comes: %v: %v does not tell that it took too long", began, err)
			}
			if took := time.Since(start); took != 30*time.Minute {
				t.Errorf("the result comes: %v: ended after %v", began, took)
			}
			if is := h.syncRuns(t, "ann"); is[0] != "failed The run did not end within 30 minutes, the limit of "+
				"synchronous runs. Submit a job instead." {
				t.Errorf("the result comes: %v: %v", began, is)
			}
		})
	}
}

// awayAtTheEnd is a store that records no end of a synchronous run until a time.
type awayAtTheEnd struct {
	conformance.Store
	until time.Time
}

func (s *awayAtTheEnd) EndSyncRun(ctx context.Context, r dispatch.SyncRun) error {
	if time.Now().Before(s.until) {
		return failure(dispatch.Unavailable)
	}
	return s.Store.EndSyncRun(ctx, r)
}

// TestRunSync_EndIsRecordedAfterAnOutage: the end of a run during an outage of the database is there afterwards.
func TestRunSync_EndIsRecordedAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &awayAtTheEnd{Store: conformance.NewMemStore(clock{}), until: time.Now().Add(time.Minute)}
		h := open(s, backend("a", dispatch.AccessShared, running()))
		defer h.stop()
		r, err := h.RunSync(t.Context(), "ann", request("a"))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		time.Sleep(2 * time.Minute)
		if runs := h.syncRuns(t, "ann"); len(runs) != 1 || runs[0] != "finished" {
			t.Errorf("after the outage: %v", runs)
		}
	})
}

// A synchronous run at which the adapter panics has failed. It gives its slots back, and counts in no quota any more.
func TestRunSync_PanicsGiveSlotsBack(t *testing.T) {
	panics := true
	p := running()
	answer := p.run
	p.run = func(t dispatch.Token) (*dispatch.SyncResult, error) {
		if panics {
			panic("a bug")
		}
		return answer(t)
	}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		run := func() (r *dispatch.SyncResult, err error) {
			defer func() {
				if recover() != nil {
					t.Error("the panic was not caught")
				}
			}()
			return h.RunSync(t.Context(), "ann", request("a"))
		}
		for range 20 {
			if _, err := run(); !dispatch.Is(err, dispatch.Internal) {
				t.Fatal(err)
			}
		}
		panics = false
		r, err := run()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
		for _, status := range h.syncRuns(t, "ann") {
			if len(status) >= 7 && status[:7] == "running" {
				t.Errorf("a run is %s", status)
			}
		}
	})
}
