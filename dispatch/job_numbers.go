package dispatch

import "time"

// Rounded returns a job with the times that owners see as a store returns them.
func (j Job) Rounded() Job {
	for _, t := range []*time.Time{&j.Created, &j.Updated, &j.Checked} {
		*t = t.Truncate(time.Microsecond)
	}
	return j
}
