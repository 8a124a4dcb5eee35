package dispatch

import (
	"context"
	"encoding/json"
	"math"
	"slices"
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

const leastRuns = 3 // fewer give no estimate

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
}

// Estimate estimates a request for a number of jobs. added is what each job of a task adds to its parameters, or as
// much of it as is known. It sends no request to the platform. A request with a process of its own is estimated from
// runs of the same process.
func (b *Broker) Estimate(ctx context.Context, u UserID, r Request, jobs int, added ...json.RawMessage) (Estimate,
	error) {
	if r.Process != nil {
		r, _ = r.inline() // fails only without a process
	}
	backend, err := b.Backend(r.Service, r.Label)
	if err != nil {
		return Estimate{}, err
	}
	account, service := backend.Account(u), r.Service.hash()
	runs, err := b.Store.FinishedRuns(ctx, u, account, service, EstimatedFrom)
	e := estimate(runs, jobs)
	if err != nil || len(runs) < leastForecast {
		return e, err
	}
	km2 := b.typicalArea(r.Parameters, added)
	if km2 <= 0 {
		return e, nil
	}
	runs, err = b.runsWithAreas(ctx, u, account, service)
	return nearer(e, runs, km2), err
}

// estimate estimates jobs from runs, the latest first. Costs in another unit than that of the latest run with costs are
// left out.
func estimate(runs []FinishedRun, jobs int) Estimate {
	e := Estimate{Jobs: jobs, CostBasis: OfService, TimeBasis: OfService}
	costs, unit := pricesOf(runs)
	var seconds []float64
	for _, r := range runs {
		if r.Duration > 0 {
			seconds = append(seconds, r.Duration.Seconds())
		}
	}
	e.Unit, e.Charged, e.Timed = unit, len(costs), len(seconds)
	if e.Costs = spread(costs); e.Costs != nil && jobs > 1 {
		e.Costs = spreadOfSum(costs, jobs)
	}
	e.Seconds = spread(seconds)
	return e
}

// pricesOf returns what runs cost, in the unit of the latest of them with costs.
func pricesOf(runs []FinishedRun) (costs []float64, unit string) {
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

// spread returns the range of one amount, by the quantiles of amounts that are known; nil if there are too few. It
// contains their mean, which a single large amount can move beyond a quantile.
func spread(amounts []float64) *Spread {
	if len(amounts) < leastRuns {
		return nil
	}
	amounts = slices.Sorted(slices.Values(amounts))
	mean, _, _ := moments(amounts)
	last := float64(len(amounts) - 1)
	return &Spread{Low: min(mean, amounts[int(math.Floor(last*.1))]), Likely: mean,
		High: max(mean, amounts[int(math.Ceil(last*.9))])}
}

// spreadOfSum returns the range of the sum of n amounts, of which others are known. It is uncertain by the differences
// between the amounts, and by those that are known being few. Few amounts of a skewed distribution seldom contain its
// large ones, for which Johnson's correction of Student's interval moves the range (N. J. Johnson, Modified t tests and
// confidence intervals for asymmetrical populations, 1978).
func spreadOfSum(amounts []float64, n int) *Spread {
	mean, deviation, skew := moments(amounts)
	sum, known := mean*float64(n), float64(len(amounts))
	const z = 1.2816 // so many standard deviations from the mean lies a tenth of a normal distribution
	t := z + (z*z*z+z)/(4*(known-1))
	half := t * deviation * math.Sqrt(float64(n)+float64(n)*float64(n)/known)
	shift := float64(n) * (1 + 2*z*z) * skew * deviation / (6 * known)
	return &Spread{Low: max(0, sum-half+shift), Likely: sum, High: sum + half + shift}
}

// moments returns the mean of amounts, their standard deviation, and their skewness.
func moments(amounts []float64) (mean, deviation, skew float64) {
	n := float64(len(amounts))
	for _, a := range amounts {
		mean += a / n
	}
	for _, a := range amounts {
		deviation += (a - mean) * (a - mean) / (n - 1)
	}
	deviation = math.Sqrt(deviation)
	if deviation == 0 {
		return mean, 0, 0
	}
	for _, a := range amounts {
		skew += math.Pow((a-mean)/deviation, 3) / n
	}
	return mean, deviation, skew
}
