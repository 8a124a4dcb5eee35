package broker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/visit/engine"
)

// script is a platform that answers as instructed.
type script struct {
	submit  func(dispatch.Token, dispatch.Submission) (dispatch.SubmitResult, error)
	status  func(dispatch.Token) (dispatch.Report, error)
	results func(dispatch.Token) (json.RawMessage, error)

	submits, statuses, cancels atomic.Int32
}

func (*script) TwoStep() bool                         { return false }
func (*script) Base(dispatch.Service) (string, error) { return "", nil }

func (s *script) Submit(_ context.Context, t dispatch.Token, sub dispatch.Submission) (dispatch.SubmitResult, error) {
	s.submits.Add(1)
	if s.submit != nil {
		return s.submit(t, sub)
	}
	return dispatch.SubmitResult{Ref: dispatch.Ref{ID: sub.Tag}, Started: true}, nil
}

func (s *script) Status(_ context.Context, t dispatch.Token, _ dispatch.Ref) (dispatch.Report, error) {
	s.statuses.Add(1)
	if s.status != nil {
		return s.status(t)
	}
	return dispatch.Report{Status: dispatch.Running}, nil
}

func (s *script) Results(_ context.Context, t dispatch.Token, _ dispatch.Ref) (json.RawMessage, error) {
	return s.results(t)
}

func (s *script) Cancel(context.Context, dispatch.Token, dispatch.Ref) error {
	s.cancels.Add(1)
	return nil
}

// talking also logs and runs while a client waits.
type talking struct {
	script
	run    func(dispatch.Token) (*dispatch.SyncResult, error)
	create string // the job that the platform creates for a run
}

func (s *talking) Logs(context.Context, dispatch.Token, dispatch.Ref) ([]dispatch.LogEntry, error) {
	return []dispatch.LogEntry{{Level: "info", Message: "done"}}, nil
}

func (s *talking) RunSync(ctx context.Context, t dispatch.Token, sent dispatch.Submission) (*dispatch.SyncResult,
	error) {
	if s.create != "" {
		if err := sent.Created(ctx, dispatch.Ref{ID: s.create}); err != nil {
			return nil, err
		}
	}
	return s.run(t)
}

// fakeTokens gives tokens, a new one after each that was refused.
type fakeTokens struct {
	mu      sync.Mutex
	err     error
	late    time.Duration
	n       int
	refused int
}

func (p *fakeTokens) Token(ctx context.Context, _ dispatch.Account) (dispatch.Token, error) {
	p.mu.Lock()
	late := p.late
	p.mu.Unlock()
	select {
	case <-time.After(late):
	case <-ctx.Done():
		return dispatch.Token{}, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return dispatch.Token{Secret: dispatch.Secret("canary-token" + strings.Repeat("!", p.n))}, p.err
}

func (p *fakeTokens) Invalidate(dispatch.Account, dispatch.Token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.refused = p.n+1, p.refused+1
}

func (p *fakeTokens) delay(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = late
}

func (p *fakeTokens) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }

// logs is what a broker logged. It may be read while the broker runs.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// testBroker is a broker with its engine, as they run in a process.
type testBroker struct {
	*broker.Broker
	Store  conformance.Store
	tokens *fakeTokens
	logs   *logs
	stop   func()
}

func open(s conformance.Store, backends ...*dispatch.Backend) *testBroker {
	return openTimed(s, dispatch.Timing{}, backends...)
}

// openTimed sets the timing before the first visit, which begins at once where jobs are left from before.
func openTimed(s conformance.Store, timing dispatch.Timing, backends ...*dispatch.Backend) *testBroker {
	h := &testBroker{Store: s, tokens: &fakeTokens{}, logs: &logs{}}
	log := slog.New(slog.NewTextHandler(h.logs, nil))
	h.Broker = broker.New(s, dispatch.Setup{Tokens: h.tokens, Backends: backends, Installation: "me", Log: log,
		Timing: timing})
	e := engine.New(engine.Config{Store: s, Visit: h.Visit, Log: log})
	h.Engine = e
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	h.stop = func() { cancel(); <-done }
	return h
}

func backend(name string, a dispatch.Access, p dispatch.Platform) *dispatch.Backend {
	return &dispatch.Backend{Name: name, Label: dispatch.OGCProcess, Endpoint: "https://" + name + ".example",
		Access: a, Platform: p, Limits: dispatch.Limits{Jobs: 4, Requests: 2, Send: 30 * time.Second}}
}

