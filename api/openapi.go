package api

import (
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/dispatch"
)

// document is the OpenAPI document before the operations are added.
func (a *api) document() huma.Config {
	c := huma.DefaultConfig(a.Title, a.Version)
	c.Info.Description = strings.TrimSpace(a.Description + "\n\n" + introduction)
	c.Tags = tags
	c.AllowAdditionalPropertiesByDefault = true
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil // no $schema members in the answers
	c.Formats = map[string]huma.Format{"application/json": huma.DefaultJSONFormat}
	c.Security = []map[string][]string{{"bearer": {}}}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer",
		BearerFormat: "JWT", Description: "An access token of the identity provider that this service trusts."}}
	if a.PublicURL != "" {
		c.Servers = []*huma.Server{{URL: a.PublicURL}}
	}
	return c
}

// routes declares what is served. The errors of an operation are those that it can answer with besides those of all.
func (a *api) routes() {
	register(a, huma.Operation{OperationID: "health", Method: http.MethodGet, Path: "/health", Tags: []string{"service"},
		Summary: "Whether the service works", Description: "An empty body, when the database answers.",
		DefaultStatus: http.StatusOK, Security: []map[string][]string{}, Responses: a.errors(503)}, a.health)
	register(a, huma.Operation{OperationID: "create_unit_job", Method: http.MethodPost, Path: "/unit_jobs", Tags: []string{"jobs"},
		Summary:       "Submit a job",
		Description:   "Answers when the platform has taken or refused the job. Where that takes longer, or the platform has no room, the job is created, and submitted later.",
		DefaultStatus: http.StatusCreated, Parameters: []*huma.Param{keyParam},
		Responses: a.errors(401, 403, 408, 409, 413, 415, 422, 429, 501, 502, 503, 504)}, a.createJob)
	register(a, huma.Operation{OperationID: "get_unit_job", Method: http.MethodGet, Path: "/unit_jobs/{job_id}", Tags: []string{"jobs"},
		Summary: "How a job stands", Description: "As the platform says. Where it does not answer: as last known, with checked and attention.",
		Parameters: []*huma.Param{idParam, waitParam, knownParam}, Responses: withNotModified(a.errors(401, 404, 422, 429, 503))}, a.readJob)
	register(a, huma.Operation{OperationID: "cancel_unit_job", Method: http.MethodPost, Path: "/unit_jobs/{job_id}/cancel", Tags: []string{"jobs"},
		Summary: "Cancel a job", Description: "The job is canceled on its platform if it has not ended, and stays in the list. Repeating it does nothing more.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{idParam}, Responses: a.errors(401, 404, 422, 503)}, a.cancelJob)
	register(a, huma.Operation{OperationID: "get_unit_job_results", Method: http.MethodGet, Path: "/unit_jobs/{job_id}/results", Tags: []string{"jobs"},
		Summary: "The results of a job", Description: "A STAC Collection; null while the job has not ended. Where the platform calls the job finished and does not give its results yet, the answer is 503, PLATFORM_BUSY.",
		Parameters: []*huma.Param{idParam}, Responses: a.errors(401, 403, 404, 409, 422, 429, 501, 502, 503, 504)}, a.readResults)
	register(a, huma.Operation{OperationID: "delete_unit_job", Method: http.MethodDelete, Path: "/unit_jobs/{job_id}", Tags: []string{"jobs"},
		Summary: "Cancel and remove a job", Description: "The job is canceled on its platform if it has not ended.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{idParam}, Responses: withNull(a.errors(401, 404, 409, 422, 503))}, a.deleteJob)
	register(a, huma.Operation{OperationID: "run_sync_job", Method: http.MethodPost, Path: "/sync_jobs", Tags: []string{"jobs"},
		Summary: "Run a job and wait for its result", Description: "The result as the platform sends it: its bytes, its Content-Type.",
		DefaultStatus: http.StatusOK,
		Responses:     withBytes(a.errors(401, 403, 408, 409, 413, 415, 422, 429, 501, 502, 503, 504))}, a.runSync)
	register(a, huma.Operation{OperationID: "get_jobs_status", Method: http.MethodGet, Path: "/jobs_status", Tags: []string{"jobs"},
		Summary: "How all jobs stand", Description: "The caller's tasks, and the jobs that belong to no task, newest first.",
		Parameters: append([]*huma.Param{filterParam, waitParam, knownParam}, pageParams...), Responses: withNotModified(withBody[JobsStatusResponse](a, a.errors(401, 422, 429, 503)))}, a.listJobs)
	register(a, huma.Operation{OperationID: "get_unit_job_logs", Method: http.MethodGet, Path: "/unit_jobs/{job_id}/logs", Tags: []string{"jobs"},
		Summary: "What a job logged", Description: "On its platform, oldest first, in pages: the header Link names the next.",
		Parameters: []*huma.Param{idParam, limitParam, offsetParam}, Responses: a.errors(401, 403, 404, 409, 422, 501, 502, 503, 504)}, a.readLogs)
	register(a, huma.Operation{OperationID: "get_unit_job_document", Method: http.MethodGet, Path: "/unit_jobs/{job_id}/document", Tags: []string{"jobs"},
		Summary: "What defined the service of a job when it was accepted",
		Description: "The document at the URL that the job names as its application or namespace, as it was then. Its ETag is its SHA-256. " +
			"While jobs wait, the document is looked at hourly; where it changed, they and their task have the attention service_changed.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{idParam}, Responses: withDocument(a.errors(401, 404, 422, 503))}, a.readDocument)
	register(a, huma.Operation{OperationID: "describe_parameters", Method: http.MethodPost, Path: "/params", Tags: []string{"services"},
		Summary: "The parameters of a service", Description: "In the order of its document.", DefaultStatus: http.StatusOK,
		Responses: a.errors(401, 403, 408, 409, 413, 415, 422, 429, 501, 502, 503, 504)}, a.describe)
	register(a, huma.Operation{OperationID: "list_platforms", Method: http.MethodGet, Path: "/platforms", Tags: []string{"services"},
		Summary: "The platforms, and how they stand for you", Description: "By what is known: none of them is asked. Of other users' jobs it tells only numbers.",
		Responses: a.errors(401, 503)}, a.listPlatforms)
	register(a, huma.Operation{OperationID: "create_tiles", Method: http.MethodPost, Path: "/tiles", Tags: []string{"tiles"},
		Summary:       "Split an area into tiles",
		Description:   "The cells of a global grid that the area shares ground with, cut at its border. Areas that meet get the same cells where they meet.",
		DefaultStatus: http.StatusCreated, Security: []map[string][]string{},
		Responses: withTiles(a, a.errors(408, 413, 415, 422, 429))}, a.createTiles)
	register(a, huma.Operation{OperationID: "list_grids", Method: http.MethodGet, Path: "/grids", Tags: []string{"tiles"},
		Summary: "The grids that areas can be split on", DefaultStatus: http.StatusOK, Security: []map[string][]string{},
		Responses: a.errors()}, a.listGrids)
	a.huma.OpenAPI().Paths["/params"].Post.RequestBody = body[ParamRequest](a)
	a.huma.OpenAPI().Paths["/tiles"].Post.RequestBody = body[TileRequest](a)
	register(a, huma.Operation{OperationID: "create_upscale_task", Method: http.MethodPost, Path: "/upscale_tasks", Tags: []string{"tasks"},
		Summary: "Submit a job for each of many values",
		Description: "Keeps the task with all its jobs, or nothing of it, and answers at once: the broker brings the jobs to the platform as its limits allow. " +
			"Job n, from 1, is titled \"{title} - Processing Job {n}\"; its parameters are the task's and the dimension with the n-th value.",
		DefaultStatus: http.StatusCreated, Parameters: []*huma.Param{keyParam},
		Responses: a.errors(401, 403, 408, 409, 413, 415, 422, 429, 501, 502, 503, 504)}, a.createTask)
	register(a, huma.Operation{OperationID: "get_upscale_task", Method: http.MethodGet, Path: "/upscale_tasks/{task_id}", Tags: []string{"tasks"},
		Summary: "How a task and its jobs stand", Description: "As the platform says. Where it does not answer: as last known, with checked and attention.",
		Parameters: append([]*huma.Param{taskParam, waitParam, knownParam}, pageParams...), Responses: withNotModified(withBody[UpscalingTask](a, a.errors(401, 404, 422, 429, 503)))}, a.readTask)
	register(a, huma.Operation{OperationID: "delete_upscale_task", Method: http.MethodDelete, Path: "/upscale_tasks/{task_id}", Tags: []string{"tasks"},
		Summary: "Cancel and remove a task and its jobs",
		Description: "None of them is shown any more. Jobs that wait are not submitted, those that run are canceled on their platform. " +
			"One that is just being submitted is canceled as soon as it is known whether the platform took it.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{taskParam}, Responses: withNull(a.errors(401, 404, 422, 503))}, a.deleteTask)
	register(a, huma.Operation{OperationID: "retry_upscale_task", Method: http.MethodPost, Path: "/upscale_tasks/{task_id}/retry", Tags: []string{"tasks"},
		Summary: "Carry out again what failed",
		Description: "The failed jobs of the task become created again and are submitted anew, under their ids. Jobs that wait, run, have finished or were canceled are left as they are. " +
			"Repeating it does nothing to a job that has not failed again.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{taskParam}, Responses: a.errors(401, 403, 404, 422, 429, 503)}, a.retryTask)
	a.taskResultRoutes()
	for _, path := range []string{"/unit_jobs", "/sync_jobs"} { // afterwards, or huma would read the body
		a.huma.OpenAPI().Paths[path].Post.RequestBody = a.jobBody()
	}
	a.huma.OpenAPI().Paths["/upscale_tasks"].Post.RequestBody = a.taskBody()
	a.refine(a.huma.OpenAPI().Components.Schemas.Map())
}

// refine says in the schemas what tags cannot.
func (a *api) refine(schemas map[string]*huma.Schema) {
	for _, name := range []string{"BaseJobRequest", "UpscalingTaskRequest"} {
		schemas[name].Properties["title"].MaxLength = &a.Limits.Title
	}
	schemas["Dimension"].Properties["values"].MaxItems = &a.Limits.Values
	schemas["ValidationError"].Properties["loc"].Items = &huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeInteger}}}
	codes := &schemas["JobAttention"].Properties["code"].Enum
	for code := range attentions {
		*codes = append(*codes, string(code))
	}
	slices.SortFunc(*codes, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
}

var (
	idParam = &huma.Param{Name: "job_id", In: "path", Required: true,
		Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int64"}, Example: 42}
	taskParam = &huma.Param{Name: "task_id", In: "path", Required: true,
		Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int64"}, Example: 7}
	keyParam = &huma.Param{Name: "Idempotency-Key", In: "header",
		Description: "The client's name for this request. Repeating it with the same body submits nothing twice; it is remembered for a day. If what it stands for was deleted since, the answer is 409.",
		Schema:      &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(255)}}
	limitParam = &huma.Param{Name: "limit", In: "query", Description: "Entries of a page",
		Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(mostLogs)), Default: manyLogs}}
	offsetParam = &huma.Param{Name: "offset", In: "query", Description: "Entries to pass over",
		Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0), Maximum: new(float64(math.MaxInt32)), Default: 0}}
	waitParam = &huma.Param{Name: "wait", In: "query", Schema: &huma.Schema{Type: huma.TypeNumber},
		Description: "Seconds, 60 at most, to wait for a change of what this request shows: from now on, or with If-None-Match from what has that ETag. " +
			"Only the latter misses no change between two requests. A user has as many requests that wait at once as streams, limits.streams of them; the next are answered with 429."}
	knownParam = &huma.Param{Name: "If-None-Match", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
		Description: "ETags that the client has. If one of them still holds, after wait if that is given, the answer is 304 without a body. " +
			"An ETag changes with what is shown, but for checked and queue_position."}
	pageParams = []*huma.Param{
		{Name: "limit", In: "query", Description: "How many at most, 1000 at most; the header Link leads to the next ones.",
			Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)}},
		{Name: "cursor", In: "query", Description: "From a Link of the same list.", Schema: &huma.Schema{Type: huma.TypeString}},
		{Name: "status", In: "query", Explode: new(true), Description: "Only what has one of these.",
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Enum: enumOf(statuses)}}},
		{Name: "platform", In: "query", Explode: new(true), Description: "Only what is at one of these.",
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}},
		{Name: "parameters", In: "query", Description: "false: jobs come without their parameters, which may be large.",
			Schema: &huma.Schema{Type: huma.TypeBoolean, Default: true}},
		{Name: "since", In: "query", Description: "Only what looks different since.", Schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}},
	}
	filterParam = &huma.Param{Name: "filter", In: "query", Explode: new(true), Description: "What to list; without it all jobs and tasks. `sync` lists, by itself and without parameters, the synchronous runs of the last 30 days.",
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Enum: []any{"upscaling", "processing", "sync"}}}}
)

