package openapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// document returns the OpenAPI document without operations.
func (a *Document) document() huma.Config {
	c := huma.DefaultConfig(a.Title, a.Version)
	c.Info.Description = strings.TrimSpace(a.Description + "\n\n" + introduction)
	c.Tags = tags
	c.AllowAdditionalPropertiesByDefault = true
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil // no $schema members in responses
	c.Formats = map[string]huma.Format{"application/json": huma.DefaultJSONFormat}
	c.Security = []map[string][]string{{"bearer": {}}}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer",
		BearerFormat: "JWT",
		Description: "An access token of the identity provider that this service trusts. It is verified with each " +
			"request."}}
	if a.SessionCookie != "" {
		c.Security = append(c.Security, map[string][]string{"session": {}})
		c.Components.SecuritySchemes["session"] = &huma.SecurityScheme{Type: "apiKey", In: "cookie",
			Name: a.SessionCookie,
			Description: "The session of a browser that signed in to the page at /. It is accepted only in requests " +
				"from that page."}
	}
	if a.PublicURL != "" {
		c.Servers = []*huma.Server{{URL: a.PublicURL}}
	}
	return c
}

// Refine completes the schemas with what struct tags cannot express.
func (a *Document) Refine(schemas map[string]*huma.Schema) {
	schemaOf[wire.JobOptions](a)
	schemaOf[wire.TaskOptions](a)
	schemaOf[wire.HookRequest](a)
	schemaOf[wire.StreamMessage](a)
	schemaOf[wire.StatusChanges](a)
	for name, options := range map[string]string{"BaseJobRequest": "JobOptions",
		"UpscalingTaskRequest": "TaskOptions"} {
		request := schemas[name].Properties
		request["title"].MaxLength = &a.Limits.Title
		request["labels"].Nullable, request["note"].Nullable = true, true
		request["options"] = &huma.Schema{Ref: SchemasPath + options, Description: request["options"].Description}
		AllowNull(request, "options", "dimension")
	}
	schemas["Notify"].Properties["events"].Description = "The events that you are notified of. Absent: of a job " +
		"finished, failed, canceled and attention; of a task task_ended and attention"
	AllowNull(schemas["JobOptions"].Properties, "notify")
	AllowNull(schemas["TaskOptions"].Properties, "notify")
	for _, name := range []string{"ServiceDetails", "ServiceReference", "ParameterDimension", "HookRequest", "Notify"} {
		for _, p := range schemas[name].Properties {
			if p.Type == huma.TypeString && p.Enum == nil {
				p.MaxLength = &a.Limits.Text
			}
		}
	}
	for _, name := range []string{"JobChoice", "Resumption", "AnnotationsPatch", "HookRequest"} {
		schemas[name].AdditionalProperties = false // what is not known would change what the request means
	}
	task := schemas["UpscalingTaskRequest"]
	task.Required = slices.DeleteFunc(task.Required, func(name string) bool { return name == "service" }) // or services
	schemas["TileRequest"].Properties["grid"].Enum = enumOf(facade.GridNames())
	schemas["JobChoice"].MinProperties = new(1)
	schemas["Resumption"].MinProperties = new(1)
	schemas["ParameterDimension"].Properties["values"].MaxItems = &a.Limits.Values
	schemas["ErrorCode"] = &huma.Schema{Type: huma.TypeString, Enum: enumOf(call.Codes),
		Description: "The codes of errors. Later versions can have more"}
	for _, name := range []string{"ErrorResponse", "HTTPValidationError", "MissingResults"} {
		schemas[name].Properties["error_code"] = anyErrorCode(schemas[name].Properties["error_code"])
	}
	for _, name := range []string{"ErrorResponse", "HTTPValidationError"} {
		details := schemas[name].Properties["details"]
		details.AdditionalProperties = nil
		details.Properties = map[string]*huma.Schema{
			"errors": {Type: huma.TypeArray, Items: &huma.Schema{Ref: SchemasPath + "ValidationError"},
				Description: "Of VALIDATION_ERROR and APPLICATION_INVALID: all faults of the request"},
			"link": {Type: huma.TypeString, Nullable: true,
				Description: "Of SIGN_IN_REQUIRED: the page where you link or renew the account; null: there is none"}}
	}
	schemas["ValidationError"].Properties["loc"].Items = &huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeString},
		{Type: huma.TypeInteger}}}
	schemas["GeometryCollection"].Properties["geometries"].Items = &huma.Schema{
		AnyOf: geometries(a.OpenAPI().Components.Schemas, "Polygon", "MultiPolygon")}
	for _, name := range []string{"Parameter", "ServiceParameter"} {
		object := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
		schemas[name].Properties["schema"].AnyOf = []*huma.Schema{object, {Type: huma.TypeArray, Items: object},
			{Type: huma.TypeBoolean}, {Type: "null"}}
	}
	for _, name := range []string{"ServiceSummary", "CatalogueService"} {
		AllowNull(schemas[name].Properties, "provider", "parameters_error", "rules")
	}
	AllowNull(schemas["ServiceRules"].Properties, "budget")
	AllowNull(schemas["TaskRest"].Properties, "costs", "seconds")
	codes := &schemas["JobAttention"].Properties["code"].Enum
	for code := range Attentions {
		*codes = append(*codes, string(code))
	}
	slices.SortFunc(*codes, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
}

