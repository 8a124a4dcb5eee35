package forecast

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch"
)

var drawnRunTimes = rapid.Custom(func(t *rapid.T) dispatch.RunTimes {
	var all dispatch.RunTimes
	for range rapid.IntRange(1, 90).Draw(t, "runs") {
		after := rapid.Int64Range(0, 100_000).Draw(t, "after")
		by := after + rapid.SampledFrom([]int64{1, 10, 2000, 100_000}).Draw(t, "width")
		all = all.Add(dispatch.RunTime{After: time.Duration(after) * time.Millisecond, By: time.Duration(by) * time.Millisecond})
	}
	return all
})

// A curve is a distribution: it rises from 0 to 1, ageAt is its inverse, and it explains every run time: where one
// lies, it rises.
func TestRunTimes_CurveIsADistribution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawnRunTimes.Draw(t, "run times")
		c := NewRunTimeCurve(all)
		if len(all) > dispatch.MostRunTimes || c.by[0] != 0 || c.by[len(c.by)-1] != 1 || !slices.IsSorted(c.by) {
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
		all := rapid.OneOf(rapid.Just(dispatch.RunTimes(nil)), drawnRunTimes).Draw(t, "run times")
		c := NewRunTimeCurve(all)
		read := time.Duration(rapid.Int64Range(0, 300_000).Draw(t, "read")) * time.Millisecond
		gap := time.Duration(rapid.Int64Range(250, 60_000).Draw(t, "gap")) * time.Millisecond
		age, likely := c.BestLook(read, gap)
		if age < read || likely < 0 || likely > 1 {
			t.Fatalf("read at %v, next at %v, %v likely", read, age, likely)
		}
		if len(all) > 0 && age > max(c.ageAt(1)+gap/16, read+max(gap, read/10)) {
			t.Errorf("read at %v, next at %v, when all had ended at %v", read, age, c.ageAt(1))
		}
	})
}

func TestRunTimes_OfWhatAStatusShows(t *testing.T) {
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	was := dispatch.Job{Phase: dispatch.Started, SendBy: at(30), Checked: at(20), Seen: dispatch.Running}
	is := was
	is.Phase, is.Status, is.Checked = dispatch.Ended, dispatch.Finished, at(25)
	change := func(j dispatch.Job, change func(*dispatch.Job)) dispatch.Job { change(&j); return j }
	for _, c := range []struct {
		name    string
		was, is dispatch.Job
		want    dispatch.RunTime
	}{
		{"finished", was, is, dispatch.RunTime{After: 20 * time.Second, By: 25 * time.Second}},
		{"failed", was, change(is, func(j *dispatch.Job) { j.Status = dispatch.Failed }), dispatch.RunTime{After: 20 * time.Second, By: 25 * time.Second}},
		{"its failure was confirmed", change(was, func(j *dispatch.Job) { j.Seen = dispatch.Failed }),
			change(is, func(j *dispatch.Job) { j.Status = dispatch.Failed }), dispatch.RunTime{After: 0, By: 20 * time.Second}},
		{"canceled", was, change(is, func(j *dispatch.Job) { j.Status = dispatch.Canceled }), dispatch.RunTime{}},
		{"lost", was, change(is, func(j *dispatch.Job) { j.Status, j.Attention, j.Checked = dispatch.Failed, dispatch.Lost, at(20) }), dispatch.RunTime{}},
		{"it still runs", was, change(is, func(j *dispatch.Job) { j.Phase, j.Status = dispatch.Started, dispatch.Running }), dispatch.RunTime{}},
		{"it had not started", change(was, func(j *dispatch.Job) { j.Phase = dispatch.Creating }), is, dispatch.RunTime{}},
		{"the clock was set back", was, change(is, func(j *dispatch.Job) { j.Checked = at(10) }), dispatch.RunTime{}},
	} {
		if got, ok := RunTimeShown(c.was, c.is, 30*time.Second); got != c.want && ok || ok != (c.want != dispatch.RunTime{}) {
			t.Errorf("%s: %v %v, want %v", c.name, got, ok, c.want)
		}
	}
}
