package grid

import (
	"iter"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Tiles yields the cells that overlap the area, each with its piece of the area. The pieces of neighbouring cells have
// no gap and do not overlap, and each is valid by RFC 7946. It ends early if the area's meter stops, see
// [ParseWithin]. [Split] also limits their number.
func (g *Grid) Tiles(a *Area) iter.Seq2[Cell, MultiPolygon] {
	return func(yield func(Cell, MultiPolygon) bool) { _ = Split{Grid: g}.each(a, yield) }
}

// lattice yields the cells that overlap the area, by row and column, each with its piece of the area.
func (g *Grid) lattice(a *Area) iter.Seq2[Cell, MultiPolygon] {
	return func(yield func(Cell, MultiPolygon) bool) {
		rows := g.strips(a)
		for _, row := range slices.Sorted(maps.Keys(rows)) {
			pieces := g.pieces(row, rows[row], a.meter)
			for _, col := range slices.Sorted(maps.Keys(pieces)) {
				if piece := mend(pieces[col], a.meter); a.meter.Err() != nil ||
					len(piece) > 0 && !yield(g.cell(row, col), piece) {
					return
				}
			}
		}
	}
}

// strips cuts each part of an area into rows.
func (g *Grid) strips(a *Area) map[int][][]Ring {
	rows := map[int][][]Ring{}
	for _, part := range a.parts {
		split(part, 1, g.rows, a.meter, func(row int, rings []Ring) { rows[row] = append(rows[row], rings) })
	}
	return rows
}

// pieces cuts the part of the area in a row into its columns.
func (g *Grid) pieces(row int, strips [][]Ring, m *bounds.Meter) map[int]MultiPolygon {
	pieces, lines := map[int]MultiPolygon{}, g.borders(row)
	for _, rings := range strips {
		split(rings, 0, lines, m, func(col int, rings []Ring) {
			pieces[col] = append(pieces[col], polygons(rings, m)...)
		})
	}
	return pieces
}

// Outline returns the cell's outline.
func (c Cell) Outline() MultiPolygon {
	if c.outline != nil {
		return c.outline
	}
	return MultiPolygon{Box{c.West, c.South, c.East, c.North}.polygon()}
}

// Estimate returns approximately how many cells Tiles would yield, in time linear in the area's positions. It never
// returns more than limit if the true number is at most limit.
func (g *Grid) Estimate(a *Area, limit int) int {
	if g.tree != nil {
		return g.covered(a)
	}
	boxes := 0
	for _, part := range a.parts {
		boxes += g.touching(part[0].box())
	}
	if boxes <= limit {
		return boxes
	}
	return min(boxes, g.covered(a))
}

// touching returns an upper bound for the number of cells that a box touches.
func (g *Grid) touching(west, south, east, north float64) (n int) {
	first := max(0, sort.SearchFloat64s(g.rows, south)-1)
	for row := first; row < len(g.cols) && g.rows[row] <= north; row++ {
		per := float64(g.cols[row]) / 360
		lo, hi := int((west+180)*per-1e-6), int((east+180)*per+1e-6)
		n += min(hi, g.cols[row]-1) - max(lo, 0) + 1
	}
	return n
}

// covered returns a lower bound for the number of cells: the size of the area divided by that of the largest cell,
// which is at most a twentieth larger than its nominal size unless the grid says otherwise.
func (g *Grid) covered(a *Area) int {
	if g.Width == 0 { // the user's own cells
		return 0
	}
	largest := 1.05
	if g.tree != nil && g.tree.uneven > 0 {
		largest = g.tree.uneven
	}
	return int(a.SquareMetres() / (g.Width * g.Height * largest))
}

// SquareMetres returns the size of the area on WGS84.
func (a *Area) SquareMetres() (sum float64) {
	for _, part := range a.parts {
		for _, r := range part {
			sum += r.squareMetres()
		}
	}
	return sum
}

// squareMetres integrates the authalic height (J. P. Snyder, Map Projections: A Working Manual, 1987, 3-12) along the
// ring, by Simpson's rule on each edge; holes count as negative.
func (r Ring) squareMetres() (sum float64) {
	for i := 1; i < len(r); i++ {
		a, b := r[i-1], r[i]
		if a[0] == b[0] {
			continue
		}
		mean := (authalic(a[1]) + 4*authalic((a[1]+b[1])/2) + authalic(b[1])) / 6
		sum -= (b[0] - a[0]) * math.Pi / 180 * mean
	}
	return sum
}

// authalic is the area in square metres between the equator and a latitude in degrees, for each radian of longitude.
func authalic(lat float64) float64 {
	e, s := math.Sqrt(ecc2), math.Sin(lat*math.Pi/180)
	q := s/(1-ecc2*s*s) + math.Atanh(e*s)/e
	return semiMajor * semiMajor * (1 - ecc2) / 2 * q
}
