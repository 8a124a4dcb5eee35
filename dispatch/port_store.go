package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// ClockJump is how far a store's clock must have been set back before plans are moved. Plans that lie less far ahead
// are not moved.
const ClockJump = 5 * time.Minute

// Store stores jobs and accounts. It is safe for concurrent use, also by several processes. All times are from its own
// clock. For an owner, a hidden object or an object of another owner is NotFound.
type Store interface {
	Submissions
	Records
	ChangeNumbers
	SyncRuns
	UnstartedJobs
	Changes
	TaskHomes
	ServiceDocuments
	Queue
	Agendas
	Responses
	PlatformNotes
	RestoreMarks

	// Installation returns a text of letters and digits that is unique to this store, chosen when the store was created.
	Installation(context.Context) (string, error)
	// Purge deletes hidden jobs that ended longer than keep ago and have no orphans, unstarted jobs that have expired,
	// keys older than [KeyLife], synchronous runs older than [SyncRunLife], run times of services to which none was added
	// for [RunTimesLife], and the turns of lines of which no job waits, unless it is paused, or holds a slot.
	Purge(ctx context.Context, keep time.Duration) error
	// Ping returns nil when the store answers.
	Ping(context.Context) error
}

// Submissions stores what users submit.
type Submissions interface {
	// Accept stores the task, if not nil, and the jobs, all or none, with the documents that define their services. It
	// fills in their ids and times, and as their attention and notice why their account submits nothing, as Record shows
	// it. It wakes their account. All jobs are of one account. A text that is not UTF-8 or contains a NUL is Invalid. If
	// the owner used the key within [KeyLife] for the same fingerprint, nothing is stored and the id of the task, or of
	// the first job, stored then is returned as the KeyTarget; for another fingerprint: Conflict. LimitReached, and
	// nothing stored, if the owner would exceed a quota, however many requests and processes accept at once.
	Accept(ctx context.Context, k Key, t *Task, jobs []Draft, within ...Quota) (KeyTarget, error)
	// FindKey returns what was stored when the user first used the key with this fingerprint. With another fingerprint:
	// Conflict. The zero value means that the key is new, or that its [KeyLife] is over.
	FindKey(ctx context.Context, u UserID, k Key) (KeyTarget, error)
}

// Records reads what owners see.
type Records interface {
	// Record returns a job to its owner.
	Record(context.Context, UserID, JobID) (Record, error)
	// Records returns the owner's jobs that belong to no task, by creation.
	Records(context.Context, UserID, Page) ([]Record, error)
	// RecordIncludingHidden returns the owner's job even if it is hidden. It serves clients that repeat a refused request
	// with the same key.
	RecordIncludingHidden(context.Context, UserID, JobID) (Record, error)
	// Tasks returns the owner's tasks, by creation. A task counts as changed when one of its jobs does.
	Tasks(context.Context, UserID, Page) ([]TaskRecord, error)
	// Task returns a task to its owner.
	Task(context.Context, UserID, TaskID) (TaskRecord, error)
	// TaskJobs returns a task's jobs by number, without those that the owner deleted.
	TaskJobs(context.Context, UserID, TaskID, Page) ([]Record, error)
	// FinishedJobs returns the finished jobs of a task after a position, in the order in which they finished, n at most,
	// without those that the owner deleted. They have Record.Value in place of Request.Parameters and Request.Options.
	FinishedJobs(ctx context.Context, u UserID, id TaskID, after ResultPosition, n int) ([]Record, error)
	// Usage counts the owner's jobs at each account, including deleted ones until they are purged. Usage.Lately counts
	// those submitted within d, at most a [Day].
	Usage(ctx context.Context, u UserID, d time.Duration) ([]Usage, error)
	// LabelCharges returns what the owner's runs cost by the value of a label: that of the job, or else of its task, when
	// the platform reported the costs. Newest month first, within a month the highest first, n at most, of the last
	// [LabelCostsLife]. Later changes of labels change nothing.
	LabelCharges(ctx context.Context, u UserID, label string, n int) ([]AccountCharge, error)
	// FinishedRuns returns the owner's latest finished jobs of a service at an account, latest first, n at most, also
	// deleted ones until they are purged.
	FinishedRuns(ctx context.Context, u UserID, a Account, s ServiceHash, n int) ([]FinishedRun, error)
	// FinishedRunsOfTask returns the latest finished jobs of a task, latest first, n at most, without deleted ones. The
	// caller has read the task as its owner.
	FinishedRunsOfTask(ctx context.Context, id TaskID, n int) ([]FinishedRun, error)
	// FinishedRequests is FinishedRuns with FinishedRun.Body: the request, or what a task's job adds to the parameters;
	// empty if it has more than PartMost bytes.
	FinishedRequests(ctx context.Context, u UserID, a Account, s ServiceHash, n int) ([]FinishedRun, error)
	// Underway returns, for each job of a task that is at its platform, when the latest request to submit it is certainly
	// over, in no order. The caller has read the task as its owner.
	Underway(context.Context, TaskID) ([]time.Time, error)
	// Result returns the STAC Collection that was stored with a job; nil if there is none.
	Result(context.Context, UserID, JobID) ([]byte, error)
	// Document returns the document that defined a job's service when the job was accepted; nil if none was stored.
	Document(context.Context, UserID, JobID) ([]byte, error)
	// AccountInfo returns the state of accounts for a user, in the order given. Slots are counted as in Agenda, with the
	// account's entry in stalled; most accounts have none.
	AccountInfo(ctx context.Context, u UserID, accounts []Account, stalled map[Account]time.Duration) ([]AccountInfo,
		error)
}

