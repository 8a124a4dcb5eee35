package dispatch

import "time"

// Retention is for how long what belongs to ended jobs is kept, counted from the end of the job or, for a task, of its
// last job. 0: for ever. Nothing of a job that has not ended, or that is yet to be removed from its platform, or of
// which an orphan is yet to be canceled, is ever deleted because of its age.
type Retention struct {
	Results  time.Duration // results that a platform returned in its response to the submission
	Requests time.Duration // parameters and options, and the documents that define the services
	Jobs     time.Duration // jobs and tasks
	Platform time.Duration // what the platform holds of jobs, with their results; see [Removal]
}

// Aged counts what is older than a [Retention] keeps.
type Aged struct {
	Results  int64
	Requests int64 // of jobs
	Jobs     int64
	Tasks    int64
}

// Pruned returns the request as it is kept when it is too old: without parameters and options.
func (r Request) Pruned() Request {
	r.Parameters, r.Options = []byte("{}"), nil
	return r
}
