package dispatch

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var drawnRunTimes = rapid.Custom(func(t *rapid.T) RunTimes {
	var all RunTimes
	for range rapid.IntRange(1, 90).Draw(t, "runs") {
		after := rapid.Int64Range(0, 100_000).Draw(t, "after")
		by := after + rapid.SampledFrom([]int64{1, 10, 2000, 100_000}).Draw(t, "width")
		all = all.Add(RunTime{After: time.Duration(after) * time.Millisecond, By: time.Duration(by) * time.Millisecond})
	}
	return all
})

// A curve is a distribution: it rises from 0 to 1, ageAt is its inverse, and it explains every run time: where one
// lies, it rises.
func TestRunTimes_CurveIsADistribution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawnRunTimes.Draw(t, "run times")
		c := newRunTimeCurve(all)
		if len(all) > MostRunTimes || c.by[0] != 0 || c.by[len(c.by)-1] != 1 || !slices.IsSorted(c.by) {
			t.Fatalf("of %d run times: %v", len(all), c.by)
		}
		for _, r := range all {
			if share := c.endedBy(r.By+2*time.Minute) - c.endedBy(r.After-2*time.Minute); len(all) < 2 && share < .9 {
				t.Errorf("between %v and %v only %v end", r.After, r.By, share)
			}
		}
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		age := c.ageAt(share) // in whole nanoseconds
		if least, most := c.endedBy(age), c.endedBy(age+1); most < share-1e-6 || least > share+1e-3 {
			t.Errorf("%v to %v have ended at %v, want %v", least, most, age, share)
		}
	})
}

// Whatever is known, the next look is later than the last read, and while the job has not outlasted all known ones,
// before the last of them ended.
func TestRunTimes_BestLookIsAfterTheLastRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.OneOf(rapid.Just(RunTimes(nil)), drawnRunTimes).Draw(t, "run times")
		c := newRunTimeCurve(all)
		read := time.Duration(rapid.Int64Range(0, 300_000).Draw(t, "read")) * time.Millisecond
		gap := time.Duration(rapid.Int64Range(250, 60_000).Draw(t, "gap")) * time.Millisecond
		age, likely := c.bestLook(read, gap)
		if age < read || likely < 0 || likely > 1 {
			t.Fatalf("read at %v, next at %v, %v likely", read, age, likely)
		}
		if len(all) > 0 && age > max(c.ageAt(1)+gap/16, read+max(gap, read/10)) {
			t.Errorf("read at %v, next at %v, when all had ended at %v", read, age, c.ageAt(1))
		}
	})
}

// What is not known exactly is halved by each look, until the look comes soon after the end.
func TestRunTimes_LooksFindTheRunTime(t *testing.T) {
	for _, ran := range []time.Duration{2050 * time.Millisecond, 2990 * time.Millisecond, time.Minute, 3 * time.Hour} {
		gap := max(time.Second, ran/gapShare)
		var all RunTimes
		var late time.Duration
		for range 40 {
			c := newRunTimeCurve(all)
			var seen RunTime
			for seen.By < ran {
				age, _ := c.bestLook(seen.By, gap)
				seen = RunTime{After: seen.By, By: max(age, seen.By+gap)}
			}
			all, late = all.Add(seen), seen.By-ran
		}
		if late > gap/4 {
			t.Errorf("the end of a job that runs for %v is seen %v later in the end", ran, late)
		}
	}
}

func TestRunTimes_OfWhatAStatusShows(t *testing.T) {
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	was := Job{Phase: Started, SendBy: at(30), Checked: at(20), Seen: Running}
	is := was
	is.Phase, is.Status, is.Checked = Ended, Finished, at(25)
	change := func(j Job, change func(*Job)) Job { change(&j); return j }
	for _, c := range []struct {
		name    string
		was, is Job
		want    RunTime
	}{
		{"finished", was, is, RunTime{20 * time.Second, 25 * time.Second}},
		{"failed", was, change(is, func(j *Job) { j.Status = Failed }), RunTime{20 * time.Second, 25 * time.Second}},
		{"its failure was confirmed", change(was, func(j *Job) { j.Seen = Failed }),
			change(is, func(j *Job) { j.Status = Failed }), RunTime{0, 20 * time.Second}},
		{"canceled", was, change(is, func(j *Job) { j.Status = Canceled }), RunTime{}},
		{"lost", was, change(is, func(j *Job) { j.Status, j.Attention, j.Checked = Failed, Lost, at(20) }), RunTime{}},
		{"it still runs", was, change(is, func(j *Job) { j.Phase, j.Status = Started, Running }), RunTime{}},
		{"it had not started", change(was, func(j *Job) { j.Phase = Creating }), is, RunTime{}},
		{"the clock was set back", was, change(is, func(j *Job) { j.Checked = at(10) }), RunTime{}},
	} {
		if got, ok := runTimeShown(c.was, c.is, 30*time.Second); got != c.want && ok || ok != (c.want != RunTime{}) {
			t.Errorf("%s: %v %v, want %v", c.name, got, ok, c.want)
		}
	}
}
