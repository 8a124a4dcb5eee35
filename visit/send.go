package visit

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// platformRequest is a step that is being sent: not before at, and not after deadline.
type platformRequest struct {
	step
	token        dispatch.Token
	refusals     int // visit.refusals when the step was taken
	at, deadline time.Time
	asked        time.Time     // when it is sent, in the store's time
	drift        time.Duration // see visit.leaseDrift
}

// platformResponse is a request that has ended, with its outcome for each job.
type platformResponse struct {
	platformRequest
	outcomes []jobOutcome
}

// nextSendTimeBefore is how long before the send time of a status read the visit requests the next one. It does not
// request that at once, so that accounts get send times one after the other. It requests it before the present one has
// come, so that a single account misses none.
const nextSendTimeBefore = 250 * time.Millisecond

// steps adds the most urgent steps, as many as Limits.Requests and the platform's rate allow.
func (v *visit) steps(ctx context.Context, t dispatch.Token) (steps []platformRequest, err error) {
	if v.visits.backlog.full() {
		v.resume = dispatch.Later(v.resume, time.Now().Add(dispatch.Repair))
	}
	for v.pending+len(steps) < v.backend.Limits.Requests && !time.Now().Before(v.resume) {
		j, c, any := v.queue.take(v.maySend)
		if !any {
			break
		}
		if v.busy[j.ID] || c == classSubmit && !v.maySubmit(j) {
			continue
		}
		send, err := v.reserveSendTime(ctx, c.purpose(), time.Time{})
		if err == nil && !send.Given {
			v.releaseGate(j.ID)
			continue
		}
		var s step
		if err == nil {
			s, err = v.stepFor(ctx, c, j)
		}
		if err != nil {
			v.releaseGate(j.ID)
			return steps, err
		}
		v.setBusy(s.jobs, true)
		v.noteRead(s)
		steps = append(steps, platformRequest{step: s, token: t, refusals: v.refusals, at: time.Now().Add(send.Wait)})
	}
	return steps, nil
}

// reserveSendTime requests the platform's next send time if it has a rate limit. If none is given, it records when to
// try again.
func (v *visit) reserveSendTime(ctx context.Context, p dispatch.Purpose, due time.Time) (dispatch.SendTime, error) {
	if v.backend.Limits.Pace == 0 {
		return dispatch.SendTime{Given: true}, nil
	}
	s, err := v.visits.Store.ReserveSendTime(ctx, dispatch.SendTimeRequest{Account: v.account,
		Pace:    v.backend.Limits.Pace,
		Purpose: p, Ahead: min(dispatch.SendTimeAhead, v.backend.Limits.Send/8), Due: due})
	switch {
	case err != nil:
	case !s.Given:
		v.noSendBefore[p] = time.Now().Add(s.Wait)
	case p == dispatch.Reading:
		v.noSendBefore[p] = time.Now().Add(s.Wait - nextSendTimeBefore)
	}
	v.queued = v.queued || p == dispatch.Reading && (s.Wait > 0 || !s.Given)
	return s, err
}

// maySend reports whether a send time may be available for a class of steps.
func (v *visit) maySend(c class) bool { return !time.Now().Before(v.noSendBefore[c.purpose()]) }

// begin commits the intents of all submissions, with outcomes of other jobs, in one transaction, and sends all
// requests. It sends none if the lease was lost. It returns the jobs that were written; nil if nothing was: without a
// submission it leaves the outcomes to the caller.
func (v *visit) begin(
	ctx context.Context, requests []platformRequest, received []jobOutcomes,
) (written map[dispatch.JobID]*dispatch.Job, err error) {
	if requests, err = v.saveAsFailed(ctx, requests); err != nil {
		return nil, err
	}
	written, err = v.intend(ctx, requests, received)
	for _, f := range requests {
		j, ok := written[f.jobs[0].ID]
		f.asked = v.now().Add(max(0, time.Until(f.at)))
		if f.submits() && err != nil && !dispatch.Is(err, dispatch.Conflict) {
			v.unsaved = append(v.unsaved, platformResponse{f, f.unsent(v.held.Generation,
				"Whether the intent was committed is not known; nothing was sent.")})
			continue
		}
		if dispatch.Is(err, dispatch.Conflict) || f.submits() && !ok {
			v.setBusy(f.jobs, false)
			continue
		}
		if f.submits() {
			f.jobs = []dispatch.Job{*j}
		}
		f.deadline, f.drift = v.deadline(), v.leaseDrift
		v.pending++
		go v.send(ctx, f)
	}
	return written, err
}

// saveAsFailed saves requests other than submissions as failed before they are sent, for an account whose visits keep
// ending in crashes. If one of them crashes the process, the next process does not begin with it. The response replaces
// the saved failure.
func (v *visit) saveAsFailed(ctx context.Context, requests []platformRequest) ([]platformRequest, error) {
	if !v.careful {
		return requests, nil
	}
	err := &dispatch.Error{Kind: dispatch.Internal, Op: "dispatch.visit",
		Text: "The broker may have crashed during this request."}
	var asked []dispatch.Job
	for _, f := range requests {
		for _, a := range f.failed(err) {
			if !f.submits() {
				a.Timing = v.timing
				asked = append(asked, dispatch.Next(a.job, a.Outcome, v.now()))
			}
		}
	}
	if len(asked) == 0 {
		return requests, nil
	}
	saved, failed := v.visits.Store.Save(ctx, asked)
	current := byID(saved)
	var kept []platformRequest
	for _, f := range requests {
		if !f.submits() {
			f.jobs = v.unchangedJobs(f.jobs, current)
		}
		switch {
		case failed != nil:
			v.setBusy(f.jobs, false)
		case len(f.jobs) > 0:
			kept = append(kept, f)
		}
	}
	return kept, failed
}

