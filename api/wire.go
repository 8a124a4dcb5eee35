package api

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Object is a JSON object, returned byte for byte.
type Object struct{ json.RawMessage }

// Collection is a STAC Collection, returned byte for byte.
type Collection struct{ json.RawMessage }

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

// ServiceChoice is the service in a request: [ServiceDetails] or [ServiceReference].
type ServiceChoice struct{}

// BaseJobRequest is a request for one job.
type BaseJobRequest struct {
	Title      string        `json:"title" example:"NDVI of the Hesbaye, spring"`
	Label      string        `json:"label,omitempty" enum:"openeo,ogc_api_process" doc:"The protocol of the service. It can be absent if the service is named by its id"`
	Service    ServiceChoice `json:"service"`
	Parameters Object        `json:"parameters" doc:"The parameters of the process, passed on and returned byte for byte. No object in them may have two members with the same name"`
	Format     string        `json:"format,omitempty" minLength:"1" maxLength:"100" example:"gtiff" doc:"The format of the result: geojson, gtiff, netcdf, json, or another that the service offers, by its name in GET /services/{service_id} or, at OGC API - Processes, by its media type. One that is not offered is refused, if the platform tells what it offers. Absent: the one that the operator set, see rules of GET /services/{service_id}; else, for an openEO service, the usual one of its record or its platform; else the process's own"`
	Options    *Object       `json:"options,omitempty" nullable:"true" doc:"Options of the job for the platform, passed on unchanged, except for those that the broker acts on. validate: false submits the parameters without checking them against the service's schemas. max_duration: a job that has not ended so many whole seconds after its start on the platform is canceled; for a task, each job by itself. retries: how often, 10 at most, a job is submitted again that failed because of the platform, as the platform's message and the job's log tell; the pauses grow from a minute to an hour. A job that failed because of its request, or for a reason that is not known, is not retried. pin: true runs the service as its definition is when the request is accepted, whatever becomes of it: the platform gets that definition with each job, in place of its URL. A process of OGC API - Processes is compared with its description instead, and the job refused if it has changed. What cannot be pinned is refused. Tasks are pinned unless they say false, where the platform gets the definition anyway. notify: an object with url and, optionally, events and a secret (Standard Webhooks): the URL is told of this job, or of the jobs of this task, as a hook is; GET /hooks?job_id= or ?task_id= finds its log. notify is not returned with the request. budget and trial, of tasks only: budget is what its jobs may cost, as a number in the unit of the platform, or as {amount, unit}; no job is submitted with which the costs so far and the mean for each job that runs would exceed it, and the task is paused. trial: so many jobs run first, the others when the task is resumed"`
	Annotations
}

// Annotations are what the owner of a job or task wrote on it.
type Annotations struct {
	Labels map[string]string `json:"labels,omitempty" maxProperties:"32" doc:"Keys and values of your choice by which lists can be filtered, see the parameter labels. A key has 1 to 63 letters, digits and the characters . _ / -, a value is a line of at most 255 characters. The jobs of a task do not have its labels"`
	Note   string            `json:"note,omitempty" maxLength:"2000" doc:"A text of your choice"`
}

// AnnotationsPatch is a JSON merge patch (RFC 7396) of Annotations.
type AnnotationsPatch struct {
	Labels map[string]*string `json:"labels,omitempty" nullable:"true" doc:"Labels to set. A label that is null is removed; null in place of the object removes all. Labels that are not named stay"`
	Note   *string            `json:"note,omitempty" nullable:"true" maxLength:"2000" doc:"The note. null removes it; absent: it stays"`
}

