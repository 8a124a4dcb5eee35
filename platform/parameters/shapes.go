package parameters

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// shapes yields the forms that a value may have, the most likely first. The value itself is always among them, and its
// other forms are made only if it does not fit.
func (p parameter) shapes(value json.RawMessage) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		var others func(json.RawMessage) []json.RawMessage
		switch p.Type {
		case dispatch.BoundingBox:
			slices.Values(p.boxes(value))(yield)
			return
		case dispatch.Polygon:
			slices.Values(p.geometries(value))(yield)
			return
		case dispatch.DateTime:
			others = dates
		case dispatch.DateInterval:
			others = intervals
		case dispatch.String:
			others = joined
		}
		if yield(value) && others != nil {
			slices.Values(others(value))(yield)
		}
	}
}

type boxForm int

const (
	boxOfCorners boxForm = iota // an object with west, south, east and north, as in openEO
	boxOfOGC                    // an object with bbox, and perhaps crs (OGC 18-062r2, section 7.11.2.3)
	boxAsList                   // an array of numbers
)

type box struct {
	West, South, East, North json.Number
	bbox                     []json.Number   // the four or six numbers of an OGC form; nil: it had another form
	crs                      json.RawMessage // as given; nil: none
	lonLat                   bool            // its sides are certainly longitudes and latitudes
}

// boxes converts GeoJSON to a bounding box, unless GeoJSON is accepted too, and one form of bounding box to another.
//
// An area across the antimeridian has a box whose west is greater than its east, in OGC API as in RFC 7946, section
// 5.2. openEO does not define such boxes, and back-ends compare west and east as least and greatest; there the area is
// not converted, because the box would span the globe.
func (p parameter) boxes(value json.RawMessage) (all []json.RawMessage) {
	b, form, ok := boxOf(value)
	switch {
	case ok && form == p.box.form:
		all = append(all, value)
		if form != boxOfOGC || !b.lonLat {
			return all
		}
	case ok:
		ok = p.box.form != boxOfCorners || !b.crosses()
	case !ok && !p.geoJSON:
		var crosses bool
		if b, crosses, ok = extent(value); crosses && p.box.form == boxOfCorners {
			ok = false
		}
	}
	if ok {
		all = append(all, p.box.convert(b)...)
	}
	if len(all) == 0 {
		return []json.RawMessage{value}
	}
	return all
}

// boxFormat is the form of bounding box that a parameter takes, and how its reference system is named.
type boxFormat struct {
	form boxForm
	// the names that the schema has for longitude and latitude, the clearest first; never empty
	degrees []json.RawMessage
	implied bool // a box without crs is in longitude and latitude
}

// crs84 is the reference system of a box without crs in OGC API - Processes.
var crs84 = json.RawMessage(`"http://www.opengis.net/def/crs/OGC/1.3/CRS84"`)

// newBoxFormat reads which form of bounding box the first alternative that is one asks for.
func newBoxFormat(alternatives []schema) boxFormat {
	f := boxFormat{implied: true}
	i := slices.IndexFunc(alternatives, schema.isBoundingBox)
	if i < 0 {
		return f
	}
	s := alternatives[i]
	if _, west := s.Properties["west"]; s.Subtype == "bounding-box" || west {
		return f
	}
	if f.form = boxOfOGC; s.is("array") {
		f.form = boxAsList
	}
	if crs := s.Properties["crs"]; crs != nil {
		for _, l := range s.doc.schema(crs).alternatives(0) {
			f.implied = f.implied && (l.Default == nil || namesDegrees(l.Default) && !latitudeFirst(l.Default))
			for _, name := range append([]json.RawMessage{l.Default}, l.options()...) {
				if namesDegrees(name) {
					f.degrees = append(f.degrees, name)
				}
			}
		}
	}
	if !slices.ContainsFunc(f.degrees, func(name json.RawMessage) bool { return !latitudeFirst(name) }) {
		f.degrees = append(f.degrees, crs84)
	}
	slices.SortStableFunc(f.degrees, func(a, b json.RawMessage) int { return clarity(a) - clarity(b) })
	return f
}

// clarity orders names of longitude and latitude: CRS84, EPSG:4326, whose axes are read either way, and a URN or URI of
// EPSG:4326, for which numbers have to change places.
func clarity(name json.RawMessage) int {
	switch {
	case namesCRS84(name):
		return 0
	case latitudeFirst(name):
		return 2
	}
	return 1
}

// convert returns a box in the parameter's form: once for each name that its reference system may have, the most likely
// first; none if it cannot be converted. The names of longitude and latitude are interchangeable. Any other is kept as
// it was given.
func (f boxFormat) convert(b box) (all []json.RawMessage) {
	switch {
	case f.form == boxOfCorners:
		return []json.RawMessage{b.corners()}
	case f.form == boxAsList && b.lonLat:
		return []json.RawMessage{b.list()}
	case f.form == boxAsList:
		return nil
	case !b.lonLat:
		return []json.RawMessage{b.ogc(b.crs)}
	}
	if f.implied {
		all = append(all, b.ogc(nil))
	}
	for _, name := range f.degrees {
		if latitudeFirst(name) {
			all = append(all, b.swapped().ogc(name))
		} else {
			all = append(all, b.ogc(name))
		}
	}
	return all
}

