package openapi

import (
	"encoding/json"
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
)

// Schema implements [huma.SchemaProvider].
func (objectSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// Schema implements [huma.SchemaProvider].
func (collectionSchema) Schema(r huma.Registry) *huma.Schema {
	s := huma.SchemaFromType(r, reflect.TypeFor[wire.Collection]())
	s.Description, s.Required = "A STAC Collection", nil // it is as the platform sent it
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
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true,
		Description: "A GeoJSON Polygon, MultiPolygon or Feature, or a FeatureCollection of those",
		Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString,
			Enum: []any{"Polygon", "MultiPolygon", "Feature", "FeatureCollection"}}},
		Required: []string{"type"},
		Examples: []any{map[string]any{"type": "Polygon", "coordinates": [][][]float64{{{4.2, 50.7}, {4.6, 50.7}, {4.6,
			51}, {4.2, 50.7}}}}}}
}

// Schema implements [huma.SchemaProvider].
func (cellsSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true,
		Description: "A GeoJSON FeatureCollection of Polygons and MultiPolygons. Each Feature has an id, a text or a " +
			"number, which no other has",
		Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString, Enum: []any{"FeatureCollection"}}},
		Required:   []string{"type", "features"}}
}

// Schema implements [huma.SchemaProvider].
func (geometrySchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Nullable: true,
		Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString}}}
}

// Schema implements [huma.SchemaProvider].
func (numberSchema) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeNumber} }

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