// body describes a request's body.
func body[T any](a *api) *huma.RequestBody {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// withTiles describes the tiles of an area.
func withTiles(a *api, all map[string]*huma.Response) map[string]*huma.Response {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[GeometryCollection](), true, "")
	all["201"] = &huma.Response{Description: "The tiles", Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
	return all
}

func enumOf[T ~string](words []T) (all []any) {
	for _, w := range words {
		all = append(all, string(w))
	}
	return all
}

// jobBody is a job to be run, with an example for each protocol.
func (a *api) jobBody() *huma.RequestBody {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[BaseJobRequest](), true, "")
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema,
		Examples: map[string]*huma.Example{
			"openeo": {Summary: "A process graph on an openEO back-end", Value: map[string]any{
				"title": "NDVI of the Hesbaye, spring", "label": "openeo", "format": "gtiff",
				"service": map[string]any{"endpoint": a.endpointOf(dispatch.OpenEO), "application": "https://apps.example.org/ndvi_composite.json"},
				"parameters": map[string]any{"temporal_extent": []any{"2026-03-01", "2026-06-01"},
					"spatial_extent": map[string]any{"west": 5.0, "south": 50.6, "east": 5.3, "north": 50.8}}}},
			"ogc_api_process": {Summary: "A process of an OGC API - Processes server", Value: map[string]any{
				"title": "Burnt area, August", "label": "ogc_api_process", "format": "geojson",
				"service":    map[string]any{"endpoint": a.endpointOf(dispatch.OGCProcess), "namespace": "fire", "application": "burnt-area"},
				"parameters": map[string]any{"date": "2026-08-14", "threshold": 0.27}}},
		}}}}
}

