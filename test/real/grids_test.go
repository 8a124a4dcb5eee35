package real

import (
	"encoding/json"
	"testing"

	"github.com/eodispatch/eodispatch/grid"
)

// places are where grids are hard: borders of zones and bands, Norway, Svalbard, the equator, the antimeridian, and the ends of UTM.
var places = map[string]grid.Box{
	"Belgium":          {West: 2.5, South: 49.4, East: 6.5, North: 51.6},
	"Bergen":           {West: 1, South: 55, East: 13, North: 65},
	"Svalbard":         {West: 5, South: 71, East: 43, North: 84},
	"the equator":      {West: 5, South: -3, East: 13, North: 3},
	"the antimeridian": {West: 177, South: -19, East: -177, North: -15},
	"Antarctica":       {West: -1, South: -80, East: 7, North: -70},
}

// TestGrids_NamesOfCells compares the names of cells with those that the libraries of the grids give to points in the pieces.
func TestGrids_NamesOfCells(t *testing.T) {
	type cell struct {
		ID       string            `json:"id"`
		Geometry grid.MultiPolygon `json:"geometry"`
	}
	for g := range grid.All() {
		if g.Cells() > 1_000_000 || g.Name == "250x250km" {
			continue // the names of the broker's own grids are its own
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
