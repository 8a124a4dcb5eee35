package wire

import "encoding/json"

// ServiceDetails names the service to run.
type ServiceDetails struct {
	Endpoint    string  `json:"endpoint" doc:"Address of a platform that this broker is configured for; spellings of the same address are equal" example:"https://openeo.example.org"`
	Namespace   *string `json:"namespace" required:"false" nullable:"true" doc:"openEO: the owner of the process, or its collection's URL. OGC API - Processes: the path segment or address below which the processes are"`
	Application string  `json:"application" doc:"openEO: the URL of a process as JSON, or its id. OGC API - Processes: the id, URL or path of the process" example:"https://apps.example.org/ndvi_composite.json"`
}

// ServiceReference names a service of the catalogue.
type ServiceReference struct {
	ID       string  `json:"id" doc:"Id of a service of the catalogue, see GET /services. It is used if endpoint and application are absent. If several platforms offer the service, a job runs at the first that responds, and the jobs of a task without a budget at all of them, see services" example:"ndvi_composite"`
	Platform *string `json:"platform,omitempty" nullable:"true" doc:"One of the homes of the service: nothing runs at others"`
}

// ServiceChoice is the service in a request: [ServiceDetails], or [ServiceReference] if it has an ID.
type ServiceChoice struct {
	ID          string  `json:"id,omitempty"`
	Platform    string  `json:"platform,omitempty"`
	Endpoint    string  `json:"endpoint,omitempty"`
	Namespace   *string `json:"namespace,omitempty"`
	Application string  `json:"application,omitempty"`
}

// BaseJobRequest is a request for one job.
type BaseJobRequest struct {
	Title      string        `json:"title" example:"NDVI of the Hesbaye, spring"`
	Label      string        `json:"label,omitempty" enum:"openeo,ogc_api_process" doc:"The protocol of the service. It can be absent if the service is named by its id"`
	Service    ServiceChoice `json:"service,omitzero" required:"true"`
	Parameters Object        `json:"parameters" doc:"The parameters of the process, passed on and returned byte for byte. No object in them may have two members with the same name"`
	Format     string        `json:"format,omitempty" minLength:"1" maxLength:"100" example:"gtiff" doc:"The format of the result: geojson, gtiff, netcdf, json, or another that the service offers, by its name in GET /services/{service_id} or, at OGC API - Processes, by its media type. One that is not offered is refused, if the platform tells what it offers. Absent: the one that the operator set, see rules of GET /services/{service_id}; else, for an openEO service, the usual one of its record or its platform; else the process's own"`
	Options    Object        `json:"options,omitzero" nullable:"true" doc:"Options of the job for the platform, passed on unchanged, except for those that the broker acts on"`
	Annotations
}

// JobOptions are the options that the broker acts on. All others are the platform's.
type JobOptions struct {
	Validate    *bool   `json:"validate,omitempty" nullable:"true" doc:"false: submit the parameters without checking them against the service's schemas"`
	Pin         *bool   `json:"pin,omitempty" nullable:"true" doc:"true: run the service as its definition is when the request is accepted, whatever becomes of it: the platform gets that definition with each job, in place of its URL. A process of OGC API - Processes is compared with its description instead, and the job refused if it has changed. What cannot be pinned is refused. Tasks are pinned unless they say false, where the platform gets the definition anyway"`
	MaxDuration int64   `json:"max_duration,omitempty" nullable:"true" minimum:"1" maximum:"31622400" doc:"Seconds. A job that has not ended this long after its start on the platform is canceled; for a task, each job by itself"`
	Retries     int     `json:"retries,omitempty" nullable:"true" minimum:"0" maximum:"10" doc:"How often a job is submitted again after a failure that the platform caused, according to its message or the job's log; the pauses grow from a minute to an hour. A job that failed because of its request, or for an unknown reason, is not retried"`
	Notify      *Notify `json:"notify,omitempty" doc:"Who is notified of this job, or of the jobs of this task, as by a hook; GET /hooks?job_id= or ?task_id= finds its log. It is not returned with the request"`
}

// TaskOptions are JobOptions, and those that only tasks have.
type TaskOptions struct {
	JobOptions
	Budget Budget `json:"budget,omitzero" doc:"What the jobs may cost: a number in the unit of the platform, or an amount with its unit. A job is submitted only if the costs so far, plus the mean of the known costs for each running job and for this one, stay within it; otherwise the task is paused"`
	Trial  int    `json:"trial,omitempty" nullable:"true" minimum:"1" doc:"How many jobs run first; the others run when the task is resumed"`
}