// taskBody is a task, with an example.
func (a *api) taskBody() *huma.RequestBody {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[UpscalingTaskRequest](), true, "")
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema,
		Examples: map[string]*huma.Example{"openeo": {Summary: "A process graph over two tiles", Value: map[string]any{
			"title": "NDVI of the Hesbaye, by tile", "label": "openeo", "format": "gtiff",
			"service":    map[string]any{"endpoint": a.endpointOf(dispatch.OpenEO), "application": "https://apps.example.org/ndvi_composite.json"},
			"parameters": map[string]any{"temporal_extent": []any{"2026-03-01", "2026-06-01"}},
			"dimension": map[string]any{"name": "spatial_extent", "values": []any{
				map[string]any{"west": 5.0, "south": 50.6, "east": 5.1, "north": 50.7}, map[string]any{"west": 5.1, "south": 50.6, "east": 5.2, "north": 50.7}}}}}},
	}}}
}

var reasons = map[int]string{
	408: "The body did not arrive in time",
	409: "CONFLICT: the state forbids it. SIGN_IN_REQUIRED: the user must link or renew an account, at details.link",
	422: "VALIDATION_ERROR: all that is wrong with the request. APPLICATION_INVALID: the document at the application's address defines no service, or is refused",
	429: "RATE_LIMITED: the broker's own limit, such as that of jobs a user may have that have not ended",
	501: "The platform has no such ability",
	502: "PLATFORM_ERROR: the platform's fault. PLATFORM_UNCERTAIN: it may have taken the request",
	503: "PLATFORM_BUSY, PLATFORM_UNAVAILABLE, or SERVICE_UNAVAILABLE, such as while the database does not answer: repeat later. APPLICATION_UNREACHABLE: the document at the application's address cannot be fetched",
	504: "PLATFORM_UNAVAILABLE: the platform did not answer in time",
}

