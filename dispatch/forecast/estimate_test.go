package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch"
)

// An estimate has a range only from three runs on, its middle lies in it, it grows with the number of jobs, it contains
// most runs, and costs in another unit than that of the latest run do not change it.
func TestEstimate_ContainsMostRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runs []dispatch.FinishedRun
		var costs []float64
		for range rapid.IntRange(0, 60).Draw(t, "runs") {
			c := rapid.Float64Range(0, 100).Draw(t, "costs")
			r := dispatch.FinishedRun{Costs: &c, Unit: "credits", Duration: time.Duration(rapid.IntRange(0, 100).Draw(t,
				"minutes")) * time.Minute}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				r.Costs = nil
			case 1:
				if len(costs) > 0 {
					r.Unit = "€"
					break
				}
				fallthrough
			default:
				costs = append(costs, c)
			}
			runs = append(runs, r)
		}
		one, ten := Estimate(runs, 1), Estimate(runs, 10)
		if one.Charged != len(costs) || (one.Costs == nil) != (len(costs) < dispatch.LeastRuns) ||
			(one.Seconds == nil) != (one.Timed < dispatch.LeastRuns) {
			t.Fatalf("%+v of %d runs with costs", one, len(costs))
		}
		if one.Costs == nil {
			return
		}
		const rounding = 1e-9
		if s := *one.Costs; s.Low > s.Likely+rounding || s.Likely > s.High+rounding || s.Low < slices.Min(costs) ||
			s.High > slices.Max(costs) || one.Unit != "credits" {
			t.Errorf("%+v %s of %v", s, one.Unit, costs)
		}
		if s := *ten.Costs; math.Abs(s.Likely-10*one.Costs.Likely) > 1e-6 || s.Low > s.Likely+rounding ||
			s.High < s.Likely || ten.Seconds != nil && *ten.Seconds != *one.Seconds {
			t.Errorf("ten jobs: %+v, one %+v", ten, one)
		}
		in := 0
		for _, c := range costs {
			if c >= one.Costs.Low && c <= one.Costs.High {
				in++
			}
		}
		if in*4 < len(costs)*3-4 {
			t.Errorf("%d of %d runs lie in %+v", in, len(costs), *one.Costs)
		}
	})
}

// Of 1,000 requests whose jobs cost as much as those before, in a skewed distribution, the costs of about nine of ten
// lie below the upper end of the estimate.
func TestEstimate_OfTasksIsRight(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	one := func() float64 { return 1 + r.ExpFloat64() }
	for _, jobs := range []int{1, 30, 1000} {
		below := 0
		for range 1000 {
			runs := make([]dispatch.FinishedRun, 20+r.IntN(80))
			for i := range runs {
				c := one()
				runs[i] = dispatch.FinishedRun{Costs: &c, Unit: "credits"}
			}
			sum := 0.0
			for range jobs {
				sum += one()
			}
			if sum <= Estimate(runs, jobs).Costs.High {
				below++
			}
		}
		if below < 850 || below > 950 {
			t.Errorf("the costs of %d of 1,000 requests for %d jobs lie below the estimate's upper end", below, jobs)
		}
	}
}
