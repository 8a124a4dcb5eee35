package forecast

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	LeastForecast = 8   // fewer run times give no forecast
	forecastDraws = 200 // possible futures; the tenths of them are the range
	mostDrawnJobs = 2000
	leastSpread   = .02 // of the logarithms of run times: that of the moments at which statuses are read
)

// runTimes are those from which the run times of other jobs are drawn.
type runTimes struct {
	sorted    []float64 // in seconds
	deviation float64   // of the logarithms: run times are skewed
}

func newRunTimes(seconds []float64) runTimes {
	logs := make([]float64, len(seconds))
	for i, s := range seconds {
		logs[i] = math.Log(max(s, .001))
	}
	_, deviation, _ := moments(logs)
	return runTimes{slices.Sorted(slices.Values(seconds)), max(deviation, leastSpread)}
}

// sample returns run times that explain the known ones as well as any: each of these may occur more than once or not at
// all, and all are multiplied by one factor, because few do not tell how long runs can be. Running jobs will have taken
// longer than their ages: without them, the short runs at the beginning of a task would stand for all.
func (t runTimes) sample(r *rand.Rand, ages []float64) runTimes {
	n := len(t.sorted)
	factor := math.Exp(r.NormFloat64() * t.deviation / math.Sqrt(float64(n)))
	all := make([]float64, n+len(ages))
	for i := range all {
		if k := r.IntN(len(all)); k < n {
			all[i] = factor * t.sorted[k]
		} else {
			all[i] = factor * t.above(r, ages[k-n])
		}
	}
	return newRunTimes(all)
}

// draw returns a run time: as likely between each two known ones as before the first or after the last.
func (t runTimes) draw(r *rand.Rand) float64 {
	last := len(t.sorted) - 1
	switch i := r.IntN(last + 2); {
	case i == 0:
		return t.sorted[0] / t.beyond(r)
	case i > last:
		return t.sorted[last] * t.beyond(r)
	default:
		return t.sorted[i-1] + r.Float64()*(t.sorted[i]-t.sorted[i-1])
	}
}

// beyond returns by what factor a run is longer than the longest known one.
func (t runTimes) beyond(r *rand.Rand) float64 { return math.Exp(t.deviation * r.ExpFloat64() / 3) }

// above returns a run time longer than age, as draw does of those that are.
func (t runTimes) above(r *rand.Rand, age float64) float64 {
	n := len(t.sorted)
	first, _ := slices.BinarySearch(t.sorted, age)
	i := first + r.IntN(n+1-first)
	if i == n {
		return max(age, t.sorted[n-1]) * t.beyond(r)
	}
	if i > first {
		age = t.sorted[i-1]
	}
	return age + r.Float64()*(t.sorted[i]-age)
}

// under returns how long a job still runs at an arbitrary moment of its run: long runs are found more often than short
// ones.
func (t runTimes) under(r *rand.Rand) float64 {
	for {
		if run := t.draw(r); r.Float64()*t.sorted[len(t.sorted)-1] <= run {
			return run * r.Float64()
		}
	}
}

// Work is jobs that are still to end.
type Work struct {
	Ages    []time.Duration // how long those have run that run
	Others  int             // further jobs of the same account that run, for times that are not known
	Waiting int
	Slots   int // how many run at once while any wait
}

// futures are when something happens in possible futures, in seconds from now, sorted.
type futures struct {
	Starts []float64 // of the last waiting job
	Last   []float64 // the end of that job
	Ends   []float64 // of all
}

// Futures returns possible futures of jobs whose run times are like the known ones, of which there are [LeastRuns] or
// more. The same seed gives the same futures.
func (w Work) Futures(known []time.Duration, seed uint64) (f futures) {
	r := rand.New(rand.NewPCG(seed, uint64(w.Waiting)))
	times, ages := newRunTimes(seconds(known)), seconds(w.Ages)
	for range forecastDraws {
		start, last, end := w.future(times.sample(r, ages), ages, r)
		f.Starts, f.Last, f.Ends = append(f.Starts, start), append(f.Last, last), append(f.Ends, end)
	}
	for _, all := range [][]float64{f.Starts, f.Last, f.Ends} {
		slices.Sort(all)
	}
	return f
}

// seconds returns times in seconds.
func seconds(times []time.Duration) (all []float64) {
	for _, t := range times {
		all = append(all, t.Seconds())
	}
	return all
}

