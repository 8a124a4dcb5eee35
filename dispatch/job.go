package dispatch

import (
	"slices"
	"strings"
	"time"
)

type (
	JobID  int64
	TaskID int64 // 0: the job belongs to no task

	// UserID is one person: issuer and subject of their token, joined by a space. The same subject of two issuers is two.
	UserID string

	// Account is one identity at one platform, written "platform/identity". Tokens, leases, slots and listings belong
	// to it. The identity is "shared", "open", or a UserID.
	Account string
)

// Platform is the name of the platform that the account is at.
func (a Account) Platform() string {
	name, _, _ := strings.Cut(string(a), "/")
	return name
}

// Identity returns the user whom the account acts for, or "shared" or "open".
func (a Account) Identity() string {
	_, identity, _ := strings.Cut(string(a), "/")
	return identity
}

// Ref identifies a job at its platform; the zero Ref until the platform assigned one.
type Ref struct {
	Base string // the address below which the platform keeps the job; "" is the platform's endpoint
	ID   string
}

// Phase is how far a job has been brought to its platform. It decides what may be sent next.
type Phase string

const (
	Waiting  Phase = "waiting"  // nothing of this job is at the platform
	Creating Phase = "creating" // a request that creates is begun; until it is answered or settled, it may have been taken
	Created  Phase = "created"  // the platform gave a Ref; nothing runs
	Starting Phase = "starting" // a request that starts is begun, likewise
	Started  Phase = "started"  // seen started: it is never started again
	Ended    Phase = "ended"
)

// InDoubt reports whether a request was started whose outcome is not known.
func (p Phase) InDoubt() bool { return p == Creating || p == Starting }

// Holds reports whether a job in phase p takes one of its account's slots: from the intent to create until it has ended.
// The same rule stands in CountHeld (store/query.sql) and in the store in memory (test/conformance/memagenda.go);
// test/conformance/slots.go compares them. Limits.free decides whether a further job may begin.
func (p Phase) Holds() bool { return p != Waiting && p != Ended }

// FreesSlot reports whether the slot of j counts as free where the operator chose to free the slots of jobs that are stalled: it has
// started, has not moved for the time of stalled, and its platform does not say that it runs. 0: never.
func (j Job) FreesSlot(stalled time.Duration, now time.Time) bool {
	return stalled > 0 && j.Phase == Started && j.Status != Running && !j.Moved.After(now.Add(-stalled))
}

// Inert reports whether nothing of a job in phase p runs, and no request about it is under way: what its account's hold stops.
func (p Phase) Inert() bool { return p == Waiting || p == Created }

// Status is the status of a job, in the words that users see.
type Status string

const (
	Accepted  Status = "created" // kept, and not started: by us, or in a platform's report by the platform
	Submitted Status = "submitted"
	Queued    Status = "queued"
	Running   Status = "running"
	Finished  Status = "finished"
	Canceled  Status = "canceled"
	Failed    Status = "failed"
	Unknown   Status = "unknown" // the truth cannot be established; see the job's Attention
)

// Final reports whether a platform never leaves status s by itself.
func (s Status) Final() bool { return s == Finished || s == Canceled || s == Failed }

// running reports whether a platform that says s must have started the job.
func (s Status) running() bool { return s == Queued || s == Running || s.Final() }

// Desired is what the owner wants. Only owners change it; visits never do.
type Desired string

const (
	WantRun    Desired = "run"
	WantCancel Desired = "canceled"
)

// Attention is why a job makes no progress, or what its owner should know.
type Attention string

const (
	None              Attention = ""
	InDoubt           Attention = "submission_in_doubt" // being found out
	SubmissionUnknown Attention = "submission_unknown"  // cannot be found out: it may run or not; the owner decides
	NotTaken          Attention = "platform_busy"       // the platform turned it away; tried again
	Full              Attention = "platform_full"       // likewise, while it has other jobs of the account
	GivenUp           Attention = "given_up"            // turned away for too long; it failed
	Unreachable       Attention = "platform_unavailable"
	NeedsSignIn       Attention = "sign_in_required"
	NeedsOperator     Attention = "platform_misconfigured"
	CancelUnsupported Attention = "cancel_unsupported"
	Missing           Attention = "not_found_on_platform" // looked for some minutes more, before it is lost
	Lost              Attention = "lost_on_platform"
	NoPlatform        Attention = "platform_not_configured"
	Stalled           Attention = "stalled"              // the platform says it is alive, and always the same
	Overdue           Attention = "max_duration_reached" // canceled for that
	ServiceChanged    Attention = "service_changed"      // its document has, while the job waits; submitted all the same

	// The document that defines its service cannot be fetched: it waits for that, or failed because it waited for too long.
	ApplicationUnreachable Attention = "application_unreachable"

	// On a job that failed because the platform refused it for good, in a way that tells its owner what else to do.
	RefusedForbidden   Attention = "refused_forbidden"
	RefusedUnsupported Attention = "refused_unsupported"

	// On a job that failed because it is not submitted again: three times in a row the process ended, or its adapter panicked,
	// while the job was being submitted. Its owner may retry it.
	SetAside Attention = "set_aside"

	// On a job that failed because the document that defines its service is none, or is refused.
	ApplicationInvalid Attention = "application_invalid"
)