// errors describes the answers of these statuses, and of 500, which any operation may give.
func (a *api) errors(statuses ...int) map[string]*huma.Response {
	schemas := a.huma.OpenAPI().Components.Schemas
	all := map[string]*huma.Response{}
	for _, status := range append(statuses, http.StatusInternalServerError, http.StatusTooManyRequests) {
		body := schemas.Schema(reflect.TypeFor[ErrorResponse](), true, "")
		if status == http.StatusUnprocessableEntity {
			body = schemas.Schema(reflect.TypeFor[HTTPValidationError](), true, "")
		}
		reason := reasons[status]
		if reason == "" {
			reason = http.StatusText(status)
		}
		all[strconv.Itoa(status)] = &huma.Response{Description: reason, Headers: headers[status],
			Content: map[string]*huma.MediaType{"application/json": {Schema: body}}}
	}
	return all
}

// headers that come with these errors.
var headers = map[int]map[string]*huma.Param{
	401: {"WWW-Authenticate": {Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"Bearer"}}}},
	429: {"Retry-After": {Description: "Seconds", Schema: &huma.Schema{Type: huma.TypeInteger}}},
	503: {"Retry-After": {Description: "Seconds; not where the platform did not say", Schema: &huma.Schema{Type: huma.TypeInteger}}},
}

