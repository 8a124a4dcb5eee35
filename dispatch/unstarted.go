package dispatch

import "time"

// UnstartedLife is how long an unstarted job is kept.
const UnstartedLife = 30 * 24 * time.Hour

// UnstartedID identifies an unstarted job by the id that the job will have, or the task. The other one is 0.
type UnstartedID struct {
	Job  JobID
	Task TaskID
}

// Number returns a number that no other unstarted job has. Lists of unstarted jobs are ordered by it where times are
// equal.
func (i UnstartedID) Number() int64 {
	if i.Task != 0 {
		return 2*int64(i.Task) + 1
	}
	return 2 * int64(i.Job)
}

// Unstarted is a job, or a task, that a client created by one request and will start by another, as openEO clients do.
// The broker has accepted nothing yet: nothing of it is at a platform, and only its owner's client knows the meaning of
// its body. Starting it makes it a job or a task under the same id.
type Unstarted struct {
	ID      UnstartedID
	Owner   UserID
	Account Account // where it will run
	Title   string
	Body    []byte // JSON; nil in lists
	Created time.Time
	Updated time.Time
	Expires time.Time
	Version int64 // number of changes
}
