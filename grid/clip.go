package grid

import (
	"cmp"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// chain is a sequence of edges on one side of a line. It starts and ends on the line.
type chain struct {
	points []Point
	next   int // the chain that continues at its end, along the line
	done   bool
}

const (
	crossingSteps = 12 // cost of cutting an edge at a line, which takes about 150 bytes
	chainSteps    = 16 // cost of linking a chain to the next
)

// half returns the part of rings, their interior on the left, on one side of a line across an axis (0 longitude, 1
// latitude): where coordinates are greater (side 1) or less (side -1). Unless all rings lie there, it drops edges on
// the line and ends a chain at every vertex on it; link restores the edges along the line.
func half(rings []Ring, axis int, line, side float64, m *bounds.Meter) (out []Ring) {
	depth := func(p Point) float64 { return side * (p[axis] - line) }
	if !slices.ContainsFunc(rings, func(r Ring) bool {
		return slices.ContainsFunc(r, func(p Point) bool { return depth(p) < 0 })
	}) {
		return rings
	}
	var chains []chain
	for _, r := range rings {
		first := slices.IndexFunc(r, func(p Point) bool { return depth(p) <= 0 })
		if !m.Spend(len(r)) {
			return nil
		}
		if first < 0 {
			out = append(out, r)
			continue
		}
		var now []Point
		for k := range len(r) - 1 {
			a, b := r[(first+k)%(len(r)-1)], r[(first+k)%(len(r)-1)+1]
			switch from, to := depth(a) > 0, depth(b) > 0; {
			case from && to:
				now = append(now, b)
			case to:
				now = []Point{onLine(a, b, axis, line, m), b}
			case from:
				chains = append(chains, chain{points: append(now, onLine(b, a, axis, line, m))})
			}
		}
	}
	if !m.Spend(chainSteps * len(chains)) {
		return nil
	}
	link(chains, axis, (axis == 1) == (side > 0))
	for k := range chains {
		if r := follow(chains, k); len(r) > 3 {
			out = append(out, r)
		}
	}
	return out
}

// onLine returns where an edge from a point that is not beyond a line meets it.
func onLine(a, b Point, axis int, line float64, m *bounds.Meter) Point {
	if a[axis] == line {
		return a
	}
	m.Spend(crossingSteps)
	return crossing(a, b, axis, line)
}

// link links each chain that ends on the line to the one that starts next to it. Seen along the line with the part on
// the left, ends and starts alternate, so the n-th end belongs to the n-th start; counting is robust against rounding
// that swaps two neighbours. rising reports whether coordinates grow in that direction.
func link(chains []chain, axis int, rising bool) {
	var ends, starts []borderPoint
	for k, c := range chains {
		n := len(c.points)
		ends = append(ends, borderPoint{k, c.points[n-1], c.points[n-2]})
		starts = append(starts, borderPoint{k, c.points[0], c.points[1]})
	}
	along := func(p, q borderPoint) int {
		by := cmp.Compare(p.at[1-axis], q.at[1-axis])
		if !rising {
			by = -by
		}
		if by != 0 {
			return by
		}
		return orient(p.at, p.inner, q.inner) // edges of one point, in their order a little inside the part
	}
	slices.SortFunc(ends, along)
	slices.SortFunc(starts, along)
	for n := range ends {
		chains[ends[n].chain].next = starts[n].chain
	}
}

// borderPoint is an end of a chain on a line, and the point of the chain next to it.
type borderPoint struct {
	chain     int
	at, inner Point
}

// follow returns the ring that a chain belongs to; nil if it was returned before.
func follow(chains []chain, k int) (r Ring) {
	for c := &chains[k]; !c.done; c = &chains[c.next] {
		c.done = true
		r = append(r, c.points...)
	}
	if len(r) == 0 {
		return nil
	}
	return slices.Compact(append(r, r[0]))
}

// polygons builds polygons from the rings of one cell. It drops rings without area, so pieces are never points or
// lines.
func polygons(rings []Ring, m *bounds.Meter) (out MultiPolygon) {
	var holes []Ring
	for _, r := range relink(rings, m) {
		for _, simple := range r.loops() {
			switch area := simple.area2(); {
			case area > 0:
				out = append(out, Polygon{simple})
			case area < 0:
				holes = append(holes, simple)
			}
		}
	}
	for _, h := range holes {
		i := slices.IndexFunc(out, func(p Polygon) bool {
			return len(out) == 1 || m.Spend(len(p[0])) && h.within(p[0])
		})
		if i >= 0 {
			out[i] = append(out[i], h)
		}
	}
	return out
}

// relink follows the edges again where rings touch, keeping to the same wedge of the interior at every vertex. Parts
// that are connected only in points become separate rings.
func relink(rings []Ring, m *bounds.Meter) (out []Ring) {
	leaving := map[Point][]Point{}
	touch := false
	edges := MultiPolygon{rings}.edges
	m.Spend(8 * MultiPolygon{rings}.positions())
	for a, b := range edges {
		leaving[a] = append(leaving[a], b)
		touch = touch || len(leaving[a]) > 1
	}
	if !touch {
		return rings
	}
	for a := range edges {
		for len(leaving[a]) > 0 {
			out = append(out, walk(leaving, a, m))
		}
	}
	return out
}

// walk removes the edges of one ring from leaving, turning at each vertex to the first edge clockwise from where it
// came.
func walk(leaving map[Point][]Point, start Point, m *bounds.Meter) Ring {
	path := Ring{start, leaving[start][0]}
	leaving[start] = leaving[start][1:]
	for {
		a, b := path[len(path)-2], path[len(path)-1]
		to := leaving[b]
		if len(to) == 0 || !m.Spend(2*len(to)) {
			return path
		}
		k := 0
		for j := range to {
			if clockwise(b, a, to[j], to[k]) {
				k = j
			}
		}
		path = append(path, to[k])
		leaving[b] = slices.Delete(to, k, k+1)
	}
}

// clockwise reports whether, turning clockwise around b from a, p comes before q.
func clockwise(b, a, p, q Point) bool {
	if sp, sq := orient(b, a, p), orient(b, a, q); sp != sq {
		return sp < sq // right of a, opposite, left
	}
	return orient(b, p, q) < 0
}
