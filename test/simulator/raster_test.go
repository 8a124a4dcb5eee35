package simulator

import (
	"encoding/binary"
	"math"
	"testing"
)

// TestRaster_TilesFormOnePicture compares the values on both sides of the border of adjacent tiles.
func TestRaster_TilesFormOnePicture(t *testing.T) {
	west, east := raster{box{4, 51, 4.25, 51.25}}, raster{box{4.25, 51, 4.5, 51.25}}
	value := func(r raster, x, y, band int) float64 {
		at := len(r.head()) + 4*(band+rasterBands*(x+rasterSide*y))
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(r.encode()[at:])))
	}
	for band := range rasterBands {
		low, high := math.Inf(1), math.Inf(-1)
		for y := 0; y < rasterSide; y += 20 {
			a, b := value(west, rasterSide-1, y, band), value(east, 0, y, band)
			if math.Abs(a-b) > 0.02 {
				t.Errorf("band %d, row %d: %v and %v on the sides of the border", band, y, a, b)
			}
			low, high = min(low, a), max(high, a)
		}
		if high-low < 0.05 {
			t.Errorf("band %d: all values between %v and %v", band, low, high)
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
