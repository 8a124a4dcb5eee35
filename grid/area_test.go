package grid

import (
	"encoding/json"
	"math"
	"testing"
)

// TestAreaOf compares areas with those of a sphere of the Earth's radius, from which the ellipsoid differs by less than
// a hundredth.
func TestAreaOf(t *testing.T) {
	const radius = 6371.0088 // km
	ofBox := func(west, south, east, north float64) float64 {
		radians := math.Pi / 180
		return radius * radius * (east - west) * radians * (math.Sin(north*radians) - math.Sin(south*radians))
	}
	for value, want := range map[string]float64{
		`{"west":5,"south":50,"east":6,"north":51}`:       ofBox(5, 50, 6, 51),
		`{"west":179,"south":-10,"east":-179,"north":-9}`: ofBox(179, -10, 181, -9),
		`[5,50,6,51]`: ofBox(5, 50, 6, 51),
		`{"type":"Polygon","coordinates":[[[5,0],[6,0],[6,1],[5,1],[5,0]]]}`: ofBox(5, 0, 6, 1),
		`{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4],[0,4],[0,0]],[[1,1],[1,3],[3,3],[3,1],[1,1]]]}`: ofBox(0,
			0, 4, 4) - ofBox(1, 1, 3, 3),
		`{"type":"Feature","properties":{},"geometry":{"type":"Polygon","coordinates":[[[5,0],[6,0],[6,1],[5,0]]]}}`: ofBox(5,
			0, 6, 1) / 2,
		`{"type":"Point","coordinates":[5,50]}`: 0,
		`"2024-01"`:                             0,
		`["2024-01-01","2024-02-01"]`:           0, `7`: 0, `{}`: 0, `[1,2,3`: 0, ``: 0,
	} {
		if got := AreaOf(json.RawMessage(value)); math.Abs(got-want) > want/100 {
			t.Errorf("%s: %v km², want %v", value, got, want)
		}
	}
}
