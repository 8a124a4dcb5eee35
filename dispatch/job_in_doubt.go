package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// applyLostResponse puts a job in doubt whose platform may have accepted a request, whatever the kind of the error. The
// request is not sent again before that is known: once it is certainly over, a create is searched for in listings
// (applySearch), and a start is recognised by the status (applyStartNotShown).
func applyLostResponse(j Job, o Outcome, now time.Time) Job {
	if e, ok := errors.AsType[*Error](o.Err); ok && e.Answered && j.Phase == Starting {
		j.SendBy = Earlier(j.SendBy, now)
	}
	j.Due = Later(j.SendBy.Add(SettleMargin), now)
	return j.WithAttention(InDoubt, "")
}

// applyStartNotShown applies a status read that shows no effect of a start in doubt. It adds up the pauses between
// consecutive reads instead of measuring the time since the start, so that a clock that jumps shortens the wait by at
// most one pause. A start that has no effect for Outcome.Settles counts as not taken.
func applyStartNotShown(j Job, o Outcome, seen Status, now time.Time) Job {
	if seen != Accepted {
		j.Polls, j.Unmoved = 0, 0
	}
	j.Polls++
	settles := cmp.Or(o.Settles, o.Timing.settlesAfter(Promptness{}))
	if j.Unmoved >= settles {
		o.Err = &Error{Kind: Busy, Op: "dispatch.next", Text: "The platform did not start this job."}
		return applyTurnedAway(j, o, now)
	}
	pause := o.Timing.startCheck(settles)
	j.Unmoved += pause
	j.Due = now.Add(pause)
	return j.WithAttention(InDoubt, "")
}

// ClockSetBack is how much earlier than the last status a request may have been sent. A larger difference means that
// the clock was set back.
const ClockSetBack = 2 * time.Minute

// applySearch applies a listing to a create in doubt.
func applySearch(j Job, o Outcome, now time.Time) Job {
	switch {
	case o.Err != nil:
		return applyFailedRequest(j, o, now)
	case o.Ref != Ref{}:
		j.Tries, j.Due = 0, now
		return j.WithAttention(None, "")
	case j.Phase != Creating: // an orphan was found, or another response arrived first
		return j
	}
	j.Polls++
	switch {
	case o.Repeat:
		return j.repeatCreate(o.Timing, now)
	case j.Polls < searchPolls:
		j.Due = now.Add(o.Timing.Check)
		return j.WithAttention(InDoubt, "")
	}
	return applyUnknownOutcome(j, o, now)
}

// repeatCreate returns a job whose create got no response and shows no effect, to be created again: the first time at
// once, then after pauses as long as the time since, until the job is given up.
func (j Job) repeatCreate(t Timing, now time.Time) Job {
	if j.Refused.IsZero() {
		j.Refused = now
	}
	since := now.Sub(j.Refused)
	if since >= t.GiveUpAfter && j.Desired == WantRun {
		return EndJob(j, Failed, GivenUp, fmt.Sprintf("The platform did not say for %v whether it accepted this job.",
			t.GiveUpAfter))
	}
	j.Phase, j.Due = Waiting, now.Add(min(since, t.Pause))
	return j.WithAttention(None, "")
}

// applyUnknownOutcome handles a submission whose outcome cannot be determined. The broker does not submit the job
// again, shows SubmissionUnknown, and leaves the decision to the owner. After Timing.GiveUpAfter the job fails.
func applyUnknownOutcome(j Job, o Outcome, now time.Time) Job {
	switch {
	case j.Desired == WantCancel: // given up by the owner; the attention stays
		return EndJob(j, Canceled, SubmissionUnknown, "")
	case j.Status == Unknown && now.Sub(j.Moved) >= o.Timing.GiveUpAfter:
		return EndJob(j, Failed, SubmissionUnknown, "It is unknown whether the platform accepted this job.")
	}
	j.Status, j.Due = Unknown, now.Add(o.Timing.UnknownCheck)
	return j.WithAttention(SubmissionUnknown, "")
}
