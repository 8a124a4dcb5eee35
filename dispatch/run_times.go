package dispatch

import (
	"hash/fnv"
	"slices"
	"time"
)

// ServiceHash identifies a service of a platform in what is learnt about run times. Jobs stored by a version without it
// have 0. If two services have the same hash, their run times are mixed, which does no harm.
type ServiceHash int64

// Hash returns the hash of s without its endpoint, which has several spellings.
func (s Service) Hash() ServiceHash {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.Application)) // cannot fail
	if s.Namespace != nil {
		_, _ = h.Write([]byte("\n" + *s.Namespace))
	}
	return ServiceHash(h.Sum64())
}

// RunTime bounds how long a job ran, from its start request to its end at the platform, with its time in the platform's
// queue: longer than After, when its status was last read as not final, and By at most, when it was read as final.
type RunTime struct{ After, By time.Duration }

// RunTimes are the run times of the last jobs of a service that finished or failed, oldest first.
type RunTimes []RunTime

// MostRunTimes is how many run times are kept for a service.
const MostRunTimes = 64

// RunTimesLife is how long the run times of a service are kept after the last one was added.
const RunTimesLife = 90 * Day

// Add returns r with further run times, in whole milliseconds, and without those that are too many.
func (r RunTimes) Add(seen ...RunTime) RunTimes {
	r = slices.Clone(r)
	for _, s := range seen {
		s.After = s.After.Truncate(time.Millisecond)
		s.By = (s.By + time.Millisecond - 1).Truncate(time.Millisecond)
		r = append(r, s)
	}
	return r[max(0, len(r)-MostRunTimes):]
}
