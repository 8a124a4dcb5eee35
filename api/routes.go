package api

import (
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
)

// routes registers all operations but those of access and tickets. The statuses in Responses are those that an
// operation can answer besides those that all can.
func (a *api) routes() {
	a.jobRoutes()
	a.serviceRoutes()
	a.catalogueRoutes()
	a.taskRoutes()
	a.taskResultRoutes()
	a.Refine(a.OpenAPI().Components.Schemas.Map())
}

// jobRoutes registers the operations on jobs, and the health check.
func (a *api) jobRoutes() {
	openapi.Register(a.Document,
		huma.Operation{OperationID: "health_health_get", Method: http.MethodGet, Path: "/health",
			Summary:       "Check whether the service works",
			Description:   "Returns 200 with an empty body if the database responds, otherwise 503.",
			DefaultStatus: http.StatusOK, Security: []map[string][]string{}, Responses: a.Errors(503)}, a.health)
	openapi.Register(a.Document, huma.Operation{OperationID: "create_unit_job_unit_jobs_post",
		Method: http.MethodPost, Path: "/unit_jobs", Tags: openapi.JobTags, Summary: "Submit a job",
		Description: "Waits up to ten seconds for the platform to accept or refuse the job. If that takes longer, or " +
			"the platform has no free slot in this time, the job is stored with the status created and submitted " +
			"later. Let clients wait for 30 seconds; with an Idempotency-Key the request can be repeated.",
		DefaultStatus: http.StatusCreated, Parameters: []*huma.Param{openapi.KeyParam},
		Responses: a.Errors(401, 403, 409, 422, 429, 501, 502, 503, 504)}, a.createJob)
	openapi.Register(a.Document, huma.Operation{OperationID: "get_job_unit_jobs__job_id__get",
		Method: http.MethodGet, Path: "/unit_jobs/{job_id}", Tags: openapi.JobTags, Summary: "Get a job",
		Description: "Returns the status that the platform reports. If the platform does not respond, it is the last " +
			"known status: checked is the time when the platform was last asked, and attention says what is wrong.",
		Parameters: []*huma.Param{openapi.IdParam, openapi.WaitParam, openapi.KnownParam},
		Responses:  openapi.WithNotModified(a.Errors(401, 404, 422, 429, 503))}, openapi.OnJob(a.readJob))
	openapi.Register(a.Document, huma.Operation{OperationID: "cancel_unit_job",
		Method: http.MethodPost, Path: "/unit_jobs/{job_id}/cancel", Tags: openapi.JobTags, Summary: "Cancel a job",
		Description: "Cancels the job on its platform if it has not ended. The job stays in the list. Repeating the " +
			"request has no further effect.", DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.IdParam},
		Responses: a.Errors(401, 404, 422, 503)}, openapi.OnJob(a.cancelJob))
	openapi.Register(a.Document, huma.Operation{OperationID: "annotate_unit_job",
		Method: http.MethodPatch, Path: "/unit_jobs/{job_id}", Tags: openapi.JobTags,
		Summary: "Change the labels and the note of a job",
		Description: "The body is a JSON merge patch (RFC 7396). It changes nothing at the platform, also if the job " +
			"has ended.", DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.IdParam},
		Responses: a.Errors(401, 404, 422, 503)}, openapi.OnJob(a.annotateJob))
	openapi.Register(a.Document, huma.Operation{OperationID: "get_job_results_unit_jobs__job_id__results_get",
		Method: http.MethodGet, Path: "/unit_jobs/{job_id}/results", Tags: openapi.JobTags,
		Summary: "Get the results of a job",
		Description: "Returns a STAC Collection, or null while the job has not ended. If the platform calls the job " +
			"finished but does not provide its results yet, the response is 503, PLATFORM_BUSY.",
		Parameters: []*huma.Param{openapi.IdParam},
		Responses:  a.Errors(401, 403, 404, 409, 422, 429, 501, 502, 503, 504)}, openapi.OnJob(a.readResults))
	openapi.Register(a.Document, huma.Operation{OperationID: "delete_job_unit_jobs__job_id__delete",
		Method: http.MethodDelete, Path: "/unit_jobs/{job_id}", Tags: openapi.JobTags,
		Summary:       "Cancel and delete a job",
		Description:   "Cancels the job on its platform if it has not ended, and removes it from the list.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.IdParam, openapi.PlatformParam},
		Responses: openapi.WithNull(a.Errors(401, 404, 409, 422, 503))}, openapi.OnJob(a.deleteJob))
	openapi.Register(a.Document, huma.Operation{OperationID: "create_sync_job_sync_jobs_post",
		Method: http.MethodPost, Path: "/sync_jobs", Tags: openapi.JobTags,
		Summary: "Run a job and wait for its result",
		Description: "Returns the result as the platform sends it, with its Content-Type. The result is not " +
			"stored: if the response breaks off, run the job again. With the header Prefer: wait=N, or if the " +
			"platform runs it only as a job, the request is submitted as a job with a wait of N, by default 30, " +
			"seconds. If the job finishes within the wait, the response has its results, a STAC Collection; if it " +
			"fails, the response is an error. Otherwise the response is 202, and the job goes on: Location is its " +
			"address.", DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.KeyParam, openapi.PreferParam},
		Responses: openapi.WithGoingOn(a.Document,
			openapi.WithBytes(a.Errors(401, 403, 409, 422, 429, 501, 502, 503, 504)))}, a.runSync)
	openapi.Register(a.Document, huma.Operation{OperationID: "get_jobs_status_jobs_status_get",
		Method: http.MethodGet, Path: "/jobs_status", Tags: slices.Concat(openapi.TaskTags, openapi.JobTags),
		Summary:     "List jobs and tasks",
		Description: "Returns your tasks, and your jobs that belong to no task, newest first.",
		Parameters: append([]*huma.Param{openapi.FilterParam, openapi.SortParam, openapi.WaitParam,
			openapi.KnownParam}, openapi.PageParams...),
		Responses: openapi.WithNotModified(openapi.WithBody[wire.JobsStatusResponse](a.Document,
			a.Errors(401, 422, 429, 503)))}, a.listJobs)
	openapi.Register(a.Document, huma.Operation{OperationID: "get_unit_job_logs",
		Method: http.MethodGet, Path: "/unit_jobs/{job_id}/logs", Tags: openapi.JobTags,
		Summary: "Get the logs of a job",
		Description: "Returns the platform's log of the job, oldest first, in pages. The header Link leads to the " +
			"next page.",
		Parameters: []*huma.Param{openapi.IdParam, openapi.LimitParam, openapi.OffsetParam},
		Responses:  a.Errors(401, 403, 404, 409, 422, 501, 502, 503, 504)}, openapi.OnJob(a.readLogs))
	openapi.Register(a.Document, huma.Operation{OperationID: "get_unit_job_document",
		Method: http.MethodGet, Path: "/unit_jobs/{job_id}/document", Tags: openapi.JobTags,
		Summary: "Get the document that defined a job's service",
		Description: "Returns the document at the URL that the job names as its application or namespace, as it was " +
			"when the job was accepted. Its ETag is its SHA-256. " +
			"While jobs wait, the document is fetched again every hour. If it has changed, the jobs and their task " +
			"get the attention service_changed.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.IdParam},
		Responses: openapi.WithDocument(a.Errors(401, 404, 422, 503))}, openapi.OnJob(a.readDocument))
	openapi.Register(a.Document, huma.Operation{OperationID: "get_unit_job_provenance",
		Method: http.MethodGet, Path: "/unit_jobs/{job_id}/provenance", Tags: openapi.JobTags,
		Summary: "Get the provenance of a job",
		Description: "Returns PROV-JSON (W3C): the service with the SHA-256 of its document and the time of that, " +
			"the parameters, the platform, the job with its times and costs, and the results that it generated. It " +
			"does not name you, so that it can be published beside the results.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.IdParam},
		Responses: a.Errors(401, 404, 422, 503)}, openapi.OnJob(a.readProvenance))
	a.Takes(a.OpenAPI().Paths["/unit_jobs/{job_id}"].Patch, openapi.Body[wire.AnnotationsPatch](a.Document))
	for _, path := range []string{"/unit_jobs", "/sync_jobs"} {
		a.Takes(a.OpenAPI().Paths[path].Post, a.JobBody())
	}
}