func request(name string) dispatch.Request {
	return dispatch.Request{Title: "t", Label: dispatch.OGCProcess, Format: "json",
		Parameters: json.RawMessage(`{"x":"<canary-body>"}`),
		Service:    dispatch.Service{Endpoint: "https://" + name + ".example", Application: "app"}}
}

func failure(k dispatch.Kind) error { return &dispatch.Error{Kind: k, Op: "test", Text: "because"} }

// with runs a test in its own time with a broker at one platform.
func with(t *testing.T, a dispatch.Access, p dispatch.Platform, test func(*testing.T, *testBroker)) {
	synctest.Test(t, func(t *testing.T) {
		h := open(conformance.NewMemStore(clock{}), backend("a", a, p))
		test(t, h)
		h.stop()
		if logs := h.logs.String(); strings.Contains(logs, "canary") {
			t.Errorf("a secret is in the log: %s", logs)
		}
	})
}

func (h *testBroker) accept(t *testing.T) dispatch.Record {
	t.Helper()
	r, err := h.Accept(t.Context(), "ann", request("a"), dispatch.Key{})
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	return r
}

// stored returns the job as the store keeps it.
func (h *testBroker) stored(t *testing.T, id dispatch.JobID) dispatch.Record {
	t.Helper()
	r, err := h.Store.Record(t.Context(), "ann", id)
	if err != nil {
		t.Fatalf("Record: %v", err)
	}
	return r
}

func wantKind(t *testing.T, err error, k dispatch.Kind) {
	t.Helper()
	if !dispatch.Is(err, k) {
		t.Errorf("error %v, want kind %v", err, k)
	}
}

func TestAccept_ReturnsThePlatformsResponse(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		r := request("a")
		r.Parameters = nil
		got, err := h.Accept(t.Context(), "ann", r, dispatch.Key{})
		if err != nil || got.Status != dispatch.Submitted || got.Ref.ID == "" ||
			string(got.Request.Parameters) != "{}" {
			t.Errorf("%s %v %s, %v", got.Status, got.Ref, got.Request.Parameters, err)
		}
		if got := h.accept(t); string(got.Request.Parameters) != `{"x":"<canary-body>"}` {
			t.Errorf("the parameters came back as %s", got.Request.Parameters)
		}
		_, err = h.Accept(t.Context(), "ann", request("nowhere"), dispatch.Key{})
		wantKind(t, err, dispatch.Invalid)
	})
}

// What is refused for good is an error, once and whenever it is repeated, and is seen no more.
func TestAccept_RefusedRequestIsAnError(t *testing.T) {
	for refusal, want := range map[dispatch.Kind]dispatch.Kind{dispatch.Invalid: dispatch.Invalid,
		dispatch.NotFound:  dispatch.Invalid,
		dispatch.Forbidden: dispatch.Forbidden, dispatch.Unsupported: dispatch.Unsupported} {
		p := &script{submit: func(dispatch.Token, dispatch.Submission) (dispatch.SubmitResult, error) {
			return dispatch.SubmitResult{}, failure(refusal)
		}}
		with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
			for range 2 {
				_, err := h.Accept(t.Context(), "ann", request("a"), dispatch.Key{Text: "k", Fingerprint: "f"})
				if wantKind(t, err, want); dispatch.TextFor(err) != "because" {
					t.Errorf("refused with %q", dispatch.TextFor(err))
				}
			}
			if jobs, err := conformance.Jobs(t.Context(), h.Broker, "ann", time.Second); err != nil || len(jobs) != 0 ||
				p.submits.Load() != 1 {
				t.Errorf("%d jobs after %d submits, %v", len(jobs), p.submits.Load(), err)
			}
		})
	}
}

func TestAccept_KeyIsForOneRequest(t *testing.T) {
	p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		time.Sleep(3 * time.Second)
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: "r"}, Started: true}, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		k := dispatch.Key{Text: "k", Fingerprint: "f"}
		var both sync.WaitGroup
		var ids [2]dispatch.JobID
		for i := range ids {
			both.Go(func() {
				r, err := h.Accept(t.Context(), "ann", request("a"), k)
				if ids[i] = r.ID; err != nil || r.Status != dispatch.Submitted {
					t.Errorf("%s, %v", r.Status, err)
				}
			})
		}
		both.Wait()
		if ids[0] != ids[1] || p.submits.Load() != 1 {
			t.Errorf("jobs %v after %d submits", ids, p.submits.Load())
		}
		_, err := h.Accept(t.Context(), "ann", request("a"), dispatch.Key{Text: "k", Fingerprint: "other"})
		wantKind(t, err, dispatch.Invalid)
		if r, err := h.Accept(t.Context(), "bob", request("a"), k); err != nil || r.ID == ids[0] {
			t.Errorf("another's key: job %d, %v", r.ID, err)
		}
	})
}

