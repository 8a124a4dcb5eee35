package parameters

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// shapes gives the forms in which a value may be meant, the likeliest first. The value itself is always one of them, and
// the only one where nothing else says the same.
func (p parameter) shapes(value json.RawMessage) []json.RawMessage {
	var others []json.RawMessage
	switch p.Type {
	case dispatch.BoundingBox:
		return p.boxes(value)
	case dispatch.Polygon:
		return p.geometries(value)
	case dispatch.DateTime:
		others = dates(value)
	case dispatch.DateInterval:
		others = intervals(value)
	case dispatch.String:
		others = joined(value)
	}
	return append([]json.RawMessage{value}, others...)
}

// box is a bounding box in the form of openEO, west, south, east and north; the others keep crs, base and height.
type box struct {
	West, South, East, North json.Number
	crs                      json.RawMessage
}

// boxes turns GeoJSON into a bounding box unless GeoJSON is asked for as well, and one form of bounding box into another.
func (p parameter) boxes(value json.RawMessage) []json.RawMessage {
	leaf := p.leaf(schema.isBoundingBox)
	b, corners, ok := boxOf(value)
	switch {
	case ok && corners != leaf.asksForCorners():
	case !ok && p.leaf(schema.isGeoJSON) == nil:
		if b, ok = extent(value); !ok {
			return []json.RawMessage{value}
		}
	default:
		return []json.RawMessage{value}
	}
	if leaf.asksForCorners() {
		return []json.RawMessage{b.corners()}
	}
	return []json.RawMessage{b.ogc()}
}

// geometries turns a bounding box into a polygon.
func (p parameter) geometries(value json.RawMessage) []json.RawMessage {
	b, _, ok := boxOf(value)
	if !ok || b.crs != nil { // a polygon of GeoJSON has degrees only
		return []json.RawMessage{value}
	}
	return []json.RawMessage{b.polygon(), b.feature(), b.collection()}
}

func (p parameter) leaf(is func(schema) bool) *schema {
	if i := slices.IndexFunc(p.leaves, is); i >= 0 {
		return &p.leaves[i]
	}
	return nil
}

// asksForCorners reports whether west, south, east and north are asked for and not an array, as OGC API - Processes does.
func (s *schema) asksForCorners() bool {
	if s == nil {
		return true
	}
	_, west := s.Properties["west"]
	return s.Subtype == "bounding-box" || west
}

// boxOf reads a bounding box in any of its forms. corners tells that it has west, south, east and north.
func boxOf(value json.RawMessage) (b box, corners, ok bool) {
	var c struct {
		West, South, East, North *json.Number
		BBox                     []json.Number   `json:"bbox"`
		CRS                      json.RawMessage `json:"crs"`
		Type                     string          `json:"type"`
	}
	if bytes.HasPrefix(bytes.TrimSpace(value), []byte("[")) {
		if json.Unmarshal(value, &c.BBox) != nil {
			return b, false, false
		}
	} else if json.Unmarshal(value, &c) != nil || c.Type != "" { // GeoJSON may have a bbox as well
		return b, false, false
	}
	switch {
	case c.West != nil && c.South != nil && c.East != nil && c.North != nil:
		return box{*c.West, *c.South, *c.East, *c.North, c.CRS}, true, true
	case len(c.BBox) == 4:
		return box{c.BBox[0], c.BBox[1], c.BBox[2], c.BBox[3], c.CRS}, false, true
	case len(c.BBox) == 6:
		return box{c.BBox[0], c.BBox[1], c.BBox[3], c.BBox[4], c.CRS}, false, true
	}
	return b, false, false
}

func (b box) corners() json.RawMessage {
	m := map[string]any{"west": b.West, "south": b.South, "east": b.East, "north": b.North}
	if b.crs != nil {
		m["crs"] = b.crs
	}
	return text(m)
}

// ogc is the form of OGC 18-062r2, 7.11.2.3; without crs it is CRS84.
func (b box) ogc() json.RawMessage {
	m := map[string]any{"bbox": []json.Number{b.West, b.South, b.East, b.North}}
	if b.crs != nil {
		m["crs"] = b.crs
	}
	return text(m)
}

func (b box) polygon() json.RawMessage {
	corner := func(x, y json.Number) []json.Number { return []json.Number{x, y} }
	ring := [][]json.Number{corner(b.West, b.South), corner(b.East, b.South), corner(b.East, b.North), corner(b.West, b.North),
		corner(b.West, b.South)}
	return text(map[string]any{"type": "Polygon", "coordinates": [][][]json.Number{ring}})
}

