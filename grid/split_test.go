package grid

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyBox draws a box of some degrees that UTM covers, at places where squares have other shapes.
func anyBox(t *rapid.T) *Area {
	west := rapid.SampledFrom([]float64{-180, -3, 0, 2.9, 5.9, 8, 30, 177}).Draw(t, "west")
	south := rapid.SampledFrom([]float64{-80, -40.1, -0.5, 0, 47.5, 56, 63.5, 71.9, 81}).Draw(t, "south")
	b := Box{west, south, west + rapid.Float64Range(0.01, 3).Draw(t, "width"),
		south + rapid.Float64Range(0.01, 3).Draw(t, "height")}
	a, err := b.Area()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The tiles of trees are valid, lie in their cells, and have no gap.
func TestSplit_TreesCoverTheArea(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := named(t, rapid.SampledFrom([]string{"mgrs-100km", "utm-100km", "utm-50km"}).Draw(t, "grid"))
		a := anyBox(t)
		sum := 0.0
		for c, piece := range g.Tiles(a) {
			valid(t, c, piece)
			sum += piece.squareMetres()
		}
		if whole := a.SquareMetres(); math.Abs(sum-whole) > 1e-9*whole {
			t.Errorf("the pieces have %v of the area's %v square metres", sum, whole)
		}
	})
}

func TestSplit_MergeKeepsTheArea(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := named(t, rapid.SampledFrom([]string{"20x20km", "utm-50km", "mgrs-100km"}).Draw(t, "grid"))
		a := anyBox(t)
		least := rapid.SampledFrom([]float64{1e6, 1e8, 1e9}).Draw(t, "min_area")
		all, err := Split{Grid: g, Most: 100_000}.Tiles(a)
		merged, err2 := Split{Grid: g, Most: 100_000, MinArea: least, Merge: true}.Tiles(a)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		sum, small := 0.0, 0
		for _, tile := range merged {
			valid(t, tile.Cell, tile.Piece)
			size := tile.Piece.squareMetres()
			if sum += size; size < least {
				small++
			}
		}
		if whole := a.SquareMetres(); math.Abs(sum-whole) > 1e-9*whole || len(merged) > len(all) || small > 0 &&
			len(merged) > 1 {
			t.Errorf("%d of %d tiles, %d of them small, with %v of %v square metres", len(merged), len(all), small, sum,
				whole)
		}
	})
}

func valid(t reporter, c Cell, piece MultiPolygon) {
	t.Helper()
	if err := piece.geometry().Validate(); err != nil {
		t.Errorf("%s: %v: %s", c.ID, err, piece.AppendJSON(nil))
	}
	for _, p := range piece {
		if p[0].area2() <= 0 {
			t.Errorf("%s has a shell that is clockwise", c.ID)
		}
	}
}

func TestSplit_MinArea(t *testing.T) {
	s := Split{Grid: named(t, "20x20km")}
	all := tilesOf(t, s, box("4,50,5,51"))
	s.MinArea = 1e8
	some := tilesOf(t, s, box("4,50,5,51"))
	want := maps.Collect(maps.All(all))
	maps.DeleteFunc(want, func(_ string, piece MultiPolygon) bool { return piece.squareMetres() < 1e8 })
	if got, want := slices.Sorted(maps.Keys(some)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) ||
		len(want) == len(all) {
		t.Errorf("of %d tiles %q, want %q", len(all), got, want)
	}
}

// With a buffer, every tile is its cell's piece and what lies within some metres around it.
func TestSplit_BufferOverlaps(t *testing.T) {
	for _, g := range []string{"20x20km", "utm-20km", "mgrs-100km"} {
		s := Split{Grid: named(t, g)}
		plain := tilesOf(t, s, box("5.5,50,6.5,51"))
		s.Buffer = 1_000
		wide := tilesOf(t, s, box("5.5,50,6.5,51"))
		wider := 0
		for id, piece := range plain {
			inner, outer := piece.Box(), wide[id].Box()
			if outer.West > inner.West || outer.East < inner.East || outer.South > inner.South ||
				outer.North < inner.North {
				t.Errorf("%s: %v is not in %v", id, inner, outer)
			}
			if outer.East > inner.East && outer.East < 6.5 { // the area ends there
				wider++
				if metres := (outer.East - inner.East) * 111_320 * math.Cos(outer.South*math.Pi/180); metres < 980 ||
					metres > 1_200 {
					t.Errorf("%s reaches %.0f m further to the east", id, metres)
				}
			}
		}
		if wider < len(plain)/4 {
			t.Errorf("%s: %d of %d tiles are wider", g, wider, len(plain))
		}
	}
}

// A cell that reaches the area by its buffer alone is no tile: another tile has that part.
func TestSplit_BufferAddsNoTiles(t *testing.T) {
	for _, g := range []string{"20x20km", "utm-20km", "mgrs-100km", "h3-5"} {
		s := Split{Grid: named(t, g)}
		plain := slices.Sorted(maps.Keys(tilesOf(t, s, box("5.5,50,6.5,51"))))
		s.Buffer = 30_000
		if wide := slices.Sorted(maps.Keys(tilesOf(t, s, box("5.5,50,6.5,51")))); !slices.Equal(wide, plain) {
			t.Errorf("%s: %d tiles, %d without a buffer", g, len(wide), len(plain))
		}
	}
}

func TestSplit_FromCentre(t *testing.T) {
	a, err := ParseWithin(nil, []byte(box("4,50,6,52")))
	if err != nil {
		t.Fatal(err)
	}
	tiles, err := Split{Grid: named(t, "20x20km"), Most: 1000, FromCentre: true}.Tiles(a)
	if err != nil {
		t.Fatal(err)
	}
	last := 0.0
	for _, tile := range tiles {
		b := tile.Piece.Box()
		away := math.Hypot(((b.West+b.East)/2-5)*math.Cos(51*math.Pi/180), (b.South+b.North)/2-51)
		if away < last {
			t.Errorf("%s comes too late", tile.ID)
		}
		last = away
	}
}

