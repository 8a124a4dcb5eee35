package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/detector"
)

// logNormal is how run times of one service are distributed: they are skewed, and seldom less than a fraction of the
// usual.
type logNormal struct{ mean, deviation float64 }

func (l logNormal) run(r *rand.Rand) float64 { return math.Exp(l.mean + l.deviation*r.NormFloat64()) }

// onSlots runs jobs on slots, in the order of their numbers, and returns for each when it starts and ends, in seconds.
func onSlots(runs []float64, slots int) (starts, ends []float64) {
	busy := make([]float64, slots)
	for _, run := range runs {
		starts, ends = append(starts, busy[0]), append(ends, busy[0]+run)
		occupy(busy, busy[0]+run)
	}
	return starts, ends
}

// seen returns what is known at a moment of a task that was simulated: the run times of the jobs that have ended, and
// what is left.
func seen(starts, ends []float64, slots int, now float64) (known []time.Duration, left Work, last float64) {
	left.Slots = slots
	for i := range ends {
		switch {
		case ends[i] <= now:
			known = append(known, time.Duration((ends[i]-starts[i])*float64(time.Second)))
		case starts[i] <= now:
			left.Ages = append(left.Ages, time.Duration((now-starts[i])*float64(time.Second)))
		default:
			left.Waiting++
		}
		last = max(last, ends[i])
	}
	return known, left, last
}

// Of 1,000 tasks with log-normal run times, on different numbers of slots, and looked at when different shares of them
// have ended, the end lies before the later end of the forecast in 85 to 95 %, and after the earlier one in as many.
// Known are the task's own jobs that have ended, or earlier ones of the service as well.
func TestForecast_IsRight(t *testing.T) {
	detector.Skip(t)
	for name, own := range map[string]bool{"by its own jobs": true, "by earlier ones too": false} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 9))
			before, after := 0, 0
			const tasks = 1000
			for i := range tasks {
				deviation, slots, jobs := .2+r.Float64(), 1+r.IntN(12), 20+r.IntN(180)
				law := logNormal{math.Log(60 * (1 + 20*r.Float64())), deviation}
				runs := make([]float64, jobs)
				for i := range runs {
					runs[i] = law.run(r)
				}
				starts, ends := onSlots(runs, slots)
				now := ends[jobs/10+r.IntN(jobs/2)]
				known, left, end := seen(starts, ends, slots, now)
				if !own || len(known) < LeastForecast {
					for range LeastForecast + r.IntN(dispatch.EstimatedFrom-LeastForecast) {
						known = append(known, time.Duration(law.run(r)*float64(time.Second)))
					}
				}
				f := left.Futures(known, uint64(i)).Ends
				low, high := tenths(f)
				if end-now <= high {
					before++
				}
				if end-now >= low {
					after++
				}
			}
			if before < 850 || before > 950 || after < 850 || after > 950 {
				t.Errorf("of %d tasks %d ended before the later end of the forecast, and %d after the earlier one",
					tasks, before, after)
			}
		})
	}
}