// withNull describes an answer that says nothing but that it is done.
func withNull(all map[string]*huma.Response) map[string]*huma.Response {
	all["200"] = &huma.Response{Description: "Done",
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: "null"}}}}
	return all
}

// withBody describes an answer that was encoded before.
func withBody[T any](a *api, all map[string]*huma.Response) map[string]*huma.Response {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	all["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{"application/json": {Schema: schema}},
		Headers: map[string]*huma.Param{"Cache-Control": {Schema: &huma.Schema{Type: huma.TypeString}}, "ETag": {Schema: &huma.Schema{Type: huma.TypeString}},
			"Link": {Schema: &huma.Schema{Type: huma.TypeString}, Description: "To the next part"}}}
	return all
}

// withNotModified describes the answer to a client that has what is shown.
func withNotModified(all map[string]*huma.Response) map[string]*huma.Response {
	all["304"] = &huma.Response{Description: "What the client has still holds",
		Headers: map[string]*huma.Param{"ETag": {Schema: &huma.Schema{Type: huma.TypeString}}}}
	return all
}

// withGeoJSON describes an answer that is GeoJSON.
func withGeoJSON[T any](a *api, all map[string]*huma.Response) map[string]*huma.Response {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	all["200"] = &huma.Response{Description: "GeoJSON", Content: map[string]*huma.MediaType{mediaGeoJSON: {Schema: schema}}}
	return all
}

// withBytes describes an answer of any content.
func withDocument(all map[string]*huma.Response) map[string]*huma.Response {
	all["200"] = &huma.Response{Description: "The document", Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}},
		Headers: map[string]*huma.Header{"ETag": {Description: "Its SHA-256", Schema: &huma.Schema{Type: huma.TypeString}}}}
	return all
}

func withBytes(all map[string]*huma.Response) map[string]*huma.Response {
	all["200"] = &huma.Response{Description: "The platform's result", Content: map[string]*huma.MediaType{
		"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}, // what generators of clients understand
		"*/*":                      {Schema: &huma.Schema{}},
	}}
	return all
}
