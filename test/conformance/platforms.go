package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Link is one process's connection to a world. Pass is called when a request is sent and when its response arrives.
type Link struct {
	*World
	Process string
	Pass    func()
}

func (l Link) send(ctx context.Context, t dispatch.Token, name string, open *openRequest, effect func() error) error {
	late := ctx.Err() != nil // send it all the same: it is the broker that must not send late
	l.Pass()
	if !late && ctx.Err() != nil {
		return &dispatch.Error{Kind: dispatch.Unavailable, Op: "world", Text: "not sent in time", Err: ctx.Err()}
	}
	err := l.request(ctx, t, name, open, effect)
	l.Pass()
	return err
}

func (l Link) openRequest(t dispatch.Token) *openRequest {
	return &openRequest{l.Process, accountOf(t)}
}

// accountOf returns the account of a world's token.
func accountOf(t dispatch.Token) dispatch.Account {
	name, _, _ := strings.Cut(t.Secret.Reveal(), "#")
	return dispatch.Account(name)
}

// Tokens provides tokens for a world, and fails sometimes.
type Tokens struct{ Link }

// Token implements [dispatch.Tokens].
func (l Tokens) Token(_ context.Context, a dispatch.Account) (dispatch.Token, error) {
	l.Pass()
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.rand("token " + string(a)); r.IntN(300) < l.Mean && time.Now().Before(l.Calm) {
		kind := []dispatch.Kind{dispatch.Unavailable, dispatch.Unavailable, dispatch.SignInRequired,
			dispatch.Misconfigured}[r.IntN(4)]
		return dispatch.Token{}, &dispatch.Error{Kind: kind, Op: "world", Text: "no token"}
	}
	return dispatch.Token{Secret: secret(a, l.tokens[a])}, nil
}

// Invalidate implements [dispatch.Tokens].
func (l Tokens) Invalidate(a dispatch.Account, t dispatch.Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.Secret == secret(a, l.tokens[a]) {
		l.tokens = with(l.tokens, a, l.tokens[a]+1)
	}
}

func secret(a dispatch.Account, n int) dispatch.Secret {
	return dispatch.Secret(fmt.Sprintf("%s#%d", a, n))
}

// Base returns the namespace of a service as its base.
func (Link) Base(s dispatch.Service) (string, error) {
	if s.Namespace == nil {
		return "", nil
	}
	return *s.Namespace, nil
}

func baseOf(s dispatch.Submission) string {
	base, _ := Link{}.Base(s.Service)
	return base
}

