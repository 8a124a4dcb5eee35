package api

import (
	"cmp"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/grid"
)

// document returns the OpenAPI document without operations.
func (a *api) document() huma.Config {
	c := huma.DefaultConfig(a.Title, cmp.Or(a.DocumentVersion, a.Version))
	c.Info.Description = strings.TrimSpace(a.Description + "\n\n" + introduction)
	c.Tags = tags
	c.AllowAdditionalPropertiesByDefault = true
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil // no $schema members in responses
	c.Formats = map[string]huma.Format{"application/json": huma.DefaultJSONFormat}
	c.Security = []map[string][]string{{"bearer": {}}}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer",
		BearerFormat: "JWT",
		Description:  "An access token of the identity provider that this service trusts. It is verified with each request."}}
	if a.Sessions != nil {
		c.Security = append(c.Security, map[string][]string{"session": {}})
		c.Components.SecuritySchemes["session"] = &huma.SecurityScheme{Type: "apiKey", In: "cookie",
			Name: a.cookie(sessionCookie, "", 0).Name,
			Description: "The session of a browser that signed in to the page at /. It is accepted only in requests from " +
				"that page."}
	}
	if a.PublicURL != "" {
		c.Servers = []*huma.Server{{URL: a.PublicURL}}
	}
	return c
}

// routes registers all operations but those of access and tickets. The statuses in Responses are those that an
// operation can answer besides those that all can.
func (a *api) routes() {
	a.jobRoutes()
	a.serviceRoutes()
	a.catalogueRoutes()
	a.taskRoutes()
	a.taskResultRoutes()
	a.refine(a.huma.OpenAPI().Components.Schemas.Map())
}

