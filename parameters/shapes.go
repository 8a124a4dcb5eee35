package parameters

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// shapes returns the forms that a value may have, the most likely first. The value itself is always among them.
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

// boxes converts GeoJSON to a bounding box, unless GeoJSON is accepted too, and one form of bounding box to another.
//
// An area across the antimeridian has a box whose west is greater than its east, in OGC API as in RFC 7946, section
// 5.2. openEO does not define such boxes, and back-ends compare west and east as least and greatest; there the area is
// not converted, because the box would span the globe.
func (p parameter) boxes(value json.RawMessage) []json.RawMessage {
	b, corners, ok := boxOf(value)
	switch {
	case ok && p.corners && !corners && b.crosses():
		return []json.RawMessage{value}
	case ok && corners != p.corners:
	case !ok && !p.geoJSON:
		var crosses bool
		if b, crosses, ok = extent(value); !ok || crosses && p.corners {
			return []json.RawMessage{value}
		}
	default:
		return []json.RawMessage{value}
	}
	if p.corners {
		return []json.RawMessage{b.corners()}
	}
	return []json.RawMessage{b.ogc()}
}

// cannotCross reports whether a value is an area across the antimeridian, and the parameter a box of openEO, to which it is not converted.
func (p parameter) cannotCross(value json.RawMessage) bool {
	if p.Type != dispatch.BoundingBox {
		return false
	}
	if b, corners, ok := boxOf(value); ok {
		return p.corners && !corners && b.crosses()
	}
	_, crosses, _ := extent(value)
	return crosses
}

// geometries converts a bounding box to a polygon.
func (p parameter) geometries(value json.RawMessage) []json.RawMessage {
	b, _, ok := boxOf(value)
	if !ok || b.crs != nil { // a GeoJSON polygon is always in degrees
		return []json.RawMessage{value}
	}
	return []json.RawMessage{b.polygon(), b.feature(), b.collection()}
}

// asksForCorners reports whether a bounding box is an object with west, south, east and north and not an array, as in
// OGC API - Processes.
func asksForCorners(alternatives []schema) bool {
	i := slices.IndexFunc(alternatives, schema.isBoundingBox)
	if i < 0 {
		return true
	}
	_, west := alternatives[i].Properties["west"]
	return alternatives[i].Subtype == "bounding-box" || west
}

// boxOf reads a bounding box in any form. corners reports whether it has west, south, east and north.
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
	} else if json.Unmarshal(value, &c) != nil || c.Type != "" { // GeoJSON may have a bbox too
		return b, false, false
	}
	switch {
	case slices.Contains(c.BBox, ""): // null, which is no 0
		return b, false, false
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

// ogc returns the form of OGC 18-062r2, section 7.11.2.3; without crs it is CRS84.
func (b box) ogc() json.RawMessage {
	m := map[string]any{"bbox": []json.Number{b.West, b.South, b.East, b.North}}
	if b.crs != nil {
		m["crs"] = b.crs
	}
	return text(m)
}

// polygon returns the box as GeoJSON, cut in two if it crosses the antimeridian (RFC 7946, section 3.1.9).
func (b box) polygon() json.RawMessage {
	if !b.crosses() {
		return text(map[string]any{"type": "Polygon", "coordinates": b.rings()})
	}
	western, eastern := b, b
	western.East, eastern.West = "180", "-180"
	return text(map[string]any{"type": "MultiPolygon", "coordinates": []any{western.rings(), eastern.rings()}})
}

// crosses reports whether the box is in degrees, and its west greater than its east.
func (b box) crosses() bool {
	if !inDegrees(b.crs) {
		return false
	}
	west, err := b.West.Float64()
	east, bad := b.East.Float64()
	return err == nil && bad == nil && west > east
}

func (b box) rings() [][][]json.Number {
	corner := func(x, y json.Number) []json.Number { return []json.Number{x, y} }
	return [][][]json.Number{{corner(b.West, b.South), corner(b.East, b.South), corner(b.East, b.North), corner(b.West, b.North),
		corner(b.West, b.South)}}
}

func (b box) feature() json.RawMessage {
	return text(map[string]any{"type": "Feature", "properties": map[string]any{}, "geometry": b.polygon()})
}

func (b box) collection() json.RawMessage {
	return text(map[string]any{"type": "FeatureCollection", "features": []json.RawMessage{b.feature()}})
}

func text(v any) json.RawMessage {
	raw, err := dispatch.Encode(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}

// dates returns the other forms of a date or of a date with a time; UTC if no zone is given.
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

// intervals returns the other forms of an interval that is written as one text (ISO 8601, "..": open), or whose dates
// lack a zone.
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

// nth returns the n-th other form of a date, or the date.
func nth(value json.RawMessage, n int) json.RawMessage {
	if forms := dates(value); n < len(forms) {
		return forms[n]
	}
	return value
}

// joined returns an interval of two dates as one text, which OGC services expect.
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
