package grid

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func earth(t testing.TB) *Area {
	t.Helper()
	area, err := Box{-180, -90, 180, 90}.Area()
	if err != nil {
		t.Fatal(err)
	}
	return area
}

func hexagonGrid(t testing.TB, name string) *Grid {
	t.Helper()
	g, ok := Named(name)
	if !ok {
		t.Fatalf("%s is missing", name)
	}
	return g
}

// The cells of a resolution cover the Earth once: their number is known, no two have an id in common, their sizes add up to that of the Earth, and none is
// larger than the grid says.
func TestHexagons_CoverTheEarth(t *testing.T) {
	for _, name := range []string{"h3-0", "h3-1", "h3-2", "h3-3"} {
		g, globe := hexagonGrid(t, name), earth(t)
		ids, sum := map[string]bool{}, 0.0
		for c, piece := range g.Tiles(globe) {
			ids[c.ID] = true
			size := piece.squareMetres()
			sum += size
			if size > g.Width*g.Height*g.tree.uneven {
				t.Errorf("%s has %g times the nominal size", c.ID, size/g.Width/g.Height)
			}
		}
		if len(ids) != g.Cells() || math.Abs(sum/globe.SquareMetres()-1) > 1e-9 {
			t.Errorf("%s: %d of %d cells with %g of the Earth", name, len(ids), g.Cells(), sum/globe.SquareMetres())
		}
	}
}

// All cells that descend from a cell lie within its bounds, also around the corners of the icosahedron and with a buffer.
func TestHexagons_LieInTheirBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 14))
	for range 20_000 / smaller {
		h := baseCell(r.IntN(len(baseCells)/2), r.IntN(8), []float64{0, 5000}[r.IntN(2)])
		path := []Box{h.bounds()}
		for parts := h.branches(); len(parts) > 0; parts = h.branches() {
			h = parts[r.IntN(len(parts))].(hexagon)
			path = append(path, h.bounds())
		}
		around := h.cell().outline.Box()
		for _, b := range path {
			if around.West < b.West-1e-6 || around.South < b.South-1e-6 || around.East > b.East+1e-6 || around.North > b.North+1e-6 {
				t.Fatalf("%s: %v is beyond %v", h.cell().ID, around, b)
			}
		}
	}
}

// A buffer makes each border of a cell lie at least that much further out.
func TestHexagons_Buffer(t *testing.T) {
	bare, wide := baseCell(31, 5, 0), baseCell(31, 5, 2000)
	for _, part := range []int{3, 2, 6, 1, 0} {
		bare, wide = bare.branches()[part].(hexagon), wide.branches()[part].(hexagon)
	}
	faces := icosahedron()
	inner, outer := bare.vertices(), wide.vertices()
	centre := bare.place()
	for i := range inner {
		in, out := faces[inner[i].face].vector(inner[i].at), faces[outer[i].face].vector(outer[i].at)
		middle := faces[centre.face].vector(centre.at)
		further := (math.Acos(middle.dot(out)) - math.Acos(middle.dot(in))) * semiMajor * math.Cos(math.Pi/6)
		if further < 2000 || further > 3000 {
			t.Errorf("corner %d: its borders are %g m further out", i, further)
		}
	}
}

// BenchmarkHexagons measures the time for each of the 288,122 cells of resolution 4.
func BenchmarkHexagons(b *testing.B) {
	g, area := hexagonGrid(b, "h3-4"), earth(b)
	n := 0
	for b.Loop() {
		n = 0
		for range g.Tiles(area) {
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/cell")
}

// Sizes of cells are written in full, so that people can compare them.
func TestHexagons_SizesHaveNoExponent(t *testing.T) {
	for name, want := range map[string]string{"h3-10": "15000 m²", "h3-11": "2150 m²", "h3-13": "43.9 m²", "h3-15": "0.895 m²", "h3-5": "252.9 km²", "h3-0": "4180870 km²"} {
		if text := hexagonGrid(t, name).Description; !strings.Contains(text, ", "+want+" on average") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
