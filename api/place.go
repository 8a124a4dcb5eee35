package api

import (
	"encoding/json"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
	"github.com/eodispatch/eodispatch/platform/stac"
)

// place is where a job is: a GeoJSON geometry (RFC 7946) and its bounding box. The zero place means that the location
// is not known.
type place struct {
	geometry json.RawMessage
	box      []float64 // west, south, east, north in degrees; west > east crosses the antimeridian
}

// placeOf reads the value of a parameter that is a bounding box in longitude and latitude, or GeoJSON. It returns the
// zero place for any other value.
func placeOf(value json.RawMessage) place {
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
		return place{}
	}
	switch {
	case v.Type == "Polygon", v.Type == "MultiPolygon", v.Type == "FeatureCollection":
		return polygonal(value)
	case v.Type == "Feature":
		return placeOf(v.Geometry)
	case v.Type == "Point", v.Type == "MultiPoint", v.Type == "LineString", v.Type == "MultiLineString":
		raw, _ := json.Marshal(map[string]any{"type": v.Type, "coordinates": v.Coordinates})
		if box := boxOf(raw); box != nil {
			return place{raw, box}
		}
	case v.Type == "" && v.Value != nil:
		return placeOf(v.Value)
	}
	return place{}
}

// placeAmong returns the place in the first argument that has one, and the values of the others by their names.
func placeAmong(arguments []dispatch.Argument) (at place, others map[string]json.RawMessage) {
	others = map[string]json.RawMessage{}
	for _, a := range arguments {
		if at.geometry == nil {
			if at = placeOf(a.Value); at.geometry != nil {
				continue
			}
		}
		others[a.Name] = a.Value
	}
	return at, others
}

// boxed returns the place of a bounding box.
func boxed(b grid.Box) place {
	area, err := b.Area()
	if err != nil {
		return place{}
	}
	return place{area.Polygons().AppendJSON(nil), []float64{b.West, b.South, b.East, b.North}}
}

// around returns the place of a bounding box of four or six numbers; zero if there is none.
func around(box []float64) place {
	n := len(box)
	if n != 4 && n != 6 {
		return place{}
	}
	return boxed(grid.Box{West: box[0], South: box[1], East: box[n/2], North: box[n/2+1]})
}

// polygonal returns the place of GeoJSON polygons. If they are not valid, it returns the box around them.
func polygonal(raw json.RawMessage) place {
	box := boxOf(raw)
	area, err := grid.ParseArea(raw)
	if err != nil {
		return around(box)
	}
	b := area.Polygons().Bounds()
	return place{area.Polygons().AppendJSON(nil), []float64{b.West, b.South, b.East, b.North}}
}

func boxOf(raw json.RawMessage) []float64 {
	var e stac.Extent
	e.GeoJSON(raw)
	return e.Box()
}