// SyncRuns stores synchronous runs.
type SyncRuns interface {
	// BeginSyncRun stores a synchronous run and fills in its id and time. The run is under way until it is ended, or was
	// not renewed for lapse. LimitReached as in Accept; Usage and quotas count the run like a job. Unavailable while an
	// operator holds the account or its platform.
	BeginSyncRun(ctx context.Context, r *SyncRun, lapse time.Duration, within ...Quota) error
	// RenewSyncRun confirms that a run is still under way.
	RenewSyncRun(ctx context.Context, id JobID, lapse time.Duration) error
	// ClaimRef stores the platform job that was created for a run under way. Conflict, and nothing stored, if a job of the
	// run's account or another run has that identifier.
	ClaimRef(context.Context, JobID, Ref) error
	// EndSyncRun stores how and when a run ended, without its Ref. A run that has ended does not change again.
	EndSyncRun(context.Context, SyncRun) error
	// SyncRuns returns the owner's synchronous runs, newest first. A run that was not renewed in time is Unknown.
	SyncRuns(context.Context, UserID, Page) ([]SyncRun, error)
}

// UnstartedJobs stores jobs that clients created and have not started. One that has expired is NotFound.
type UnstartedJobs interface {
	// CreateUnstarted stores an unstarted job, or task, which expires after life, and fills in its id, times and version.
	// Until it is started or expires, it counts in Quota.Live and Quota.Bytes like a job. LimitReached, and Invalid for a
	// text, as in Accept.
	CreateUnstarted(ctx context.Context, n *Unstarted, task bool, life time.Duration, within ...Quota) error
	// Unstarted returns an unstarted job to its owner.
	Unstarted(context.Context, UserID, UnstartedID) (Unstarted, error)
	// UnstartedJobs returns the owner's unstarted jobs and tasks, newest first, without their bodies. Of the filters only
	// Page.Accounts applies.
	UnstartedJobs(context.Context, UserID, Page) ([]Unstarted, error)
	// ChangeUnstarted replaces the title and the body. Conflict if the version differs.
	ChangeUnstarted(ctx context.Context, n *Unstarted, within ...Quota) error
	// DeleteUnstarted deletes an unstarted job of its owner.
	DeleteUnstarted(context.Context, UserID, UnstartedID) error
	// Start deletes an unstarted job and stores the task and the jobs as Accept does, under its id, in one commit.
	// NotFound if another request has started or deleted it, Conflict if its version differs.
	Start(ctx context.Context, n Unstarted, t *Task, jobs []Draft, within ...Quota) error
}

