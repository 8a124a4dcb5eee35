package visit

import (
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/forecast"
)

// What is not known exactly is halved by each look, until the look comes soon after the end.
func TestRunTimes_LooksFindTheRunTime(t *testing.T) {
	for _, ran := range []time.Duration{2050 * time.Millisecond, 2990 * time.Millisecond, time.Minute, 3 * time.Hour} {
		gap := max(time.Second, ran/gapShare)
		var all dispatch.RunTimes
		var late time.Duration
		for range 40 {
			c := forecast.NewRunTimeCurve(all)
			var seen dispatch.RunTime
			for seen.By < ran {
				age, _ := c.BestLook(seen.By, gap)
				seen = dispatch.RunTime{After: seen.By, By: max(age, seen.By+gap)}
			}
			all, late = all.Add(seen), seen.By-ran
		}
		if late > gap/4 {
			t.Errorf("the end of a job that runs for %v is seen %v later in the end", ran, late)
		}
	}
}