// ProcessingJobSummary is one job in a list or in the response to its submission. Optional members are absent if they
// are not known.
type ProcessingJobSummary struct {
	ID         int64          `json:"id" example:"42"`
	Title      string         `json:"title"`
	Name       string         `json:"name,omitempty" example:"31UFS" doc:"Names of the values of the job in its task, such as the id of its tile's cell; several are joined by a comma. Absent: they have none"`
	Label      string         `json:"label" enum:"openeo,ogc_api_process"`
	Status     string         `json:"status" enum:"created,submitted,queued,running,finished,canceled,failed,unknown"`
	Service    ServiceDetails `json:"service"`
	Parameters Object         `json:"parameters,omitzero" required:"false" doc:"Absent if the request has parameters=false"`

	ParametersDeleted bool `json:"parameters_deleted,omitempty" doc:"Whether the broker has deleted the parameters because the job ended long ago. parameters is empty then, and the job cannot be retried"`

	Attention     *JobAttention `json:"attention,omitempty" doc:"Why the job makes no progress, or what its owner should know"`
	Warning       string        `json:"warning,omitempty" doc:"Parameters that were not checked in full when the job was accepted, because the broker does not support their schemas in full or could not read the description of the service, and a format that is not used, because the process saves its results itself: plain text. Absent: none. POST /params says what is not understood"`
	Failure       string        `json:"failure,omitempty" doc:"Why the job failed, or why the broker canceled it"`
	Progress      *float64      `json:"progress,omitempty" minimum:"0" maximum:"100"`
	Checked       *time.Time    `json:"checked,omitempty" doc:"When the platform last reported the status"`
	QueuePosition *int          `json:"queue_position,omitempty" minimum:"0" doc:"Number of jobs of the same account, which other users may share, that the broker submits before this one, accurate to some seconds. The order is fair between users, so jobs that are submitted later can come before it. Present only while the job waits for its turn, not while a user must sign in or the operator must act. A change of this number alone is not pushed and changes no ETag"`
	Forecast      *Forecast     `json:"forecast,omitempty" doc:"When the job starts and ends, as others wait at present. Absent: it waits for somebody or for a platform without a known limit, or fewer than eight of your jobs of the service have finished; and in lists and streams. A change of it alone changes no ETag"`
	TaskID        int64         `json:"task_id,omitempty"`
	Platform      string        `json:"platform,omitempty" doc:"Name of the platform"`
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

func retriesOf(j dispatch.Job) *JobRetries {
	if j.Retries == 0 {
		return nil
	}
	return &JobRetries{j.Retries, j.Retried}
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

// costUnit returns the unit of a job's costs; "" if there are none.
func costUnit(j dispatch.Job) string {
	if j.AllCosts() == nil {
		return ""
	}
	return j.Unit
}

// usageOf returns what a job used; nil if nothing is known.
func usageOf(m dispatch.Metered) *JobUsage {
	if m == (dispatch.Metered{}) {
		return nil
	}
	return &JobUsage{(*Amount)(m.CPU), (*Amount)(m.Memory), (*Amount)(m.Input)}
}

// ProcessingJob is one job.
type ProcessingJob struct {
	ProcessingJobSummary
	Options Object    `json:"options,omitzero" required:"false" doc:"The options that the job was submitted with, with which it can be submitted again. Absent: none"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated" doc:"When this response last changed"`
}

// JobAttention says why a job makes no progress, and what its owner can do.
type JobAttention struct {
	Code    string  `json:"code" doc:"Stable code for programs"`
	Message string  `json:"message" doc:"Explanation for people: plain text"`
	Link    *string `json:"link" nullable:"true" doc:"Page where the owner can resolve it"`
}

// UpscalingTaskRequest is a request for a job for each value of a dimension, or of several.
type UpscalingTaskRequest struct {
	BaseJobRequest
	Services   []ServiceChoice      `json:"services,omitempty" nullable:"false" minItems:"1" maxItems:"8" doc:"Services that do the same at different platforms, in place of service. The jobs go to the platforms that have free slots and end them soonest, and leave one that does not respond; a job that failed because of its platform is retried at another one. Their parameters must agree, and those named by endpoint have the request's label. Such a task has no budget"`
	Dimension  *ParameterDimension  `json:"dimension,omitempty" doc:"The parameter that has a different value in each job. Required unless dimensions are given"`
	Dimensions []ParameterDimension `json:"dimensions,omitempty" nullable:"true" minItems:"1" maxItems:"8" doc:"Several such parameters, in place of dimension"`
	Combine    string               `json:"combine,omitempty" enum:"product,zip" default:"product" doc:"How dimensions make jobs. product: a job for each combination of their values, those of the last dimension first. zip: job n has the n-th value of each, and all have equally many"`
}

// ParameterDimension is a parameter and the values that a task gives it.
type ParameterDimension struct {
	Name     string    `json:"name" example:"spatial_extent" doc:"A parameter of the process that is not in parameters"`
	Values   []any     `json:"values,omitempty" nullable:"true" minItems:"1" doc:"A job is created for each value, in this order. The values are passed on and returned byte for byte. Required unless interval is given"`
	Names    *[]string `json:"names,omitempty" nullable:"true" minItems:"1" example:"[\"31UFS\",\"31UGS\"]" doc:"A name for each value, such as ids of POST /tiles: one line of at most 100 characters, none of them invisible; an empty text is no name. The name of a value is part of the title of its jobs and is shown with them. Not with interval"`
	Interval *[]string `json:"interval,omitempty" nullable:"true" minItems:"2" maxItems:"2" doc:"Two dates or times (RFC 3339) whose parts are the values, in place of them. Each part ends where the next begins, as intervals of openEO do"`
	Split    string    `json:"split,omitempty" example:"month" doc:"How to split the interval. day, week, month, quarter or year: at the borders of the calendar in UTC, weeks on Mondays. A number of days or weeks as in ISO 8601, such as P10D: from the beginning of the interval"`
}

// JobChoice selects jobs of a task: those that have all of its members, of which there is at least one.
type JobChoice struct {
	Jobs   []int64  `json:"jobs,omitempty" nullable:"false" minItems:"1" maxItems:"1000" doc:"Only the jobs with these ids, which must be jobs of the task. Absent: any"`
	Status []string `json:"status,omitempty" nullable:"false" minItems:"1" maxItems:"8" enum:"created,submitted,queued,running,finished,canceled,failed,unknown" doc:"Only jobs with one of these statuses. Absent: any"`
}

// UpscalingTaskSummary is one task in a list or in the response to its submission.
type UpscalingTaskSummary struct {
	ID     int64  `json:"id"`
	Title  string `json:"title"`
	Label  string `json:"label" enum:"openeo,ogc_api_process"`
	Status string `json:"status" enum:"created,submitted,queued,running,finished,canceled,failed,unknown" doc:"running if some jobs run, or if some have ended and others have not. When all have ended: finished if any has finished, see counts"`

	Paused    bool           `json:"paused,omitempty" doc:"Whether jobs that wait are kept from being submitted, see pause_upscale_task. Absent: false"`
	Changing  *TaskChange    `json:"changing,omitempty" doc:"A change that is still being applied to the jobs of a large task. It holds already: no job that it stops is submitted. Absent: none"`
	Homes     []TaskHome     `json:"homes,omitempty" doc:"The platforms of a task that was submitted with several services. Each job has its own"`
	Budget    *TaskBudget    `json:"budget,omitempty" doc:"What the jobs may cost, if the task was submitted with a budget"`
	Trial     int            `json:"trial,omitempty" doc:"How many of the first jobs run while the task is paused on trial. Absent: none"`
	Forecast  *Forecast      `json:"forecast,omitempty" doc:"When the task ends, as others wait at present. Absent: it is paused, waits for somebody, was submitted with several services, or fewer than eight of your jobs of the service have finished; and in lists. A change of it alone is not pushed and changes no ETag"`
	Rest      *TaskRest      `json:"rest,omitempty" doc:"What the other jobs of a task need whose trial has ended, or whose budget was reached. Absent otherwise, and in lists"`
	Counts    map[string]int `json:"counts,omitempty" doc:"Number of jobs by status, without deleted jobs"`
	Progress  *float64       `json:"progress,omitempty" minimum:"0" maximum:"100" doc:"Mean of the jobs in percent; a job that has ended counts as 100 even if it failed"`
	Attention *JobAttention  `json:"attention,omitempty" doc:"The most important attention of the task's jobs: first those that the owner can resolve, such as sign_in_required, then those that the owner decides on, then those that the operator resolves, then those that pass by themselves. Each job has its own"`
	Warning   string         `json:"warning,omitempty" doc:"Parameters that were not checked in full when the task was accepted, because the broker does not support their schemas in full or could not read the description of the service, and a format that is not used, because the process saves its results itself: plain text. Absent: none. POST /params says what is not understood"`
	Annotations
}

// TaskChange is how far a change of the jobs of a task has come.
type TaskChange struct {
	Action string `json:"action" enum:"cancel,pause,resume,retry"`
	Done   int    `json:"done" doc:"Number of the last job that it was applied to"`
	Last   int    `json:"last" doc:"Number of the last job that it will be applied to"`
}

// TaskHome is a platform that jobs of a task may run at.
type TaskHome struct {
	Platform string         `json:"platform" doc:"Name of the platform"`
	Service  ServiceDetails `json:"service"`
	Unused   string         `json:"unused,omitempty" doc:"Why no job runs there: plain text. Absent: jobs may run there"`
	Notice   string         `json:"notice,omitempty" doc:"What you had to do before jobs run there when the task was accepted, such as to sign in: plain text. Until then they run elsewhere. Absent: nothing"`
	Link     string         `json:"link,omitempty" doc:"Page where you can do that"`
}

func (a *api) taskHomes(t dispatch.TaskRecord) (homes []TaskHome) {
	for _, h := range t.Request.Homes {
		one := TaskHome{Platform: h.Account.Platform(), Service: ServiceDetails(h.Service), Unused: h.Unused,
			Notice: h.Notice}
		if h.Notice != "" && a.SignInLink != nil {
			one.Link = a.SignInLink(h.Account)
		}
		homes = append(homes, one)
	}
	return homes
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

// TaskRest is what the jobs of a task that wait are expected to cost, and how long they take.
type TaskRest struct {
	Jobs        int     `json:"jobs" doc:"Number of jobs that wait, without those that are being submitted"`
	Costs       *Spread `json:"costs" doc:"What they are expected to cost together, in cost_unit. null: not known. From fewer than three finished jobs there is no range, and all three numbers are equal"`
	CostUnit    string  `json:"cost_unit" doc:"The unit in which the platform charges, in its own words. Empty: it names none"`
	CostRuns    int     `json:"cost_runs" doc:"Number of finished jobs that the costs are estimated from"`
	Seconds     *Spread `json:"seconds" doc:"How many seconds after the resumption all of them have ended, as others wait at present. Likewise"`
	SecondsRuns int     `json:"seconds_runs" doc:"Number of finished jobs that the time is estimated from"`
	Basis       string  `json:"basis" enum:"task,service" doc:"task: these are jobs of the same task, such as its trial; service: your finished jobs of the service, whatever their parameters"`
}

// TaskBudget is what the jobs of a task may cost, and what they have cost.
type TaskBudget struct {
	Amount   float64 `json:"amount"`
	Unit     string  `json:"unit" doc:"In which the platform charges, in its own words. Empty: it has not named one"`
	Spent    float64 `json:"spent" doc:"What the jobs that have ended cost, with attempts before a retry and deleted jobs, as far as the platform has reported it"`
	Expected float64 `json:"expected" doc:"What the jobs are expected to cost that run, or whose costs the platform has not reported: the mean of the others for each. 0 while nothing is known"`
}

// Resumption is what changes when a task is resumed.
type Resumption struct {
	Budget any `json:"budget" doc:"The new budget of the task: its amount, above 0, or an object with amount and unit, which corrects a unit that the platform does not charge in; null ends the budget"`
}

// UpscalingTask is one task with its jobs.
type UpscalingTask struct {
	UpscalingTaskSummary
	Service ServiceDetails         `json:"service"`
	Created time.Time              `json:"created"`
	Updated time.Time              `json:"updated" doc:"When this response last changed"`
	Jobs    []ProcessingJobSummary `json:"jobs" nullable:"false" doc:"In the order of the dimension's values"`
}

// JobsStatusResponse is a user's tasks, and the user's jobs that belong to no task.
type JobsStatusResponse struct {
	UpscalingTasks []UpscalingTaskSummary `json:"upscaling_tasks" nullable:"false"`
	ProcessingJobs []ProcessingJobSummary `json:"processing_jobs" nullable:"false"`
}

func (a *api) job(r dispatch.Record) ProcessingJob {
	return ProcessingJob{a.summary(r), Object{r.Request.Options}, r.Created.UTC(), r.Updated.UTC()}
}

// task returns a task without its jobs.
func (a *api) task(t dispatch.TaskRecord) UpscalingTask {
	return UpscalingTask{a.taskSummary(t), ServiceDetails(t.Request.Service), t.Created.UTC(), t.Updated.UTC(),
		[]ProcessingJobSummary{}}
}

func (a *api) taskSummary(t dispatch.TaskRecord) UpscalingTaskSummary {
	counts := map[string]int{}
	for s, n := range t.Counts {
		counts[string(a.shown(s))] += n
	}
	return UpscalingTaskSummary{ID: int64(t.ID), Title: t.Request.Title, Label: string(t.Request.Label),
		Status: string(a.shown(t.Counts.Status())), Paused: t.Paused, Changing: changeOf(t.Change), Homes: a.taskHomes(t),
		Budget: budgetOf(t), Trial: t.Trial, Counts: counts, Progress: &t.Progress,
		Attention: a.attention(dispatch.Job{Account: t.Account, Attention: t.Attention}), Warning: t.Request.Warning,
		Annotations: Annotations(t.Annotations), Forecast: forecastOf(t.Forecast), Rest: restOf(t.Rest)}
}

// changeOf returns a change as it is shown; nil if there is none.
func changeOf(c dispatch.Change) *TaskChange {
	if c == (dispatch.Change{}) {
		return nil
	}
	action, _, _ := strings.Cut(c.Action, " ")
	return &TaskChange{action, c.Done, c.Last}
}

// forecastOf returns a forecast as it is shown; nil if there is none.
func forecastOf(f *dispatch.Forecast) *Forecast {
	if f == nil {
		return nil
	}
	shown := &Forecast{End: timeRange(f.End), Runs: f.Runs, Basis: string(f.Basis)}
	if f.Start != nil {
		start := timeRange(*f.Start)
		shown.Start = &start
	}
	return shown
}

func timeRange(r dispatch.TimeRange) TimeRange { return TimeRange{r.Early.UTC(), r.Late.UTC()} }

// restOf returns what is left of a task as it is shown; nil if that is not known.
func restOf(r *dispatch.Rest) *TaskRest {
	if r == nil {
		return nil
	}
	return &TaskRest{r.Jobs, (*Spread)(r.Costs), r.Unit, r.Charged, (*Spread)(r.Took), r.Timed, string(r.Basis)}
}

// budgetOf returns the budget of a task; nil if it has none.
func budgetOf(t dispatch.TaskRecord) *TaskBudget {
	if t.Spending == nil {
		return nil
	}
	use := t.Budget.Use(*t.Spending)
	return &TaskBudget{use.Amount, use.Unit, use.Spent, use.Expected}
}

func (a *api) summary(r dispatch.Record) ProcessingJobSummary {
	return ProcessingJobSummary{
		ID:                int64(r.ID),
		Title:             r.Request.Title,
		Name:              r.Name(),
		Label:             string(r.Request.Label),
		Status:            string(a.shown(r.Status)),
		Service:           ServiceDetails(r.Request.Service),
		Parameters:        Object{r.Request.Parameters},
		ParametersDeleted: r.Pruned,
		Attention:         a.attention(r.Job),
		Warning:           r.Request.Warning,
		Failure:           r.Failure,
		Progress:          r.Progress,
		Checked:           known(r.Checked),
		QueuePosition:     r.Ahead,
		TaskID:            int64(r.Task),
		Platform:          r.Account.Platform(),
		PlatformJobID:     r.Ref.ID,
		Format:            r.Request.Format,
		Costs:             r.AllCosts(),
		CostUnit:          costUnit(r.Job),
		Usage:             usageOf(r.Metered),
		Retries:           retriesOf(r.Job),
		Duration:          r.Duration.Seconds(),
		Annotations:       Annotations(r.Annotations),
		Forecast:          forecastOf(r.Forecast),
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
	dispatch.InDoubt: "The platform did not respond when the job was submitted. The broker is finding out " +
		"whether the platform accepted it. You need not do anything.",
	dispatch.SubmissionUnknown: "The broker cannot find out whether the platform accepted the job. It may be running " +
		"there. Check on the platform, then submit the job again or delete it.",
	dispatch.NotTaken: "The platform accepts no more jobs at the moment. The job is submitted as soon as it " +
		"accepts jobs again.",
	dispatch.Full: "The platform accepts no more jobs of your account, or of the account that you share, " +
		"while others are there. The job is submitted when one of them ends.",
	dispatch.GivenUp: "The platform refused the job for so long that the broker gave up. Retry its task, or " +
		"submit the job again.",
	dispatch.Unreachable: "The platform does not respond. The status is the last known one. The broker keeps " +
		"asking.",
	dispatch.NeedsSignIn: "The job needs your sign-in to continue at the platform. Sign in again, and link your " +
		"account there if you have not.",
	dispatch.NeedsOperator: "The platform refuses the broker's credentials or configuration. The operator of this " +
		"service must correct them; then the job continues.",
	dispatch.CancelUnsupported: "The platform cannot cancel jobs. The job may run there to its end.",
	dispatch.Missing: "The platform does not find this job. The broker looks for it for some more minutes " +
		"before it reports the job as lost.",
	dispatch.Lost: "The platform no longer knows this job.",
	dispatch.Retrying: "The job failed, and is submitted again: at another platform of its task if one is " +
		"free to run it, else at the same one after a pause.",
	dispatch.Paused: "The task is paused. Jobs that wait are submitted after you resume it; jobs that were " +
		"submitted go on.",
	dispatch.BudgetReached: "Another job would exceed the budget of this task. It is paused; jobs that were " +
		"submitted go on. Resume it with a higher budget, or cancel it.",
	dispatch.CostsAwaited: "The task has a budget, and the platform has not reported yet what its first jobs " +
		"cost. The others are submitted as soon as it has. You need not do anything.",
	dispatch.BudgetUnusable: "The platform reports no costs for the jobs of this task, or costs in another unit " +
		"than that of its budget, so that the budget cannot be kept. Resume the task with a budget in the unit of its " +
		"costs, or without one, or cancel it.",
	dispatch.Trial: "The first jobs of this task run on trial. The others are submitted after you resume it.",
	dispatch.TrialEnded: "The first jobs of this task, which ran on trial, have ended. Look at their results " +
		"and costs, then resume the task to run the others, or cancel it.",
	dispatch.Stalled: "The platform has reported no progress of this job for hours. It may hang there. It " +
		"continues unless you cancel it.",
	dispatch.RefusedForbidden: "The platform does not permit this for your account. Ask its operator for permission, " +
		"or choose another platform.",
	dispatch.RefusedUnsupported: "The platform does not support this. Choose another service or platform.",
	dispatch.Overdue: "The job took longer than the max_duration that it was submitted with, and was " +
		"canceled. Submit it again with more time, or without that option.",
	dispatch.ServiceChanged: "The document that defines the service has changed since this was accepted. Waiting " +
		"jobs are still submitted, and run with the document as it is then, unless they are pinned (options.pin).",
	dispatch.ApplicationUnreachable: "The document at the application's address cannot be fetched. Check that the " +
		"address is right and that it can be read without a sign-in. " +
		"A job that waits for it is tried again at increasing intervals. The platform is not the cause.",
	dispatch.SetAside: "The broker crashed three times in a row while it submitted this job, and does not " +
		"submit it again by itself. Retry its task, submit the job again, or delete it. If this happens again, tell the " +
		"operator of this service.",
	dispatch.ApplicationInvalid: "The document at the application's address defines no service, or is refused. Correct " +
		"it, or submit with another address.",
	dispatch.NotRemoved: "The job has ended, and its copy at the platform, with the results, could not be " +
		"deleted there. Delete it at the platform if you need to.",
	dispatch.HeldByOperator: "The operator of this service submits nothing to the platform at present. The job is " +
		"submitted when that ends; jobs that were submitted go on.",
	dispatch.EndedByOperator: "The operator of this service ended this job. Retry its task, or submit the job again.",
	dispatch.NoPlatform: "The platform of this job is no longer configured. The operator of this service must " +
		"configure it again.",
}

// Advice returns what an attention means, and what the owner of the job or the task can do; "" for one that it does not
// know.
func Advice(why dispatch.Attention) string { return attentions[why] }

func (a *api) attention(j dispatch.Job) *JobAttention {
	if j.Attention == dispatch.None {
		return nil
	}
	shown := JobAttention{Code: string(j.Attention), Message: attentions[j.Attention]}
	switch {
	case j.Notice == "":
	case j.Attention == dispatch.ApplicationUnreachable:
		shown.Message += " " + j.Notice
	// it was submitted; or the platform was not asked
	case j.Attention == dispatch.SetAside, j.Notice == dispatch.RestoredNotice:
		shown.Message = j.Notice
	case j.Attention == dispatch.NoPlatform: // the notice says the same
	case j.Attention == dispatch.HeldByOperator:
		shown.Message += " The operator says: " + j.Notice
	default:
		shown.Message += " The platform says: " + j.Notice
	}
	if j.Attention == dispatch.NeedsSignIn && a.SignInLink != nil {
		if link := a.SignInLink(j.Account); link != "" {
			shown.Link = &link
		}
	}
	return &shown
}