// Changes stores what owners decide about their jobs.
type Changes interface {
	// Cancel stores that the owner no longer wants the job, and wakes its account. A waiting job ends with that. With hide
	// the owner does not see the job from now on, whether it has ended or not.
	Cancel(ctx context.Context, u UserID, id JobID, hide bool) (Job, error)
	// CancelTask cancels all jobs of a task that have not ended, and ends its pause. With hide it hides the task and all
	// its jobs. It returns the account, which it wakes.
	CancelTask(ctx context.Context, u UserID, id TaskID, hide bool) (Account, error)
	// Discard does what Cancel does with hide, and plans the removal of the job from its platform if the broker submitted
	// it, see [Removal].
	Discard(ctx context.Context, u UserID, id JobID) (Job, error)
	// DiscardTask does what CancelTask does with hide, likewise.
	DiscardTask(ctx context.Context, u UserID, id TaskID) (Account, error)
	// PauseTask sets Job.Paused of the jobs of a task that may still be submitted: those that have not ended, and those
	// that failed. Jobs that wait are not due, and get the attention [Paused]. It returns the account, which it wakes. A
	// paused task does not change. Conflict if the task has ended.
	PauseTask(context.Context, UserID, TaskID) (Account, error)
	// ResumeTask undoes PauseTask, and any other pause: its jobs that wait are due now, and a trial is over. A task that
	// is not paused does not change. If budget is not nil, it replaces that of the task, see [Budget.Replaced]; the zero
	// value ends it. Conflict, and nothing changed, if the budget has no room for another job.
	ResumeTask(ctx context.Context, u UserID, id TaskID, budget *Budget) (Account, error)
	// CancelJobs cancels the chosen jobs of a task that have not ended. It returns the account, which it wakes, and the
	// number of those jobs. Invalid, and nothing changed, if the task has no job that the choice names.
	CancelJobs(ctx context.Context, u UserID, id TaskID, c Choice) (Account, int, error)
	// RetryTask resets the chosen failed jobs of a task to waiting, see [Job.Retry], and wakes the account. It returns the
	// account and the number of those jobs. LimitReached as in Accept, Invalid as in CancelJobs.
	RetryTask(ctx context.Context, u UserID, id TaskID, c Choice, within ...Quota) (Account, int, error)
	// FinishChanges finishes the pause or resumption that Intend or Save has begun because of a budget, and what
	// CancelTask, DiscardTask, PauseTask, ResumeTask, CancelJobs and RetryTask have begun and nobody has continued for
	// idle, because their process died or their caller gave up. They change the jobs of a large task range by range, each
	// in its own commit: from the first one on, Intend submits no waiting job of a task that is being canceled or paused,
	// the jobs that a retry will add count in quotas, and the next change of the task comes after this one. It returns the
	// changes.
	FinishChanges(ctx context.Context, idle time.Duration) ([]FinishedChange, error)
	// AnnotateJob changes the annotations of a job, and Job.Updated. Invalid, and nothing changed, if they would exceed
	// their bounds.
	AnnotateJob(ctx context.Context, u UserID, id JobID, c AnnotationChange) error
	// AnnotateTask changes the annotations of a task, and Task.Edited, likewise.
	AnnotateTask(ctx context.Context, u UserID, id TaskID, c AnnotationChange) error
	// MarkAwaited makes statuses due that were read longer ago than fresh: now, but not sooner than gap after they were
	// read. The others become due when they are that old. It wakes the accounts of those that are due, except accounts
	// that have booked a send time for their next status read: their visit is planned for it, within a minute at the
	// latest. Statuses that are awaited already, and those that could not be read twice in a row, do not change, so that a
	// failing platform keeps its pauses. It returns the accounts that it woke, sorted.
	MarkAwaited(ctx context.Context, u UserID, s Scope, fresh, gap time.Duration) ([]Account, error)
	// AnyAwaited reports whether a fresher status is awaited for any started job.
	AnyAwaited(context.Context, UserID, Scope) (bool, error)
}

// FinishedChange is a change of the jobs of a task that somebody else has begun.
type FinishedChange struct {
	Task    TaskID
	Owner   UserID
	Account Account
	Action  string
}

// ServiceDocuments compares the documents that define services with those that waiting jobs were accepted with.
type ServiceDocuments interface {
	// Origins returns the origins of all documents that define the services of waiting jobs.
	Origins(context.Context) ([]Origin, error)
	// Definition returns the document that defined the service of a job when it was accepted. NotFound if none was stored.
	Definition(context.Context, JobID) ([]byte, error)
	// SetDocumentHash stores that the document of an origin now has this hash. Tasks and jobs that wait and were accepted
	// with another document show [ServiceChanged] from now on; those accepted with this one do not: see [TaskRecord] and
	// [Record]. It returns the owner of each task, and of each job without a task, whose display changes.
	SetDocumentHash(ctx context.Context, o Origin, hash string) ([]UserID, error)
}