// jobRoutes registers the operations on jobs, and the health check.
func (a *api) jobRoutes() {
	register(a, huma.Operation{OperationID: "health_health_get", Method: http.MethodGet, Path: "/health",
		Summary:       "Check whether the service works",
		Description:   "Answers 200 with an empty body if the database responds, else 503.",
		DefaultStatus: http.StatusOK, Security: []map[string][]string{}, Responses: a.errors(503)}, a.health)
	register(a, huma.Operation{OperationID: "create_unit_job_unit_jobs_post",
		Method: http.MethodPost, Path: "/unit_jobs", Tags: jobTags,
		Summary: "Submit a job",
		Description: "Waits up to ten seconds for the platform to accept or refuse the job. If that takes longer, or the " +
			"platform has no free slot in this time, the job is stored with the status created and submitted later. " +
			"Let clients wait for 30 seconds; with an Idempotency-Key the request can be repeated.",
		DefaultStatus: http.StatusCreated, Parameters: []*huma.Param{keyParam},
		Responses: a.errors(401, 403, 408, 409, 413, 415, 422, 429, 501, 502, 503, 504)}, a.createJob)
	register(a, huma.Operation{OperationID: "get_job_unit_jobs__job_id__get",
		Method: http.MethodGet, Path: "/unit_jobs/{job_id}", Tags: jobTags,
		Summary: "Get a job",
		Description: "Returns the status that the platform reports. If the platform does not respond, it is the last known " +
			"status: checked is the time when the platform was last asked, and attention says what is wrong.",
		Parameters: []*huma.Param{idParam, waitParam, knownParam}, Responses: withNotModified(a.errors(401, 404, 422, 429,
			503))}, a.readJob)
	register(a, huma.Operation{OperationID: "cancel_unit_job",
		Method: http.MethodPost, Path: "/unit_jobs/{job_id}/cancel", Tags: jobTags,
		Summary: "Cancel a job",
		Description: "Cancels the job on its platform if it has not ended. The job stays in the list. Repeating the " +
			"request has no further effect.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{idParam}, Responses: a.errors(401, 404, 422, 503)},
		a.cancelJob)
	register(a, huma.Operation{OperationID: "annotate_unit_job",
		Method: http.MethodPatch, Path: "/unit_jobs/{job_id}", Tags: jobTags,
		Summary: "Change the labels and the note of a job",
		Description: "The body is a JSON merge patch (RFC 7396). It changes nothing at the platform, also if the job " +
			"has ended.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{idParam}, Responses: a.errors(401, 404, 408, 413, 415, 422,
			503)}, a.annotateJob)
	register(a, huma.Operation{OperationID: "get_job_results_unit_jobs__job_id__results_get",
		Method: http.MethodGet, Path: "/unit_jobs/{job_id}/results", Tags: jobTags,
		Summary: "Get the results of a job",
		Description: "Returns a STAC Collection, or null while the job has not ended. If the platform calls the job " +
			"finished but does not provide its results yet, the response is 503, PLATFORM_BUSY.",
		Parameters: []*huma.Param{idParam}, Responses: a.errors(401, 403, 404, 409, 422, 429, 501, 502, 503, 504)},
		a.readResults)
	register(a, huma.Operation{OperationID: "delete_job_unit_jobs__job_id__delete",
		Method: http.MethodDelete, Path: "/unit_jobs/{job_id}", Tags: jobTags,
		Summary:       "Cancel and delete a job",
		Description:   "Cancels the job on its platform if it has not ended, and removes it from the list.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{idParam, platformParam},
		Responses: withNull(a.errors(401, 404, 409, 422, 503))}, a.deleteJob)
	register(a, huma.Operation{OperationID: "create_sync_job_sync_jobs_post",
		Method: http.MethodPost, Path: "/sync_jobs", Tags: jobTags,
		Summary: "Run a job and wait for its result",
		Description: "Returns the result as the platform sends it, with its Content-Type. The result is not stored: if the " +
			"response breaks off, run the job again. " +
			"With the header Prefer: wait=N the request is submitted as a job instead, and so it is, with a wait of 30 " +
			"seconds, if the platform runs it as a job only. If the job finishes within the wait, " +
			"the response has its results, a STAC Collection; if it fails, the response is an error. Otherwise the response " +
			"is 202, and the job goes on: Location is its address.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{keyParam, preferParam},
		Responses: withGoingOn(a, withBytes(a.errors(401, 403, 408, 409, 413, 415, 422, 429, 501, 502, 503, 504)))},
		a.runSync)
	register(a, huma.Operation{OperationID: "get_jobs_status_jobs_status_get",
		Method: http.MethodGet, Path: "/jobs_status", Tags: slices.Concat(taskTags, jobTags),
		Summary:     "List jobs and tasks",
		Description: "Returns your tasks, and your jobs that belong to no task, newest first.",
		Parameters:  append([]*huma.Param{filterParam, sortParam, waitParam, knownParam}, pageParams...),
		Responses:   withNotModified(withBody[wire.JobsStatusResponse](a, a.errors(401, 422, 429, 503)))}, a.listJobs)
	register(a, huma.Operation{OperationID: "get_unit_job_logs",
		Method: http.MethodGet, Path: "/unit_jobs/{job_id}/logs", Tags: jobTags,
		Summary: "Get the logs of a job",
		Description: "Returns what the platform logged about the job, oldest first, in pages. The header Link leads to the " +
			"next page.",
		Parameters: []*huma.Param{idParam, limitParam, offsetParam}, Responses: a.errors(401, 403, 404, 409, 422, 501, 502,
			503, 504)}, a.readLogs)
	register(a, huma.Operation{OperationID: "get_unit_job_document",
		Method: http.MethodGet, Path: "/unit_jobs/{job_id}/document", Tags: jobTags,
		Summary: "Get the document that defined a job's service",
		Description: "Returns the document at the URL that the job names as its application or namespace, as it was when " +
			"the job was accepted. Its ETag is its SHA-256. " +
			"While jobs wait, the document is fetched again every hour. If it has changed, the jobs and their task get the " +
			"attention service_changed.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{idParam}, Responses: withDocument(a.errors(401, 404, 422,
			503))}, a.readDocument)
	register(a, huma.Operation{OperationID: "get_unit_job_provenance",
		Method: http.MethodGet, Path: "/unit_jobs/{job_id}/provenance", Tags: jobTags,
		Summary: "Get the provenance of a job",
		Description: "Returns PROV-JSON (W3C): the service with the SHA-256 of its document and at what time it was that, " +
			"the parameters, the platform, the job with its times and costs, and the results that it generated. " +
			"It does not name you, so that it can be published beside the results.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{idParam}, Responses: a.errors(401, 404, 422, 503)},
		a.readProvenance)
	a.huma.OpenAPI().Paths["/unit_jobs/{job_id}"].Patch.RequestBody = body[wire.AnnotationsPatch](a)
	for _, path := range []string{"/unit_jobs", "/sync_jobs"} { // after the registration, or huma would read the body
		a.huma.OpenAPI().Paths[path].Post.RequestBody = a.jobBody()
	}
}

