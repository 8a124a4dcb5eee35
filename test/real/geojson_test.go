package real

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
)

// geoJSONFaults checks a document against RFC 7946 and returns its faults, each with the path of the member.
func geoJSONFaults(raw []byte) []string {
	c := &geoJSONCheck{}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return []string{err.Error()}
	}
	c.object(v, "$")
	return c.faults
}

type geoJSONCheck struct{ faults []string }

func (c *geoJSONCheck) fault(at, format string, args ...any) {
	c.faults = append(c.faults, at+": "+fmt.Sprintf(format, args...))
}

var depths = map[string]int{"Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2,
	"MultiPolygon": 3}

func (c *geoJSONCheck) object(v any, at string) {
	o, ok := v.(map[string]any)
	if !ok {
		c.fault(at, "not an object")
		return
	}
	kind, _ := o["type"].(string)
	c.members(o, kind, at)
	c.box(o["bbox"], at+".bbox")
	_, geometry := depths[kind]
	switch {
	case geometry:
		c.coordinates(kind, o["coordinates"], at+".coordinates")
	case kind == "GeometryCollection":
		c.each(o["geometries"], at+".geometries", c.geometry)
	case kind == "Feature":
		c.feature(o, at)
	case kind == "FeatureCollection":
		c.each(o["features"], at+".features", func(v any, at string) {
			if f, _ := v.(map[string]any); f["type"] != "Feature" {
				c.fault(at, "not a Feature")
				return
			}
			c.object(v, at)
		})
	default:
		c.fault(at, "not a GeoJSON type: %q", kind)
	}
}

// members reports members that belong to other GeoJSON types (section 7.1), and the removed member crs (section 4).
func (c *geoJSONCheck) members(o map[string]any, kind, at string) {
	belongs := map[string][]string{"coordinates": nil, "geometries": {"GeometryCollection"}, "geometry": {"Feature"},
		"properties": {"Feature"}, "features": {"FeatureCollection"}, "crs": {}}
	for name, kinds := range belongs {
		_, has := o[name]
		_, geometry := depths[kind]
		if has && !slices.Contains(kinds, kind) && !(name == "coordinates" && geometry) {
			c.fault(at, "a %s must not have the member %s", kind, name)
		}
	}
}

func (c *geoJSONCheck) feature(o map[string]any, at string) {
	geometry, has := o["geometry"]
	if !has {
		c.fault(at, "no geometry")
	} else if geometry != nil {
		c.geometry(geometry, at+".geometry")
	}
	properties, has := o["properties"]
	if _, object := properties.(map[string]any); !has || properties != nil && !object {
		c.fault(at, "properties are neither an object nor null")
	}
	switch o["id"].(type) {
	case nil, string, float64:
	default:
		c.fault(at, "the id is neither a string nor a number")
	}
}

func (c *geoJSONCheck) geometry(v any, at string) {
	o, _ := v.(map[string]any)
	kind, _ := o["type"].(string)
	if _, ok := depths[kind]; !ok && kind != "GeometryCollection" {
		c.fault(at, "not a geometry: %q", kind)
		return
	}
	c.object(v, at)
}

func (c *geoJSONCheck) each(v any, at string, check func(any, string)) {
	list, ok := v.([]any)
	if !ok {
		c.fault(at, "not an array")
	}
	for i, inner := range list {
		check(inner, fmt.Sprintf("%s[%d]", at, i))
	}
}

func (c *geoJSONCheck) coordinates(kind string, v any, at string) {
	switch kind {
	case "Point":
		c.position(v, at)
	case "MultiPoint":
		c.each(v, at, c.position)
	case "LineString":
		c.line(v, at)
	case "MultiLineString":
		c.each(v, at, c.line)
	case "Polygon":
		c.polygon(v, at)
	case "MultiPolygon":
		c.each(v, at, c.polygon)
	}
}

// position checks a position: longitude, latitude and an optional height (section 3.1.1), in WGS 84 (section 4).
func (c *geoJSONCheck) position(v any, at string) {
	numbers := floats(v)
	if len(numbers) != 2 && len(numbers) != 3 || math.Abs(numbers[0]) > 180 || math.Abs(numbers[1]) > 90 {
		c.fault(at, "not a position: %v", v)
	}
}

func floats(v any) (all []float64) {
	list, _ := v.([]any)
	for _, n := range list {
		f, ok := n.(float64)
		if !ok {
			return nil
		}
		all = append(all, f)
	}
	return all
}

// line checks that a line has two or more positions, and that none of its edges crosses the antimeridian (section
// 3.1.9).
func (c *geoJSONCheck) line(v any, at string) {
	before := len(c.faults)
	c.each(v, at, c.position)
	list, _ := v.([]any)
	if len(list) < 2 {
		c.fault(at, "%d positions", len(list))
	}
	for i := 1; i < len(list) && len(c.faults) == before; i++ {
		if math.Abs(floats(list[i])[0]-floats(list[i-1])[0]) > 180 {
			c.fault(at, "an edge crosses the antimeridian")
		}
	}
}

