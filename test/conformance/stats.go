package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/observe/telemetry"
)

// TestStats runs the cases that every [telemetry.StatsSource] must pass. The stores of the databases must implement it.
func TestStats(t *testing.T, open func(*testing.T) Database) {
	for name, test := range map[string]func(statsTest){
		"what the database holds":     statsTest.counts,
		"tasks that start nothing":    statsTest.limited,
		"one of many counts":          statsTest.oneCounts,
		"a clock that is set back":    statsTest.clockBack,
		"a database without any jobs": statsTest.empty,
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			test(statsTest{storeTest{t, db, db.Open()}})
		})
	}
}

type statsTest struct{ storeTest }

// count counts as a process, which must be the one that may.
func (t statsTest) count(process string, lease time.Duration) []dispatch.PlatformStats {
	t.Helper()
	found, ours, err := t.db.Open().(telemetry.StatsSource).Stats(t.Context(), process, lease)
	t.must(err)
	if !ours {
		t.Fatalf("%s does not count", process)
	}
	all := found.Platforms
	slices.SortFunc(all, func(a, b dispatch.PlatformStats) int { return strings.Compare(a.Platform, b.Platform) })
	return all
}

func (t statsTest) refused(process string) {
	t.Helper()
	found, ours, err := t.db.Open().(telemetry.StatsSource).Stats(t.Context(), process, time.Minute)
	t.must(err)
	if ours || found.Platforms != nil {
		t.Errorf("%s counts as well: %+v", process, found)
	}
}

func (t statsTest) empty() {
	t.equal(t.count("a", time.Minute), []dispatch.PlatformStats(nil))
}

func (t statsTest) counts() {
	t.accept()
	t.db.Pass(time.Minute)
	states := []dispatch.Job{
		{Handover: dispatch.Handover{Phase: dispatch.Creating}, Condition: dispatch.Condition{Status: dispatch.Accepted,
			Attention: dispatch.InDoubt}},
		{Handover: dispatch.Handover{Phase: dispatch.Created},
			Condition: dispatch.Condition{Status: dispatch.Submitted}},
		{Handover: dispatch.Handover{Phase: dispatch.Started}, Condition: dispatch.Condition{Status: dispatch.Running}},
		{Handover: dispatch.Handover{Phase: dispatch.Started}, Condition: dispatch.Condition{Status: dispatch.Running,
			Attention: dispatch.Stalled}},
		{Handover: dispatch.Handover{Phase: dispatch.Ended}, Condition: dispatch.Condition{Status: dispatch.Finished}},
	}
	for _, s := range states {
		j := t.accept()
		j.Phase, j.Status, j.Attention = s.Phase, s.Status, s.Attention
		t.save(j)
	}
	t.acceptFor(bob, "q/"+dispatch.Account(bob))
	t.acceptFor(ann, "q/"+dispatch.Account(ann))
	t.must(t.s.Hold(t.Context(), "q/"+dispatch.Account(ann), time.Hour, dispatch.NeedsSignIn, "sign in"))
	_, err := t.s.ReserveSendTime(t.Context(), dispatch.SendTimeRequest{Account: shared, Pace: time.Second,
		Purpose: dispatch.Acting})
	t.must(err)
	t.must(t.s.NoteResponse(t.Context(), "p", "no response", 0))
	t.db.Pass(time.Minute)
	all := t.count("a", time.Minute)
	if len(all) != 2 || all[0].Failed.IsZero() || !all[0].Answered.IsZero() {
		t.Fatalf("%+v", all)
	}
	all[0].Failed = time.Time{}
	t.equal(all, []dispatch.PlatformStats{
		{Platform: "p", Waiting: 1, Held: map[dispatch.Status]int{dispatch.Accepted: 1, dispatch.Submitted: 1,
			dispatch.Running: 2}, Ended: 1,
			Attention: map[dispatch.Attention]int{dispatch.InDoubt: 1, dispatch.Stalled: 1}, Accounts: 1,
			Oldest: 2 * time.Minute, Lag: 2 * time.Minute},
		{Platform: "q", Waiting: 2, Holds: map[dispatch.Attention]int{dispatch.NeedsSignIn: 1}, Accounts: 2,
			Oldest: time.Minute, Lag: time.Minute},
	})
}

// limited counts the tasks that their owner paused and those of a trial, as long as they have unfinished jobs.
func (t statsTest) limited() {
	paused, _ := t.acceptTask(ann, 2)
	_, err := t.s.PauseTask(t.Context(), ann, paused.ID)
	t.must(err)
	t.acceptLimited(3, dispatch.Budget{}, 1)
	t.acceptTask(ann, 2) // nothing limits it
	over, _ := t.acceptTask(bob, 2)
	_, err = t.s.PauseTask(t.Context(), bob, over.ID)
	t.must(err)
	counted := func() map[dispatch.Attention]int {
		found, _, err := t.s.(telemetry.StatsSource).Stats(t.Context(), "a", time.Minute)
		t.must(err)
		return found.Limited
	}
	t.equal(counted(), map[dispatch.Attention]int{dispatch.Paused: 2, dispatch.Trial: 1})
	_, err = t.s.CancelTask(t.Context(), bob, over.ID, false)
	t.must(err)
	t.equal(counted(), map[dispatch.Attention]int{dispatch.Paused: 1, dispatch.Trial: 1})
}

func (t statsTest) oneCounts() {
	t.count("a", time.Minute)
	t.refused("b")
	t.db.Pass(30 * time.Second)
	t.count("a", time.Minute) // who counts goes on
	t.db.Pass(59 * time.Second)
	t.refused("b")
	t.db.Pass(2 * time.Second)
	t.count("b", time.Minute)
	t.refused("a")
	t.must(t.s.(telemetry.StatsSource).EndStats(t.Context(), "a")) // not its own
	t.refused("a")
	t.must(t.s.(telemetry.StatsSource).EndStats(t.Context(), "b"))
	t.count("a", time.Minute)
}

func (t statsTest) clockBack() {
	t.count("a", time.Minute)
	t.db.Pass(-24 * time.Hour)
	t.count("b", time.Minute)
	t.refused("a")
}
