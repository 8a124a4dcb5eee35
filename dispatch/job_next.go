package dispatch

import (
	"fmt"
	"slices"
	"time"
)

const (
	SettleMargin = 5 * time.Second // a request is settled no sooner than this after its deadline

	// in Timing.Check: how long a start in doubt must show "created" before it is repeated; platforms lag 15 min
	startPolls  = 20
	searchPolls = 3 // complete listings without the tag after which a one-step submission counts as unknown
	// status reads in a row that do not find a job before it counts as lost; the first two may be close together
	lostPolls = 6
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
	Repeat   bool // search: a job that was not found may be submitted again
	Others   int  // submit: number of jobs of the account that ran at the platform
	// submit: the request was certainly not sent, because of a fault on the broker's side; Err is the fault
	Unsent bool
	// with Unsent: generation of the lease under which the intent was to be committed; 0: it was committed
	Lease    int64
	Taken    bool // submit: the platform returned the identifier of another job, which Ref leaves out; Err says so
	Panicked bool // the adapter panicked, or the process may end before the response; Err describes which
	Err      error
	At       time.Time // when the request was sent, by the store's clock; zero: just now
	Timing   Timing
	Failures FailureRules // of the platform
	// for how long statuses must show no start before a start in doubt is repeated; 0: as for an unknown platform
	Settles time.Duration
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
		return applyOrphanCancel(j, o, now).idlePaused()
	case AskMeter:
		return applyMetering(j, o, now)
	case AskRemove:
		return applyRemoval(j, o, now)
	}
	before := j
	if o.Asked == AskSubmit && !o.Unsent && !o.Panicked {
		j = j.countResponse(o)
	}
	j = applyFacts(j, o, now)
	if o.Epoch == before.Epoch && j.Phase != Ended && (o.Lease == 0 || o.Lease == before.IntentLease) {
		j = applyVerdict(j, o, now)
	}
	j = ApplyConsequences(before, PlanMetering(before, j, o, now), o.Timing, now)
	j.Awaited = before.Awaited && j.Phase == Started && o.Attempt != j.Attempt
	return j.retriedByItself(before, o, now)
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
	late := j.Phase == Ended || o.Attempt != j.Attempt // the identifier in the response is not the job's own
	switch {
	case o.givesNewRef(j) && (late || j.Ref != (Ref{})):
		return j.WithOrphan(o.Ref)
	case late:
		return j
	case o.givesNewRef(j):
		j.Ref, j.Phase, j.Versions = o.Ref, Created, o.Versions
	}
	if o.Ref == j.Ref && (o.Started || o.Report.Status.running()) && (j.Phase == Created || j.Phase == Starting) {
		if j.Phase = Started; o.Asked == AskSubmit {
			j.Seen = "" // a status from before the confirmation shows nothing about the lag
		}
	}
	if o.Result != nil {
		j.Result, j.Checked, j.Versions = o.Result, now, o.Versions
		if !j.Started.IsZero() {
			j.Duration = now.Sub(j.Started)
		}
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
func ApplyConsequences(before, j Job, t Timing, now time.Time) Job {
	j.Awaited = false
	if j.Phase == Waiting && j.Desired == WantCancel { // not at the platform, and no longer wanted
		j = EndJob(j, Canceled, None, "")
	}
	if j.Phase != before.Phase {
		j.Epoch, j.Polls, j.Unmoved = before.Epoch+1, 0, 0
		switch {
		case j.Phase == Waiting:
			j.Status = Accepted
		case j.Phase == Created, j.Phase == Started && j.Status != Queued && j.Status != Running:
			j.Status = Submitted
		}
	}
	if before.Phase.InDoubt() && j.Phase.Inert() && j.Begun > 1 {
		j.Due = Later(j.Due, now.Add(t.Check)) // suspects of one crash are submitted before those of two
	}
	if j = j.idlePaused(); len(j.Orphans) > 0 && j.Due.IsZero() {
		j.Due = now // it was paused
	}
	if j.Phase == Started && before.Phase != Started && j.MaxDuration > 0 {
		j.Deadline = now.Add(j.MaxDuration)
	}
	if j.Phase == Started && now.Before(j.Deadline) {
		j.Due = Earlier(j.Due, j.Deadline) // a status read then shows whether the job is still alive
	}
	if j.Phase != before.Phase || j.Status != before.Status {
		j.Moved = now
		if j.Phase == Started {
			j.Due = Earlier(j.Due, now.Add(FirstPoll)) // a job that has changed may soon change again
		}
	}
	if j.shown() != before.shown() {
		j.Updated = now
	}
	return j
}

// Repair is the pause before a failed statement is repeated.
const Repair = time.Second

// MostBegun is how many submissions of a job in a row may end in a crash before the job is set aside.
const MostBegun = 3

// OfAnother returns the outcome of a submission for which the platform returned the identifier of another job.
func (o Outcome) OfAnother() Outcome {
	o.Err = &Error{Kind: BadUpstream, Op: "dispatch.submit", Text: fmt.Sprintf(
		"The platform returned the identifier %q for this job, which it has given to another job, so that the two "+
			"cannot "+
			"be told apart. The broker does not know whether it runs this one. Tell the operator of the platform.",
		o.Ref.ID)}
	o.Taken, o.Ref, o.Started, o.Result, o.Versions = true, Ref{}, false, nil, Versions{}
	return o
}
