package api

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// taskBroker accepts tasks, reads them and ends them.
type taskBroker interface {
	// AcceptTask stores a task with a job for each value of the dimension, or combination of values of several, or
	// nothing.
	AcceptTask(context.Context, dispatch.UserID, dispatch.Request, dispatch.Dimension,
		dispatch.Key) (dispatch.TaskRecord, error)
	// RepeatedTask returns the task that was stored under a key, also if its request is refused now; refused if there
	// is none.
	RepeatedTask(ctx context.Context, u dispatch.UserID, k dispatch.Key, refused error) (dispatch.TaskRecord, error)
	// AnnotateTask changes what its owner wrote on a task.
	AnnotateTask(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.AnnotationChange) (dispatch.TaskRecord,
		error)
	// DeleteTask cancels the jobs of a task that have not ended, and hides the task with its jobs.
	DeleteTask(context.Context, dispatch.UserID, dispatch.TaskID) error
	// DiscardTask deletes a task, and has its jobs removed from the platform when they have ended.
	DiscardTask(context.Context, dispatch.UserID, dispatch.TaskID) error
	// CancelTask cancels the chosen jobs of a task that have not ended. The task stays visible.
	CancelTask(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.Choice) (dispatch.TaskRecord, error)
	// PauseTask stops submitting the jobs of a task that wait.
	PauseTask(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRecord, error)
	// ResumeTask submits the jobs of a paused task that wait, within a new budget if it is not nil.
	ResumeTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
		budget *dispatch.Budget) (dispatch.TaskRecord, error)
	// RetryTask submits the chosen failed jobs of a task again.
	RetryTask(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.Choice) (dispatch.TaskRecord, error)
}

type acceptedTask struct {
	Location string `header:"Location" doc:"Address of the task"`
	Body     wire.UpscalingTaskSummary
}

func (a *api) createTask(ctx context.Context, in *openapi.Request) (*acceptedTask, error) {
	body, err := a.ReadBody(in)
	if err != nil {
		return nil, err
	}
	req, dimension, faults := a.parseTask(ctx, body)
	verifyMailboxes(ctx, req.Notify)
	key, bad := in.Key(body)
	var t dispatch.TaskRecord
	if faults = append(faults, bad...); len(faults) > 0 {
		t, err = a.Broker.RepeatedTask(ctx, call.User(ctx), key, call.Invalid(faults))
	} else {
		t, err = a.Broker.AcceptTask(ctx, call.User(ctx), req, dimension, key)
	}
	if err != nil {
		return nil, call.RequestError(err)
	}
	return &acceptedTask{a.PagePath(fmt.Sprintf("/upscale_tasks/%d", t.ID)), a.TaskSummary(t)}, nil
}

func (a *api) readTask(ctx context.Context, in *openapi.Request, id dispatch.TaskID) (*live.EncodedStatus, error) {
	address := in.HTTP.URL()
	query, u := address.Query(), call.User(ctx)
	q, paged, faults := a.PageOf(u, address.Path, query)
	q.InTask = true
	t := live.Topic{User: u, Task: id, Bare: !openapi.Switch(query, "parameters", true)}
	switch {
	case len(faults) > 0:
		return nil, call.Invalid(faults)
	case query.Has("sort"):
		return nil, call.InvalidQuery("sort", "The jobs of a task are listed by number only")
	case !paged:
		return a.AwaitList(ctx, in, t, func() (*live.ListPart, error) { return a.WholeList(t), nil })
	}
	return a.AwaitList(ctx, in, t, func() (*live.ListPart, error) { return a.TaskPart(ctx, t, q) })
}

func (a *api) deleteTask(ctx context.Context, in *openapi.Request, id dispatch.TaskID) (*openapi.Nothing, error) {
	if openapi.Switch(in.Query(), "platform", false) {
		return &openapi.Nothing{}, a.Broker.DiscardTask(ctx, call.User(ctx), id)
	}
	return &openapi.Nothing{}, a.Broker.DeleteTask(ctx, call.User(ctx), id)
}

// taskSummary is the response to a change of a task, which stays in its owner's list.
type taskSummary = openapi.Status[wire.UpscalingTaskSummary]

func (a *api) changed(t dispatch.TaskRecord, err error) (*taskSummary, error) {
	if err != nil {
		return nil, err
	}
	return openapi.StatusOf(a.TaskSummary(t)), nil
}

