package visit

import (
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// jobOutcome is an outcome with the job as it was when the request was sent.
type jobOutcome struct {
	job dispatch.Job
	dispatch.Outcome
}

// stepKind is what a step requests from the platform.
type stepKind int

const (
	stepStatus       stepKind = iota // read the status of one job
	stepSubmit                       // create or start one job; its intent must be committed before it is sent
	stepList                         // read a listing that covers all jobs of the step
	stepNotListed                    // send nothing: the platform cannot list, so a create in doubt counts as not found
	stepCancel                       // cancel one job
	stepCancelOrphan                 // cancel the first orphan of one job
	stepMeter                        // read what a run of one job that has ended cost
	stepRemove                       // remove a platform job of one job that has ended
	// send nothing: the job was created and not started, and the platform cannot remove it
	stepLeaveInert
)

// step is one request to the platform with its jobs: one job, or for stepList several jobs below one base.
type step struct {
	kind   stepKind
	jobs   []dispatch.Job
	others int  // stepSubmit: jobs of the account that run at the platform
	run    *run // stepSubmit: begun if the response is the results; set when the step is sent
}

func one(kind stepKind, j dispatch.Job) step { return step{kind: kind, jobs: []dispatch.Job{j}} }

func (s step) submits() bool { return s.kind == stepSubmit }

func (v *visit) stepFor(ctx context.Context, c class, j dispatch.Job) (step, error) {
	lists := c != classCancel && j.Phase == dispatch.Creating && v.listable(j.Base)
	if !lists && (c == classPoll || c == classAwaited) && !v.mustReadSingly(j) {
		var err error
		if lists, err = v.listingPays(ctx, j.Base); err != nil {
			return step{}, err
		}
	}
	if lists {
		return v.listing(ctx, j)
	}
	return v.singleStep(c, j), nil
}

func (v *visit) singleStep(c class, j dispatch.Job) step {
	switch {
	case c == classMeter:
		return one(stepMeter, j)
	case c == classRemove:
		return one(stepRemove, j)
	case c == classCancel, j.Overdue():
		return one(v.cancelKind(j), j)
	case j.Phase == dispatch.Waiting || j.Phase == dispatch.Created:
		s := one(stepSubmit, j)
		s.others = v.agenda.Active + v.visits.runs.count(v.backend.Name)
		return s
	case j.Phase == dispatch.Creating:
		return one(stepNotListed, j)
	}
	return one(stepStatus, j)
}

// cancelKind returns the step that cancels j. Orphans come first. After a cancel that failed the status is read before
// the next attempt, because the job may have ended.
func (v *visit) cancelKind(j dispatch.Job) stepKind {
	_, can := v.backend.Platform.(dispatch.Canceler)
	switch {
	case len(j.Orphans) > 0 && (can || j.Phase == dispatch.Ended || j.Phase == dispatch.Waiting):
		return stepCancelOrphan
	case j.Desired != dispatch.WantCancel && !j.Overdue(), j.Tries%2 == 1 && j.Attention != dispatch.SetAside,
		j.Attention == dispatch.CancelUnsupported:
		return stepStatus
	case !can && j.Phase == dispatch.Created:
		return stepLeaveInert
	}
	return stepCancel
}

// outcome returns an outcome of a step for one of its jobs, without a response.
func (k stepKind) outcome(j dispatch.Job) dispatch.Outcome {
	o := dispatch.Outcome{Attempt: j.Attempt, Epoch: j.Epoch}
	switch k {
	case stepSubmit:
		o.Asked = dispatch.AskSubmit
	case stepCancel, stepLeaveInert:
		o.Asked = dispatch.AskCancel
	case stepCancelOrphan:
		o.Asked, o.Ref = dispatch.AskOrphan, j.Orphans[0]
	case stepMeter:
		o.Asked, o.Ref = dispatch.AskMeter, j.FirstUnmetered().Ref
	case stepRemove:
		o.Asked, o.Ref = dispatch.AskRemove, j.RemovableRef()
	default:
		if o.Asked, o.Ref = dispatch.AskStatus, j.Ref; k != stepStatus && j.Phase == dispatch.Creating {
			o.Asked = dispatch.AskSearch
		}
	}
	return o
}

// perform sends the request of a step and returns the outcome for each job. Apart from the comparison after a restore,
// it is the only place where a visit sends requests about jobs to the platform. If the adapter panics, the outcome of
// the request is unknown for every job.
func (v *visit) perform(ctx context.Context, t dispatch.Token, s step) (outcomes []jobOutcome) {
	if op := s.op(); op != "" {
		begun := time.Now()
		traced, end := v.visits.Tracing().Step(ctx, v.backend.Name, op, s.jobs)
		ctx = traced
		defer func() {
			v.observeRequest(op, time.Since(begun), outcomes)
			end(firstError(outcomes))
		}()
	}
	var panicked error
	defer func() {
		if panicked != nil {
			outcomes = s.failed(panicked)
		}
	}()
	defer dispatch.RecoverAsError(ctx, v.visits.Log, "dispatch.visit: ask "+v.backend.Name, &panicked)

	j := s.jobs[0]
	o := s.kind.outcome(j)
	switch s.kind {
	case stepList:
		return v.list(ctx, t, j.Base, s.jobs)
	case stepSubmit:
		o = v.submit(ctx, t, s, o)
	case stepStatus:
		o.Report, o.Err = v.backend.Platform.Status(ctx, t, j.Ref)
		v.visits.listings.read(baseOf{v.backend.Name, j.Base}, o.Err, time.Now(), v.timing.Recheck)
	case stepNotListed:
		o.Repeat = v.mayRepeat()
	case stepCancel:
		o.Err = v.cancel(ctx, t, j.Ref)
	case stepCancelOrphan:
		o.Err = v.cancel(ctx, t, o.Ref)
	case stepMeter:
		o.Report, o.Err = v.backend.Platform.Status(ctx, t, o.Ref)
	case stepRemove:
		o.Err = v.remove(ctx, t, o.Ref)
	}
	return []jobOutcome{{j, o}}
}

func (v *visit) observeRequest(op string, took time.Duration, outcomes []jobOutcome) {
	if slices.ContainsFunc(outcomes, func(o jobOutcome) bool { return o.Unsent }) {
		return
	}
	for _, o := range outcomes {
		v.visits.Observing().JobAsked(o.job, op, took, o.Err)
	}
	v.visits.Observing().RequestEnded(v.backend.Name, op, took, firstError(outcomes))
}

func firstError(outcomes []jobOutcome) error {
	for _, o := range outcomes {
		if o.Err != nil {
			return o.Err
		}
	}
	return nil
}

// op names the request of a step for the observer; "" if the step sends none.
func (s step) op() string {
	switch s.kind {
	case stepList:
		return "list"
	case stepStatus, stepMeter:
		return "status"
	case stepCancel, stepCancelOrphan:
		return "cancel"
	case stepRemove:
		if s.jobs[0].RemovableRef() != (dispatch.Ref{}) {
			return "remove"
		}
	case stepSubmit:
		if s.jobs[0].Ref != (dispatch.Ref{}) {
			return "start"
		}
		return "create"
	}
	return ""
}

// submit creates or starts a job at the platform. o is the outcome without the response.
func (v *visit) submit(ctx context.Context, t dispatch.Token, step step, o dispatch.Outcome) dispatch.Outcome {
	j := step.jobs[0]
	var r dispatch.Request
	var err error
	if o.Others = step.others; j.Ref == (dispatch.Ref{}) { // a start needs no more than the ref
		r, err = v.visits.Store.Request(ctx, j.ID)
	}
	if err != nil {
		o.Unsent, o.Err = true, &dispatch.Error{Kind: dispatch.Unavailable, Op: "dispatch.submit",
			Text: "The request could not be read from the database.", Err: err}
		return o
	}
	definition, err := v.visits.Documents.Definition(ctx, j, r)
	if err != nil {
		o.Unsent, o.Err = dispatch.Is(err, dispatch.Unavailable), err
		return o
	}
	s, err := v.backend.Platform.Submit(ctx, t, dispatch.Submission{Tag: j.Tag(v.visits.Installation), Ref: j.Ref,
		Request: r, Definition: definition, Runs: step.run.begin})
	if err == nil && s.Ref == (dispatch.Ref{}) && s.Result == nil {
		err = &dispatch.Error{Kind: dispatch.BadUpstream, Op: "dispatch.submit", Text: "The response of the " +
			"platform does not name the job."}
	}
	o.Ref, o.Started, o.Result, o.Versions, o.Err = s.Ref, s.Started, s.Result, s.Versions, err
	return o
}

// distinct returns the outcome of a request about j, or if that created a platform job whose identifier the platform
// has given to another job of the account, the outcome that says so. The other job is in the database, or in seen: the
// jobs of identifiers that were checked before and may not be saved yet, to which it adds j.
func (vs *Visits) distinct(ctx context.Context, seen map[dispatch.Ref]dispatch.JobID, a dispatch.Account,
	j dispatch.Job, o dispatch.Outcome) (dispatch.Outcome, error) {
	if o.Asked != dispatch.AskSubmit || o.Ref == (dispatch.Ref{}) || o.Ref == j.Ref {
		return o, nil
	}
	holder, known := seen[o.Ref]
	if !known {
		var err error
		if holder, err = vs.Store.RefHolder(ctx, a, o.Ref); err != nil {
			return o, err
		}
	}
	if holder != 0 && holder != j.ID {
		return o.OfAnother(), nil
	}
	seen[o.Ref] = j.ID
	return o, nil
}

func (v *visit) cancel(ctx context.Context, t dispatch.Token, r dispatch.Ref) error {
	c, can := v.backend.Platform.(dispatch.Canceler)
	if !can {
		return &dispatch.Error{Kind: dispatch.Unsupported, Op: "dispatch.cancel",
			Text: "This platform cannot cancel jobs."}
	}
	return c.Cancel(ctx, t, r)
}

// mayRepeat reports whether a create that a listing does not show may be repeated.
func (v *visit) mayRepeat() bool { return v.backend.Platform.TwoStep() || v.backend.AtLeastOnce }

// failed returns the outcome for each job of a step whose request got no response because of err.
func (s step) failed(err error) (outcomes []jobOutcome) {
	for _, j := range s.jobs {
		o := s.kind.outcome(j)
		o.Panicked, o.Err = true, err
		outcomes = append(outcomes, jobOutcome{j, o})
	}
	return outcomes
}

// unsent returns the outcome of a step that was not sent. Only a submission has one, which takes its intent back. If
// the store did not confirm the intent, it may nevertheless have been committed, under a lease of that generation;
// otherwise lease is 0.
func (s step) unsent(lease int64, text string) []jobOutcome {
	if !s.submits() {
		return nil
	}
	j := s.jobs[0]
	intended := j
	if lease != 0 {
		intended = j.Intend(time.Time{})
	}
	o := s.kind.outcome(intended)
	o.Unsent, o.Lease = true, lease
	o.Err = &dispatch.Error{Kind: dispatch.Unavailable, Op: "dispatch.send", Text: text}
	return []jobOutcome{{j, o}}
}

func (v *visit) remove(ctx context.Context, t dispatch.Token, r dispatch.Ref) error {
	if r == (dispatch.Ref{}) { // the job never got to its platform
		return nil
	}
	remover, can := v.backend.Platform.(dispatch.Remover)
	if !can {
		return &dispatch.Error{Kind: dispatch.Unsupported, Op: "dispatch.remove",
			Text: "This platform cannot remove jobs."}
	}
	return remover.Remove(ctx, t, r)
}
