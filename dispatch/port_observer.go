package dispatch

import "time"

// Observer learns what happens, for metrics. Its methods return at once, and are called from many goroutines.
type Observer interface {
	// JobsAccepted reports that a user's jobs were stored.
	JobsAccepted(platform string, n int)
	// JobSaved reports a job before and after a change that was committed. For a job that was not read before the
	// change, before is zero.
	JobSaved(before, after Job)
	// RequestEnded reports a request to a platform: create, start, status, list, cancel or remove, or a call of a user
	// outside visits.
	RequestEnded(platform, op string, took time.Duration, err error)
	// JobAsked reports a request about one job, or a listing that covered it, with the outcome for the job.
	JobAsked(j Job, op string, took time.Duration, err error)
	// Acted reports what a user or an operator did to one job.
	Acted(action string, j Job)
}

// Observing returns the configured observer, or one that ignores everything.
func (s *Setup) Observing() Observer {
	if s.Observer == nil {
		return unobserved{}
	}
	return s.Observer
}

type unobserved struct{}

func (unobserved) JobsAccepted(string, int)                          {}
func (unobserved) JobSaved(Job, Job)                                 {}
func (unobserved) RequestEnded(string, string, time.Duration, error) {}
func (unobserved) JobAsked(Job, string, time.Duration, error)        {}
func (unobserved) Acted(string, Job)                                 {}
