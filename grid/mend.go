package grid

import (
	"cmp"
	"math"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// mend makes a piece valid whose vertices lie on the wrong side of an edge because of rounding: the crossings with the
// cell's borders are rounded, so a cut edge may pass on the other side of a vertex that touched it. It adds such
// vertices to the edge, removes edges that are there in both directions, and links the rings again. Vertices move by a
// billionth of a millimetre.
func mend(piece MultiPolygon, m *bounds.Meter) MultiPolygon {
	for range 4 {
		if isValid(piece, m) || m.Err() != nil {
			return piece
		}
		piece = polygons(cancel(insert(slices.Concat(piece...), m), m), m)
	}
	return piece
}

// isValid reports whether a piece is valid. Convex pieces always are, which saves the check for most: they are
// rectangles.
func isValid(piece MultiPolygon, m *bounds.Meter) bool {
	if len(piece) == 1 && len(piece[0]) == 1 && len(piece[0][0]) <= 5 && convex(piece[0][0]) {
		return true
	}
	copied := make(MultiPolygon, len(piece))
	for i := range piece {
		copied[i] = slices.Clone(piece[i]) // check adds vertices to rings
	}
	return check(copied, m) == nil
}

// convex reports whether a ring turns left at every vertex, or goes straight on.
func convex(r Ring) bool {
	for i := 2; i < len(r); i++ {
		if orient(r[i-2], r[i-1], r[i]) < 0 {
			return false
		}
	}
	return orient(r[len(r)-2], r[0], r[1]) >= 0
}

// insert adds the vertices that lie on an edge, within nearby, to that edge.
func insert(rings []Ring, m *bounds.Meter) []Ring {
	var vertices []Point
	for _, r := range rings {
		vertices = append(vertices, r[1:]...)
	}
	slices.SortFunc(vertices, Point.compare)
	vertices = slices.Compact(vertices)
	out := make([]Ring, len(rings))
	for i, r := range rings {
		out[i] = Ring{r[0]}
		for k := 1; k < len(r); k++ {
			out[i] = append(append(out[i], between(vertices, r[k-1], r[k], m)...), r[k])
		}
	}
	return out
}

// between returns those of the vertices, sorted from west to east, that lie on the edge from a to b but are not its
// ends, in the order of the edge.
func between(vertices []Point, a, b Point, m *bounds.Meter) (on []Point) {
	west, east := min(a[0], b[0])-nearby, max(a[0], b[0])+nearby
	first, _ := slices.BinarySearchFunc(vertices, west, func(p Point, w float64) int { return cmp.Compare(p[0], w) })
	for _, p := range vertices[first:] {
		if p[0] > east || !m.Spend(1) {
			break
		}
		if p != a && p != b && p.on(a, b) {
			on = append(on, p)
		}
	}
	slices.SortFunc(on, func(p, q Point) int { return cmp.Compare(p.along(a, b), q.along(a, b)) })
	return on
}

// nearby is the distance in degrees up to which a vertex counts as on an edge: some units in the last place of 180.
const nearby = 3e-13

// on reports whether p is at most nearby from the edge from a to b, between its ends.
func (p Point) on(a, b Point) bool {
	dx, dy := b[0]-a[0], b[1]-a[1]
	length := math.Hypot(dx, dy)
	u := p.along(a, b)
	return u > 0 && u < length*length && math.Abs(dx*(p[1]-a[1])-dy*(p[0]-a[0])) <= nearby*length
}

// along is the position of p in the direction from a to b, times the length of the edge.
func (p Point) along(a, b Point) float64 {
	return (p[0]-a[0])*(b[0]-a[0]) + (p[1]-a[1])*(b[1]-a[1])
}

// cancel removes edges that are there in both directions, and closes the rest into rings.
func cancel(rings []Ring, m *bounds.Meter) []Ring {
	type edge struct{ a, b Point }
	count := map[edge]int{}
	edges := MultiPolygon{rings}.edges
	for a, b := range edges {
		count[edge{a, b}]++
	}
	leaving := map[Point][]Point{}
	var starts []Point
	for a, b := range edges {
		if forth, back := (edge{a, b}), (edge{b, a}); count[back] > 0 {
			count[forth]--
			count[back]--
		} else if count[forth] > 0 {
			count[forth]--
			leaving[a] = append(leaving[a], b)
			starts = append(starts, a)
		}
	}
	var out []Ring
	for _, p := range starts {
		for len(leaving[p]) > 0 {
			out = append(out, walk(leaving, p, m))
		}
	}
	return out
}