// serviceRoutes registers the operations on services, platforms and tiles.
func (a *api) serviceRoutes() {
	register(a, huma.Operation{OperationID: "get_job_params_params_post",
		Method: http.MethodPost, Path: "/params", Tags: jobTags,
		Summary:     "List the parameters of a service",
		Description: "Returns the parameters in the order of the service's document.", DefaultStatus: http.StatusOK,
		Responses: a.errors(401, 403, 408, 409, 413, 415, 422, 429, 501, 502, 503, 504)}, a.describe)
	register(a, huma.Operation{OperationID: "list_platforms", Method: http.MethodGet, Path: "/platforms",
		Tags:    []string{"services"},
		Summary: "List the platforms",
		Description: "Returns what you can expect of each platform by its last responses; no platform is asked. Of other " +
			"users' jobs only numbers are returned.",
		Responses: a.errors(401, 503)}, a.listPlatforms)
	register(a, huma.Operation{OperationID: "split_in_tiles_tiles_post",
		Method: http.MethodPost, Path: "/tiles", Tags: taskTags,
		Summary: "Split an area into tiles",
		Description: "Returns the cells of a global grid that overlap the area, cut at its border. Areas that overlap " +
			"get the same cells there.",
		DefaultStatus: http.StatusCreated, Security: []map[string][]string{},
		Responses: withTiles(a, a.errors(408, 413, 415, 422, 429))}, a.createTiles)
	register(a, huma.Operation{OperationID: "list_grids", Method: http.MethodGet, Path: "/grids", Tags: taskTags,
		Summary: "List the grids", DefaultStatus: http.StatusOK, Security: []map[string][]string{},
		Responses: a.errors()}, a.listGrids)
	a.huma.OpenAPI().Paths["/params"].Post.RequestBody = body[wire.ParamRequest](a)
	a.huma.OpenAPI().Paths["/tiles"].Post.RequestBody = body[wire.TileRequest](a)
}

