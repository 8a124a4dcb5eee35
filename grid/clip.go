package grid

import (
	"cmp"
	"slices"
	"sort"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// split cuts rings, their interior on the left, at the lines across an axis (0 longitude, 1 latitude), and emits the
// parts in each strip between two lines. It drops edges on a line and ends a chain at every vertex on a line; join
// restores the edges along the borders.
func split(rings []Ring, axis int, lines []float64, m *bounds.Meter, emit func(i int, rings []Ring)) {
	c := newCutter(rings, axis, lines)
	c.meter = m
	for _, r := range rings {
		c.cut(r)
	}
	for i := range c.strips {
		if !m.Spend(1 + chainSteps*len(c.strips[i].chains)) {
			return
		}
		if out := c.strips[i].join(axis, i+c.first); len(out) > 0 {
			emit(i+c.first, out)
		}
	}
}

// chain is a sequence of edges inside one strip. It starts and ends on a border of the strip.
type chain struct {
	points   []Point
	from, to int // the lines it starts and ends on
	next     int // the chain that continues at its end, along the border
	done     bool
}

type strip struct {
	whole  []Ring
	chains []chain
}

// cutter follows rings through strips. Strip i lies between the lines i and i+1.
type cutter struct {
	axis   int
	lines  []float64
	first  int // the strip that strips begins with
	strips []strip

	// Of the ring that is being cut:
	head   []Point // up to its first break: the last chain will run into it
	headTo int     // the line of that break; -1: none yet
	now    []Point // since the last break
	from   int     // the line of the last break; -1: none yet
	at     int     // the strip that now is in

	meter *bounds.Meter
}

const (
	crossingSteps = 12 // cost of cutting an edge at a line, which takes about 150 bytes
	chainSteps    = 16 // cost of linking a chain to the next
)

func newCutter(rings []Ring, axis int, lines []float64) *cutter {
	first, last := len(lines), 0
	for _, r := range rings {
		for _, p := range r {
			i := sort.SearchFloat64s(lines, p[axis])
			first, last = min(first, max(0, i-1)), max(last, i)
		}
	}
	return &cutter{axis: axis, lines: lines, first: first, strips: make([]strip, max(0, last-first+1))}
}

// locate returns the line that p lies on, or the strip.
func (c *cutter) locate(p Point) (i int, on bool) {
	i, on = slices.BinarySearch(c.lines, p[c.axis])
	if !on {
		i--
	}
	return i, on
}

func (c *cutter) cut(r Ring) {
	c.head, c.now, c.headTo, c.from, c.at = nil, nil, -1, -1, 0
	i, on := c.locate(r[0])
	if on {
		c.from, c.headTo = i, i
	}
	for k := 1; k < len(r); k++ {
		if !c.meter.Spend(1) {
			return
		}
		j, onB := c.locate(r[k])
		if !(on && onB && i == j) { // else the edge runs along the line
			c.edge(r[k-1], r[k], i, j, on, onB)
		}
		i, on = j, onB
	}
	c.finish(r, i)
}

// edge follows an edge from a in strip or on line i to b in strip or on line j.
func (c *cutter) edge(a, b Point, i, j int, onA, onB bool) {
	up := a[c.axis] < b[c.axis]
	s, t, step := i, j, 1 // the strips that the edge begins and ends in
	switch {
	case up && onB:
		t--
	case !up && onA:
		s--
	}
	if !up {
		step = -1
	}
	c.at, c.now = s, append(c.now, a)
	for c.at != t {
		if !c.meter.Spend(crossingSteps) {
			return
		}
		line := c.at + max(step, 0)
		p := crossing(a, b, c.axis, c.lines[line])
		c.flush(line, p)
		c.from, c.at, c.now = line, c.at+step, append(make([]Point, 0, 2), p)
	}
	if onB {
		c.flush(j, b)
		c.from = j
	}
}

// flush ends a chain at p on a line.
func (c *cutter) flush(to int, p Point) {
	switch {
	case c.from < 0:
		c.head, c.headTo = append(c.now, p), to
	case len(c.now) > 0:
		s := &c.strips[c.at-c.first]
		s.chains = append(s.chains, chain{points: append(c.now, p), from: c.from, to: to})
	}
	c.now = nil
}

func (c *cutter) finish(r Ring, i int) {
	switch {
	case c.headTo < 0: // no break
		c.strips[i-c.first].whole = append(c.strips[i-c.first].whole, r)
	case len(c.head) > 0:
		c.now = append(c.now, c.head[:len(c.head)-1]...)
		c.flush(c.headTo, c.head[len(c.head)-1])
	}
}

// join links the chains of strip i along its two lines into rings.
func (s *strip) join(axis, i int) []Ring {
	for _, line := range []int{i, i + 1} {
		s.pair(axis, line, (axis == 1) == (line == i))
	}
	out := s.whole
	for k := range s.chains {
		if r := s.follow(k); len(r) > 3 {
			out = append(out, r)
		}
	}
	return out
}

// pair links each chain that ends on the line to the one that starts next to it. Seen along the line with the strip on
// the left, ends and starts alternate, so the n-th end belongs to the n-th start; counting is robust against rounding
// that swaps two neighbours. rising reports whether coordinates grow in that direction.
func (s *strip) pair(axis, line int, rising bool) {
	var ends, starts []borderPoint
	for k, c := range s.chains {
		n := len(c.points)
		if c.to == line {
			ends = append(ends, borderPoint{k, c.points[n-1], c.points[n-2]})
		}
		if c.from == line {
			starts = append(starts, borderPoint{k, c.points[0], c.points[1]})
		}
	}
	along := func(p, q borderPoint) int {
		by := cmp.Compare(p.at[1-axis], q.at[1-axis])
		if !rising {
			by = -by
		}
		if by != 0 {
			return by
		}
		return orient(p.at, p.inner, q.inner) // edges of one point, in their order a little inside the strip
	}
	slices.SortFunc(ends, along)
	slices.SortFunc(starts, along)
	for n := range ends {
		s.chains[ends[n].chain].next = starts[n].chain
	}
}

// borderPoint is an end of a chain on a line, and the point of the chain next to it.
type borderPoint struct {
	chain     int
	at, inner Point
}

// follow returns the ring that a chain belongs to; nil if it was returned before.
func (s *strip) follow(k int) (r Ring) {
	for c := &s.chains[k]; !c.done; c = &s.chains[c.next] {
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
	for _, r := range rings {
		m.Spend(8 * len(r))
		for i := 1; i < len(r); i++ {
			leaving[r[i-1]] = append(leaving[r[i-1]], r[i])
			touch = touch || len(leaving[r[i-1]]) > 1
		}
	}
	if !touch {
		return rings
	}
	for _, r := range rings {
		for i := 1; i < len(r); i++ {
			for len(leaving[r[i-1]]) > 0 {
				out = append(out, walk(leaving, r[i-1], m))
			}
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