// The centre of an area across the antimeridian lies on it.
func TestSplit_FromCentreAcrossTheAntimeridian(t *testing.T) {
	a, err := ParseWithin(nil, []byte(box("170,-1,-170,1")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"250x250km", "h3-2"} {
		tiles, err := Split{Grid: named(t, name), Most: 1000, FromCentre: true}.Tiles(a)
		if err != nil {
			t.Fatal(err)
		}
		last := 0.0
		for _, tile := range tiles {
			b := tile.Piece.Bounds()
			if b.West > b.East {
				b.East += 360
			}
			away := math.Hypot(math.Remainder((b.West+b.East)/2-180, 360), (b.South+b.North)/2)
			if away < last-1e-9 {
				t.Errorf("%s comes too late, %v degrees from the centre", tile.ID, away)
			}
			last = away
		}
	}
}

// A grid of UTM refuses an area beyond its latitudes on either side of the antimeridian.
func TestSplit_BeyondLatitudesAcrossTheAntimeridian(t *testing.T) {
	for _, ring := range []string{"[170,70],[190,70],[190,75],[175,86],[170,86],[170,70]",
		"[170,70],[190,70],[190,86],[185,86],[170,75],[170,70]"} {
		a, err := ParseWithin(nil, []byte(`{"type":"Polygon","coordinates":[[`+ring+`]]}`))
		if err != nil {
			t.Fatal(err)
		}
		tiles, err := Split{Grid: named(t, "utm-100km"), Most: 1000}.Tiles(a)
		if _, fault := errors.AsType[Fault](err); !fault {
			t.Errorf("%s: %d tiles, %v", ring, len(tiles), err)
		}
	}
}

func TestSplit_Faults(t *testing.T) {
	g := named(t, "20x20km")
	own, err := ParseCells(nil, cells(`{"type":"Feature","id":1,"geometry":`+box("0,0,1,1")+`}`))
	if err != nil {
		t.Fatal(err)
	}
	for says, s := range map[string]Split{
		"min_area": {Grid: g, MinArea: -1}, "min_area: square metres, from 0 to 1e+15": {Grid: g, MinArea: 1e16},
		"min_area ": {Grid: g, MinArea: math.NaN()}, "buffer": {Grid: g, Buffer: MostBuffer + 1},
		"merge: it needs min_area":   {Grid: g, Merge: true},
		"merge: whole":               {Grid: g, Merge: true, Whole: true, MinArea: 1},
		"merge: tiles with a buffer": {Grid: g, Merge: true, Buffer: 1, MinArea: 1}, "buffer: enlarge": {Grid: own,
			Buffer: 1},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(says)) {
			t.Errorf("%v, want %s", err, says)
		}
	}
	a, err := ParseWithin(nil, []byte(box("0,0,5,5")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Split{Grid: named(t, "utm-20km"), Most: 100}).Tiles(a); !errors.As(err, new(TooMany)) {
		t.Error(err)
	}
}

func cells(features ...string) []byte {
	return []byte(`{"type":"FeatureCollection","features":[` + strings.Join(features, ",") + `]}`)
}

func TestParseCells(t *testing.T) {
	g, err := ParseCells(nil, cells(
		`{"type":"Feature","id":"north","properties":{"a":1},"geometry":`+box("0,1,2,2")+`}`,
		`{"type":"Feature","id":7,"geometry":`+box("179,0,-179,3")+`}`,
		`{"type":"Feature","id":"south","geometry":`+box("0,0,2,1")+`}`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := ParseWithin(nil, []byte(`{"type":"Polygon","coordinates":[[[1,0],[3,0],[3,2],[1,2],[1,0]]]}`))
	if err != nil {
		t.Fatal(err)
	}
	tiles, err := Split{Grid: g, Most: 9}.Tiles(a)
	var got []string
	for _, tile := range tiles {
		got = append(got, fmt.Sprint(tile.ID, tile.Piece.Box()))
	}
	if want := []string{"north{1 1 2 2}", "south{1 0 2 1}"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, want %q, %v", got, want, err)
	}
	if world := tilesOf(t, Split{Grid: g}, box("-180,-90,180,90")); len(world) != 3 || len(world["7"]) != 2 {
		t.Errorf("%v", world)
	}
}

func TestParseCells_Faults(t *testing.T) {
	square := `"geometry":` + box("0,0,1,1")
	for says, raw := range map[string][]byte{
		"FeatureCollection is needed": []byte(box("0,0,1,1")),
		"it has no features":          cells(),
		"features[0].id: each cell":   cells(`{"type":"Feature",` + square + `}`),
		"features[0].id: each ":       cells(`{"type":"Feature","id":true,` + square + `}`),
		"has the id of features[0]": cells(`{"type":"Feature","id":1,`+square+`}`, `{"type":"Feature","id":"1",`+square+
			`}`),
		"at most 100 bytes":    cells(`{"type":"Feature","id":"` + strings.Repeat("x", 101) + `",` + square + `}`),
		"no control":           cells(`{"type":"Feature","id":"\u0000",` + square + `}`),
		"features[0].geometry": cells(`{"type":"Feature","id":1,"geometry":{"type":"Point","coordinates":[1,2]}}`),
		"edges cross": cells(
			`{"type":"Feature","id":1,"geometry":{"type":"Polygon","coordinates":[[[0,0],[2,2],[2,0],[0,2],[0,0]]]}}`),
	} {
		if _, err := ParseCells(nil, raw); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
