// Package grid splits an area of the Earth into the cells of a grid.
//
// The cells of some grids are rectangles in longitude and latitude on WGS84, which is exactly what a bounding-box
// parameter can express; those of others are squares of UTM, or what a user gives. Areas that are split on the same
// grid get the same cells where they meet, and the name of a cell never changes.
package grid

import (
	"cmp"
	"iter"
	"slices"
)

// Grid is a grid of cells: in rows between parallels, each row with its own columns from longitude -180, or a tree.
type Grid struct {
	Name string
	// Description describes the cells in one sentence, with units.
	Description string
	// Width and Height are the nominal size of a cell on the ground in metres: its height, and its width along the
	// middle of its row.
	Width, Height float64

	rows []float64 // latitudes between the rows, from -90 to 90
	cols []int     // columns of each row
	tree *tree     // in place of rows and cols
}

// Cell is one cell of a grid. Rows are counted from south to north, and columns from west to east.
type Cell struct {
	ID       string
	Row, Col int

	outline MultiPolygon
}

// Outline returns the cell's outline.
func (c Cell) Outline() MultiPolygon { return c.outline }

// Named returns the grid with a name.
func Named(name string) (*Grid, bool) {
	i := slices.IndexFunc(grids, func(g *Grid) bool { return g.Name == name })
	if i < 0 {
		return nil, false
	}
	return grids[i], true
}

// All yields the grids: first those of rectangles in longitude and latitude, then the others, each time the finest
// first.
func All() iter.Seq[*Grid] { return slices.Values(grids) }

// grids are all grids in the order of All.
var grids []*Grid

// add registers a grid. A file that describes a grid calls it to initialize a variable of the package.
func add(g *Grid) *Grid {
	grids = append(grids, g)
	slices.SortStableFunc(grids, func(a, b *Grid) int {
		switch {
		case (a.tree == nil) == (b.tree == nil):
			return cmp.Compare(a.Width, b.Width)
		case a.tree == nil:
			return -1
		}
		return 1
	})
	return g
}

// Cells returns the number of cells on the globe.
func (g *Grid) Cells() (n int) {
	if g.tree != nil {
		return g.tree.cells
	}
	for _, cols := range g.cols {
		n += cols
	}
	return n
}

// border is the longitude between a row's columns col-1 and col.
func (g *Grid) border(row, col int) float64 { return snap(360*float64(col)/float64(g.cols[row]) - 180) }