// taskRoutes registers the operations on tasks.
func (a *api) taskRoutes() {
	register(a, huma.Operation{OperationID: "create_upscale_task_upscale_tasks_post",
		Method: http.MethodPost, Path: "/upscale_tasks", Tags: taskTags,
		Summary: "Submit a task: a job for each value",
		Description: "Stores the task with all its jobs, or nothing, and answers at once. The broker submits the jobs as " +
			"the platform's limits allow. " +
			"Job n, counted from 1, has the title \"{title} - Processing Job {n}\"; its parameters are those of the task and " +
			"the dimension with the n-th value.",
		DefaultStatus: http.StatusCreated, Parameters: []*huma.Param{keyParam},
		Responses: a.errors(401, 403, 408, 409, 413, 415, 422, 429, 501, 502, 503, 504)}, a.createTask)
	register(a, huma.Operation{OperationID: "get_upscale_task_upscale_tasks__task_id__get",
		Method: http.MethodGet, Path: "/upscale_tasks/{task_id}", Tags: taskTags,
		Summary: "Get a task and its jobs",
		Description: "Returns the statuses that the platform reports. If the platform does not respond, they are the last " +
			"known ones: checked is the time when the platform was last asked, and attention says what is wrong.",
		Parameters: append([]*huma.Param{taskParam, waitParam, knownParam}, pageParams...),
		Responses:  withNotModified(withBody[wire.UpscalingTask](a, a.errors(401, 404, 422, 429, 503)))}, a.readTask)
	register(a, huma.Operation{OperationID: "delete_upscale_task",
		Method: http.MethodDelete, Path: "/upscale_tasks/{task_id}", Tags: taskTags,
		Summary: "Cancel and delete a task and its jobs",
		Description: "Removes the task and its jobs from the lists. Jobs that wait are not submitted; jobs that run are " +
			"canceled on their platform. " +
			"A job that is being submitted is canceled as soon as it is known whether the platform accepted it.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{taskParam, platformParam},
		Responses: withNull(a.errors(401, 404, 422, 429, 503))}, a.deleteTask)
	register(a, huma.Operation{OperationID: "annotate_upscale_task",
		Method: http.MethodPatch, Path: "/upscale_tasks/{task_id}", Tags: taskTags,
		Summary: "Change the labels and the note of a task",
		Description: "The body is a JSON merge patch (RFC 7396). It changes nothing at the platform, and nothing of the " +
			"jobs of the task.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{taskParam}, Responses: a.errors(401, 404, 408, 413, 415, 422,
			503)}, a.annotateTask)
	register(a, huma.Operation{OperationID: "cancel_upscale_task",
		Method: http.MethodPost, Path: "/upscale_tasks/{task_id}/cancel", Tags: taskTags,
		Summary: "Cancel a task and keep it",
		Description: "Jobs that wait are not submitted; jobs that run are canceled on their platform; jobs that have ended " +
			"stay as they are. " +
			"The task and its jobs stay in the lists, and a pause of the task ends. With a body only the jobs that it chooses " +
			"are canceled, and a pause goes on. " +
			"Repeating the request has no further effect.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{taskParam},
		Responses: a.errors(401, 404, 408, 413, 415, 422, 429, 503)}, a.jobsChange(taskBroker.CancelTask))
	register(a, huma.Operation{OperationID: "pause_upscale_task",
		Method: http.MethodPost, Path: "/upscale_tasks/{task_id}/pause", Tags: taskTags,
		Summary: "Pause a task",
		Description: "Jobs that wait are not submitted until the task is resumed, and get the attention paused. Jobs that " +
			"were submitted go on. " +
			"Paused jobs count for your limit of unfinished jobs. Repeating the request has no further effect. If all jobs " +
			"have ended the response is 409.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{taskParam},
		Responses: a.errors(401, 404, 409, 422, 429, 503)}, a.taskChange(taskBroker.PauseTask))
	register(a, huma.Operation{OperationID: "resume_upscale_task",
		Method: http.MethodPost, Path: "/upscale_tasks/{task_id}/resume", Tags: taskTags,
		Summary: "Resume a paused task",
		Description: "Jobs that wait are submitted as the platform's limits allow; a trial is over. A task that is not " +
			"paused is not changed, except that a body sets its budget. " +
			"Without room in the budget for another job the response is 409: resume the task with a higher budget, with one " +
			"in the platform's unit, such as {\"budget\": {\"amount\": 8, \"unit\": \"credits\"}}, or with {\"budget\": null} " +
			"to end it.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{taskParam},
		Responses: a.errors(401, 403, 404, 408, 409, 413, 415, 422, 429, 503)}, a.resumeTask)
	register(a, huma.Operation{OperationID: "retry_upscale_task",
		Method: http.MethodPost, Path: "/upscale_tasks/{task_id}/retry", Tags: taskTags,
		Summary: "Retry the failed jobs of a task",
		Description: "The failed jobs of the task get the status created and are submitted again under the same ids, if " +
			"the task is paused after it was resumed. Other jobs are not changed. With a body only the jobs that it chooses " +
			"are retried. " +
			"Repeating the request has no effect on jobs that have not failed again.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{taskParam}, Responses: a.errors(401, 403, 404, 408, 413, 415,
			422, 429, 503)}, a.jobsChange(taskBroker.RetryTask))
	// after the registration, or huma would read the body
	for action, body := range map[string]*huma.RequestBody{"cancel": body[wire.JobChoice](a),
		"retry":  body[wire.JobChoice](a),
		"resume": body[wire.Resumption](a)} {
		body.Required = false
		a.huma.OpenAPI().Paths["/upscale_tasks/{task_id}/"+action].Post.RequestBody = body
	}
	a.huma.OpenAPI().Paths["/upscale_tasks/{task_id}"].Patch.RequestBody = body[wire.AnnotationsPatch](a)
	a.huma.OpenAPI().Paths["/upscale_tasks"].Post.RequestBody = a.taskBody()
}

