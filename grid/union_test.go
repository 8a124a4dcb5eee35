package grid_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/grid"
)

// square returns the feature of a square by its south-western corner and its side in degrees.
func square(west, south, side float64) string {
	e, n := west+side, south+side
	return fmt.Sprintf(
		`{"type":"Feature","properties":{},"geometry":{"type":"Polygon","coordinates":[[[%v,%v],[%v,%v],[%v,%v],[%v,%v],[%v,%v]]]}}`, west, south, e, south, e, n, west, n, west, south)
}

// features returns a collection of features.
func features(all ...string) string {
	return `{"type":"FeatureCollection","features":[` + strings.Join(all, ",") + `]}`
}

// size returns the size of polygons in square degrees.
func size(all grid.MultiPolygon) (sum float64) {
	for _, p := range all {
		for _, r := range p {
			for i := 1; i < len(r); i++ {
				sum += (r[i-1][0]*r[i][1] - r[i][0]*r[i-1][1]) / 2
			}
		}
	}
	return sum
}

// Polygons that share edges, overlap, repeat or lie in each other are the area that any of them covers.
func TestParseArea_Union(t *testing.T) {
	const empty, unlocated = `{"type":"Feature","properties":{},"geometry":{"type":"Polygon","coordinates":[]}}`,
		`{"type":"Feature","properties":{},"geometry":null}`
	for name, c := range map[string]struct {
		area     string
		size     float64
		polygons int
	}{
		"apart":             {features(square(5, 51, .3), square(6, 51, .3)), .18, 2},
		"a shared edge":     {features(square(5, 51, .5), square(5.5, 51, .5)), .5, 1},
		"a part of an edge": {features(square(5, 51, .5), square(5.5, 51.25, .5)), .5, 1},
		"overlap":           {features(square(5, 51, .5), square(5.25, 51, .5)), .375, 1},
		"twice":             {features(square(5, 51, .5), square(5, 51, .5)), .25, 1},
		"one in another":    {features(square(5, 51, 1), square(5.25, 51.25, .5)), 1, 1},
		"around a hole": {features(square(5, 51, 1), square(6, 51, 1), square(7, 51, 1), square(5, 52, 1),
			square(7, 52, 1), square(5, 53, 1), square(6, 53, 1), square(7, 53, 1)), 8, 1},
		"over the antimeridian":   {features(square(179.5, 51, 1), square(-180, 51, 1)), 1.5, 2},
		"overlap and apart":       {features(square(5, 51, .5), square(5.25, 51, .5), square(8, 51, 1)), 1.375, 2},
		"a feature without place": {features(unlocated, square(5, 51, .5), empty), .25, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := grid.ParseWithin(nil, []byte(c.area))
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Polygons(); math.Abs(size(got)-c.size) > 1e-9 || len(got) != c.polygons {
				t.Errorf("%d polygons of %v square degrees: %v", len(got), size(got), got)
			}
			g, _ := grid.Named("20x20km")
			tiles, err := grid.Split{Grid: g, Most: 10_000}.Tiles(a)
			sum := 0.0
			for _, tile := range tiles {
				sum += size(tile.Piece)
			}
			if err != nil || math.Abs(sum-c.size) > 1e-9 {
				t.Errorf("tiles of %v square degrees, %v", sum, err)
			}
		})
	}
	for _, alone := range []string{unlocated, features(unlocated, empty), features(),
		`{"type":"Polygon","coordinates":[]}`, `{"type":"MultiPolygon","coordinates":[[]]}`} {
		if _, err := grid.ParseWithin(nil, []byte(alone)); err == nil || err.Error() != "aoi: it contains no polygon" {
			t.Errorf("%s: %v", alone, err)
		}
	}
	bow := `{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[5,51],[6,52],[6,51],[5,52],[5,51]]]}}`
	if _, err := grid.ParseWithin(nil, []byte(features(square(5, 51, .5), bow))); err == nil ||
		!strings.Contains(err.Error(), "edges cross, at [5.5, 51.5]") {
		t.Errorf("a polygon that crosses itself: %v", err)
	}
}

// A thousand fields that share their borders are joined, and shapes that cross too often to be joined in time are
// refused.
func TestParseArea_UnionIsBounded(t *testing.T) {
	var fields []string
	for i := range 1_000 {
		fields = append(fields, square(5+float64(i%40)/64, 51+float64(i/40)/64, 1./64))
	}
	m := bounds.TilesSteps.Meter(t.Context())
	a, err := grid.ParseWithin(m, []byte(features(fields...)))
	if err != nil || m.Err() != nil || len(a.Polygons()) != 1 || math.Abs(size(a.Polygons())-1_000./4096) > 1e-9 {
		t.Errorf("fields: %v, %v", err, m.Err())
	}
	comb := func(along bool) string {
		var points []string
		for i := range 2_000 {
			x, y := 5+float64(i)/2_000, 51+float64(i%2)*.9
			if along {
				x, y = 5+float64(i%2)*.9, 51+float64(i)/2_000
			}
			points = append(points, fmt.Sprintf("[%v,%v]", x, y))
		}
		end := "[5.9995,50.9],[5,50.9]"
		if along {
			end = "[4.9,51.9995],[4.9,51]"
		}
		return `{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[` + strings.Join(points, ",") + "," +
			end + "," + points[0] + `]]}}`
	}
	m = bounds.TilesSteps.Meter(t.Context())
	if _, err := grid.ParseWithin(m, []byte(features(comb(false), comb(true)))); err == nil {
		t.Error("two combs with four million crossings are joined")
	}
}
