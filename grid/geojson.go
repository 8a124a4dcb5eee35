package grid

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// ParseWithin reads an area from a GeoJSON (RFC 7946) Polygon, MultiPolygon, Feature or FeatureCollection of those:
// what any of the polygons covers. Features without a geometry, and geometries without coordinates, are passed over.
// Its error names the place of the fault: a [Fault], or a text that names the member. The meter also counts the later
// work on the area. If it stops, ParseWithin returns its error, or [Grid.Tiles] ends early.
func ParseWithin(m *bounds.Meter, raw []byte) (*Area, error) {
	polygons, err := parse(raw, "aoi", 0)
	if err != nil {
		return nil, err
	}
	switch n := polygons.positions(); {
	case n == 0:
		return nil, fmt.Errorf("aoi: it contains no polygon")
	case bounds.TilesPositions.Check(int64(n)) != nil:
		return nil, fmt.Errorf("aoi: it has %w: simplify it", bounds.TilesPositions.Check(int64(n)))
	}
	return newArea(polygons, m)
}

// PolygonsOf returns the polygons of GeoJSON as [ParseWithin] reads it, if that takes no more than [bounds.AreaSteps].
func PolygonsOf(raw []byte) (MultiPolygon, error) {
	a, err := ParseWithin(bounds.AreaSteps.Meter(context.Background()), raw)
	if err != nil {
		return nil, err
	}
	return a.Polygons(), nil
}

func (m MultiPolygon) positions() (n int) {
	for _, p := range m {
		for _, r := range p {
			n += len(r)
		}
	}
	return n
}

type geoJSON struct {
	Type        string            `json:"type"`
	Coordinates json.RawMessage   `json:"coordinates"`
	Geometry    json.RawMessage   `json:"geometry"`
	Features    []json.RawMessage `json:"features"`
}

// deepest is how deep features may nest: a collection, its feature, the feature's geometry.
const deepest = 3

func parse(raw []byte, at string, depth int) (MultiPolygon, error) {
	var g geoJSON
	if err := json.Unmarshal(raw, &g); err != nil {
		return nil, fmt.Errorf("%s: it is not a GeoJSON object", at)
	}
	if depth >= deepest {
		return nil, fmt.Errorf("%s: it is nested too deeply", at)
	}
	switch g.Type {
	case "Polygon":
		p, err := coordinates[[][][]float64](g.Coordinates, at)
		if err != nil {
			return nil, err
		}
		return multi([][][][]float64{p}, at)
	case "MultiPolygon":
		p, err := coordinates[[][][][]float64](g.Coordinates, at)
		if err != nil {
			return nil, err
		}
		return multi(p, at)
	case "Feature":
		if len(g.Geometry) == 0 || string(g.Geometry) == "null" { // it has no place (RFC 7946, section 3.2)
			return nil, nil
		}
		return parse(g.Geometry, at+".geometry", depth+1)
	case "FeatureCollection":
		return collection(g.Features, at, depth)
	}
	return nil, fmt.Errorf("%s: a Polygon, MultiPolygon, Feature or FeatureCollection is needed, not %.40q", at, g.Type)
}

func collection(features []json.RawMessage, at string, depth int) (all MultiPolygon, err error) {
	for i, f := range features {
		one, err := parse(f, fmt.Sprintf("%s.features[%d]", at, i), depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

func coordinates[T any](raw json.RawMessage, at string) (c T, err error) {
	if err := json.Unmarshal(raw, &c); err != nil || bytes.Contains(raw, []byte("null")) { // it would be read as 0
		return c, fmt.Errorf("%s.coordinates: they are not the nested arrays of numbers that this type requires", at)
	}
	return c, nil
}

func multi(polygons [][][][]float64, at string) (MultiPolygon, error) {
	var out MultiPolygon
	for _, rings := range polygons {
		if len(rings) == 0 {
			continue
		}
		polygon := make(Polygon, len(rings))
		for k, positions := range rings {
			r := make(Ring, len(positions))
			for n, p := range positions {
				if len(p) < 2 {
					return nil, fmt.Errorf("%s.coordinates: position %d of ring %d has fewer than two numbers", at, n,
						k)
				}
				r[n] = Point{notTiny(p[0]), notTiny(p[1])}
			}
			polygon[k] = r
		}
		out = append(out, polygon)
	}
	return out, nil
}

// notTiny replaces a number that is almost zero by zero if it has far more digits than a position needs, because exact
// arithmetic with such numbers is slow.
func notTiny(x float64) float64 {
	if math.Abs(x) < 1e-100 {
		return 0
	}
	return x
}

// MarshalJSON writes a GeoJSON geometry: a Polygon if there is only one.
func (m MultiPolygon) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// AppendJSON appends what MarshalJSON writes to b.
func (m MultiPolygon) AppendJSON(b []byte) []byte {
	if len(m) == 1 {
		return append(m[0].appendJSON(append(b, `{"type":"Polygon","coordinates":`...)), '}')
	}
	b = append(b, `{"type":"MultiPolygon","coordinates":`...)
	return append(list(b, m, Polygon.appendJSON), '}')
}

func (p Polygon) appendJSON(b []byte) []byte { return list(b, p, Ring.appendJSON) }
func (r Ring) appendJSON(b []byte) []byte    { return list(b, r, Point.appendJSON) }

func (p Point) appendJSON(b []byte) []byte {
	b = strconv.AppendFloat(append(b, '['), p[0], 'f', -1, 64)
	return append(strconv.AppendFloat(append(b, ','), p[1], 'f', -1, 64), ']')
}

func list[T any](b []byte, all []T, appendOne func(T, []byte) []byte) []byte {
	b = append(b, '[')
	for i, one := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendOne(one, b)
	}
	return append(b, ']')
}
