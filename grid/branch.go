package grid

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/peterstace/simplefeatures/geom"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// branch is a part of a grid whose cells are not rows of rectangles: one cell, or several that lie near each other.
type branch interface {
	// bounds returns a box around all cells of the branch.
	bounds() Box
	// branches returns the parts; none if the branch is a cell.
	branches() []branch
	// cell returns the cell of a branch without parts. Its outline is empty if there is no such cell.
	cell() Cell
}

// descent finds the cells of a branch that overlap an area. It follows the branches, and takes only that part of the
// area along that lies in their bounds: so most cells cost nothing that depends on the area.
type descent struct {
	meter *bounds.Meter
	yield func(Cell, MultiPolygon) bool
	err   error
}

const (
	visitSteps = 20  // cost of visiting a branch
	cellSteps  = 80  // cost of the outline of a cell
	mergeSteps = 100 // cost of one vertex or crossing when two shapes are intersected
)

// visit reports whether to go on. whole is true if the area covers the bounds of b; otherwise parts are its parts near
// b.
func (d *descent) visit(b branch, parts MultiPolygon, whole bool) bool {
	if !d.meter.Spend(visitSteps) {
		return false
	}
	if !whole {
		box, near := b.bounds(), MultiPolygon(nil)
		for _, part := range parts {
			if rings := cutOut(part, box, d.meter); len(rings) > 0 {
				near = append(near, rings)
			}
		}
		if len(near) == 0 {
			return true
		}
		parts, whole = near, covers(near, box)
	}
	below := b.branches()
	for _, one := range below {
		if !d.visit(one, parts, whole) {
			return false
		}
	}
	return len(below) > 0 || d.leaf(b, parts, whole)
}

func (d *descent) leaf(b branch, parts MultiPolygon, whole bool) bool {
	if !d.meter.Spend(cellSteps) {
		return false
	}
	c := b.cell()
	piece := c.outline
	if !whole && len(c.outline) > 0 {
		piece = nil
		for _, part := range parts {
			piece = append(piece, polygons(part, d.meter)...)
		}
		piece = mend(piece, d.meter)
		if _, box := b.(columns); !box { // else the outline is the bounds of the branch
			piece, d.err = intersection(piece, c.outline, d.meter)
		}
	}
	if d.err != nil || d.meter.Err() != nil {
		return false
	}
	return len(piece) == 0 || d.yield(c, piece)
}

// cutOut returns the part of an area that lies in a box, as rings with their interior on the left.
func cutOut(rings []Ring, b Box, m *bounds.Meter) []Ring {
	rings = half(half(rings, 0, b.West, 1, m), 0, b.East, -1, m)
	return half(half(rings, 1, b.South, 1, m), 1, b.North, -1, m)
}

// covers reports whether parts, which lie in a box, are its outline.
func covers(parts MultiPolygon, b Box) bool {
	if len(parts) != 1 || len(parts[0]) != 1 || parts[0][0].area2() <= 0 {
		return false
	}
	for i, p := range parts[0][0][1:] {
		q := parts[0][0][i]
		if !(p[0] == q[0] && (p[0] == b.West || p[0] == b.East) ||
			p[1] == q[1] && (p[1] == b.South || p[1] == b.North)) {
			return false
		}
	}
	return true
}

// intersection returns what two shapes have in common. The library that computes it can be wrong or fail where parts of
// a shape are almost lines, so the result is checked: together with what lies only in the first shape it must be as
// large as that. It is computed again from simpler shapes before the area is refused.
func intersection(a, b MultiPolygon, m *bounds.Meter) (MultiPolygon, error) {
	for _, simpler := range []func(MultiPolygon) MultiPolygon{
		func(a MultiPolygon) MultiPolygon { return a },
		MultiPolygon.withoutSlivers,
		func(a MultiPolygon) MultiPolygon { return mend(a.rounded(1e10), m).withoutSlivers() },
		func(a MultiPolygon) MultiPolygon { return mend(a.rounded(1e9), m).withoutSlivers() },
	} {
		simple := simpler(slices.Clone(a))
		common, err := overlay(geom.Intersection, simple, b, m)
		rest, err2 := overlay(geom.Difference, simple, b, m)
		if m.Err() != nil {
			return nil, m.Err()
		}
		if whole := simple.area2(); err == nil && err2 == nil &&
			math.Abs(common.area2()+rest.area2()-whole) <= 1e-9*whole+sliver {
			return common, nil
		}
	}
	return nil, Fault{"the border of the area cannot be cut at a cell here: simplify it", a[0][0][0]}
}

// withoutSlivers drops the polygons that are too small to matter.
func (m MultiPolygon) withoutSlivers() MultiPolygon {
	return slices.DeleteFunc(m, func(p Polygon) bool { return (MultiPolygon{p}).area2() < sliver })
}

// rounded returns the polygons with as many digits as a factor has, a power of ten.
func (m MultiPolygon) rounded(factor float64) (out MultiPolygon) {
	for _, p := range m {
		var rounded Polygon
		for _, r := range p {
			ring := make(Ring, len(r))
			for i, at := range r {
				ring[i] = Point{math.Round(at[0]*factor) / factor, math.Round(at[1]*factor) / factor}
			}
			if ring = slices.Compact(ring); len(ring) > 3 {
				rounded = append(rounded, ring)
			}
		}
		if len(rounded) > 0 {
			out = append(out, rounded)
		}
	}
	return out
}

