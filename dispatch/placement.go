package dispatch

import "time"

// MostPlacements is how many services a task can name.
const MostPlacements = 8

// FailuresInRow is after how many failures of jobs at a placement, with no success in between, the other jobs are
// better off elsewhere. Without that rule a platform that refuses all jobs at once would always have free slots, and
// get all of them.
const FailuresInRow = 3

// Placement is a service that does the work of a task at one platform. A task with several placements spreads its jobs
// over them.
type Placement struct {
	Label   Label       `json:"label"`
	Service Service     `json:"service"`
	Account Account     `json:"account,omitempty"` // under which the jobs run there
	Base    string      `json:"base,omitempty"`    // see Platform.Base
	Hash    ServiceHash `json:"hash,omitempty"`

	// Document.Hash of what defined the service when the task was accepted; "": it cannot change, or is not known
	Document string `json:"document,omitempty"`

	Pin    string `json:"pin,omitempty"`    // see Request.Pin
	Unused string `json:"unused,omitempty"` // why no job of the task runs there; "": some may
	// what the owner had to do, when the task was accepted, before jobs run there; "": nothing
	Notice string `json:"notice,omitempty"`
}

// SpreadTask is a task with several placements as it is planned.
type SpreadTask struct {
	ID         TaskID
	Owner      UserID
	Seen       int64 // changes with each move
	Placements []PlacementLoad
}

// PlacementLoad is what a placement of a task has to do.
type PlacementLoad struct {
	Placement
	Held     int       // slots in use there, by all users of the account
	Waiting  int       // jobs of the task that wait there and are not paused
	Retrying int       // of those, jobs with the attention Retrying
	Failing  bool      // FailuresInRow of the task's jobs there failed since a job of the service last finished there
	Why      Attention // why the account submits nothing at present; None: it submits
}

// JobMove says which jobs of a task are moved.
type JobMove struct {
	Task     TaskID
	Seen     int64 // of the SpreadTask
	From, To Placement
	Skip, N  int  // the N that come next after the first Skip
	Retrying bool // only jobs with the attention Retrying, or only others
}

// movable reports whether nothing of a job can be at a platform, and nothing is still to be read at its present one.
// Moves (store/placements.go) choose jobs by the same rule.
func (j Job) movable() bool {
	return j.Phase == Waiting && j.Desired == WantRun && !j.Hidden && !j.Paused && j.Begun == 0 &&
		len(j.Orphans) == 0 && len(j.Unmetered) == 0
}

// MovedTo returns a job as it waits at another placement; false if it must stay where it is. What runs at the present
// placement cost is booked there, in its unit, and is no longer part of the job.
func (j Job) MovedTo(h Placement, now time.Time) (Job, bool) {
	if !j.movable() {
		return j, false
	}
	j.Account, j.Base, j.Service = h.Account, h.Base, h.Hash
	j.Epoch, j.Tries, j.Past, j.Seen, j.Updated = j.Epoch+1, 0, nil, "", now
	j.Spent, j.Unit = 0, ""
	j.Due = Earlier(j.Due, now)
	return j.WithAttention(None, ""), true
}
