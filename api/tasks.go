package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// taskBroker accepts tasks, reads them and ends them.
type taskBroker interface {
	// AcceptTask stores a task with a job for each value of the dimension, or combination of values of several, or
	// nothing.
	AcceptTask(context.Context, dispatch.UserID, dispatch.Request, dispatch.Dimension, dispatch.Key) (dispatch.TaskRecord,
		error)
	// RepeatedTask returns the task that was stored under a key, also if its request is refused now; refused if there is
	// none.
	RepeatedTask(ctx context.Context, u dispatch.UserID, k dispatch.Key, refused error) (dispatch.TaskRecord, error)
	// Task returns a task as it is stored.
	Task(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRecord, error)
	// ForecastTask returns a task with its forecast, or with what the rest of it needs.
	ForecastTask(context.Context, dispatch.TaskRecord) (dispatch.TaskRecord, error)
	// AnnotateTask changes what its owner wrote on a task.
	AnnotateTask(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.AnnotationChange) (dispatch.TaskRecord, error)
	// DeleteTask cancels the jobs of a task that have not ended, and hides the task with its jobs.
	DeleteTask(context.Context, dispatch.UserID, dispatch.TaskID) error
	// DiscardTask deletes a task, and has its jobs removed from the platform when they have ended.
	DiscardTask(context.Context, dispatch.UserID, dispatch.TaskID) error
	// CancelTask cancels the chosen jobs of a task that have not ended. The task stays visible.
	CancelTask(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.Choice) (dispatch.TaskRecord, error)
	// PauseTask stops submitting the jobs of a task that wait.
	PauseTask(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRecord, error)
	// ResumeTask submits the jobs of a paused task that wait, within a new budget if it is not nil.
	ResumeTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, budget *dispatch.Budget) (dispatch.TaskRecord,
		error)
	// RetryTask submits the chosen failed jobs of a task again.
	RetryTask(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.Choice) (dispatch.TaskRecord, error)
}

type acceptedTask struct {
	Location string `header:"Location" doc:"Address of the task"`
	Body     wire.UpscalingTaskSummary
}

func (a *api) createTask(ctx context.Context, in *request) (*acceptedTask, error) {
	body, err := a.readBody(in)
	if err != nil {
		return nil, err
	}
	req, dimension, faults := a.parseTask(ctx, body)
	verifyMailboxes(ctx, req.Notify)
	key, bad := in.key(body)
	var t dispatch.TaskRecord
	if faults = append(faults, bad...); len(faults) > 0 {
		t, err = a.Broker.RepeatedTask(ctx, user(ctx), key, invalid(faults))
	} else {
		t, err = a.Broker.AcceptTask(ctx, user(ctx), req, dimension, key)
	}
	if err != nil {
		return nil, requestError(err)
	}
	return &acceptedTask{a.pagePath(fmt.Sprintf("/upscale_tasks/%d", t.ID)), a.taskSummary(t)}, nil
}

func (a *api) readTask(ctx context.Context, in *request) (*encodedStatus, error) {
	id, err := in.taskID()
	if err != nil {
		return nil, err
	}
	address := in.http.URL()
	query, u := address.Query(), user(ctx)
	q, paged, faults := a.pageOf(u, address.Path, query)
	q.inTask = true
	t := topic{user: u, task: id, bare: !switchOf(query, "parameters", true, &faults)}
	switch {
	case len(faults) > 0:
		return nil, invalid(faults)
	case query.Has("sort"):
		return nil, invalid([]dispatch.Fault{{Loc: []any{"query", "sort"}, Type: "value_error",
			Msg: "The jobs of a task are listed by number only"}})
	case !paged:
		return a.awaitList(ctx, in, t, func() (*listPart, error) { return a.wholeList(t), nil })
	}
	return a.awaitList(ctx, in, t, func() (*listPart, error) { return a.taskPart(ctx, t, q) })
}

func (a *api) deleteTask(ctx context.Context, in *request) (*nothing, error) {
	id, err := in.taskID()
	if err != nil {
		return nil, err
	}
	everywhere, err := in.alsoAtPlatform()
	if err != nil {
		return nil, err
	}
	if everywhere {
		return &nothing{}, taskError(a.Broker.DiscardTask(ctx, user(ctx), id))
	}
	return &nothing{}, taskError(a.Broker.DeleteTask(ctx, user(ctx), id))
}

