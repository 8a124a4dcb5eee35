package forecast

import (
	"math"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Estimate estimates jobs from runs, the latest first. Costs in another unit than that of the latest run with costs are
// left out.
func Estimate(runs []dispatch.FinishedRun, jobs int) dispatch.Estimate {
	e := dispatch.Estimate{Jobs: jobs, CostBasis: dispatch.OfService, TimeBasis: dispatch.OfService}
	costs, unit := dispatch.PricesOf(runs)
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

// spread returns the range of one amount, by the quantiles of amounts that are known; nil if there are too few. It
// contains their mean, which a single large amount can move beyond a quantile.
func spread(amounts []float64) *dispatch.Spread {
	if len(amounts) < dispatch.LeastRuns {
		return nil
	}
	amounts = slices.Sorted(slices.Values(amounts))
	mean, _, _ := moments(amounts)
	low, high := tenths(amounts)
	return &dispatch.Spread{Low: min(mean, low), Likely: mean, High: max(mean, high)}
}

// spreadOfSum returns the range of the sum of n amounts, of which others are known. It is uncertain by the differences
// between the amounts, and by those that are known being few. Few amounts of a skewed distribution seldom contain its
// large ones, for which Johnson's correction of Student's interval moves the range (N. J. Johnson, Modified t tests and
// confidence intervals for asymmetrical populations, 1978).
func spreadOfSum(amounts []float64, n int) *dispatch.Spread {
	mean, deviation, skew := moments(amounts)
	sum, known := mean*float64(n), float64(len(amounts))
	const z = 1.2816 // so many standard deviations from the mean lies a tenth of a normal distribution
	t := z + (z*z*z+z)/(4*(known-1))
	half := t * deviation * math.Sqrt(float64(n)+float64(n)*float64(n)/known)
	shift := float64(n) * (1 + 2*z*z) * skew * deviation / (6 * known)
	return &dispatch.Spread{Low: max(0, sum-half+shift), Likely: sum, High: sum + half + shift}
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

// Nearer replaces what an estimate says of costs and of run times by what runs over areas like km2 say, where these are
// enough.
func Nearer(e dispatch.Estimate, runs []dispatch.FinishedRun, km2 float64) dispatch.Estimate {
	near := Estimate(runsNear(runs, km2), e.Jobs)
	if near.Charged >= LeastForecast {
		e.Charged, e.Costs, e.Unit, e.CostBasis = near.Charged, near.Costs, near.Unit, dispatch.OfArea
	}
	if near.Timed >= LeastForecast {
		e.Timed, e.Seconds, e.TimeBasis = near.Timed, near.Seconds, dispatch.OfArea
	}
	return e
}

// TimesNear returns how long the runs over areas like km2 took.
func TimesNear(runs []dispatch.FinishedRun, km2 float64, send time.Duration) []time.Duration {
	return TimesOf(runsNear(runs, km2), send)
}

func runsNear(runs []dispatch.FinishedRun, km2 float64) []dispatch.FinishedRun {
	return slices.DeleteFunc(slices.Clone(runs), func(r dispatch.FinishedRun) bool { return !r.Near(km2) })
}