func (b box) feature() json.RawMessage {
	return text(map[string]any{"type": "Feature", "properties": map[string]any{}, "geometry": b.polygon()})
}

func (b box) collection() json.RawMessage {
	return text(map[string]any{"type": "FeatureCollection", "features": []json.RawMessage{b.feature()}})
}

func text(v any) json.RawMessage {
	raw, err := marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}

// extent is the bounding box of GeoJSON of any kind. One that crosses the antimeridian (RFC 7946, 5.2: its parts lie on
// both sides) is not told apart, and becomes a box round the globe.
func extent(value json.RawMessage) (b box, ok bool) {
	e := bounds{value: [4]float64{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}}
	if !e.geoJSON(value, 0) || math.IsInf(e.value[0], 0) {
		return b, false
	}
	return box{e.text[0], e.text[1], e.text[2], e.text[3], nil}, true
}

// bounds keeps the least and greatest numbers in the digits in which they were given.
type bounds struct {
	value [4]float64 // west, south, east, north
	text  [4]json.Number
}

func (e *bounds) geoJSON(raw json.RawMessage, depth int) bool {
	var g struct {
		Type        string            `json:"type"`
		Coordinates json.RawMessage   `json:"coordinates"`
		Geometry    json.RawMessage   `json:"geometry"`
		Geometries  []json.RawMessage `json:"geometries"`
		Features    []json.RawMessage `json:"features"`
	}
	if depth > deepest || json.Unmarshal(raw, &g) != nil || !slices.Contains(geometries, g.Type) {
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
	return g.Coordinates == nil || e.positions(g.Coordinates, 0)
}

// positions takes in nested arrays of positions.
func (e *bounds) positions(raw json.RawMessage, depth int) bool {
	var position []json.Number
	if json.Unmarshal(raw, &position) == nil {
		return len(position) == 0 || len(position) > 1 && e.position(position)
	}
	var nested []json.RawMessage
	if depth > deepest || json.Unmarshal(raw, &nested) != nil {
		return false
	}
	for _, part := range nested {
		if !e.positions(part, depth+1) {
			return false
		}
	}
	return true
}

func (e *bounds) position(p []json.Number) bool {
	for axis, text := range p[:2] {
		v, err := text.Float64()
		if err != nil {
			return false
		}
		if v < e.value[axis] {
			e.value[axis], e.text[axis] = v, text
		}
		if v > e.value[axis+2] {
			e.value[axis+2], e.text[axis+2] = v, text
		}
	}
	return true
}

// dates gives the other forms of a date or a date with a time: UTC where no zone is given.
func dates(value json.RawMessage) []json.RawMessage {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return nil
	}
	switch {
	case len(s) == len("2006-01-02"):
		return []json.RawMessage{text(s + "T00:00:00Z")}
	case len(s) > len("2006-01-02") && s[10] == ' ':
		s = s[:10] + "T" + s[11:]
		fallthrough
	case len(s) > len("2006-01-02"):
		return []json.RawMessage{text(s), text(s + "Z"), text(s[:10])}
	}
	return nil
}

// intervals reads an interval written as one text (ISO 8601, "..": open), and dates that lack a zone.
func intervals(value json.RawMessage) (all []json.RawMessage) {
	var s string
	ends := []json.RawMessage{}
	if json.Unmarshal(value, &s) == nil {
		from, to, ok := strings.Cut(s, "/")
		if !ok {
			return nil
		}
		ends = []json.RawMessage{end(from), end(to)}
		all = append(all, text(ends))
	} else if json.Unmarshal(value, &ends) != nil || len(ends) != 2 {
		return all
	}
	for i := range 3 {
		all = append(all, text([]json.RawMessage{nth(ends[0], i), nth(ends[1], i)}))
	}
	return all
}

func end(s string) json.RawMessage {
	if s == "" || s == ".." {
		return json.RawMessage("null")
	}
	return text(s)
}

// nth gives the n-th other form of a date, or the date.
func nth(value json.RawMessage, n int) json.RawMessage {
	if forms := dates(value); n < len(forms) {
		return forms[n]
	}
	return value
}

// joined writes an interval given as two dates as one text, which is how OGC services take it.
func joined(value json.RawMessage) []json.RawMessage {
	var ends []*string
	if json.Unmarshal(value, &ends) != nil || len(ends) != 2 {
		return nil
	}
	texts := [2]string{"..", ".."}
	for i, s := range ends {
		if s != nil {
			texts[i] = *s
		}
	}
	return []json.RawMessage{text(texts[0] + "/" + texts[1])}
}
