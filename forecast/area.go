package forecast

import (
	"math"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TimesNear returns how long the runs over areas like km2 would have taken over exactly that area: they grow with a
// power of the area, which all runs tell.
func TimesNear(runs []dispatch.FinishedRun, km2 float64, send time.Duration) (times []time.Duration) {
	power := growthOf(runs, send)
	for _, r := range runs {
		if took := TimesOf([]dispatch.FinishedRun{r}, send); len(took) > 0 && r.Near(km2) {
			times = append(times, time.Duration(float64(took[0])*math.Pow(km2/r.Area, power)))
		}
	}
	return times
}

// growthOf returns with what power of their area the times of runs grow, from 0 to 1, by least squares of the
// logarithms.
func growthOf(runs []dispatch.FinishedRun, send time.Duration) float64 {
	var areas, times []float64
	for _, r := range runs {
		if took := TimesOf([]dispatch.FinishedRun{r}, send); len(took) > 0 && r.Area > 0 {
			areas, times = append(areas, math.Log(r.Area)), append(times, math.Log(took[0].Seconds()))
		}
	}
	if len(areas) < LeastForecast {
		return 0
	}
	area, deviation, _ := moments(areas)
	mean, _, _ := moments(times)
	if deviation < leastSpread {
		return 0
	}
	slope := 0.
	for i := range areas {
		slope += (areas[i] - area) * (times[i] - mean) / (deviation * deviation * float64(len(areas)-1))
	}
	return min(max(slope, 0), 1)
}
