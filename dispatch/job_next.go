package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	SettleMargin = 5 * time.Second // a request is settled no sooner than this after its deadline

	// in Timing.Check: how long a start in doubt must show "created" before it is repeated; platforms lag 15 min
	startLooks  = 20
	searchLooks = 3 // complete listings without the tag after which a one-step submission counts as unknown
	// status reads in a row that do not find a job before it counts as lost; the first two may be close together
	lostLooks = 6
	confirm   = 5 * time.Second // pause before a reported failure is read again
	FirstPoll = 5 * time.Second
)

// Question is the kind of a request to a platform.
type Question string

const (
	AskPrepare Question = "prepare" // fetch the document that the job needs
	AskSubmit  Question = "submit"
	AskStatus  Question = "status"
	AskSearch  Question = "search" // search the listing for this attempt
	AskCancel  Question = "cancel"
	AskOrphan  Question = "orphan" // cancel an orphan
	AskMeter   Question = "meter"  // read what a run that has ended cost
	AskRemove  Question = "remove" // remove a platform job of a job that has ended
	AskNothing Question = ""       // no request was sent: the job is set aside
)

// Outcome is the result of one request about one job. Attempt and Epoch are those of the job when the request was made.
type Outcome struct {
	Asked    Question
	Account  Account // under which the request was made; "": that of the job
	Attempt  int
	Epoch    int
	Ref      Ref      // that the platform returned (submit, search) or that the request was about
	Started  bool     // the platform reported that the job has started
	Result   []byte   // submit: the result, if the platform responded with the result itself
	Versions Versions // submit: of the job that was created
	Report   Report
	Repeat   bool  // search: a job that was not found may be submitted again
	Others   int   // submit: number of jobs of the account that ran at the platform
	Unsent   bool  // submit: the request was certainly not sent, because of a fault on the broker's side; Err is the fault
	Lease    int64 // with Unsent: generation of the lease under which the intent was to be committed; 0: it was committed
	Taken    bool  // submit: the platform returned the identifier of another job, which Ref leaves out; Err says so
	Panicked bool  // the adapter panicked, or the process may end before the response; Err describes which
	Err      error
	At       time.Time // when the request was sent, by the store's clock; zero: just now
	Timing   Timing
	Failures FailureRules // of the platform
	// for how long statuses must show no start before a start in doubt is repeated; 0: as for an unknown platform
	Settles time.Duration
	// submit: whether another job has the Ref is not known yet. Such an outcome is not saved, see Broker.distinct.
	Unchecked bool
}

// platformFull reports whether the platform takes no more jobs because it has other jobs of the account. To wait for
// their end is no failure, however long it takes.
func (o Outcome) platformFull() bool { return Is(o.Err, Busy) && o.Others > 0 }

// ShownAttention returns the attention for a request that the platform did not take.
func (o Outcome) ShownAttention() Attention {
	if o.platformFull() {
		return Full
	}
	return AttentionFor(o.Err)
}

// Next returns the job after an outcome. All rules about the meaning of a response are here. A response has two parts.
// Facts (an identifier, that the job has started, a result) stay true and are stored however late they arrive. Verdicts
// (refused, not found, still queued) are valid only in the epoch in which the request was made, and are dropped in any
// other epoch.
func Next(j Job, o Outcome, now time.Time) Job {
	o.Timing = o.Timing.Complete()
	// the job has moved since, see MoveJobs: nothing that this response is about is left
	if o.Account != "" && o.Account != j.Account {
		return j
	}
	switch o.Asked {
	case AskOrphan:
		return applyOrphanCancel(j, o, now)
	case AskMeter:
		return applyMetering(j, o, now)
	case AskRemove:
		return applyRemoval(j, o, now)
	}
	was := j
	if o.Asked == AskSubmit && !o.Unsent && !o.Panicked {
		j = j.countResponse(o)
	}
	j = applyFacts(j, o, now)
	if o.Epoch == was.Epoch && j.Phase != Ended && (o.Lease == 0 || o.Lease == was.IntentLease) {
		j = applyVerdict(j, o, now)
	}
	j = ApplyConsequences(was, PlanMetering(was, j, o, now), o.Timing, now)
	j.Awaited = was.Awaited && j.Phase == Started && o.Attempt != j.Attempt
	return j.retriedByItself(was, o, now)
}

// countResponse updates Begun for a response to a submission: that submission and those begun before it no longer count
// as submissions without a response. A response to another attempt changes nothing.
func (j Job) countResponse(o Outcome) Job {
	switch {
	case o.Attempt != j.Attempt:
	case o.Epoch != j.Epoch && j.Phase.InDoubt(): // a later submission is under way
		j.Begun = min(j.Begun, 1)
	default:
		j.Begun = 0
	}
	return j
}