// polygon has closed rings (3.1.6): the first counterclockwise, the others, its holes, clockwise.
func (c *geoJSONCheck) polygon(v any, at string) {
	rings, _ := v.([]any)
	if len(rings) == 0 {
		c.fault(at, "no rings")
	}
	for i, ring := range rings {
		c.ring(ring, i > 0, fmt.Sprintf("%s[%d]", at, i))
	}
}

func (c *geoJSONCheck) ring(v any, hole bool, at string) {
	before := len(c.faults)
	c.line(v, at)
	ring, _ := v.([]any)
	if len(ring) < 4 {
		c.fault(at, "%d positions", len(ring))
	}
	if len(c.faults) > before {
		return
	}
	if !slices.Equal(floats(ring[0]), floats(ring[len(ring)-1])) {
		c.fault(at, "the ring is not closed")
	}
	area, origin := 0.0, floats(ring[0])
	for i := 1; i < len(ring); i++ {
		p, q := floats(ring[i-1]), floats(ring[i])
		area += (p[0]-origin[0])*(q[1]-origin[1]) - (q[0]-origin[0])*(p[1]-origin[1])
	}
	if hole == (area > 0) || area == 0 {
		c.fault(at, "the ring has the wrong winding order or no area")
	}
}

// box checks that a bounding box goes from south-west to north-east (section 5). A box that crosses the antimeridian
// may have its west edge east of its east edge (section 5.2).
func (c *geoJSONCheck) box(v any, at string) {
	if v == nil {
		return
	}
	b := floats(v)
	n := len(b) / 2
	if len(b) != 4 && len(b) != 6 || b[1] > b[n+1] || math.Abs(b[0]) > 180 || math.Abs(b[n]) > 180 ||
		math.Abs(b[1]) > 90 || math.Abs(b[n+1]) > 90 {
		c.fault(at, "not a bounding box: %v", v)
	}
}

// TestJudge_OfGeoJSON checks that geoJSONFaults accepts valid documents and finds the faults of invalid ones.
func TestJudge_OfGeoJSON(t *testing.T) {
	const shell = `[[0,0],[4,0],[4,4],[0,4],[0,0]]`
	for raw, good := range map[string]bool{
		`{"type":"Point","coordinates":[1,2]}`:                                                         true,
		`{"type":"Point","coordinates":[1,2,3]}`:                                                       true,
		`{"type":"Point","coordinates":[181,2]}`:                                                       false,
		`{"type":"Point","coordinates":[1]}`:                                                           false,
		`{"type":"Point"}`:                                                                             false,
		`{"type":"Point","coordinates":[1,2],"crs":{}}`:                                                false,
		`{"type":"Point","coordinates":[1,2],"properties":{}}`:                                         false,
		`{"type":"Point","coordinates":[1,2],"bbox":[1,2,1,2]}`:                                        true,
		`{"type":"Point","coordinates":[1,2],"bbox":[1,3,1,2]}`:                                        false,
		`{"type":"LineString","coordinates":[[1,2]]}`:                                                  false,
		`{"type":"LineString","coordinates":[[179,0],[-179,0]]}`:                                       false,
		`{"type":"Polygon","coordinates":[` + shell + `]}`:                                             true,
		`{"type":"Polygon","coordinates":[` + shell + `,[[1,1],[1,2],[2,2],[1,1]]]}`:                   true,
		`{"type":"Polygon","coordinates":[` + shell + `,[[1,1],[2,2],[1,2],[1,1]]]}`:                   false,
		`{"type":"Polygon","coordinates":[[[0,0],[0,4],[4,4],[0,0]]]}`:                                 false,
		`{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4],[0,4]]]}`:                                 false,
		`{"type":"Polygon","coordinates":[]}`:                                                          false,
		`{"type":"MultiPolygon","coordinates":[[` + shell + `]]}`:                                      true,
		`{"type":"MultiPolygon","coordinates":[` + shell + `]}`:                                        false,
		`{"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[1,2]}]}`:            true,
		`{"type":"GeometryCollection","geometries":[{"type":"Feature"}]}`:                              false,
		`{"type":"Feature","geometry":null,"properties":null}`:                                         true,
		`{"type":"Feature","geometry":null,"properties":null,"id":[]}`:                                 false,
		`{"type":"Feature","geometry":null}`:                                                           false,
		`{"type":"Feature","properties":{}}`:                                                           false,
		`{"type":"FeatureCollection","features":[{"type":"Feature","geometry":null,"properties":{}}]}`: true,
		`{"type":"FeatureCollection","features":[{"type":"Point","coordinates":[1,2]}]}`:               false,
		`{"type":"FeatureCollection"}`:                                                                 false,
		`{"type":"Circle"}`:                                                                            false,
		`[]`:                                                                                           false,
	} {
		if faults := geoJSONFaults([]byte(raw)); good != (len(faults) == 0) {
			t.Errorf("%s: %q", raw, faults)
		}
	}
}