// cannotCross reports whether a value is an area across the antimeridian, and the parameter a box of openEO, to which
// it is not converted.
func (p parameter) cannotCross(value json.RawMessage) bool {
	if p.Type != dispatch.BoundingBox {
		return false
	}
	if b, form, ok := boxOf(value); ok {
		return p.box.form == boxOfCorners && form != boxOfCorners && b.crosses()
	}
	_, crosses, _ := extent(value)
	return crosses
}

func (p parameter) geometries(value json.RawMessage) []json.RawMessage {
	b, _, ok := boxOf(value)
	if !ok || !b.lonLat { // as a GeoJSON polygon always is
		return []json.RawMessage{value}
	}
	return []json.RawMessage{b.polygon(), b.feature(), b.collection()}
}

func boxOf(value json.RawMessage) (b box, form boxForm, ok bool) {
	var c struct {
		West, South, East, North *json.Number
		BBox                     []json.Number   `json:"bbox"`
		CRS                      json.RawMessage `json:"crs"`
		Type                     string          `json:"type"`
	}
	form = boxOfOGC
	if bytes.HasPrefix(bytes.TrimSpace(value), []byte("[")) {
		form = boxAsList
		if json.Unmarshal(value, &c.BBox) != nil {
			return b, form, false
		}
	} else if json.Unmarshal(value, &c) != nil || c.Type != "" { // GeoJSON may have a bbox too
		return b, form, false
	}
	if b = (box{bbox: c.BBox}); !isNull(c.CRS) {
		b.crs = c.CRS
	}
	switch {
	case slices.Contains(c.BBox, ""): // null, which is no 0
		return b, form, false
	case c.West != nil && c.South != nil && c.East != nil && c.North != nil:
		form, b.bbox = boxOfCorners, nil
		b.West, b.South, b.East, b.North = *c.West, *c.South, *c.East, *c.North
	case len(c.BBox) == 4:
		b.West, b.South, b.East, b.North = c.BBox[0], c.BBox[1], c.BBox[2], c.BBox[3]
	case len(c.BBox) == 6:
		b.West, b.South, b.East, b.North = c.BBox[0], c.BBox[1], c.BBox[3], c.BBox[4]
	default:
		return b, form, false
	}
	// The corners of openEO are named. In any other form, EPSG:4326 may mean that latitudes come first.
	b.lonLat = b.crs == nil || namesCRS84(b.crs) || form == boxOfCorners && namesDegrees(b.crs)
	return b, form, true
}

// corners returns the form of openEO; without crs it is EPSG:4326.
func (b box) corners() json.RawMessage {
	m := map[string]any{"west": b.West, "south": b.South, "east": b.East, "north": b.North}
	if b.crs != nil && !namesCRS84(b.crs) {
		m["crs"] = b.crs
	}
	return text(m)
}

func (b box) list() json.RawMessage {
	return text([]json.Number{b.West, b.South, b.East, b.North})
}

// ogc returns the form of OGC 18-062r2, section 7.11.2.3; without crs it is CRS84.
func (b box) ogc(crs json.RawMessage) json.RawMessage {
	m := map[string]any{"bbox": b.bbox}
	if b.bbox == nil {
		m["bbox"] = []json.Number{b.West, b.South, b.East, b.North}
	}
	if crs != nil {
		m["crs"] = crs
	}
	return text(m)
}

// swapped returns the box with latitudes in the place of longitudes.
func (b box) swapped() box {
	s := box{West: b.South, South: b.West, East: b.North, North: b.East}
	if len(b.bbox) == 6 {
		s.bbox = []json.Number{b.bbox[1], b.bbox[0], b.bbox[2], b.bbox[4], b.bbox[3], b.bbox[5]}
	}
	return s
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
	return [][][]json.Number{{corner(b.West, b.South), corner(b.East, b.South), corner(b.East, b.North),
		corner(b.West, b.North), corner(b.West, b.South)}}
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

// joined returns an interval of two dates as one text, which OGC services expect. Any other list of texts is no
// interval.
func joined(value json.RawMessage) []json.RawMessage {
	var ends []*string
	if json.Unmarshal(value, &ends) != nil || len(ends) != 2 || ends[0] == nil && ends[1] == nil {
		return nil
	}
	texts := [2]string{"..", ".."}
	for i, s := range ends {
		if s == nil {
			continue
		}
		if _, isTime := timeOf(*s); !isTime {
			return nil
		}
		texts[i] = *s
	}
	return []json.RawMessage{text(texts[0] + "/" + texts[1])}
}
