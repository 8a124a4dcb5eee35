package dispatch

import (
	"encoding/json"
	"time"
)

// FinishedRun is what is known of a job of a user that finished.
type FinishedRun struct {
	Costs    *float64 // nil: not reported
	Unit     string
	Duration time.Duration   // at the platform; 0: not reported
	Task     TaskID          // 0: none
	SendBy   time.Time       // when the request that submitted it was certainly over; zero: not known
	Ended    time.Time       // when the broker knew it
	Area     float64         // in km²; 0: not known
	Body     json.RawMessage // see Store.FinishedRequests
}

// EstimatedFrom is how many of the latest finished runs of a user estimates are made from at most.
const EstimatedFrom = 100

// LeastRuns is from how many runs on there is an estimate.
const LeastRuns = 3

// Spread is the range in which an amount is expected: in about one of ten cases it is below Low, and in about one above
// High.
type Spread struct{ Low, Likely, High float64 }

// Estimate is what a request is expected to cost and how long it is expected to run, from the finished runs of its user
// with the same service on the same platform: from those over an area like its own if they are enough, otherwise from
// all.
type Estimate struct {
	Jobs    int
	Charged int     // runs that Costs are taken from; 0: none
	Costs   *Spread // of all jobs together, in Unit; nil: there are too few runs
	Unit    string
	Timed   int     // runs that Seconds are taken from
	Seconds *Spread // of one job, once it runs; nil: there are too few runs

	CostBasis, TimeBasis Basis

	Balance *Amount // what the user may still spend at the platform; nil: it did not say
}

// PricesOf returns what runs cost, in the unit of the latest of them with costs.
func PricesOf(runs []FinishedRun) (costs []float64, unit string) {
	for _, r := range runs {
		if r.Costs != nil && len(costs) == 0 {
			unit = r.Unit
		}
		if r.Costs != nil && r.Unit == unit {
			costs = append(costs, Bookable(r.Costs))
		}
	}
	return costs, unit
}

// Rounded returns a range without rounding errors, for people; nil of nil.
func (s *Spread) Rounded() *Spread {
	if s == nil {
		return nil
	}
	return &Spread{RoundAmount(s.Low), RoundAmount(s.Likely), RoundAmount(s.High)}
}

const nearFactor = 2. // areas are alike if none is more than so many times the other

// Near reports whether the area of a run is like another one.
func (r FinishedRun) Near(km2 float64) bool {
	return r.Area > 0 && r.Area <= km2*nearFactor && r.Area >= km2/nearFactor
}
