package grid_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/grid"
)

func TestParseBox(t *testing.T) {
	square := grid.Box{West: 1, South: 2, East: 3, North: 4}
	for given, want := range map[string]*grid.Box{
		`[1,2,3,4]`: &square, ` [1,2,3,4]`: &square, `[1,2,0,3,4,9]`: &square,
		`{"west":1,"south":2,"east":3,"north":4}`:                                 &square,
		`{"west":1,"south":2,"east":3,"north":4,"crs":4326}`:                      &square,
		`{"west":1,"south":2,"east":3,"north":4,"crs":"EPSG:4326"}`:               &square,
		`{"bbox":[1,2,3,4],"crs":"http://www.opengis.net/def/crs/OGC/1.3/CRS84"}`: &square,
		`{"bbox":[1,2,0,3,4,0]}`:                                                  &square,
		`{"bbox":[2,1,4,3],"crs":"http://www.opengis.net/def/crs/EPSG/0/4326"}`:   nil,
		`{"west":1,"south":2,"east":3,"north":4,"crs":31370}`:                     nil,
		`{"type":"Polygon","bbox":[1,2,3,4]}`:                                     nil,
		`[1,2,3]`:                                                                 nil,
		`["2026-01-01","2026-02-01"]`:                                             nil,
		`{"west":1,"south":2,"east":3}`:                                           nil,
		`7`:                                                                       nil,
		``:                                                                        nil,
	} {
		got, ok := grid.ParseBox([]byte(given))
		if ok != (want != nil) || ok && got != *want {
			t.Errorf("%s: %v, %v", given, got, ok)
		}
	}
}

// A box becomes an area, across the antimeridian in two parts, and its tiles are boxes; what is no box on the Earth is
// refused.
func TestBox_Area(t *testing.T) {
	g, _ := grid.Named("20x20km")
	for _, b := range []grid.Box{{West: 179.9, South: -0.1, East: -179.9, North: 0.1}, {West: 4, South: 50, East: 4.5,
		North: 50.5}} {
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		area, isBox, err := grid.ParseAnyWithin(nil, raw)
		if err != nil || !isBox {
			t.Fatalf("%+v: %v, %v", b, isBox, err)
		}
		n := 0
		for _, piece := range g.Tiles(area) {
			n++
			around, err := piece.Box().Area()
			if err != nil || !slices.EqualFunc(around.Polygons(), piece, func(a, b grid.Polygon) bool {
				return len(a) == 1 && len(b) == 1
			}) || piece.Box().West >= piece.Box().East {
				t.Errorf("%+v has the tile %v", b, piece)
			}
		}
		if n < 2 {
			t.Errorf("%+v: %d tiles", b, n)
		}
	}
	for given, why := range map[string]string{
		`{"west":500000,"south":5650000,"east":520000,"north":5670000,"crs":32631}`: "the reference system 32631",
		`{"bbox":[51,4,52,5],"crs":"http://www.opengis.net/def/crs/EPSG/0/4326"}`:   "EPSG/0/4326",
		`{"west":1,"south":2,"east":3,"north":4,"base":0,"height":10}`:              "no heights",
		`{"bbox":[1,2,0,3,4,9]}`: "no heights",
		`[1,2,0,3,4,9]`:          "no heights",
	} {
		if _, _, err := grid.ParseAnyWithin(nil, []byte(given)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", given, err)
		}
	}
	for _, given := range []string{`{"bbox":[null,2,3,4]}`, `[1,2,3,null]`, `{"bbox":[1,2,null,3,4,null]}`,
		`{"type":"Polygon","coordinates":[[[null,50],[5,50],[5,51],[4,51],[null,50]]]}`,
		`{"type":"MultiPolygon","coordinates":[[[[4,50],[5,null],[5,51],[4,50]]]]}`} {
		if a, _, err := grid.ParseAnyWithin(nil, []byte(given)); err == nil {
			t.Errorf("%s is an area: %+v", given, a)
		}
	}
	if _, _, err := grid.ParseAnyWithin(nil,
		[]byte(`{"west":1,"south":2,"east":3,"north":4,"crs":null,"base":null}`)); err != nil {
		t.Error(err)
	}
	for _, sides := range [][4]float64{{1, 2, 3, 91}, {1, -91, 3, 4}, {-181, 2, 3, 4}, {1, 2, 181, 4}, {1, 4, 3, 2},
		{1, 2, 1, 4}, {1, 2, 3, 2}} {
		b := grid.Box{West: sides[0], South: sides[1], East: sides[2], North: sides[3]}
		if _, err := b.Area(); err == nil {
			t.Errorf("%+v is accepted", b)
		}
	}
}

// Polygons that were cut at the antimeridian have a box on each side of it, and bounds whose west is greater than their
// east (RFC 7946, section 5.2).
func TestMultiPolygon_Bounds(t *testing.T) {
	for name, row := range map[string]struct{ area, boxes, bounds string }{
		"one side": {`[[4,50],[5,50],[5,51],[4,51],[4,50]]`, `[{4 50 5 51}]`, `{4 50 5 51}`},
		"both sides": {`[[179,-1],[181,-1],[181,2],[179,2],[179,-1]]`, `[{179 -1 180 2} {-180 -1 -179 2}]`,
			`{179 -1 -179 2}`},
		"to the line": {`[[179,-1],[180,-1],[180,1],[179,1],[179,-1]]`, `[{179 -1 180 1}]`, `{179 -1 180 1}`},
		"all the Earth": {`[[-180,-90],[180,-90],[180,90],[-180,90],[-180,-90]]`, `[{-180 -90 180 90}]`,
			`{-180 -90 180 90}`},
	} {
		area, err := grid.ParseWithin(nil, []byte(`{"type":"Polygon","coordinates":[`+row.area+`]}`))
		if err != nil {
			t.Fatal(name, err)
		}
		if m := area.Polygons(); fmt.Sprint(m.Boxes()) != row.boxes || fmt.Sprint(m.Bounds()) != row.bounds {
			t.Errorf("%s: %v, %v", name, m.Boxes(), m.Bounds())
		}
	}
	for _, name := range []string{"h3-1", "h3-3", "20x20km"} {
		g, _ := grid.Named(name)
		area, err := grid.Box{West: 179, South: -10, East: -179, North: -8}.Area()
		if err != nil {
			t.Fatal(err)
		}
		over := 0
		for id, piece := range g.Tiles(area) {
			b := piece.Bounds()
			if b.West > b.East {
				over++
			}
			for _, side := range piece.Boxes() {
				if side.West >= side.East || side.East-side.West > 1 {
					t.Errorf("%s: the tile %v has the box %v", name, id, side)
				}
			}
		}
		if (over > 0) != (name != "20x20km") {
			t.Errorf("%s: %d tiles are on both sides", name, over)
		}
	}
}
