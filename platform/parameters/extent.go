package parameters

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
)

// extent is the bounding box of any GeoJSON, with the digits of its coordinates. crosses reports whether the area lies
// on both sides of the antimeridian and touches or crosses it: then west is greater than east. There is no extent if
// that is ambiguous.
func extent(value json.RawMessage) (b box, crosses, ok bool) {
	var e envelope
	if !e.geoJSON(value, 0) || len(e.spans) == 0 || e.unclear {
		return b, e.unclear, false
	}
	west, east, crosses := e.longitudes()
	south, north := around(e.latitudes)
	return box{West: west.text, South: south.text, East: east.text, North: north.text, lonLat: true}, crosses, true
}

// ordinate is a coordinate with its original text.
type ordinate struct {
	value float64
	text  json.Number
}

// span is a range of longitudes. Its first longitude is greater than its second if it crosses the antimeridian.
type span struct{ west, east ordinate }

// envelope collects the positions of a geometry.
type envelope struct {
	spans     []span // of each border, line and point
	latitudes []ordinate
	unclear   bool // a border can be read in two ways
}

func (e *envelope) geoJSON(raw json.RawMessage, depth int) bool {
	var g struct {
		Type        string            `json:"type"`
		Coordinates json.RawMessage   `json:"coordinates"`
		Geometry    json.RawMessage   `json:"geometry"`
		Geometries  []json.RawMessage `json:"geometries"`
		Features    []json.RawMessage `json:"features"`
	}
	if depth > deepest || json.Unmarshal(raw, &g) != nil || !slices.Contains(GeoJSONTypes, g.Type) {
		return false
	}
	if g.Type == "Feature" {
		return e.geoJSON(g.Geometry, depth+1)
	}
	for _, part := range slices.Concat(g.Features, g.Geometries) {
		if !e.geoJSON(part, depth+1) {
			return false
		}
	}
	return g.Coordinates == nil || e.coordinates(g.Type, g.Coordinates)
}

type line = [][]json.Number

// coordinates adds the positions of one geometry: single points, lines, and the borders of polygons without their
// holes.
func (e *envelope) coordinates(kind string, raw json.RawMessage) bool {
	var lines []line
	var polygons [][]line
	var err error
	switch kind {
	case "Point":
		lines = []line{make(line, 1)}
		err = json.Unmarshal(raw, &lines[0][0])
	case "LineString":
		lines = make([]line, 1)
		err = json.Unmarshal(raw, &lines[0])
	case "MultiPoint":
		var points line
		err = json.Unmarshal(raw, &points)
		for _, p := range points {
			lines = append(lines, line{p})
		}
	case "MultiLineString":
		err = json.Unmarshal(raw, &lines)
	case "Polygon":
		polygons = make([][]line, 1)
		err = json.Unmarshal(raw, &polygons[0])
	case "MultiPolygon":
		err = json.Unmarshal(raw, &polygons)
	}
	for _, rings := range polygons {
		lines = append(lines, rings[:min(len(rings), 1)]...)
	}
	return err == nil && !slices.ContainsFunc(lines, func(l line) bool { return !e.line(l, polygons != nil) })
}

// line adds positions that are connected. A step of more than half the globe and less than all of it crosses the
// antimeridian if that makes the line narrower. A border must then also be oriented as RFC 7946, section 3.1.6,
// requires; otherwise it can be read in two ways.
func (e *envelope) line(l line, border bool) bool {
	var all, shifted []ordinate
	var before, turn, area float64
	for i, p := range l {
		at, ok := numbers(p)
		if !ok {
			return false
		}
		if step := at[0] - before; i > 0 && math.Abs(step) > 180 && math.Abs(step) < 360 {
			turn -= math.Copysign(360, step)
		}
		before = at[0]
		all, shifted = append(all, ordinate{at[0], p[0]}), append(shifted, ordinate{at[0] + turn, p[0]})
		e.latitudes = append(e.latitudes, ordinate{at[1], p[1]})
		if i > 0 {
			area += shifted[i-1].value*at[1] - shifted[i].value*e.latitudes[len(e.latitudes)-2].value
		}
	}
	if len(l) == 0 {
		return true
	}
	var written, jumping span
	written.west, written.east = around(all)
	jumping.west, jumping.east = around(shifted)
	if jumping.width() >= written.width() {
		e.spans = append(e.spans, written)
		return true
	}
	e.unclear = e.unclear || border && area < 0
	e.spans = append(e.spans, span{jumping.west.written(), jumping.east.written()})
	return true
}

func numbers(position []json.Number) (at [2]float64, ok bool) {
	if len(position) < 2 {
		return at, false
	}
	lon, err := position[0].Float64()
	lat, bad := position[1].Float64()
	return [2]float64{lon, lat}, err == nil && bad == nil
}

func (s span) width() float64 { return s.east.value - s.west.value }

// written is the value before it was shifted by 360 degrees.
func (o ordinate) written() ordinate {
	o.value, _ = o.text.Float64()
	return o
}

// around returns the least and the greatest of coordinates.
func around(all []ordinate) (least, greatest ordinate) {
	return slices.MinFunc(all, byValue), slices.MaxFunc(all, byValue)
}

func byValue(a, b ordinate) int { return cmp.Compare(a.value, b.value) }

// longitudes returns the range that contains all spans. The range crosses the antimeridian if a span does, or if one
// span ends there and another begins there, as cut areas do (RFC 7946, section 3.1.9); then it leaves out the widest
// gap between them.
func (e *envelope) longitudes() (west, east ordinate, crosses bool) {
	var flat []span
	var ends, begins bool
	for _, s := range e.spans {
		if s.west.value > s.east.value {
			crosses = true
			flat = append(flat, span{s.west, ordinate{180, "180"}}, span{ordinate{-180, "-180"}, s.east})
			continue
		}
		flat = append(flat, s)
		ends, begins = ends || s.east.value == 180 && s.west.value > -180, begins || s.west.value == -180 &&
			s.east.value < 180
	}
	slices.SortFunc(flat, func(a, b span) int { return byValue(a.west, b.west) })
	west, east = flat[0].west, flat[0].east
	var gap span // beginning at its western end
	for _, s := range flat {
		if s.west.value-east.value > gap.width() {
			gap = span{east, s.west}
		}
		_, east = around([]ordinate{east, s.east})
	}
	if crosses = crosses || ends && begins; !crosses || gap == (span{}) {
		return west, east, false
	}
	return gap.east, gap.west, true
}
