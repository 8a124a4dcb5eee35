package client

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Status is how a job or a task stands.
type Status string

// The statuses, in the order in which a job passes through them.
const (
	Created   Status = "created"   // accepted by the broker, not yet by the platform
	Submitted Status = "submitted" // accepted by the platform
	Queued    Status = "queued"
	Running   Status = "running"
	Unknown   Status = "unknown" // the broker cannot find out
	Finished  Status = "finished"
	Failed    Status = "failed"
	Canceled  Status = "canceled"
)

// Statuses lists all statuses, the final ones last.
var Statuses = []Status{Created, Submitted, Queued, Running, Unknown, Finished, Failed, Canceled}

// Final reports whether a job with this status has ended.
func (s Status) Final() bool { return slices.Contains([]Status{Finished, Failed, Canceled}, s) }

// Protocols of platforms, the values of the member label.
const (
	OpenEO     = "openeo"
	OGCProcess = "ogc_api_process"
)

// Service names the service that a job runs: by its id in the broker's catalogue, or by platform and application.
type Service struct {
	ID          string  `json:"id,omitempty"`
	Endpoint    string  `json:"endpoint,omitempty"`
	Namespace   *string `json:"namespace,omitempty"`
	Application string  `json:"application,omitempty"`
	Platform    string  `json:"platform,omitempty"` // with ID: the one of the platforms that offer the service
}

// JobRequest is a request for one job.
type JobRequest struct {
	Title      string          `json:"title"`
	Label      string          `json:"label,omitempty"`
	Service    Service         `json:"service,omitzero"`
	Parameters json.RawMessage `json:"parameters"`
	Format     string          `json:"format,omitempty"` // "": the service's own
	Options    json.RawMessage `json:"options,omitempty"`
	Annotations
}

// Annotations are what you wrote on a job or task, to find it again.
type Annotations struct {
	Labels map[string]string `json:"labels,omitempty"`
	Note   string            `json:"note,omitempty"`
}

// AnnotationChange changes annotations. What is nil stays.
type AnnotationChange struct {
	Labels map[string]*string `json:"labels,omitempty"` // nil: the label is removed
	Note   *string            `json:"note,omitempty"`
}

// TaskRequest is a request for a job for each value of a dimension, or of several.
type TaskRequest struct {
	JobRequest
	Services   []Service   `json:"services,omitempty"` // that do the same at different platforms, in place of Service
	Dimension  Dimension   `json:"dimension,omitzero"`
	Dimensions []Dimension `json:"dimensions,omitempty"` // in place of Dimension
	// "product" (default), a job for each combination of values, or "zip"
	Combine string `json:"combine,omitempty"`
}

// Dimension is a parameter and the values that a task gives it.
type Dimension struct {
	Name   string            `json:"name"`
	Values []json.RawMessage `json:"values,omitempty"`
	// of the values, one for each, "" for none; nil: no value has one
	Names    []string `json:"names,omitempty"`
	Interval []string `json:"interval,omitempty"` // its parts are the values
	// day, week, month, quarter, year, or a number of days such as P10D
	Split string `json:"split,omitempty"`
}

// DimensionProgress is how far the jobs of a task are, by the values of one dimension.
type DimensionProgress struct {
	Name   string          `json:"name"`
	Values []ValueProgress `json:"values"` // in the order of the request
}

// ValueProgress is how far the jobs are that have one value.
type ValueProgress struct {
	Name     string          `json:"name,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"` // nil: it is large, or was deleted
	Status   Status          `json:"status"`
	Counts   map[Status]int  `json:"counts"`
	Progress float64         `json:"progress"` // percent
	Jobs     []int64         `json:"jobs"`
}

