package dispatch

import "time"

// TimeRange is when something is expected: in about one of ten cases before Early, and in about one after Late.
type TimeRange struct{ Early, Late time.Time }

// Forecast is when a job starts and ends, or a task ends. It is made from the run times of the owner's finished jobs of
// the same service on the same platform, never from the progress that the platform reports.
type Forecast struct {
	Start *TimeRange // of a job that waits: when it is submitted
	End   TimeRange
	Runs  int // finished jobs that it is made from
	Basis Basis
}

// Basis is what the finished jobs that a forecast or an estimate is made from have in common.
type Basis string

// The bases.
const (
	OfTask    Basis = "task"    // they are jobs of the same task
	OfArea    Basis = "area"    // of the same service, over an area of half to twice the size
	OfService Basis = "service" // of the same service, whatever their parameters
)

// Rest is what the jobs of a paused task that wait are expected to cost, and how long they take, if they run now.
type Rest struct {
	Estimate
	Took  *Spread // from the resumption to the end of all of them, in seconds; nil: not known
	Basis Basis
}
