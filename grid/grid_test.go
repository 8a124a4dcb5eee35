package grid

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/peterstace/simplefeatures/geom"
	"pgregory.net/rapid"
)

// reporter is what tests and properties have in common.
type reporter interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

func named(t reporter, name string) *Grid {
	t.Helper()
	g, ok := Named(name)
	if !ok {
		t.Fatalf("no grid %s", name)
	}
	return g
}

// alongMeridian returns the distance in metres along a meridian or a parallel, by the integral of the radii of
// curvature. It shares no code with the grid.
func alongMeridian(south, north float64) (sum float64) {
	const n = 200
	for i := range n {
		phi := (south + (north-south)*(float64(i)+0.5)/n) * math.Pi / 180
		s := math.Sin(phi)
		sum += 6378137 * (1 - 0.0066943799901413165) / math.Pow(1-0.0066943799901413165*s*s,
			1.5) * (north - south) / n * math.Pi / 180
	}
	return sum
}

func alongParallel(lat, west, east float64) float64 {
	s := math.Sin(lat * math.Pi / 180)
	return 6378137 / math.Sqrt(1-0.0066943799901413165*s*s) * math.Cos(lat*math.Pi/180) * (east - west) * math.Pi / 180
}

// lattices yields the grids of rows and columns.
func lattices() iter.Seq[*Grid] {
	return func(yield func(*Grid) bool) {
		for g := range All() {
			if g.tree == nil && !yield(g) {
				return
			}
		}
	}
}

func TestGrid_CellsHaveTheirSize(t *testing.T) {
	for g := range lattices() {
		for row := range g.cols {
			col := g.cols[row] / 2
			c := columns{rows{g, 0, row, row + 1}, col, col + 1}.bounds()
			if c.North > 80 || c.South < -80 {
				continue
			}
			if h := alongMeridian(c.South, c.North); math.Abs(h/g.Height-1) > 0.01 {
				t.Errorf("%s: row %d is %.0f m high", g.Name, row, h)
			}
			if w := alongParallel((c.South+c.North)/2, c.West, c.East); math.Abs(w/g.Width-1) > 0.02 {
				t.Errorf("%s: cells of row %d are %.0f m wide", g.Name, row, w)
			}
		}
	}
}

func TestGrid_CoversTheGlobe(t *testing.T) {
	for g := range lattices() {
		if g.rows[0] != -90 || g.rows[len(g.rows)-1] != 90 || len(g.rows) != len(g.cols)+1 {
			t.Errorf("%s: rows from %v to %v", g.Name, g.rows[0], g.rows[len(g.rows)-1])
		}
		for row := range g.cols {
			if g.border(row, 0) != -180 || g.border(row, g.cols[row]) != 180 || g.rows[row] >= g.rows[row+1] {
				t.Errorf("%s: row %d is not whole", g.Name, row)
			}
		}
	}
}

func TestNewArea_FaultsNameTheirPlace(t *testing.T) {
	square := Ring{{0, 0}, {9, 0}, {9, 9}, {0, 9}, {0, 0}}
	for name, c := range map[string]struct {
		area MultiPolygon
		at   Point
	}{
		"bowtie": {MultiPolygon{{{{0, 0}, {2, 2}, {2, 0}, {0, 2}, {0, 0}}}}, Point{1, 1}},
		"hole outside": {MultiPolygon{{{{0, 0}, {2, 0}, {2, 2}, {0, 2}, {0, 0}}, {{3, 0}, {3, 1}, {4, 1}, {3, 0}}}},
			Point{3, 0}},
		"self-touch":         {MultiPolygon{{{{0, 0}, {4, 0}, {4, 4}, {2, 0}, {0, 4}, {0, 0}}}}, Point{2, 0}},
		"hole crosses shell": {MultiPolygon{{square, {{8, 1}, {10, 1}, {10, 2}, {8, 2}, {8, 1}}}}, Point{9, 1}},
		"hole in a hole": {MultiPolygon{{square, {{1, 1}, {1, 5}, {5, 5}, {5, 1}, {1, 1}},
			{{2, 2}, {2, 3}, {3, 3}, {2, 2}}}}, Point{2, 2}},
		"spike":        {MultiPolygon{{{{0, 0}, {4, 0}, {4, 4}, {4, 8}, {4, 4}, {0, 4}, {0, 0}}}}, Point{4, 4}},
		"not closed":   {MultiPolygon{{{{0, 0}, {1, 0}, {1, 1}, {0, 1}}}}, Point{0, 1}},
		"three points": {MultiPolygon{{{{0, 0}, {1, 1}, {0, 0}}}}, Point{0, 0}},
		"latitude 91":  {MultiPolygon{{{{0, 0}, {1, 91}, {1, 1}, {0, 0}}}}, Point{1, 91}},
		"two ways to read": {MultiPolygon{{{{179, 0}, {179, 1}, {-179, 1}, {-179, 0}, {179, 0}}}},
			Point{179, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newArea(c.area, nil)
			if f, ok := errors.AsType[Fault](err); !ok || f.At != c.at {
				t.Errorf("%v, want a fault at %v", err, c.at)
			}
		})
	}
}

