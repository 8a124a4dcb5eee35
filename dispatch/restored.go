package dispatch

import "time"

// Restored is what an account must wait for after its database was set back to an older state, by a restore or by a
// failover that lost commits. The database then lacks what was submitted since.
type Restored int

const (
	NotRestored  Restored = iota
	CompareFirst          // nothing is created or started until the account was compared with the platform's list
	// as CompareFirst, but an account of a platform without a list submits at once: its jobs may run twice
	CompareIfLists
)

// Unrecognized is a job at a platform that has this installation's tag, belongs to no job in the database, and has not
// ended. It is neither adopted nor canceled.
type Unrecognized struct {
	Account Account
	Ref     Ref
	Tag     string
	Status  Status
	Found   time.Time // set by the store
}

// RestoredNotice is the Job.Notice of jobs that wait because their platform cannot be compared after a restore. The
// text is the broker's, not the platform's.
const RestoredNotice = "The broker's database was restored from an older state. This platform has no list of jobs to " +
	"compare it with, so nothing is submitted until the operator allows it."
