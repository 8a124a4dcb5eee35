package grid

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Box is a bounding box in degrees. One whose West is greater than its East crosses the antimeridian.
type Box struct {
	West  float64 `json:"west"`
	South float64 `json:"south"`
	East  float64 `json:"east"`
	North float64 `json:"north"`
}

// ParseBox reads a bounding box in longitude and latitude: an object with west, south, east and north as in openEO, an
// object with bbox as in OGC API - Processes, or an array of four or six numbers. ok is false for any other value, and
// for a box in another reference system.
func ParseBox(raw []byte) (b Box, ok bool) {
	w, ok := readBox(raw)
	return w.Box, ok && w.geographic
}

// writtenBox is a box as it was written.
type writtenBox struct {
	Box
	crs        json.RawMessage
	geographic bool // in longitude and latitude, in this order
	heights    bool // it has a base or a height
}

// readBox reads a bounding box in any reference system.
func readBox(raw []byte) (w writtenBox, ok bool) {
	var v struct {
		West, South, East, North *float64
		Base, Height             json.RawMessage
		Bbox                     []*float64
		CRS                      json.RawMessage
		Type                     string
	}
	if bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("[")) {
		if json.Unmarshal(raw, &v.Bbox) != nil {
			return w, false
		}
	} else if json.Unmarshal(raw, &v) != nil || v.Type != "" { // GeoJSON may have a bbox, too
		return w, false
	}
	switch n := len(v.Bbox); {
	case slices.Contains(v.Bbox, nil): // null, which is no 0
		return w, false
	case v.West != nil && v.South != nil && v.East != nil && v.North != nil:
		return writtenBox{Box{*v.West, *v.South, *v.East, *v.North}, v.CRS, isGeographic(v.CRS, "4326", "CRS84"),
			isGiven(v.Base) || isGiven(v.Height)}, true
	case n == 4 || n == 6: // in EPSG:4326 the order would be latitude, longitude
		return writtenBox{Box{*v.Bbox[0], *v.Bbox[1], *v.Bbox[n/2], *v.Bbox[n/2+1]}, v.CRS,
			isGeographic(v.CRS, "CRS84"), n == 6}, true
	}
	return w, false
}

// unfit returns why a box cannot be split into tiles, which are areas in longitude and latitude without heights; nil if
// it can.
func (w writtenBox) unfit() error {
	switch {
	case !w.geographic:
		return fmt.Errorf(
			"the box is in the reference system %.80s: give it in degrees of longitude and latitude, without crs",
			w.crs)
	case w.heights:
		return errors.New("tiles have no heights: leave out the base and the height of the box")
	}
	return nil
}

func isGiven(member json.RawMessage) bool { return len(member) > 0 && string(member) != "null" }

// isGeographic reports whether a reference system is absent or contains one of the names.
func isGeographic(crs json.RawMessage, names ...string) bool {
	if !isGiven(crs) {
		return true
	}
	text := strings.ToUpper(string(crs))
	return len(text) < 80 && slices.ContainsFunc(names, func(name string) bool { return strings.Contains(text, name) })
}

// Check returns why a box is none on the Earth; nil if it is one.
func (b Box) Check() error {
	switch {
	case b.South < -90 || b.North > 90:
		return errors.New("the latitudes of a box lie between -90 and 90 degrees")
	case b.West < -180 || b.East > 180 || b.West > 180 || b.East < -180:
		return errors.New("the longitudes of a box lie between -180 and 180 degrees")
	case b.South >= b.North:
		return errors.New("the south of a box must be less than its north")
	case b.West == b.East:
		return errors.New("the west and the east of a box must differ")
	}
	return nil
}

// Area returns the area of a box.
func (b Box) Area() (*Area, error) { return b.areaWithin(nil) }

func (b Box) areaWithin(m *bounds.Meter) (*Area, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	if b.West > b.East {
		b.East += 360
	}
	return newArea(MultiPolygon{b.polygon()}, m)
}

// ParseAnyWithin is [ParseWithin] for a value that may also be a bounding box, which isBox reports. A box in another
// reference system, or with heights, is refused.
func ParseAnyWithin(m *bounds.Meter, raw []byte) (a *Area, isBox bool, err error) {
	if b, ok := readBox(raw); ok {
		if err := b.unfit(); err != nil {
			return nil, true, err
		}
		a, err = b.areaWithin(m)
		return a, true, err
	}
	a, err = ParseWithin(m, raw)
	return a, false, err
}

// AreaOf returns the area in km² of the largest of parameters that are bounding boxes or GeoJSON; 0 if none is, or if
// they cost more than [bounds.AreaSteps].
func AreaOf(parameters map[string]json.RawMessage) (km2 float64) {
	m := bounds.AreaSteps.Meter(context.Background())
	for _, value := range parameters {
		if !bytes.ContainsAny(value, "[{") {
			continue
		}
		switch a, _, err := ParseAnyWithin(m, value); {
		case m.Err() != nil:
			return 0
		case err == nil:
			km2 = max(km2, a.SquareMetres()/1e6)
		}
	}
	return km2
}

// Box returns the box around polygons that do not cross the antimeridian.
func (m MultiPolygon) Box() (b Box) {
	for i, p := range m {
		west, south, east, north := p[0].box()
		if i == 0 {
			b = Box{west, south, east, north}
		}
		b = Box{min(b.West, west), min(b.South, south), max(b.East, east), max(b.North, north)}
	}
	return b
}

// Boxes returns the box around polygons or, if they were cut at the antimeridian, those of their two sides: first the
// one that ends at 180 degrees, then the one that begins at -180.
func (m MultiPolygon) Boxes() []Box {
	sorted := slices.Clone(m)
	slices.SortFunc(sorted, func(a, b Polygon) int {
		return cmp.Compare(MultiPolygon{a}.Box().West, MultiPolygon{b}.Box().West)
	})
	var gap float64
	var at int // of the first polygon behind the widest gap
	var ends bool
	farthest := -180.0
	for i, p := range sorted {
		b := MultiPolygon{p}.Box()
		if b.West-farthest > gap && i > 0 {
			gap, at = b.West-farthest, i
		}
		farthest, ends = max(farthest, b.East), ends || b.East == 180
	}
	if at == 0 || !ends || sorted[:1].Box().West != -180 {
		return []Box{m.Box()}
	}
	return []Box{sorted[at:].Box(), sorted[:at].Box()}
}

// Bounds returns the bounding box of polygons as GeoJSON has it (RFC 7946, section 5.2): if they were cut at the
// antimeridian, its West is greater than its East.
func (m MultiPolygon) Bounds() Box {
	b := m.Boxes()
	last := b[len(b)-1]
	return Box{b[0].West, min(b[0].South, last.South), last.East, max(b[0].North, last.North)}
}