// serviceRoutes registers the operations on services, platforms and tiles.
func (a *api) serviceRoutes() {
	openapi.Register(a.Document, huma.Operation{OperationID: "get_job_params_params_post",
		Method: http.MethodPost, Path: "/params", Tags: openapi.JobTags,
		Summary:     "List the parameters of a service",
		Description: "Returns the parameters in the order of the service's document.", DefaultStatus: http.StatusOK,
		Responses: a.Errors(401, 403, 409, 422, 429, 501, 502, 503, 504)}, a.describe)
	openapi.Register(a.Document,
		huma.Operation{OperationID: "list_platforms", Method: http.MethodGet, Path: "/platforms",
			Tags:    []string{"services"},
			Summary: "List the platforms",
			Description: "Returns the state of each platform by its last responses, without a request to it. Of " +
				"other users' jobs it has only numbers.",
			Responses: a.Errors(401, 503)}, a.listPlatforms)
	openapi.Register(a.Document, huma.Operation{OperationID: "split_in_tiles_tiles_post",
		Method: http.MethodPost, Path: "/tiles", Tags: openapi.TaskTags, Summary: "Split an area into tiles",
		Description: "Returns the cells of a global grid that overlap the area, cut at its border. Areas that " +
			"overlap get the same cells there.", DefaultStatus: http.StatusCreated, Security: []map[string][]string{},
		Responses: openapi.WithTiles(a.Document, a.Errors(422, 429))}, a.createTiles)
	openapi.Register(a.Document,
		huma.Operation{OperationID: "list_grids", Method: http.MethodGet, Path: "/grids", Tags: openapi.TaskTags,
			Summary: "List the grids", DefaultStatus: http.StatusOK, Security: []map[string][]string{},
			Responses: a.Errors()}, a.listGrids)
	a.Takes(a.OpenAPI().Paths["/params"].Post, openapi.Body[wire.ParamRequest](a.Document))
	a.Takes(a.OpenAPI().Paths["/tiles"].Post, openapi.Body[wire.TileRequest](a.Document))
}

