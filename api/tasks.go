package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

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

// choice reads which jobs of a task a request is about: all, if it has no body, or null. A member that is not known is
// a fault, because without it the request would be about more jobs than its sender meant. An object without members is
// one for the same reason.
func (a *api) choice(in *request) (c dispatch.Choice, err error) {
	given, _, err := optionalBody[wire.JobChoice](a, in)
	for _, id := range given.Jobs {
		c.Jobs = append(c.Jobs, dispatch.JobID(id))
	}
	for _, word := range given.Status {
		c.Statuses = append(c.Statuses, a.statusesFor(string(word))...)
	}
	return c, err
}

// optionalBody reads a body of type T; present is false if there is none, or null.
func optionalBody[T any](a *api, in *request) (v T, present bool, err error) {
	r, _ := humago.Unwrap(in.http)
	if r.ContentLength == 0 {
		return v, false, nil
	}
	body, err := a.readBody(in)
	if err != nil || len(body) == 0 || isNull(bytes.TrimSpace(body)) {
		return v, false, err
	}
	v, f, _ := readInto[T](a, body)
	if len(f.all) > 0 {
		return v, false, invalid(f.sorted())
	}
	return v, true, nil
}

// resumeTask ends the pause of a task, within a new budget if the request has one.
func (a *api) resumeTask(ctx context.Context, in *request) (*status[wire.UpscalingTaskSummary], error) {
	given, present, err := optionalBody[wire.Resumption](a, in)
	if err != nil {
		return nil, err
	}
	var budget *dispatch.Budget
	if present {
		f := &faults{}
		budget = new(budgetIn(f, given.Budget, "budget"))
		if len(f.all) > 0 {
			return nil, invalid(f.all)
		}
	}
	return a.taskChange(func(b taskBroker, ctx context.Context, u dispatch.UserID,
		id dispatch.TaskID) (dispatch.TaskRecord, error) {
		return b.ResumeTask(ctx, u, id, budget)
	})(ctx, in)
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
	given, f, ok := readInto[wire.UpscalingTaskRequest](a, body)
	if !ok {
		return dispatch.Request{}, dispatch.Dimension{}, f.all
	}
	at := []any{"service"}
	switch {
	case len(given.Services) == 0 && given.Service == (wire.ServiceChoice{}):
		f.add("missing", "Field required", "service")
	case len(given.Services) > 0 && given.Service != (wire.ServiceChoice{}):
		f.add("value_error", "Give either service or services", "services")
	case len(given.Services) > 0:
		given.Service, at = given.Services[0], []any{"services", 0}
	}
	r, d := a.jobIn(f, given.BaseJobRequest, given.Service, at...), a.dimensions(f, given)
	var limits wire.TaskOptions
	if json.Unmarshal(given.Options, &limits) == nil {
		budgetIn(f, limits.Budget, "options", "budget")
	}
	if len(given.Services) > 1 {
		r.Homes = a.homes(f, r, given.Services[1:])
	} else {
		r = a.atHomes(ctx, r, a.homesOf(given.BaseJobRequest))
	}
	return r, d, f.sorted()
}

// homes returns the homes of a task whose request names further services.
func (a *api) homes(f *faults, r dispatch.Request, more []wire.ServiceChoice) []dispatch.Home {
	homes := []dispatch.Home{{Label: r.Label, Service: r.Service}}
	for i, s := range more {
		l := r.Label
		if isReference(s) {
			l = "" // whatever its protocol
		}
		service, label := a.service(f, s, l, "services", i+1)
		homes = append(homes, dispatch.Home{Label: label, Service: service})
	}
	return homes
}
