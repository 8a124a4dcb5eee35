package parameters

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// bySpecificity orders the types: of several types of a parameter, the first one is shown.
var bySpecificity = []dispatch.ParamType{
	dispatch.BoundingBox, dispatch.Polygon, dispatch.DateInterval, dispatch.DateTime, dispatch.Boolean,
	dispatch.Integer, dispatch.Double, dispatch.ArrayString, dispatch.String, dispatch.Array, dispatch.Object,
}

func mostSpecific(alternatives []schema) dispatch.ParamType {
	var found []dispatch.ParamType
	for _, l := range alternatives {
		if !l.is("null") {
			found = append(found, l.paramType())
		}
	}
	for _, t := range bySpecificity {
		integers := t == dispatch.Integer && slices.Contains(found, dispatch.Double) // all numbers, then
		if slices.Contains(found, t) && !integers {
			return t
		}
	}
	return dispatch.Object
}

// bySubtype maps openEO's subtypes (openeo-processes 2.0.0-rc.1, meta/subtype-schemas.json) to more specific types.
var bySubtype = map[string]dispatch.ParamType{
	"bounding-box": dispatch.BoundingBox, "geojson": dispatch.Polygon, "temporal-interval": dispatch.DateInterval,
	"date": dispatch.DateTime, "date-time": dispatch.DateTime, "epsg-code": dispatch.Integer, "year": dispatch.Integer,
	"file-paths": dispatch.ArrayString, "temporal-intervals": dispatch.Array, "kernel": dispatch.Array,
	"labeled-array": dispatch.Array,
}

// paramType returns the type of a schema without alternatives.
func (s schema) paramType() dispatch.ParamType {
	if t, ok := bySubtype[s.Subtype]; ok {
		return t
	}
	switch {
	case s.isBoundingBox():
		return dispatch.BoundingBox
	case s.isGeoJSON():
		return dispatch.Polygon
	case len(s.Type) == 0:
		return s.untyped()
	}
	switch s.Type[0] {
	case "boolean":
		return dispatch.Boolean
	case "integer":
		return dispatch.Integer
	case "number":
		return dispatch.Double
	case "string":
		return s.text()
	case "array":
		return s.array()
	}
	return dispatch.Object
}

func (s schema) text() dispatch.ParamType {
	if s.Format == "date" || s.Format == "date-time" {
		return dispatch.DateTime
	}
	return dispatch.String
}

func (s schema) array() dispatch.ParamType {
	if s.Items == nil {
		return dispatch.Array
	}
	items := s.doc.schema(s.Items).alternatives(0)
	for _, l := range items {
		if l.is("array") || len(l.Type) == 0 && l.Items != nil {
			return dispatch.Array // whatever the elements are
		}
	}
	if mostSpecific(items) == dispatch.String {
		return dispatch.ArrayString
	}
	return dispatch.Array
}

// untyped derives the type of a schema without the keyword type, from keywords of one type and from its values.
func (s schema) untyped() dispatch.ParamType {
	switch {
	case s.Format == "date" || s.Format == "date-time":
		return dispatch.DateTime
	case s.Items != nil:
		return s.array()
	case s.Properties != nil:
		return dispatch.Object
	case s.Minimum != nil || s.Maximum != nil:
		return dispatch.Double
	}
	for _, example := range append(s.options(), s.Default) {
		if t, ok := typeOf(example); ok {
			return t
		}
	}
	if s.ContentMediaType != "" && !strings.Contains(s.ContentMediaType, "json") {
		return dispatch.String
	}
	return dispatch.Object
}

func typeOf(raw json.RawMessage) (dispatch.ParamType, bool) {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return "", false
	}
	switch v := v.(type) {
	case bool:
		return dispatch.Boolean, true
	case float64:
		if strings.ContainsAny(string(raw), ".eE") {
			return dispatch.Double, true
		}
		return dispatch.Integer, true
	case string:
		return dispatch.String, true
	case []any:
		return dispatch.Array, true
	case map[string]any:
		return dispatch.Object, v != nil
	}
	return "", false
}

// isBoundingBox recognizes a bounding box by the subtype (openEO), by the format or schema of OGC API - Processes 1.0
// (section 7.11.2.3), by the format that some servers use for it, or by its members.
func (s schema) isBoundingBox() bool {
	_, bbox := s.Properties["bbox"]
	_, feature := s.Properties["geometry"]
	corners := 0
	for _, name := range []string{"west", "south", "east", "north"} {
		if _, ok := s.Properties[name]; ok {
			corners++
		}
	}
	return s.Subtype == "bounding-box" || s.Format == "ogc-bbox" || s.Format == "bounding-box" ||
		strings.HasSuffix(s.Ref, "bbox.yaml") || bbox && slices.Contains(s.Required, "bbox") && !feature || corners == 4
}

// GeoJSONTypes are the types of objects of GeoJSON.
var GeoJSONTypes = []string{"Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon",
	"GeometryCollection", "Feature", "FeatureCollection"}

// isGeoJSON recognizes GeoJSON by subtype, format, media type, reference, or the permitted values of its member type.
func (s schema) isGeoJSON() bool {
	reference := strings.ToLower(s.Ref)
	if s.Subtype == "geojson" || strings.HasPrefix(s.Format, "geojson") ||
		s.ContentMediaType == "application/geo+json" || strings.Contains(reference, "geojson") {
		return true
	}
	kind := s.Properties["type"]
	if kind == nil {
		return false
	}
	kinds := s.doc.schema(kind).options()
	return len(kinds) > 0 && !slices.ContainsFunc(kinds, func(raw json.RawMessage) bool {
		var name string
		return json.Unmarshal(raw, &name) != nil || !slices.Contains(GeoJSONTypes, name)
	})
}