func TestRead_DoesNotWaitForASlowPlatform(t *testing.T) {
	p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		time.Sleep(25 * time.Second)
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: "r"}, Started: true}, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		began := time.Now()
		r := h.accept(t)
		if took := time.Since(began); r.Status != dispatch.Accepted || took > 10*time.Second {
			t.Errorf("%s after %v", r.Status, took)
		}
		time.Sleep(17 * time.Second)
		if r := h.stored(t, r.ID); r.Status != dispatch.Submitted {
			t.Errorf("later it is %s", r.Status)
		}
	})
}

func TestFreshen_ListIsFreshAndNeverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		good, bad := &script{}, &script{status: func(dispatch.Token) (dispatch.Report, error) {
			if !slow.Load() {
				return dispatch.Report{Status: dispatch.Running}, nil
			}
			time.Sleep(29 * time.Second)
			return dispatch.Report{}, failure(dispatch.Unavailable)
		}}
		h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, good),
			backend("b", dispatch.AccessShared, bad))
		defer h.stop()
		h.accept(t)
		if _, err := h.Accept(t.Context(), "ann", request("b"), dispatch.Key{}); err != nil {
			t.Fatal(err)
		}
		slow.Store(true)
		time.Sleep(time.Hour)
		began := time.Now()
		jobs, err := conformance.Jobs(t.Context(), h.Broker, "ann", 2*time.Second)
		if took := time.Since(began); err != nil || len(jobs) != 2 || took > 5*time.Second {
			t.Fatalf("%d jobs after %v, %v", len(jobs), took, err)
		}
		if jobs[0].Account != "b/shared" || jobs[1].Account != "a/shared" {
			t.Errorf("not the newest first: %s, %s", jobs[0].Account, jobs[1].Account)
		}
		if age := time.Since(jobs[1].Checked); age > 7*time.Second || jobs[0].Attention != dispatch.Unreachable {
			t.Errorf("a was asked %v ago; b is %q", age, jobs[0].Attention)
		}
	})
}

func TestResults(t *testing.T) {
	p := &talking{}
	p.results = func(tok dispatch.Token) (json.RawMessage, error) {
		if !strings.HasSuffix(tok.Secret.Reveal(), "!") {
			return nil, failure(dispatch.SignInRequired)
		}
		return json.RawMessage(`{"id":"c"}`), nil
	}
	var status atomic.Value
	status.Store(dispatch.Report{Status: dispatch.Running})
	p.status = func(dispatch.Token) (dispatch.Report, error) { return status.Load().(dispatch.Report), nil }
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		finished, failed, canceled := h.accept(t), h.accept(t), h.accept(t)
		if c, err := h.Results(t.Context(), "ann", finished.ID); c != nil || err != nil {
			t.Errorf("too early: %s, %v", c, err)
		}
		if _, err := h.Store.Cancel(t.Context(), "ann", canceled.ID, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if err := h.Delete(t.Context(), "ann", failed.ID); err != nil {
			t.Fatal(err)
		}
		status.Store(dispatch.Report{Status: dispatch.Finished})
		time.Sleep(time.Minute)
		if c, err := h.Results(t.Context(), "ann", finished.ID); string(c) != `{"id":"c"}` || err != nil ||
			h.tokens.refused != 1 {
			t.Errorf("results %s, %v, %d tokens refused", c, err, h.tokens.refused)
		}
		_, err := h.Results(t.Context(), "ann", canceled.ID)
		wantKind(t, err, dispatch.Conflict)
		_, err = h.Results(t.Context(), "ann", failed.ID)
		wantKind(t, err, dispatch.NotFound)
		_, err = h.Results(t.Context(), "bob", finished.ID)
		wantKind(t, err, dispatch.NotFound)
		status.Store(dispatch.Report{Status: dispatch.Failed, Message: "no data"})
		failed = h.accept(t)
		time.Sleep(time.Minute)
		_, err = h.Results(t.Context(), "ann", failed.ID)
		if wantKind(t, err, dispatch.Conflict); !strings.Contains(dispatch.TextFor(err), "no data") {
			t.Errorf("the error does not say why: %v", err)
		}
		if logs, err := h.Logs(t.Context(), "ann", failed.ID); err != nil || len(logs) != 1 {
			t.Errorf("logs %v, %v", logs, err)
		}
	})
}