// Job is one job. Members that the broker did not send are zero.
type Job struct {
	ID         int64           `json:"id"`
	Title      string          `json:"title"`
	Name       string          `json:"name,omitempty"` // of its values in its task, such as the id of its tile's cell
	Label      string          `json:"label"`
	Status     Status          `json:"status"`
	Service    Service         `json:"service"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// the broker has deleted the parameters of a job that ended long ago; it cannot be retried
	Pruned        bool            `json:"parameters_deleted,omitempty"`
	Attention     *Attention      `json:"attention,omitempty"`
	Warning       string          `json:"warning,omitempty"`
	Failure       string          `json:"failure,omitempty"`
	Progress      *float64        `json:"progress,omitempty"` // percent
	Checked       *time.Time      `json:"checked,omitempty"`
	QueuePosition *int            `json:"queue_position,omitempty"`
	Forecast      *Forecast       `json:"forecast,omitempty"` // nil: not known, and in lists
	TaskID        int64           `json:"task_id,omitempty"`
	Platform      string          `json:"platform,omitempty"`
	PlatformJobID string          `json:"platform_job_id,omitempty"`
	Format        string          `json:"format,omitempty"`
	Costs         *float64        `json:"costs,omitempty"`     // of all attempts, in CostUnit
	CostUnit      string          `json:"cost_unit,omitempty"` // in the platform's words
	Usage         *JobUsage       `json:"usage,omitempty"`
	Retries       *Retries        `json:"retries,omitempty"`  // nil: it is not retried by itself
	Duration      float64         `json:"duration,omitempty"` // seconds
	Options       json.RawMessage `json:"options,omitempty"`  // nil in lists
	Created       time.Time       `json:"created,omitzero"`   // zero in lists
	Updated       time.Time       `json:"updated,omitzero"`   // zero in lists
	Annotations
}

// Retries is how often a job is retried by itself after failures that its platform caused.
type Retries struct {
	Allowed int `json:"allowed"`
	Done    int `json:"done"`
}

// JobUsage is what a job used at its platform, in the platform's units.
type JobUsage struct {
	CPU    *Amount `json:"cpu,omitempty"`
	Memory *Amount `json:"memory,omitempty"`
	Input  *Amount `json:"input,omitempty"`
}

// Amount is a quantity in a unit of a platform.
type Amount struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

// Estimate is what a request is expected to cost, and how long it is expected to run, by the user's own finished jobs.
type Estimate struct {
	Jobs     int     `json:"jobs"`
	Costs    *Spread `json:"costs"` // of all jobs together; nil: not known
	CostUnit string  `json:"cost_unit"`
	// "runs" of the user, those over a similar "area", or the "catalogue"; "": no estimate
	CostBasis   string  `json:"cost_basis,omitempty"`
	CostRuns    int     `json:"cost_runs"` // that the costs are estimated from
	Seconds     *Spread `json:"seconds"`   // of one job; nil: not known
	SecondsRuns int     `json:"seconds_runs"`

	SecondsBasis string `json:"seconds_basis,omitempty"` // "runs" of the user, or those over a similar "area"
}

// Spread is the range in which an amount is expected.
type Spread struct {
	Low    float64 `json:"low"`
	Likely float64 `json:"likely"`
	High   float64 `json:"high"`
}

// Attention says why a job makes no progress, and what its owner can do.
type Attention struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Link    *string `json:"link"`
}

// Choice selects jobs of a task. A member that is nil selects any. An empty member is refused, and so is a choice
// without members.
type Choice struct {
	Jobs     []int64  `json:"jobs,omitzero"`
	Statuses []Status `json:"status,omitzero"`
}

// Task is one task.
type Task struct {
	ID       int64       `json:"id"`
	Title    string      `json:"title"`
	Label    string      `json:"label"`
	Status   Status      `json:"status"`
	Paused   bool        `json:"paused,omitempty"`   // jobs that wait are not submitted
	Changing *TaskChange `json:"changing,omitempty"` // of its jobs, that is under way; nil: none
	Homes    []TaskHome  `json:"homes,omitempty"`    // its platforms, if it was submitted with several services
	Budget   *TaskBudget `json:"budget,omitempty"`   // nil: none
	Forecast *Forecast   `json:"forecast,omitempty"` // nil: not known, and in lists
	Rest     *TaskRest   `json:"rest,omitempty"`     // of a task that waits for its owner; nil in lists
	// how many of its first jobs run while it is paused on trial; 0: no trial
	Trial     int            `json:"trial,omitempty"`
	Counts    map[Status]int `json:"counts,omitempty"`
	Progress  *float64       `json:"progress,omitempty"` // percent
	Attention *Attention     `json:"attention,omitempty"`
	Warning   string         `json:"warning,omitempty"`
	Service   Service        `json:"service,omitzero"` // zero in lists
	Created   time.Time      `json:"created,omitzero"` // zero in lists
	Updated   time.Time      `json:"updated,omitzero"` // zero in lists
	Jobs      []Job          `json:"jobs,omitempty"`   // nil in lists
	Annotations
}

// TaskChange is how far a change of the jobs of a task has come, such as its cancellation.
type TaskChange struct {
	Action string `json:"action"`
	Done   int    `json:"done"` // number of the last job that it was applied to
	Last   int    `json:"last"` // number of the last job that it will be applied to
}

// TaskHome is a platform that jobs of a task may run at.
type TaskHome struct {
	Platform string  `json:"platform"`
	Service  Service `json:"service"`
	Unused   string  `json:"unused,omitempty"` // why no job runs there
	Notice   string  `json:"notice,omitempty"` // what the user had to do before jobs run there when the task was accepted
	Link     string  `json:"link,omitempty"`   // where the user can do that
}

// PlatformProgress is how far the jobs of a task are at one of its platforms.
type PlatformProgress struct {
	TaskHome
	Counts  map[Status]int `json:"counts"`
	PerHour float64        `json:"per_hour"` // jobs that finish there in an hour

	State      string     `json:"state,omitempty"`       // "": the platform is no longer configured
	LastAnswer *time.Time `json:"last_answer,omitempty"` // about a job of any user; nil: none
	Failure    string     `json:"failure,omitempty"`     // what went wrong at the last request, if that failed
	Attention  *Attention `json:"attention,omitempty"`   // why none of your jobs is submitted there
}

// Forecast is when a job starts and ends, or a task ends.
type Forecast struct {
	Start *TimeRange `json:"start,omitempty"` // of a job that waits; nil otherwise
	End   TimeRange  `json:"end"`
	Runs  int        `json:"runs"` // finished jobs that it is made from
	// "task": jobs of the same task; "area": of any, over a similar area; "service": of any
	Basis string `json:"basis"`
}

// TimeRange is when something is expected: in one of ten cases before Early, and in one after Late.
type TimeRange struct {
	Early time.Time `json:"early"`
	Late  time.Time `json:"late"`
}

// TaskRest is what the jobs of a task that wait, and are not being submitted, are expected to cost, and how many
// seconds they take after the task is resumed.
type TaskRest struct {
	Jobs        int     `json:"jobs"`
	Costs       *Spread `json:"costs"` // nil: not known
	CostUnit    string  `json:"cost_unit"`
	CostRuns    int     `json:"cost_runs"` // finished jobs that the costs are estimated from
	Seconds     *Spread `json:"seconds"`   // nil: not known
	SecondsRuns int     `json:"seconds_runs"`
	Basis       string  `json:"basis"` // as in Forecast
}

// TaskBudget is what the jobs of a task may cost, and what they have cost, in the platform's unit.
type TaskBudget struct {
	Amount   float64 `json:"amount"`
	Unit     string  `json:"unit"` // "": the platform has not named one
	Spent    float64 `json:"spent"`
	Expected float64 `json:"expected"` // of jobs whose costs are not known yet
}

// Ended returns how many jobs of the task have ended, and how many there are.
func (t Task) Ended() (ended, all int) {
	for status, n := range t.Counts {
		all += n
		if status.Final() {
			ended += n
		}
	}
	return ended, all
}

// Parameter is one parameter of a service.
type Parameter struct {
	Name        string            `json:"name"`
	Type        string            `json:"type"`
	Optional    bool              `json:"optional"`
	Description string            `json:"description"`
	Default     json.RawMessage   `json:"default"`
	Options     []json.RawMessage `json:"options"`
	Schema      json.RawMessage   `json:"schema"`
	Minimum     *json.Number      `json:"minimum,omitempty"`
	Maximum     *json.Number      `json:"maximum,omitempty"`
	Nullable    bool              `json:"nullable"`
	Warning     string            `json:"warning,omitempty"`
}

// Platform is a platform as the broker sees it.
type Platform struct {
	Name        string     `json:"name"`
	Label       string     `json:"label"`
	Endpoint    string     `json:"endpoint"`
	Access      string     `json:"access"`
	State       string     `json:"state"`
	LastAnswer  *time.Time `json:"last_answer"`
	Failure     string     `json:"failure,omitempty"`
	Attention   *Attention `json:"attention,omitempty"`
	QueueLength int        `json:"queue_length"`
	Jobs        OwnJobs    `json:"jobs"`
	Slots       Share      `json:"slots"`
	Rate        float64    `json:"requests_per_second,omitempty"`
	Starts      *Starts    `json:"starts,omitempty"`
	Live        Share      `json:"live"`
	LastDay     Share      `json:"last_day"`
}

// OwnJobs counts the user's jobs at a platform.
type OwnJobs struct {
	Waiting int `json:"waiting"`
	Active  int `json:"active"`
}

// Share is how much of something is used, and of how much; Of is nil if there is no limit.
type Share struct {
	Used int  `json:"used"`
	Of   *int `json:"of"`
}

// Starts is how the broker finds out whether a start request arrived when its response was lost.
type Starts struct {
	SettlesAfter float64 `json:"settles_after"`
	Prompt       int     `json:"prompt"`
	Lag          float64 `json:"lag"`
}

// PlatformList is all platforms, and the user's limits at all of them.
type PlatformList struct {
	Platforms []Platform `json:"platforms"`
	Live      Share      `json:"live"`
	LastDay   Share      `json:"last_day"`
	Bytes     Share      `json:"bytes"`
}

// Grid is a division of the Earth into cells.
type Grid struct {
	Name        string  `json:"name"`
	Description string  `json:"description"`
	CellWidth   float64 `json:"cell_width"`  // metres
	CellHeight  float64 `json:"cell_height"` // metres
	Cells       int     `json:"cells"`
	CRS         string  `json:"crs"`
}

// TileRequest is an area in GeoJSON to split into tiles, by a grid or by cells, a FeatureCollection.
type TileRequest struct {
	AOI     json.RawMessage `json:"aoi"`
	Grid    string          `json:"grid,omitempty"`
	Cells   json.RawMessage `json:"cells,omitempty"`
	MinArea float64         `json:"min_area,omitempty"` // square metres
	Merge   bool            `json:"merge,omitempty"`
	Buffer  float64         `json:"buffer,omitempty"` // metres
	Order   string          `json:"order,omitempty"`
}

// Tiles is a GeoJSON GeometryCollection of tiles.
type Tiles struct {
	Type       string            `json:"type"`
	Geometries []json.RawMessage `json:"geometries"`
	IDs        []string          `json:"ids"`
}

// LogEntry is one entry of a job's log.
type LogEntry struct {
	Time    *time.Time `json:"time"`
	Level   string     `json:"level"`
	Message string     `json:"message"`
}

// Usage is what a user uses of a platform.
type Usage struct {
	Platform string   `json:"platform"`
	Live     int      `json:"live"`
	LiveOf   *int     `json:"live_limit"`
	LastDay  int      `json:"last_day"`
	DayOf    *int     `json:"last_day_limit"`
	CostsOf  *float64 `json:"month_costs_limit"`
	Jobs     int      `json:"jobs"`
	Costs    *float64 `json:"costs"`
	Charges  []Charge `json:"charges"` // newest month first
}

// Charge is what a user's jobs cost at a platform in a month. Costs in different units cannot be added.
type Charge struct {
	Month string  `json:"month"` // 2026-11, in UTC
	Unit  string  `json:"unit"`
	Costs float64 `json:"costs"`
	Runs  int     `json:"runs"`
	Label *string `json:"label,omitempty"` // of UsageByLabel: the value of the label; nil: of all other runs
}

// Grant is a permission to act for the user.
type Grant struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`
	Platforms []string   `json:"platforms"`
	Created   time.Time  `json:"created"`
	Renewed   time.Time  `json:"renewed"`
	Expires   *time.Time `json:"expires"`
}

