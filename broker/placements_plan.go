package broker

import (
	"cmp"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// mostMoved is how many jobs one move, which is one transaction, takes from a placement that gives up all, or of those
// that failed there.
const mostMoved = 500

// placementPlan is a placement as planMoves sees it.
type placementPlan struct {
	dispatch.PlacementLoad
	limits  dispatch.Limits
	runTime time.Duration // the median there; 0: none is known
	avoided bool          // jobs fail there, and not everywhere
}

// move is what planMoves wants moved from one placement to another, both by their index.
type move struct {
	from, to, skip, n int
	retrying          bool
}

// planMoves returns which waiting jobs of a task to move. The jobs are dealt to the placements, each to the one where
// it would end first; a placement that has less than half of what it needs of that now gets the rest. A placement that
// submits nothing for long gives up all. Jobs that failed because of their platform go to another one.
func planMoves(placements []placementPlan) (moves []move) {
	placements = withoutFailing(withRunTimes(placements))
	if !slices.ContainsFunc(placements, placementPlan.open) {
		return nil
	}
	for i, h := range placements {
		to, other := bestPlacement(placements, make([]int, len(placements)), i)
		for left := h.Retrying; other && left > 0; left -= mostMoved {
			moves = append(moves, move{from: i, to: to, n: min(left, mostMoved), retrying: true})
		}
	}
	wanted := deal(placements)
	spare := make([]int, len(placements))
	for i, h := range placements {
		spare[i] = max(0, h.Waiting-h.Retrying-wanted[i])
	}
	give := func(to, n int) {
		for _, from := range givers(placements, spare) {
			if k := min(n, spare[from]); k > 0 && from != to {
				moves = append(moves, move{from: from, to: to, skip: wanted[from], n: k})
				spare[from], n = spare[from]-k, n-k
			}
		}
	}
	for i, h := range placements {
		if h.open() && 2*(h.Waiting-h.Retrying) < wanted[i] {
			give(i, wanted[i]-(h.Waiting-h.Retrying))
		}
	}
	for i, h := range placements {
		if to, other := bestPlacement(placements, wanted, i); !h.open() && h.leaves() && other && spare[i] > 0 {
			moves = append(moves, move{from: i, to: to, n: min(spare[i], mostMoved)})
		}
	}
	return moves
}

// withoutFailing closes those of its placements at which jobs fail in a row, if there is another open one, and returns
// them.
func withoutFailing(placements []placementPlan) []placementPlan {
	if !slices.ContainsFunc(placements, func(h placementPlan) bool { return h.open() && !h.Failing }) {
		return placements
	}
	for i := range placements {
		placements[i].avoided = placements[i].Failing
	}
	return placements
}

// withRunTimes returns placements with a run time each: those without a known one get the mean of the others.
func withRunTimes(placements []placementPlan) []placementPlan {
	sum, n := time.Duration(0), time.Duration(0)
	for _, h := range placements {
		if h.runTime > 0 {
			sum, n = sum+h.runTime, n+1
		}
	}
	placements = slices.Clone(placements)
	for i := range placements {
		if placements[i].runTime <= 0 {
			placements[i].runTime = max(time.Second, sum/max(n, 1))
		}
	}
	return placements
}

func (h placementPlan) open() bool { return h.Why == dispatch.None && !h.avoided }

// leaves reports whether the account of a closed placement is closed for so long that all its jobs are better off
// elsewhere, or jobs fail there.
func (h placementPlan) leaves() bool {
	return h.avoided || h.Why != dispatch.Full && h.Why != dispatch.NotTaken
}

// slots is how many jobs may run at the placement at once.
func (h placementPlan) slots() int {
	if h.limits.Jobs == 0 {
		return max(1, h.Held+2*h.limits.Requests)
	}
	return h.limits.Jobs
}

// mostDealt is how many waiting jobs a placement is dealt at most: one for each free slot, and one for each slot after
// that.
func (h placementPlan) mostDealt() int { return max(0, h.slots()-h.Held) + h.slots() }

// endOf returns when a job would end at the placement that begins after the jobs that hold slots and n others.
func (h placementPlan) endOf(n int) time.Duration {
	return h.runTime * time.Duration((h.Held+n)/h.slots()+1)
}

// mostPlanned is how many jobs are dealt at most: as many as show what the placements' shares are.
const mostPlanned = 10_000

// deal returns how many of the waiting jobs each placement should have now. All are dealt, but a placement needs no
// more than mostDealt at a time.
func deal(placements []placementPlan) []int {
	dealt, waiting := make([]int, len(placements)), 0
	for _, h := range placements {
		waiting += h.Waiting - h.Retrying
	}
	for range min(waiting, mostPlanned) {
		best, _ := bestPlacement(placements, dealt, -1)
		dealt[best]++
	}
	for i, h := range placements {
		dealt[i] = min(dealt[i], h.mostDealt())
	}
	return dealt
}

// bestPlacement returns the open placement other than one where a further job would end first after those that were
// dealt.
func bestPlacement(placements []placementPlan, dealt []int, except int) (best int, any bool) {
	for i, h := range placements {
		if i != except && h.open() && (!any || h.endOf(dealt[i]) < placements[best].endOf(dealt[best])) {
			best, any = i, true
		}
	}
	return best, any
}

// givers returns the placements in the order in which they give up jobs: closed ones first, then those with most to
// spare.
func givers(placements []placementPlan, spare []int) []int {
	order := make([]int, len(placements))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int {
		if placements[i].open() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(spare[b], spare[a]))
	})
	return order
}
