package openapi

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/dispatch"
)

const SchemasPath = "#/components/schemas/"

// NameModels gives each enumeration that the document repeats a named schema, so that a generated client has one type
// for it. The names are those of the deployed service, as far as that has the enumeration. All operations must be
// registered.
func (a *Document) NameModels() {
	document := a.OpenAPI()
	schemas := document.Components.Schemas.Map()
	delete(schemas, "ErrorModel") // huma registers its own error models; this API answers with ErrorResponse
	delete(schemas, "ErrorDetail")
	if a.Compat.ObjectAsString {
		types := schemas["Parameter"].Properties["type"]
		types.Enum = without(types.Enum, OwnTypes...)
	}
	named := enums{
		"ProcessingStatusEnum": words(schemas["ProcessingJobSummary"].Properties["status"],
			"Status of a job or task. Final are finished, canceled and failed"),
		"ProcessTypeEnum": words(schemas["BaseJobRequest"].Properties["label"], "A protocol"),
		"ParamTypeEnum":   words(schemas["Parameter"].Properties["type"], "The type of a parameter"),
		"GridTypeEnum":    words(schemas["TileRequest"].Properties["grid"], "The name of a grid"),
		"Access": words(schemas["Platform"].Properties["access"],
			"Under whose account jobs run at a platform"),
		"PlatformState": words(schemas["Platform"].Properties["state"], "State of a platform"),
		"AttentionCode": words(schemas["JobAttention"].Properties["code"], "Why a job makes no progress"),
		"JobsFilter":    words(FilterParam.Schema.Items, "Contents of a list"),
		"OutputFormatEnum": {Type: huma.TypeString, Enum: []any{"geojson", "gtiff", "json", "netcdf"},
			Description: "The formats that a request can name at every platform. A service may offer others"},
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
	if statuses := named["ProcessingStatusEnum"]; a.Compat.SubmittedAsCreated {
		statuses.Enum = without(statuses.Enum, dispatch.Submitted)
	}
	for name, schema := range named {
		schemas[name] = schema
	}
	for name, schema := range schemas {
		if schema.AdditionalProperties == true && !slices.Contains(open, name) {
			schema.AdditionalProperties = nil
		}
	}
	for _, name := range []string{"BaseJobRequest", "UpscalingTaskRequest"} {
		nameFormats(schemas[name].Properties)
	}
}

// open are the schemas to whose members platforms add their own. For the others, nothing says whether there are more:
// types that are made of them have none, so that compilers find names that are misspelled.
var open = []string{"JobOptions", "TaskOptions", "Collection", "Asset"}

// nameFormats describes the format of a request as one of the known formats or another text.
func nameFormats(properties map[string]*huma.Schema) {
	format := properties["format"]
	text := &huma.Schema{Type: huma.TypeString, MinLength: format.MinLength, MaxLength: format.MaxLength}
	properties["format"] = &huma.Schema{AnyOf: []*huma.Schema{{Ref: SchemasPath + "OutputFormatEnum"}, text},
		Description: format.Description, Examples: format.Examples}
}

// without returns the words of an enumeration but for some.
func without[T ~string](enum []any, words ...T) []any {
	return slices.DeleteFunc(slices.Clone(enum), func(word any) bool {
		return slices.Contains(words, T(word.(string)))
	})
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
			return &huma.Schema{Ref: SchemasPath + name, Description: s.Description}
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

// Compat switches on behavior that existing clients rely on.
type Compat struct {
	SubmittedAsCreated bool // report the status submitted as created
	ObjectAsString     bool // in POST /params, report parameters of type object and array as string
}

// OwnTypes are the types that the deployed service has no word for. It reports string in place of them.
var OwnTypes = []dispatch.ParamType{dispatch.Object, dispatch.Array}
