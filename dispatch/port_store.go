package dispatch

import (
	"context"
	"slices"
	"time"
)

// ClockJump is by how much a store's clock must have been set back for plans to follow it; plans that are up to so far ahead are left
// alone.
const ClockJump = 5 * time.Minute

// Store keeps jobs and accounts. It is safe for concurrent use, also by several processes. All times are of its own
// clock. What belongs to another owner, or is hidden, is NotFound to an owner.
type Store interface {
	// Accept keeps the task, if not nil, and the jobs, all or none, fills in their ids and times, and wakes their
	// account, with the documents that define their services. All jobs are of one account; a text that is not UTF-8 or
	// holds a NUL is Invalid. If the key was used
	// before by the owner within [KeyLife] for the same fingerprint, it keeps nothing and gives the id of the task, or of
	// the first job, kept then: Repeated. For another fingerprint: Conflict. Otherwise LimitReached, and nothing kept, if
	// the owner would have more than a quota gives: however many are accepted at once, by however many processes.
	Accept(ctx context.Context, k Key, t *Task, jobs []Draft, within ...Quota) (Repeated, error)
	// Repeated names what was kept when the user's key was used first, with the same fingerprint. For another: Conflict. Zero: the
	// key is new, or its [KeyLife] is over.
	Repeated(ctx context.Context, u UserID, k Key) (Repeated, error)

	// Record gives a job to its owner.
	Record(context.Context, UserID, JobID) (Record, error)
	// Records gives the owner's jobs that belong to no task, newest first.
	Records(context.Context, UserID, Page) ([]Record, error)
	// Refused gives a job of the owner even if it is hidden, for who repeats a request that was refused.
	Refused(context.Context, UserID, JobID) (Record, error)
	// Tasks gives the owner's tasks, newest first. One looks different since when one of its jobs does.
	Tasks(context.Context, UserID, Page) ([]TaskRecord, error)
	// Task gives a task to its owner.
	Task(context.Context, UserID, TaskID) (TaskRecord, error)
	// TaskRevision returns the owner's task's revision. A status that a client waits for is late when it has been due for late.
	TaskRevision(ctx context.Context, u UserID, id TaskID, late time.Duration) (TaskRevision, error)
	// TaskJobs gives a task's jobs by their numbers, without those that the owner deleted.
	TaskJobs(context.Context, UserID, TaskID, Page) ([]Record, error)
	// Usage counts the owner's jobs at each account, deleted ones too until they are purged; Usage.Lately are those
	// submitted within d.
	Usage(ctx context.Context, u UserID, d time.Duration) ([]Usage, error)
	// BeginSyncRun keeps a synchronous run and fills in its id and time. It is under way until it is ended, or was not
	// renewed for lapse. LimitReached as in Accept; Usage and quotas count it like a job.
	BeginSyncRun(ctx context.Context, r *SyncRun, lapse time.Duration, within ...Quota) error
	// RenewSyncRun says that a run is still under way.
	RenewSyncRun(ctx context.Context, id JobID, lapse time.Duration) error
	// EndSyncRun keeps how a run ended, and when. One that has ended stays as it is.
	EndSyncRun(context.Context, SyncRun) error
	// SyncRuns returns the owner's synchronous runs, newest first. One that was not renewed in time is Unknown.
	SyncRuns(context.Context, UserID, Page) ([]SyncRun, error)
	// Result gives the STAC Collection that was kept with a job; nil if there is none.
	Result(context.Context, UserID, JobID) ([]byte, error)
	// Document gives the document that defined a job's service when it was accepted; nil if none was kept.
	Document(context.Context, UserID, JobID) ([]byte, error)

	// Cancel notes that the owner wants the job no more, and wakes. A waiting job ends with that. With hide its owner
	// sees it no more from now on, whether it has ended or not.
	Cancel(ctx context.Context, u UserID, id JobID, hide bool) (Job, error)
	// CancelTask cancels and hides all jobs of a task, and hides the task. It gives the account, which it wakes.
	CancelTask(context.Context, UserID, TaskID) (Account, error)
	// RetryTask puts the failed jobs of a task back to waiting, see [Job.Retry], and wakes the account, which it gives,
	// with the number of those jobs. LimitReached as in Accept.
	RetryTask(ctx context.Context, u UserID, id TaskID, within ...Quota) (Account, int, error)
	// Await makes those statuses due that were told longer ago than fresh, each now but not sooner than gap after it
	// was told, and wakes their accounts; the others are due once they will have been. An account is not woken whose turn
	// comes: it has booked a slot for its next reading, and its visit is planned for then at the latest, within a minute.
	// Await leaves alone what is awaited already, and what brought no answer twice in a row: a platform that is in trouble is
	// given the pauses that it needs. It returns the accounts that it woke, sorted.
	Await(ctx context.Context, u UserID, s Scope, fresh, gap time.Duration) ([]Account, error)
	// Awaited reports whether a fresher status is on its way for any job that has started.
	Awaited(context.Context, UserID, Scope) (bool, error)

	// Origins gives the origins of all documents that define the services of waiting jobs.
	Origins(context.Context) ([]Origin, error)
	// Redefine says that the document of an origin has this hash now. The tasks and jobs that wait and were accepted with
	// another show [ServiceChanged] from now on, those that were accepted with this one do not: see [TaskRecord] and
	// [Record]. It gives the owner of each task, and job without one, that looks different since.
	Redefine(ctx context.Context, o Origin, hash string) ([]UserID, error)

	// Dequeue gives out accounts that are due and that nobody holds, as many as there is room for, each leased for ttl. It
	// also tells how long until the next account will be due that it did not give out: an hour at most. Accounts that are
	// due already count for that only if their platform was given room.
	Dequeue(ctx context.Context, r Room, ttl time.Duration) ([]Lease, time.Duration, error)
	// Serve notes that a process serves these platforms at present. If the last note lies more than [ClockJump] ahead, the clock
	// was set back since; what is planned for later than ClockJump from now then comes sooner by as much as that note is ahead.
	Serve(ctx context.Context, platforms []string) error
	// Renew extends a lease to ttl from now, also one that ran out if nobody took the account since. Conflict when
	// another did.
	Renew(ctx context.Context, l Lease, ttl time.Duration) error
	// Release ends the lease and plans the next visit at due (zero: none), or now if there were wakes after the wakes
	// seen. Conflict when the lease is not ours any more.
	Release(ctx context.Context, l Lease, wakes int64, due time.Time) error

	// Wake notes that there is something new for an account's visit.
	Wake(context.Context, Account) error

	// Agenda is what is due for an account. Every job whose phase holds a slot is counted in Agenda.Held; if stalled is not 0,
	// those that are stalled for that time are not, see [Job.FreesSlot].
	Agenda(ctx context.Context, a Account, n int, stalled time.Duration) (Agenda, error)
	// Lines gives all lines of an account with waiting jobs, due or not, and how many wait.
	Lines(context.Context, Account) ([]Line, error)
	// Waiting gives the jobs that wait in a line, due or not, in their order.
	Waiting(context.Context, Account, Line) ([]JobID, error)
	// Listable gives the account's jobs below a base that a listing can tell about, due or not: creates in doubt, and what
	// has started and not ended.
	Listable(ctx context.Context, a Account, base string) ([]Job, error)
	// Ready gives the first waiting jobs of a line that are due, n at most.
	Ready(ctx context.Context, a Account, l Line, n int) ([]Job, error)
	// Bases returns the bases of all the account's jobs, ended ones too, sorted.
	Bases(context.Context, Account) ([]string, error)
	// Unprepared returns the account's waiting jobs that are due and have the attention [ApplicationUnreachable], by due and id, n at
	// most.
	Unprepared(ctx context.Context, a Account, n int) ([]Job, error)
	// Load gives a job to a visit, whoever owns it.
	Load(context.Context, JobID) (Job, error)
	// Request gives a visit what a job's owner asked for.
	Request(context.Context, JobID) (Request, error)
	// Intend commits the next request of each job, in one commit, and renews the lease. The deadline of the requests
	// is send from now. It returns the jobs that may be sent: what changed meanwhile, or is no longer wanted, is left out. Lines
	// and owners whose waiting jobs are among them are served by that, one job after the other in the order given.
	// Conflict, and nothing committed, when another took the account.
	Intend(ctx context.Context, l Lease, limits Limits, jobs []Job) ([]Job, error)
	// Save keeps what answers changed, all but Desired and Hidden, in one commit. A job whose stored version is not the
	// given one is left as it is, and is not among those returned. If any was kept, the given accounts are woken in the same
	// commit: who saves without a lease must name them, since the visit that has the account does not look otherwise.
	Save(ctx context.Context, jobs []Job, wake ...Account) ([]Job, error)
	// Hold lets the account submit nothing for d, and says why on all its jobs that wait or were not started; d 0 ends it and
	// wakes.
	Hold(ctx context.Context, a Account, d time.Duration, why Attention, notice string) error
	// GiveUp lets the account's jobs fail that wait or were not started, and are wanted, and gives them, if it has been held
	// for longer than patience because its user is needed: by holds for [NeedsSignIn] with no other and no day in between.
	GiveUp(ctx context.Context, a Account, patience time.Duration, failure string) ([]Job, error)
	// Take gives the next request slot of a platform, or books it, as [Schedule.Reserve] says.
	Take(context.Context, SlotRequest) (Slot, error)

	// Answered notes that a platform just answered; with a failure, that it did not, and why.
	Answered(ctx context.Context, platform, failure string) error
	// NoteStarts keeps what statuses have shown of starts at a platform, see [Promptness]. Beyond what makes a platform prompt
	// starts need not be counted.
	NoteStarts(ctx context.Context, platform string, seen StartsSeen) error
	// MarkRestored says that the database was set back. All accounts with jobs must be compared before they submit, which
	// r says, and are woken. Ids skip ahead so far that none is given out that was given out before. It gives the number of
	// accounts.
	MarkRestored(ctx context.Context, r Restored) (accounts int, err error)
	// Compared ends the mark of an account, ends its hold and wakes it, and keeps what was found. What was created in the
	// meantime of the lost state may have been started: it is in doubt from now on.
	Compared(ctx context.Context, a Account, found []Unrecognized) error
	// Unrecognized gives all that was found, by account and ref.
	Unrecognized(context.Context) ([]Unrecognized, error)
	// Standings gives how accounts stand for one who uses them, in the order given. Slots are counted as in Agenda, with the
	// account's entry in stalled; most accounts have none.
	Standings(ctx context.Context, u UserID, accounts []Account, stalled map[Account]time.Duration) ([]Standing, error)

	// Installation is a text of letters and digits that is this store's alone, made when the store was.
	Installation(context.Context) (string, error)
	// Purge forgets hidden jobs that ended longer than keep ago without orphans, keys older than [KeyLife], synchronous runs
	// older than [SyncRunLife], and turns of lines and owners that were served before all who wait at their account.
	Purge(ctx context.Context, keep time.Duration) error
	// Ping is nil when the store answers.
	Ping(context.Context) error
}

