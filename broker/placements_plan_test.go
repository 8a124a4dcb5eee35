package broker

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// placement returns a placement with slots, of which some are in use, and jobs that wait there.
func placement(slots, held, waiting int, run time.Duration) placementPlan {
	return placementPlan{PlacementLoad: dispatch.PlacementLoad{Held: held, Waiting: waiting},
		limits: dispatch.Limits{Jobs: slots, Requests: 4}, runTime: run}
}

func closed(h placementPlan, why dispatch.Attention) placementPlan {
	h.Why = why
	return h
}

func failingPlacement(h placementPlan) placementPlan {
	h.Failing = true
	return h
}

func retrying(h placementPlan, n int) placementPlan {
	h.Retrying = n
	return h
}

func TestPlanMoves(t *testing.T) {
	const minute = time.Minute
	for _, c := range []struct {
		name       string
		placements []placementPlan
		want       string // FROM>TO:N+SKIP for each move; R: of jobs that are retried
	}{
		{"nothing waits", []placementPlan{placement(4, 0, 0, 0), placement(4, 0, 0, 0)}, ""},
		{"a placement with free slots gets one for each, and one for each slot after", []placementPlan{placement(2, 0,
			100, 0), placement(3, 0, 0, 0)}, "0>1:6+4"},
		{"of a few, the placement that ends them first gets most",
			[]placementPlan{placement(1, 0, 4, 3*minute), placement(1, 0, 0, minute)}, "0>1:2+1"},
		{"the last job does not go to a slow placement", []placementPlan{placement(1, 1, 1, minute), placement(1, 0, 0,
			10*minute)}, ""},
		{"and leaves it", []placementPlan{placement(1, 1, 1, 10*minute), placement(1, 0, 0, minute)}, "0>1:1+0"},
		{"a placement that has half of what it needs gets nothing", []placementPlan{placement(2, 2, 50, 0), placement(2,
			2, 1, 0)}, ""},
		{"a placement that is down gives up all", []placementPlan{closed(placement(2, 0, 100, 0), dispatch.Unreachable),
			placement(2, 0, 0, 0)}, "0>1:4+0 0>1:96+0"},
		{"some at a time", []placementPlan{closed(placement(2, 0, 2000, 0), dispatch.NeedsSignIn), placement(2, 2, 2,
			0)}, "0>1:500+0"},
		{"a full placement gives up what another one needs",
			[]placementPlan{closed(placement(2, 2, 100, 0), dispatch.Full), placement(2, 0, 0, 0)}, "0>1:4+0"},
		{"a placement at which jobs fail gets nothing and gives up all", []placementPlan{placement(2, 2, 9, 0),
			failingPlacement(placement(4, 0, 3, 0))}, "1>0:3+0"},
		{"unless they fail everywhere", []placementPlan{failingPlacement(placement(2, 0, 9, 0)),
			failingPlacement(placement(2, 0, 0, 0))}, "0>1:4+4"},
		{"all are down", []placementPlan{closed(placement(2, 0, 9, 0), dispatch.Unreachable),
			closed(placement(2, 0, 0, 0), dispatch.Unreachable)}, ""},
		{"what failed because of its platform goes elsewhere",
			[]placementPlan{retrying(placement(2, 2, 3, 0), 2), placement(2, 2, 1, 0)}, "R0>1:2+0"},
		{"many of these in several moves", []placementPlan{retrying(placement(2, 2, 1200, 0), 1200),
			placement(2, 2, 0, 0)}, "R0>1:500+0 R0>1:500+0 R0>1:200+0"},
		{"not to a placement that is down", []placementPlan{retrying(placement(2, 2, 2, 0), 2),
			closed(placement(2, 0, 0, 0), dispatch.Unreachable)}, ""},
		{"a placement without a limit", []placementPlan{placement(1, 1, 100, 0), placement(0, 0, 0, 0)}, "0>1:16+1"},
	} {
		got := ""
		for _, m := range planMoves(c.placements) {
			mark := ""
			if m.retrying {
				mark = "R"
			}
			got += fmt.Sprintf(" %s%d>%d:%d+%d", mark, m.from, m.to, m.n, m.skip)
		}
		if c.want != "" {
			c.want = " " + c.want
		}
		if got != c.want {
			t.Errorf("%s: moves%s, want%s", c.name, got, c.want)
		}
	}
}