// Job is one execution of one service. What was asked for is its [Request], which is kept apart: a visit reads it only
// to submit.
type Job struct {
	ID      JobID
	Task    TaskID
	Number  int // in its task, from 1; 0: the job belongs to no task
	Owner   UserID
	Account Account
	Base    string // where its platform lists it, see Platform.Base
	Desired Desired
	Hidden  bool // its owner deleted it, or it was refused; nobody but visits sees it

	MaxDuration time.Duration // it is canceled if it takes longer; 0: it may

	Phase   Phase
	Turn    int       // how often the phase has changed: an answer tells which turn it was asked in
	Attempt int       // how often a create was begun
	Nonces  Nonces    // the random parts of the attempts' tags
	SendBy  time.Time // when the request begun last is certainly over

	// Begun is how many submissions of the job were begun since one was answered, see [SetAside].
	Begun int

	IntentLease int64 // the generation of the lease under which the request begun last was intended

	Ref     Ref
	Orphans []Ref // what the platform also gave for this job, by repeated creates or late answers: to be canceled
	Past    []Ref // what is done with: of attempts that failed before a retry, and orphans that cannot be canceled

	Status    Status
	Seen      Status // the last report, believed or not
	Progress  *float64
	Costs     *float64
	Duration  time.Duration // how long it ran, by the platform; 0: it did not tell
	Attention Attention
	Notice    string // what the platform said about Attention; safe to show
	Failure   string // why it failed; safe to show

	Due      time.Time // when there is next something to do
	Looks    int       // looks in this turn that did not settle it
	Tries    int       // questions in a row that brought no answer
	Deadline time.Time // when it has taken its MaxDuration; zero: there is none, or it has not started
	Refused  time.Time // since when it is turned away, and not for want of a slot; zero: it is not
	Awaited  bool      // a client waits for the next answer
	Created  time.Time
	Updated  time.Time // when what its owner sees last changed
	Checked  time.Time // when the platform last told the status
	Moved    time.Time // when phase or status last changed
	Version  int64     // Save refuses any other

	// Unmoved is for how long statuses in a row have shown a start in doubt without effect: the sum of the pauses between them.
	Unmoved time.Duration

	// Result is a STAC Collection that came in the answer to the submission, to be kept with the next Save. Store
	// never fills it in; see Store.Result.
	Result []byte
}

// Intend returns the job as it must be committed before its next request is sent.
func (j Job) Intend(sendBy time.Time) Job {
	switch j.Phase {
	case Waiting:
		j.Phase, j.Attempt = Creating, j.Attempt+1
	case Created:
		j.Phase, j.Seen = Starting, ""
	}
	j.Turn, j.Looks, j.Unmoved = j.Turn+1, 0, 0
	j.Begun++
	j.SendBy, j.Due = sendBy, sendBy.Add(SettleMargin)
	return j
}

// waited returns the job without the time since due in its time of being turned away: it waited for a slot, and was not turned away.
func (j Job) waited(due, now time.Time) Job {
	if idle := now.Sub(due); idle > 0 && !j.Refused.IsZero() {
		j.Refused = j.Refused.Add(idle)
	}
	return j
}

// Retry returns a failed job reset for another attempt. Its previous platform job moves to Past, so that a late response about it is never
// mistaken for the new attempt.
func (j Job) Retry(now time.Time) Job {
	if j.Ref != (Ref{}) {
		j.Past = append(slices.Clone(j.Past), j.Ref)
	}
	return Job{
		ID: j.ID, Task: j.Task, Number: j.Number, Owner: j.Owner, Account: j.Account, Base: j.Base, Desired: j.Desired, Hidden: j.Hidden,
		MaxDuration: j.MaxDuration, Phase: Waiting, Turn: j.Turn + 1, Attempt: j.Attempt + 1, Nonces: j.Nonces, Orphans: j.Orphans, Past: j.Past, Status: Accepted,
		Due: now, Created: j.Created, Updated: now, Moved: now, Version: j.Version,
	}
}

// Retryable reports whether the owner may run the job again.
func (j Job) Retryable() bool {
	return j.Phase == Ended && j.Status == Failed && j.Desired == WantRun && !j.Hidden
}

// overdue reports whether a job still ran when its MaxDuration was over.
func (j Job) overdue() bool {
	return j.Phase == Started && !j.Deadline.IsZero() && !j.Checked.Before(j.Deadline) && j.Seen != Failed
}

// withOrphan adds a platform job that is not the job's own and must be canceled.
func (j Job) withOrphan(r Ref) Job {
	if !slices.Contains(j.Orphans, r) {
		j.Orphans = append(slices.Clone(j.Orphans), r)
	}
	return j
}

// withoutOrphan removes an orphan that is settled.
func (j Job) withoutOrphan(r Ref) Job {
	j.Orphans = slices.DeleteFunc(slices.Clone(j.Orphans), func(s Ref) bool { return s == r })
	return j
}