// anyErrorCode returns the schema of a member that has a known code of an error, or one of a later version.
func anyErrorCode(member *huma.Schema) *huma.Schema {
	return &huma.Schema{Description: member.Description, Examples: member.Examples,
		AnyOf: []*huma.Schema{{Ref: SchemasPath + "ErrorCode"}, {Type: huma.TypeString}}}
}

// AllowNull makes those of the named properties that refer to other schemas nullable, which the tag nullable cannot.
func AllowNull(properties map[string]*huma.Schema, names ...string) {
	for _, name := range names {
		if p := properties[name]; p != nil {
			properties[name] = &huma.Schema{AnyOf: []*huma.Schema{{Ref: p.Ref}, {Type: "null"}},
				Description: p.Description}
		}
	}
}

// Takes gives an operation a body, and the responses to one that cannot be read. It is called after the registration,
// or huma would read the body.
func (a *Document) Takes(op *huma.Operation, body *huma.RequestBody) {
	op.RequestBody = body
	maps.Copy(op.Responses, a.Errors(http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity))
}

// Body describes a request body of type T.
func Body[T any](a *Document) *huma.RequestBody {
	return exampleBody[T](a, nil)
}

func exampleBody[T any](a *Document, examples map[string]*huma.Example) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {
		Schema: schemaOf[T](a), Examples: examples}}}
}

func enumOf[T ~string](words []T) (all []any) {
	for _, w := range words {
		all = append(all, string(w))
	}
	return all
}

// JobBody describes the request body of a job, with an example for each protocol.
func (a *Document) JobBody() *huma.RequestBody {
	return exampleBody[wire.BaseJobRequest](a, map[string]*huma.Example{
		"openeo": {Summary: "A process graph on an openEO back-end", Value: map[string]any{
			"title": "NDVI of the Hesbaye, spring", "label": "openeo", "format": "gtiff",
			"service": map[string]any{"endpoint": a.endpointOf(dispatch.OpenEO),
				"application": "https://apps.example.org/ndvi_composite.json"},
			"parameters": map[string]any{"temporal_extent": []any{"2026-03-01", "2026-06-01"},
				"spatial_extent": map[string]any{"west": 5.0, "south": 50.6, "east": 5.3, "north": 50.8}}}},
		"ogc_api_process": {Summary: "A process of an OGC API - Processes server", Value: map[string]any{
			"title": "Burnt area, August", "label": "ogc_api_process", "format": "geojson",
			"service": map[string]any{"endpoint": a.endpointOf(dispatch.OGCProcess), "namespace": "fire",
				"application": "burnt-area"},
			"parameters": map[string]any{"date": "2026-08-14", "threshold": 0.27}}},
	})
}

// TaskBody describes the request body of a task, with an example.
func (a *Document) TaskBody() *huma.RequestBody {
	return exampleBody[wire.UpscalingTaskRequest](a, map[string]*huma.Example{
		"openeo": {Summary: "A process graph over two tiles", Value: map[string]any{
			"title": "NDVI of the Hesbaye, by tile", "label": "openeo", "format": "gtiff",
			"service": map[string]any{"endpoint": a.endpointOf(dispatch.OpenEO),
				"application": "https://apps.example.org/ndvi_composite.json"},
			"parameters": map[string]any{"temporal_extent": []any{"2026-03-01", "2026-06-01"}},
			"dimension": map[string]any{"name": "spatial_extent", "values": []any{
				map[string]any{"west": 5.0, "south": 50.6, "east": 5.1, "north": 50.7},
				map[string]any{"west": 5.1, "south": 50.6, "east": 5.2, "north": 50.7}}}}},
	})
}
