package grid

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/peterstace/simplefeatures/geom"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Split says how an area is split into tiles. The zero values of all but Grid and Most mean that nothing is changed.
type Split struct {
	Grid *Grid
	// Most is the greatest number of tiles.
	Most int
	// Whole returns whole cells instead of their pieces of the area.
	Whole bool
	// MinArea is the size in square metres of the smallest piece that is returned.
	MinArea float64
	// Merge adds smaller pieces to the neighbour with the longest common border instead of dropping them. A piece stays
	// if it has no neighbour, or cannot be joined to it exactly.
	Merge bool
	// Buffer is how many metres each cell reaches beyond its borders. Pieces then overlap. A cell does not reach over
	// the antimeridian.
	Buffer float64
	// FromCentre orders the tiles by their distance from the centre of the area; otherwise they come by rows from south
	// to north, and a user's own cells in their order.
	FromCentre bool
}

// Tile is a cell and its piece of an area, or the whole cell.
type Tile struct {
	Cell
	Piece MultiPolygon
}

// TooMany is the error of a split into more than [Split.Most] tiles.
type TooMany struct{ Text string }

func (e TooMany) Error() string { return e.Text + " tiles" }

// positionBytes is the least that a position takes in JSON, as in "[1,2],": tiles that no answer could hold are not
// kept.
const positionBytes = 6

// MostMinArea is the greatest [Split.MinArea] in square metres.
const MostMinArea = 1e15

// MostBuffer is the greatest [Split.Buffer] in metres.
const MostBuffer = 100_000

// Check returns why the split is none; nil if it is one.
func (s Split) Check() error {
	switch {
	case !(s.MinArea >= 0 && s.MinArea <= MostMinArea):
		return fmt.Errorf("min_area: square metres, from 0 to %g, which is more than the Earth has",
			float64(MostMinArea))
	case !(s.Buffer >= 0 && s.Buffer <= MostBuffer):
		return fmt.Errorf("buffer: metres, from 0 to %d", MostBuffer)
	case s.Merge && s.MinArea == 0:
		return errors.New("merge: it needs min_area, which says what is merged")
	case s.Merge && s.Whole:
		return errors.New("merge: whole cells are not merged, so clip must be true")
	case s.Merge && s.Buffer > 0:
		return errors.New("merge: tiles with a buffer overlap, so they are not merged")
	case s.Buffer > 0 && s.Grid.tree != nil && s.Grid.tree.given:
		return errors.New("buffer: enlarge the cells that you give instead")
	}
	return nil
}

// Tiles returns the tiles of an area. Without a buffer, the pieces of neighbouring cells have no gap and do not
// overlap; each is valid by RFC 7946. The error is a [TooMany], a [Fault], that of the area's meter, see [ParseWithin],
// or that of [bounds.TilesBytes].
func (s Split) Tiles(a *Area) (tiles []Tile, err error) {
	if n := s.Grid.Estimate(a); n > s.Most {
		return nil, TooMany{"about " + bounds.Thousands(int64(n))}
	}
	more, positions := false, 0
	err = s.each(a, func(c Cell, piece MultiPolygon) bool {
		if s.MinArea > 0 && !s.Merge && piece.squareMetres() < s.MinArea {
			return true
		}
		if more = len(tiles) == s.Most; more {
			return false
		}
		if s.Whole {
			piece = c.Outline()
		}
		tiles = append(tiles, Tile{c, piece})
		positions += piece.positions()
		return positionBytes*int64(positions) <= bounds.TilesBytes.Most
	})
	switch {
	case err != nil:
		return nil, err
	case positionBytes*int64(positions) > bounds.TilesBytes.Most:
		return nil, bounds.TilesBytes.Refuse()
	case a.meter.Err() != nil:
		return nil, a.meter.Err()
	case more:
		return nil, TooMany{"more than " + bounds.Thousands(int64(s.Most))}
	}
	if s.Merge {
		if tiles, err = s.merged(tiles, a); err != nil {
			return nil, err
		}
	}
	s.sort(tiles, a)
	return tiles, nil
}

