package dispatch

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

type (
	JobID  int64
	TaskID int64 // 0: the job belongs to no task

	// UserID identifies one person by the issuer and the subject of their token, joined by a space. The same subject
	// from two issuers is two users.
	UserID string

	// Account is one identity at one platform, written "platform/identity". Tokens, leases, slots and listings belong
	// to it. The identity is "shared", "open", or a UserID.
	Account string
)

// Hash returns the SHA-256 of u in hexadecimal digits. It stands for users where they must not be named.
func (u UserID) Hash() string {
	sum := sha256.Sum256([]byte(u))
	return hex.EncodeToString(sum[:])
}

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

// Ref identifies a job at its platform. It is zero until the platform has assigned an identifier.
type Ref struct {
	Base string // the URL below which the platform keeps the job; "": the platform's endpoint
	ID   string
}

// Phase is how far the submission of a job to its platform has come. It decides which request may be sent next.
type Phase string

const (
	Waiting Phase = "waiting" // not created at the platform
	// a create request was begun; until its response arrives or it is settled, the platform may have accepted it
	Creating Phase = "creating"
	Created  Phase = "created"  // the platform assigned a Ref; nothing runs
	Starting Phase = "starting" // the same for a start request
	Started  Phase = "started"  // the job is known to have started; it is never started again
	Ended    Phase = "ended"    // finished, failed or canceled: no more requests about it, except for orphans
)

// InDoubt reports whether a request was begun whose outcome is not known.
func (p Phase) InDoubt() bool { return p == Creating || p == Starting }

// HoldsSlot reports whether a job in phase p occupies one of its account's slots: from the intent to create until it
// has ended. The counts of held jobs (store/counts.go) and the store in memory (test/conformance/memagenda.go)
// implement the same rule, and test/conformance/slots.go compares them. Limits.free decides whether a further job may
// begin.
func (p Phase) HoldsSlot() bool { return p != Waiting && p != Ended }

// FreesSlot reports whether the slot of j counts as free because j is stalled: j has started, its phase and status have
// not changed for the duration stalled, and its platform does not report it as running. If stalled is 0, the operator
// has not enabled this, and the result is false.
func (j Job) FreesSlot(stalled time.Duration, now time.Time) bool {
	return stalled > 0 && j.Phase == Started && j.Status != Running && !j.Moved.After(now.Add(-stalled))
}

// Inert reports whether nothing of a job in phase p runs and no request about it is under way. A hold of the account
// stops only such jobs.
func (p Phase) Inert() bool { return p == Waiting || p == Created }

// Status is the status of a job as users see it.
type Status string

const (
	Accepted  Status = "created" // stored and not started: by the broker or, in a platform's report, by the platform
	Submitted Status = "submitted"
	Queued    Status = "queued"
	Running   Status = "running"
	Finished  Status = "finished"
	Canceled  Status = "canceled"
	Failed    Status = "failed"
	Unknown   Status = "unknown" // the status cannot be determined; see the job's Attention
)

// Final reports whether a platform never leaves status s by itself.
func (s Status) Final() bool { return s == Finished || s == Canceled || s == Failed }

// running reports whether a platform that reports s must have started the job.
func (s Status) running() bool { return s == Queued || s == Running || s.Final() }

// Desired is what the owner wants. Only owners change it; visits never do.
type Desired string

const (
	WantRun    Desired = "run"
	WantCancel Desired = "canceled"
)

// Attention is the reason why a job makes no progress, or another fact that its owner should know.
type Attention string

