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

// World is what really happens at a platform: its jobs, and requests on their way to it, which take effect whatever
// becomes of who sent them. What it does to a request depends only on the seed and on the how-manieth of its name the
// request is, so that a history can be played again.
type World struct {
	Seed   uint64
	Mean   int       // how many in a hundred requests go wrong
	Calm   time.Time // from when on none does
	Slots  int       // jobs an account may have at once; 0: no limit
	Limit  int       // jobs an account must never have at once, for the broker knows better; 0: none
	NoList bool      // that jobs cannot be listed turns out when they are to be

	Lag time.Duration // how far behind statuses are at most, as those of a third of the runs; 0: 15 minutes

	Violated func(format string, args ...any) // says what must never happen

	mu     sync.Mutex
	runs   []*Run
	counts map[string]int
	open   []*openRequest
	tokens map[dispatch.Account]int // the newest of each account
	bad    map[dispatch.Secret]bool // tokens that are not taken any more
	Trace  func(format string, args ...any)
}

// Run is one job at the platform.
type Run struct {
	Ref     dispatch.Ref
	Tag     string
	Account dispatch.Account
	Created time.Time
	Starts  []time.Time // that had an effect
	Stopped time.Time   // canceled, or removed when it was never started
	Told    time.Time   // when a process got to know its ref
	ToldTo  string
	Dropped bool // a cancel has reached it, whether or not there was something to stop
	Sync    bool // it was done when it was answered; the answer is its result, and nothing else ever tells of it

	queue, work, lag, hidden time.Duration
	fails                    bool
	falters                  bool // it will say once that it has failed, and then go on
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

// Runs gives what there is and was, for checks at the end.
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

// full reports whether an account has as many active jobs as it may.
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

// at is how a run stood at t. A run that was removed is "".
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

// Active reports whether a run takes a slot at t.
func (r *Run) Active(t time.Time) bool {
	s := r.at(t)
	return s == dispatch.Queued || s == dispatch.Running
}

// seen is how a run looks from outside: as it stood a while ago.
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

// fault is what happens to one request.
type fault struct {
	to, back time.Duration // until the effect, and from there to the answer
	none     bool          // it has no effect
	lost     bool          // its answer is
	cut      bool          // the connection is, before the effect
	refused  bool          // its token is
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
		f.none, f.err = true, &dispatch.Error{Kind: dispatch.Busy, Op: "world", Text: "429", RetryAfter: upTo(r, 2*time.Minute)}
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

// breaksOff reports whether a listing ends before its end.
func (w *World) breaksOff() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand("page").IntN(100) < w.Mean && time.Now().Before(w.Calm)
}

// request carries a request to the platform and its answer back. A token that was refused once is never taken again.
func (w *World) request(ctx context.Context, t dispatch.Token, name string, open *openRequest, effect func() error) error {
	deadline, _ := ctx.Deadline()
	w.mu.Lock()
	f := w.fault(name, time.Until(deadline))
	if f.refused || w.bad[t.Secret] {
		w.bad = with(w.bad, t.Secret, true)
		f.none, f.lost, f.cut, f.err = true, false, false, &dispatch.Error{Kind: dispatch.SignInRequired, Op: "world", Text: "401"}
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
	if f.cut { // for the sender it is over; that it may still arrive is for the settling to know
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
		time.Sleep(f.back) // requests with one deadline do not end at one instant
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