func TestResults_KeptFromTheSubmission(t *testing.T) {
	p := &script{submit: func(dispatch.Token, dispatch.Submission) (dispatch.SubmitResult, error) {
		return dispatch.SubmitResult{Result: []byte(`{"id":"here"}`)}, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		r := h.accept(t)
		c, err := h.Results(t.Context(), "ann", r.ID)
		if r.Status != dispatch.Finished || string(c) != `{"id":"here"}` || err != nil {
			t.Errorf("%s, %s, %v", r.Status, c, err)
		}
		if logs, err := h.Logs(t.Context(), "ann", r.ID); logs != nil || err != nil {
			t.Errorf("logs %v, %v", logs, err)
		}
	})
}

func TestBroker_UnsupportedAbilities(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		r := h.accept(t)
		_, err := h.Logs(t.Context(), "ann", r.ID)
		wantKind(t, err, dispatch.Unsupported)
		_, err = h.RunSync(t.Context(), "ann", request("a"))
		wantKind(t, err, dispatch.Unsupported)
	})
}

// A job whose owner must sign in says so, and goes on when they have, also when another process found out.
func TestHandleSignIn_ResumesWaitingJobs(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		p := &script{}
		with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
			h.tokens.set(failure(dispatch.SignInRequired))
			begun := time.Now()
			r := h.accept(t)
			if took := time.Since(begun); took > 100*time.Millisecond {
				t.Errorf("the submission was answered %v after it was known that the owner must sign in", took)
			}
			if r.Status != dispatch.Accepted || r.Attention != dispatch.NeedsSignIn || r.Notice != "because" ||
				p.submits.Load() != 0 {
				t.Errorf("%s %q %q after %d submits", r.Status, r.Attention, r.Notice, p.submits.Load())
			}
			h.tokens.set(nil)
			now := h
			if restarted {
				h.stop()
				now = open(h.Store, h.Backends...)
				defer now.stop()
			}
			time.Sleep(2 * time.Minute)
			if r := h.stored(t, r.ID); r.Phase != dispatch.Waiting {
				t.Errorf("it did not wait for its owner: %s", r.Phase)
			}
			now.HandleSignIn(t.Context(), "bob", false)
			now.HandleSignIn(t.Context(), "ann", false)
			time.Sleep(time.Second)
			if r := h.stored(t, r.ID); r.Status != dispatch.Submitted || r.Attention != dispatch.None {
				t.Errorf("after the sign-in it is %s %q", r.Status, r.Attention)
			}
		})
	}
}

// One refused token is replaced and nobody notices; the second in a row stops the account.
func TestVisit_RefusedTokensBlockTheAccount(t *testing.T) {
	for access, want := range map[dispatch.Access]dispatch.Attention{
		dispatch.AccessUser: dispatch.NeedsSignIn, dispatch.AccessShared: dispatch.NeedsOperator} {
		var refuse atomic.Int32
		p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
			if refuse.Add(-1) >= 0 {
				return dispatch.SubmitResult{}, failure(dispatch.SignInRequired)
			}
			return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
		}}
		with(t, access, p, func(t *testing.T, h *testBroker) {
			refuse.Store(1)
			r := h.accept(t)
			time.Sleep(time.Second)
			if r := h.stored(t, r.ID); r.Status != dispatch.Submitted || r.Attention != dispatch.None ||
				h.tokens.refused != 1 {
				t.Errorf("%s: after one refusal %s %q", access, r.Status, r.Attention)
			}
			refuse.Store(1000)
			r = h.accept(t)
			time.Sleep(4 * time.Minute)
			if r := h.stored(t, r.ID); r.Status != dispatch.Accepted || r.Attention != want || refuse.Load() != 998 {
				t.Errorf("%s: %s %q, asked %d times", access, r.Status, r.Attention, 1000-refuse.Load())
			}
			refuse.Store(0)
			time.Sleep(time.Hour)
			if r := h.stored(t, r.ID); r.Status != dispatch.Running || r.Attention != dispatch.None {
				t.Errorf("%s: an hour later it is %s %q", access, r.Status, r.Attention)
			}
		})
	}
}

// Requests that left with the same token and come back refused are one refusal.
func TestVisit_RequestsWithOneTokenAreRefusedOnce(t *testing.T) {
	p := &script{submit: func(tok dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		time.Sleep(time.Second)
		if !strings.HasSuffix(tok.Secret.Reveal(), "!") {
			return dispatch.SubmitResult{}, failure(dispatch.SignInRequired)
		}
		return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
	}}
	with(t, dispatch.AccessUser, p, func(t *testing.T, h *testBroker) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if r := h.accept(t); r.Status != dispatch.Submitted {
					t.Errorf("job %d is %s %q", r.ID, r.Status, r.Attention)
				}
			})
		}
		both.Wait()
		if h.tokens.refused != 1 || p.submits.Load() != 4 {
			t.Errorf("%d tokens refused, %d submits", h.tokens.refused, p.submits.Load())
		}
	})
}

