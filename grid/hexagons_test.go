package grid

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
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

// The cells of a resolution cover the Earth once: their number is known, no two have an id in common, their sizes add
// up to that of the Earth, and none is larger than the grid says.
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

// Every point of a border lies within 100 m of the great circles between the corners: of all cells of resolution 0, and
// of those of finer ones near a pole, where straight lines in longitude and latitude are furthest from great circles.
func TestHexagons_BordersFollowGreatCircles(t *testing.T) {
	for resolution := range 8 {
		g := hexagonGrid(t, fmt.Sprintf("h3-%d", resolution))
		area := earth(t)
		if resolution > 0 {
			polar, err := Box{-180, 90 - 3*min(10, g.Width/111e3), 180, 90}.Area()
			if err != nil {
				t.Fatal(err)
			}
			area = polar
		}
		n, worst := 0, 0.0
		for c := range g.Tiles(area) {
			n++
			worst = max(worst, furthest(t, c))
		}
		if n < 10 || worst > 100 {
			t.Errorf("resolution %d: of %d cells, a border is %g m from its great circle", resolution, n, worst)
		}
	}
}

// furthest returns how many metres the border of a cell is from the nearest edge between its corners.
func furthest(t *testing.T, c Cell) (worst float64) {
	index, err := strconv.ParseUint(c.ID, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	resolution := int(index >> 52 & 15)
	h := baseCell(int(index>>45&127), resolution, 0)
	for n := 1; n <= resolution; n++ {
		digit, parts := int(index>>(45-3*n)&7), h.branches()
		if len(parts) == 6 && digit > missing {
			digit--
		}
		h = parts[digit].(hexagon)
	}
	faces, corners := icosahedron(), []vector{}
	for _, p := range h.vertices() {
		corners = append(corners, faces[p.face].vector(p.at))
	}
	for _, polygon := range c.Outline() {
		for i := 1; i < len(polygon[0]); i++ {
			a, b := polygon[0][i-1], polygon[0][i]
			if math.Abs(a[0]) == 180 && a[0] == b[0] || math.Abs(a[1]) == 90 && a[1] == b[1] {
				continue // the cell is divided at the antimeridian, and closed around a pole
			}
			for part := range 5 {
				at := vectorAt(Point{a[0] + float64(part)/5*(b[0]-a[0]), a[1] + float64(part)/5*(b[1]-a[1])})
				near := math.Inf(1)
				for k := range corners {
					near = min(near, fromArc(at, corners[k], corners[(k+1)%len(corners)]))
				}
				worst = max(worst, near*semiMajor)
			}
		}
	}
	return worst
}

// fromArc returns the angle between a point and the great circle between two others.
func fromArc(p, a, b vector) float64 {
	pole := a.cross(b).unit()
	if foot := p.plus(pole, -p.dot(pole)).unit(); a.cross(foot).dot(pole) >= 0 && foot.cross(b).dot(pole) >= 0 {
		return math.Asin(math.Abs(p.dot(pole)))
	}
	return math.Acos(min(1, max(p.dot(a), p.dot(b))))
}

// All cells that descend from a cell lie within its bounds, also around the corners of the icosahedron and with a
// buffer.
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
			if around.West < b.West-1e-6 || around.South < b.South-1e-6 || around.East > b.East+1e-6 ||
				around.North > b.North+1e-6 {
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
	for name, want := range map[string]string{"h3-10": "15000 m²", "h3-11": "2150 m²", "h3-13": "43.9 m²",
		"h3-15": "0.895 m²", "h3-5": "252.9 km²", "h3-0": "4180870 km²"} {
		if text := hexagonGrid(t, name).Description; !strings.Contains(text, ", "+want+" on average") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
