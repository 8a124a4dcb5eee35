package grid

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/peterstace/simplefeatures/geom"

	"github.com/eodispatch/eodispatch/budget"
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

// descent finds the cells of a branch that overlap an area. It follows the branches, and takes only that part of the area along that lies in their
// bounds: so most cells cost nothing that depends on the area.
type descent struct {
	meter *budget.Meter
	yield func(Cell, MultiPolygon) bool
	err   error
}

const (
	visitSteps = 20  // cost of visiting a branch
	cellSteps  = 80  // cost of the outline of a cell
	mergeSteps = 100 // cost of one vertex or crossing when two shapes are intersected
)

// visit reports whether to go on. whole is true if the area covers the bounds of b; otherwise rings are its borders near b.
func (d *descent) visit(b branch, rings []Ring, whole bool) bool {
	if !d.meter.Spend(visitSteps) {
		return false
	}
	if !whole {
		box := b.bounds()
		if rings = cutOut(rings, box, d.meter); len(rings) == 0 {
			return true
		}
		whole = covers(rings, box)
	}
	parts := b.branches()
	for _, part := range parts {
		if !d.visit(part, rings, whole) {
			return false
		}
	}
	return len(parts) > 0 || d.leaf(b.cell(), rings, whole)
}

func (d *descent) leaf(c Cell, rings []Ring, whole bool) bool {
	if !d.meter.Spend(cellSteps) {
		return false
	}
	piece := c.outline
	if !whole && len(c.outline) > 0 {
		piece, d.err = overlay(geom.Intersection, mend(polygons(rings, d.meter), d.meter), c.outline, d.meter)
	}
	if d.err != nil || d.meter.Err() != nil {
		return false
	}
	return len(piece) == 0 || d.yield(c, piece)
}

// cutOut returns the part of an area that lies in a box, as rings with their interior on the left.
func cutOut(rings []Ring, b Box, m *budget.Meter) []Ring {
	for axis, borders := range [][2]float64{{b.West, b.East}, {b.South, b.North}} {
		if liesBetween(rings, axis, borders) {
			continue
		}
		var inside []Ring
		split(rings, axis, []float64{-1e4, borders[0], borders[1], 1e4}, m, func(i int, rings []Ring) {
			if i == 1 {
				inside = append(inside, rings...)
			}
		})
		rings = inside
	}
	return rings
}

func liesBetween(rings []Ring, axis int, borders [2]float64) bool {
	for _, r := range rings {
		for _, p := range r {
			if p[axis] < borders[0] || p[axis] > borders[1] {
				return false
			}
		}
	}
	return true
}

// covers reports whether rings, which lie in a box, are its outline.
func covers(rings []Ring, b Box) bool {
	if len(rings) != 1 || rings[0].area2() <= 0 {
		return false
	}
	for i, p := range rings[0][1:] {
		q := rings[0][i]
		if !(p[0] == q[0] && (p[0] == b.West || p[0] == b.East) || p[1] == q[1] && (p[1] == b.South || p[1] == b.North)) {
			return false
		}
	}
	return true
}

// overlay applies an operation of a library to two shapes, and drops what it returns of points and lines.
func overlay(operation func(geom.Geometry, geom.Geometry) (geom.Geometry, error), a, b MultiPolygon, m *budget.Meter) (MultiPolygon, error) {
	if len(a) == 0 || !m.Spend(mergeSteps*(a.positions()+b.positions()+meetings(a, b, m))) {
		return nil, m.Err()
	}
	g, err := operation(a.geometry(), b.geometry())
	if err != nil {
		return nil, fmt.Errorf("the area cannot be cut at a cell: %w", err)
	}
	return mend(surfaces(g, nil), m), nil
}

// meetings counts the pairs of edges whose boxes overlap, which bounds the number of their crossings.
func meetings(a, b MultiPolygon, m *budget.Meter) (n int) {
	edges := func(all MultiPolygon) (out []Box) {
		for _, p := range all {
			for _, r := range p {
				for i := 1; i < len(r); i++ {
					west, south, east, north := r[i-1 : i+1].box()
					out = append(out, Box{west, south, east, north})
				}
			}
		}
		slices.SortFunc(out, func(x, y Box) int { return cmp.Compare(x.West, y.West) })
		return out
	}
	first, second := edges(a), edges(b)
	for _, x := range first {
		for k := 0; k < len(second) && second[k].West <= x.East; k++ {
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
	sorted := slices.SortedStableFunc(slices.Values(g.members), func(a, b branch) int { return cmp.Compare(middle(a), middle(b)) })
	half := len(sorted) / 2
	return []branch{newGroup(sorted[:half]), newGroup(sorted[half:])}
}

// around returns the box around two.
func (b Box) around(c Box) Box {
	return Box{min(b.West, c.West), min(b.South, c.South), max(b.East, c.East), max(b.North, c.North)}
}