// Queue hands out accounts to visit, under leases.
type Queue interface {
	// Dequeue leases accounts that are due and that no process holds, each for ttl, as many as r allows. It also returns
	// how long until the next account that it did not lease becomes due: an hour at most. Accounts that are due already
	// count for that only if there was room for their platform.
	Dequeue(ctx context.Context, r Room, ttl time.Duration) ([]Lease, time.Duration, error)
	// NoteServed stores that a process serves these platforms at present. If the last such note lies more than [ClockJump]
	// in the future, the clock was set back since; plans for later than [ClockJump] from now are then moved forward by as
	// much as that note lies ahead.
	NoteServed(ctx context.Context, platforms []string) error
	// Renew extends a lease to ttl from now. It also extends a lease that ran out, if no process leased the account since.
	// Conflict when another process did.
	Renew(ctx context.Context, l Lease, ttl time.Duration) error
	// Release ends the lease and plans the next visit at due (zero: none), or now if the account was woken since it had
	// the given number of wakes. Conflict when the lease is lost.
	Release(ctx context.Context, l Lease, wakes int64, due time.Time) error
	// Wake records that there is new work for an account's visit.
	Wake(context.Context, Account) error
	// Hold stops the account's submissions for d, and stores the reason on all its jobs that wait or were not started. d 0
	// ends the hold and wakes the account.
	Hold(ctx context.Context, a Account, d time.Duration, why Attention, notice string) error
	// ReserveSendTime grants or books the next send time of a platform, as [Schedule.Reserve] specifies.
	ReserveSendTime(context.Context, SendTimeRequest) (SendTime, error)
}

// Agendas reads what a visit has to do.
type Agendas interface {
	// Agenda returns what is due for an account. Agenda.Held counts every job whose phase holds a slot; if stalled is not
	// 0, jobs that are stalled for that time are not counted, see [Job.FreesSlot].
	Agenda(ctx context.Context, a Account, n int, stalled time.Duration) (Agenda, error)
	// Lines returns all lines of an account with waiting jobs, due or not, and how many wait. Paused jobs do not count as
	// waiting.
	Lines(context.Context, Account) ([]Line, error)
	// Waiting returns the jobs that wait in a line, due or not, in their order from one rank to another, both included,
	// without paused ones.
	Waiting(ctx context.Context, a Account, l Line, from, to Rank) ([]JobID, error)
	// WaitingBefore returns how many of the jobs that Waiting returns for the whole line of a job come before it.
	WaitingBefore(context.Context, Job) (int, error)
	// Listable returns the account's jobs below a base whose state a listing can show, due or not: creates in doubt, and
	// jobs that have started and not ended.
	Listable(ctx context.Context, a Account, base string) ([]Job, error)
	// Running returns jobs of the account that have started and are wanted, due or not, those that are due first before
	// the others, n at most.
	Running(ctx context.Context, a Account, n int) ([]Job, error)
	// Ready returns the first waiting jobs of a line that are due, n at most.
	Ready(ctx context.Context, a Account, l Line, n int) ([]Job, error)
	// Bases returns the bases of all the account's jobs, ended ones too, sorted.
	Bases(context.Context, Account) ([]string, error)
	// Unprepared returns the account's waiting jobs that are due and have the attention [ApplicationUnreachable], by due
	// and id, n at most.
	Unprepared(ctx context.Context, a Account, n int) ([]Job, error)
	// Load returns a job to a visit, regardless of its owner.
	Load(context.Context, JobID) (Job, error)
	// RefHolder returns the job or synchronous run of the account that has the Ref, also if it has ended; 0 if none has.
	RefHolder(context.Context, Account, Ref) (JobID, error)
	// Request returns what a job's owner submitted, with its process if it defines its service itself.
	Request(context.Context, JobID) (Request, error)
}