// SkippedIDs is by how many ids a restored store skips ahead: more than can have been given out since a backup.
const SkippedIDs = 10_000_000

// KeyLife is how long a key given with a request is remembered.
const KeyLife = 24 * time.Hour

// Key is a client's name for a request, so that repeating it does nothing twice. Zero: the client gave none.
type Key struct {
	Text        string // unique for its owner
	Fingerprint string // of the request
}

// Scope says which of an owner's jobs are meant: one of these.
type Scope struct {
	Job   JobID
	Task  TaskID // its jobs
	Alone bool   // with Tasks or not: the jobs that belong to no task
	Tasks bool   // all jobs of tasks
}

// Holds reports whether a job is meant.
func (s Scope) Holds(j Job) bool {
	return j.ID == s.Job || j.Task != 0 && (s.Tasks || j.Task == s.Task) || j.Task == 0 && s.Alone
}

// Page says which part of a list is wanted: what comes after a place and fits, Limit at most. What is empty fits all. So the
// parts of a list that changes meanwhile show nothing twice, and leave out nothing that was there before and after.
type Page struct {
	After    Place
	Limit    int // 0: none
	Statuses []Status
	Accounts []Account
	Since    time.Time // they look different since

	// Most bounds how much of a page's requests is read, in bytes. 0: all. A request with more bytes is cut off behind so many
	// characters, so that at most what stands before its parameters is known; if Most is negative none is read. Of the jobs of a
	// task, unless Most is 0, Record.Value is read in place of Request.Parameters and Request.Options, and what has more bytes is
	// left out.
	Most int
}

