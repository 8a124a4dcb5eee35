package openapi

import (
	"encoding/json"
	"maps"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// opaque maps the types of JSON that is passed on byte for byte, or that a struct does not describe, to their schemas.
var opaque = map[reflect.Type]reflect.Type{
	reflect.TypeFor[wire.Object]():        reflect.TypeFor[objectSchema](),
	reflect.TypeFor[wire.Collection]():    reflect.TypeFor[collectionSchema](),
	reflect.TypeFor[wire.ServiceChoice](): reflect.TypeFor[serviceChoiceSchema](),
	reflect.TypeFor[wire.Area]():          reflect.TypeFor[areaSchema](),
	reflect.TypeFor[wire.Cells]():         reflect.TypeFor[cellsSchema](),
	reflect.TypeFor[wire.Geometry]():      reflect.TypeFor[geometrySchema](),
	reflect.TypeFor[wire.Budget]():        reflect.TypeFor[budgetSchema](),
	reflect.TypeFor[wire.StreamMessage](): reflect.TypeFor[messageSchema](),
	reflect.TypeFor[json.Number]():        reflect.TypeFor[numberSchema](),
}

type (
	objectSchema        struct{}
	collectionSchema    struct{}
	serviceChoiceSchema struct{}
	areaSchema          struct{}
	cellsSchema         struct{}
	geometrySchema      struct{}
	numberSchema        struct{}
	budgetSchema        struct{}
	messageSchema       struct{}
)

// Schema implements [huma.SchemaProvider].
func (objectSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// Schema implements [huma.SchemaProvider].
func (collectionSchema) Schema(r huma.Registry) *huma.Schema {
	s := huma.SchemaFromType(r, reflect.TypeFor[wire.Collection]())
	list := func(items *huma.Schema) *huma.Schema { return &huma.Schema{Type: huma.TypeArray, Items: items} }
	object := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
	s.Description = "A STAC Collection, as the platform sent it, with what was missing for a valid one"
	maps.Copy(s.Properties, map[string]*huma.Schema{"description": text, "license": text, "extent": object,
		"links": list(r.Schema(reflect.TypeFor[wire.Link](), true, "")), "stac_extensions": list(text),
		"keywords": list(text), "providers": list(object), "summaries": object})
	s.Required = []string{"type", "stac_version", "id", "description", "license", "extent", "links", "assets"}
	r.Map()["Collection"] = s
	return &huma.Schema{Description: "null while the job has not ended", AnyOf: []*huma.Schema{{Ref: SchemasPath +
		"Collection"}, {Type: "null"}}}
}

// Schema implements [huma.SchemaProvider].
func (serviceChoiceSchema) Schema(r huma.Registry) *huma.Schema {
	r.Map()["ServiceChoice"] = &huma.Schema{Description: "A service by its endpoint and application, or by its id in " +
		"the catalogue",
		AnyOf: []*huma.Schema{r.Schema(reflect.TypeFor[wire.ServiceDetails](), true, ""),
			r.Schema(reflect.TypeFor[wire.ServiceReference](), true, "")}}
	return &huma.Schema{Ref: SchemasPath + "ServiceChoice"}
}

// Schema implements [huma.SchemaProvider].
func (areaSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject,
		Description: "A GeoJSON Polygon, MultiPolygon or Feature, or a FeatureCollection of those",
		Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString,
			Enum: []any{"Polygon", "MultiPolygon", "Feature", "FeatureCollection"}}, "coordinates": {}, "geometry": {},
			"features": {}, "properties": {}, "id": {}, "bbox": {}},
		Required: []string{"type"},
		Examples: []any{map[string]any{"type": "Polygon", "coordinates": [][][]float64{{{4.2, 50.7}, {4.6, 50.7}, {4.6,
			51}, {4.2, 50.7}}}}}}
}

