package conformance

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// World simulates what really happens at a platform: its jobs, and the requests on their way to it, which take effect
// whatever happens to their sender. The fate of a request depends only on the seed, on its name, and on how many
// requests of that name came before, so a history can be replayed.
type World struct {
	Seed   uint64
	Mean   int       // percentage of requests that go wrong
	Calm   time.Time // from then on none does
	Slots  int       // concurrent jobs of an account; 0: no limit
	Limit  int       // concurrent jobs of an account that the broker must never exceed; 0: none
	NoList bool      // listing is not supported, which shows when it is tried

	Costs   float64       // of each run that ends, in credits; 0: the platform does not charge
	Billing time.Duration // after the end of a run its costs are reported

	Lag time.Duration // maximum delay of statuses, which a third of the runs have; 0: 15 minutes

	Violated func(format string, args ...any) // reports a violated promise

	mu     sync.Mutex
	runs   []*Run
	counts map[string]int
	open   []*openRequest
	tokens map[dispatch.Account]int // the newest token of each account
	bad    map[dispatch.Secret]bool // tokens that are no longer accepted
	Trace  func(format string, args ...any)
}

// Run is one job at the platform.
type Run struct {
	Ref     dispatch.Ref
	Tag     string
	Account dispatch.Account
	Created time.Time
	Starts  []time.Time // starts that had an effect
	Stopped time.Time   // when it was canceled, or removed before it was started
	Known   time.Time   // when a process received its ref
	KnownTo string
	Dropped bool // a cancel has reached it, with or without effect
	Sync    bool // it was complete in the response; the response is its result, and nothing else reports it

	queue, work, lag, hidden time.Duration
	fails                    bool
	falters                  bool // it reports once that it has failed, and then continues
}

type openRequest struct {
	process string
	account dispatch.Account
}

func (w *World) rand(name string) *rand.Rand {
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.counts[name]++
	h := fnv.New64a()
	fmt.Fprint(h, name, w.counts[name])
	return rand.New(rand.NewPCG(w.Seed, h.Sum64()))
}

// Runs returns all runs, for checks at the end.
func (w *World) Runs() []Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	var runs []Run
	for _, r := range w.runs {
		runs = append(runs, *r)
	}
	return runs
}

func (w *World) create(a dispatch.Account, base, tag string) *Run {
	r := w.rand("run " + tag)
	run := &Run{
		Ref: dispatch.Ref{Base: base, ID: fmt.Sprintf("p%d", len(w.runs)+1)}, Tag: tag, Account: a, Created: time.Now(),
		queue: upTo(r, time.Minute), work: upTo(r, 5*time.Minute), fails: r.IntN(10) == 0, falters: r.IntN(5) == 0,
	}
	if r.IntN(3) == 0 {
		run.lag = upTo(r, cmp.Or(w.Lag, 15*time.Minute))
	}
	if r.IntN(4) == 0 {
		run.hidden = upTo(r, min(30*time.Second, cmp.Or(w.Lag, time.Hour)))
	}
	w.runs = append(w.runs, run)
	w.trace("create %s %s", run.Ref.ID, tag)
	return run
}

func (w *World) start(run *Run) error {
	if w.full(run.Account) {
		return &dispatch.Error{Kind: dispatch.Busy, Op: "world", Text: "ConcurrentJobLimit"}
	}
	run.Starts = append(run.Starts, time.Now())
	if n := w.active(run.Account); w.Limit > 0 && n > w.Limit {
		w.Violated("%s has %d jobs at once, and may have %d", run.Account, n, w.Limit)
	}
	w.trace("start %s %s", run.Ref.ID, run.Tag)
	return nil
}

// full reports whether an account has reached its limit of active jobs.
func (w *World) full(a dispatch.Account) bool {
	return w.Slots > 0 && w.active(a) >= w.Slots
}

func (w *World) active(a dispatch.Account) (n int) {
	for _, r := range w.runs {
		if r.Account == a && r.Active(time.Now()) {
			n++
		}
	}
	return n
}

func (w *World) trace(format string, args ...any) {
	if w.Trace != nil {
		w.Trace(format, args...)
	}
}

func (w *World) find(a dispatch.Account, ref dispatch.Ref) *Run {
	i := slices.IndexFunc(w.runs, func(r *Run) bool { return r.Ref == ref && r.Account == a })
	if i < 0 {
		return nil
	}
	return w.runs[i]
}

// at returns the status of a run at t; "" if it was removed.
func (r *Run) at(t time.Time) dispatch.Status {
	started := len(r.Starts) > 0 && !t.Before(r.Starts[len(r.Starts)-1])
	stopped := !r.Stopped.IsZero() && !t.Before(r.Stopped)
	switch {
	case stopped && !started:
		return ""
	case stopped:
		return dispatch.Canceled
	case !started:
		return dispatch.Accepted
	}
	return r.after(t.Sub(r.Starts[len(r.Starts)-1]))
}