const (
	None    Attention = ""
	InDoubt Attention = "submission_in_doubt" // the broker is checking whether the platform accepted the request
	// the check has no result: the job may run or not; its owner decides
	SubmissionUnknown Attention = "submission_unknown"
	NotTaken          Attention = "platform_busy" // the platform turned the job away; it is submitted again
	Full              Attention = "platform_full" // the same, because the platform has other jobs of the account
	GivenUp           Attention = "given_up"      // the job failed because it was turned away for too long
	Unreachable       Attention = "platform_unavailable"
	NeedsSignIn       Attention = "sign_in_required"
	NeedsOperator     Attention = "platform_misconfigured"
	CancelUnsupported Attention = "cancel_unsupported"
	// the status is read for some minutes more before the job counts as lost
	Missing        Attention = "not_found_on_platform"
	Lost           Attention = "lost_on_platform"
	NoPlatform     Attention = "platform_not_configured"
	HeldByOperator Attention = "held_by_operator"
	// it failed because of its platform, and is submitted again after a pause, see Job.Retries
	Retrying Attention = "retrying"
	// its task is paused: the job is not submitted until it is resumed
	Paused        Attention = "paused"
	BudgetReached Attention = "budget_reached" // its task is paused because another run would exceed its budget
	// its task with a budget is paused until the costs of its first runs are known
	CostsAwaited Attention = "costs_awaited"
	// its task is paused because the platform reports no costs, or in another unit than its budget's
	BudgetUnusable Attention = "budget_unusable"
	// its task is paused except for its first jobs, which run on trial
	Trial      Attention = "trial"
	TrialEnded Attention = "trial_ended" // these jobs have ended: its owner decides whether the others run
	// the platform reports the job as alive, but its status and progress do not change
	Stalled Attention = "stalled"
	Overdue Attention = "max_duration_reached" // canceled because it ran longer than its max_duration
	// its service's document changed while the job waited; it is still submitted
	ServiceChanged Attention = "service_changed"

	// On a job that has ended and was to be removed from its platform, see [Removal]: the platform cannot do that, or
	// kept failing.
	NotRemoved Attention = "not_removed_on_platform"

	// On a job that failed because an operator ended it, see [broker.Broker.EndJob].
	EndedByOperator Attention = "ended_by_operator"

	// The document that defines the job's service cannot be fetched: the job waits for it, or failed because it waited
	// for too long.
	ApplicationUnreachable Attention = "application_unreachable"

	// On a job that failed because the platform refused it permanently, for a reason that its owner can act on.
	RefusedForbidden   Attention = "refused_forbidden"
	RefusedUnsupported Attention = "refused_unsupported"

	// On a job that failed because three times in a row the process ended, or its adapter panicked, while the job was
	// being submitted. It is not submitted again unless its owner retries it. On any other job: the same happened
	// during other requests about it, such as status reads. They are repeated at growing intervals, up to
	// Timing.UnknownCheck.
	SetAside Attention = "set_aside"

	// On a job that failed because the document that defines its service is refused, too large, or defines no service.
	ApplicationInvalid Attention = "application_invalid"
)

// Job is one execution of one service. Its [Request] is stored separately, because a visit reads it only to submit the
// job. Its parts are told apart by who writes them and how long they last.
type Job struct {
	Identity
	Target
	Wish
	Handover
	Condition
	Plan
	Metering

	Version int64 // Save rejects any other version

	// Loaded is the job as a store returned it to a visit: from it and its version, Intend and Save know what they
	// change without reading it again. nil: they read it.
	Loaded *Job

	// Result is a STAC Collection that the platform returned in its response to the submission. The next Save stores
	// it. A store never fills in this field; see Store.Result.
	Result []byte
}

// Identity is the part of a job that never changes after it was accepted.
type Identity struct {
	ID     JobID
	Task   TaskID
	Number int // in its task, from 1; 0: the job belongs to no task
	Owner  UserID

	// Names are those of its values, one for each dimension of its task, "" for a value without one; nil: none has one.
	Names []string

	Budgeted    bool          // its task was accepted with a budget
	MaxDuration time.Duration // the job is canceled if it runs longer; 0: no limit
	Retries     int           // how often it is retried by itself after failures that its platform caused
	Created     time.Time

	// Traceparent is the trace context of the request that accepted the job, see [Tracer]; "": it was not traced.
	Traceparent string
}

// Target is where a job runs. It changes only while the job waits, if its task has several placements.
type Target struct {
	Account Account
	Base    string // URL below which its platform lists it, see Platform.Base
	Service ServiceHash
}

