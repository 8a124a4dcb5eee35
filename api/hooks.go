package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Hooks stores hooks and their deliveries for their owners. The hooks of other users are NotFound.
type Hooks interface {
	// Hook returns a hook to its owner.
	Hook(ctx context.Context, u dispatch.UserID, id string) (dispatch.Hook, error)
	// Hooks returns the hooks of a job, of a task or, if both are 0, of all jobs of a user, oldest first.
	Hooks(context.Context, dispatch.UserID, dispatch.JobID, dispatch.TaskID) ([]dispatch.Hook, error)
	// DeleteHook deletes a hook with its deliveries.
	DeleteHook(ctx context.Context, u dispatch.UserID, id string) error
	// Deliveries returns the last deliveries of a hook, newest first, n at most.
	Deliveries(ctx context.Context, u dispatch.UserID, id string, n int) ([]dispatch.Delivery, error)
	// TestHook adds a delivery of TestEvent, and releases the hook. LimitReached if the hook had MostTests in
	// TestsWithin.
	TestHook(ctx context.Context, u dispatch.UserID, id string) error
	// SendAgain makes a delivery due that is stored, and releases the hook: it is not Gone, and nothing holds it,
	// unless its last round ended less than ReleasesEvery ago.
	SendAgain(ctx context.Context, u dispatch.UserID, id string, e dispatch.Event) error
}

// mostDeliveries is how many deliveries the log of a hook shows.
const mostDeliveries = 100

var ends = []dispatch.Status{dispatch.Finished, dispatch.Failed, dispatch.Canceled}

var errNoHook = call.Refusal{Status: 404, Code: "HOOK_NOT_FOUND", Message: "There is no such hook or delivery."}

// hookRoutes registers the operations on hooks.
func (a *api) hookRoutes() {
	one := []*huma.Param{openapi.PathParam("hook_id")}
	openapi.Register(a.Document, huma.Operation{OperationID: "create_hook", Method: http.MethodPost, Path: "/hooks",
		Tags:    []string{"hooks"},
		Summary: "Be notified when jobs end",
		Description: "From now on the URL receives a POST for each of your jobs that ends, also for jobs of tasks. " +
			"The body is a CloudEvent (1.0.2, structured mode), signed as Standard Webhooks describes " +
			"(webhook-id, webhook-timestamp, webhook-signature). Answer with a status below 300 within ten seconds. " +
			"Otherwise the delivery is repeated with growing pauses for a day; " +
			"410 ends the hook. A message can arrive more than once, each time with the same webhook-id; the " +
			"messages about one job arrive in their order.",
		DefaultStatus: http.StatusCreated, Responses: a.Errors(401, 422, 501, 503)}, a.createHook)
	openapi.Register(a.Document,
		huma.Operation{OperationID: "list_hooks", Method: http.MethodGet, Path: "/hooks", Tags: []string{"hooks"},
			Summary: "List your hooks", Description: "Those of all your jobs or, with an id, those of one job or task.",
			Parameters: []*huma.Param{
				{Name: "job_id", In: "query", Description: "Only hooks that are notified of this job alone.",
					Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)}},
				{Name: "task_id", In: "query", Description: "Only hooks that are notified of this task alone.",
					Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)}},
			}, Responses: a.Errors(401, 422, 503)}, a.listHooks)
	openapi.Register(a.Document,
		huma.Operation{OperationID: "get_hook", Method: http.MethodGet, Path: "/hooks/{hook_id}",
			Tags:    []string{"hooks"},
			Summary: "Get a hook", Parameters: one, Responses: a.Errors(401, 404, 503)}, a.readHook)
	openapi.Register(a.Document,
		huma.Operation{OperationID: "delete_hook", Method: http.MethodDelete, Path: "/hooks/{hook_id}",
			Tags: []string{"hooks"}, Summary: "Delete a hook", Description: "Waiting deliveries are dropped.",
			DefaultStatus: http.StatusOK, Parameters: one, Responses: openapi.WithNull(a.Errors(401, 404, 503))},
		a.onHook(Hooks.DeleteHook))
	openapi.Register(a.Document,
		huma.Operation{OperationID: "test_hook", Method: http.MethodPost, Path: "/hooks/{hook_id}/test",
			Tags:    []string{"hooks"},
			Summary: "Send a test to a hook",
			Description: "The list of deliveries shows whether it arrived. A hook gets ten tests in ten minutes at " +
				"most.",
			DefaultStatus: http.StatusOK, Parameters: one, Responses: openapi.WithNull(a.Errors(401, 404, 503))},
		a.onHook(Hooks.TestHook))
	openapi.Register(a.Document,
		huma.Operation{OperationID: "list_deliveries", Method: http.MethodGet, Path: "/hooks/{hook_id}/deliveries",
			Tags:        []string{"hooks"},
			Summary:     "List the last deliveries of a hook",
			Description: "The last 100 at most, newest first. A delivery is kept for a week.",
			Parameters:  one, Responses: a.Errors(401, 404, 503)}, a.listDeliveries)
	openapi.Register(a.Document, huma.Operation{OperationID: "send_again", Method: http.MethodPost,
		Path: "/hooks/{hook_id}/deliveries/{delivery_id}/send", Tags: []string{"hooks"},
		Summary: "Send a delivery again", DefaultStatus: http.StatusOK, Parameters: append(slices.Clone(one),
			openapi.PathParam("delivery_id")), Responses: openapi.WithNull(a.Errors(401, 404, 503))}, a.sendAgain)
	a.Takes(a.OpenAPI().Paths["/hooks"].Post, openapi.Body[wire.HookRequest](a.Document))
}

