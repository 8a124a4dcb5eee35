package broker

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// home returns a home with slots, of which some are in use, and jobs that wait there.
func home(slots, held, waiting int, run time.Duration) homePlan {
	return homePlan{HomeLoad: dispatch.HomeLoad{Held: held, Waiting: waiting},
		limits: dispatch.Limits{Jobs: slots, Requests: 4}, runTime: run}
}

func closed(h homePlan, why dispatch.Attention) homePlan {
	h.Why = why
	return h
}

func failingHome(h homePlan) homePlan {
	h.Failing = true
	return h
}

func retrying(h homePlan, n int) homePlan {
	h.Retrying = n
	return h
}

func TestPlanMoves(t *testing.T) {
	const minute = time.Minute
	for _, c := range []struct {
		name  string
		homes []homePlan
		want  string // FROM>TO:N+SKIP for each move; R: of jobs that are retried
	}{
		{"nothing waits", []homePlan{home(4, 0, 0, 0), home(4, 0, 0, 0)}, ""},
		{"a home with free slots gets one for each, and one for each slot after", []homePlan{home(2, 0, 100, 0),
			home(3, 0, 0, 0)}, "0>1:6+4"},
		{"of a few, the home that ends them first gets most",
			[]homePlan{home(1, 0, 4, 3*minute), home(1, 0, 0, minute)}, "0>1:2+1"},
		{"the last job does not go to a slow home", []homePlan{home(1, 1, 1, minute), home(1, 0, 0, 10*minute)}, ""},
		{"and leaves it", []homePlan{home(1, 1, 1, 10*minute), home(1, 0, 0, minute)}, "0>1:1+0"},
		{"a home that has half of what it needs gets nothing", []homePlan{home(2, 2, 50, 0), home(2, 2, 1, 0)}, ""},
		{"a home that is down gives up all", []homePlan{closed(home(2, 0, 100, 0), dispatch.Unreachable),
			home(2, 0, 0, 0)}, "0>1:4+0 0>1:96+0"},
		{"some at a time", []homePlan{closed(home(2, 0, 2000, 0), dispatch.NeedsSignIn), home(2, 2, 2, 0)},
			"0>1:500+0"},
		{"a full home gives up what another one needs",
			[]homePlan{closed(home(2, 2, 100, 0), dispatch.Full), home(2, 0, 0, 0)}, "0>1:4+0"},
		{"a home at which jobs fail gets nothing and gives up all", []homePlan{home(2, 2, 9, 0),
			failingHome(home(4, 0, 3, 0))}, "1>0:3+0"},
		{"unless they fail everywhere", []homePlan{failingHome(home(2, 0, 9, 0)), failingHome(home(2, 0, 0, 0))},
			"0>1:4+4"},
		{"all are down", []homePlan{closed(home(2, 0, 9, 0), dispatch.Unreachable),
			closed(home(2, 0, 0, 0), dispatch.Unreachable)}, ""},
		{"what failed because of its platform goes elsewhere",
			[]homePlan{retrying(home(2, 2, 3, 0), 2), home(2, 2, 1, 0)}, "R0>1:2+0"},
		{"not to a home that is down", []homePlan{retrying(home(2, 2, 2, 0), 2),
			closed(home(2, 0, 0, 0), dispatch.Unreachable)}, ""},
		{"a home without a limit", []homePlan{home(1, 1, 100, 0), home(0, 0, 0, 0)}, "0>1:16+1"},
	} {
		got := ""
		for _, m := range planMoves(c.homes) {
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
		homes := []homePlan{home(3, 2, waiting, time.Minute), home(2, 0, 0, 3*time.Minute),
			home(5, 5, 7, 20*time.Second)}
		rounds := 0
		for moves := planMoves(homes); len(moves) > 0; moves = planMoves(homes) {
			for _, m := range moves {
				homes[m.from].Waiting -= m.n
				homes[m.to].Waiting += m.n
			}
			if rounds++; rounds > 3 || slices.ContainsFunc(homes, func(h homePlan) bool { return h.Waiting < 0 }) {
				t.Fatalf("%d jobs: after %d rounds %+v", waiting, rounds, homes)
			}
		}
	}
}

func TestNext_IgnoresResponsesFromAFormerHome(t *testing.T) {
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
		{Name: "x", Type: dispatch.Integer, Default: []byte(`{"b":2, "a":1}`),
			Description: "two"}}); len(d) > 0 {
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