// Schema implements [huma.SchemaProvider].
func (cellsSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject,
		Description: "A GeoJSON FeatureCollection of Polygons and MultiPolygons. Each Feature has an id, a text or a " +
			"number, which no other has",
		Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString, Enum: []any{"FeatureCollection"}},
			"features": {Type: huma.TypeArray, Items: &huma.Schema{}}, "bbox": {}},
		Required: []string{"type", "features"}}
}

// Schema implements [huma.SchemaProvider].
func (geometrySchema) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: append(geometries(r, "Polygon", "MultiPolygon", "Point", "MultiPoint", "LineString",
		"MultiLineString"), &huma.Schema{Type: "null"})}
}

// nested is how deep the lists of numbers are that the coordinates of a geometry consist of.
var nested = map[string]int{"Point": 1, "MultiPoint": 2, "LineString": 2, "MultiLineString": 3, "Polygon": 3,
	"MultiPolygon": 4}

// geometries returns references to the schemas of geometries of GeoJSON.
func geometries(r huma.Registry, kinds ...string) (all []*huma.Schema) {
	for _, kind := range kinds {
		coordinates := &huma.Schema{Type: huma.TypeNumber}
		for range nested[kind] {
			coordinates = &huma.Schema{Type: huma.TypeArray, Items: coordinates}
		}
		r.Map()[kind] = &huma.Schema{Type: huma.TypeObject, Required: []string{"type", "coordinates"},
			Description: "A " + kind + " of GeoJSON (RFC 7946)", Properties: map[string]*huma.Schema{
				"type": {Type: huma.TypeString, Enum: []any{kind}}, "coordinates": coordinates}}
		all = append(all, &huma.Schema{Ref: SchemasPath + kind})
	}
	return all
}

// Schema implements [huma.SchemaProvider].
func (numberSchema) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeNumber} }

// Schema implements [huma.SchemaProvider].
func (messageSchema) Schema(r huma.Registry) *huma.Schema {
	all := &huma.Schema{Description: "A message of a stream"}
	for _, kinds := range [][]any{{"init", "loading"}, {"status"}, {"changes"}, {"error"}} {
		s := huma.SchemaFromType(r, reflect.TypeFor[wire.StreamMessage]())
		s.AdditionalProperties, s.Properties["type"].Enum, s.Properties["data"].Type = nil, kinds, "null"
		switch kinds[0] {
		case "status":
			s.Properties["data"] = &huma.Schema{Description: "The second of the stream of a task",
				AnyOf: []*huma.Schema{r.Schema(reflect.TypeFor[wire.JobsStatusResponse](), true, ""),
					r.Schema(reflect.TypeFor[wire.UpscalingTask](), true, "")}}
		case "changes":
			s.Properties["data"] = r.Schema(reflect.TypeFor[wire.StatusChanges](), true, "")
		default:
			delete(s.Properties, "more")
		}
		if kinds[0] == "error" {
			s.Properties["error_code"] = anyErrorCode(s.Properties["error_code"])
			s.Properties["message"].Nullable, s.Required = false, append(s.Required, "error_code")
		} else {
			delete(s.Properties, "error_code")
		}
		all.AnyOf = append(all.AnyOf, s)
	}
	r.Map()["StreamMessage"] = all
	return &huma.Schema{Ref: SchemasPath + "StreamMessage"}
}

// Schema implements [huma.SchemaProvider].
func (budgetSchema) Schema(huma.Registry) *huma.Schema {
	amount := &huma.Schema{Type: huma.TypeNumber, ExclusiveMinimum: new(0.0),
		Maximum: new(float64(dispatch.HighestCosts))}
	return &huma.Schema{AnyOf: []*huma.Schema{amount, {Type: huma.TypeObject, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{"amount": amount,
			"unit": {Type: huma.TypeString, MaxLength: new(longestUnit), Description: "As the platform writes it"}},
		Required: []string{"amount"}}, {Type: "null"}}}
}

// longestUnit is the length of the longest name of a unit in characters. Platforms' longer names are not kept.
const longestUnit = 40
