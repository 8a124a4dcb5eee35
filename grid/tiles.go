package grid

import (
	"iter"
	"math"
)

// Tiles yields the cells that overlap the area, each with its piece of the area. The pieces of neighbouring cells have
// no gap and do not overlap, and each is valid by RFC 7946. It ends early if the area's meter stops, see
// [ParseWithin]. [Split] also limits their number.
func (g *Grid) Tiles(a *Area) iter.Seq2[Cell, MultiPolygon] {
	return func(yield func(Cell, MultiPolygon) bool) { _ = Split{Grid: g}.each(a, yield) }
}

// Estimate returns a lower bound for the number of cells that overlap the area: its size divided by that of the largest
// cell, which is at most a twentieth larger than its nominal size unless the grid says otherwise.
func (g *Grid) Estimate(a *Area) int {
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
func (a *Area) SquareMetres() float64 { return a.parts.squareMetres() }

// squareMetres integrates the authalic height (J. P. Snyder, Map Projections: A Working Manual, 1987, 3-12) along the
// rings, by Simpson's rule on each edge; holes count as negative.
func (m MultiPolygon) squareMetres() (sum float64) {
	for a, b := range m.edges {
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
