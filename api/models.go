package api

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

const schemasPath = "#/components/schemas/"

// nameModels gives each enumeration that the document repeats a named schema, so that a generated client has one type
// for it. All operations must be registered.
func nameModels(document *huma.OpenAPI) {
	schemas := document.Components.Schemas.Map()
	delete(schemas, "ErrorModel") // huma registers its own error models; this API answers with ErrorResponse
	delete(schemas, "ErrorDetail")
	named := enums{
		"Status":        words(schemas["ProcessingJobSummary"].Properties["status"], "How a job or task stands. The last are finished, canceled and failed"),
		"Label":         words(schemas["BaseJobRequest"].Properties["label"], "A protocol"),
		"ParamType":     words(schemas["Parameter"].Properties["type"], "The type of a parameter"),
		"GridName":      words(schemas["TileRequest"].Properties["grid"], "The name of a grid"),
		"Access":        words(schemas["Platform"].Properties["access"], "Under whose account jobs run at a platform"),
		"PlatformState": words(schemas["Platform"].Properties["state"], "What can be expected of a platform"),
		"AttentionCode": words(schemas["JobAttention"].Properties["code"], "Why a job does not move"),
		"JobsFilter":    words(filterParam.Schema.Items, "What a list shows"),
	}
	for _, schema := range schemas {
		named.use(schema)
	}
	for _, path := range document.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Patch, path.Delete} {
			if op != nil {
				op.Parameters = named.inParams(op.Parameters)
			}
		}
	}
	for name, schema := range named {
		schemas[name] = schema
	}
}

// words returns a schema for the enumeration of s.
func words(s *huma.Schema, description string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: s.Enum, Description: description}
}

// enums maps names to schemas of enumerations.
type enums map[string]*huma.Schema

// use returns s with its enumerations replaced by references to the named schemas. It changes the properties of s in
// place.
func (e enums) use(s *huma.Schema) *huma.Schema {
	if s == nil {
		return nil
	}
	for name, known := range e {
		if len(s.Enum) > 0 && slices.Equal(s.Enum, known.Enum) {
			return &huma.Schema{Ref: schemasPath + name, Description: s.Description}
		}
	}
	for key, property := range s.Properties {
		s.Properties[key] = e.use(property)
	}
	if s.Items == nil {
		return s
	}
	list := *s
	list.Items = e.use(s.Items)
	return &list
}

// inParams returns copies of params with references; params are shared between documents.
func (e enums) inParams(params []*huma.Param) []*huma.Param {
	all := make([]*huma.Param, len(params))
	for i, p := range params {
		own := *p
		own.Schema = e.use(p.Schema)
		all[i] = &own
	}
	return all
}
