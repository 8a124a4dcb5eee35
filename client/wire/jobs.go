package wire

import (
	"time"
)

// Annotations are what the owner of a job or task wrote on it.
type Annotations struct {
	Labels map[string]string `json:"labels,omitempty" maxProperties:"32" doc:"Keys and values of your choice by which lists can be filtered, see the parameter labels. A key has 1 to 63 letters, digits and the characters . _ / -, a value is a line of at most 255 characters. The jobs of a task do not have its labels"`
	Note   string            `json:"note,omitempty" maxLength:"2000" doc:"A text of your choice"`
}

// ProcessingJobSummary is one job in a list or in the response to its submission. Optional members are absent if they
// are not known.
type ProcessingJobSummary struct {
	ID         int64          `json:"id" example:"42"`
	Title      string         `json:"title"`
	Name       string         `json:"name,omitempty" example:"31UFS" doc:"Names of the values of the job in its task, such as the id of its tile's cell; several are joined by a comma. Absent: they have none"`
	Label      string         `json:"label" enum:"openeo,ogc_api_process"`
	Status     Status         `json:"status" enum:"created,submitted,queued,running,finished,canceled,failed,unknown"`
	Service    ServiceDetails `json:"service"`
	Parameters Object         `json:"parameters,omitzero" required:"false" doc:"Absent if the request has parameters=false"`

	ParametersDeleted bool `json:"parameters_deleted,omitempty" doc:"Whether the broker has deleted the parameters because the job ended long ago. parameters is empty then, and the job cannot be retried"`

	Attention     *JobAttention `json:"attention,omitempty" doc:"Why the job makes no progress, or what its owner should know"`
	Warning       string        `json:"warning,omitempty" doc:"Parameters that were not checked in full when the job was accepted, because the broker does not support their schemas in full or could not read the description of the service, and a format that is not used, because the process saves its results itself, and time spans that end when they begin: plain text. Absent: none. POST /params says what is not understood"`
	Failure       string        `json:"failure,omitempty" doc:"Why the job failed, or why the broker canceled it"`
	Progress      *float64      `json:"progress,omitempty" minimum:"0" maximum:"100"`
	Created       time.Time     `json:"created,omitzero" required:"true" doc:"When the broker accepted the job, which is queued from then on"`
	Started       *time.Time    `json:"started,omitempty" doc:"When the platform began to run the job, in its last attempt: as the platform reports, else when the broker first saw it run. Absent: neither is known"`
	Ended         *time.Time    `json:"ended,omitempty" doc:"When the job ended: as the platform reports, else when the broker noticed it. Absent: it has not ended"`
	Checked       *time.Time    `json:"checked,omitempty" doc:"When the platform last reported the status"`
	QueuePosition *int          `json:"queue_position,omitempty" minimum:"0" doc:"Number of jobs of the same account, which other users may share, that the broker submits before this one, accurate to some seconds. The order is fair between users, so jobs that are submitted later can come before it. Present only while the job waits for its turn, not while a user must sign in or the operator must act. A change of this number alone is not pushed and changes no ETag"`
	Forecast      *Forecast     `json:"forecast,omitempty" doc:"When the job is expected to start and end, if the platform stays as busy as it is now. Absent in lists and streams, while the job waits for a person or for a platform without a known limit, and until eight of your jobs of the service have finished. A change of it alone changes no ETag"`
	TaskID        int64         `json:"task_id,omitempty"`
	Platform      string        `json:"platform,omitempty" required:"true" doc:"Name of the platform"`
	PlatformJobID string        `json:"platform_job_id,omitempty" doc:"Id of the job on the platform"`
	Format        string        `json:"format,omitempty" doc:"The requested format of the result"`
	Costs         *float64      `json:"costs,omitempty" doc:"What the platform charged for the job, with attempts before a retry there, in cost_unit. Platforms may report it hours after the end; the broker asks for it for a day"`
	CostUnit      string        `json:"cost_unit,omitempty" doc:"The unit in which the platform charges, in its own words. Costs in different units cannot be added"`
	Usage         *JobUsage     `json:"usage,omitempty" doc:"What the last attempt used, as far as the platform reported it"`
	Retries       *JobRetries   `json:"retries,omitempty" doc:"Absent if the job is not retried by itself, see options.retries"`
	Duration      float64       `json:"duration,omitempty" doc:"Run time in seconds, if the platform reported the end"`
	Annotations
}

// JobRetries is how often a job is retried by itself.
type JobRetries struct {
	Allowed int `json:"allowed" doc:"How often after the job was submitted, or retried by its owner"`
	Done    int `json:"done" doc:"How often until now"`
}