// unchangedJobs returns the jobs of a request that were saved, in their stored state. The others have changed meanwhile
// and are handled in a later iteration.
func (v *visit) unchangedJobs(jobs []dispatch.Job, current map[dispatch.JobID]*dispatch.Job) (kept []dispatch.Job) {
	for _, j := range jobs {
		if now, saved := current[j.ID]; saved {
			kept = append(kept, *now)
		} else {
			v.setBusy([]dispatch.Job{j}, false)
		}
	}
	return kept
}

func (v *visit) intend(
	ctx context.Context, requests []platformRequest, received []jobOutcomes,
) (map[dispatch.JobID]*dispatch.Job, error) {
	var jobs []dispatch.Job
	for _, f := range requests {
		if f.submits() {
			j := v.tagged(f.jobs[0]).ExcludeWait(v.submittableSince(f.jobs[0]), v.now())
			j.IntentLease = v.held.Generation
			jobs = append(jobs, j)
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	now, drift, outcomes := time.Now(), v.drift(), v.results(received)
	kept, err := v.visits.Store.Intend(ctx, v.held, v.backend.Limits, jobs, outcomes...)
	if err != nil {
		v.uncertain = true
		return nil, err
	}
	written := byID(kept)
	v.notifyBudgets(jobs, written)
	v.lease, v.leaseDrift, v.submitted = now.Add(v.backend.Limits.Lease()), drift, true
	return written, nil
}

// notifyBudgets signals the owners of jobs that were kept back, perhaps by the budgets of their tasks, because these
// tasks may have changed.
func (v *visit) notifyBudgets(jobs []dispatch.Job, written map[dispatch.JobID]*dispatch.Job) {
	for _, j := range jobs {
		if _, submitted := written[j.ID]; j.Budgeted && !submitted {
			v.visits.Hub.NotifyUser(j.Owner)
		}
	}
}

// submittableSince returns the time from which on a job could have been submitted if a slot had been free: when it
// became due or, if the platform turned submissions away, when the hold of the account ended, whichever is later.
func (v *visit) submittableSince(j dispatch.Job) time.Time {
	if v.agenda.Why == dispatch.NotTaken || v.agenda.Why == dispatch.Unreachable {
		return dispatch.Later(j.Due, v.agenda.Hold)
	}
	return j.Due
}

// deadline returns the deadline of a request that starts now. It lies before the send deadline that was committed with
// the intent, and before the end of the lease.
func (v *visit) deadline() time.Time {
	return v.lease.Add(-v.backend.Limits.Lease() + v.backend.Limits.Send)
}

// send sends the request of a step. A request that was started runs to its response or its deadline even if the process
// stops, because the outcome of an interrupted submission is unknown. If the process was suspended past the deadline,
// nothing is sent.
func (v *visit) send(ctx context.Context, f platformRequest) {
	time.Sleep(time.Until(f.at))
	ctx, cancel := context.WithDeadline(ctx, f.deadline)
	defer cancel()
	if ctx.Err() != nil || v.suspendedPastDeadline(f) {
		v.responses <- platformResponse{f, f.unsent(0, "The request was not sent in time.")}
		return
	}
	f.run = &run{visit: v, request: f}
	f.run.end(v.perform(ctx, f.token, f.step))
}

// drift returns how far the wall clock has advanced beyond the monotonic clock since the visit began. On Linux the
// monotonic clock stops while the machine is suspended.
func (v *visit) drift() time.Duration {
	wall := time.Now
	if v.visits.Wall != nil {
		wall = v.visits.Wall
	}
	return wall().Round(0).Sub(v.begun.Round(0)) - time.Since(v.begun)
}

// suspendedPastDeadline reports whether the machine was suspended past the deadline of a request since its lease was
// renewed.
func (v *visit) suspendedPastDeadline(f platformRequest) bool {
	lost := v.drift() - f.drift
	return lost > 0 && time.Now().Add(lost).After(f.deadline)
}

// tagged adds the random part of the next attempt, which [dispatch.Job.Intend] begins, to a job that is about to be
// created. It returns any other job unchanged.
func (v *visit) tagged(j dispatch.Job) dispatch.Job {
	if j.Phase != dispatch.Waiting {
		return j
	}
	nonce := v.visits.Nonce
	if nonce == nil {
		nonce = dispatch.NewNonce
	}
	j.Nonces = j.Nonces.With(j.Attempt+1, nonce(j))
	return j
}

// AwaitSendTime waits for the platform's next send time.
func (vs *Visits) AwaitSendTime(ctx context.Context, backend *dispatch.Backend, a dispatch.Account) error {
	if backend.Limits.Pace == 0 {
		return nil
	}
	s, err := vs.Store.ReserveSendTime(ctx, dispatch.SendTimeRequest{Account: a, Pace: backend.Limits.Pace,
		Purpose: dispatch.Calling,
		Ahead:   dispatch.EnterWithin})
	switch {
	case err != nil:
		return err
	case !s.Given:
		return &dispatch.Error{Kind: dispatch.Busy, Op: "dispatch.awaitSendTime",
			Text: "The platform's rate limit is reached. Repeat the request later.", RetryAfter: max(s.Wait,
				time.Second)}
	}
	if err := dispatch.Sleep(ctx, s.Wait); err != nil {
		return &dispatch.Error{Kind: dispatch.Unavailable, Op: "dispatch.awaitSendTime",
			Text: "The request ended before the platform could be asked. Repeat it.", Err: err}
	}
	return nil
}