func (a *api) createHook(ctx context.Context, in *openapi.Request) (*openapi.Plain[wire.NewHook], error) {
	body, err := a.ReadBody(in)
	if err != nil {
		return nil, err
	}
	given, f, _ := openapi.ReadInto[wire.HookRequest](a.Document, body)
	asked := []dispatch.Notify{noticeTo(given.URL, eventsOf(f, given))}
	verifyMailboxes(ctx, asked)
	wanted := asked[0]
	if len(f.All) > 0 {
		return nil, call.Invalid(f.Sorted())
	}
	if wanted.Statuses == nil {
		wanted.Statuses = ends
		if wanted.Kind == dispatch.Mail {
			wanted.Statuses = append([]dispatch.Status{dispatch.NeedsOwner}, ends...)
		}
	}
	h, secret, err := a.CreateHook(ctx, call.User(ctx), wanted)
	if dispatch.Is(err, dispatch.Invalid) {
		f.Add("value_error", dispatch.TextFor(err), "url")
		return nil, call.Invalid(f.All)
	}
	return &openapi.Plain[wire.NewHook]{Body: wire.NewHook{Hook: showHook(h), Secret: secret.Reveal()}}, err
}

// noticeTo returns how an address is notified: by mail if it is a mailbox.
func noticeTo(address string, events []dispatch.Status) dispatch.Notify {
	n := dispatch.Notify{Kind: dispatch.Webhook, URL: address, Statuses: events}
	if scheme := "mailto:"; len(address) > len(scheme) && strings.EqualFold(address[:len(scheme)], scheme) {
		n.Kind, n.URL = dispatch.Mail, scheme+address[len(scheme):]
	}
	return n
}

// verifyMailboxes notes which mailboxes are the caller's.
func verifyMailboxes(ctx context.Context, all []dispatch.Notify) {
	for i, n := range all {
		own := call.In(ctx).Caller.VerifiedEmail()
		if n.Kind == dispatch.Mail && own != "" && strings.EqualFold(n.URL, "mailto:"+own) {
			all[i].Verified, all[i].URL = true, "mailto:"+own // as it was verified
		}
	}
}

// eventsOf returns what the events and shares of a request at a place in the body select; nil if it has no events.
func eventsOf(f *openapi.Faults, given wire.HookRequest, at ...any) (all []dispatch.Status) {
	shares := slices.Contains(given.Events, shareEvent)
	for _, word := range given.Events {
		if word != shareEvent {
			all = append(all, dispatch.Status(word))
		}
	}
	if !shares && given.Shares != nil {
		f.Add("value_error", "Shares belong to the event 'task_share', which is not among the events",
			append(slices.Clone(at), "shares")...)
	}
	if shares && given.Shares == nil {
		given.Shares = []int{25, 50, 75}
	}
	for _, n := range given.Shares {
		all = append(all, dispatch.Status(fmt.Sprint(dispatch.SharePrefix, n)))
	}
	return all
}

// shareEvent asks for an event at each of the shares.
const shareEvent = "task_share"