// future returns when the last waiting job starts and ends, and when all have ended, in one possible future.
func (w Work) future(times runTimes, ages []float64, r *rand.Rand) (start, last, end float64) {
	var busy []float64 // when each slot is free again
	for _, age := range ages {
		rest := times.above(r, age) - age
		busy, end = append(busy, rest), max(end, rest)
	}
	for range w.Others {
		busy = append(busy, times.under(r))
	}
	if w.Waiting == 0 {
		return 0, 0, end
	}
	for len(busy) < w.Slots {
		busy = append(busy, 0)
	}
	slices.Sort(busy)
	busy = busy[len(busy)-min(len(busy), max(1, w.Slots)):] // those that are free before get no further job
	drawn := min(w.Waiting, 5*len(busy)+100, mostDrawnJobs)
	if first := float64(w.Waiting - drawn); first > 0 { // of very many the sum is normal
		mean, deviation, _ := moments(times.sorted)
		sum := mean*first + deviation*math.Sqrt(first)*r.NormFloat64()
		for i := range busy {
			busy[i] += max(0, sum) / float64(len(busy))
		}
	}
	for range drawn {
		start = busy[0]
		last = start + times.draw(r)
		end = max(end, last)
		occupy(busy, last)
	}
	return start, last, end
}

// occupy gives the slot that is free first to a job that ends at a time. busy is sorted and stays so.
func occupy(busy []float64, end float64) {
	before, _ := slices.BinarySearch(busy[1:], end)
	copy(busy, busy[1:before+1])
	busy[before] = end
}

// tenths returns the values below and above which a tenth of sorted values lies.
func tenths(sorted []float64) (low, high float64) {
	last := float64(len(sorted) - 1)
	return sorted[int(last*.1)], sorted[int(math.Ceil(last*.9))]
}

// RangeFrom returns the range of the middle eight tenths of durations in seconds from now on.
func RangeFrom(now time.Time, sorted []float64) dispatch.TimeRange {
	const most = 1e9 // seconds, about thirty years
	low, high := tenths(sorted)
	at := func(seconds float64) time.Time {
		return now.Add(time.Duration(min(seconds, most) * float64(time.Second))).Truncate(time.Second)
	}
	return dispatch.TimeRange{Early: at(low), Late: at(high)}
}

// Usual returns the median of run times; 0 of none.
func Usual(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

// TimesFor returns the run times that a forecast for a job of a task is made from: those of its own task if they are
// enough, because these have the same parameters but one.
func TimesFor(runs []dispatch.FinishedRun, task dispatch.TaskID, least int, send time.Duration) (times []time.Duration,
	same bool) {
	if own := TimesOf(runsOf(runs, task), send); task != 0 && len(own) >= least {
		return own, true
	}
	return TimesOf(runs, send), false
}

// runsOf returns the runs of a task.
func runsOf(runs []dispatch.FinishedRun, task dispatch.TaskID) []dispatch.FinishedRun {
	return slices.DeleteFunc(slices.Clone(runs), func(r dispatch.FinishedRun) bool { return r.Task != task })
}

// TimesOf returns how long runs took from their submission until the broker knew their end. send is the time limit of a
// request.
func TimesOf(runs []dispatch.FinishedRun, send time.Duration) (times []time.Duration) {
	for _, r := range runs {
		if took := r.Ended.Sub(r.SendBy.Add(-send)); !r.SendBy.IsZero() && took > 0 {
			times = append(times, took)
		}
	}
	return times
}

// SeedOf returns a seed, so that a forecast changes only with what it is made from.
func SeedOf(ids ...int64) uint64 {
	h := fnv.New64a()
	for _, id := range ids {
		for ; id != 0; id >>= 8 {
			_, _ = h.Write([]byte{byte(id)}) // cannot fail
		}
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

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
		r.Costs = meanOf(costs, float64(w.Waiting))
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
		r.Took = meanOf(seconds(times), math.Ceil(float64(w.Waiting)/float64(w.Slots)))
	}
	return r
}

// meanOf returns n times the mean of amounts, as a range.
func meanOf(amounts []float64, n float64) *dispatch.Spread {
	mean, _, _ := moments(amounts)
	return &dispatch.Spread{Low: mean * n, Likely: mean * n, High: mean * n}
}