// Wish is what the owner of a job wants. Visits never change it.
type Wish struct {
	Desired Desired
	Hidden  bool // its owner deleted it, or it was refused; it is no longer shown, but visits still process it

	// Paused is set while the task of the job is paused: the job is not submitted while it waits. What was submitted
	// goes on. Stores set it for tasks with a budget, too, see Store.Intend.
	Paused bool

	Annotations Annotations
}

// Handover is how far the submission of a job to its platform has come.
type Handover struct {
	Phase   Phase
	Epoch   int       // number of phase changes; Outcome.Epoch is its value when the request was made
	Attempt int       // number of the latest attempt; every create and every retry takes a new number
	Retried int       // how often it was retried by itself, since its owner last submitted or retried it
	Nonces  Nonces    // the random parts of the attempts' tags
	SendBy  time.Time // when the latest create or start request is certainly over

	// Begun is the number of submissions of the job that were begun since one of them got a response, see [SetAside].
	Begun int

	IntentLease int64 // the generation of the lease under which the latest intent was committed

	Ref     Ref
	Orphans []Ref // further platform jobs of this job, from repeated creates or late responses; to be canceled
	// platform jobs to be ignored: of attempts that failed before a retry, and orphans that cannot be canceled
	Past []Ref
}

// Condition is how the present attempt of a job is, as its platform reports it and its owner sees it. A retry begins a
// new one.
type Condition struct {
	Status    Status
	Seen      Status // the last reported status, believed or not
	Progress  *float64
	Costs     *float64      // in Metering.Unit
	Duration  time.Duration // the run time that the platform reported; 0: none was reported
	Metered   Metered       // as the platform reported it
	Attention Attention
	Notice    string // text about Attention, often the platform's; safe to show
	Failure   string // why it failed; safe to show

	// Versions says which software and definition run the job, as far as they were known when the job was submitted;
	// zero if that request's response was lost.
	Versions Versions

	Updated time.Time // when what its owner sees last changed
	Checked time.Time // when the platform last reported the status
	Moved   time.Time // when phase or status last changed

	// when its platform began to run it: as it reports, or as the broker saw it run first; zero: neither
	Started time.Time
	Ended   time.Time // when it ended, as the platform reports; zero: not reported, see [Job.EndTime]
}

// Plan is when the next step of a job is due, and what decides that. A retry begins a new one.
type Plan struct {
	Due      time.Time // zero: it waits and is paused
	Polls    int       // status reads and searches in this epoch that did not settle the job
	Tries    int       // requests in a row that failed
	Deadline time.Time // when the job will have run for its MaxDuration; zero: no limit, or not started
	// since when it is turned away or its document is unavailable, excluding waits for a slot; zero: neither applies
	Refused time.Time
	Awaited bool // a client waits for the next status

	// Unmoved is for how long consecutive status reads have shown no effect of a start in doubt: the sum of the pauses
	// between them.
	Unmoved time.Duration
}

// Metering is what all runs of a job cost, and what is still to be done at its platform after its end.
type Metering struct {
	Unit      string      // in which the platform charges; "": it does not, or does not name one
	Spent     float64     // what attempts before a retry cost
	Unmetered []Unmetered // runs whose costs or usage are still to be read
	Removal   Removal
}

// Name returns the names of the job's values in one text; "" if they have none.
func (j Job) Name() string {
	return strings.Join(slices.DeleteFunc(slices.Clone(j.Names), func(name string) bool { return name == "" }), ", ")
}

// Listed returns the job as lists of records have it: without what no list shows and only visits use.
func (j Job) Listed() Job {
	j.Base, j.Service, j.Hidden, j.Paused, j.Budgeted = "", 0, false, false, false
	j.Epoch, j.Attempt, j.Nonces, j.SendBy, j.Begun, j.IntentLease = 0, 0, "", time.Time{}, 0, 0
	j.Ref.Base, j.Orphans, j.Past, j.Refused, j.Unmoved = "", nil, nil, time.Time{}, 0
	j.MaxDuration, j.Deadline, j.Unmetered, j.Removal, j.Traceparent = 0, time.Time{}, nil, Removal{}, ""
	j.Version, j.Tries, j.Awaited = 0, 0, false
	return j
}

