package dispatch

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// applySubmit applies the response to a create or a start.
func applySubmit(j Job, o Outcome, now time.Time) Job {
	if o.Unsent {
		return revertIntent(j, o.Timing, now)
	}
	if o.Err == nil {
		j.Tries, j.Refused, j.Checked, j.Due = 0, time.Time{}, now, now
		if j.Phase == Started {
			j.Due = now.Add(FirstPoll)
		}
		return j.WithAttention(None, "")
	}
	switch kind := KindOf(o.Err); {
	case o.Taken:
		return EndJob(j, Failed, SubmissionUnknown, TextFor(o.Err))
	case kind == SignInRequired, kind == Misconfigured:
		return applyDenied(j.revertPhase(), o.Err, now)
	case kind == Busy, kind == Unavailable, kind == NotFound && j.Phase == Starting && j.Tries < lostPolls:
		return applyTurnedAway(j, o, now)
	case kind == DocumentUnreachable:
		return applyPrepare(j.revertPhase(), o, now)
	case kind == Invalid, kind == Forbidden, kind == NotFound, kind == Unsupported, kind == DocumentInvalid:
		return EndJob(j, Failed, refusals[kind], TextFor(o.Err))
	}
	return applyLostResponse(j, o, now)
}

// revertIntent reverts an intent whose request was not sent. It changes nothing that is known about the platform,
// because the platform received no request.
func revertIntent(j Job, t Timing, now time.Time) Job {
	j = j.revertPhase()
	j.Begun = max(0, j.Begun-1)
	j.Due = now.Add(min(Repair<<min(j.Tries, 10), t.Poll))
	j.Tries++
	if j.Attention == InDoubt || j.Attention == SubmissionUnknown {
		j = j.WithAttention(None, "")
	}
	return j
}

// refusals maps the kinds of permanent refusals to attentions, where a client can act on each in a different way.
var refusals = map[Kind]Attention{Forbidden: RefusedForbidden, Unsupported: RefusedUnsupported,
	DocumentInvalid: ApplicationInvalid}

// revertPhase returns the job in the phase before a request that the platform did not take. A job that was created
// keeps its Ref.
func (j Job) revertPhase() Job {
	switch j.Phase {
	case Creating:
		j.Phase = Waiting
	case Starting:
		j.Phase = Created
	}
	return j
}

// applyTurnedAway applies a request that the platform did not take and may take later. While the platform is full the
// job stays due, and its account waits. Otherwise the pause grows with each try until the job fails.
func applyTurnedAway(j Job, o Outcome, now time.Time) Job {
	j = j.revertPhase().WithAttention(o.ShownAttention(), TextFor(o.Err))
	j.Tries++
	if o.platformFull() {
		j.Refused, j.Due = time.Time{}, now
		return j
	}
	if j.Refused.IsZero() {
		j.Refused = now
	}
	if now.Sub(j.Refused) >= o.Timing.GiveUpAfter {
		return EndJob(j, Failed, GivenUp, fmt.Sprintf("The platform did not accept this job for %v. Its last "+
			"response: %s", o.Timing.GiveUpAfter, TextFor(o.Err)))
	}
	j.Due = now.Add(o.Timing.PauseAfter(j.Tries-1, o.Err))
	return j
}

// applyPrepare applies the outcome of fetching the document of a job. While the document is not available, the job
// waits and delays no other job. It fails at once if the document is invalid, and after Timing.GiveUpAfter if the
// document stays unreachable.
func applyPrepare(j Job, o Outcome, now time.Time) Job {
	if o.Err == nil { // available again; the job keeps its place in the queue
		j.Tries, j.Refused = 0, time.Time{}
		return j.WithAttention(None, "")
	}
	if Is(o.Err, DocumentInvalid) {
		return EndJob(j, Failed, ApplicationInvalid, TextFor(o.Err))
	}
	if j = j.ExcludeWait(j.Due, now); j.Refused.IsZero() {
		j.Refused = now
	}
	if now.Sub(j.Refused) >= o.Timing.GiveUpAfter {
		return EndJob(j, Failed, ApplicationUnreachable, fmt.Sprintf("The broker gave up after %v. %s",
			o.Timing.GiveUpAfter, TextFor(o.Err)))
	}
	j.Due = now.Add(cmp.Or(RetryAfter(o.Err), o.Timing.PauseAfter(j.Tries, nil)))
	j.Tries++
	return j.WithAttention(ApplicationUnreachable, TextFor(o.Err))
}

