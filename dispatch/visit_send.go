package dispatch

import (
	"context"
	"time"
)

// platformRequest is a step on its way: not before at, not after deadline.
type platformRequest struct {
	step
	token        Token
	refusals     int // when it left
	at, deadline time.Time
	asked        time.Time     // when it leaves, in the store's time
	drift        time.Duration // see visit.leaseDrift
}

// platformResponse is a request that is over.
type platformResponse struct {
	platformRequest
	outcomes []jobOutcome
}

// slotAhead is how far away a slot may be that a visit takes: so long it has to get ready when its account has booked one.
const slotAhead = 2 * time.Second

// inTurn is how long before the slot of a reading the next is asked for: so accounts get theirs one after the other, and one
// that is alone still loses none.
const inTurn = 250 * time.Millisecond

// steps takes the most urgent steps, as many as may be under way at once and the platform's rate allows.
func (v *visit) steps(ctx context.Context, t Token) ([]platformRequest, error) {
	var steps []platformRequest
	if v.broker.backlog.full() {
		v.resume = later(v.resume, time.Now().Add(repair))
	}
	for v.pending+len(steps) < v.backend.Limits.Requests && !time.Now().Before(v.resume) {
		j, c, any := v.queue.take(v.open)
		if !any {
			break
		}
		if v.busy[j.ID] || c == classSubmit && !v.maySubmit(j) {
			continue
		}
		slot, err := v.take(ctx, c.purpose(), time.Time{})
		if err == nil && !slot.Given {
			v.submitted(j.ID)
			continue
		}
		var s step
		if err == nil {
			s, err = v.stepFor(ctx, c, j)
		}
		if err != nil {
			v.submitted(j.ID)
			return steps, err
		}
		v.mark(s.jobs, true)
		steps = append(steps, platformRequest{step: s, token: t, refusals: v.refusals, at: time.Now().Add(slot.Wait)})
	}
	return steps, nil
}

// take asks for the platform's next request slot, where it has a rate, and not again before that makes sense.
func (v *visit) take(ctx context.Context, p Purpose, due time.Time) (Slot, error) {
	if v.backend.Limits.Pace == 0 {
		return Slot{Given: true}, nil
	}
	s, err := v.broker.Store.Take(ctx, SlotRequest{Account: v.account, Pace: v.backend.Limits.Pace, Purpose: p, Ahead: min(slotAhead, v.backend.Limits.Send/8), Due: due})
	switch {
	case err != nil:
	case !s.Given:
		v.noSlotBefore[p] = time.Now().Add(s.Wait)
	case p == Reading:
		v.noSlotBefore[p] = time.Now().Add(s.Wait - inTurn)
	}
	v.queued = v.queued || p == Reading && (s.Wait > 0 || !s.Given)
	return s, err
}

// open reports whether a slot may be had for a class of steps.
func (v *visit) open(c class) bool { return !time.Now().Before(v.noSlotBefore[c.purpose()]) }

// begin commits the intents of the steps that submit, all at once, and sends all steps; none if the account is
// another's by now.
func (v *visit) begin(ctx context.Context, requests []platformRequest) error {
	requests, err := v.foresee(ctx, requests)
	if err != nil {
		return err
	}
	intended, err := v.intend(ctx, requests)
	for _, f := range requests {
		j, ok := intended[f.jobs[0].ID]
		f.asked = v.now().Add(max(0, time.Until(f.at)))
		if f.submits() && err != nil && !Is(err, Conflict) {
			v.unsaved = append(v.unsaved, platformResponse{f, f.takenBack(v.held)})
			continue
		}
		if Is(err, Conflict) || f.submits() && !ok {
			v.mark(f.jobs, false)
			continue
		}
		if f.submits() {
			f.jobs = []Job{j}
		}
		f.deadline, f.drift = v.deadline(), v.leaseDrift
		v.pending++
		go v.send(ctx, f)
	}
	return err
}

