package dispatch

import (
	"cmp"
	"math"
)

// MostChanged is how many changes a page has at most.
const MostChanged = 1000

// ChangedPage is a part of what has changed.
type ChangedPage struct {
	// Number is the present number of the owner, or of the task. 0: nothing was ever there. It is a whole number that
	// JavaScript can represent, and no earlier value returns, not even if the database is set back.
	Number int64

	// Anew: it is not known any more what changed after the place, because a job or a task was deleted from the
	// database since, or all waiting jobs of the task look different. The reader has to read the whole list, and then
	// what changed after Number.
	Anew bool

	Changed []Changed   // by Place; none if Anew
	More    bool        // more follow the last one; otherwise the reader has all up to Number
	Task    *TaskRecord // that the reader asked for, unless its number is that of the place, or Anew

	Live bool // the owner has jobs that have not ended, in any task

	// Accounts are those at which the owner has jobs that have not ended, and of which these show something at present,
	// by account.
	Accounts []AccountState
}

// Changed is a job or a task that changed, as it is now.
type Changed struct {
	Number  int64       // of its last change
	Job     JobID       // 0: it is a task
	Task    TaskID      // or that of the job
	Deleted bool        // by its owner
	Record  *Record     // of the job; nil: it is deleted
	Whole   *TaskRecord // the task itself; nil: it is deleted
}

// Place returns the place after which further changes follow.
func (c Changed) Place() ChangedPlace {
	if c.Job != 0 {
		return ChangedPlace{Number: c.Number, ID: int64(c.Job)}
	}
	return ChangedPlace{Number: c.Number, Task: true, ID: int64(c.Task)}
}

// ChangedPlace is a place in the order of changes: by number, of one number jobs first, then by id.
type ChangedPlace struct {
	Number int64
	Task   bool
	ID     int64
}

// AfterNumber returns the place after all changes up to a number.
func AfterNumber(n int64) ChangedPlace { return ChangedPlace{n, true, math.MaxInt64} }

// NumberOnly is the place of a reader who only wants the number and the accounts of a page.
var NumberOnly = AfterNumber(math.MaxInt64)

// Jobs returns the id after which jobs with the number of the place follow it, and Tasks that for tasks.
func (p ChangedPlace) Jobs() int64 {
	if p.Task {
		return math.MaxInt64
	}
	return p.ID
}

// Tasks is documented at Jobs.
func (p ChangedPlace) Tasks() int64 {
	if p.Task {
		return p.ID
	}
	return 0
}

// Compare orders places.
func (p ChangedPlace) Compare(q ChangedPlace) int {
	return cmp.Or(cmp.Compare(p.Number, q.Number), cmp.Compare(p.Jobs(), q.Jobs()), cmp.Compare(p.Tasks(), q.Tasks()))
}

// AccountState is what jobs show of their account, without taking a number: why it submits nothing, on jobs that have
// not started, and that its platform does not respond, see [SilentAfter], on those that have.
type AccountState struct {
	Account Account
	Why     Attention
	Notice  string
	Silent  bool
}

// SilentAfter is for how long a platform has not responded when a request fails because it does not, for jobs to show
// [Unreachable]. One that has responded to another request within that time is only slow.
const SilentAfter = 5 * ReadWithin / 2

// Unanswered returns a job as it is shown if its platform does not respond.
func (j Job) Unanswered() Job {
	if j.Phase == Started && j.Polls == 0 && j.Attention == None {
		j.Attention = Unreachable
	}
	return j
}