func (a *api) pauseTask(ctx context.Context, _ *openapi.Request, id dispatch.TaskID) (*taskSummary, error) {
	return a.changed(a.Broker.PauseTask(ctx, call.User(ctx), id))
}

func (a *api) cancelTask(ctx context.Context, in *openapi.Request, id dispatch.TaskID) (*taskSummary, error) {
	c, err := a.choice(in)
	if err != nil {
		return nil, err
	}
	return a.changed(a.Broker.CancelTask(ctx, call.User(ctx), id, c))
}

func (a *api) retryTask(ctx context.Context, in *openapi.Request, id dispatch.TaskID) (*taskSummary, error) {
	c, err := a.choice(in)
	if err != nil {
		return nil, err
	}
	return a.changed(a.Broker.RetryTask(ctx, call.User(ctx), id, c))
}

// freshTask returns a task whose status is as fresh as that of its jobs in a list.
func (a *api) freshTask(ctx context.Context, id dispatch.TaskID) (t dispatch.TaskRecord, err error) {
	if err = a.Broker.Freshen(ctx, call.User(ctx), dispatch.Scope{Task: id}, a.Freshness); err != nil {
		return t, err
	}
	return a.Broker.Task(ctx, call.User(ctx), id)
}

// choice reads which jobs of a task a request is about: all, if it has no body, or null. A member that is not known is
// a fault, because without it the request would be about more jobs than its sender meant. An object without members is
// one for the same reason.
func (a *api) choice(in *openapi.Request) (c dispatch.Choice, err error) {
	given, _, err := openapi.OptionalBody[wire.JobChoice](a.Document, in)
	for _, id := range given.Jobs {
		c.Jobs = append(c.Jobs, dispatch.JobID(id))
	}
	for _, word := range given.Status {
		c.Statuses = append(c.Statuses, a.StatusesFor(string(word))...)
	}
	return c, err
}

// resumeTask ends the pause of a task, within a new budget if the request has one.
func (a *api) resumeTask(ctx context.Context, in *openapi.Request, id dispatch.TaskID) (*taskSummary, error) {
	given, present, err := openapi.OptionalBody[wire.Resumption](a.Document, in)
	if err != nil {
		return nil, err
	}
	var budget *dispatch.Budget
	if present {
		f := &openapi.Faults{}
		budget = new(budgetIn(f, given.Budget, "budget"))
		if len(f.All) > 0 {
			return nil, call.Invalid(f.All)
		}
	}
	return a.changed(a.Broker.ResumeTask(ctx, call.User(ctx), id, budget))
}

// parseTask reads an UpscalingTaskRequest and returns all its faults.
func (a *api) parseTask(ctx context.Context, body []byte) (dispatch.Request, dispatch.Dimension, []dispatch.Fault) {
	given, f, ok := openapi.ReadInto[wire.UpscalingTaskRequest](a.Document, body)
	if !ok {
		return dispatch.Request{}, dispatch.Dimension{}, f.All
	}
	at := []any{"service"}
	switch {
	case len(given.Services) == 0 && given.Service == (wire.ServiceChoice{}):
		f.Add("missing", "Field required", "service")
	case len(given.Services) > 0 && given.Service != (wire.ServiceChoice{}):
		f.Add("value_error", "Give either service or services", "services")
	case len(given.Services) > 0:
		given.Service, at = given.Services[0], []any{"services", 0}
	}
	r, d := a.jobIn(f, given.BaseJobRequest, given.Service, at...), a.dimensions(f, given)
	var limits wire.TaskOptions
	if json.Unmarshal(given.Options, &limits) == nil {
		budgetIn(f, limits.Budget, "options", "budget")
	}
	if len(given.Services) > 1 {
		r.Placements = a.placements(f, r, given.Services[1:])
	} else {
		r = a.atPlacements(ctx, r, a.placementsOf(given.BaseJobRequest))
	}
	return r, d, f.Sorted()
}

// placements returns the placements of a task whose request names further services.
func (a *api) placements(f *openapi.Faults, r dispatch.Request, more []wire.ServiceChoice) []dispatch.Placement {
	placements := []dispatch.Placement{{Label: r.Label, Service: r.Service}}
	for i, s := range more {
		l := r.Label
		if isReference(s) {
			l = "" // whatever its protocol
		}
		service, label := a.service(f, s, l, "services", i+1)
		placements = append(placements, dispatch.Placement{Label: label, Service: service})
	}
	return placements
}