func applyFacts(j Job, o Outcome, now time.Time) Job {
	if j.Phase == Ended || o.Attempt != j.Attempt {
		return lateResponse(j, o)
	}
	if o.givesNewRef(j) {
		if j.Ref != (Ref{}) {
			return j.WithOrphan(o.Ref)
		}
		j.Ref, j.Phase, j.Versions = o.Ref, Created, o.Versions
	}
	if o.Ref == j.Ref && (o.Started || o.Report.Status.running()) && (j.Phase == Created || j.Phase == Starting) {
		if j.Phase = Started; o.Asked == AskSubmit {
			j.Seen = "" // a status from before the confirmation shows nothing about the lag
		}
	}
	if o.Result != nil {
		j.Result, j.Checked, j.Versions = o.Result, now, o.Versions
		return EndJob(j, Finished, None, "")
	}
	return j
}

// givesNewRef reports whether a submit or a search returned an identifier for j that is neither its current one nor one
// of its past ones.
func (o Outcome) givesNewRef(j Job) bool {
	return (o.Asked == AskSubmit || o.Asked == AskSearch) && o.Ref != (Ref{}) && o.Ref != j.Ref &&
		!slices.Contains(j.Past, o.Ref)
}

// lateResponse adds the identifier in a late response to the orphans. The job has ended or made another attempt since
// the request, so that the identifier is not the job's own.
func lateResponse(j Job, o Outcome) Job {
	if o.givesNewRef(j) {
		return j.WithOrphan(o.Ref)
	}
	return j
}

func applyVerdict(j Job, o Outcome, now time.Time) Job {
	if o.Panicked && o.Asked != AskSubmit {
		return applyCrash(j, o.Timing, now)
	}
	switch o.Asked {
	case AskPrepare:
		return applyPrepare(j, o, now)
	case AskSubmit:
		return applySubmit(j, o, now)
	case AskStatus:
		return applyStatus(j, o, now)
	case AskSearch:
		return applySearch(j, o, now)
	case AskCancel:
		return applyCancel(j, o, now)
	case AskNothing:
		if j.Desired == WantCancel {
			return j
		}
		return EndJob(j, Failed, SetAside, setAsideText)
	}
	return j
}

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
	case kind == Busy, kind == Unavailable, kind == NotFound && j.Phase == Starting && j.Tries < lostLooks:
		return applyTurnedAway(j, o, now)
	case kind == DocumentUnreachable:
		return applyPrepare(j.revertPhase(), o, now)
	case kind == Invalid, kind == Forbidden, kind == NotFound, kind == Unsupported, kind == DocumentInvalid:
		return EndJob(j, Failed, refusals[kind], TextFor(o.Err))
	}
	if e, ok := errors.AsType[*Error](o.Err); ok && e.Answered && j.Phase == Starting {
		j.SendBy = Earlier(j.SendBy, now)
	}
	// The platform may have accepted the request, whatever the kind of the error. It is not sent again before that is
	// known.
	j.Due = Later(j.SendBy.Add(SettleMargin), now)
	return j.WithAttention(InDoubt, "")
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

// WithAttention sets the attention of a job and its notice.
func (j Job) WithAttention(a Attention, notice string) Job {
	j.Attention, j.Notice = a, notice
	return j
}

