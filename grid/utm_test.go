package grid

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
)

// tilesOf splits a GeoJSON geometry.
func tilesOf(t testing.TB, s Split, aoi string) map[string]MultiPolygon {
	t.Helper()
	a, err := ParseWithin(nil, []byte(aoi))
	if err != nil {
		t.Fatal(err)
	}
	if s.Most == 0 {
		s.Most = 100_000
	}
	tiles, err := s.Tiles(a)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]MultiPolygon{}
	for _, tile := range tiles {
		if _, twice := all[tile.ID]; twice {
			t.Errorf("%s comes twice", tile.ID)
		}
		all[tile.ID] = tile.Piece
	}
	return all
}

func TestUTM_NamesOfSquares(t *testing.T) {
	for name, c := range map[string]struct {
		grid, aoi string
		want      []string
	}{
		"Brussels": {"mgrs-100km", box("4.3,50.8,4.4,50.9"), []string{"31UES"}},
		"a border of zones": {"utm-100km", box("5.9,50.1,6.1,50.2"), []string{"utm-100km-31n-e0700-n05500",
			"utm-100km-32n-e0200-n05500"}},
		"a border of bands": {"mgrs-100km", box("3.5,47.9,3.6,48.1"), []string{"31TEP", "31UEP"}},
		"Bergen, Norway": {"mgrs-100km", box("5.3,60.3,5.4,60.4"),
			[]string{"32VKM", "32VKN", "32VLM", "32VLN"}},
		"Longyearbyen, Svalbard": {"utm-100km", box("15.6,78.2,15.7,78.3"), []string{"utm-100km-33n-e0500-n08600"}},
		"the equator":            {"mgrs-100km", box("9.1,-0.1,9.2,0.1"), []string{"32MNE", "32NNF"}},
		"the antimeridian": {"utm-100km", box("179.9,-17,-179.9,-16.9"), []string{"utm-100km-01s-e0100-n08100",
			"utm-100km-60s-e0800-n08100"}},
		"the south": {"mgrs-100km", box("18.4,-34.1,18.5,-34"), []string{"34HBH"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := slices.Sorted(maps.Keys(tilesOf(t, Split{Grid: named(t, c.grid)}, c.aoi)))
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// The squares of the whole Earth have no gap and do not overlap, and are as many as the grid says.
func TestUTM_World(t *testing.T) {
	a, err := ParseWithin(nil, []byte(box("-180,-80,180,84")))
	if err != nil {
		t.Fatal(err)
	}
	g, n, size := named(t, "mgrs-100km"), 0, 0.0
	for _, piece := range g.Tiles(a) {
		n++
		size += piece.squareMetres()
	}
	if n != g.Cells() || math.Abs(size/a.SquareMetres()-1) > 1e-12 {
		t.Errorf("%d squares, want %d; their size is off by %g", n, g.Cells(), size/a.SquareMetres()-1)
	}
}

// Neighbouring squares have the same vertices on the edge that they have in common.
func TestUTM_CommonEdges(t *testing.T) {
	edges := 0
	for _, size := range []float64{20_000, 100_000} {
		n := int(math.Ceil(size / longestEdge))
		whole := func(s squareRange, east, north int) Ring {
			s.west, s.south, s.east, s.north = s.west+east, s.south+north, s.west+east+1, s.south+north+1
			if out := s.outline(); len(out) == 1 && len(out[0][0]) == 4*n+1 {
				return out[0][0]
			}
			return nil // it is cut at the border of the zone
		}
		for _, r := range zoneRegions()[60:66] {
			all := newSquares(zoneBranch{&r, size, 0, squareName(size)})
			for col := range all.east - all.west {
				for row := range min(all.north-all.south, 40) {
					for _, next := range [][2]int{{col + 1, row}, {col, row + 1}} {
						a, b := whole(all, col, row), whole(all, next[0], next[1])
						if a == nil || b == nil {
							continue
						}
						edges++
						apart := func(p Point) bool { return !slices.Contains(b, p) }
						if common := len(slices.DeleteFunc(slices.Clone(a[1:]), apart)); common != n+1 {
							t.Fatalf("column %d, row %d and %v: %d common vertices, want %d", col, row, next, common,
								n+1)
						}
					}
				}
			}
		}
	}
	if edges < 1_000 {
		t.Errorf("only %d edges", edges)
	}
}

func TestUTM_NotBeyondItsLatitudes(t *testing.T) {
	a, err := ParseWithin(nil, []byte(box("0,83,1,85")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Split{Grid: named(t, "mgrs-100km"), Most: 10}.Tiles(a)
	if f, ok := errors.AsType[Fault](err); !ok || f.At[1] != 85 {
		t.Errorf("%v", err)
	}
}

// BenchmarkUTM measures the time for each of the 224,345 squares of 50 km.
func BenchmarkUTM(b *testing.B) {
	a, err := ParseWithin(nil, []byte(box("-180,-80,180,84")))
	if err != nil {
		b.Fatal(err)
	}
	g, n := named(b, "utm-50km"), 0
	for b.Loop() {
		for range g.Tiles(a) {
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/square")
}

// box returns a box, given as for a parameter, as GeoJSON.
func box(corners string) string {
	b, _ := ParseBox([]byte("[" + corners + "]"))
	a, err := b.Area()
	if err != nil {
		panic(err)
	}
	return string(a.Polygons().AppendJSON(nil))
}