// Collection is the results of a job, a STAC Collection.
type Collection struct {
	ID     string           `json:"id"`
	Title  string           `json:"title"`
	Assets map[string]Asset `json:"assets"`
	// Raw is the whole document.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON keeps the whole document in Raw.
func (c *Collection) UnmarshalJSON(text []byte) error {
	type plain Collection
	if err := json.Unmarshal(text, (*plain)(c)); err != nil {
		return err
	}
	c.Raw = slices.Clone(text)
	return nil
}

// Item is the results of one job of a task, a STAC Item.
type Item struct {
	ID     string           `json:"id"`
	Assets map[string]Asset `json:"assets"`
	// Raw is the whole document.
	Raw json.RawMessage `json:"-"`
}

// MissingResults is the error for a finished job of a task whose results cannot be read.
type MissingResults struct {
	ID        int64  `json:"id"` // of the job
	Name      string `json:"name,omitempty"`
	Code      string `json:"error_code"`
	Message   string `json:"message"`
	Temporary bool   `json:"temporary"` // TaskItem may return the results later
}

func (m *MissingResults) Error() string {
	name := ""
	if m.Name != "" {
		name = " (" + m.Name + ")"
	}
	return fmt.Sprintf("job-%d%s: %s", m.ID, name, m.Message)
}

// UnmarshalJSON keeps the whole document in Raw.
func (i *Item) UnmarshalJSON(text []byte) error {
	type plain Item
	if err := json.Unmarshal(text, (*plain)(i)); err != nil {
		return err
	}
	i.Raw = slices.Clone(text)
	return nil
}

// Asset is one file of a result.
type Asset struct {
	Href     string   `json:"href"`
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Roles    []string `json:"roles"`
	Size     int64    `json:"file:size"`     // bytes; 0: not known
	Checksum string   `json:"file:checksum"` // multihash in hexadecimal; "": not known
}