// refine completes the schemas with what struct tags cannot express.
func (a *api) refine(schemas map[string]*huma.Schema) {
	for _, t := range []reflect.Type{reflect.TypeFor[wire.JobOptions](), reflect.TypeFor[wire.TaskOptions](),
		reflect.TypeFor[wire.HookRequest](), reflect.TypeFor[wire.StreamMessage](),
		reflect.TypeFor[wire.StatusChanges]()} {
		a.huma.OpenAPI().Components.Schemas.Schema(t, true, "")
	}
	for name, options := range map[string]string{"BaseJobRequest": "JobOptions",
		"UpscalingTaskRequest": "TaskOptions"} {
		request := schemas[name].Properties
		request["title"].MaxLength = &a.Limits.Title
		request["labels"].Nullable, request["note"].Nullable = true, true
		request["options"] = &huma.Schema{Ref: schemasPath + options, Description: request["options"].Description}
		allowNull(request, "options", "dimension")
	}
	allowNull(schemas["JobOptions"].Properties, "notify")
	allowNull(schemas["TaskOptions"].Properties, "notify")
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
	for name := range grid.All() {
		schemas["TileRequest"].Properties["grid"].Enum = append(schemas["TileRequest"].Properties["grid"].Enum,
			name.Name)
	}
	schemas["JobChoice"].MinProperties = new(1)
	schemas["Resumption"].MinProperties = new(1)
	schemas["ParameterDimension"].Properties["values"].MaxItems = &a.Limits.Values
	schemas["ValidationError"].Properties["loc"].Items = &huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeString},
		{Type: huma.TypeInteger}}}
	for _, name := range []string{"ServiceSummary", "CatalogueService"} {
		allowNull(schemas[name].Properties, "provider", "parameters_error", "rules")
	}
	allowNull(schemas["ServiceRules"].Properties, "budget")
	allowNull(schemas["TaskRest"].Properties, "costs", "seconds")
	codes := &schemas["JobAttention"].Properties["code"].Enum
	for code := range attentions {
		*codes = append(*codes, string(code))
	}
	slices.SortFunc(*codes, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
}

// allowNull makes those of the named properties that refer to other schemas nullable, which the tag nullable cannot.
func allowNull(properties map[string]*huma.Schema, names ...string) {
	for _, name := range names {
		if p := properties[name]; p != nil {
			properties[name] = &huma.Schema{AnyOf: []*huma.Schema{{Ref: p.Ref}, {Type: "null"}}, Description: p.Description}
		}
	}
}

var (
	idParam = &huma.Param{Name: "job_id", In: "path", Required: true,
		Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int64"}, Example: 42}
	taskParam = &huma.Param{Name: "task_id", In: "path", Required: true,
		Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int64"}, Example: 7}
	platformParam = &huma.Param{Name: "platform", In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean,
		Default: false},
		Description: "true: what the broker submitted is also deleted at the platform, with its results, once it has ended " +
			"there and its costs are known. " +
			"That happens after the response, and is repeated for a week while the platform does not answer."}
	keyParam = &huma.Param{Name: "Idempotency-Key", In: "header",
		Description: "A name of your choice for this request. Repeating the request with the same name and body submits " +
			"nothing twice. The name is remembered for a day. If the job or task was deleted since, the response is 409.",
		Schema: &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(255)}}
	preferParam = &huma.Param{Name: "Prefer", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
		Example: "wait=20",
		Description: "wait=N (RFC 7240): how many seconds to wait for the end of the job, 60 at most. Without it the " +
			"Idempotency-Key has no effect, unless the platform runs the request as a job only."}
	limitParam = &huma.Param{Name: "limit", In: "query", Description: "Maximum number of entries",
		Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(mostLogs)), Default: manyLogs}}
	offsetParam = &huma.Param{Name: "offset", In: "query", Description: "Number of entries to skip",
		Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0), Maximum: new(float64(math.MaxInt32)), Default: 0}}
	waitParam = &huma.Param{Name: "wait", In: "query", Schema: &huma.Schema{Type: huma.TypeNumber},
		Description: "Seconds to wait for a change, 60 at most: a change from now on, or with If-None-Match a change since " +
			"that ETag. " +
			"Only the latter misses no change between two requests. A user can have limits.streams such requests open at " +
			"once; further ones get 429."}
	knownParam = &huma.Param{Name: "If-None-Match", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
		Description: "ETags that the client has. If one of them is still current, after wait if that is given, the " +
			"response is 304 without a body. " +
			"An ETag changes with the response, except for checked, queue_position and forecast."}
	pageParams = []*huma.Param{
		{Name: "limit", In: "query",
			Description: "Maximum number of elements, 1000 at most. The header Link leads to the next page.",
			Schema:      &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)}},
		{Name: "cursor", In: "query", Description: "The cursor in the Link header of the same list.",
			Schema: &huma.Schema{Type: huma.TypeString}},
		{Name: "status", In: "query", Explode: new(true), Description: "Only elements with one of these statuses.",
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Enum: enumOf(statuses)}}},
		{Name: "platform", In: "query", Explode: new(true), Description: "Only elements on one of these platforms.",
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}},
		{Name: "labels", In: "query", Explode: new(true),
			Description: "Only elements with this label, written as key=value. Repeated: with all of them. A list of jobs and " +
				"tasks is found by the first one.",
			Schema:  &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}},
			Example: []any{"project=hesbaye"}},
		{Name: "title", In: "query",
			Description: "Only elements whose title contains this text, in upper or lower case. A page can have fewer " +
				"elements than limit, and a further page nevertheless.",
			Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(longestSearch)}},
		{Name: "service", In: "query",
			Description: "Only elements of this service: its id in the catalogue, or its application. As with title, a page " +
				"can have fewer elements than limit.",
			Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(longestSearch)}},
		{Name: "created_after", In: "query", Description: "Only elements that were created at this time or later.",
			Schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}},
		{Name: "created_before", In: "query", Description: "Only elements that were created before this time.",
			Schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}},
		{Name: "parameters", In: "query", Description: "false: leave out the parameters of jobs, which may be large.",
			Schema: &huma.Schema{Type: huma.TypeBoolean, Default: true}},
		{Name: "since", In: "query", Description: "Only elements that have changed since.",
			Schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}},
	}
	sortParam = &huma.Param{Name: "sort", In: "query",
		Description: "created: the oldest elements first, in pages as with limit. A cursor of one order is not accepted in " +
			"the other.",
		Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{newestFirst, oldestFirst}, Default: newestFirst}}
	filterParam = &huma.Param{Name: "filter", In: "query", Explode: new(true),
		Description: "What to list; by default all jobs and tasks. `sync`, which must be the only filter, lists the " +
			"synchronous runs of the last 30 days, without parameters.",
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Enum: []any{"upscaling",
			"processing", "sync"}}}}
)

