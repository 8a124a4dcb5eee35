package dispatch

// Revision identifies the shown state of a task and its jobs, except for the times of status reads and the places in
// the queue. If two revisions are equal, nothing of that state has changed between them, unless clocks were set back
// and the same jobs changed again at the same microseconds.
type Revision struct {
	Jobs    int      // number of jobs that the owner sees
	Updated int64    // the latest Job.Updated, in microseconds
	Sums    [2]int64 // of all Job.Updated, see SumUpdated

	Edited         int64 // Task.Edited, in microseconds
	ServiceChanged bool
	// the sum of 1<<i for each home i, apart from the first that is used, where the document of the service has changed
	HomesChanged int64
	Why          Attention // of the account's hold; None if the account is not held
	Notice       string

	// Epochs is the sum of all Job.Epoch if the document of a service has changed or the account is held, else 0. What
	// these show of a job depends on its phase, which changes without Job.Updated.
	Epochs int64
}

// SumUpdated adds the Job.Updated of one more job, in microseconds, to the sums of a [Revision].
func SumUpdated(sums [2]int64, updated int64) [2]int64 {
	const a, b = 2147483647, 1000003
	return [2]int64{sums[0] + updated%a, sums[1] + updated%b*(updated%b)}
}

// TaskRevision is a task's [Revision] when it was read, with the hold of its account.
type TaskRevision struct {
	Revision
	Hold          int64 // end of the account's hold, in microseconds
	Wakes         int64 // of the account: a hold that began and ended between two revisions has changed Hold or Wakes
	TimeDependent int   // jobs for which Record.TimeDependent holds
}

// TaskChanges is a task and some of its jobs, those that changed after some time, as they were at one moment.
type TaskChanges struct {
	Task     TaskRecord
	Revision TaskRevision
	Jobs     []Record
}

// TimeDependent reports whether the record may be shown with [Unreachable] depending on when it is read.
func (r Record) TimeDependent() bool {
	return r.Phase == Started && r.Looks == 0 && r.Tries > 0
}