// Run times grow with a power of the area. Of 1,000 tasks over an area of their own, of which fewer than eight jobs
// have ended, the end lies in the forecast from runs over like areas as often as it should, and from all runs it does
// not.
func TestForecast_ByAreaIsRight(t *testing.T) {
	detector.Skip(t)
	r := rand.New(rand.NewPCG(11, 13))
	const send, tasks = 30 * time.Second, 1000
	var before, after [2]int
	for i := range tasks {
		deviation, power, slots, jobs := .2+r.Float64()*.8, r.Float64(), 1+r.IntN(12), 20+r.IntN(180)
		law := logNormal{math.Log(60), deviation}
		took := func(km2 float64) float64 { return law.run(r) * math.Pow(km2, power) }
		earlier := make([]dispatch.FinishedRun, 90+r.IntN(dispatch.EstimatedFrom-90))
		for i := range earlier {
			km2 := math.Exp(math.Log(10) + r.Float64()*math.Log(100))
			earlier[i] = dispatch.FinishedRun{Area: km2, SendBy: time.Unix(0, 0).Add(send),
				Ended: time.Unix(0, 0).Add(time.Duration(took(km2) * float64(time.Second)))}
		}
		km2 := math.Exp(math.Log(20) + r.Float64()*math.Log(25))
		runs := make([]float64, jobs)
		for i := range runs {
			runs[i] = took(km2)
		}
		starts, ends := onSlots(runs, slots)
		now := slices.Min(ends) * r.Float64()
		_, left, end := seen(starts, ends, slots, now)
		near := TimesNear(earlier, km2, send)
		if len(near) < LeastForecast {
			t.Fatalf("%d of %d runs are over an area like %g km²", len(near), len(earlier), km2)
		}
		for k, times := range [][]time.Duration{near, TimesOf(earlier, send)} {
			low, high := tenths(left.Futures(times, uint64(i)).Ends)
			if end-now <= high {
				before[k]++
			}
			if end-now >= low {
				after[k]++
			}
		}
	}
	t.Logf("of %d tasks before the later end and after the earlier one: %v and %v by area, %v and %v by all runs",
		tasks, before[0], after[0], before[1], after[1])
	// Areas differ by up to a factor of two, which widens the ranges.
	if before[0] < 850 || before[0] > 970 || after[0] < 850 || after[0] > 970 {
		t.Errorf("of %d tasks %d ended before the later end of the forecast, and %d after the earlier one", tasks,
			before[0], after[0])
	}
	if before[1] >= 850 && after[1] >= 850 {
		t.Errorf("all runs do as well: of %d tasks %d ended before the later end, and %d after the earlier one", tasks,
			before[1], after[1])
	}
}

// The start and the end of a job that waits lie in the ranges of their forecast as often. Others run on all slots, for
// times that are not known.
func TestForecast_OfWaitingJobsIsRight(t *testing.T) {
	detector.Skip(t)
	r := rand.New(rand.NewPCG(3, 5))
	var early, late [2]int
	const jobs = 1000
	for i := range jobs {
		law := logNormal{math.Log(600), .2 + r.Float64()}
		slots, ahead := 1+r.IntN(8), r.IntN(30)
		settle := 60 * slots
		runs := make([]float64, settle+ahead+2*slots)
		for i := range runs {
			runs[i] = law.run(r)
		}
		starts, ends := onSlots(runs, slots)
		asked := settle + ahead // the number of the job
		now := starts[settle-1] + r.Float64()*(starts[settle]-starts[settle-1])
		var known []time.Duration
		for range LeastForecast + r.IntN(dispatch.EstimatedFrom-LeastForecast) {
			known = append(known, time.Duration(law.run(r)*float64(time.Second)))
		}
		f := Work{Others: slots, Waiting: ahead + 1, Slots: slots}.Futures(known, uint64(i))
		for i, c := range []struct {
			is       float64
			forecast []float64
		}{{starts[asked] - now, f.Starts}, {ends[asked] - now, f.Last}} {
			low, high := tenths(c.forecast)
			if c.is >= low {
				early[i]++
			}
			if c.is <= high {
				late[i]++
			}
		}
	}
	for i := range 2 {
		if early[i] < 850 || early[i] > 950 || late[i] < 850 || late[i] > 950 {
			t.Errorf("%d: of %d jobs %d after the earlier end, %d before the later one", i, jobs, early[i], late[i])
		}
	}
}

// A forecast of a job that runs ends later than now, also if it outlasts all known jobs, and all known jobs took
// equally long.
func TestForecast_OfWhatIsOdd(t *testing.T) {
	equal := make([]time.Duration, 10)
	for i := range equal {
		equal[i] = time.Minute
	}
	for _, age := range []time.Duration{0, time.Second, time.Minute, time.Hour, 1000 * time.Hour} {
		w := Work{Ages: []time.Duration{age}}
		low, high := tenths(w.Futures(equal, 1).Ends)
		if !(low >= 0 && high >= low && high < 1e9) {
			t.Errorf("%v: from %g to %g seconds", age, low, high)
		}
	}
	many := Work{Waiting: 1_000_000, Slots: 100}
	low, high := tenths(many.Futures(equal, 1).Ends)
	if low > 600_000 || high < 600_000 || high-low > 30_000 {
		t.Errorf("a million jobs of a minute on 100 slots: from %g to %g seconds", low, high)
	}
	if same := many.Futures(equal, 1); same.Ends[0] != many.Futures(equal, 1).Ends[0] {
		t.Error("a forecast is not the same again")
	}
}
