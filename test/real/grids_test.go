package real

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eodispatch/eodispatch/grid"
)

// places are where grids are hard: borders of zones and bands, Norway, Svalbard, the equator, the antimeridian, and the
// ends of UTM.
var places = map[string]grid.Box{
	"Belgium":          {West: 2.5, South: 49.4, East: 6.5, North: 51.6},
	"Bergen":           {West: 1, South: 55, East: 13, North: 65},
	"Svalbard":         {West: 5, South: 71, East: 43, North: 84},
	"the equator":      {West: 5, South: -3, East: 13, North: 3},
	"the antimeridian": {West: 177, South: -19, East: -177, North: -15},
	"Antarctica":       {West: -1, South: -80, East: 7, North: -70},
}

// cell is what the judge reads of a cell.
type cell struct {
	ID       string            `json:"id"`
	Geometry grid.MultiPolygon `json:"geometry"`
}

// TestGrids_NamesOfCells compares the names of cells with those that the libraries of the grids give to points in the
// pieces.
func TestGrids_NamesOfCells(t *testing.T) {
	for g := range grid.All() {
		if g.Cells() > 1_000_000 || g.Name == "250x250km" || g.Cells() < 10_000 {
			// the names of the broker's own grids are its own, and borders of very large cells are not straight by
			// kilometres
			continue
		}
		var asked struct {
			Cells []cell `json:"cells"`
		}
		for name, box := range places {
			area, err := box.Area()
			if err != nil {
				t.Fatal(name, err)
			}
			for c, piece := range g.Tiles(area) {
				asked.Cells = append(asked.Cells, cell{c.ID, piece})
			}
		}
		if len(asked.Cells) < 100 {
			t.Errorf("%s: only %d cells", g.Name, len(asked.Cells))
		}
		var found struct {
			Points int
			Wrong  []json.RawMessage
		}
		judge(t, "grids", "grids.py", asked, &found)
		if found.Points < len(asked.Cells) || len(found.Wrong) > 0 {
			t.Errorf("%s: of %d points in %d cells, wrong: %s", g.Name, found.Points, len(asked.Cells), found.Wrong)
		}
	}
}

// TestGrids_CornersOfHexagons compares cells of H3 of all resolutions with H3's own: all 122 of resolution 0, and at
// each resolution some around its twelve pentagons, at the poles, on the antimeridian, and at random places.
func TestGrids_CornersOfHexagons(t *testing.T) {
	var asked struct {
		Outlines []cell `json:"outlines"`
	}
	r := rand.New(rand.NewPCG(5, 8))
	for resolution := range 16 {
		g, ok := grid.Named(fmt.Sprintf("h3-%d", resolution))
		if !ok {
			t.Fatalf("there is no grid of resolution %d", resolution)
		}
		half := min(10, g.Width/111_000) // degrees
		boxes := []grid.Box{{West: -180, South: 90 - half, East: 180, North: 90}, {West: -180, South: -90, East: 180,
			North: half - 90}}
		for _, at := range append(slices.Clone(pentagons), grid.Point{180, 10 * r.Float64()},
			grid.Point{-180, -80 * r.Float64()}) {
			boxes = append(boxes, around(at, half))
		}
		for range 40 {
			boxes = append(boxes, around(grid.Point{360*r.Float64() - 180, math.Asin(2*r.Float64()-1) * 180 / math.Pi},
				half))
		}
		if resolution == 0 {
			boxes = []grid.Box{{West: -180, South: -90, East: 180, North: 90}}
		}
		for _, box := range boxes {
			area, err := box.Area()
			if err != nil {
				t.Fatal(box, err)
			}
			for c := range g.Tiles(area) {
				asked.Outlines = append(asked.Outlines, cell{c.ID, c.Outline()})
			}
		}
	}
	if n := len(asked.Outlines); n < 2_000 || n > 100_000 {
		t.Fatalf("%d cells", n)
	}
	var found struct {
		Points int
		Wrong  []json.RawMessage
	}
	judge(t, "grids", "grids.py", asked, &found)
	if found.Points != len(asked.Outlines) || len(found.Wrong) > 0 {
		t.Errorf("of %d cells, wrong: %s", found.Points, found.Wrong)
	}
}

// around returns a box that reaches so many degrees of latitude from a point, and as far to the east and the west.
func around(at grid.Point, half float64) grid.Box {
	wide := min(170, half/math.Cos(min(89, math.Abs(at[1]))*math.Pi/180))
	b := grid.Box{West: at[0] - wide, South: max(-90, at[1]-half), East: at[0] + wide, North: min(90, at[1]+half)}
	if b.West < -180 {
		b.West += 360
	}
	if b.East > 180 {
		b.East -= 360
	}
	return b
}

// pentagons are the middles of the pentagons of H3.
var pentagons = []grid.Point{{10.5362, 64.7}, {-143.4785, 50.1032}, {122.3, 39.1}, {-67.1323, 23.7179},
	{58.1577, 10.4473}, {-5.2454, 2.3009},
	{174.7546, -2.3009}, {-121.8423, -10.4473}, {112.8677, -23.7179}, {-57.7, -39.1}, {36.5215, -50.1032},
	{-169.4638, -64.7}}