// taskChange returns the operation that changes a task, which stays in its owner's list.
func (a *api) taskChange(change func(taskBroker, context.Context, dispatch.UserID,
	dispatch.TaskID) (dispatch.TaskRecord, error)) func(context.Context, *request) (*status[wire.UpscalingTaskSummary],
	error) {
	return func(ctx context.Context, in *request) (*status[wire.UpscalingTaskSummary], error) {
		id, err := in.taskID()
		if err != nil {
			return nil, err
		}
		t, err := change(a.Broker, ctx, user(ctx), id)
		if err != nil {
			return nil, taskError(err)
		}
		return &status[wire.UpscalingTaskSummary]{CacheControl: revalidate, Body: a.taskSummary(t)}, nil
	}
}

// jobsChange returns the operation that changes the jobs of a task that the request chooses.
func (a *api) jobsChange(change func(taskBroker, context.Context, dispatch.UserID, dispatch.TaskID,
	dispatch.Choice) (dispatch.TaskRecord, error)) func(context.Context, *request) (*status[wire.UpscalingTaskSummary],
	error) {
	return func(ctx context.Context, in *request) (*status[wire.UpscalingTaskSummary], error) {
		c, err := a.choice(in)
		if err != nil {
			return nil, err
		}
		return a.taskChange(func(b taskBroker, ctx context.Context, u dispatch.UserID,
			id dispatch.TaskID) (dispatch.TaskRecord, error) {
			return change(b, ctx, u, id, c)
		})(ctx, in)
	}
}

// mostChosen is how many jobs one request can name.
const mostChosen = 1000

// choice reads which jobs of a task a request is about: all, if it has no body, or null. A member that is not known is
// a fault, because without it the request would be about more jobs than its sender meant. An object without members is
// one for the same reason.
func (a *api) choice(in *request) (c dispatch.Choice, err error) {
	f, faults, err := a.optionalBody(in, "jobs", "status")
	if f == nil || err != nil {
		return c, err
	}
	if f.members["jobs"] != nil {
		c.Jobs = f.jobs()
	}
	if f.members["status"] != nil {
		c.Statuses = a.statusesIn(f)
	}
	if faults = append(faults, *f.faults...); len(faults) > 0 {
		return c, invalid(faults)
	}
	return c, nil
}

// optionalBody returns the object in the body of a request, which has no other members than the named ones, and at
// least one; nil if there is no body.
func (a *api) optionalBody(in *request, names ...string) (*form, []dispatch.Fault, error) {
	r, _ := humago.Unwrap(in.http)
	if r.ContentLength == 0 {
		return nil, nil, nil
	}
	body, err := a.readBody(in)
	if err != nil || len(body) == 0 || string(bytes.TrimSpace(body)) == "null" {
		return nil, nil, err
	}
	f, faults := a.openObject(body)
	if f == nil {
		return nil, nil, invalid(faults)
	}
	if len(f.members) == 0 {
		f.faultAt("too_short", "Dictionary should have at least 1 item")
	}
	f.only(names...)
	return f, faults, nil
}

// only faults the members that have none of the names.
func (f *form) only(names ...string) {
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		if !slices.Contains(names, name) {
			f.fault(name, "extra_forbidden", "Extra inputs are not permitted")
		}
	}
}

// resumeTask ends the pause of a task, within a new budget if the request has one.
func (a *api) resumeTask(ctx context.Context, in *request) (*status[wire.UpscalingTaskSummary], error) {
	f, faults, err := a.optionalBody(in, "budget")
	if err != nil {
		return nil, err
	}
	var budget *dispatch.Budget
	if f != nil {
		budget = f.newBudget()
		if faults = append(faults, *f.faults...); len(faults) > 0 {
			return nil, invalid(faults)
		}
	}
	return a.taskChange(func(b taskBroker, ctx context.Context, u dispatch.UserID,
		id dispatch.TaskID) (dispatch.TaskRecord, error) {
		return b.ResumeTask(ctx, u, id, budget)
	})(ctx, in)
}

// limits checks the options that only tasks have.
func (f *form) limits(options json.RawMessage) {
	own := &form{at: append(append([]any{}, f.at...), "options"), faults: f.faults}
	if json.Unmarshal(options, &own.members) == nil {
		own.budget()
		own.trial()
	}
}

