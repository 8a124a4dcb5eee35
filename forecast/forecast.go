package forecast

import (
	"container/heap"
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

// runTimeLaw is what is known of the logarithm of a run time in seconds, which is taken as normal: run times of one
// service are skewed, and seldom less than a fraction of the usual.
type runTimeLaw struct {
	mean, deviation float64
	runs            int
}

// LawOf returns the law of run times of which ages are those of jobs that run. Such a job ran longer than its age.
// Without them the law would be that of the short ones at the beginning of a task. The estimate is the most likely one,
// by expectation maximization.
func LawOf(runs, ages []time.Duration) runTimeLaw {
	var known, open []float64
	for _, r := range runs {
		known = append(known, math.Log(max(r, time.Millisecond).Seconds()))
	}
	for _, a := range ages {
		if a > 0 {
			open = append(open, math.Log(a.Seconds()))
		}
	}
	mean, deviation, _ := moments(known)
	l := runTimeLaw{mean, max(deviation, leastSpread), len(known)}
	const rounds = 30 // more change little
	for range rounds {
		sum, squares := 0., 0.
		n := float64(len(known) + len(open))
		tails := make([]float64, len(open))
		for i, a := range open {
			z := (a - l.mean) / l.deviation
			beyond := hazard(z) // of a standard normal value that is known to be above z, the mean
			tails[i] = l.mean + l.deviation*beyond
			squares += l.deviation * l.deviation * max(0, 1+z*beyond-beyond*beyond)
			sum += tails[i]
		}
		for _, k := range known {
			sum += k
		}
		mean := sum / n
		for _, x := range slices.Concat(known, tails) {
			squares += (x - mean) * (x - mean)
		}
		l.mean, l.deviation = mean, max(math.Sqrt(squares/max(1, n-1)), leastSpread)
	}
	return l
}

// hazard returns the density of the standard normal distribution at z divided by the share above z.
func hazard(z float64) float64 {
	if z > 5 {
		return z + 1/z
	}
	return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) / (math.Erfc(z/math.Sqrt2) / 2)
}

// draw returns a law that explains the known run times as well as any: what few of them tell is uncertain.
func (l runTimeLaw) draw(r *rand.Rand) runTimeLaw {
	squares := 0.
	for range max(1, l.runs-1) {
		x := r.NormFloat64()
		squares += x * x
	}
	l.deviation *= math.Sqrt(float64(max(1, l.runs-1)) / squares)
	l.mean += l.deviation / math.Sqrt(float64(max(1, l.runs))) * r.NormFloat64()
	return l
}

// run returns a run time in seconds.
func (l runTimeLaw) run(r *rand.Rand) float64 { return math.Exp(l.mean + l.deviation*r.NormFloat64()) }

// rest returns how long a job still runs that has run for age seconds.
func (l runTimeLaw) rest(r *rand.Rand, age float64) float64 {
	if age <= 0 {
		return l.run(r)
	}
	return math.Exp(l.mean+l.deviation*normalAbove(r, (math.Log(age)-l.mean)/l.deviation)) - age
}

// under returns how long a job still runs at an arbitrary moment of its run: long runs are found more often than short
// ones.
func (l runTimeLaw) under(r *rand.Rand) float64 {
	return r.Float64() * math.Exp(l.mean+l.deviation*(l.deviation+r.NormFloat64()))
}

// normalAbove returns a standard normal value above z (C. P. Robert, Simulation of truncated normal variables, 1995).
func normalAbove(r *rand.Rand, z float64) float64 {
	if z < .5 {
		for {
			if x := r.NormFloat64(); x >= z {
				return x
			}
		}
	}
	rate := (z + math.Sqrt(z*z+4)) / 2
	for {
		x := z + r.ExpFloat64()/rate
		if r.Float64() <= math.Exp(-(x-rate)*(x-rate)/2) {
			return x
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

// Futures draws possible futures of the work.
func (w Work) Futures(l runTimeLaw, seed uint64) (f futures) {
	r := rand.New(rand.NewPCG(seed, uint64(w.Waiting)))
	for range forecastDraws {
		start, last, end := w.future(l.draw(r), r)
		f.Starts, f.Last, f.Ends = append(f.Starts, start), append(f.Last, last), append(f.Ends, end)
	}
	slices.Sort(f.Starts)
	slices.Sort(f.Last)
	slices.Sort(f.Ends)
	return f
}

// future returns when the last waiting job starts and ends, and when all have ended, in one possible future.
func (w Work) future(l runTimeLaw, r *rand.Rand) (start, last, end float64) {
	var busy freeTimes // when each slot is free again
	for _, a := range w.Ages {
		rest := l.rest(r, a.Seconds())
		busy, end = append(busy, rest), max(end, rest)
	}
	for range w.Others {
		busy = append(busy, l.under(r))
	}
	if w.Waiting == 0 {
		return 0, 0, end
	}
	for len(busy) < w.Slots {
		busy = append(busy, 0)
	}
	heap.Init(&busy)
	for len(busy) > max(1, w.Slots) { // these are not replaced
		heap.Pop(&busy)
	}
	drawn := min(w.Waiting, 5*len(busy)+100, mostDrawnJobs)
	if first := float64(w.Waiting - drawn); first > 0 { // of very many the sum is normal
		mean := math.Exp(l.mean + l.deviation*l.deviation/2)
		sum := mean * (first + math.Sqrt(first*math.Expm1(l.deviation*l.deviation))*r.NormFloat64())
		for i := range busy {
			busy[i] += max(0, sum) / float64(len(busy))
		}
	}
	for range drawn {
		start = busy[0]
		last = start + l.run(r)
		busy[0], end = last, max(end, last)
		heap.Fix(&busy, 0)
	}
	return start, last, end
}

// freeTimes is a heap.
type freeTimes []float64

func (f freeTimes) Len() int           { return len(f) }
func (f freeTimes) Less(i, j int) bool { return f[i] < f[j] }
func (f freeTimes) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *freeTimes) Push(x any)        { *f = append(*f, x.(float64)) }
func (f *freeTimes) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	*f = (*f)[:last]
	return x
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
