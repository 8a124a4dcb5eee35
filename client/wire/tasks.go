package wire

import (
	"encoding/json"
	"time"
)

// UpscalingTaskSummary is one task in a list or in the response to its submission.
type UpscalingTaskSummary struct {
	ID     int64  `json:"id"`
	Title  string `json:"title"`
	Label  string `json:"label" enum:"openeo,ogc_api_process"`
	Status Status `json:"status" enum:"created,submitted,queued,running,finished,canceled,failed,unknown" doc:"running if some jobs run, or if some have ended and others have not. When all have ended: finished if any has finished, see counts"`

	Paused    bool           `json:"paused,omitempty" doc:"Whether jobs that wait are kept from being submitted, see pause_upscale_task. Absent: false"`
	Changing  *TaskChange    `json:"changing,omitempty" doc:"A change that is still being applied to the jobs of a large task. It holds already: no job that it stops is submitted. Absent: none"`
	Homes     []TaskHome     `json:"homes,omitempty" doc:"The platforms of a task that was submitted with several services. Each job has its own"`
	Budget    *TaskBudget    `json:"budget,omitempty" doc:"What the jobs may cost, if the task was submitted with a budget"`
	Created   time.Time      `json:"created,omitzero" required:"true" doc:"When the broker accepted the task"`
	Trial     int            `json:"trial,omitempty" doc:"How many of the first jobs run while the task is paused on trial. Absent: none"`
	Forecast  *Forecast      `json:"forecast,omitempty" doc:"When the task is expected to end, if the platform stays as busy as it is now. Absent in lists, while the task is paused or waits for a person, for several services, and until eight of your jobs of the service have finished. A change of it alone is not pushed and changes no ETag"`
	Rest      *TaskRest      `json:"rest,omitempty" doc:"What the other jobs of a task need whose trial has ended, or whose budget was reached. Absent otherwise, and in lists"`
	Counts    map[Status]int `json:"counts" doc:"Number of jobs by status, without deleted jobs"`
	Progress  *float64       `json:"progress,omitempty" required:"true" minimum:"0" maximum:"100" doc:"Mean of the jobs in percent; a job that has ended counts as 100 even if it failed"`
	Attention *JobAttention  `json:"attention,omitempty" doc:"The most important attention of the task's jobs: first those that the owner can resolve, such as sign_in_required, then those that the owner decides on, then those that the operator resolves, then those that pass by themselves. Each job has its own"`
	Warning   string         `json:"warning,omitempty" doc:"Parameters that were not checked in full when the task was accepted, because the broker does not support their schemas in full or could not read the description of the service, and a format that is not used, because the process saves its results itself, and time spans that end when they begin: plain text. Absent: none. POST /params says what is not understood"`
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

// TaskRest is what the jobs of a task that wait are expected to cost, and how long they take.
type TaskRest struct {
	Jobs        int     `json:"jobs" doc:"Number of jobs that wait, without those that are being submitted"`
	Costs       *Spread `json:"costs" doc:"What they are expected to cost together, in cost_unit. null: not known. From fewer than three finished jobs there is no range, and all three numbers are equal"`
	CostUnit    string  `json:"cost_unit" doc:"The unit in which the platform charges, in its own words. Empty: it names none"`
	CostRuns    int     `json:"cost_runs" doc:"Number of finished jobs that the costs are estimated from"`
	Seconds     *Spread `json:"seconds" doc:"How many seconds after the resumption all of them have ended, if the platform stays as busy as it is now. null, and from fewer than three finished jobs: as for costs"`
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

// UpscalingTask is one task with its jobs.
type UpscalingTask struct {
	UpscalingTaskSummary
	Service ServiceDetails         `json:"service"`
	Updated time.Time              `json:"updated,omitzero" required:"true" doc:"When this response last changed"`
	Jobs    []ProcessingJobSummary `json:"jobs,omitzero" required:"true" doc:"In the order of the dimension's values"`
}

// TaskDimensions is how far the jobs of a task are, by each of its dimensions.
type TaskDimensions struct {
	Dimensions []DimensionProgress `json:"dimensions" doc:"In the order of the request"`
}

// DimensionProgress is how far the jobs of a task are, by the values of one dimension.
type DimensionProgress struct {
	Name   string          `json:"name"`
	Values []ValueProgress `json:"values" doc:"In the order of the request, each value once"`
}

// ValueProgress is how far the jobs are that have one value.
type ValueProgress struct {
	Name     string          `json:"name,omitempty" doc:"Name of the value, such as the id of the cell of a tile. Absent: it has none"`
	Value    json.RawMessage `json:"value,omitempty" doc:"Absent if it has more than 1,024 bytes, or was deleted because of its age"`
	Status   Status          `json:"status" enum:"created,submitted,queued,running,finished,canceled,failed,unknown" doc:"By the rules for the status of a task"`
	Counts   map[Status]int  `json:"counts"`
	Progress float64         `json:"progress" minimum:"0" maximum:"100" doc:"Mean of the jobs in percent"`
	Jobs     []int64         `json:"jobs" doc:"Ids of the jobs: GET /upscale_tasks/{task_id}/results/items/{job_id} returns the results of one, and cancel and retry of the task take them"`
}

// TaskPlatforms is how far the jobs of a task are at each of its platforms.
type TaskPlatforms struct {
	Platforms []PlatformProgress `json:"platforms" doc:"In the order of the request; one for a task with one service"`
}

// PlatformProgress is how far the jobs of a task are at one platform.
type PlatformProgress struct {
	TaskHome
	Counts  map[Status]int `json:"counts" doc:"Number of jobs by status, without deleted jobs. A waiting job is where it would run if nothing changes"`
	PerHour float64        `json:"per_hour" doc:"How many jobs finish there in an hour, from those that finished in the last hour, or since the task was accepted; of a task that has ended, before its end"`

	State      string        `json:"state,omitempty" enum:"ok,unknown,unreachable,busy,sign_in_required,misconfigured,forbidden" doc:"What you can expect of the platform now, as in GET /platforms. Absent: the platform is no longer configured"`
	LastAnswer *time.Time    `json:"last_answer,omitempty" doc:"When the platform last responded about a job of any user, accurate to some seconds. Absent: it has not"`
	Failure    string        `json:"failure,omitempty" doc:"What went wrong at the last request, if that failed"`
	Attention  *JobAttention `json:"attention,omitempty" doc:"Why none of your jobs is submitted there at present"`
}