// newBudget returns the member budget: the zero value for null; nil if it is absent.
func (f *form) newBudget() *dispatch.Budget {
	raw := f.members["budget"]
	switch {
	case raw == nil:
		return nil
	case raw[0] == 'n':
		return &dispatch.Budget{}
	}
	f.budget()
	b, _ := dispatch.ParseBudget(raw)
	return &b
}

// jobs returns the ids in the member jobs.
func (f *form) jobs() (ids []dispatch.JobID) {
	for i, raw := range f.list("jobs", mostChosen) {
		var id dispatch.JobID
		if json.Unmarshal(raw, &id) != nil {
			f.faultAt("int_type", "Input should be a valid integer", "jobs", i)
		}
		ids = append(ids, id)
	}
	return ids
}

// statusesIn returns the statuses that the words in the member status stand for.
func (a *api) statusesIn(f *form) (all []dispatch.Status) {
	for i, raw := range f.list("status", len(statuses)) {
		var word string
		if json.Unmarshal(raw, &word) != nil || !slices.Contains(statuses, dispatch.Status(word)) {
			f.faultAt("enum", "Input should be one of the statuses", "status", i)
		}
		all = append(all, a.statusesFor(word)...)
	}
	return all
}

var errNoTask = refusal{status: http.StatusNotFound, code: "TASK_NOT_FOUND", message: "There is no such task."}

// taskError turns NotFound into the response for a missing task.
func taskError(err error) error {
	if e, ok := errors.AsType[*dispatch.Error](err); ok && e.Kind == dispatch.NotFound {
		return errNoTask
	}
	return err
}

// parseTask reads an UpscalingTaskRequest and returns all its faults.
func (a *api) parseTask(ctx context.Context, body []byte) (dispatch.Request, dispatch.Dimension, []dispatch.Fault) {
	f, faults := a.openObject(body)
	if f == nil {
		return dispatch.Request{}, dispatch.Dimension{}, faults
	}
	opened, more := a.openServices(f)
	r, d := a.jobIn(f), a.dimensions(f)
	f.limits(r.Options)
	if len(more) > 0 {
		r.Homes = a.homes(f, r, more)
	} else {
		r = a.atHomes(ctx, r, a.homesOf(f))
	}
	return r, d, append(faults, inServices(*f.faults, opened)...)
}

// inServices returns the faults of the member service as those of the first element of services, if that stands for it.
func inServices(faults []dispatch.Fault, opened bool) []dispatch.Fault {
	for i, at := range faults {
		if opened && len(at.Loc) > 1 && at.Loc[1] == "service" {
			faults[i].Loc = slices.Concat([]any{"body", "services", 0}, at.Loc[2:])
		}
	}
	return faults
}

// openServices reads the member services, whose first element stands for the member service, and returns the others.
func (a *api) openServices(f *form) (opened bool, more []json.RawMessage) {
	if f.members["services"] == nil {
		return false, nil
	}
	if f.members["service"] != nil {
		f.fault("services", "value_error", "Give either service or services")
		return false, nil
	}
	all := f.list("services", dispatch.MostHomes)
	if len(all) == 0 {
		return false, nil
	}
	f.members["service"] = all[0]
	return true, all[1:]
}

// homes returns the homes of a task whose request names further services.
func (a *api) homes(f *form, r dispatch.Request, more []json.RawMessage) []dispatch.Home {
	homes := []dispatch.Home{{Label: r.Label, Service: r.Service}}
	for i, raw := range more {
		s := &form{at: append(append([]any{}, f.at...), "services", i+1), faults: f.faults}
		if raw[0] != '{' || json.Unmarshal(raw, &s.members) != nil {
			s.faultAt("model_attributes_type", "Input should be a valid dictionary or object to extract fields from")
			continue
		}
		l := r.Label
		if s.isReference() {
			l = "" // whatever its protocol
		}
		service, label := a.serviceIn(f, s, l)
		homes = append(homes, dispatch.Home{Label: label, Service: service})
	}
	return homes
}

// list returns the elements of a member that must be an array of 1 to limit elements.
func (f *form) list(name string, limit int) (values []json.RawMessage) {
	raw := f.required(name)
	switch {
	case raw == nil:
	case raw[0] != '[' || json.Unmarshal(raw, &values) != nil:
		f.fault(name, "list_type", "Input should be a valid list")
	case len(values) == 0:
		f.fault(name, "too_short", "List should have at least 1 item")
	case len(values) > limit:
		f.fault(name, "too_long", fmt.Sprintf("List should have at most %d items, not %d", limit, len(values)))
	}
	return values
}
