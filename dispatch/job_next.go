package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	SettleMargin = 5 * time.Second // nobody settles a request sooner than this after its deadline

	startLooks  = 20              // pauses between looks in a row that must say "created" before a start in doubt is repeated: platforms lag 15 minutes
	searchLooks = 3               // complete listings without the tag before a one-step submission is given up as unknown
	lostLooks   = 6               // reads in a row that do not find a job before it is lost; the first two may be close together
	confirm     = 5 * time.Second // until a report of failure is read again
	firstPoll   = 5 * time.Second
)

// Question is what the platform was asked.
type Question string

const (
	AskPrepare Question = "prepare" // fetch the document that it needs
	AskSubmit  Question = "submit"
	AskStatus  Question = "status"
	AskSearch  Question = "search" // is this attempt in the listing?
	AskCancel  Question = "cancel"
	AskOrphan  Question = "orphan" // cancel an orphan
	AskNothing Question = ""       // the platform was not asked: the job is set aside
)

// Outcome is what one request about one job brought. Attempt and Turn are the job's when the request was made.
type Outcome struct {
	Asked    Question
	Attempt  int
	Turn     int
	Ref      Ref    // that the platform gave (submit, search) or that was asked about
	Started  bool   // the platform said so
	Result   []byte // submit: the platform answered with the result itself
	Report   Report
	Repeat   bool  // search: what is not found may be sent again
	Others   int   // submit: jobs of the account that ran at the platform
	Unsent   bool  // submit: the request was certainly not sent, for want of something of ours; Err says why
	Lease    int64 // with Unsent: the generation of the lease under which the intent was to be committed; 0: it was
	Panicked bool  // the adapter panicked, or the process may end before the answer: Err says so
	Err      error
	At       time.Time // when the platform was asked, in the store's time; zero: just now
	Timing   Timing
	Settles  time.Duration // how long statuses must not tell of a start in doubt until it is repeated; 0: as where nothing is known of the platform
}

// full reports whether the platform takes no more jobs because it has others of the account. Waiting for their end is no failure, however
// long it lasts.
func (o Outcome) full() bool { return Is(o.Err, Busy) && o.Others > 0 }

// why returns the attention for a request that the platform did not take.
func (o Outcome) why() Attention {
	if o.full() {
		return Full
	}
	return reason(o.Err)
}

// next returns the job after an outcome. It holds every rule about what a response means. A response has two parts. Facts (an identifier,
// that the job has started, a result) stay true and are stored however late they arrive. Verdicts (refused, not found, still queued) are
// true only of the turn in which the request was made, and are dropped in any other.
func next(j Job, o Outcome, now time.Time) Job {
	o.Timing = o.Timing.complete()
	if o.Asked == AskOrphan {
		return orphanCanceled(j, o, now)
	}
	was := j
	if o.Asked == AskSubmit && !o.Unsent && !o.Panicked {
		j = j.answered(o)
	}
	j = facts(j, o, now)
	if o.Turn == was.Turn && j.Phase != Ended && (o.Lease == 0 || o.Lease == was.IntentLease) {
		j = verdict(j, o, now)
	}
	j = settled(was, j, o.Timing, now)
	j.Awaited = was.Awaited && j.Phase == Started && o.Attempt != j.Attempt
	return j
}

// answered counts no submission as without a response that was begun before the one that o is the response to. The response to another
// attempt says nothing about the present one.
func (j Job) answered(o Outcome) Job {
	switch {
	case o.Attempt != j.Attempt:
	case o.Turn != j.Turn && j.Phase.InDoubt(): // a later submission is under way
		j.Begun = min(j.Begun, 1)
	default:
		j.Begun = 0
	}
	return j
}

func facts(j Job, o Outcome, now time.Time) Job {
	if j.Phase == Ended || o.Attempt != j.Attempt {
		return lateResponse(j, o)
	}
	if o.gives(j) {
		if j.Ref != (Ref{}) {
			return j.withOrphan(o.Ref)
		}
		j.Ref, j.Phase = o.Ref, Created
	}
	if o.Ref == j.Ref && (o.Started || o.Report.Status.running()) && (j.Phase == Created || j.Phase == Starting) {
		if j.Phase = Started; o.Asked == AskSubmit {
			j.Seen = "" // what was read before the confirmation says nothing about the lag
		}
	}
	if o.Result != nil {
		j.Result, j.Checked = o.Result, now
		return ended(j, Finished, None, "")
	}
	return j
}

