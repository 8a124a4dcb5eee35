package api

import (
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Object is a JSON object, kept to the byte.
type Object struct{ json.RawMessage }

// Schema implements [huma.SchemaProvider].
func (Object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// Collection is a STAC Collection, as it is.
type Collection struct{ json.RawMessage }

// Schema implements [huma.SchemaProvider].
func (Collection) Schema(r huma.Registry) *huma.Schema {
	r.Map()["Collection"] = &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Description: "A STAC Collection",
		Properties: map[string]*huma.Schema{
			"type":         {Type: huma.TypeString, Enum: []any{"Collection"}},
			"stac_version": {Type: huma.TypeString},
			"id":           {Type: huma.TypeString},
		}}
	return &huma.Schema{Description: "null while the job has not ended", AnyOf: []*huma.Schema{{Ref: schemasPath + "Collection"}, {Type: "null"}}}
}

// ServiceDetails is what to run, in the client's spelling.
type ServiceDetails struct {
	Endpoint    string  `json:"endpoint" doc:"Address of a platform that this broker is configured for, in any of its spellings" example:"https://openeo.example.org"`
	Namespace   *string `json:"namespace" required:"false" nullable:"true" doc:"Whose process; for OGC API - Processes the path segment or address below which the processes are"`
	Application string  `json:"application" doc:"openEO: the URL of a process as JSON, or its id. OGC API - Processes: the id, URL or path of the process" example:"https://apps.example.org/ndvi_composite.json"`
}

// BaseJobRequest is one job that a client wants to be run.
type BaseJobRequest struct {
	Title      string         `json:"title" example:"NDVI of the Hesbaye, spring"`
	Label      string         `json:"label" enum:"openeo,ogc_api_process" doc:"The protocol of the service"`
	Service    ServiceDetails `json:"service"`
	Parameters Object         `json:"parameters" doc:"The parameters of the process, passed on and given back as they are. No object in them may have two members of one name"`
	Format     string         `json:"format" enum:"geojson,gtiff,netcdf,json" doc:"The format of the result"`
	Options    *Object        `json:"options,omitempty" nullable:"true" doc:"Options of the job for the platform, passed on as they are. Two are not passed on: validate, false submits the parameters whatever the service's schemas say of them; max_duration, in whole seconds: a job that has not ended so long after its start on the platform is canceled, those of a task each for itself"`
}

// ProcessingJobSummary is one job in a list, or just accepted. What is optional is left out where it is not known.
type ProcessingJobSummary struct {
	ID         int64          `json:"id" example:"42"`
	Title      string         `json:"title"`
	Label      string         `json:"label" enum:"openeo,ogc_api_process"`
	Status     string         `json:"status" enum:"created,submitted,queued,running,finished,canceled,failed,unknown"`
	Service    ServiceDetails `json:"service"`
	Parameters Object         `json:"parameters,omitzero" required:"false" doc:"Left out if the request says parameters=false"`

	Attention     *JobAttention `json:"attention,omitempty" doc:"Why the job does not move, or what its owner should know"`
	Warning       string        `json:"warning,omitempty" doc:"Which parameters were not checked in full when the job was accepted, because their schemas are not understood in full: plain text. Missing: none. POST /params says what is not understood"`
	Failure       string        `json:"failure,omitempty" doc:"Why the job failed, or was canceled for it"`
	Progress      *float64      `json:"progress,omitempty" minimum:"0" maximum:"100"`
	Checked       *time.Time    `json:"checked,omitempty" doc:"When the platform last told the status"`
	QueuePosition *int          `json:"queue_position,omitempty" minimum:"0" doc:"How many jobs of its account, which others may share, are submitted to the platform before it, in the fair order, as things were within some seconds; what is submitted later can come before it. Only while it waits here for its turn, not while somebody must sign in or the operator must act first. A change of it alone is not pushed, and changes no ETag"`
	TaskID        int64         `json:"task_id,omitempty"`
	Platform      string        `json:"platform,omitempty" doc:"Name of the platform"`
	PlatformJobID string        `json:"platform_job_id,omitempty" doc:"The platform's name for the job"`
	Format        string        `json:"format,omitempty" doc:"The format of the result, as it was asked for"`
	Costs         *float64      `json:"costs,omitempty" doc:"In the platform's own unit"`
	Duration      float64       `json:"duration,omitempty" doc:"Seconds that it ran, if the platform told when it had ended"`
}

// ProcessingJob is one job.
type ProcessingJob struct {
	ProcessingJobSummary
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated" doc:"When what is shown here last changed"`
}

// JobAttention is why a job does not move, and who can move it.
type JobAttention struct {
	Code    string  `json:"code" doc:"What a program acts on"`
	Message string  `json:"message" doc:"For a person: plain text"`
	Link    *string `json:"link" nullable:"true" doc:"Where the owner can mend it"`
}

// UpscalingTaskRequest is one job for each value of a dimension.
type UpscalingTaskRequest struct {
	BaseJobRequest
	Dimension Dimension `json:"dimension" doc:"The parameter that each job is given another value of"`
}

// Dimension is a parameter and the values that a task gives it.
type Dimension struct {
	Name   string `json:"name" example:"spatial_extent" doc:"A parameter of the process that is not among the parameters"`
	Values []any  `json:"values" nullable:"false" minItems:"1" doc:"One job for each, in this order, passed on and given back as they are"`
}

// UpscalingTaskSummary is one task in a list, or just accepted.
type UpscalingTaskSummary struct {
	ID     int64  `json:"id"`
	Title  string `json:"title"`
	Label  string `json:"label" enum:"openeo,ogc_api_process"`
	Status string `json:"status" enum:"created,submitted,queued,running,finished,canceled,failed,unknown" doc:"Running while some of the jobs run, or some have ended and some have not. When all have ended: finished if any has finished, see counts"`

	Counts    map[string]int `json:"counts,omitempty" doc:"How many jobs have each status; deleted ones are not counted"`
	Progress  *float64       `json:"progress,omitempty" minimum:"0" maximum:"100" doc:"The mean of the jobs; what has ended counts 100, however it ended"`
	Attention *JobAttention  `json:"attention,omitempty" doc:"What the jobs wait for, or the owner should know of the task. Of several that jobs have: first what the owner can mend, as sign_in_required, then what the owner decides, then what the operator mends, then what passes by itself; each job has its own"`
	Warning   string         `json:"warning,omitempty" doc:"Which parameters were not checked in full when the task was accepted, because their schemas are not understood in full: plain text. Missing: none. POST /params says what is not understood"`
}

// UpscalingTask is one task with its jobs.
type UpscalingTask struct {
	UpscalingTaskSummary
	Service ServiceDetails         `json:"service"`
	Created time.Time              `json:"created"`
	Updated time.Time              `json:"updated" doc:"When what is shown here last changed"`
	Jobs    []ProcessingJobSummary `json:"jobs" nullable:"false" doc:"In the order of the values"`
}

// JobsStatusResponse is all of a user's work: the tasks, and the jobs that belong to no task.
type JobsStatusResponse struct {
	UpscalingTasks []UpscalingTaskSummary `json:"upscaling_tasks" nullable:"false"`
	ProcessingJobs []ProcessingJobSummary `json:"processing_jobs" nullable:"false"`
}

func (a *api) job(r dispatch.Record) ProcessingJob {
	return ProcessingJob{a.summary(r), r.Created.UTC(), r.Updated.UTC()}
}

// task gives a task without its jobs.
func (a *api) task(t dispatch.TaskRecord) UpscalingTask {
	return UpscalingTask{a.taskSummary(t), ServiceDetails(t.Request.Service), t.Created.UTC(), t.Updated.UTC(), []ProcessingJobSummary{}}
}

func (a *api) taskSummary(t dispatch.TaskRecord) UpscalingTaskSummary {
	counts := map[string]int{}
	for s, n := range t.Counts {
		counts[string(a.shown(s))] += n
	}
	return UpscalingTaskSummary{ID: int64(t.ID), Title: t.Request.Title, Label: string(t.Request.Label),
		Status: string(a.shown(t.Counts.Status())), Counts: counts, Progress: &t.Progress,
		Attention: a.attention(dispatch.Job{Account: t.Account, Attention: t.Attention}), Warning: t.Request.Warning}
}

func (a *api) summary(r dispatch.Record) ProcessingJobSummary {
	return ProcessingJobSummary{
		ID:            int64(r.ID),
		Title:         r.Request.Title,
		Label:         string(r.Request.Label),
		Status:        string(a.shown(r.Status)),
		Service:       ServiceDetails(r.Request.Service),
		Parameters:    Object{r.Request.Parameters},
		Attention:     a.attention(r.Job),
		Warning:       r.Request.Warning,
		Failure:       r.Failure,
		Progress:      r.Progress,
		Checked:       known(r.Checked),
		QueuePosition: r.Ahead,
		TaskID:        int64(r.Task),
		Platform:      r.Account.Platform(),
		PlatformJobID: r.Ref.ID,
		Format:        r.Request.Format,
		Costs:         r.Costs,
		Duration:      r.Duration.Seconds(),
	}
}

func (a *api) shown(s dispatch.Status) dispatch.Status {
	if s == dispatch.Submitted && a.Compat.SubmittedAsCreated {
		return dispatch.Accepted
	}
	return s
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

var attentions = map[dispatch.Attention]string{
	dispatch.InDoubt:            "The platform did not answer when the job was submitted. We are finding out whether it took the job; there is nothing to do.",
	dispatch.SubmissionUnknown:  "It cannot be found out whether the platform took the job. It may be running there. Look at the platform, then submit it again or delete it.",
	dispatch.NotTaken:           "The platform takes no more jobs at the moment. The job is submitted as soon as it does.",
	dispatch.Full:               "The platform takes no more of your jobs, or of the account that you share, while others are there. The job is submitted when one of them ends.",
	dispatch.GivenUp:            "The platform turned the job away for so long that it was given up. Retry its task, or submit it again.",
	dispatch.Unreachable:        "The platform does not answer. The status is the last known one; we keep asking.",
	dispatch.NeedsSignIn:        "Your sign-in is needed before the job can go on at the platform. Sign in again, and link your account there if you have not.",
	dispatch.NeedsOperator:      "The platform refuses the broker's credentials or configuration. The operator of this service must mend it; the job goes on then.",
	dispatch.CancelUnsupported:  "The platform cannot cancel jobs. The job may run on there to its end.",
	dispatch.Missing:            "The platform does not find this job. We look for it some minutes more before we call it lost.",
	dispatch.Lost:               "The platform no longer knows this job.",
	dispatch.Stalled:            "The platform has said the same of this job for hours. It may hang there. It goes on unless you cancel it.",
	dispatch.RefusedForbidden:   "The platform does not allow you this. Ask its operator for the right, or choose another platform.",
	dispatch.RefusedUnsupported: "The platform cannot do this. Choose another service or platform, or try a synchronous run.",
	dispatch.Overdue:            "The job took longer than the max_duration that it was submitted with, and was canceled. Submit it again with more time, or without that option.",
	dispatch.ServiceChanged:     "The document that defines the service has changed since this was accepted. What waits is still submitted, and runs as the document is by then.",
	dispatch.ApplicationUnreachable: "The document at the application's address cannot be fetched. Check that the address is right, and that it can be read without a sign-in. " +
		"A job that waits for it is tried again, at longer and longer intervals; the platform has nothing to do with it.",
	dispatch.SetAside:           "The broker crashed three times in a row while it submitted this job, and does not submit it again by itself. Retry its task, submit it again, or delete it. If that happens again, tell the operator of this service.",
	dispatch.ApplicationInvalid: "The document at the application's address defines no service, or is refused. Mend it, or submit with another address.",
	dispatch.NoPlatform:         "The platform of this job is no longer configured here. The operator of this service must mend it.",
}

func (a *api) attention(j dispatch.Job) *JobAttention {
	if j.Attention == dispatch.None {
		return nil
	}
	shown := JobAttention{Code: string(j.Attention), Message: attentions[j.Attention]}
	switch {
	case j.Notice == "":
	case j.Attention == dispatch.ApplicationUnreachable:
		shown.Message += " " + j.Notice
	case j.Attention == dispatch.SetAside: // it was submitted
		shown.Message = j.Notice
	default:
		shown.Message += " The platform says: " + j.Notice
	}
	if j.Attention == dispatch.NeedsSignIn && a.SignInLink != nil {
		if link := a.SignInLink(j.Account.Platform()); link != "" {
			shown.Link = &link
		}
	}
	return &shown
}
