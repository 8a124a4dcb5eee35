package dispatch

import "context"

// Revision stands for all that is shown of a task and its jobs, but for when platforms were asked and for places in the queue. While two
// are equal nothing of it has changed, unless somebody set clocks back and changed the same jobs at the same microseconds again.
type Revision struct {
	Jobs    int      // that the owner sees
	Updated int64    // the latest Job.Updated, in microseconds
	Sums    [2]int64 // of all Job.Updated, see SumUpdated

	ServiceChanged bool
	Why            Attention // of the account's hold; None where nothing holds it
	Notice         string
}

// SumUpdated adds the Job.Updated of one more job, in microseconds, to the sums of a [Revision].
func SumUpdated(sums [2]int64, updated int64) [2]int64 {
	const a, b = 2147483647, 1000003
	return [2]int64{sums[0] + updated%a, sums[1] + updated%b*(updated%b)}
}

// TaskRevision is a task's [Revision] at a time.
type TaskRevision struct {
	Revision
	Hold   int64 // of the account, in microseconds
	Wakes  int64 // of the account: a hold that began and ended between two revisions has changed one of both
	Unsure int   // jobs that are Unsure
}

// Unsure reports whether the record may be shown with [Unreachable] depending on when it is read.
func (r Record) Unsure() bool {
	return r.Phase == Started && r.Looks == 0 && (r.Tries > 0 || r.late())
}

// TaskRevision returns a task's present revision without reading its jobs one by one.
func (b *Broker) TaskRevision(ctx context.Context, u UserID, id TaskID) (TaskRevision, error) {
	return b.Store.TaskRevision(ctx, u, id, readWithin)
}