// gives reports whether the platform gave a name for j that is not known to be its own.
func (o Outcome) gives(j Job) bool {
	return (o.Asked == AskSubmit || o.Asked == AskSearch) && o.Ref != (Ref{}) && o.Ref != j.Ref && !slices.Contains(j.Past, o.Ref)
}

// lateResponse keeps the name that came for a job too late to be its own.
func lateResponse(j Job, o Outcome) Job {
	if o.gives(j) {
		return j.withOrphan(o.Ref)
	}
	return j
}

func verdict(j Job, o Outcome, now time.Time) Job {
	if o.Panicked && o.Asked != AskSubmit {
		return crashed(j, o.Timing, now)
	}
	switch o.Asked {
	case AskPrepare:
		return unprepared(j, o, now)
	case AskSubmit:
		return submitted(j, o, now)
	case AskStatus:
		return reported(j, o, now)
	case AskSearch:
		return searched(j, o, now)
	case AskCancel:
		return canceled(j, o, now)
	case AskNothing:
		if j.Desired == WantCancel {
			return j
		}
		return ended(j, Failed, SetAside, setAsideText)
	}
	return j
}

// submitted applies the response to a create or a start.
func submitted(j Job, o Outcome, now time.Time) Job {
	if o.Unsent {
		return unsent(j, o.Timing, now)
	}
	if o.Err == nil {
		j.Tries, j.Refused, j.Checked, j.Due = 0, time.Time{}, now, now
		if j.Phase == Started {
			j.Due = now.Add(firstPoll)
		}
		return j.attend(None, "")
	}
	switch kind := KindOf(o.Err); {
	case kind == SignInRequired, kind == Misconfigured:
		return denied(j.back(), o.Err, now)
	case kind == Busy, kind == Unavailable, kind == NotFound && j.Phase == Starting && j.Tries < lostLooks:
		return turnedAway(j, o, now)
	case kind == DocumentUnreachable:
		return unprepared(j.back(), o, now)
	case kind == Invalid, kind == Forbidden, kind == NotFound, kind == Unsupported, kind == DocumentInvalid:
		return ended(j, Failed, refusals[kind], TextFor(o.Err))
	}
	if e, ok := errors.AsType[*Error](o.Err); ok && e.Answered && j.Phase == Starting {
		j.SendBy = earlier(j.SendBy, now)
	}
	// It may have been taken, whatever the kind: to send again we would have to know.
	j.Due = later(j.SendBy.Add(SettleMargin), now)
	return j.attend(InDoubt, "")
}

// unsent takes back an intent whose request was not sent. Nothing is said about the platform, because it was not asked.
func unsent(j Job, t Timing, now time.Time) Job {
	j = j.back()
	j.Begun = max(0, j.Begun-1)
	j.Due = now.Add(min(repair<<min(j.Tries, 10), t.Poll))
	j.Tries++
	if j.Attention == InDoubt || j.Attention == SubmissionUnknown {
		j = j.attend(None, "")
	}
	return j
}

// refusals tells the ways to be refused for good apart, where a client can do something else about each.
var refusals = map[Kind]Attention{Forbidden: RefusedForbidden, Unsupported: RefusedUnsupported, DocumentInvalid: ApplicationInvalid}

// back returns the job to the phase before a request that the platform did not take. What was created stays known.
func (j Job) back() Job {
	switch j.Phase {
	case Creating:
		j.Phase = Waiting
	case Starting:
		j.Phase = Created
	}
	return j
}

// attend sets why a job does not move.
func (j Job) attend(a Attention, notice string) Job {
	j.Attention, j.Notice = a, notice
	return j
}

// hint is attend, unless something is known that weighs more.
func (j Job) hint(a Attention, notice string) Job {
	switch j.Attention {
	case InDoubt, SubmissionUnknown, CancelUnsupported:
		return j
	}
	return j.attend(a, notice)
}

