package wire

import "slices"

// Status is how a job or a task stands.
type Status string

// The statuses, in the order in which a job passes through them.
const (
	Created   Status = "created"   // accepted by the broker, not yet by the platform
	Submitted Status = "submitted" // accepted by the platform
	Queued    Status = "queued"
	Running   Status = "running"
	Unknown   Status = "unknown" // the broker cannot find out
	Finished  Status = "finished"
	Failed    Status = "failed"
	Canceled  Status = "canceled"
)

// Statuses lists all statuses, the final ones last.
var Statuses = []Status{Created, Submitted, Queued, Running, Unknown, Finished, Failed, Canceled}

// Final reports whether a job with this status has ended.
func (s Status) Final() bool { return slices.Contains([]Status{Finished, Failed, Canceled}, s) }

// Ended returns how many jobs of a task have ended by their numbers for each status, and how many there are.
func Ended(counts map[Status]int) (ended, all int) {
	for status, n := range counts {
		all += n
		if status.Final() {
			ended += n
		}
	}
	return ended, all
}

// Protocols of platforms, the values of the member label.
const (
	OpenEO     = "openeo"
	OGCProcess = "ogc_api_process"
)
