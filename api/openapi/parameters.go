package openapi

import (
	"math"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/dispatch"
)

const ManyLogs = 1_000 // entries of a page by default

const MostLogs = 10_000

var IdParam = &huma.Param{Name: "job_id", In: "path", Required: true,
	Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int64"}, Example: 42}

// PathParam describes a text in the path of an operation.
func PathParam(name string) *huma.Param {
	return &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}
}

var TaskParam = &huma.Param{Name: "task_id", In: "path", Required: true,
	Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int64"}, Example: 7}

var PlatformParam = &huma.Param{Name: "platform", In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean,
	Default: false},
	Description: "true: also delete the job, or each job of the task, with its results at the platform, once it has " +
		"ended there and its costs are known. That happens after the response, and is retried for a week."}

var KeyParam = &huma.Param{Name: "Idempotency-Key", In: "header",
	Description: "A name of your choice for this request. Repeating the request with the same name and body submits " +
		"nothing twice. The name is remembered for a day. If the job or task was deleted since, the response is 409.",
	Schema: &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(255)}}

var PreferParam = &huma.Param{Name: "Prefer", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
	Example: "wait=20",
	Description: "wait=N (RFC 7240): how many seconds to wait for the end of the job, 60 at most. Without it the " +
		"Idempotency-Key has no effect, unless the platform runs the request as a job only."}

var LimitParam = &huma.Param{Name: "limit", In: "query", Description: "Maximum number of entries",
	Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(MostLogs)), Default: ManyLogs}}

var OffsetParam = &huma.Param{Name: "offset", In: "query", Description: "Number of entries to skip",
	Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0), Maximum: new(float64(math.MaxInt32)), Default: 0}}

var WaitParam = &huma.Param{Name: "wait", In: "query", Schema: &huma.Schema{Type: huma.TypeNumber},
	Description: "Seconds to wait for a change, 60 at most: a change from now on, or with If-None-Match a change " +
		"since that ETag. Only the latter misses no change between two requests. Without If-None-Match, a job or " +
		"task that has ended is returned at once. A user can have limits.streams such requests open at once; " +
		"further ones get 429."}

var KnownParam = &huma.Param{Name: "If-None-Match", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
	Description: "ETags that the client has. If one of them is still current, after wait if that is given, the " +
		"response is 304 without a body. " +
		"An ETag changes with the response, except for checked, queue_position and forecast."}

var PageParams = []*huma.Param{
	{Name: "limit", In: "query",
		Description: "Maximum number of elements, 1000 at most. The header Link leads to the next page.",
		Schema:      &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)}},
	{Name: "cursor", In: "query", Description: "The cursor in the Link header of the same list.",
		Schema: &huma.Schema{Type: huma.TypeString}},
	{Name: "status", In: "query", Explode: new(true), Description: "Only elements with one of these statuses.",
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Enum: enumOf(Statuses)}}},
	{Name: "platform", In: "query", Explode: new(true), Description: "Only elements on one of these platforms.",
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}},
	{Name: "labels", In: "query", Explode: new(true),
		Description: "Only elements with this label, written as key=value. Repeated: with all of them. The first " +
			"one is looked up and the others filter what it finds, so begin with the rarest.",
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString},
			MaxItems: new(dispatch.MostLabels)},
		Example: []any{"project=hesbaye"}},
	{Name: "title", In: "query",
		Description: "Only elements whose title contains this text, in upper or lower case. A page can have fewer " +
			"elements than limit, and a further page nevertheless.",
		Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(LongestSearch)}},
	{Name: "service", In: "query",
		Description: "Only elements of this service: its id in the catalogue, or its application. As with title, a " +
			"page can have fewer elements than limit.",
		Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(LongestSearch)}},
	{Name: "created_after", In: "query", Description: "Only elements that were created at this time or later.",
		Schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}},
	{Name: "created_before", In: "query", Description: "Only elements that were created before this time.",
		Schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}},
	{Name: "parameters", In: "query", Description: "false: leave out the parameters of jobs, which may be large.",
		Schema: &huma.Schema{Type: huma.TypeBoolean, Default: true}},
	{Name: "since", In: "query", Description: "Only elements that have changed since.",
		Schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}},
}

var SortParam = &huma.Param{Name: "sort", In: "query",
	Description: "created: the oldest elements first, in pages as with limit. A cursor of one order is not accepted " +
		"in the other.",
	Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{NewestFirst, OldestFirst}, Default: NewestFirst}}

var FilterParam = &huma.Param{Name: "filter", In: "query", Explode: new(true),
	Description: "What to list; by default all jobs and tasks. `sync`, which must be the only filter, lists the " +
		"synchronous runs of the last 30 days, without parameters.",
	Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Enum: []any{"upscaling",
		"processing", "sync"}}}}

// StreamParams are the parameters of a WebSocket; the first one is not of that of a task.
var StreamParams = []*huma.Param{
	{Name: "filter", In: "query", Schema: &huma.Schema{Type: huma.TypeArray,
		Description: "What to send; by default all jobs and tasks",
		Items:       &huma.Schema{Type: huma.TypeString, Enum: []any{"upscaling", "processing"}}}},
	{Name: "interval", In: "query", Schema: &huma.Schema{Type: huma.TypeNumber,
		Description: "Seconds between two requests to the platforms, by default 10. Less than 1 counts as 1, more " +
			"than 3600 as 3600"}},
	{Name: "changes", In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean,
		Description: "true: after the state, only changes are sent"}},
	{Name: "parameters", In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean,
		Description: "false: jobs are sent without their parameters"}},
}

var Statuses = []dispatch.Status{dispatch.Accepted, dispatch.Submitted, dispatch.Queued, dispatch.Running,
	dispatch.Finished, dispatch.Canceled, dispatch.Failed, dispatch.Unknown}

const OldestFirst = "created"

const NewestFirst = "-created"

const LongestSearch = 200 // characters of a text that is searched for
