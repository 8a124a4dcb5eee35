package dispatch

import "time"

// UnstartedLife is how long an unstarted job is kept.
const UnstartedLife = 30 * 24 * time.Hour

// UnstartedBeginning is how much of the body of an unstarted job lists have, in characters: enough to find out which
// interface it is of.
const UnstartedBeginning = 400

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

// Unstarted is a job, or a task, that a client created by one request and will start by another, as clients of openEO
// do and may do by OGC API - Processes (Part 4). The broker has accepted nothing yet: nothing of it is at a platform,
// and only the interface of its client knows the meaning of its body. Starting it makes it a job or a task under the
// same id.
type Unstarted struct {
	ID      UnstartedID
	Key     Key // with which it is created; not stored with it
	Owner   UserID
	Account Account // where it will run
	Title   string
	Body    []byte // JSON; in lists at most its first UnstartedBeginning characters
	Created time.Time
	Updated time.Time
	Expires time.Time
	Version int64 // number of changes
}

// Place returns the place of an unstarted job in a list that is ordered by creation.
func (n Unstarted) Place() Place { return Place{Created: n.Created, ID: n.ID.Number()} }
