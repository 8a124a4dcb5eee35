package dispatch

import (
	"encoding/json"
	"math"
)

// Budget is what the jobs of a task may cost. The zero value sets no limit.
type Budget struct {
	Amount float64
	Unit   string // "": whichever the platform charges in
}

// Spending is what the runs of a task cost so far, and what is not known of it yet. A run is an attempt of a job.
type Spending struct {
	Charges []Charge // by unit, without months, as in the ledger
	Ended   int      // jobs that finished or failed

	Running      int     // runs that were begun and have not ended, or are in doubt
	RunningCosts float64 // what platforms reported already of some of them; contained in Charges
	Reported     int     // of how many of them
	Unmetered    int     // runs that have ended and whose costs are still to be read

	// Earlier is what the owner's latest finished runs of the task's service cost, of any task, see [SumRuns]. It
	// counts only while the costs of no run of the task are known.
	Earlier Charge
}

// Unpriced reports whether the costs of no run that has ended are known.
func (s Spending) Unpriced() bool {
	runs := 0
	for _, c := range s.Charges {
		runs += c.Runs
	}
	return runs <= s.Reported
}

// budgetProbes is how many runs a task with a budget may have while the costs of none are known. What earlier runs cost
// is a guess, because their parameters were others.
const budgetProbes = 3

// Room returns how many more runs the budget has room for. If there is no room, it says why: [BudgetReached],
// [CostsAwaited], or [BudgetUnusable]. Runs whose costs are not known yet count at the mean of those that have ended;
// while there are none, at the mean of the owner's earlier runs. Without these either, one run comes after the other.
func (b Budget) Room(s Spending) (n int, why Attention) {
	if b == (Budget{}) {
		return math.MaxInt, None
	}
	charge, usable := b.charge(s)
	if !usable {
		return 0, BudgetUnusable
	}
	open := s.Running + s.Unmetered
	known := charge.Runs - s.Reported
	if known <= 0 {
		return b.probes(s)
	}
	spent := charge.Costs - s.RunningCosts
	mean := max(0, spent/float64(known))
	left := b.Amount - spent - max(mean*float64(open), s.RunningCosts)
	switch more := left/mean + rounding; {
	case left < 0, more < 1:
		return 0, BudgetReached
	case mean == 0, more > math.MaxInt32:
		return math.MaxInt32, None
	default:
		return int(more), None
	}
}

// probes is Room while the costs of no run are known.
func (b Budget) probes(s Spending) (n int, why Attention) {
	open, silent := s.Running+s.Unmetered, max(0, s.Ended-s.Unmetered)
	probes := min(1-open, budgetProbes-silent)
	each := b.expected(s)
	if each > 0 {
		fit := b.Amount/each + rounding - float64(open+silent)
		probes = min(budgetProbes-open-silent, int(min(fit, budgetProbes)))
	}
	switch {
	case probes > 0:
		return probes, None
	case open > 0:
		return 0, CostsAwaited
	case each > 0 && silent < budgetProbes:
		return 0, BudgetReached
	default:
		return 0, BudgetUnusable
	}
}

// expected returns what a run costs, by the owner's earlier ones; 0: they do not tell.
func (b Budget) expected(s Spending) float64 {
	if s.Earlier.Runs == 0 || b.Unit != "" && s.Earlier.Unit != b.Unit {
		return 0
	}
	return s.Earlier.Costs / float64(s.Earlier.Runs)
}

// SumRuns returns what runs cost together, the latest first, in the unit of the latest; zero if there are too few.
func SumRuns(runs []FinishedRun) (sum Charge) {
	costs, unit := PricesOf(runs)
	if len(costs) < LeastRuns {
		return Charge{}
	}
	for _, c := range costs {
		sum.Costs += c
	}
	sum.Unit, sum.Runs, sum.Costs = unit, len(costs), RoundAmount(sum.Costs)
	return sum
}

// rounding is the part of a run by which sums of costs may be wrong.
const rounding = 1e-9

// NoRoom returns the error for an owner who resumes a task while its budget has no room, for the reason that
// [Budget.Room] gave.
func NoRoom(op string, why Attention) error {
	text := map[Attention]string{
		BudgetReached: "Another job would exceed the budget of this task. Resume it with a higher budget.",
		BudgetUnusable: "The platform reports no costs for jobs of this task, or costs in another unit than that of " +
			"its budget, so that the budget cannot be kept. Resume the task with a budget in the unit of its costs, " +
			"or without one.",
	}[why]
	return &Error{Kind: Conflict, Op: op, Text: text}
}

// charge returns what was charged in the unit of the budget; false if the platform charges in another one.
func (b Budget) charge(s Spending) (c Charge, usable bool) {
	switch {
	case len(s.Charges) == 0:
		return Charge{Unit: b.Unit}, true
	case len(s.Charges) > 1, b.Unit != "" && s.Charges[0].Unit != b.Unit:
		return Charge{}, false
	}
	return s.Charges[0], true
}

// TaskBudget is the budget of a task and what was used of it.
type TaskBudget struct {
	Budget           // with the unit in which the platform charges, if that is known
	Spent    float64 // in Unit
	Expected float64 // what the runs are expected to cost whose costs are not known yet; 0 while nothing is known
}

// Use returns what was used of the budget.
func (b Budget) Use(s Spending) TaskBudget {
	c, usable := b.charge(s)
	if !usable {
		return TaskBudget{Budget: b}
	}
	use := TaskBudget{Budget: Budget{b.Amount, c.Unit}, Spent: max(0, c.Costs-s.RunningCosts), Expected: s.RunningCosts}
	if known := c.Runs - s.Reported; known > 0 {
		use.Expected = max(use.Expected, use.Spent/float64(known)*float64(s.Running+s.Unmetered))
	} else {
		use.Expected = max(use.Expected, b.expected(s)*float64(s.Running+s.Unmetered))
	}
	return use
}

// Replaced returns the budget that replaces b. One without a unit keeps that of b.
func (b Budget) Replaced(by Budget) Budget {
	if by.Amount > 0 && by.Unit == "" {
		by.Unit = b.Unit
	}
	return by
}

// ParseBudget reads a budget: a number, or an object with amount and unit; false if it is neither, or not above 0.
func ParseBudget(text json.RawMessage) (b Budget, ok bool) {
	if json.Unmarshal(text, &b.Amount) != nil && json.Unmarshal(text, &b) != nil {
		return Budget{}, false
	}
	if b.Amount <= 0 || b.Amount > HighestCosts {
		return Budget{}, false
	}
	return b, true
}

// option returns the budget as the option of a task.
func (b Budget) option() json.RawMessage {
	text, _ := json.Marshal(struct { // cannot fail: the amount is finite
		Amount float64 `json:"amount"`
		Unit   string  `json:"unit,omitempty"`
	}{b.Amount, b.Unit})
	return text
}