func TestNewArea_RefusesNaN(t *testing.T) {
	if _, err := newArea(MultiPolygon{{{{math.NaN(), 0}, {1, 0}, {1, 1}, {math.NaN(), 0}}}}, nil); err == nil {
		t.Error("NaN was taken for a longitude")
	}
}

// splitAll checks everything that holds for the pieces of an area, and returns the number of cells.
func splitAll(t reporter, g *Grid, a *Area) (n int) {
	t.Helper()
	sum := 0.0
	for c, piece := range g.Tiles(a) {
		n++
		judge(t, c, piece)
		for _, p := range piece {
			for _, r := range p {
				sum += r.area2()
			}
		}
	}
	if whole := a.parts.area2(); math.Abs(sum-whole) > 1e-9*math.Abs(whole) {
		t.Errorf("the pieces have %v of the area's %v square degrees", sum/2, whole/2)
	}
	return n
}

// judge checks with another library whether a piece is valid, and what RFC 7946 and the cell require in addition.
func judge(t reporter, c Cell, piece MultiPolygon) {
	t.Helper()
	raw, err := piece.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := geom.UnmarshalGeoJSON(raw); err != nil {
		t.Errorf("%s: %v: %s", c.ID, err, raw)
	}
	cell := c.Outline().Box()
	for _, p := range piece {
		for i, r := range p {
			w, s, e, n := r.box()
			if w < cell.West || s < cell.South || e > cell.East || n > cell.North {
				t.Errorf("%s: a piece leaves its cell", c.ID)
			}
			if (r.area2() > 0) != (i == 0) {
				t.Errorf("%s: ring %d has the wrong orientation", c.ID, i)
			}
		}
	}
}