func (a *api) listHooks(ctx context.Context, in *openapi.Request) (*openapi.Plain[[]wire.Hook], error) {
	job, task := openapi.Integer(in.Query(), "job_id", 0), openapi.Integer(in.Query(), "task_id", 0)
	hooks, err := a.Hooks.Hooks(ctx, call.User(ctx), dispatch.JobID(job), dispatch.TaskID(task))
	return &openapi.Plain[[]wire.Hook]{Body: each(hooks, showHook)}, err
}

func (a *api) readHook(ctx context.Context, in *openapi.Request) (*openapi.Plain[wire.Hook], error) {
	h, err := a.Hooks.Hook(ctx, call.User(ctx), in.HTTP.Param("hook_id"))
	return &openapi.Plain[wire.Hook]{Body: showHook(h)}, hookError(err)
}

// onHook returns the handler of an operation on a hook of the caller.
func (a *api) onHook(do func(Hooks, context.Context, dispatch.UserID, string) error) func(context.Context,
	*openapi.Request) (*openapi.Nothing, error) {
	return func(ctx context.Context, in *openapi.Request) (*openapi.Nothing, error) {
		return &openapi.Nothing{}, hookError(do(a.Hooks, ctx, call.User(ctx), in.HTTP.Param("hook_id")))
	}
}

func (a *api) sendAgain(ctx context.Context, in *openapi.Request) (*openapi.Nothing, error) {
	e, err := dispatch.ParseEvent(in.HTTP.Param("delivery_id"))
	if err != nil {
		return nil, errNoHook
	}
	return &openapi.Nothing{}, hookError(a.Hooks.SendAgain(ctx, call.User(ctx), in.HTTP.Param("hook_id"), e))
}

func (a *api) listDeliveries(ctx context.Context, in *openapi.Request) (*openapi.Plain[[]wire.Delivery], error) {
	all, err := a.Hooks.Deliveries(ctx, call.User(ctx), in.HTTP.Param("hook_id"), mostDeliveries)
	return &openapi.Plain[[]wire.Delivery]{Body: each(all, showDelivery)}, hookError(err)
}

func showHook(h dispatch.Hook) wire.Hook {
	shown := wire.Hook{ID: h.ID, Kind: string(h.Kind), URL: h.URL, Events: []string{}, State: "active",
		Job: orNil(int64(h.Job)), Task: orNil(int64(h.Task)), Created: h.Created.UTC()}
	for _, s := range h.Statuses {
		word, share := eventWord(s)
		if share > 0 {
			shown.Shares = append(shown.Shares, share)
		}
		if !slices.Contains(shown.Events, word) {
			shown.Events = append(shown.Events, word)
		}
	}
	switch {
	case h.Gone:
		shown.State = "gone"
	case h.Failures > 0:
		shown.State, shown.NextTry = "failing", live.Known(h.Hold)
	}
	return shown
}

func showDelivery(d dispatch.Delivery) wire.Delivery {
	word, share := eventWord(d.Status)
	why, _ := d.Status.Needed()
	return wire.Delivery{ID: d.Event.String(), Reason: string(why), Event: word, Share: share,
		Job: orNil(int64(d.Job)), Task: orNil(int64(d.Of)), Answer: orNil(d.Answer),
		Happened: d.Happened.UTC(), State: string(d.State), Tries: d.Tries, Tried: live.Known(d.Tried),
		Notice: d.Notice, NextTry: live.Known(d.Due)}
}

// asOneJob are the events of a task, for receivers to which it is one job.
var asOneJob = map[dispatch.Status]string{dispatch.TaskRunning: string(dispatch.Running),
	dispatch.TaskFinished: string(dispatch.Finished), dispatch.TaskFailed: string(dispatch.Failed)}

// eventWord returns the word for an event, and the percentage if it is a share.
func eventWord(s dispatch.Status) (word string, share int) {
	if word, ok := asOneJob[s]; ok {
		return word, 0
	}
	if _, needed := s.Needed(); needed {
		return string(dispatch.NeedsOwner), 0
	}
	percent, ok := strings.CutPrefix(string(s), dispatch.SharePrefix)
	if !ok {
		return string(s), 0
	}
	share, _ = strconv.Atoi(percent) // it was written from a number
	return shareEvent, share
}

// hookError turns NotFound into the response for a missing hook.
func hookError(err error) error {
	if dispatch.Is(err, dispatch.NotFound) {
		return errNoHook
	}
	return err
}