// Status returns the reported status of a run; it may report once that a running job has failed.
func (l Link) Status(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (dispatch.Report, error) {
	var r dispatch.Report // read only if the response arrives: the request may take effect later
	err := l.send(ctx, t, "status "+ref.ID, nil, func() error {
		run := l.find(accountOf(t), ref)
		if run == nil || time.Since(run.Created) < run.hidden || run.seen() == "" {
			return &dispatch.Error{Kind: dispatch.NotFound, Op: "world"}
		}
		r.Status = run.seen()
		if r.Status == dispatch.Running && run.falters {
			r.Status, run.falters = dispatch.Failed, false
		} else {
			l.bill(run, &r)
		}
		if r.Status == dispatch.Failed && run.work%2 == 0 {
			r.Message = "connection reset by peer" // what a job with Job.Retries is retried after
		}
		return nil
	})
	if err != nil {
		return dispatch.Report{}, err
	}
	return r, nil
}

// bill adds to the report of a run what it cost.
func (l Link) bill(run *Run, r *dispatch.Report) {
	if l.Costs == 0 {
		return
	}
	r.Unit = "credits"
	if r.Status.Final() && len(run.Starts) > 0 && time.Since(run.Starts[0]) >= run.queue+run.work+l.Billing {
		costs := l.Costs
		r.Costs = &costs
	}
}

// Results returns a collection that names the run.
func (l Link) Results(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (json.RawMessage, error) {
	var c json.RawMessage
	err := l.send(ctx, t, "results "+ref.ID, nil, func() error {
		run := l.find(accountOf(t), ref)
		if run == nil || run.seen() != dispatch.Finished {
			return &dispatch.Error{Kind: dispatch.Conflict, Op: "world", Text: "It has not finished."}
		}
		c = collection(ref)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func collection(ref dispatch.Ref) []byte {
	return fmt.Appendf(nil, `{"type":"Collection","id":%q}`, ref.ID)
}

func (l Link) cancel(ctx context.Context, t dispatch.Token, ref dispatch.Ref) error {
	return l.send(ctx, t, "cancel "+ref.ID, l.openRequest(t), func() error {
		run := l.find(accountOf(t), ref)
		if run == nil {
			return &dispatch.Error{Kind: dispatch.NotFound, Op: "world"}
		}
		if s := run.at(time.Now()); s == dispatch.Accepted || run.Active(time.Now()) {
			run.Stopped = time.Now()
		}
		run.Dropped = true
		l.trace("cancel %s", ref.ID)
		return nil
	})
}

// recordLearned records what the process learned.
func (l Link) recordLearned(ref dispatch.Ref, step dispatch.SubmitResult) (dispatch.SubmitResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs {
		if r.Ref == ref {
			r.Known, r.KnownTo = time.Now(), l.Process
		}
	}
	return step, nil
}

func (l Link) list(ctx context.Context, t dispatch.Token, base string) iter.Seq2[dispatch.Listed, error] {
	return func(yield func(dispatch.Listed, error) bool) {
		if l.NoList {
			yield(dispatch.Listed{}, &dispatch.Error{Kind: dispatch.Unsupported, Op: "world"})
			return
		}
		var page []dispatch.Listed
		err := l.send(ctx, t, "list "+base, nil, func() error {
			page = l.page(accountOf(t), base)
			return nil
		})
		if err != nil {
			yield(dispatch.Listed{}, err)
			return
		}
		for i, listed := range page {
			if i >= len(page)/2 && l.breaksOff() {
				yield(dispatch.Listed{}, &dispatch.Error{Kind: dispatch.Unavailable, Op: "world",
					Text: "no more pages"})
				return
			}
			if !yield(listed, nil) {
				return
			}
		}
	}
}

func (l Link) page(a dispatch.Account, base string) (page []dispatch.Listed) {
	for _, run := range l.runs {
		s := run.seen()
		if run.Account == a && run.Ref.Base == base && s != "" && !run.Sync && time.Since(run.Created) >= run.hidden+
			run.lag/4 {
			page = append(page, dispatch.Listed{Ref: run.Ref, Tag: run.Tag, Report: l.listed(s)})
		}
	}
	return page
}

// listed is the report of a run in a listing, which does not say what it cost.
func (l Link) listed(s dispatch.Status) dispatch.Report {
	r := dispatch.Report{Status: s, Partial: l.Costs > 0}
	if l.Costs > 0 {
		r.Unit = "credits"
	}
	return r
}

// TwoStep creates, then starts, like openEO.
type TwoStep struct{ Link }

func (TwoStep) TwoStep() bool { return true }

func (p TwoStep) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	if s.Ref == (dispatch.Ref{}) {
		return p.make(ctx, t, s)
	}
	err := p.send(ctx, t, "start "+s.Ref.ID, p.openRequest(t), func() error {
		run := p.find(accountOf(t), s.Ref)
		if run == nil || run.at(time.Now()) == "" {
			return &dispatch.Error{Kind: dispatch.NotFound, Op: "world"}
		}
		return p.start(run)
	})
	return dispatch.SubmitResult{Ref: s.Ref, Started: err == nil}, err
}

func (p TwoStep) make(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	var ref dispatch.Ref
	err := p.send(ctx, t, "create "+s.Tag, p.openRequest(t), func() error {
		ref = p.create(accountOf(t), baseOf(s), s.Tag).Ref
		return nil
	})
	if err != nil { // the request may still take effect, so its result is not shown to the caller
		return dispatch.SubmitResult{}, err
	}
	return p.recordLearned(ref, dispatch.SubmitResult{Ref: ref})
}

func (p TwoStep) List(ctx context.Context, t dispatch.Token, base string) iter.Seq2[dispatch.Listed, error] {
	return p.list(ctx, t, base)
}

func (p TwoStep) Cancel(ctx context.Context, t dispatch.Token, ref dispatch.Ref) error {
	return p.cancel(ctx, t, ref)
}

// OneStep executes at once and cannot report what it accepted, like most OGC API - Processes servers. Some jobs are
// complete in the response.
type OneStep struct{ Link }

func (OneStep) TwoStep() bool { return false }

func (p OneStep) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	var ref dispatch.Ref
	var step dispatch.SubmitResult
	err := p.send(ctx, t, "execute "+s.Tag, p.openRequest(t), func() error {
		a := accountOf(t)
		if p.full(a) {
			return &dispatch.Error{Kind: dispatch.Busy, Op: "world", Text: "503 with Retry-After",
				RetryAfter: time.Minute}
		}
		run := p.create(a, baseOf(s), s.Tag)
		ref, step = run.Ref, dispatch.SubmitResult{Ref: run.Ref, Started: true}
		if p.rand("sync "+s.Tag).IntN(8) == 0 {
			run.Sync, run.queue, run.work, run.fails = true, 0, 0, false
			step = dispatch.SubmitResult{Result: collection(ref)}
		}
		return p.start(run)
	})
	if err != nil {
		return dispatch.SubmitResult{}, err
	}
	return p.recordLearned(ref, step)
}

func (p OneStep) Cancel(ctx context.Context, t dispatch.Token, ref dispatch.Ref) error {
	return p.cancel(ctx, t, ref)
}

// Echoing is a one-step platform whose listing contains tags.
type Echoing struct{ OneStep }

func (p Echoing) List(ctx context.Context, t dispatch.Token, base string) iter.Seq2[dispatch.Listed, error] {
	return p.list(ctx, t, base)
}

// Minimal is a one-step platform that can neither list nor cancel.
type Minimal struct{ Link }

func (Minimal) TwoStep() bool { return false }

func (p Minimal) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	return OneStep(p).Submit(ctx, t, s)
}
