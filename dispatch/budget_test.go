package dispatch

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// While no costs are known, one run comes after the other; a few at once if earlier runs of the owner tell that the
// budget has room for them. From then on runs whose costs are not known count at the mean of the others.
func TestBudget_Room(t *testing.T) {
	credits := func(costs float64, runs int) []Charge { return []Charge{{Unit: "credits", Costs: costs, Runs: runs}} }
	for name, c := range map[string]struct {
		budget Budget
		spent  Spending
		n      int
		why    Attention
	}{
		"none":                {Budget{}, Spending{Charges: credits(1e9, 3)}, math.MaxInt, None},
		"nothing known":       {Budget{2, ""}, Spending{}, 1, None},
		"first run under way": {Budget{10, ""}, Spending{Running: 1}, 0, CostsAwaited},
		"earlier runs": {Budget{100, ""}, Spending{Earlier: Charge{Unit: "credits", Costs: 8, Runs: 4}}, 3,
			None},
		"room for one of them": {Budget{2, ""}, Spending{Earlier: Charge{Unit: "credits", Costs: 8, Runs: 4}}, 1,
			None},
		"one of them runs": {Budget{3.9, ""}, Spending{Running: 1, Earlier: Charge{Unit: "credits", Costs: 8,
			Runs: 4}}, 0, CostsAwaited},
		"two run, one reported nothing": {Budget{100, ""}, Spending{Running: 2, Ended: 1,
			Earlier: Charge{Unit: "credits", Costs: 8, Runs: 4}}, 0, CostsAwaited},
		"earlier runs cost more": {Budget{1.9, ""}, Spending{Earlier: Charge{Unit: "credits", Costs: 8, Runs: 4}}, 0,
			BudgetReached},
		"earlier runs tell, not these": {Budget{100, ""}, Spending{Ended: 3, Earlier: Charge{Unit: "credits", Costs: 8,
			Runs: 4}}, 0, BudgetUnusable},
		"earlier runs in another unit": {Budget{10, "€"}, Spending{Earlier: Charge{Unit: "credits", Costs: 8, Runs: 4}},
			1, None},
		"earlier runs were free":   {Budget{10, ""}, Spending{Earlier: Charge{Runs: 4}}, 1, None},
		"earlier runs cost little": {Budget{1e12, ""}, Spending{Earlier: Charge{Costs: 1e-6, Runs: 4}}, 3, None},
		"first costs awaited":      {Budget{10, ""}, Spending{Running: 1, Unmetered: 2, Ended: 2}, 0, CostsAwaited},
		"platform tells none":      {Budget{10, ""}, Spending{Ended: 3}, 0, BudgetUnusable},
		"one failed":               {Budget{10, ""}, Spending{Ended: 1}, 1, None},
		"others run":               {Budget{10, ""}, Spending{Ended: 2, Running: 1}, 0, CostsAwaited},
		"another unit":             {Budget{10, "€"}, Spending{Charges: credits(1, 1)}, 0, BudgetUnusable},
		"two units": {Budget{10, ""}, Spending{Charges: append(credits(1, 1), Charge{Unit: "€", Costs: 1,
			Runs: 1})}, 0, BudgetUnusable},
		"its unit": {Budget{10, "credits"}, Spending{Charges: credits(2, 1)}, 4, None},
		"exactly used": {Budget{10, ""}, Spending{Charges: credits(6, 3), Running: 2}, 0,
			BudgetReached},
		"one fits": {Budget{10, ""}, Spending{Charges: credits(6, 3), Running: 1}, 1, None},
		"late costs count at the mean": {Budget{10, ""}, Spending{Charges: credits(2, 1), Unmetered: 3, Ended: 4}, 1,
			None},
		"0 while they run": {Budget{10, ""}, Spending{Charges: credits(0, 3), Running: 3, Reported: 3}, 0,
			CostsAwaited},
		"much while they run": {Budget{10, ""}, Spending{Charges: credits(10, 3), Running: 2, Reported: 2,
			RunningCosts: 9}, 0, BudgetReached},
		"more spent than permitted": {Budget{1, ""}, Spending{Charges: credits(6, 3)}, 0, BudgetReached},
		"free":                      {Budget{1, ""}, Spending{Charges: credits(0, 3), Ended: 3}, math.MaxInt32, None},
		"tiny costs": {Budget{1, ""}, Spending{Charges: credits(1e-300, 3), Ended: 3}, math.MaxInt32,
			None},
		"rounding": {Budget{0.3, ""}, Spending{Charges: credits(0.1, 1)}, 2, None},
	} {
		if n, why := c.budget.Room(c.spent); n != c.n || why != c.why {
			t.Errorf("%s: room for %d, %q", name, n, why)
		}
	}
}

// Runs that are begun only where there is room, and cost what they usually cost, never exceed the budget, however late
// their costs are known.
func TestBudget_IsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		each := rapid.Float64Range(0.01, 5).Draw(t, "each")
		b := Budget{Amount: each * rapid.Float64Range(1, 40).Draw(t, "runs")}
		var s Spending
		if rapid.Bool().Draw(t, "earlier") {
			s.Earlier = Charge{Unit: "credits", Costs: 5 * each, Runs: 5}
		}
		for range 200 {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				if n, why := b.Room(s); n > 0 {
					s.Running++
				} else if why == BudgetUnusable {
					t.Fatalf("unusable: %+v", s)
				}
			case 1:
				if s.Running > 0 {
					s.Running, s.Unmetered, s.Ended = s.Running-1, s.Unmetered+1, s.Ended+1
				}
			case 2:
				if s.Unmetered > 0 {
					c := Charge{Unit: "credits"}
					if len(s.Charges) > 0 {
						c = s.Charges[0]
					}
					c.Costs, c.Runs = c.Costs+each, c.Runs+1
					s.Unmetered, s.Charges = s.Unmetered-1, []Charge{c}
				}
			}
			use := b.Use(s)
			if known := len(s.Charges) > 0; known && use.Spent+use.Expected > b.Amount*(1+1e-6) || use.Spent < 0 {
				t.Fatalf("%+v of %+v", use, s)
			}
		}
	})
}

func TestBudget_Parse(t *testing.T) {
	for text, want := range map[string]string{`5`: "{5 } true", `0.5`: "{0.5 } true",
		`{"amount": 2, "unit": "€"}`: "{2 €} true", `0`: "false", `-1`: "false", `1e13`: "false",
		`"5"`: "false", `{}`: "false", `[1]`: "false", `null`: "false", `{"amount": "5"}`: "false"} {
		b, ok := ParseBudget(json.RawMessage(text))
		got := fmt.Sprint(ok)
		if ok {
			got = fmt.Sprint(b, ok)
		}
		if got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
