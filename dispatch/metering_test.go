package dispatch

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// run is a run of a job at a simulated platform.
type run struct {
	costs    float64
	known    time.Time // when the platform reports them
	reported bool      // whether it has
}

// meter performs the reads of costs that are due.
func meter(t *rapid.T, j Job, runs map[Ref]*run, now time.Time) Job {
	for !j.MeterDue().IsZero() && !j.MeterDue().After(now) {
		ref, had := j.FirstUnmetered().Ref, value(j.AllCosts())
		o := Outcome{Asked: AskMeter, Ref: ref, Report: Report{Status: Failed, Unit: "credits"}}
		if r := runs[ref]; !now.Before(r.known) {
			o.Report.Costs, r.reported = &r.costs, true
		} else if rapid.Bool().Draw(t, "unreachable") {
			o.Report, o.Err = Report{}, kind(Unavailable)
		}
		j = Next(j, o, now)
		if o.Report.Costs == nil && value(j.AllCosts()) != had {
			t.Fatal("costs changed without a report")
		}
	}
	return j
}

// Of a job that is run again and again, the costs of every run count once, however late and in whatever order its
// platform reports them, and a run is not asked about any more when its costs are known or a day has passed.
func TestMetering_EveryRunCountsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, runs := t0, map[Ref]*run{}
		j := Job{Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Started, Attempt: 1, Ref: Ref{ID: "1"}},
			Condition: Condition{Status: Running, Moved: t0}}
		for n := range rapid.IntRange(1, 4).Draw(t, "runs") {
			r := &run{costs: float64(rapid.IntRange(1, 9).Draw(t, "costs")),
				known: now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "hours")) * time.Hour)}
			runs[j.Ref] = r
			o := Outcome{Asked: AskStatus, Ref: j.Ref, Attempt: j.Attempt, Epoch: j.Epoch,
				Report: Report{Status: Failed,
					Unit: "credits"}}
			o.Report.Partial = rapid.Bool().Draw(t, "partial")
			if r.reported = !now.Before(r.known); r.reported {
				o.Report.Costs = &r.costs
			}
			j.Seen, j.Checked = Failed, now.Add(-time.Minute)
			if j = Next(j, o, now); j.Phase != Ended {
				t.Fatalf("%s %s", j.Phase, j.Status)
			}
			for range rapid.IntRange(0, 30).Draw(t, "steps") {
				now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "minutes")) * time.Minute)
				j = meter(t, j, runs, now)
			}
			j = j.Retry(now)
			j.Phase, j.Status, j.Ref = Started, Running, Ref{ID: string(rune('2' + n))}
		}
		for range 60 {
			now = now.Add(30 * time.Minute)
			j = meter(t, j, runs, now)
		}
		want := 0.0
		for _, r := range runs {
			if r.reported {
				want += r.costs
			}
		}
		if got := Bookable(j.AllCosts()); got != want || len(j.Unmetered) > 0 {
			t.Errorf("costs %v, want %v; still to be read: %v", got, want, j.Unmetered)
		}
	})
}

// Reads of costs are planned only where a platform may report more.
func TestMetering_IsPlannedWhereSomethingIsMissing(t *testing.T) {
	two := 2.0
	for name, test := range map[string]struct {
		report Report
		want   bool
	}{
		"a platform that does not charge": {Report{Status: Finished}, false},
		"costs are known":                 {Report{Status: Finished, Unit: "credits", Costs: &two}, false},
		"costs are missing":               {Report{Status: Finished, Unit: "credits"}, true},
		"a listing without usage":         {Report{Status: Finished, Partial: true}, true},
		"a listing without usage, but costs": {Report{Status: Canceled, Unit: "credits", Costs: &two, Partial: true},
			true},
		"it goes on": {Report{Status: Running, Unit: "credits", Partial: true}, false},
	} {
		j := Job{Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Started, Attempt: 1, Epoch: 1, Ref: p},
			Condition: Condition{Status: Running, Moved: t0}}
		o := status1(test.report.Status)
		o.Report = test.report
		is := Next(j, o, t0)
		if planned := is.MeterDue(); planned.IsZero() == test.want || test.want && planned != t0.Add(time.Minute) {
			t.Errorf("%s: read at %v", name, planned)
		}
	}
	canceled := Next(Job{Wish: Wish{Desired: WantCancel}, Handover: Handover{Phase: Started, Attempt: 1, Epoch: 1,
		Ref: p}, Condition: Condition{Status: Running},
		Metering: Metering{Unit: "credits"}}, ask(AskCancel, func(*Outcome) {}), t0)
	if canceled.MeterDue().IsZero() {
		t.Error("the costs of a canceled job are not read")
	}
}

// A retry books the costs of the attempt before, so a read of the rest of that run does not count them again.
func TestMetering_AfterARetry(t *testing.T) {
	two := 2.0
	for name, known := range map[string]*float64{"costs were known": &two, "costs were missing": nil} {
		j := Job{Wish: Wish{Desired: WantRun}, Handover: Handover{Phase: Started, Attempt: 1, Epoch: 1, Ref: p},
			Condition: Condition{Status: Running, Moved: t0}}
		o := status1(Finished)
		o.Report.Unit, o.Report.Costs, o.Report.Partial = "credits", known, true
		j = Next(j, o, t0)
		j = Next(j.Retry(t0), Outcome{Asked: AskMeter, Ref: p, Report: Report{Status: Finished, Unit: "credits",
			Costs: &two}}, t0.Add(time.Hour))
		if j.Spent != two || len(j.Unmetered) > 0 {
			t.Errorf("%s: %v is booked; still to be read: %v", name, j.Spent, j.Unmetered)
		}
	}
}
