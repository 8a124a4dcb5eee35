package grid

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
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
		if got := AreaOf(map[string]json.RawMessage{"a": json.RawMessage(value)}); math.Abs(got-want) > want/100 {
			t.Errorf("%s: %v km², want %v", value, got, want)
		}
	}
	if got := AreaOf(map[string]json.RawMessage{"a": []byte("[5,50,6,51]"), "b": []byte("[5,50,8,51]")}); got < 20_000 {
		t.Errorf("the largest of two has %v km²", got)
	}
}

// Two polygons with a thousand crossing teeth each cannot be joined in minutes.
func TestAreaOf_IsBounded(t *testing.T) {
	var across, up []string
	for i := range 1000 {
		y := float64(i) / 100
		for _, p := range [][2]float64{{0, y}, {10, y + 0.002}, {0, y + 0.004}} {
			across = append(across, fmt.Sprintf("[%g,%g]", p[0], p[1]))
			up = append(up, fmt.Sprintf("[%g,%g]", p[1], p[0]))
		}
	}
	ring := func(teeth []string, ends string) string {
		return "[[" + strings.Join(teeth, ",") + "," + ends + ",[0,0]]]"
	}
	combs := `{"type":"MultiPolygon","coordinates":[` + ring(across, "[-1,10],[-1,0]") + "," +
		ring(up, "[10,-1],[0,-1]") + "]}"
	if got := AreaOf(map[string]json.RawMessage{"a": []byte(combs)}); got != 0 {
		t.Errorf("it has %v km²", got)
	}
}
