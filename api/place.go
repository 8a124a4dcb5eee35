package api

import (
	"encoding/json"
	"strings"

	"github.com/eodispatch/eodispatch/grid"
	"github.com/eodispatch/eodispatch/stac"
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
	var v struct {
		Type                     string
		Geometry                 json.RawMessage
		Coordinates              json.RawMessage
		West, South, East, North *float64
		Bbox                     []float64
		CRS                      json.RawMessage
		Value                    json.RawMessage
	}
	if json.Unmarshal(value, &v.Bbox) == nil {
		return boxed(v.Bbox)
	}
	if json.Unmarshal(value, &v) != nil {
		return place{}
	}
	switch {
	case v.West != nil && v.South != nil && v.East != nil && v.North != nil && geographic(v.CRS, "4326", "CRS84"):
		return boxed([]float64{*v.West, *v.South, *v.East, *v.North})
	case v.Bbox != nil && v.Type == "" && geographic(v.CRS, "CRS84"): // in EPSG:4326 the order would be latitude, longitude
		return boxed(v.Bbox)
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

// geographic reports whether a reference system is absent or contains one of the names.
func geographic(crs json.RawMessage, names ...string) bool {
	for _, name := range names {
		if len(crs) == 0 || string(crs) == "null" || strings.Contains(strings.ToUpper(string(crs)), name) && len(crs) < 80 {
			return true
		}
	}
	return false
}

// boxed returns the place of a bounding box of four or six numbers.
func boxed(b []float64) place {
	if len(b) != 4 && len(b) != 6 {
		return place{}
	}
	n := len(b) / 2
	west, south, east, north := b[0], b[1], b[n], b[n+1]
	end := east
	if west > east {
		end += 360
	}
	ring := grid.Ring{{west, south}, {end, south}, {end, north}, {west, north}, {west, south}}
	area, err := grid.NewArea(grid.MultiPolygon{{ring}})
	if err != nil || west < -180 || east > 180 || south >= north {
		return place{}
	}
	return place{area.Polygons().AppendJSON(nil), []float64{west, south, east, north}}
}

// polygonal returns the place of GeoJSON polygons. If they are not valid, it returns the box around them.
func polygonal(raw json.RawMessage) place {
	box := boxOf(raw)
	area, err := grid.ParseArea(raw)
	if err != nil {
		return boxed(box)
	}
	geometry := area.Polygons().AppendJSON(nil)
	return place{geometry, boxOf(geometry)}
}

func boxOf(raw json.RawMessage) []float64 {
	var e stac.Extent
	e.GeoJSON(raw)
	return e.Box()
}