// foresee saves, where visits of the account keep ending in crashes, that the questions of requests brought nothing, before they are
// asked. So the next process does not begin with the question that ended this one. The answers replace that.
func (v *visit) foresee(ctx context.Context, requests []platformRequest) ([]platformRequest, error) {
	if !v.careful {
		return requests, nil
	}
	err := &Error{Kind: Internal, Op: "dispatch.visit", Text: "The broker may have crashed at this question."}
	var asked []Job
	for _, f := range requests {
		for _, a := range f.failed(err) {
			if !f.submits() {
				a.Timing = v.timing
				asked = append(asked, next(a.job, a.Outcome, v.now()))
			}
		}
	}
	if len(asked) == 0 {
		return requests, nil
	}
	saved, failed := v.broker.Store.Save(ctx, asked)
	is := byID(saved)
	var kept []platformRequest
	for _, f := range requests {
		if !f.submits() {
			f.jobs = v.stillAsked(f.jobs, is)
		}
		switch {
		case failed != nil:
			v.mark(f.jobs, false)
		case len(f.jobs) > 0:
			kept = append(kept, f)
		}
	}
	return kept, failed
}

// byID gives jobs by their ids.
func byID(jobs []Job) map[JobID]Job {
	m := make(map[JobID]Job, len(jobs))
	for _, j := range jobs {
		m[j.ID] = j
	}
	return m
}

// stillAsked gives those of a request's jobs that were saved, as they are now. The others changed meanwhile, and are looked at again.
func (v *visit) stillAsked(jobs []Job, is map[JobID]Job) (kept []Job) {
	for _, j := range jobs {
		if now, saved := is[j.ID]; saved {
			kept = append(kept, now)
		} else {
			v.mark([]Job{j}, false)
		}
	}
	return kept
}

func (v *visit) intend(ctx context.Context, requests []platformRequest) (map[JobID]Job, error) {
	var jobs []Job
	for _, f := range requests {
		if f.submits() {
			j := v.tagged(f.jobs[0]).waited(v.triable(f.jobs[0]), v.now())
			j.IntentLease = v.held.Generation
			jobs = append(jobs, j)
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	now, drift := time.Now(), v.drift()
	jobs, err := v.broker.Store.Intend(ctx, v.held, v.backend.Limits, jobs)
	if err != nil {
		return nil, err
	}
	v.lease, v.leaseDrift = now.Add(v.backend.Limits.Lease()), drift
	return byID(jobs), nil
}

// triable is since when a job could have been submitted if there had been a slot: since it was due, and since its platform last had the
// account wait.
func (v *visit) triable(j Job) time.Time {
	if v.agenda.Why == NotTaken || v.agenda.Why == Unreachable {
		return later(j.Due, v.agenda.Hold)
	}
	return j.Due
}

// deadline of a request: it is over before a stored send deadline that was committed before, and before the lease.
func (v *visit) deadline() time.Time {
	return v.lease.Add(-v.backend.Limits.Lease() + v.backend.Limits.Send)
}

// send carries out a step. Once begun it runs to its answer or its deadline, whoever wants to stop: to break off a
// submit is to not know. A process that was asleep past the deadline sends nothing.
func (v *visit) send(ctx context.Context, f platformRequest) {
	time.Sleep(time.Until(f.at))
	ctx, cancel := context.WithDeadline(ctx, f.deadline)
	defer cancel()
	if ctx.Err() != nil || v.slept(f) {
		v.responses <- platformResponse{f, f.unsent()}
		return
	}
	v.responses <- platformResponse{f, v.perform(ctx, f.token, f.step)}
}

// drift is how far the wall clock went ahead of the monotonic clock since the visit began. On Linux the monotonic clock stops
// while the machine is suspended.
func (v *visit) drift() time.Duration {
	wall := time.Now
	if v.broker.Wall != nil {
		wall = v.broker.Wall
	}
	return wall().Round(0).Sub(v.begun.Round(0)) - time.Since(v.begun)
}

// slept reports whether the machine was suspended past the deadline of a request since its lease was renewed.
func (v *visit) slept(f platformRequest) bool {
	lost := v.drift() - f.drift
	return lost > 0 && time.Now().Add(lost).After(f.deadline)
}

func (v *visit) mark(jobs []Job, busy bool) {
	for _, j := range jobs {
		if busy {
			v.busy[j.ID] = true
		} else {
			delete(v.busy, j.ID)
			v.submitted(j.ID)
		}
	}
}