// each calls yield with the cells that overlap the area, and their pieces. A cell that overlaps it by its buffer alone
// is left out: another cell has that part.
func (s Split) each(a *Area, yield func(Cell, MultiPolygon) bool) error {
	if s.Buffer == 0 {
		return s.reach(a, yield)
	}
	own, plain := map[string]bool{}, s
	plain.Buffer = 0
	if err := plain.reach(a, func(c Cell, _ MultiPolygon) bool {
		own[c.ID] = true
		return len(own) <= s.Most
	}); err != nil {
		return err
	}
	return s.reach(a, func(c Cell, piece MultiPolygon) bool { return !own[c.ID] || yield(c, piece) })
}

// reach calls yield with the cells that overlap the area with their buffer, and their pieces.
func (s Split) reach(a *Area, yield func(Cell, MultiPolygon) bool) error {
	t := s.Grid.tree
	if t == nil {
		t = &tree{south: -90, north: 90, root: func(buffer float64) branch {
			return rows{s.Grid, buffer, 0, len(s.Grid.cols)}
		}}
	}
	if err := t.check(a); err != nil {
		return err
	}
	return t.tiles(a, s.Buffer, yield)
}

// sort orders tiles by row and column or, with FromCentre, by their distance from the middle of the area's box.
func (s Split) sort(tiles []Tile, a *Area) {
	if !s.FromCentre {
		slices.SortStableFunc(tiles, func(x, y Tile) int {
			return cmp.Or(cmp.Compare(x.Row, y.Row), cmp.Compare(x.Col, y.Col), cmp.Compare(x.ID, y.ID))
		})
		return
	}
	centre, away := a.Polygons().middle(), make(map[string]float64, len(tiles))
	for _, t := range tiles {
		at := t.Piece.middle()
		away[t.ID] = math.Hypot(math.Remainder(at[0]-centre[0], 360)*math.Cos(centre[1]*math.Pi/180), at[1]-centre[1])
	}
	slices.SortStableFunc(tiles, func(x, y Tile) int {
		return cmp.Or(cmp.Compare(away[x.ID], away[y.ID]), cmp.Compare(x.ID, y.ID))
	})
}

// middle returns the middle of the bounding box of polygons.
func (m MultiPolygon) middle() Point {
	b := m.Bounds()
	if b.West > b.East { // it crosses the antimeridian
		b.East += 360
	}
	return Point{(b.West + b.East) / 2, (b.South + b.North) / 2}
}

// merged joins each tile smaller than MinArea to the neighbour with the longest common border, the smallest first.
func (s Split) merged(tiles []Tile, a *Area) ([]Tile, error) {
	sizes, boxes := make([]float64, len(tiles)), make([]Box, len(tiles))
	var small []int
	for i, t := range tiles {
		boxes[i] = t.Piece.Box()
		if sizes[i] = t.Piece.squareMetres(); sizes[i] < s.MinArea {
			small = append(small, i)
		}
	}
	slices.SortFunc(small, func(i, k int) int { return cmp.Or(cmp.Compare(sizes[i], sizes[k]), cmp.Compare(i, k)) })
	for _, i := range small {
		if sizes[i] >= s.MinArea { // a smaller one was joined to it
			continue
		}
		best, longest := -1, 0.0
		for _, k := range near(boxes, i, a.meter) {
			if !a.meter.Spend(tiles[k].Piece.positions()) {
				return nil, a.meter.Err()
			}
			if along := common(tiles[i].Piece, tiles[k].Piece, a.meter.Spend); sizes[k] > 0 && along > longest {
				best, longest = k, along
			}
		}
		if best < 0 {
			continue
		}
		joined, err := overlay(geom.Union, tiles[best].Piece, tiles[i].Piece, a.meter)
		if a.meter.Err() != nil {
			return nil, a.meter.Err()
		}
		if sum := sizes[best] + sizes[i]; err != nil || math.Abs(joined.squareMetres()-sum) > 1e-9*sum {
			continue // see intersection
		}
		tiles[best].Piece = joined
		sizes[best], sizes[i] = sizes[best]+sizes[i], 0
		boxes[best] = boxes[best].around(boxes[i])
	}
	if a.meter.Err() != nil {
		return nil, a.meter.Err()
	}
	kept := tiles[:0]
	for i, t := range tiles {
		if sizes[i] > 0 {
			kept = append(kept, t)
		}
	}
	return kept, nil
}
