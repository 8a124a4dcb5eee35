package visit

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Store stores what visits need and change. It is safe for concurrent use, also by several processes. All times are
// from its own clock.
type Store interface {
	// Agenda returns what is due for an account. Agenda.Held counts every job whose phase holds a slot; if stalled is
	// not 0, jobs that are stalled for that time are not counted, see [dispatch.Job.FreesSlot].
	Agenda(ctx context.Context, a dispatch.Account, n int, stalled time.Duration) (dispatch.Agenda, error)
	// Queues returns all queues of an account with waiting jobs, due or not, and how many wait. Paused jobs do not
	// count as waiting.
	Queues(context.Context, dispatch.Account) ([]dispatch.Queue, error)
	// Ready returns the first waiting jobs of a queue that are due, n at most.
	Ready(ctx context.Context, a dispatch.Account, l dispatch.Queue, n int) ([]dispatch.Job, error)
	// Running returns jobs of the account that have started and are wanted, due or not, those that are due first before
	// the others, n at most.
	Running(ctx context.Context, a dispatch.Account, n int) ([]dispatch.Job, error)
	// Listable returns the account's jobs below a base whose state a listing can show, due or not: creates in doubt,
	// and jobs that have started and not ended.
	Listable(ctx context.Context, a dispatch.Account, base string) ([]dispatch.Job, error)
	// Unprepared returns the account's waiting jobs that are due and have the attention
	// [dispatch.ApplicationUnreachable], by due
	// and id, n at most.
	Unprepared(ctx context.Context, a dispatch.Account, n int) ([]dispatch.Job, error)
	// Bases returns the bases of all the account's jobs, ended ones too, sorted.
	Bases(context.Context, dispatch.Account) ([]string, error)
	// Load returns a job to a visit, regardless of its owner.
	Load(context.Context, dispatch.JobID) (dispatch.Job, error)
	// RefHolder returns the job or synchronous run of the account that has the Ref, also if it has ended; 0 if none
	// has.
	RefHolder(context.Context, dispatch.Account, dispatch.Ref) (dispatch.JobID, error)
	// Request returns what a job's owner submitted, with its process if it defines its service itself.
	Request(context.Context, dispatch.JobID) (dispatch.Request, error)
	// AccountInfo returns the state of accounts for a user, in the order given. Slots are counted as in Agenda, with
	// the account's entry in stalled; most accounts have none.
	AccountInfo(ctx context.Context, u dispatch.UserID, accounts []dispatch.Account,
		stalled map[dispatch.Account]time.Duration) ([]dispatch.AccountInfo, error)

	// Intend commits the intent of the next request of each job, all at once, and renews the lease. The deadline of the
	// requests is Limits.Send from now. It returns the jobs whose requests may be sent, without those that have changed
	// since or are no longer wanted. Queues and owners whose waiting jobs are among them count as served, job by job in
	// the order given. Conflict, and nothing committed, when another process leased the account. The outcomes, which
	// are of other jobs, are stored in the same commit as Save stores them, and it returns these jobs, too.
	//
	// Of a task with a budget no waiting job is returned for which there is no room, see [dispatch.Budget.Room]. Then
	// the task is paused, for the reason that Room gives.
	Intend(ctx context.Context, l dispatch.Lease, limits dispatch.Limits, jobs []dispatch.Job,
		outcomes ...dispatch.Job) ([]dispatch.Job, error)
	// Save stores what responses changed, except Desired, Paused and Hidden, in one commit. A job whose stored version
	// differs from the given one is left as it is and not returned. If any job was stored, the given accounts are woken
	// in the same commit. A caller without a lease must name them, because the visit that holds the account would
	// otherwise not read the changes.
	Save(ctx context.Context, jobs []dispatch.Job, wake ...dispatch.Account) ([]dispatch.Job, error)
	// FailWithoutSignIn fails the account's wanted jobs that wait and are not paused, or were not started, and returns
	// them, if the account has been held for longer than patience because its user must sign in. Consecutive holds for
	// [dispatch.NeedsSignIn] count as one if there was no other hold and no day between them.
	FailWithoutSignIn(ctx context.Context, a dispatch.Account, patience time.Duration, failure string) ([]dispatch.Job,
		error)

	// Renew extends a lease to ttl from now. It also extends a lease that ran out, if no process leased the account
	// since.
	// Conflict when another process did.
	Renew(ctx context.Context, l dispatch.Lease, ttl time.Duration) error
	// Release ends the lease and plans the next visit at due (zero: none), or now if the account was woken since it had
	// the given number of wakes. Conflict when the lease is lost.
	Release(ctx context.Context, l dispatch.Lease, wakes int64, due time.Time) error
	// Wake records that there is new work for an account's visit.
	Wake(context.Context, dispatch.Account) error
	// Hold stops the account's submissions for d, and stores the reason on all its jobs that wait or were not started.
	// d 0 ends the hold and wakes the account.
	Hold(ctx context.Context, a dispatch.Account, d time.Duration, why dispatch.Attention, notice string) error
	// ReserveSendTime grants or books the next send time of a platform, as [dispatch.Schedule.Reserve] specifies.
	ReserveSendTime(context.Context, dispatch.SendTimeRequest) (dispatch.SendTime, error)

	// NoteResponse records that a platform just answered or, with a failure, that it did not, and why. It records no
	// failure if the platform answered within unless.
	NoteResponse(ctx context.Context, platform, failure string, unless time.Duration) error
	// NoteStarts stores what statuses have shown about starts at a platform, see [dispatch.Promptness]. Starts beyond
	// the number that makes a platform prompt need not be counted.
	NoteStarts(ctx context.Context, platform string, seen dispatch.StartsSeen) error
	// ClearRestored ends the mark and the hold of an account, wakes it, and stores the unrecognized jobs that were
	// found. Jobs that are created and not started in the database may have been started since the state that it was
	// set back to: they are in doubt from now on.
	ClearRestored(ctx context.Context, a dispatch.Account, found []dispatch.Unrecognized) error
}