// Notify is a URL that is notified of one job or task.
type Notify struct {
	HookRequest
	Secret string `json:"secret,omitempty" nullable:"true" doc:"Key of the signature of deliveries (Standard Webhooks): whsec_ and 16 to 64 bytes in base64. Absent: they are not signed"`
}

// UpscalingTaskRequest is a request for a job for each value of a dimension, or of several.
type UpscalingTaskRequest struct {
	BaseJobRequest
	Services   []ServiceChoice      `json:"services,omitempty" minItems:"1" maxItems:"8" doc:"Services that do the same at different platforms, in place of service. The jobs go to the platforms that have free slots and end them soonest, and leave one that does not respond; a job that failed because of its platform is retried at another one. Their parameters must agree, and those named by endpoint have the request's label. Such a task has no budget"`
	Dimension  *ParameterDimension  `json:"dimension,omitempty" doc:"The parameter that has a different value in each job. Required unless dimensions are given"`
	Dimensions []ParameterDimension `json:"dimensions,omitempty" nullable:"true" minItems:"1" maxItems:"8" doc:"Several such parameters, in place of dimension"`
	Combine    string               `json:"combine,omitempty" nullable:"true" enum:"product,zip" doc:"How dimensions make jobs. product, as if it is absent: a job for each combination of their values, those of the last dimension first. zip: job n has the n-th value of each, and all have equally many"`
}

// ParameterDimension is a parameter and the values that a task gives it.
type ParameterDimension struct {
	Name     string            `json:"name" example:"spatial_extent" doc:"A parameter of the process that is not in parameters"`
	Values   []json.RawMessage `json:"values,omitempty" nullable:"true" minItems:"1" doc:"A job is created for each value, in this order. The values are passed on and returned byte for byte. Required unless interval is given"`
	Names    []string          `json:"names,omitempty" nullable:"true" minItems:"1" example:"[\"31UFS\",\"31UGS\"]" doc:"A name for each value, such as ids of POST /tiles: one line of at most 100 characters, none of them invisible; an empty text is no name. The name of a value is part of the title of its jobs and is shown with them. Not with interval"`
	Interval []string          `json:"interval,omitempty" nullable:"true" minItems:"2" maxItems:"2" doc:"Two dates or times (RFC 3339) whose parts are the values, in place of them. Each part ends where the next begins, as intervals of openEO do"`
	Split    string            `json:"split,omitempty" example:"month" doc:"How to split the interval. day, week, month, quarter or year: at the borders of the calendar in UTC, weeks on Mondays. A number of days or weeks as in ISO 8601, such as P10D: from the beginning of the interval"`
}

// JobChoice selects jobs of a task: those that have all of its members, of which there is at least one.
type JobChoice struct {
	Jobs   []int64  `json:"jobs,omitzero" minItems:"1" maxItems:"1000" doc:"Only the jobs with these ids, which must be jobs of the task. Absent: any"`
	Status []Status `json:"status,omitzero" minItems:"1" maxItems:"8" enum:"created,submitted,queued,running,finished,canceled,failed,unknown" doc:"Only jobs with one of these statuses. Absent: any"`
}

// Resumption is what changes when a task is resumed.
type Resumption struct {
	Budget Budget `json:"budget" doc:"The new budget of the task: its amount, above 0, or an object with amount and unit, which corrects a unit that the platform does not charge in; null ends the budget"`
}

// AnnotationsPatch is a JSON merge patch (RFC 7396) of Annotations.
type AnnotationsPatch struct {
	Labels map[string]*string `json:"labels,omitempty" nullable:"true" doc:"Labels to set. A label that is null is removed; null in place of the object removes all. Labels that are not named stay"`
	Note   *string            `json:"note,omitempty" nullable:"true" maxLength:"2000" doc:"The note. null removes it; absent: it stays"`
}

// ParamRequest names the service whose parameters are asked for.
type ParamRequest struct {
	Label   string        `json:"label,omitempty" enum:"openeo,ogc_api_process" doc:"The protocol of the service. It can be absent if the service is named by its id"`
	Service ServiceChoice `json:"service"`
}