// body describes a request body of type T.
func body[T any](a *api) *huma.RequestBody {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// withTiles adds the response of /tiles.
func withTiles(a *api, all map[string]*huma.Response) map[string]*huma.Response {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.GeometryCollection](), true, "")
	all["201"] = &huma.Response{Description: "The tiles",
		Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
	return all
}

func enumOf[T ~string](words []T) (all []any) {
	for _, w := range words {
		all = append(all, string(w))
	}
	return all
}

// jobBody describes the request body of a job, with an example for each protocol.
func (a *api) jobBody() *huma.RequestBody {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.BaseJobRequest](), true, "")
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema,
		Examples: map[string]*huma.Example{
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
		}}}}
}

// taskBody describes the request body of a task, with an example.
func (a *api) taskBody() *huma.RequestBody {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.UpscalingTaskRequest](), true, "")
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema,
		Examples: map[string]*huma.Example{"openeo": {Summary: "A process graph over two tiles", Value: map[string]any{
			"title": "NDVI of the Hesbaye, by tile", "label": "openeo", "format": "gtiff",
			"service": map[string]any{"endpoint": a.endpointOf(dispatch.OpenEO),
				"application": "https://apps.example.org/ndvi_composite.json"},
			"parameters": map[string]any{"temporal_extent": []any{"2026-03-01", "2026-06-01"}},
			"dimension": map[string]any{"name": "spatial_extent", "values": []any{
				map[string]any{"west": 5.0, "south": 50.6, "east": 5.1, "north": 50.7}, map[string]any{"west": 5.1, "south": 50.6,
					"east": 5.2, "north": 50.7}}}}}},
	}}}
}

var reasons = map[int]string{
	408: "The request body did not arrive in time",
	409: "CONFLICT: the current state does not allow the request. SIGN_IN_REQUIRED: you must link or renew an account, " +
		"at details.link",
	422: "VALIDATION_ERROR: the request is not valid; all its faults are listed. APPLICATION_INVALID: the document at " +
		"the application's address defines no service, or is refused",
	429: "RATE_LIMITED: a limit of the broker is reached, such as the number of your jobs that have not ended",
	501: "The platform does not support this operation",
	502: "PLATFORM_ERROR: the platform responded wrongly. PLATFORM_UNCERTAIN: the platform may have accepted the request",
	503: "PLATFORM_BUSY, PLATFORM_UNAVAILABLE, or SERVICE_UNAVAILABLE, such as when the database does not respond: " +
		"repeat later. APPLICATION_UNREACHABLE: the document at the application's address cannot be fetched",
	504: "PLATFORM_UNAVAILABLE: the platform did not respond in time",
}

