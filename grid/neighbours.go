package grid

import (
	"math"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// comparedPerStep is how many boxes are compared in one step.
const comparedPerStep = 16

// near returns the boxes that touch box i. They are not complete once the meter has ended.
func near(boxes []Box, i int, m *bounds.Meter) (all []int) {
	if !m.Spend(1 + len(boxes)/comparedPerStep) {
		return nil
	}
	b := boxes[i]
	for k, c := range boxes {
		if k != i && b.West <= c.East+touching && c.West <= b.East+touching && b.South <= c.North+touching &&
			c.South <= b.North+touching {
			all = append(all, k)
		}
	}
	return all
}

// touching is the distance in degrees up to which two borders are the same, a tenth of a millimetre.
const touching = 1e-9

// common returns the length in degrees of the border that two shapes have in common. It ends early when spend reports
// that there is no more to spend.
func common(a, b MultiPolygon, spend func(int) bool) (sum float64) {
	for p, q := range a.edges {
		if !spend(b.positions()) {
			return sum
		}
		for r, s := range b.edges {
			sum += shared(p, q, r, s)
		}
	}
	return sum
}

// edges calls yield with the ends of each edge.
func (m MultiPolygon) edges(yield func(Point, Point) bool) {
	for _, p := range m {
		for _, r := range p {
			for i := 1; i < len(r); i++ {
				if !yield(r[i-1], r[i]) {
					return
				}
			}
		}
	}
}

// shared returns the length of what two edges have in common if they lie on one line.
func shared(a, b, c, d Point) float64 {
	dx, dy := b[0]-a[0], b[1]-a[1]
	length := math.Hypot(dx, dy)
	off := func(p Point) bool { return math.Abs(dx*(p[1]-a[1])-dy*(p[0]-a[0])) > touching*length }
	if length == 0 || off(c) || off(d) {
		return 0
	}
	from, to := c.along(a, b)/length, d.along(a, b)/length
	return max(0, min(length, max(from, to))-max(0, min(from, to)))
}