// AccountsAt are those that a user can have at platforms.
func AccountsAt(u UserID, platforms []string) (accounts []Account) {
	for _, name := range platforms {
		for _, identity := range []string{string(AccessShared), string(AccessOpen), string(u)} {
			accounts = append(accounts, Account(name+"/"+identity))
		}
	}
	return accounts
}

// Place is one in a list that is ordered newest first, or by number; the zero Place is its beginning.
type Place struct {
	Created time.Time
	ID      int64 // or number
}

// Before reports whether p is before something in the list.
func (p Place) Before(created time.Time, id int64) bool {
	return p == Place{} || created.Before(p.Created) || created.Equal(p.Created) && id < p.ID
}

// Repeated names what was kept when a key was used first. Both zero: the key is new.
type Repeated struct {
	Task TaskID
	Job  JobID
}

// Draft is a job to be kept with what was asked for: a Request in JSON, or for a task's job its value.
type Draft struct {
	Job
	Body     []byte
	Document *Document // that defines its service; nil: none, or the task's
}

// Usage is how much an owner uses an account.
type Usage struct {
	Account Account
	Quota   Quota    // of the owner there; a store leaves it out
	Live    int      // jobs that have not ended
	Lately  int      // jobs submitted lately
	Jobs    int      // all that are kept
	Costs   *float64 // of those of which the platform told them, in its own unit; nil: of none
}

