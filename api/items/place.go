package items

import (
	"encoding/json"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
	"github.com/eodispatch/eodispatch/platform/stac"
)

// Place is where a job is: a GeoJSON geometry (RFC 7946) and its bounding box. The zero Place means that the location
// is not known.
type Place struct {
	Geometry json.RawMessage
	Box      []float64 // west, south, east, north in degrees; west > east crosses the antimeridian
}

// PlaceOf reads the value of a parameter that is a bounding box in longitude and latitude, or GeoJSON. It returns the
// zero Place for any other value.
func PlaceOf(value json.RawMessage) Place {
	if b, ok := grid.ParseBox(value); ok {
		return boxed(b)
	}
	var v struct {
		Type        string
		Geometry    json.RawMessage
		Coordinates json.RawMessage
		Value       json.RawMessage
	}
	if json.Unmarshal(value, &v) != nil {
		return Place{}
	}
	switch {
	case v.Type == "Polygon", v.Type == "MultiPolygon", v.Type == "FeatureCollection":
		return polygonal(value)
	case v.Type == "Feature":
		return PlaceOf(v.Geometry)
	case v.Type == "Point", v.Type == "MultiPoint", v.Type == "LineString", v.Type == "MultiLineString":
		raw, _ := json.Marshal(map[string]any{"type": v.Type, "coordinates": v.Coordinates})
		if box := boxOf(raw); box != nil {
			return Place{raw, box}
		}
	case v.Type == "" && v.Value != nil:
		return PlaceOf(v.Value)
	}
	return Place{}
}

// PlaceAmong returns the place in the first argument that has one, and the values of the others by their names.
func PlaceAmong(arguments []dispatch.Argument) (at Place, others map[string]json.RawMessage) {
	others = map[string]json.RawMessage{}
	for _, a := range arguments {
		if at.Geometry == nil {
			if at = PlaceOf(a.Value); at.Geometry != nil {
				continue
			}
		}
		others[a.Name] = a.Value
	}
	return at, others
}

// boxed returns the place of a bounding box.
func boxed(b grid.Box) Place {
	area, err := b.Area()
	if err != nil {
		return Place{}
	}
	return Place{area.Polygons().AppendJSON(nil), []float64{b.West, b.South, b.East, b.North}}
}

// around returns the place of a bounding box of four or six numbers; zero if there is none.
func around(box []float64) Place {
	n := len(box)
	if n != 4 && n != 6 {
		return Place{}
	}
	return boxed(grid.Box{West: box[0], South: box[1], East: box[n/2], North: box[n/2+1]})
}

// polygonal returns the place of GeoJSON polygons. If they are not valid, or cost too much to check, it returns the box
// around them.
func polygonal(raw json.RawMessage) Place {
	box := boxOf(raw)
	polygons, err := grid.PolygonsOf(raw)
	if err != nil {
		return around(box)
	}
	b := polygons.Bounds()
	return Place{polygons.AppendJSON(nil), []float64{b.West, b.South, b.East, b.North}}
}

func boxOf(raw json.RawMessage) []float64 {
	var e stac.Extent
	e.GeoJSON(raw)
	return e.Box()
}