// taskRoutes registers the operations on tasks.
func (a *api) taskRoutes() {
	openapi.Register(a.Document, huma.Operation{OperationID: "create_upscale_task_upscale_tasks_post",
		Method: http.MethodPost, Path: "/upscale_tasks", Tags: openapi.TaskTags,
		Summary: "Submit a task: a job for each value",
		Description: "Stores the task with all its jobs, or nothing, and responds at once. The broker submits the " +
			"jobs as the platform's limits allow. Job n, counted from 1, has the title \"{title} - Processing Job " +
			"{n}\"; its parameters are those of the task and the dimension with the n-th value.",
		DefaultStatus: http.StatusCreated, Parameters: []*huma.Param{openapi.KeyParam},
		Responses: a.Errors(401, 403, 409, 422, 429, 501, 502, 503, 504)}, a.createTask)
	openapi.Register(a.Document, huma.Operation{OperationID: "get_upscale_task_upscale_tasks__task_id__get",
		Method: http.MethodGet, Path: "/upscale_tasks/{task_id}", Tags: openapi.TaskTags,
		Summary: "Get a task and its jobs",
		Description: "Returns the statuses that the platform reports. If the platform does not respond, they are the " +
			"last known ones: checked is the time when the platform was last asked, and attention says what is wrong.",
		Parameters: append([]*huma.Param{openapi.TaskParam, openapi.WaitParam, openapi.KnownParam},
			openapi.PageParams...),
		Responses: openapi.WithNotModified(openapi.WithBody[wire.UpscalingTask](a.Document,
			a.Errors(401, 404, 422, 429, 503)))}, openapi.OnTask(a.readTask))
	openapi.Register(a.Document, huma.Operation{OperationID: "delete_upscale_task",
		Method: http.MethodDelete, Path: "/upscale_tasks/{task_id}", Tags: openapi.TaskTags,
		Summary: "Cancel and delete a task and its jobs",
		Description: "Removes the task and its jobs from the lists. Jobs that wait are not submitted; jobs that run " +
			"are canceled on their platform. " +
			"A job that is being submitted is canceled as soon as it is known whether the platform accepted it.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.TaskParam, openapi.PlatformParam},
		Responses: openapi.WithNull(a.Errors(401, 404, 422, 429, 503))}, openapi.OnTask(a.deleteTask))
	openapi.Register(a.Document, huma.Operation{OperationID: "annotate_upscale_task",
		Method: http.MethodPatch, Path: "/upscale_tasks/{task_id}", Tags: openapi.TaskTags,
		Summary: "Change the labels and the note of a task",
		Description: "The body is a JSON merge patch (RFC 7396). It changes nothing at the platform, and nothing of " +
			"the jobs of the task.", DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.TaskParam},
		Responses: a.Errors(401, 404, 422, 503)}, openapi.OnTask(a.annotateTask))
	openapi.Register(a.Document, huma.Operation{OperationID: "cancel_upscale_task",
		Method: http.MethodPost, Path: "/upscale_tasks/{task_id}/cancel", Tags: openapi.TaskTags,
		Summary: "Cancel a task and keep it",
		Description: "Jobs that wait are not submitted; jobs that run are canceled on their platform; jobs that have " +
			"ended stay as they are. " +
			"The task and its jobs stay in the lists, and a pause of the task ends. With a body only the jobs that " +
			"it chooses are canceled, and a pause goes on. Repeating the request has no further effect.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.TaskParam},
		Responses: a.Errors(401, 404, 422, 429, 503)}, openapi.OnTask(a.cancelTask))
	openapi.Register(a.Document, huma.Operation{OperationID: "pause_upscale_task",
		Method: http.MethodPost, Path: "/upscale_tasks/{task_id}/pause", Tags: openapi.TaskTags,
		Summary: "Pause a task",
		Description: "Jobs that wait are not submitted until the task is resumed, and get the attention paused. Jobs " +
			"that were submitted go on. " +
			"Paused jobs count for your limit of unfinished jobs. Repeating the request has no further effect. If " +
			"all jobs have ended the response is 409.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.TaskParam},
		Responses: a.Errors(401, 404, 409, 422, 429, 503)}, openapi.OnTask(a.pauseTask))
	openapi.Register(a.Document, huma.Operation{OperationID: "resume_upscale_task",
		Method: http.MethodPost, Path: "/upscale_tasks/{task_id}/resume", Tags: openapi.TaskTags,
		Summary: "Resume a paused task",
		Description: "Jobs that wait are submitted as the platform's limits allow; a trial is over. A task that is " +
			"not paused is not changed, except that a body sets its budget. " +
			"Without room in the budget for another job the response is 409: resume the task with a higher budget, " +
			"with one in the platform's unit, such as {\"budget\": {\"amount\": 8, \"unit\": \"credits\"}}, or with " +
			"{\"budget\": null} to end it.", DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.TaskParam},
		Responses: a.Errors(401, 403, 404, 409, 422, 429, 503)}, openapi.OnTask(a.resumeTask))
	openapi.Register(a.Document, huma.Operation{OperationID: "retry_upscale_task",
		Method: http.MethodPost, Path: "/upscale_tasks/{task_id}/retry", Tags: openapi.TaskTags,
		Summary: "Retry the failed jobs of a task",
		Description: "The failed jobs of the task get the status created and are submitted again under the same ids, " +
			"if the task is paused after it was resumed. Other jobs are not changed. With a body only the jobs that " +
			"it chooses are retried. Repeating the request has no effect on jobs that have not failed again.",
		DefaultStatus: http.StatusOK, Parameters: []*huma.Param{openapi.TaskParam},
		Responses: a.Errors(401, 403, 404, 422, 429, 503)}, openapi.OnTask(a.retryTask))
	for action, body := range map[string]*huma.RequestBody{"cancel": openapi.Body[wire.JobChoice](a.Document),
		"retry":  openapi.Body[wire.JobChoice](a.Document),
		"resume": openapi.Body[wire.Resumption](a.Document)} {
		body.Required = false
		a.Takes(a.OpenAPI().Paths["/upscale_tasks/{task_id}/"+action].Post, body)
	}
	a.Takes(a.OpenAPI().Paths["/upscale_tasks/{task_id}"].Patch, openapi.Body[wire.AnnotationsPatch](a.Document))
	a.Takes(a.OpenAPI().Paths["/upscale_tasks"].Post, a.TaskBody())
}