// Room says how many accounts a process can visit now.
type Room struct {
	Platforms map[string]int // accounts of each platform that the process knows
	Others    int            // accounts of all other platforms together
	Unserved  time.Duration  // accounts of other platforms are given out only if no process has served the platform for so long
}

// Lease is the right to act for an account until it runs out. The generation moves whenever an account is taken or
// released, so that an old lease renews and releases nothing.
type Lease struct {
	Account    Account
	Generation int64
	Until      time.Time // on the steady clock of the process that took it; zero: not known

	// Lapses is how many leases of the account were not released but ran out, each within [LapsesCount] of the one before; 0: the
	// last did so longer ago.
	Lapses int
}

// LapsesCount is how long a lease that ran out counts in [Lease].Lapses.
const LapsesCount = 2 * time.Hour

// Agenda is what is due for an account, oldest first within each kind, at most n of each.
type Agenda struct {
	Now    time.Time
	Wakes  int64
	Held   int       // slots in use
	Active int       // jobs that have started and not ended, whether they move or not
	Hold   time.Time // until when nothing is submitted
	Why    Attention // of the hold, also of one that is over
	Cancel []Job     // wanted no more, or with orphans
	Settle []Job     // in doubt
	Start  []Job     // created, wanted
	Poll   []Job     // started
	Lines  []Line    // who has waiting jobs that are due

	// The earliest due of what waits, of what is created and wanted, of what is to be canceled or settled, and of what is to
	// be learnt. Zero: there is none.
	NextWaiting, NextStart, Next, NextPoll time.Time

	// The earliest due of what waits and has the attention [ApplicationUnreachable]. Zero: there is none.
	NextUnprepared time.Time

	Starts   Promptness // of the platform
	Restored Restored   // what the account waits for before it submits
}

// done reports whether there is nothing live.
func (a Agenda) done() bool {
	return a.NextWaiting.IsZero() && a.NextStart.IsZero() && a.Next.IsZero() && a.NextPoll.IsZero()
}

// due is when there is next something to do within the limits, other than to learn; zero: never, as things are.
func (a Agenda) due(l Limits) time.Time {
	due := a.Next
	if !a.NextStart.IsZero() {
		due = earlier(due, later(a.NextStart, a.Hold))
	}
	switch {
	case !a.NextWaiting.IsZero() && a.creates(l):
		due = earlier(due, later(a.NextWaiting, a.Hold))
	case !a.NextUnprepared.IsZero():
		due = earlier(due, later(a.NextUnprepared, a.Hold))
	}
	return due
}

// creates reports whether a waiting job may be submitted: a slot is free, and no created job is turned away.
func (a Agenda) creates(l Limits) bool { return l.free(a.Held) > 0 && !a.stuck() }

// stuck reports whether a job that was created is turned away when it is to be started: then nothing more is created.
func (a Agenda) stuck() bool {
	return slices.ContainsFunc(a.Start, func(j Job) bool { return j.Attention == Full || j.Attention == NotTaken })
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earlier of two, of which zero is no time at all.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) && !b.IsZero() {
		return b
	}
	return a
}

// Line is the waiting jobs of one owner's task, or of all the owner's jobs without a task.
type Line struct {
	Owner     UserID
	Task      TaskID
	Held      int // slots that its jobs have
	OwnerHeld int // slots that all of its owner's jobs have
	Waiting   int // its jobs that wait; only Lines tells

	// Which slot of all that the account has given away its jobs got last, and all of its owner's jobs; 0: none, or one so long
	// ago that all who wait got one since.
	Served, OwnerServed int64

	// Its first waiting job, and when that was due.
	First JobID
	Due   time.Time
}