// sliver is twice the size of a shape that is too small to matter, in square degrees: a tenth of a square metre.
const sliver = 1e-11

// area2 returns twice the size in square degrees.
func (m MultiPolygon) area2() (sum float64) {
	for _, p := range m {
		for _, r := range p {
			sum += r.area2()
		}
	}
	return sum
}

// overlay applies an operation of a library to two shapes, and drops what it returns of points and lines.
func overlay(operation func(geom.Geometry, geom.Geometry) (geom.Geometry, error), a, b MultiPolygon,
	m *bounds.Meter) (MultiPolygon, error) {
	if len(a) == 0 || !m.Spend(mergeSteps*(a.positions()+b.positions()+meetings(a, b, m))) {
		return nil, m.Err()
	}
	g, err := operation(a.geometry(), b.geometry())
	if err != nil {
		return nil, fmt.Errorf("grid: %w", err)
	}
	return mend(surfaces(g, nil), m), nil
}

// meetings counts the pairs of edges whose boxes overlap, which bounds the number of their crossings.
func meetings(a, b MultiPolygon, m *bounds.Meter) (n int) {
	edges := func(all MultiPolygon) (out []Box) {
		for p, q := range all.edges {
			out = append(out, Box{min(p[0], q[0]), min(p[1], q[1]), max(p[0], q[0]), max(p[1], q[1])})
		}
		slices.SortFunc(out, func(x, y Box) int { return cmp.Compare(x.West, y.West) })
		return out
	}
	first, second := edges(a), edges(b)
	widest := 0.0
	for _, x := range second {
		widest = max(widest, x.East-x.West)
	}
	for _, x := range first {
		k, _ := slices.BinarySearchFunc(second, x.West-widest, func(b Box, west float64) int {
			return cmp.Compare(b.West, west)
		})
		for ; k < len(second) && second[k].West <= x.East; k++ {
			if !m.Spend(1) {
				return n
			}
			if second[k].East >= x.West && second[k].South <= x.North && second[k].North >= x.South {
				n++
			}
		}
	}
	return n
}

func (m MultiPolygon) geometry() geom.Geometry {
	all := make([]geom.Polygon, len(m))
	for i, p := range m {
		rings := make([]geom.LineString, len(p))
		for k, r := range p {
			flat := make([]float64, 0, 2*len(r))
			for _, point := range r {
				flat = append(flat, point[0], point[1])
			}
			rings[k] = geom.NewLineString(geom.NewSequence(flat, geom.DimXY))
		}
		all[i] = geom.NewPolygon(rings)
	}
	return geom.NewMultiPolygon(all).AsGeometry()
}

// surfaces appends the polygons of a geometry, in the orientation of RFC 7946.
func surfaces(g geom.Geometry, to MultiPolygon) MultiPolygon {
	switch g.Type() {
	case geom.TypePolygon:
		return appendSurface(to, g.MustAsPolygon())
	case geom.TypeMultiPolygon:
		all := g.MustAsMultiPolygon()
		for i := range all.NumPolygons() {
			to = appendSurface(to, all.PolygonN(i))
		}
	case geom.TypeGeometryCollection:
		all := g.MustAsGeometryCollection()
		for i := range all.NumGeometries() {
			to = surfaces(all.GeometryN(i), to)
		}
	}
	return to
}

func appendSurface(to MultiPolygon, p geom.Polygon) MultiPolygon {
	var out Polygon
	for i, line := range p.DumpRings() {
		s := line.Coordinates()
		r := make(Ring, s.Length())
		for k := range r {
			at := s.GetXY(k)
			r[k] = Point{at.X, at.Y}
		}
		switch area := r.area2(); {
		case area == 0 && i == 0:
			return to
		case area == 0:
			continue
		case (area < 0) != (i > 0):
			slices.Reverse(r)
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		return to
	}
	return append(to, out)
}

// group is several branches. It divides them in two at a time by their place.
type group struct {
	members []branch
	box     Box
}

func newGroup(members []branch) group {
	g := group{members, members[0].bounds()}
	for _, b := range members[1:] {
		g.box = g.box.around(b.bounds())
	}
	return g
}

func (g group) bounds() Box { return g.box }
func (g group) cell() Cell  { return Cell{} }

func (g group) branches() []branch {
	if len(g.members) <= 2 {
		return g.members
	}
	middle := func(b branch) float64 { box := b.bounds(); return box.West + box.East }
	if g.box.North-g.box.South > g.box.East-g.box.West {
		middle = func(b branch) float64 { box := b.bounds(); return box.South + box.North }
	}
	sorted := slices.SortedStableFunc(slices.Values(g.members), func(a, b branch) int {
		return cmp.Compare(middle(a), middle(b))
	})
	half := len(sorted) / 2
	return []branch{newGroup(sorted[:half]), newGroup(sorted[half:])}
}

// around returns the box around two.
func (b Box) around(c Box) Box {
	return Box{min(b.West, c.West), min(b.South, c.South), max(b.East, c.East), max(b.North, c.North)}
}
