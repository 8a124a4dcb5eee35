package dispatch

import (
	"cmp"
	"time"
)

// SyncRunLife is how long a synchronous run is kept after it began.
const SyncRunLife = 30 * 24 * time.Hour

// SyncRun is a synchronous run: a request whose client waits for the result. Its id comes from the sequence of job ids.
// It counts in its owner's quotas and usage, and takes no part in visits. Its result is not stored.
type SyncRun struct {
	ID      JobID
	Owner   UserID
	Account Account
	Request Request // without parameters and options: nothing reads them again
	Status  Status  // Running until it has ended; then Finished, Failed or Canceled; Unknown if its process was lost
	Ref     Ref     // the platform job that was created for it, if any
	Failure string  // why it failed; safe to show
	Created time.Time
	Ended   time.Time // zero while it runs
}

// Record returns the run as its owner sees a job.
func (r SyncRun) Record() Record {
	j := Job{Identity: Identity{ID: r.ID, Owner: r.Owner, Created: r.Created}, Target: Target{Account: r.Account},
		Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Started, Ref: r.Ref},
		Condition: Condition{Status: r.Status, Failure: r.Failure, Updated: r.Created, Moved: r.Created,
			Started: r.Created}}
	if !r.Ended.IsZero() {
		j.Phase, j.Updated, j.Moved, j.Duration = Ended, r.Ended, r.Ended, r.Ended.Sub(r.Created)
	}
	return Record{Job: j, Request: r.Request, Read: cmp.Or(r.Ended, r.Created)}
}
