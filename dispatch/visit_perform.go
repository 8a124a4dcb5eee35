package dispatch

import (
	"context"
	"time"
)

// answer is an outcome with the job as it was when the platform was asked.
type answer struct {
	job Job
	Outcome
}

// step is one request to the platform, and the jobs it is about.
type step struct {
	jobs   []Job
	ask    func(context.Context, Token, []Job) []answer
	submit bool // its intent must be committed before it is sent
}

// stepFor gives the step that j needs.
func (v *visit) stepFor(ctx context.Context, c class, j Job) (step, error) {
	searched := c != cancel && j.Phase == Creating && v.listable(j.Base)
	if searched || (c == learn || c == awaited) && !v.single(j) && v.listingPays(j.Base) {
		return v.listing(ctx, j)
	}
	return v.singleStep(c, j), nil
}

func (v *visit) singleStep(c class, j Job) step {
	switch {
	case c == cancel, j.overdue():
		return one(j, v.cancelOf(j))
	case j.Phase == Waiting || j.Phase == Created:
		others := v.agenda.Active
		s := one(j, func(ctx context.Context, t Token, j Job) Outcome {
			o := v.submit(ctx, t, j)
			o.Others = others
			return o
		})
		s.submit = true
		return s
	case j.Phase == Creating:
		return one(j, v.absent)
	}
	return one(j, v.status)
}

func one(j Job, ask func(context.Context, Token, Job) Outcome) step {
	return step{jobs: []Job{j}, ask: func(ctx context.Context, t Token, jobs []Job) []answer {
		j := jobs[0]
		o := ask(ctx, t, j)
		o.Attempt, o.Turn = j.Attempt, j.Turn
		return []answer{{j, o}}
	}}
}

// unsent is what is known of a step whose time was over before it was sent.
func (s step) unsent() []answer {
	if !s.submit {
		return nil
	}
	err := &Error{Kind: Unavailable, Op: "dispatch.send", Text: "The request was not sent in time."}
	j := s.jobs[0]
	return []answer{{j, Outcome{Asked: AskSubmit, Attempt: j.Attempt, Turn: j.Turn, Unsent: true, Err: err}}}
}

// takenBack is what is known of a step whose intent may have been committed under a lease, though the store did not say so:
// nothing was sent.
func (s step) takenBack(l Lease) []answer {
	err := &Error{Kind: Unavailable, Op: "dispatch.intend", Text: "Whether the intent was committed is not known; nothing was sent."}
	j := s.jobs[0]
	intended := j.Intend(time.Time{})
	return []answer{{j, Outcome{Asked: AskSubmit, Attempt: intended.Attempt, Turn: intended.Turn, Unsent: true, Lease: l.Generation, Err: err}}}
}

func (v *visit) submit(ctx context.Context, t Token, j Job) Outcome {
	r, err := v.broker.Store.Request(ctx, j.ID)
	if err != nil {
		return Outcome{Asked: AskSubmit, Unsent: true, Err: &Error{Kind: Unavailable, Op: "dispatch.submit", Text: "The request could not be read from the database.", Err: err}}
	}
	s, err := v.backend.Platform.Submit(ctx, t, Submission{Tag: j.Tag(v.broker.Installation), Ref: j.Ref, Request: r})
	if err == nil && s.Ref == (Ref{}) && s.Result == nil {
		err = &Error{Kind: BadUpstream, Op: "dispatch.submit", Text: "The platform named no job."}
	}
	return Outcome{Asked: AskSubmit, Ref: s.Ref, Started: s.Started, Result: s.Result, Err: err}
}

func (v *visit) status(ctx context.Context, t Token, j Job) Outcome {
	r, err := v.backend.Platform.Status(ctx, t, j.Ref)
	v.broker.listings.read(baseOf{v.backend.Name, j.Base}, err, time.Now())
	return Outcome{Asked: AskStatus, Ref: j.Ref, Report: r, Err: err}
}

// absent is the outcome of a search that found nothing.
func (v *visit) absent(_ context.Context, _ Token, j Job) Outcome { return v.notThere(j) }

// notThere is the outcome for a create that a listing does not show. Of a job that was set aside by [compared] the platform
// has an attempt that is not known here, so it is not sent again.
func (v *visit) notThere(j Job) Outcome {
	return Outcome{Asked: AskSearch, Repeat: v.backend.Platform.TwoStep() && j.Status != Unknown || v.backend.AtLeastOnce}
}

// cancelOf says how to cancel j, its strays first. A cancel that failed is followed by a look: the job may have ended.
func (v *visit) cancelOf(j Job) func(context.Context, Token, Job) Outcome {
	_, can := v.backend.Platform.(Canceler)
	switch {
	case len(j.Strays) > 0 && (can || j.Phase == Ended || j.Phase == Waiting):
		return v.cancelStray
	case j.Desired != WantCancel && !j.overdue(), j.Tries%2 == 1 && j.Attention != SetAside, j.Attention == CancelUnsupported:
		return v.status
	case !can && j.Phase == Created:
		return func(context.Context, Token, Job) Outcome { return Outcome{Asked: AskCancel} } // it is inert, and stays so
	}
	return v.cancel
}

func (v *visit) cancel(ctx context.Context, t Token, j Job) Outcome {
	return Outcome{Asked: AskCancel, Err: v.cancelRef(ctx, t, j.Ref)}
}

func (v *visit) cancelStray(ctx context.Context, t Token, j Job) Outcome {
	return Outcome{Asked: AskStray, Ref: j.Strays[0], Err: v.cancelRef(ctx, t, j.Strays[0])}
}

func (v *visit) cancelRef(ctx context.Context, t Token, r Ref) error {
	c, can := v.backend.Platform.(Canceler)
	if !can {
		return &Error{Kind: Unsupported, Op: "dispatch.cancel", Text: "This platform cannot cancel jobs."}
	}
	return c.Cancel(ctx, t, r)
}