// Intend returns the job as it must be committed before its next request is sent.
func (j Job) Intend(sendBy time.Time) Job {
	switch j.Phase {
	case Waiting:
		j.Phase, j.Attempt = Creating, j.Attempt+1
	case Created:
		j.Phase, j.Seen = Starting, ""
	}
	j.Epoch, j.Polls, j.Unmoved = j.Epoch+1, 0, 0
	j.Begun++
	j.SendBy, j.Due = sendBy, sendBy.Add(SettleMargin)
	return j
}

// RunsUntil returns the job as it must be committed regularly while the request is under way whose response is its
// results: it runs, and if that is not confirmed until sendBy, the request has ended.
func (j Job) RunsUntil(sendBy, now time.Time) Job {
	if j.Status != Running {
		j.Status, j.Started, j.Moved, j.Updated = Running, now, now, now
	}
	j.SendBy, j.Due = sendBy, sendBy.Add(SettleMargin)
	return j.WithAttention(None, "")
}

// Unwanted reports whether the request that [Job.RunsUntil] is about is to be ended: the owner canceled the job, or it
// has run for its MaxDuration.
func (j Job) Unwanted(now time.Time) bool {
	return j.Desired == WantCancel || j.Status == Running && j.MaxDuration > 0 && now.Sub(j.Started) >= j.MaxDuration
}

// ExcludeWait returns the job with the time since due excluded from the time for which it has been turned away, because
// the job only waited for a slot since due.
func (j Job) ExcludeWait(due, now time.Time) Job {
	if idle := now.Sub(due); idle > 0 && !j.Refused.IsZero() {
		j.Refused = j.Refused.Add(idle)
	}
	return j
}

// Never is after everything else: the end of a queue, see [Rank].
var Never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// idlePaused returns the job as it must be stored: if it waits and is paused, it is not due unless orphans are to be
// canceled, and shows why. The time for which it was turned away before does not count any more.
func (j Job) idlePaused() Job {
	if !j.Paused || j.Phase != Waiting {
		return j
	}
	if j.Refused = (time.Time{}); len(j.Orphans) == 0 {
		j.Due, j.Tries = time.Time{}, 0
	}
	return j.WithAttention(Paused, "")
}

// Overdue reports whether a job still ran when its MaxDuration was over.
func (j Job) Overdue() bool {
	return j.Phase == Started && !j.Deadline.IsZero() && !j.Checked.Before(j.Deadline) && j.Seen != Failed
}

// WithOrphan adds a platform job that is not the job's own and must be canceled.
func (j Job) WithOrphan(r Ref) Job {
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

// EndTime returns when the job ended: as its platform reports, or as the broker noticed it; zero: it has not ended.
func (j Job) EndTime() time.Time {
	if !j.Status.Final() {
		return time.Time{}
	}
	return cmp.Or(j.Ended, j.Moved)
}

// IsRefused reports whether the platform refused j permanently.
func (j Job) IsRefused() bool {
	switch j.Attention {
	case None, RefusedForbidden, RefusedUnsupported, ApplicationInvalid:
		return j.Status == Failed && j.Ref == Ref{} && j.Started.IsZero()
	}
	return false
}

// Refusal returns the error of a refused job, from what is stored in its row.
func (j Job) Refusal() error {
	e := InvalidBody("dispatch.Accept", j.Failure)
	switch j.Attention {
	case RefusedForbidden:
		e.Kind = Forbidden
	case RefusedUnsupported:
		e.Kind = Unsupported
	case ApplicationInvalid:
		e = InvalidBody("dispatch.Accept", j.Failure, "service", "application")
		e.Kind = DocumentInvalid
	}
	return e
}
