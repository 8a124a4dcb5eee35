package broker

import (
	"cmp"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// mostMoved is how many jobs one move takes from a home that gives up all.
const mostMoved = 500

// homePlan is a home as planMoves sees it.
type homePlan struct {
	dispatch.HomeLoad
	limits  dispatch.Limits
	runTime time.Duration // the median there; 0: none is known
	avoided bool          // jobs fail there, and not everywhere
}

// move is what planMoves wants moved from one home to another, both by their index.
type move struct {
	from, to, skip, n int
	retrying          bool
}

// planMoves returns which waiting jobs of a task to move. The jobs are dealt to the homes, each to the one where it
// would end first; a home that has less than half of what it needs of that now gets the rest. A home that submits
// nothing for long gives up all. Jobs that failed because of their platform go to another one.
func planMoves(homes []homePlan) (moves []move) {
	homes = withoutFailing(withRunTimes(homes))
	if !slices.ContainsFunc(homes, homePlan.open) {
		return nil
	}
	for i, h := range homes {
		if to, other := bestHome(homes, make([]int, len(homes)), i); other && h.Retrying > 0 {
			moves = append(moves, move{from: i, to: to, n: h.Retrying, retrying: true})
		}
	}
	wanted := deal(homes)
	spare := make([]int, len(homes))
	for i, h := range homes {
		spare[i] = max(0, h.Waiting-h.Retrying-wanted[i])
	}
	give := func(to, n int) {
		for _, from := range givers(homes, spare) {
			if k := min(n, spare[from]); k > 0 && from != to {
				moves = append(moves, move{from: from, to: to, skip: wanted[from], n: k})
				spare[from], n = spare[from]-k, n-k
			}
		}
	}
	for i, h := range homes {
		if h.open() && 2*(h.Waiting-h.Retrying) < wanted[i] {
			give(i, wanted[i]-(h.Waiting-h.Retrying))
		}
	}
	for i, h := range homes {
		if to, other := bestHome(homes, wanted, i); !h.open() && h.leaves() && other && spare[i] > 0 {
			moves = append(moves, move{from: i, to: to, n: min(spare[i], mostMoved)})
		}
	}
	return moves
}

// withoutFailing closes those of its homes at which jobs fail in a row, if there is another open one, and returns them.
func withoutFailing(homes []homePlan) []homePlan {
	if !slices.ContainsFunc(homes, func(h homePlan) bool { return h.open() && !h.Failing }) {
		return homes
	}
	for i := range homes {
		homes[i].avoided = homes[i].Failing
	}
	return homes
}

// withRunTimes returns homes of which each has a run time: those without a known one the mean of the others.
func withRunTimes(homes []homePlan) []homePlan {
	sum, n := time.Duration(0), time.Duration(0)
	for _, h := range homes {
		if h.runTime > 0 {
			sum, n = sum+h.runTime, n+1
		}
	}
	homes = slices.Clone(homes)
	for i := range homes {
		if homes[i].runTime <= 0 {
			homes[i].runTime = max(time.Second, sum/max(n, 1))
		}
	}
	return homes
}

// open reports whether jobs at the home are submitted.
func (h homePlan) open() bool { return h.Why == dispatch.None && !h.avoided }

// leaves reports whether the account of a closed home is closed for so long that all its jobs are better off elsewhere,
// or jobs fail there.
func (h homePlan) leaves() bool {
	return h.avoided || h.Why != dispatch.Full && h.Why != dispatch.NotTaken
}

// slots is how many jobs may run at the home at once.
func (h homePlan) slots() int {
	if h.limits.Jobs == 0 {
		return max(1, h.Held+2*h.limits.Requests)
	}
	return h.limits.Jobs
}

// mostDealt is how many waiting jobs a home is dealt at most: one for each free slot, and one for each slot after that.
func (h homePlan) mostDealt() int { return max(0, h.slots()-h.Held) + h.slots() }

// endOf returns when a job would end at the home that begins after the jobs that hold slots and n others.
func (h homePlan) endOf(n int) time.Duration {
	return h.runTime * time.Duration((h.Held+n)/h.slots()+1)
}

// mostPlanned is how many jobs are dealt at most: as many as show what the homes' shares are.
const mostPlanned = 10_000

// deal returns how many of the waiting jobs each home should have now. All are dealt, but a home needs no more than
// mostDealt at a time.
func deal(homes []homePlan) []int {
	dealt, waiting := make([]int, len(homes)), 0
	for _, h := range homes {
		waiting += h.Waiting - h.Retrying
	}
	for range min(waiting, mostPlanned) {
		best, _ := bestHome(homes, dealt, -1)
		dealt[best]++
	}
	for i, h := range homes {
		dealt[i] = min(dealt[i], h.mostDealt())
	}
	return dealt
}

// bestHome returns the open home other than one where a further job would end first after those that were dealt.
func bestHome(homes []homePlan, dealt []int, except int) (best int, any bool) {
	for i, h := range homes {
		if i != except && h.open() && (!any || h.endOf(dealt[i]) < homes[best].endOf(dealt[best])) {
			best, any = i, true
		}
	}
	return best, any
}

// givers returns the homes in the order in which they give up jobs: closed ones first, then those with most to spare.
func givers(homes []homePlan, spare []int) []int {
	order := make([]int, len(homes))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int {
		if homes[i].open() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(spare[b],
			spare[a]))
	})
	return order
}