// Responses stores the intents of requests and what their responses changed.
type Responses interface {
	// Intend commits the intent of the next request of each job, all at once, and renews the lease. The deadline of the
	// requests is Limits.Send from now. It returns the jobs whose requests may be sent, without those that have changed
	// since or are no longer wanted. Lines and owners whose waiting jobs are among them count as served, job by job in the
	// order given. Conflict, and nothing committed, when another process leased the account.
	//
	// Of a task with a budget no waiting job is returned for which there is no room, see [Budget.Room]. Then the task is
	// paused, for the reason that Room gives.
	Intend(ctx context.Context, l Lease, limits Limits, jobs []Job) ([]Job, error)
	// Save stores what responses changed, except Desired, Paused and Hidden, in one commit. A job whose stored version
	// differs from the given one is left as it is and not returned. If any job was stored, the given accounts are woken in
	// the same commit. A caller without a lease must name them, because the visit that holds the account would otherwise
	// not read the changes.
	Save(ctx context.Context, jobs []Job, wake ...Account) ([]Job, error)
	// FailWithoutSignIn fails the account's wanted jobs that wait and are not paused, or were not started, and returns
	// them, if the account has been held for longer than patience because its user must sign in. Consecutive holds for
	// [NeedsSignIn] count as one if there was no other hold and no day between them.
	FailWithoutSignIn(ctx context.Context, a Account, patience time.Duration, failure string) ([]Job, error)
}

// PlatformNotes stores what requests have shown about platforms.
type PlatformNotes interface {
	// NoteResponse records that a platform just answered or, with a failure, that it did not, and why. It records no
	// failure if the platform answered within unless.
	NoteResponse(ctx context.Context, platform, failure string, unless time.Duration) error
	// NoteStarts stores what statuses have shown about starts at a platform, see [Promptness]. Starts beyond the number
	// that makes a platform prompt need not be counted.
	NoteStarts(ctx context.Context, platform string, seen StartsSeen) error
	// AddRunTimes adds run times of jobs of a service, as [RunTimes.Add] does, and returns all that are stored. With none
	// to add it only reads.
	AddRunTimes(ctx context.Context, platform string, s ServiceHash, seen ...RunTime) (RunTimes, error)
}

// RestoreMarks stores which accounts must be compared with their platforms after the database was restored.
type RestoreMarks interface {
	// MarkRestored records that the database was set back, and wakes all accounts with jobs. Jobs that have not ended are
	// not retried by themselves any more, because an attempt that the database does not know may be under way. They must
	// be compared before they submit, as r specifies. Ids skip ahead by [SkippedIDs], so that no id is assigned twice. It
	// returns the number of accounts.
	MarkRestored(ctx context.Context, r Restored) (accounts int, err error)
	// ClearRestored ends the mark and the hold of an account, wakes it, and stores the unrecognized jobs that were found.
	// Jobs that are created and not started in the database may have been started since the state that it was set back to:
	// they are in doubt from now on.
	ClearRestored(ctx context.Context, a Account, found []Unrecognized) error
	// Unrecognized returns all unrecognized jobs that were found, by account and ref.
	Unrecognized(context.Context) ([]Unrecognized, error)
}

// SkippedIDs is by how many ids a restored store skips ahead: more than can have been assigned since a backup.
const SkippedIDs = 10_000_000

// KeyLife is how long an idempotency key is kept.
const KeyLife = 24 * time.Hour

// Key is a client's idempotency key for a request: repeating the request with it submits nothing twice. Zero: the
// client sent none.
type Key struct {
	Text        string // unique for its owner
	Fingerprint string // of the request
}

// Scope selects jobs of an owner. One field is set, or both of the last two.
type Scope struct {
	Job   JobID
	Task  TaskID // its jobs
	Alone bool   // with Tasks or not: the jobs that belong to no task
	Tasks bool   // all jobs of tasks
}

// Contains reports whether the scope includes a job.
func (s Scope) Contains(j Job) bool {
	return j.ID == s.Job || j.Task != 0 && (s.Tasks || j.Task == s.Task) || j.Task == 0 && s.Alone
}

// Page selects a part of a list: at most Limit entries after a place that match the filters. An empty filter matches
// all. Entries are found by place, not by number, so that the parts of a list that changes meanwhile repeat nothing and
// omit nothing that was there throughout.
type Page struct {
	After    Place
	Limit    int  // 0: none
	Oldest   bool // Records and Tasks return the oldest first
	Statuses []Status
	Accounts []Account
	Since    time.Time // changed for their owner since then

	// Label selects jobs of no task, or tasks, by a label. The jobs of a task are not selected by it.
	Label LabelMatch

	// Most bounds how many bytes of each request are read; 0: all. A longer request is cut after that many characters, so
	// that only the members before its parameters are known. If Most is negative no request is read. For the jobs of a
	// task, unless Most is 0, Record.Value is read in place of Request.Parameters and Request.Options, and a longer value
	// is left out. Unless Most is 0, the jobs are read in part too, see Job.Listed.
	Most int
}

