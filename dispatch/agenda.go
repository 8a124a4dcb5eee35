package dispatch

import (
	"slices"
	"time"
)

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

	Cancel []Job   // no longer wanted, or with orphans
	Settle []Job   // in doubt
	Start  []Job   // created, wanted
	Poll   []Job   // started
	Meter  []Job   // whose costs are to be read, see [Job.MeterDue]
	Remove []Job   // to be removed from the platform, see [Job.RemovalDue]
	Queues []Queue // queues with waiting jobs that are due

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

// Queue is the waiting jobs of one task, or all waiting jobs of an owner that belong to no task.
type Queue struct {
	Owner     UserID
	Task      TaskID
	Held      int // slots that its jobs have
	OwnerHeld int // slots that all of its owner's jobs have
	Waiting   int // its jobs that wait; only Queues sets it

	// The slots that the account has given are numbered. Served is the number of the last one that a job of the queue
	// got, OwnerServed of the last one that any of its owner's jobs got. 0: none that is known.
	Served, OwnerServed int64

	// The queue's first waiting job, and when that became due.
	First JobID
	Due   time.Time
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
