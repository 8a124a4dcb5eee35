package simulator

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
)

var winter = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// valueAt reads a value of a raster of floating point.
func valueAt(r raster, x, y, band int) float64 {
	at := len(r.head()) + 4*(band+len(r.bands)*(x+r.columns*y))
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(r.encode()[at:])))
}

// TestRaster_TilesFormOnePicture: adjacent tiles have pixels of one size on one grid, without a gap and without
// overlap, and their values go on across the border.
func TestRaster_TilesFormOnePicture(t *testing.T) {
	const border = 4.2503 // within a pixel
	west := ndvi.over(scene{box{4, 51, border, 51.25}, june[0], june[1]})
	east := ndvi.over(scene{box{border, 51.0004, 4.5, 51.2504}, june[0], june[1]})
	if west.degrees != east.degrees || west.west+west.columns != east.west {
		t.Fatalf("pixels of %v and %v degrees; %d columns from %d on, then from %d on", west.degrees, east.degrees,
			west.columns, west.west, east.west)
	}
	for band, name := range west.bands {
		low, high := math.Inf(1), math.Inf(-1)
		for y := 0; y < west.rows; y += 20 {
			a, b := valueAt(west, west.columns-1, y, band), valueAt(east, 0, y, band)
			if math.Abs(a-b) > 0.03 {
				t.Errorf("%s, row %d: %v and %v on the sides of the border", name, y, a, b)
			}
			low, high = min(low, a), max(high, a)
		}
		if high-low < 0.05 {
			t.Errorf("%s: all values between %v and %v", name, low, high)
		}
	}
	if large := ndvi.over(scene{area: box{-10, 35, 30, 60}}); large.columns*large.rows > mostPixels {
		t.Errorf("a continent has %d x %d pixels", large.columns, large.rows)
	}
	if small := ndvi.over(scene{area: box{4, 51, 4.0001, 51.0001}}); small.columns != 1 || small.rows != 1 {
		t.Errorf("a garden has %d x %d pixels", small.columns, small.rows)
	}
	across := ndvi.over(scene{area: box{179.9, -17, -179.9, -16.9}})
	if across.columns != 200 || across.rows != 100 {
		t.Errorf("across the antimeridian are %d x %d pixels", across.columns, across.rows)
	}
}

// TestRaster_FollowsTheSeason: two dates differ, and what was never seen clearly has no data.
func TestRaster_FollowsTheSeason(t *testing.T) {
	area := box{4, 51, 5, 51.5}
	cold := ndvi.over(scene{area, winter, winter})
	warm := ndvi.over(scene{area, june[0], june[1]})
	empty, differ, all := 0, 0, 0
	for y := 0; y < warm.rows; y += 50 {
		for x := 0; x < warm.columns; x += 50 {
			a, b := valueAt(cold, x, y, 0), valueAt(warm, x, y, 0)
			all++
			if math.IsNaN(a) {
				empty++
			} else if b-a > 0.02 {
				differ++
			}
		}
	}
	if empty == 0 || empty > all/3 || differ < all/2 {
		t.Errorf("of %d pixels %d have no data in winter, and %d are greener in summer", all, empty, differ)
	}
	if a, b := (scene{area, winter, winter}).mean(), (scene{area, june[0], june[1]}).mean(); a >= b {
		t.Errorf("the mean is %v in winter and %v in summer", a, b)
	}
}

// TestRaster_LandCover: each class is somewhere, and no other value.
func TestRaster_LandCover(t *testing.T) {
	r := cover.over(scene{area: box{4, 51, 5, 51.5}})
	counts := map[byte]int{}
	for _, class := range r.encode()[len(r.head()):] {
		counts[class]++
	}
	for i, c := range covers {
		if counts[byte(i+1)] == 0 {
			t.Errorf("there is no %s", c.name)
		}
	}
	if len(counts) != len(covers) {
		t.Errorf("the values are %v", counts)
	}
}

func TestSceneOf_Times(t *testing.T) {
	for doc, want := range map[string][2]string{
		`{"process":{"temporal_extent":["2024-03-01","2024-04-01T12:00:00+02:00"]}}`: {"2024-03-01", "2024-04-01"},
		`{"datetime":"2024-03-01T00:00:00Z","name":"2024"}`:                          {"2024-03-01", "2024-03-01"},
		`{"span":["2024-03-01",null]}`:                                               {"2024-03-01", "2024-03-01"},
		`{"words":["a","b"]}`:                                                        {"2024-06-01", "2024-07-01"},
		`not JSON`:                                                                   {"2024-06-01", "2024-07-01"},
	} {
		s := sceneOf([]byte(doc))
		if got := [2]string{s.from.Format(time.DateOnly), s.to.Format(time.DateOnly)}; got != want {
			t.Errorf("%s: %v, want %v", doc, got, want)
		}
	}
}

func TestFindBox(t *testing.T) {
	for doc, want := range map[string]box{
		`{"a":[{"west":1,"south":2,"east":3,"north":4}]}`:                               {1, 2, 3, 4},
		`{"bbox":[1,2,3,4]}`:                                                            {1, 2, 3, 4},
		`{"type":"Polygon","coordinates":[[[1,2],[3,2,9],[3,4],[1,2]]]}`:                {1, 2, 3, 4},
		`{"area":{"type":"MultiPolygon","coordinates":[[[[1,2],[2,3]]],[[[3,4]]]]}}`:    {1, 2, 3, 4},
		`{"type":"Point","coordinates":[1,2]}`:                                          everywhere,
		`{"coordinates":[]}`:                                                            everywhere,
		`{"x":{"coordinates":"none"},"y":{"west":1,"south":2,"east":3,"north":"four"}}`: everywhere,
		`not JSON`: everywhere,
	} {
		if got := findBox([]byte(doc)); got != want {
			t.Errorf("%s: %v, want %v", doc, got, want)
		}
	}
}