// AccountsAt returns the accounts that a user can have at platforms.
func AccountsAt(u UserID, platforms []string) (accounts []Account) {
	for _, name := range platforms {
		for _, identity := range []string{string(AccessShared), string(AccessOpen), string(u)} {
			accounts = append(accounts, Account(name+"/"+identity))
		}
	}
	return accounts
}

// Place is a position in a list that is ordered by creation, or by number. The zero Place is the beginning.
type Place struct {
	Created time.Time
	ID      int64 // or number
}

// Place returns the place of a job in a list that is ordered by creation.
func (r Record) Place() Place { return Place{Created: r.Created, ID: int64(r.ID)} }

// Place returns the place of a task in a list that is ordered by creation.
func (t TaskRecord) Place() Place { return Place{Created: t.Created, ID: int64(t.ID)} }

// Compare orders the places of two entries that a page selects by creation.
func (p Page) Compare(a, b Place) int {
	if !p.Oldest {
		a, b = b, a
	}
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// Follows reports whether an entry of a list that is ordered by creation is behind the place at which the page begins.
func (p Page) Follows(entry Place) bool {
	return p.After == Place{} || p.Compare(p.After, entry) < 0
}

// KeyTarget names the task or job that was stored when a key was first used. Both are zero for a new key.
type KeyTarget struct {
	Task TaskID
	Job  JobID
}

// Draft is a job to be stored with its body: a Request in JSON or, for a task's job, its value.
type Draft struct {
	Job
	Body     []byte
	Document *Document // that defines its service; nil: none, or the task's
	Hooks    []Hook    // that are notified of the job alone; a store that keeps hooks stores them with it
}

// Bytes returns the bytes of the request, which count in Quota.Bytes. A process that was sent with the request is a
// part of it.
func (d Draft) Bytes() int64 {
	return int64(len(d.Body)) + d.Document.Sent()
}

// Usage is how much of an account an owner uses.
type Usage struct {
	Account Account
	Quota   Quota    // of the owner there; not set by the store
	Live    int      // jobs that have not ended
	Lately  int      // jobs submitted within the time given to Records.Usage
	Jobs    int      // all jobs that are stored
	Costs   *float64 // of the jobs whose costs the platform reported, in its own unit; nil: it reported none
	// what all the owner's runs there cost, those of deleted jobs and of attempts before a retry too; newest month first
	Charges []Charge
}

// Charge is what runs of a user cost at an account in a month. Charges in different units are not comparable and never
// added.
type Charge struct {
	Month string // of the report, in UTC: 2026-11
	Unit  string // of the platform; "": it names none
	Costs float64
	Runs  int // whose costs the platform reported
	// the value of the label by which charges are told apart; nil: the runs have none, or there is no such label
	Label *string
}

// AccountCharge is a charge at an account.
type AccountCharge struct {
	Account Account
	Charge
}

// LabelCostsLife is how long costs by label are kept. Every job may have a label of its own, so that their number is
// that of the jobs.
const LabelCostsLife = 2 * 365 * Day

// AddCharge adds a charge to the usage of an account.
func AddCharge(all []Usage, a Account, c Charge) []Usage {
	i := slices.IndexFunc(all, func(u Usage) bool { return u.Account == a })
	if i < 0 {
		i, all = len(all), append(all, Usage{Account: a})
	}
	all[i].Charges = append(all[i].Charges, c)
	slices.SortFunc(all[i].Charges, func(a, b Charge) int {
		return cmp.Or(cmp.Compare(b.Month, a.Month), cmp.Compare(a.Unit, b.Unit), compareLabels(a.Label, b.Label))
	})
	return all
}

// compareLabels compares values of a label; none is after all.
func compareLabels(a, b *string) int {
	switch {
	case a != nil && b != nil:
		return cmp.Compare(*a, *b)
	case a != nil:
		return -1
	case b != nil:
		return 1
	}
	return 0
}

// Room is how many accounts a process can visit now.
type Room struct {
	Platforms map[string]int // accounts of each platform that the process has configured
	Others    int            // accounts of all other platforms together
	// accounts of other platforms are leased only if no process has served the platform for this long
	Unserved time.Duration
}

// Lease is the exclusive right to act for an account until it runs out. The generation changes whenever the account is
// leased or released, so that an old lease renews and releases nothing.
type Lease struct {
	Account    Account
	Generation int64
	Until      time.Time // on the monotonic clock of the process that took it; zero: not known

	// Lapses is how many leases of the account were not released but ran out, each within [LapsesCount] of the one before;
	// 0: the last one ran out longer ago.
	Lapses int
}

// LapsesCount is for how long a lease that ran out counts in [Lease].Lapses.
const LapsesCount = 2 * time.Hour

// Agenda is what is due for an account, oldest first within each kind, at most n jobs of each.
type Agenda struct {
	Now    time.Time
	Wakes  int64
	Held   int       // slots in use
	Active int       // jobs that have started and not ended, stalled or not
	Hold   time.Time // until when nothing is submitted
	Why    Attention // of the hold, also of one that is over

	// Operator is why an operator holds the account or its platform, see [OperatorHold]; "": none does.
	Operator string

	Cancel []Job  // no longer wanted, or with orphans
	Settle []Job  // in doubt
	Start  []Job  // created, wanted
	Poll   []Job  // started
	Meter  []Job  // whose costs are to be read, see [Job.MeterDue]
	Remove []Job  // to be removed from the platform, see [Job.RemovalDue]
	Lines  []Line // lines with waiting jobs that are due

	// When the first waiting job is due, the first created and wanted one, the first one to be canceled or settled, and
	// the first one whose status is to be read. Zero: there is none.
	NextWaiting, NextStart, Next, NextPoll time.Time

	// When the costs of the first job are to be read. Zero: of none.
	NextMeter time.Time

	// When the first job is to be removed from the platform. Zero: none is.
	NextRemove time.Time

	// When the first waiting job with the attention [ApplicationUnreachable] is due. Zero: there is none.
	NextUnprepared time.Time

	Starts   Promptness // of the platform
	Restored Restored   // what the account waits for before it submits
}

// Done reports whether no job needs another visit.
func (a Agenda) Done() bool {
	return a.NextWaiting.IsZero() && a.NextStart.IsZero() && a.Next.IsZero() && a.NextPoll.IsZero()
}

// Due returns when the next step other than a status read is due within the limits; zero: none is until something
// changes.
func (a Agenda) Due(l Limits) time.Time {
	due := Earlier(Earlier(a.Next, a.NextMeter), a.NextRemove)
	if !a.NextStart.IsZero() {
		due = Earlier(due, Later(a.NextStart, a.Hold))
	}
	switch {
	case !a.NextWaiting.IsZero() && a.Creates(l):
		due = Earlier(due, Later(a.NextWaiting, a.Hold))
	case !a.NextUnprepared.IsZero():
		due = Earlier(due, Later(a.NextUnprepared, a.Hold))
	}
	return due
}

// Creates reports whether a waiting job may be submitted: a slot is free, and no created job is turned away.
func (a Agenda) Creates(l Limits) bool { return l.Free(a.Held) > 0 && !a.stuck() }

// stuck reports whether the platform turns away the start of a created job. Then no more jobs are created.
func (a Agenda) stuck() bool {
	return slices.ContainsFunc(a.Start, func(j Job) bool { return j.Attention == Full || j.Attention == NotTaken })
}

func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Earlier returns the earlier of two times, of which zero means none.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) && !b.IsZero() {
		return b
	}
	return a
}