// applyDenied applies a request that the platform rejected because of the token or the broker's configuration. The job
// stays due. If the platform rejects another token too, or the configuration is wrong, the visit holds the account, see
// visit.blockAccount, and the waiting jobs of the account show the attention of the hold.
func applyDenied(j Job, err error, now time.Time) Job {
	j.Due = now
	if j.Phase == Waiting {
		return j.WithAttention(None, "")
	}
	return j.suggestAttention(AttentionFor(err), TextFor(err))
}

// AttentionFor returns the attention for a request that the platform did not take because of err.
func AttentionFor(err error) Attention {
	switch KindOf(err) {
	case SignInRequired:
		return NeedsSignIn
	case Misconfigured:
		return NeedsOperator
	case Unavailable:
		return Unreachable
	}
	return NotTaken
}

// applyStatus applies a status that was read or listed.
func applyStatus(j Job, o Outcome, now time.Time) Job {
	switch {
	case Is(o.Err, NotFound):
		return applyNotFound(j, o.Timing, now)
	case o.Err != nil:
		return applyFailedRequest(j, o, now)
	}
	before, s, seen := j, o.Report.Status, j.Seen
	// read too soon
	if since := cmp.Or(o.At, now).Sub(j.Checked); s == Failed && seen == Failed && since > -ClockSetBack &&
		since < confirm {
		j.Due = j.Checked.Add(confirm)
		return j
	}
	j.Seen, j.Checked, j.Tries = s, now, 0
	j.Progress = cmp.Or(o.Report.Progress, j.Progress)
	if s == Running || s.Final() {
		j = j.noteStart(o.Report, now)
	}
	j = j.noteReport(o.Report)
	switch {
	case j.Phase == Starting && s == Accepted:
		return applyStartNotShown(j, o, seen, now)
	case j.Phase == Starting: // a status that shows neither that the job runs nor that it does not
		j.Due = now.Add(o.Timing.Check)
		return j.WithAttention(InDoubt, "")
	case s == Failed && seen != Failed: // platforms revise reported failures, so only the second report is believed
		j.Due = now.Add(confirm)
		return j
	case s == Failed:
		j = j.noteEnd(o.Report, now)
		return EndJob(j, s, None, cmp.Or(o.Report.Message, "The platform reports that the job failed, without a "+
			"reason."))
	case s.Final():
		j = j.noteEnd(o.Report, now)
		return EndJob(j, s, None, "")
	case s == Accepted:
		j.Status = Submitted
	case s == Queued, s == Running:
		j.Status = s
	}
	j.Polls, j.Due = 0, now.Add(o.Timing.PollAfter(now.Sub(j.Moved)))
	if j.Overdue() && !before.Overdue() {
		j.Due = now // to be canceled
	}
	switch {
	case j.Attention == CancelUnsupported:
	case stalled(before, j, o.Timing.StalledAfter, now):
		j = j.WithAttention(Stalled, "")
	default:
		j = j.WithAttention(None, "")
	}
	return j
}

// noteStart notes when a job began that runs or has ended. A time that the platform reports counts only if it can be
// true by the store's clock: platforms' clocks may be hours wrong.
func (j Job) noteStart(r Report, now time.Time) Job {
	switch {
	case !r.Started.Before(j.Created) && !r.Started.After(now):
		j.Started = r.Started
	case j.Started.IsZero() && r.Status == Running:
		j.Started = now
	}
	return j
}

// noteEnd notes when a job ended and how long it ran, as noteStart does.
func (j Job) noteEnd(r Report, now time.Time) Job {
	if !r.Ended.Before(Later(j.Created, j.Started)) && !r.Ended.After(now) {
		j.Ended = r.Ended
	}
	j.Duration = r.Duration
	return j
}