// JobUsage is what a job used at its platform, in the platform's units.
type JobUsage struct {
	CPU    *Amount `json:"cpu,omitempty"`
	Memory *Amount `json:"memory,omitempty"`
	Input  *Amount `json:"input,omitempty" doc:"Data that was read"`
}

// Amount is a quantity in a unit of a platform.
type Amount struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

// ProcessingJob is one job.
type ProcessingJob struct {
	ProcessingJobSummary
	Options Object    `json:"options,omitzero" required:"false" doc:"The options that the job was submitted with, with which it can be submitted again. Absent: none"`
	Updated time.Time `json:"updated,omitzero" required:"true" doc:"When this response last changed"`
}

// JobAttention says why a job makes no progress, and what its owner can do.
type JobAttention struct {
	Code    string  `json:"code" doc:"Stable code for programs"`
	Message string  `json:"message" doc:"Explanation for people: plain text"`
	Link    *string `json:"link" nullable:"true" doc:"Page where the owner can resolve it"`
	Action  string  `json:"action,omitempty" enum:"sign_in,give_access" doc:"What the owner does at link. sign_in: sign in and link an account. give_access: permit jobs to run after they sign out"`
}

// Forecast is when a job starts and ends, or a task ends.
type Forecast struct {
	Start *TimeRange `json:"start,omitempty" doc:"When a job that waits is submitted. Absent: it was submitted, or this is a task"`
	End   TimeRange  `json:"end" doc:"When the job, or the last job of the task, ends"`
	Runs  int        `json:"runs" doc:"Number of your finished jobs of the same service on the same platform that it is made from"`
	Basis string     `json:"basis" enum:"task,area,service" doc:"task: these are jobs of the same task; area: of any, over an area of half to twice the size; service: of any, whatever their parameters"`
}

// TimeRange is when something is expected.
type TimeRange struct {
	Early time.Time `json:"early" doc:"In about one of ten cases it is before"`
	Late  time.Time `json:"late" doc:"In about one of ten cases it is after"`
}

// JobsStatusResponse is a user's tasks, and the user's jobs that belong to no task.
type JobsStatusResponse struct {
	UpscalingTasks []UpscalingTaskSummary `json:"upscaling_tasks"`
	ProcessingJobs []ProcessingJobSummary `json:"processing_jobs"`
}

// LogEntry is one log entry of a job, as the platform reported it.
type LogEntry struct {
	Time    *time.Time `json:"time" nullable:"true"`
	Level   string     `json:"level" enum:"error,warning,info,debug"`
	Message string     `json:"message"`
}

// LogPage is a page of a job's log, oldest entry first.
type LogPage struct {
	Logs []LogEntry `json:"logs"`
}

// Estimate is what a request is expected to cost, and how long it is expected to run.
type Estimate struct {
	Jobs        int     `json:"jobs" doc:"Number of jobs of the request"`
	Costs       *Spread `json:"costs" doc:"What all jobs together are expected to cost, in cost_unit. null: fewer than three of your finished jobs of the service had costs, and its provider states none for each run"`
	CostUnit    string  `json:"cost_unit" doc:"The unit in which the platform charges, in its own words. Empty: it names none"`
	CostBasis   string  `json:"cost_basis,omitempty" enum:"area,runs,catalogue" doc:"What the costs are estimated from: your finished jobs over an area of half to twice the size (area), or all of them (runs), or what the provider of the service states for each run (catalogue). Absent: there is no estimate"`
	CostRuns    int     `json:"cost_runs" doc:"Number of your finished jobs that costs are estimated from: of the latest 100, those over a similar area if they are enough"`
	Seconds     *Spread `json:"seconds" doc:"How long one job is expected to run at the platform, in seconds, without its wait. null: fewer than three of your finished jobs had a run time"`
	SecondsRuns int     `json:"seconds_runs" doc:"Number of your finished jobs that the run time is estimated from"`

	Balance *Amount `json:"balance,omitempty" doc:"What you may still spend at the platform, as it says. Absent: it does not, or it did not respond"`
	Warning string  `json:"warning,omitempty" doc:"That the costs are likely to exceed the balance: plain text. Absent: they are not, or either is not known"`

	SecondsBasis string `json:"seconds_basis,omitempty" enum:"area,runs" doc:"Of which of your finished jobs, as in cost_basis. Absent: there is no estimate"`
}

// Spread is the range in which an amount is expected.
type Spread struct {
	Low    float64 `json:"low" doc:"In about one of ten cases it is less"`
	Likely float64 `json:"likely" doc:"The mean of your finished jobs"`
	High   float64 `json:"high" doc:"In about one of ten cases it is more"`
}