// turnedAway applies a request that the platform did not take and may take later. While the platform is full the job stays due, and its
// account waits. Otherwise the pause grows with each try until the job fails.
func turnedAway(j Job, o Outcome, now time.Time) Job {
	j = j.back().attend(o.why(), TextFor(o.Err))
	j.Tries++
	if o.full() {
		j.Refused, j.Due = time.Time{}, now
		return j
	}
	if j.Refused.IsZero() {
		j.Refused = now
	}
	if now.Sub(j.Refused) >= o.Timing.GiveUpAfter {
		return ended(j, Failed, GivenUp, fmt.Sprintf("The platform did not take this job for %v. It said last: %s", o.Timing.GiveUpAfter, TextFor(o.Err)))
	}
	j.Due = now.Add(o.Timing.pause(j.Tries-1, o.Err))
	return j
}

// unprepared applies that the document of a job is not available. The job waits alone and delays no other. It fails at once if the document
// is invalid, and after Timing.GiveUpAfter if the document stays unreachable.
func unprepared(j Job, o Outcome, now time.Time) Job {
	if o.Err == nil { // at hand again; the job keeps its place
		j.Tries, j.Refused = 0, time.Time{}
		return j.attend(None, "")
	}
	if Is(o.Err, DocumentInvalid) {
		return ended(j, Failed, ApplicationInvalid, TextFor(o.Err))
	}
	if j = j.waited(j.Due, now); j.Refused.IsZero() {
		j.Refused = now
	}
	if now.Sub(j.Refused) >= o.Timing.GiveUpAfter {
		return ended(j, Failed, ApplicationUnreachable, fmt.Sprintf("The job was given up after %v. %s", o.Timing.GiveUpAfter, TextFor(o.Err)))
	}
	j.Due = now.Add(cmp.Or(retryAfter(o.Err), o.Timing.pause(j.Tries, nil)))
	j.Tries++
	return j.attend(ApplicationUnreachable, TextFor(o.Err))
}

// denied is a request that was not taken because of who asks. The job stays due: its account waits if another token is
// not taken either, see visit.deny, and shows that on what is waiting.
func denied(j Job, err error, now time.Time) Job {
	j.Due = now
	if j.Phase == Waiting {
		return j.attend(None, "")
	}
	return j.hint(reason(err), TextFor(err))
}