// suggestAttention sets the attention and its notice, unless the job already has a more important attention.
func (j Job) suggestAttention(a Attention, notice string) Job {
	switch j.Attention {
	case InDoubt, SubmissionUnknown, CancelUnsupported:
		return j
	}
	return j.WithAttention(a, notice)
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
		return EndJob(j, Failed, GivenUp, fmt.Sprintf("The platform did not take this job for %v. It said last: %s",
			o.Timing.GiveUpAfter, TextFor(o.Err)))
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
		return EndJob(j, Failed, ApplicationUnreachable, fmt.Sprintf("The job was given up after %v. %s",
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
	was, s, seen := j, o.Report.Status, j.Seen
	// read too soon
	if since := o.sentAt(now).Sub(j.Checked); s == Failed && seen == Failed && since > -ClockSetBack && since < confirm {
		j.Due = j.Checked.Add(confirm)
		return j
	}
	j.Seen, j.Checked, j.Tries = s, now, 0
	j.Progress = cmp.Or(o.Report.Progress, j.Progress)
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
		j.Duration = o.Report.Duration
		return EndJob(j, s, None, cmp.Or(o.Report.Message, "The platform says that the job failed, and not why."))
	case s.Final():
		j.Duration = o.Report.Duration
		return EndJob(j, s, None, "")
	case s == Accepted:
		j.Status = Submitted
	case s == Queued, s == Running:
		j.Status = s
	}
	j.Looks, j.Due = 0, now.Add(o.Timing.PollAfter(now.Sub(j.Moved)))
	if j.Overdue() && !was.Overdue() {
		j.Due = now // to be canceled
	}
	switch {
	case j.Attention == CancelUnsupported:
	case stalled(was, j, o.Timing.StalledAfter, now):
		j = j.WithAttention(Stalled, "")
	default:
		j = j.WithAttention(None, "")
	}
	return j
}

// stalled reports whether the status and the progress of a live job have not changed for the duration patience. Such a
// job is not canceled, because the broker cannot determine whether it hangs.
func stalled(was, j Job, patience time.Duration, now time.Time) bool {
	return j.Status == was.Status && value(j.Progress) == value(was.Progress) &&
		(was.Attention == Stalled || !was.Updated.IsZero() && now.Sub(was.Updated) >= patience)
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

const crashText = "The broker crashed several times in a row while it asked the platform about this job. The status " +
	"is the last known one; the " +
	"broker asks again once an hour. You may delete the job. Tell the operator of this service."

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

// applyStartNotShown applies a status read that shows no effect of a start in doubt. It adds up the pauses between
// consecutive reads instead of measuring the time since the start, so that a clock that jumps shortens the wait by at
// most one pause. A start that has no effect for Outcome.Settles counts as not taken.
func applyStartNotShown(j Job, o Outcome, seen Status, now time.Time) Job {
	if seen != Accepted {
		j.Looks, j.Unmoved = 0, 0
	}
	j.Looks++
	settles := cmp.Or(o.Settles, o.Timing.settlesAfter(Promptness{}))
	if j.Unmoved >= settles {
		o.Err = &Error{Kind: Busy, Op: "dispatch.next", Text: "The platform was asked to start this job, and did not."}
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

// sentAt returns when the request was sent.
func (o Outcome) sentAt(now time.Time) time.Time {
	if o.At.IsZero() {
		return now
	}
	return o.At
}

// applyNotFound counts a status read that did not find the job. It also counts as a failed request. After two of those,
// clients that wait for the status no longer bring the next read forward, so that they do not cause the job to be
// declared lost sooner.
func applyNotFound(j Job, t Timing, now time.Time) Job {
	if j.Seen != "" {
		j.Seen, j.Looks = "", 0
	}
	j.Looks++
	j.Tries++
	j.Due = now.Add(t.Check)
	switch {
	case j.Looks >= lostLooks:
		return EndJob(j, Failed, Lost, "The platform does not know this job any more.")
	case j.Looks > 1:
		return j.suggestAttention(Missing, "")
	}
	return j
}

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
	j.Looks++
	switch {
	case o.Repeat:
		j.Phase, j.Due = Waiting, now
		return j.WithAttention(None, "")
	case j.Looks < searchLooks:
		j.Due = now.Add(o.Timing.Check)
		return j.WithAttention(InDoubt, "")
	}
	return applyUnknownOutcome(j, o, now)
}

// applyUnknownOutcome handles a submission whose outcome cannot be determined. The broker does not submit the job
// again, shows SubmissionUnknown, and leaves the decision to the owner. After Timing.GiveUpAfter the job fails.
func applyUnknownOutcome(j Job, o Outcome, now time.Time) Job {
	switch {
	case j.Desired == WantCancel: // given up by the owner; the attention stays
		return EndJob(j, Canceled, SubmissionUnknown, "")
	case j.Status == Unknown && now.Sub(j.Moved) >= o.Timing.GiveUpAfter:
		return EndJob(j, Failed, SubmissionUnknown, "Whether the platform took this job could not be found out.")
	}
	j.Status, j.Due = Unknown, now.Add(o.Timing.UnknownCheck)
	return j.WithAttention(SubmissionUnknown, "")
}

// applyCancel applies the response to a cancel.
func applyCancel(j Job, o Outcome, now time.Time) Job {
	switch {
	case (o.Err == nil || Is(o.Err, NotFound)) && j.Desired == WantRun:
		return EndJob(j, Canceled, Overdue,
			fmt.Sprintf("It had not ended %v after its start, which is its max_duration, and was canceled.", j.MaxDuration))
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

// MarkNoPlatform sets NoPlatform on a job whose platform is no longer configured, unless the job has ended, and
// schedules the next check.
func MarkNoPlatform(j Job, t Timing, now time.Time) Job {
	j.Due, j.Awaited = now.Add(t.Recheck), false
	if j.Phase != Ended && j.Attention != NoPlatform {
		j.Updated = now
		return j.WithAttention(NoPlatform, NoPlatformText)
	}
	return j
}

// NoPlatformText is the notice of jobs with the attention [NoPlatform].
const NoPlatformText = "The platform of this job is not configured any more."

// EndJob returns a job that ends with a status, and why.
func EndJob(j Job, s Status, a Attention, failure string) Job {
	j.Phase, j.Status, j.Failure = Ended, s, failure
	if s == Finished { // the last report may have none, or that of a while before
		j.Progress = new(100.0)
	}
	return j.WithAttention(a, "")
}

// ApplyConsequences applies the consequences that every change has: epoch, status, deadline, and the times of the
// change.
func ApplyConsequences(was, j Job, t Timing, now time.Time) Job {
	j.Awaited = false
	if j.Phase == Waiting && j.Desired == WantCancel { // not at the platform, and no longer wanted
		j = EndJob(j, Canceled, None, "")
	}
	if j.Phase != was.Phase {
		j.Epoch, j.Looks, j.Unmoved = was.Epoch+1, 0, 0
		switch {
		case j.Phase == Waiting:
			j.Status = Accepted
		case j.Phase == Created, j.Phase == Started && j.Status != Queued && j.Status != Running:
			j.Status = Submitted
		}
	}
	if was.Phase.InDoubt() && j.Phase.Inert() && j.Begun > 1 {
		j.Due = Later(j.Due, now.Add(t.Check)) // suspects of one crash are submitted before those of two
	}
	j = j.idlePaused()
	if j.Phase == Started && was.Phase != Started && j.MaxDuration > 0 {
		j.Deadline = now.Add(j.MaxDuration)
	}
	if j.Phase == Started && now.Before(j.Deadline) {
		j.Due = Earlier(j.Due, j.Deadline) // a status read then shows whether the job is still alive
	}
	if j.Phase != was.Phase || j.Status != was.Status {
		j.Moved = now
		if j.Phase == Started {
			j.Due = Earlier(j.Due, now.Add(FirstPoll)) // a job that has changed may soon change again
		}
	}
	if j.shown() != was.shown() {
		j.Updated = now
	}
	return j
}

// shown holds the fields that the owner of a job sees. Job.Updated is set when one of them changes.
type shown struct {
	status          Status
	ref             Ref
	attention       Attention
	notice, failure string
	progress, costs float64
	spent           float64
	duration        time.Duration
	metered         [3]float64
}

func (j Job) shown() shown {
	return shown{j.Status, j.Ref, j.Attention, j.Notice, j.Failure, value(j.Progress), value(j.Costs), j.Spent, j.Duration,
		j.Metered.values()}
}

// LooksLike reports whether the owner of a job sees the same as before; if not, the change takes a number, see
// broker.Records. The phase alone is not seen: it decides only whether a job shows what holds its account, and
// whatever the response to its request brings is seen.
func (j Job) LooksLike(before Job) bool {
	if j.Hidden && before.Hidden {
		return true
	}
	return j.Hidden == before.Hidden && j.Updated.Equal(before.Updated) && j.shown() == before.shown() &&
		j.Account == before.Account && j.Desired == before.Desired && j.Unit == before.Unit && j.Retried == before.Retried &&
		j.Versions == before.Versions && j.Annotations.Note == before.Annotations.Note &&
		maps.Equal(j.Annotations.Labels, before.Annotations.Labels)
}

// TaskLooksLike reports whether the owner of a task sees the same as before one of its jobs changed: counts, the end of
// a trial and, with a budget, what is expected of it.
func (j Job) TaskLooksLike(before Job) bool {
	if j.Hidden && before.Hidden {
		return true
	}
	return j.LooksLike(before) && (j.Phase == Ended) == (before.Phase == Ended) &&
		(!j.Budgeted || j.Phase.HoldsSlot() == before.Phase.HoldsSlot() && slices.EqualFunc(j.Unmetered, before.Unmetered,
			func(a, b Unmetered) bool { return a.Priced == b.Priced }))
}

func value(f *float64) float64 {
	if f == nil {
		return -1
	}
	return *f
}

// Repair is the pause before a failed statement is repeated.
const Repair = time.Second

// MostBegun is how many submissions of a job in a row may end in a crash before the job is set aside.
const MostBegun = 3

const setAsideText = "Three times in a row the broker crashed while it submitted this job, so the job is not " +
	"submitted again by itself."