func (r *Run) after(d time.Duration) dispatch.Status {
	switch {
	case d < r.queue:
		return dispatch.Queued
	case d < r.queue+r.work:
		return dispatch.Running
	case r.fails:
		return dispatch.Failed
	}
	return dispatch.Finished
}

// Active reports whether a run holds a slot at t.
func (r *Run) Active(t time.Time) bool {
	s := r.at(t)
	return s == dispatch.Queued || s == dispatch.Running
}

// seen returns the status that the platform reports, which may lag.
func (r *Run) seen() dispatch.Status {
	if t := time.Now().Add(-r.lag); t.After(r.Created) {
		return r.at(t)
	}
	return dispatch.Accepted
}

func with[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[k] = v
	return m
}

func upTo(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(max(int64(d), 1)))
}

// fault is the fate of one request.
type fault struct {
	to, back time.Duration // times until the effect, and from there to the response
	none     bool          // no effect
	lost     bool          // the response is lost
	cut      bool          // the connection is cut before the effect
	refused  bool          // the token is refused
	err      *dispatch.Error
}

func (w *World) fault(name string, patience time.Duration) fault {
	r := w.rand(name)
	f := fault{to: time.Millisecond + upTo(r, 200*time.Millisecond), back: upTo(r, 200*time.Millisecond)}
	if r.IntN(100) >= w.Mean || !time.Now().Before(w.Calm) {
		return f
	}
	switch r.IntN(8) {
	case 0: // answer lost after the effect
		f.lost = true
	case 1: // lost on the way, or under way for longer than we wait
		f.lost, f.none, f.to = true, r.IntN(2) == 0, upTo(r, patience+4*time.Second)
	case 2:
		f.none, f.err = true, &dispatch.Error{Kind: dispatch.Unavailable, Op: "world", Text: "connection refused"}
	case 3:
		f.none, f.err = true, &dispatch.Error{Kind: dispatch.Busy, Op: "world", Text: "429",
			RetryAfter: upTo(r, 2*time.Minute)}
	case 4:
		f.none, f.err = true, &dispatch.Error{Kind: dispatch.Uncertain, Op: "world", Text: "502 before the effect"}
	case 5:
		f.err = &dispatch.Error{Kind: dispatch.Uncertain, Op: "world", Text: "500 after the effect", Answered: true}
	case 6: // cut off, and the effect comes later than our knowing
		f.err = &dispatch.Error{Kind: dispatch.Uncertain, Op: "world", Text: "cut off"}
		f.to, f.cut = upTo(r, patience), true
	case 7:
		f.refused = true
	}
	return f
}

// breaksOff reports whether a listing breaks off.
func (w *World) breaksOff() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand("page").IntN(100) < w.Mean && time.Now().Before(w.Calm)
}

// request delivers a request to the platform and returns its response. A token that was refused once is never accepted
// again.
func (w *World) request(ctx context.Context, t dispatch.Token, name string, open *openRequest,
	effect func() error) error {
	deadline, _ := ctx.Deadline()
	w.mu.Lock()
	f := w.fault(name, time.Until(deadline))
	if f.refused || w.bad[t.Secret] {
		w.bad = with(w.bad, t.Secret, true)
		f.none, f.lost, f.cut, f.err = true, false, false, &dispatch.Error{Kind: dispatch.SignInRequired, Op: "world",
			Text: "401"}
	}
	w.requestBegan(open)
	w.mu.Unlock()
	answer := make(chan error, 1)
	time.AfterFunc(f.to, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.requestEnded(open)
		var err error
		if !f.none {
			err = effect()
		}
		if f.err != nil {
			err = f.err
		}
		if !f.lost && !f.cut {
			time.AfterFunc(f.back, func() { answer <- err })
		}
	})
	if f.cut { // the sender sees a failure; the request may still arrive, which the broker has to settle
		time.Sleep(f.to / 2)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.requestEnded(open)
		return f.err
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		time.Sleep(f.back) // requests with the same deadline do not all end at one instant
		return &dispatch.Error{Kind: dispatch.Uncertain, Op: "world", Text: "no answer", Err: ctx.Err()}
	}
}

// requestBegan and requestEnded check that two processes never have requests for one account under way at once.
func (w *World) requestBegan(open *openRequest) {
	for _, other := range w.open {
		if open != nil && other.account == open.account && other.process != open.process {
			w.Violated("requests of %s and %s for %s overlap", other.process, open.process, open.account)
		}
	}
	if open != nil {
		w.open = append(w.open, open)
	}
}

func (w *World) requestEnded(open *openRequest) {
	w.open = slices.DeleteFunc(w.open, func(f *openRequest) bool { return f == open })
}
