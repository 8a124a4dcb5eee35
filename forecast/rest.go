package forecast

import (
	"math"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// RestOf returns what the waiting jobs of a task are expected to cost, and how long they take. Fewer than three runs
// give no range: the mean is the whole of it.
func RestOf(runs []dispatch.FinishedRun, w Work, id dispatch.TaskID, send time.Duration) *dispatch.Rest {
	own := runsOf(runs, id)
	r := &dispatch.Rest{Basis: dispatch.OfService}
	if len(own) > 0 {
		runs, r.Basis = own, dispatch.OfTask
	}
	r.Estimate = Estimate(runs, w.Waiting)
	if costs, _ := dispatch.PricesOf(runs); r.Costs == nil && len(costs) > 0 {
		mean, _, _ := moments(costs)
		all := mean * float64(w.Waiting)
		r.Costs = &dispatch.Spread{Low: all, Likely: all, High: all}
	}
	times := TimesOf(runs, send)
	r.Timed = len(times)
	switch {
	case w.Slots == 0:
	case len(times) >= dispatch.LeastRuns:
		ends := w.Futures(times, SeedOf(int64(id))).Ends
		low, high := tenths(ends)
		r.Took = &dispatch.Spread{Low: low, Likely: ends[len(ends)/2], High: high}
	case len(times) > 0:
		sum := 0.
		for _, t := range times {
			sum += t.Seconds() / float64(len(times))
		}
		all := sum * math.Ceil(float64(w.Waiting)/float64(w.Slots))
		r.Took = &dispatch.Spread{Low: all, Likely: all, High: all}
	}
	return r
}