// TestPlanMoves_Settles: plans that are carried out, with nothing else happening, come to an end, and move no job to
// and fro.
func TestPlanMoves_Settles(t *testing.T) {
	for waiting := range 60 {
		placements := []placementPlan{placement(3, 2, waiting, time.Minute), placement(2, 0, 0, 3*time.Minute),
			placement(5, 5, 7, 20*time.Second)}
		rounds := 0
		for moves := planMoves(placements); len(moves) > 0; moves = planMoves(placements) {
			for _, m := range moves {
				placements[m.from].Waiting -= m.n
				placements[m.to].Waiting += m.n
			}
			if rounds++; rounds > 3 || slices.ContainsFunc(placements,
				func(h placementPlan) bool { return h.Waiting < 0 }) {
				t.Fatalf("%d jobs: after %d rounds %+v", waiting, rounds, placements)
			}
		}
	}
}

func TestNext_IgnoresResponsesFromAFormerPlacement(t *testing.T) {
	j := dispatch.Job{Identity: dispatch.Identity{ID: 1, Task: 1}, Target: dispatch.Target{Account: "b/shared"},
		Wish: dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: dispatch.Creating,
			Attempt: 2, Epoch: 5}, Condition: dispatch.Condition{Status: dispatch.Accepted}}
	late := dispatch.Outcome{Asked: dispatch.AskSubmit, Account: "a/shared", Attempt: 2, Epoch: 5,
		Ref: dispatch.Ref{ID: "1"}, Started: true}
	if got := dispatch.Next(j, late, time.Now()); got.Ref != (dispatch.Ref{}) || got.Phase != dispatch.Creating ||
		len(got.Orphans) != 0 {
		t.Errorf("a response from another account makes it %+v", got)
	}
	late.Account = j.Account
	if got := dispatch.Next(j, late, time.Now()); got.Phase != dispatch.Started {
		t.Errorf("a response from its own account makes it %s", got.Phase)
	}
}

func TestParameters_Differences(t *testing.T) {
	base := []dispatch.Parameter{{Name: "x", Type: dispatch.Integer, Default: []byte(`{"a":1,"b":2}`),
		Description: "one"}, {Name: "y", Type: dispatch.String, Optional: true}}
	if d := differences(base, []dispatch.Parameter{base[1],
		{Name: "x", Type: dispatch.Integer, Default: []byte(`{"b":2, "a":1}`), Description: "two"}}); len(d) > 0 {
		t.Errorf("equal parameters differ: %q", d)
	}
	for want, other := range map[string]dispatch.Parameter{
		`"x" differs in its type (integer, double)`: {Name: "x", Type: dispatch.Double, Default: base[0].Default},
		`"x" differs in its default`:                {Name: "x", Type: dispatch.Integer},
		`"x" differs in its being optional`: {Name: "x", Type: dispatch.Integer, Default: base[0].Default,
			Optional: true},
		`"x" differs in its allowed values`: {Name: "x", Type: dispatch.Integer, Default: base[0].Default,
			Options: []json.RawMessage{json.RawMessage("1")}},
	} {
		if d := differences(base, []dispatch.Parameter{other, base[1]}); len(d) != 1 || d[0] != want {
			t.Errorf("differences %q, want %q", d, want)
		}
	}
	if d := differences(base, base[:1]); len(d) != 1 || d[0] != `only the first has "y"` {
		t.Errorf("differences %q", d)
	}
	if d := differences(base[:1], base); len(d) != 1 || d[0] != `only the second has "y"` {
		t.Errorf("differences %q", d)
	}
}