func area(t testing.TB, geojson string) *Area {
	t.Helper()
	a, err := ParseWithin(nil, []byte(geojson))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTiles_Pieces(t *testing.T) {
	for name, c := range map[string]struct {
		grid, area string
		cells      int
	}{
		"one cell": {"20x20km",
			`{"type":"Polygon","coordinates":[[[4.30,50.80],[4.35,50.80],[4.35,50.85],[4.30,50.85],[4.30,50.80]]]}`, 1},
		"feature with a hole": {"20x20km",
			`{"type":"Feature","properties":null,"geometry":{"type":"Polygon","coordinates":
			[[[4,50],[5,50],[5,51],[4,51],[4,50]],[[4.2,50.2],[4.8,50.2],[4.8,50.8],[4.2,50.8],[4.2,50.2]]]}}`, 28},
		"over the antimeridian, jumping": {"250x250km",
			`{"type":"Polygon","coordinates":[[[177,-18],[-178,-18],[-178,-16],[177,-16],[177,-18]]]}`, 3},
		"over the antimeridian, beyond": {"250x250km",
			`{"type":"Polygon","coordinates":[[[177,-18],[182,-18],[182,-16],[177,-16],[177,-18]]]}`, 3},
		"over the antimeridian, cut": {"250x250km",
			`{"type":"MultiPolygon","coordinates":[[[[177,-18],[180,-18],[180,-16],[177,-16],[177,-18]]],
			[[[-180,-18],[-178,-18],[-178,-16],[-180,-16],[-180,-18]]]]}`, 3},
		"round the south pole": {"250x250km",
			`{"type":"Polygon","coordinates":[[[-180,-80],[-90,-80],[0,-80],[90,-80],[180,-80],[180,-90],[-180,-90],[-180,-80]]]}`, 0},
		"a ring round the pole": {"250x250km",
			`{"type":"Polygon","coordinates":[[[0,80],[90,80],[180,80],[-90,80],[0,80]]]}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := splitAll(t, named(t, c.grid), area(t, c.area))
			if n == 0 || c.cells > 0 && n != c.cells {
				t.Errorf("%d cells, want %d", n, c.cells)
			}
		})
	}
}

func TestTiles_SameGroundHasTheSameCells(t *testing.T) {
	g := named(t, "20x20km")
	ids := func(a *Area) string {
		s := ""
		for c := range g.Tiles(a) {
			s += c.ID + " "
		}
		return s
	}
	jumping := ids(area(t, `{"type":"Polygon","coordinates":[[[179,51],[-179,51],[-179,52],[179,52],[179,51]]]}`))
	beyond := ids(area(t, `{"type":"Polygon","coordinates":[[[179,51],[181,51],[181,52],[179,52],[179,51]]]}`))
	if jumping != beyond || jumping == "" {
		t.Errorf("%s is not %s", jumping, beyond)
	}
}

// The vertices of these polygons are on the grid's own lines.
func TestTiles_HostileLattice(t *testing.T) {
	g := named(t, "250x250km")
	pieces := 0
	for seed := range uint64(400 / smaller) {
		m := lattice(g, rand.New(rand.NewPCG(seed, 1)))
		a, err := newArea(m, nil)
		if err != nil {
			continue // what a user sends may be invalid; here only what is cut counts
		}
		pieces += splitAll(t, g, a)
	}
	if pieces < 5000/smaller {
		t.Errorf("only %d pieces: the lattice makes too few valid areas to tell anything", pieces)
	}
}

// lattice returns a polygon with holes: random triangles, boxes and diamonds on grid lines.
func lattice(g *Grid, r *rand.Rand) MultiPolygon {
	row, col := 30+r.IntN(20), 20+r.IntN(60)
	at := func(i, j float64) Point {
		k := int(math.Floor(j))
		lat := g.rows[row+k] + (j-float64(k))*(g.rows[row+k+1]-g.rows[row+k])
		w := g.border(row, col)
		return Point{w + i*(g.border(row, col+1)-w), lat}
	}
	shell := Ring{at(0, 0), at(8, 0), at(8.5, 4), at(8, 8), at(4, 8.5), at(0, 8), at(0, 0)}
	p := Polygon{shell}
	for i := 1.0; i < 7; i += 2 {
		for j := 1.0; j < 7; j += 2 {
			x, y, s := i+float64(r.IntN(3))/2, j+float64(r.IntN(3))/2, float64(1+r.IntN(2))/2
			switch r.IntN(4) {
			case 0:
				p = append(p, Ring{at(x, y), at(x, y+s), at(x+s, y+s), at(x+s, y), at(x, y)})
			case 1:
				p = append(p, Ring{at(x, y), at(x+s/3, y+s), at(x+s, y), at(x, y)})
			case 2:
				p = append(p, Ring{at(x, y), at(x-s/2, y+s/2), at(x, y+s), at(x+s/2, y+s/2), at(x, y)})
			}
		}
	}
	return MultiPolygon{p}
}

// The holes of these areas touch their shell as nearly as numbers permit. Rounding then puts a vertex on the wrong side
// of an edge in a few pieces; without mend these are invalid.
func TestTiles_PiecesAreMended(t *testing.T) {
	g, broken := named(t, "20x20km"), 0
	for seed := range uint64(600) {
		a, err := newArea(nearly(rand.New(rand.NewPCG(seed, 1))), nil)
		if err != nil {
			continue
		}
		splitAll(t, g, a)
		for c := range g.Tiles(a) {
			rings := cutOut(slices.Concat(a.parts...), c.Outline().Box(), nil)
			if !isValid(polygons(rings, nil), nil) {
				broken++
			}
		}
	}
	if broken == 0 {
		t.Error("no piece needed mending: this tests nothing")
	}
}

// nearly returns a polygon with holes whose tips are the nearest numbers to points of its edges.
func nearly(r *rand.Rand) MultiPolygon {
	lon, lat, n := -100+200*r.Float64(), -60+120*r.Float64(), 3+r.IntN(4)
	var shell Ring
	for i := range n {
		angle := 2 * math.Pi * (float64(i) + 0.5*r.Float64()) / float64(n)
		shell = append(shell, Point{lon + 5*math.Cos(angle), lat + 5*math.Sin(angle)})
	}
	shell = append(shell, shell[0])
	p := Polygon{shell}
	for i := 1; i < len(shell); i++ {
		for range 3 {
			p = append(p, tooth(r, shell[i-1], shell[i], Point{lon, lat}))
		}
	}
	return MultiPolygon{p}
}

// tooth is a triangle with its tip on the edge from a to b, pointing towards the middle.
func tooth(r *rand.Rand, a, b, middle Point) Ring {
	u := r.Float64()
	tip := Point{a[0] + u*(b[0]-a[0]), a[1] + u*(b[1]-a[1])}
	for range r.IntN(3) {
		tip[0] = math.Nextafter(tip[0], middle[0])
	}
	in := Point{tip[0] + 0.3*(middle[0]-tip[0]), tip[1] + 0.3*(middle[1]-tip[1])}
	return Ring{tip, {in[0] + 0.3*r.Float64(), in[1]}, {in[0], in[1] + 0.3*r.Float64()}, tip}
}

func TestTiles_StarsKeepTheirArea(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lon, lat := rapid.Float64Range(-175, 175).Draw(rt, "lon"), rapid.Float64Range(-75, 75).Draw(rt, "lat")
		n := rapid.IntRange(3, 60).Draw(rt, "points")
		seed := rapid.Uint64().Draw(rt, "seed")
		r := star(lon, lat, n, rand.New(rand.NewPCG(seed, 0)))
		a, err := newArea(MultiPolygon{{r}}, nil)
		if err != nil {
			rt.Skip(err)
		}
		for _, name := range []string{"20x20km", "250x250km"} {
			splitAll(rt, named(rt, name), a)
		}
	})
}

func star(lon, lat float64, n int, r *rand.Rand) Ring {
	var ring Ring
	for i := range n {
		angle, radius := 2*math.Pi*float64(i)/float64(n), 0.2+2*r.Float64()
		ring = append(ring, Point{lon + radius*math.Cos(angle), lat + radius*math.Sin(angle)})
	}
	return append(ring, ring[0])
}

func TestEstimate(t *testing.T) {
	g := named(t, "20x20km")
	for name, raw := range map[string]string{
		"box":      `{"type":"Polygon","coordinates":[[[4,50],[9,50],[9,54],[4,54],[4,50]]]}`,
		"diagonal": `{"type":"Polygon","coordinates":[[[0,0],[30,29.5],[30,30],[0,0]]]}`,
	} {
		a := area(t, raw)
		n := splitAll(t, g, a)
		if e := g.Estimate(a); e > n {
			t.Errorf("%s: estimated %d of %d cells: it would be refused at a limit that it keeps", name, e, n)
		} else if name == "box" && e < n/2 {
			t.Errorf("estimated %d of %d cells", e, n)
		}
	}
	world := area(t, `{"type":"Polygon","coordinates":[[[-180,-90],[180,-90],[180,90],[-180,90],[-180,-90]]]}`)
	if e := g.Estimate(world); e < 1_000_000 {
		t.Errorf("the world has about %d cells", e)
	}
}

func TestSquareMetres(t *testing.T) {
	world := area(t, `{"type":"Polygon","coordinates":[[[-180,-90],[180,-90],[180,90],[-180,90],[-180,-90]]]}`)
	if km2 := world.SquareMetres() / 1e6; math.Abs(km2/510065621.7-1) > 0.001 { // the surface of WGS84
		t.Errorf("the Earth has %.0f square kilometres", km2)
	}
}

func TestParseArea_SaysWhatIsWrong(t *testing.T) {
	for raw, want := range map[string]string{
		`5`:                                    "aoi: it is not a GeoJSON object",
		`{"type":"Point","coordinates":[1,2]}`: `aoi: a Polygon, MultiPolygon, Feature or FeatureCollection is needed, not "Point"`,
		`{"type":"Polygon"}`: "aoi.coordinates: they are not the nested arrays of numbers that " +
			"this type requires",
		`{"type":"Polygon","coordinates":[]}`: "aoi: it contains no polygon",
		`{"type":"Polygon","coordinates":[[[1]]]}`: "aoi.coordinates: position 0 of " +
			"ring 0 has fewer than two numbers",
		`{"type":"FeatureCollection","features":[]}`:                                   "aoi: it contains no polygon",
		`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":null}]}`: "aoi: it contains no polygon",
	} {
		if _, err := ParseWithin(nil, []byte(raw)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}

func FuzzParseArea(f *testing.F) {
	f.Add([]byte(`{"type":"Polygon","coordinates":[[[177,-18],[-178,-18],[-178,-16],[177,-16],[177,-18]]]}`))
	f.Add([]byte(`{"type":"Polygon","coordinates":[[[0,80],[90,80],[180,80],[-90,80],[0,80]]]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := ParseWithin(nil, raw)
		if err != nil {
			return
		}
		g := named(t, "250x250km")
		if g.Estimate(a) <= 2000 {
			splitAll(t, g, a)
		}
	})
}

func BenchmarkTiles(b *testing.B) {
	g, _ := Named("20x20km")
	var ring Ring
	for i := range 10_000 {
		angle := 2 * math.Pi * float64(i) / 10_000
		radius := 4 + 0.6*math.Sin(7*angle) + 0.05*math.Sin(431*angle)
		ring = append(ring, Point{10 + radius*math.Cos(angle), 50 + radius*math.Sin(angle)})
	}
	ring = append(ring, ring[0])
	for b.Loop() {
		a, err := newArea(MultiPolygon{{ring}}, nil)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for range g.Tiles(a) {
			n++
		}
		b.ReportMetric(float64(n), "cells")
	}
}

func ExampleGrid_Tiles() {
	g, _ := Named("250x250km")
	a, _ := ParseWithin(nil, []byte(`{"type":"Polygon","coordinates":[[[4,50],[6,50],[6,51],[4,51],[4,50]]]}`))
	for cell := range g.Tiles(a) {
		fmt.Println(cell.ID, cell.Outline().Box())
	}
	// Output:
	// 250x250km-r062-c0052 {3.5294118 49.6424754 7.0588235 51.890234}
}

// An area is returned as RFC 7946 requires: cut at the antimeridian, shells before their holes.
func TestArea_Polygons(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`{"type":"Polygon","coordinates":[[[0,0],[0,4],[4,4],[4,0],[0,0]],[[1,1],[2,1],[2,2],[1,2],[1,1]]]}`,
			`{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4],[0,4],[0,0]],[[1,1],[1,2],[2,2],[2,1],[1,1]]]}`},
		{`{"type":"Polygon","coordinates":[[[179,0],[181,0],[181,1],[179,1],[179,0]]]}`,
			`{"type":"MultiPolygon","coordinates":[[[[-180,0],[-179,0],[-179,1],[-180,1],[-180,0]]],[[[180,1],[179,1],[179,0],[180,0],[180,1]]]]}`},
	} {
		area, err := ParseWithin(nil, []byte(c.raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(area.Polygons().AppendJSON(nil)); got != c.want {
			t.Errorf("%s: %s", c.raw, got)
		}
	}
}
