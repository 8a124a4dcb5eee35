package grid

import "fmt"

// rows is neighbouring rows of a lattice, as a branch. Its cells may have a buffer, and then overlap.
type rows struct {
	*Grid
	buffer     float64 // metres
	from, last int     // last is the first beyond
}

func (r rows) bounds() Box { return Box{-180, r.rows[r.from], 180, r.rows[r.last]}.grown(r.buffer) }
func (r rows) cell() Cell  { return Cell{} }

func (r rows) branches() []branch {
	if r.last-r.from == 1 {
		return []branch{columns{r, 0, r.cols[r.from]}}
	}
	first, second := r, r
	first.last = (r.from + r.last) / 2
	second.from = first.last
	return []branch{first, second}
}

// columns is neighbouring cells of a row.
type columns struct {
	rows
	west, east int // east is the first beyond
}

func (c columns) bounds() Box {
	row := c.from
	return Box{c.border(row, c.west), c.rows.rows[row], c.border(row, c.east), c.rows.rows[row+1]}.grown(c.buffer)
}

func (c columns) branches() []branch {
	if c.east-c.west == 1 {
		return nil
	}
	first, second := c, c
	first.east = (c.west + c.east) / 2
	second.west = first.east
	return []branch{first, second}
}

func (c columns) cell() Cell {
	return Cell{ID: fmt.Sprintf("%s-r%03d-c%04d", c.Name, c.from, c.west), Row: c.from, Col: c.west,
		outline: MultiPolygon{c.bounds().polygon()}}
}

func (b Box) polygon() Polygon {
	sw, se, ne, nw := Point{b.West, b.South}, Point{b.East, b.South}, Point{b.East, b.North}, Point{b.West, b.North}
	return Polygon{{sw, se, ne, nw, sw}}
}