// reason is what an owner is told about a request that was not taken.
func reason(err error) Attention {
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

// reported applies a status that was read or listed.
func reported(j Job, o Outcome, now time.Time) Job {
	switch {
	case Is(o.Err, NotFound):
		return missed(j, o.Timing, now)
	case o.Err != nil:
		return unanswered(j, o, now)
	}
	was, s, seen := j, o.Report.Status, j.Seen
	if since := o.asked(now).Sub(j.Checked); s == Failed && seen == Failed && since > -clockSetBack && since < confirm { // asked too soon
		j.Due = j.Checked.Add(confirm)
		return j
	}
	j.Seen, j.Checked, j.Tries = s, now, 0
	j.Progress, j.Costs = cmp.Or(o.Report.Progress, j.Progress), cmp.Or(o.Report.Costs, j.Costs)
	switch {
	case j.Phase == Starting && s == Accepted:
		return unmoved(j, o, seen, now)
	case j.Phase == Starting: // a word that says neither that it runs nor that it does not
		j.Due = now.Add(o.Timing.Check)
		return j.attend(InDoubt, "")
	case s == Failed && seen != Failed: // platforms take errors back: believe the second
		j.Due = now.Add(confirm)
		return j
	case s == Failed:
		j.Duration = o.Report.Duration
		return ended(j, s, None, cmp.Or(o.Report.Message, "The platform says that the job failed, and not why."))
	case s.Final():
		j.Duration = o.Report.Duration
		return ended(j, s, None, "")
	case s == Accepted:
		j.Status = Submitted
	case s == Queued, s == Running:
		j.Status = s
	}
	j.Looks, j.Due = 0, now.Add(o.Timing.poll(now.Sub(j.Moved)))
	if j.overdue() && !was.overdue() {
		j.Due = now // to be canceled
	}
	switch {
	case j.Attention == CancelUnsupported:
	case stalled(was, j, o.Timing.StalledAfter, now):
		j = j.attend(Stalled, "")
	default:
		j = j.attend(None, "")
	}
	return j
}

// stalled reports whether a job that is said to be alive has not moved for as long as that. It is left alone: that it hangs cannot
// be known from here.
func stalled(was, j Job, patience time.Duration, now time.Time) bool {
	return j.Status == was.Status && value(j.Progress) == value(was.Progress) &&
		(was.Attention == Stalled || !was.Updated.IsZero() && now.Sub(was.Updated) >= patience)
}

// unanswered is a question that brought nothing. The owner is told the second time, of a doubt at once. It is asked again
// within a minute, so that a platform that is back is soon seen to be.
func unanswered(j Job, o Outcome, now time.Time) Job {
	if j.Phase.InDoubt() && j.Attention == None {
		j = j.attend(InDoubt, "")
	}
	switch kind := KindOf(o.Err); {
	case kind == SignInRequired, kind == Misconfigured:
		return denied(j, o.Err, now)
	case j.Tries > 0:
		j = j.hint(Unreachable, TextFor(o.Err))
	}
	j.Due = now.Add(max(retryAfter(o.Err), min(o.Timing.pause(j.Tries, o.Err), o.Timing.Poll)))
	j.Tries++
	return j
}

const crashText = "The broker crashed several times in a row while it asked the platform about this job. The status is the last known one; the " +
	"broker asks again once an hour. You may delete the job. Tell the operator of this service."

// crashed is a question at which the adapter panicked or the process ended. It is repeated ever more rarely, so that the account's
// other jobs are served.
func crashed(j Job, t Timing, now time.Time) Job {
	j.Due = now.Add(t.crashPause(j.Tries))
	j.Tries++
	switch {
	case j.Phase.InDoubt() && j.Attention == None:
		return j.attend(InDoubt, "")
	case j.Tries >= mostBegun:
		return j.hint(SetAside, crashText)
	}
	return j
}

// unmoved counts a look that found a start in doubt without effect. It adds up the pauses between looks in a row, and does not
// take the time since the start, so that a clock that jumps shortens the wait by one pause at most. A start that had no effect
// was not taken.
func unmoved(j Job, o Outcome, seen Status, now time.Time) Job {
	if seen != Accepted {
		j.Looks, j.Unmoved = 0, 0
	}
	j.Looks++
	settles := cmp.Or(o.Settles, o.Timing.settlesAfter(Promptness{}))
	if j.Unmoved >= settles {
		o.Err = &Error{Kind: Busy, Op: "dispatch.next", Text: "The platform was asked to start this job, and did not."}
		return turnedAway(j, o, now)
	}
	pause := o.Timing.startCheck(settles)
	j.Unmoved += pause
	j.Due = now.Add(pause)
	return j.attend(InDoubt, "")
}

// clockSetBack is how much sooner than the last a question may have been asked; more means that the clock was set back.
const clockSetBack = 2 * time.Minute

// asked is when the platform was asked.
func (o Outcome) asked(now time.Time) time.Time {
	if o.At.IsZero() {
		return now
	}
	return o.At
}

// missed counts a status read that did not find the job. It also counts as a request without an answer, so that clients who wait for a
// status do not cause a job that is late to appear to be called lost sooner.
func missed(j Job, t Timing, now time.Time) Job {
	if j.Seen != "" {
		j.Seen, j.Looks = "", 0
	}
	j.Looks++
	j.Tries++
	j.Due = now.Add(t.Check)
	switch {
	case j.Looks >= lostLooks:
		return ended(j, Failed, Lost, "The platform does not know this job any more.")
	case j.Looks > 1:
		return j.hint(Missing, "")
	}
	return j
}

// searched applies a listing to a create in doubt.
func searched(j Job, o Outcome, now time.Time) Job {
	switch {
	case o.Err != nil:
		return unanswered(j, o, now)
	case o.Ref != Ref{}:
		j.Tries, j.Due = 0, now
		return j.attend(None, "")
	case j.Phase != Creating: // an orphan was found, or a fact came first
		return j
	}
	j.Looks++
	switch {
	case o.Repeat:
		j.Phase, j.Due = Waiting, now
		return j.attend(None, "")
	case j.Looks < searchLooks:
		j.Due = now.Add(o.Timing.Check)
		return j.attend(InDoubt, "")
	}
	return unknown(j, o, now)
}

// unknown applies that nothing can be found out about a submission. The broker sends nothing more, says so, and leaves the choice to the
// owner.
func unknown(j Job, o Outcome, now time.Time) Job {
	switch {
	case j.Desired == WantCancel: // given up by the owner; the attention stays
		return ended(j, Canceled, SubmissionUnknown, "")
	case j.Status == Unknown && now.Sub(j.Moved) >= o.Timing.GiveUpAfter:
		return ended(j, Failed, SubmissionUnknown, "Whether the platform took this job could not be found out.")
	}
	j.Status, j.Due = Unknown, now.Add(o.Timing.UnknownCheck)
	return j.attend(SubmissionUnknown, "")
}

// canceled applies the response to a cancel.
func canceled(j Job, o Outcome, now time.Time) Job {
	switch {
	case (o.Err == nil || Is(o.Err, NotFound)) && j.Desired == WantRun:
		return ended(j, Canceled, Overdue, fmt.Sprintf("It had not ended %v after its start, which is its max_duration, and was canceled.", j.MaxDuration))
	case o.Err == nil, Is(o.Err, NotFound):
		return ended(j, Canceled, None, "")
	case Is(o.Err, Unsupported):
		j.Due = now.Add(firstPoll)
		return j.attend(CancelUnsupported, TextFor(o.Err))
	}
	return unanswered(j, o, now)
}

// orphanCanceled applies the response to the cancel of an orphan. An orphan that cannot be canceled moves to Past.
func orphanCanceled(j Job, o Outcome, now time.Time) Job {
	switch {
	case o.Err == nil, Is(o.Err, NotFound):
		j.Tries = 0 // of the cancel
		return j.withoutOrphan(o.Ref)
	case Is(o.Err, Unsupported):
		j = j.withoutOrphan(o.Ref)
		j.Tries, j.Past = 0, append(slices.Clone(j.Past), o.Ref)
		return j
	}
	j.Due = now.Add(o.Timing.pause(j.Tries, o.Err))
	j.Tries++
	return j
}

// stranded is a job whose platform is not configured any more.
func stranded(j Job, t Timing, now time.Time) Job {
	j.Due, j.Awaited = now.Add(t.Recheck), false
	if j.Phase != Ended && j.Attention != NoPlatform {
		j.Updated = now
		return j.attend(NoPlatform, noPlatformText)
	}
	return j
}

const noPlatformText = "The platform of this job is not configured any more."

func ended(j Job, s Status, a Attention, failure string) Job {
	j.Phase, j.Status, j.Failure = Ended, s, failure
	return j.attend(a, "")
}

// settled applies the consequences that every change has: turn, status, deadline, and the times of the change.
func settled(was, j Job, t Timing, now time.Time) Job {
	j.Awaited = false
	if j.Phase == Waiting && j.Desired == WantCancel { // nowhere, and wanted no more
		j = ended(j, Canceled, None, "")
	}
	if j.Phase != was.Phase {
		j.Turn, j.Looks, j.Unmoved = was.Turn+1, 0, 0
		switch {
		case j.Phase == Waiting:
			j.Status = Accepted
		case j.Phase == Created, j.Phase == Started && j.Status != Queued && j.Status != Running:
			j.Status = Submitted
		}
	}
	if was.Phase.InDoubt() && j.Phase.Inert() && j.Begun > 1 {
		j.Due = later(j.Due, now.Add(t.Check)) // suspects of one crash go before those of two
	}
	if j.Phase == Started && was.Phase != Started && j.MaxDuration > 0 {
		j.Deadline = now.Add(j.MaxDuration)
	}
	if j.Phase == Started && now.Before(j.Deadline) {
		j.Due = earlier(j.Due, j.Deadline) // a look says whether it is still alive
	}
	if j.Phase != was.Phase || j.Status != was.Status {
		j.Moved = now
		if j.Phase == Started {
			j.Due = earlier(j.Due, now.Add(firstPoll)) // what moved may soon move again
		}
	}
	if j.shown() != was.shown() {
		j.Updated = now
	}
	return j
}

// shown is what an owner sees of a change.
type shown struct {
	status          Status
	ref             Ref
	attention       Attention
	notice, failure string
	progress, costs float64
}

func (j Job) shown() shown {
	return shown{j.Status, j.Ref, j.Attention, j.Notice, j.Failure, value(j.Progress), value(j.Costs)}
}

func value(f *float64) float64 {
	if f == nil {
		return -1
	}
	return *f
}