// A started job whose account cannot be asked for keeps its last status, and says why nothing newer is known.
func TestVisit_NoTokenForAStatus(t *testing.T) {
	with(t, dispatch.AccessUser, &script{}, func(t *testing.T, h *testBroker) {
		r := h.accept(t)
		time.Sleep(10 * time.Second)
		h.tokens.set(failure(dispatch.SignInRequired))
		time.Sleep(time.Minute)
		began := time.Now()
		r, err := h.Read(t.Context(), "ann", r.ID, time.Second)
		if err != nil || r.Status != dispatch.Running || r.Attention != dispatch.NeedsSignIn ||
			time.Since(began) > time.Second {
			t.Errorf("%s %q after %v, %v", r.Status, r.Attention, time.Since(began), err)
		}
		h.tokens.set(nil)
		h.HandleSignIn(t.Context(), "ann", false)
		time.Sleep(time.Second)
		if r := h.stored(t, r.ID); r.Attention != dispatch.None || time.Since(r.Checked) > 2*time.Second {
			t.Errorf("after the sign-in: %q, asked %v ago", r.Attention, time.Since(r.Checked))
		}
	})
}

// counting counts the readings of accounts.
type counting struct {
	conformance.Store
	looks atomic.Int32
}

func (c *counting) Agenda(ctx context.Context, a dispatch.Account, n int, stalled time.Duration) (dispatch.Agenda,
	error) {
	c.looks.Add(1)
	return c.Store.Agenda(ctx, a, n, stalled)
}

// Jobs of a platform that is not configured any more say so, wait, and go on when it is back.
func TestVisit_RemovedPlatform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		p := &script{submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
			if busy.Load() {
				return dispatch.SubmitResult{}, failure(dispatch.Busy)
			}
			return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
		}}
		s := &counting{Store: conformance.NewMemStore(clock{})}
		h := open(s, backend("a", dispatch.AccessShared, p))
		started := h.accept(t)
		busy.Store(true)
		waiting := h.accept(t)
		h.stop()

		without := open(s)
		time.Sleep(time.Minute)
		s.looks.Store(0)
		time.Sleep(time.Hour)
		for _, id := range []dispatch.JobID{started.ID, waiting.ID} {
			r, err := without.Read(t.Context(), "ann", id, time.Second)
			if err != nil || r.Attention != dispatch.NoPlatform {
				t.Errorf("job %d: %q, %v", id, r.Attention, err)
			}
		}
		if looks := s.looks.Load(); looks > 30 {
			t.Errorf("%d looks in an hour", looks)
		}
		if _, err := without.Logs(t.Context(), "ann", started.ID); !dispatch.Is(err, dispatch.Misconfigured) {
			t.Errorf("logs: %v", err)
		}
		without.stop()

		busy.Store(false)
		again := open(s, backend("a", dispatch.AccessShared, p))
		fresh := again.accept(t)
		time.Sleep(time.Second)
		if r := again.stored(t, fresh.ID); r.Phase != dispatch.Started {
			t.Errorf("a new job is %s %q though its platform is back", r.Status, r.Attention)
		}
		time.Sleep(15 * time.Minute)
		for _, id := range []dispatch.JobID{started.ID, waiting.ID} {
			if r := again.stored(t, id); r.Status != dispatch.Running || r.Attention != dispatch.None {
				t.Errorf("job %d is %s %q when its platform is back", id, r.Status, r.Attention)
			}
		}
		again.stop()
	})
}

func TestDelete_HidesAndCancels(t *testing.T) {
	p := &script{}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		r := h.accept(t)
		wantKind(t, h.Delete(t.Context(), "bob", r.ID), dispatch.NotFound)
		if err := h.Delete(t.Context(), "ann", r.ID); err != nil {
			t.Fatal(err)
		}
		_, err := h.Read(t.Context(), "ann", r.ID, time.Second)
		wantKind(t, err, dispatch.NotFound)
		wantKind(t, h.Delete(t.Context(), "ann", r.ID), dispatch.NotFound)
		time.Sleep(time.Second)
		if p.cancels.Load() != 1 {
			t.Errorf("%d cancels", p.cancels.Load())
		}
	})
}
