package real

import (
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/eodispatch/eodispatch/grid"
)

// outlines returns the outlines of 21 countries and of Africa as GeoJSON geometries by name.
func outlines(t testing.TB) map[string]json.RawMessage {
	t.Helper()
	borders, python := environment(t, "world-atlas-2.0.2"), filepath.Join(environment(t, "shapely"), "bin", "python")
	all, err := drawn(borders, python)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	drawing  sync.Once
	drawings map[string]json.RawMessage
	undrawn  error
)

// drawn creates the outlines once for all tests.
func drawn(borders, python string) (map[string]json.RawMessage, error) {
	drawing.Do(func() {
		out, err := exec.Command(python, "-B", filepath.Join("judges", "outlines.py"), filepath.Join(borders,
			"countries-10m.json")).Output()
		if undrawn = err; err == nil {
			undrawn = json.Unmarshal(out, &drawings)
		}
	})
	return drawings, undrawn
}

// split is an area with its tiles, each as the cell and the piece of the area in it.
type split struct {
	Outline json.RawMessage     `json:"outline"`
	Pieces  []grid.MultiPolygon `json:"pieces"`
	Cells   []grid.MultiPolygon `json:"cells"`
	// Tolerance is how much of a piece may lie beyond its cell, in square degrees: the crossings of edges are rounded.
	Tolerance float64 `json:"tolerance,omitempty"`
}

func splitInto(t *testing.T, g *grid.Grid, outline json.RawMessage) split {
	t.Helper()
	area, err := grid.ParseWithin(nil, outline)
	if err != nil {
		t.Fatal(err)
	}
	s := split{Outline: outline}
	if zoned[g.Name] != nil {
		s.Tolerance = 1e-12
	}
	for cell, piece := range g.Tiles(area) {
		s.Pieces, s.Cells = append(s.Pieces, piece), append(s.Cells, cell.Outline())
	}
	return s
}

// TestTiles_RealOutlines checks the tiles of real countries with GEOS: they are valid, each lies in its cell, and their
// union is the country to within 1e-6 of its area.
func TestTiles_RealOutlines(t *testing.T) {
	countries := outlines(t)
	if len(countries) < 21 {
		t.Fatalf("only %d outlines", len(countries))
	}
	for name, outline := range countries {
		for g := range grid.All() {
			if g.Name != "20x20km" && g.Name != "250x250km" && !slices.Contains(zoned[g.Name], name) {
				continue
			}
			t.Run(name+" "+g.Name, func(t *testing.T) {
				t.Parallel()
				checkSplit(t, splitInto(t, g, outline))
			})
		}
	}
}

// zoned names countries for the grids of UTM and H3, which take longer to judge: some lie in several zones, where zones
// have other widths, on the antimeridian, or around a pole.
var zoned = map[string][]string{
	"utm-20km":   {"Belgium", "Lesotho"},
	"utm-50km":   {"Norway", "France"},
	"utm-100km":  {"Norway", "Greenland", "Indonesia"},
	"mgrs-100km": {"Norway", "Chile"},
	"h3-6":       {"Belgium"},
	"h3-4":       {"Norway"},
	"h3-3":       {"United States of America", "New Zealand", "Greenland"},
}

func checkSplit(t *testing.T, s split) {
	t.Helper()
	t.Logf("%d pieces", len(s.Pieces))
	var found struct {
		Outline, Pieces, Difference float64
		Invalid                     []string
		Empty, Clockwise            int
		BeyondCell                  int `json:"beyond_cell"`
	}
	judge(t, "shapely", "pieces.py", s, &found)
	if off := math.Abs(found.Pieces-found.Outline) / found.Outline; !(off <= 1e-6) {
		t.Errorf("the area of %d pieces is off by %g", len(s.Pieces), off)
	}
	if off := found.Difference / found.Outline; !(off <= 1e-6) {
		t.Errorf("outline and pieces differ by %g of the area", off)
	}
	if len(found.Invalid) > 0 || found.Empty+found.Clockwise+found.BeyondCell > 0 {
		t.Errorf("of %d pieces: invalid %q, %d empty, %d rings with the wrong winding order, %d beyond their cell",
			len(s.Pieces), found.Invalid, found.Empty, found.Clockwise, found.BeyondCell)
	}
}