// stalled reports whether the status and the progress of a live job have not changed for the duration patience. Such a
// job is not canceled, because the broker cannot determine whether it hangs.
func stalled(before, j Job, patience time.Duration, now time.Time) bool {
	return j.Status == before.Status && value(j.Progress) == value(before.Progress) &&
		(before.Attention == Stalled || !before.Updated.IsZero() && now.Sub(before.Updated) >= patience)
}

// applyFailedRequest applies a request that failed. The job shows InDoubt from the first failure on if a request is in
// doubt, and otherwise Unreachable from the second failure in a row on. The request is repeated within Timing.Poll, or
// after a longer Retry-After, so that the recovery of a platform is noticed soon.
func applyFailedRequest(j Job, o Outcome, now time.Time) Job {
	if j.Phase.InDoubt() && j.Attention == None {
		j = j.WithAttention(InDoubt, "")
	}
	switch kind := KindOf(o.Err); {
	case kind == SignInRequired, kind == Misconfigured:
		return applyDenied(j, o.Err, now)
	case j.Tries > 0:
		j = j.suggestAttention(Unreachable, TextFor(o.Err))
	}
	j.Due = now.Add(max(RetryAfter(o.Err), min(o.Timing.PauseAfter(j.Tries, o.Err), o.Timing.Poll)))
	j.Tries++
	return j
}

const crashText = "The broker crashed several times in a row while it read the status of this job. The status is " +
	"the last known one; the broker reads it again once an hour. You can delete the job. Tell the operator of this " +
	"service."

// applyCrash applies a request during which the adapter panicked or the process ended. The request is repeated at
// growing intervals, so that the account's other jobs are served.
func applyCrash(j Job, t Timing, now time.Time) Job {
	j.Due = now.Add(t.crashPause(j.Tries))
	j.Tries++
	switch {
	case j.Phase.InDoubt() && j.Attention == None:
		return j.WithAttention(InDoubt, "")
	case j.Tries >= MostBegun:
		return j.suggestAttention(SetAside, crashText)
	}
	return j
}

// applyNotFound counts a status read that did not find the job. It also counts as a failed request. After two of those,
// clients that wait for the status no longer bring the next read forward, so that they do not cause the job to be
// declared lost sooner.
func applyNotFound(j Job, t Timing, now time.Time) Job {
	if j.Seen != "" {
		j.Seen, j.Polls = "", 0
	}
	j.Polls++
	j.Tries++
	j.Due = now.Add(t.Check)
	switch {
	case j.Polls >= lostPolls:
		return EndJob(j, Failed, Lost, "The platform does not know this job any more.")
	case j.Polls > 1:
		return j.suggestAttention(Missing, "")
	}
	return j
}

// applyCancel applies the response to a cancel.
func applyCancel(j Job, o Outcome, now time.Time) Job {
	switch {
	case (o.Err == nil || Is(o.Err, NotFound)) && j.Desired == WantRun:
		return EndJob(j, Canceled, Overdue,
			fmt.Sprintf("It was canceled because it had not ended %v after its start, its max_duration.",
				j.MaxDuration))
	case o.Err == nil, Is(o.Err, NotFound):
		return EndJob(j, Canceled, None, "")
	case Is(o.Err, Unsupported):
		j.Due = now.Add(FirstPoll)
		return j.WithAttention(CancelUnsupported, TextFor(o.Err))
	}
	return applyFailedRequest(j, o, now)
}

// applyOrphanCancel applies the response to the cancel of an orphan. An orphan that cannot be canceled moves to Past.
func applyOrphanCancel(j Job, o Outcome, now time.Time) Job {
	switch {
	case o.Err == nil, Is(o.Err, NotFound):
		j.Tries = 0 // tries of the cancel
		j = j.withoutOrphan(o.Ref)
		if o.Err == nil && !j.Removal.Due.IsZero() {
			j.Past = append(slices.Clone(j.Past), o.Ref)
		}
		return j
	case Is(o.Err, Unsupported):
		j = j.withoutOrphan(o.Ref)
		j.Tries, j.Past = 0, append(slices.Clone(j.Past), o.Ref)
		return j
	}
	j.Due = now.Add(o.Timing.PauseAfter(j.Tries, o.Err))
	j.Tries++
	return j
}

const setAsideText = "The broker crashed three times in a row while it submitted this job, so it does not submit " +
	"it again by itself."