// errors describes the error responses of these statuses, and of 429 and 500, which every operation can return.
func (a *api) errors(statuses ...int) map[string]*huma.Response {
	schemas := a.huma.OpenAPI().Components.Schemas
	all := map[string]*huma.Response{}
	if a.Sessions != nil && slices.Contains(statuses, http.StatusUnauthorized) &&
		!slices.Contains(statuses, http.StatusForbidden) {
		statuses = append(statuses, http.StatusForbidden) // a session used by another page
	}
	for _, status := range append(statuses, http.StatusInternalServerError, http.StatusTooManyRequests) {
		body := schemas.Schema(reflect.TypeFor[wire.ErrorResponse](), true, "")
		if status == http.StatusUnprocessableEntity {
			body = schemas.Schema(reflect.TypeFor[wire.HTTPValidationError](), true, "")
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

// headers are those that come with an error response of a status.
var headers = map[int]map[string]*huma.Param{
	401: {"WWW-Authenticate": {Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"Bearer"}}}},
	429: {"Retry-After": {Description: "Seconds", Schema: &huma.Schema{Type: huma.TypeInteger}}},
	503: {"Retry-After": {Description: "Seconds; absent if the platform did not name any",
		Schema: &huma.Schema{Type: huma.TypeInteger}}},
}

// withNull adds a 200 response whose body is null.
func withNull(all map[string]*huma.Response) map[string]*huma.Response {
	all["200"] = &huma.Response{Description: "Done",
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: "null"}}}}
	return all
}

// withBody adds a 200 response of type T that the package encodes itself.
func withBody[T any](a *api, all map[string]*huma.Response) map[string]*huma.Response {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	all["200"] = &huma.Response{Description: "OK",
		Content: map[string]*huma.MediaType{"application/json": {Schema: schema}},
		Headers: map[string]*huma.Param{"Cache-Control": {Schema: &huma.Schema{Type: huma.TypeString}},
			"ETag": {Schema: &huma.Schema{Type: huma.TypeString}},
			"Link": {Schema: &huma.Schema{Type: huma.TypeString}, Description: "Address of the next page"}}}
	return all
}

// withNotModified adds the 304 response.
func withNotModified(all map[string]*huma.Response) map[string]*huma.Response {
	all["304"] = &huma.Response{Description: "The client's copy is still current",
		Headers: map[string]*huma.Param{"ETag": {Schema: &huma.Schema{Type: huma.TypeString}}}}
	return all
}

// withGeoJSON adds a 200 response in GeoJSON.
func withGeoJSON[T any](a *api, all map[string]*huma.Response) map[string]*huma.Response {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	all["200"] = &huma.Response{Description: "GeoJSON",
		Content: map[string]*huma.MediaType{mediaGeoJSON: {Schema: schema}}}
	return all
}

// withDocument adds a 200 response that is any JSON document.
func withDocument(all map[string]*huma.Response) map[string]*huma.Response {
	all["200"] = &huma.Response{Description: "The document",
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}},
		Headers: map[string]*huma.Header{"ETag": {Description: "Its SHA-256", Schema: &huma.Schema{Type: huma.TypeString}}}}
	return all
}

// withGoingOn adds the 202 response of a request that became a job.
func withGoingOn(a *api, all map[string]*huma.Response) map[string]*huma.Response {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.ProcessingJobSummary](), true, "")
	text := &huma.Schema{Type: huma.TypeString}
	all["202"] = &huma.Response{Description: "The job goes on",
		Content: map[string]*huma.MediaType{"application/json": {Schema: schema}},
		Headers: map[string]*huma.Param{"Location": {Schema: text, Description: "Address of the job"},
			"Preference-Applied": {Schema: text}}}
	return all
}

// withBytes adds a 200 response of any media type.
func withBytes(all map[string]*huma.Response) map[string]*huma.Response {
	all["200"] = &huma.Response{Description: "The platform's result", Content: map[string]*huma.MediaType{
		// generators of clients understand this one
		"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		"*/*":                      {Schema: &huma.Schema{}},
	}}
	return all
}