// Line is the waiting jobs of one task, or all waiting jobs of an owner that belong to no task.
type Line struct {
	Owner     UserID
	Task      TaskID
	Held      int // slots that its jobs have
	OwnerHeld int // slots that all of its owner's jobs have
	Waiting   int // its jobs that wait; only Lines sets it

	// The slots that the account has given are numbered. Served is the number of the last one that a job of the line got,
	// OwnerServed of the last one that any of its owner's jobs got. 0: none that is known.
	Served, OwnerServed int64

	// The line's first waiting job, and when that became due.
	First JobID
	Due   time.Time
}

const PartMost = 8 << 10

// DueWithoutPlatform returns when an account without a configured platform is visited again; zero: it has no jobs left.
func (g Agenda) DueWithoutPlatform(t Timing) time.Time {
	if g.Done() {
		return time.Time{}
	}
	return g.Now.Add(t.Recheck)
}

// WaitsForSlot reports whether a due job waits only for the end of another one.
func (g Agenda) WaitsForSlot(l Limits) bool {
	if g.NextWaiting.IsZero() || g.NextWaiting.After(g.Now) || g.Restored != NotRestored {
		return false
	}
	if g.Now.Before(g.Hold) {
		return g.Why == Full
	}
	return !g.Creates(l)
}
