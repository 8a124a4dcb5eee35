package ogcapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// subscriber contains the URLs that are notified of an execution (subscriber.yaml). The schema of version 1.0 requires
// a member successUrl that it does not describe, and describes successUri: either is read, and none is required. It has
// no place for a secret, so that is an extension.
type subscriber struct {
	Success    string          `json:"successUri"`
	SuccessURL string          `json:"successUrl"`
	InProgress string          `json:"inProgressUri"`
	Failed     string          `json:"failedUri"`
	Secret     dispatch.Secret `json:"eodispatch:secret"`
}

// The events that the URLs of a subscriber are notified of. To a subscriber, a task is one job, too.
var (
	eventsOfJob = subscriberEvents{[]dispatch.Status{dispatch.Finished}, []dispatch.Status{dispatch.Failed,
		dispatch.Canceled}, []dispatch.Status{dispatch.Running}}
	eventsOfTask = subscriberEvents{[]dispatch.Status{dispatch.TaskFinished}, []dispatch.Status{dispatch.TaskFailed},
		[]dispatch.Status{dispatch.TaskRunning}}
)

type subscriberEvents struct{ success, failed, inProgress []dispatch.Status }

const mostURL = 2_000

// parseSubscriber returns who is to be notified of an execution.
func parseSubscriber(text json.RawMessage, events subscriberEvents) (all []dispatch.Notify, err error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	var s subscriber
	if json.Unmarshal(text, &s) != nil {
		return nil, badRequest(
			"subscriber must be an object with successUri, inProgressUri or failedUri, which are URLs, and may have " +
				"eodispatch:secret, a text.")
	}
	for _, one := range []struct {
		url      string
		statuses []dispatch.Status
	}{{cmp.Or(s.Success, s.SuccessURL), events.success}, {s.Failed, events.failed}, {s.InProgress, events.inProgress}} {
		if len(one.url) > mostURL {
			return nil, badRequest("subscriber: a URL has at most %d characters.", mostURL)
		}
		if one.url != "" {
			all = append(all, dispatch.Notify{Kind: dispatch.OGCSubscriber, URL: one.url, Statuses: one.statuses,
				Secret: s.Secret})
		}
	}
	return all, nil
}

// patience is how long results that cannot be read are waited for, before a subscriber gets the status of its job in
// their place. It is shorter than the time for which messages are repeated.
const patience = 12 * time.Hour

// Message writes what a subscriber gets: the results of a job or a task that was successful, in the form that its
// client asked for, otherwise its status. Results of a job are read from the platform when the message is sent, and not
// for each repetition.
func (f *Facade) Message(ctx context.Context, h dispatch.Hook, d dispatch.Delivery) (text []byte, mediaType string,
	err error) {
	write := f.jobMessage
	if d.Of != 0 {
		write = f.taskMessage
	}
	body, err := write(ctx, h, d)
	if err != nil {
		return nil, "", err
	}
	text, err = dispatch.Encode(body)
	return text, mediaJSON, err
}

func (f *Facade) jobMessage(ctx context.Context, h dispatch.Hook, d dispatch.Delivery) (any, error) {
	if d.Status == dispatch.TestEvent {
		return bare(facade.ID{}, accepted, d.Happened, "This is a test."), nil
	}
	r, err := f.jobs.Read(ctx, h.Owner, d.Job, broker.AsKnown)
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return bare(facade.ID{Job: d.Job}, statusOf(d.Status, ""), d.Happened, "The job was deleted."), nil
	case err != nil:
		return nil, err
	}
	in := f.notifiedAt(ctx, h.Owner, r.Request)
	in.repeated = d.Tries > 1
	if d.Status == dispatch.Running && r.Status != dispatch.Running { // it ran when it happened
		r.Status, r.Desired, r.Progress, r.Failure = dispatch.Running, "", nil, ""
	}
	info := f.jobInfo(in, r)
	info.Status = statusOf(d.Status, "") // when it happened
	if d.Status != dispatch.Finished {
		return info, nil
	}
	results, err := f.documentOf(in, r)
	switch {
	case err == nil:
		return results, nil
	case isFinal(err) || time.Since(d.Queued) > patience:
		info.Message = "The job was successful, but its results cannot be sent: " + textOf(err)
		return info, nil
	}
	return nil, err
}

func (f *Facade) taskMessage(ctx context.Context, h dispatch.Hook, d dispatch.Delivery) (any, error) {
	status := map[dispatch.Status]string{dispatch.TaskRunning: running, dispatch.TaskFinished: successful,
		dispatch.TaskFailed: failed}[d.Status]
	t, err := f.jobs.Task(ctx, h.Owner, d.Of)
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return bare(facade.ID{Task: d.Of}, status, d.Happened, "The task was deleted."), nil
	case err != nil:
		return nil, err
	}
	in := f.notifiedAt(ctx, h.Owner, t.Request)
	if status == successful {
		a, err := written(in, 0, document, []outcome{tiles(in, d.Of)})
		return a.Body, err
	}
	info := f.taskInfo(in, t)
	if status == running && t.Counts.AsOneJob().Final() { // it ran when it happened
		info.Finished, info.Progress, info.Message = nil, new(0), ""
		info.Links = slices.DeleteFunc(info.Links, func(l link) bool { return l.Rel == relation("results") })
	}
	// of the event, which does not distinguish a task that failed from one that was canceled
	if status != failed || info.Status != dismissed {
		info.Status = status
	}
	return info, nil
}

// isFinal reports whether results that could not be read never will be.
func isFinal(err error) bool {
	if _, ok := errors.AsType[exception](err); ok { // the job is not successful any more
		return true
	}
	switch dispatch.KindOf(err) {
	// as long as they may still come, Broker.Results says Busy
	case dispatch.Conflict, dispatch.NotFound, dispatch.Unsupported, dispatch.Invalid:
		return true
	}
	return false
}

func textOf(err error) string {
	if e, ok := errors.AsType[exception](err); ok {
		return e.Detail
	}
	return dispatch.TextFor(err)
}

// bare returns the status of a job or a task that cannot be read.
func bare(id facade.ID, status string, happened time.Time, message string) statusInfo {
	info := newInfo(&request{}, id, status)
	info.Message, info.Created, info.Updated, info.Links = message, happened.UTC(), happened.UTC(), []link{}
	return info.complete()
}

// documentOf returns the results of a job as a body: what is not one JSON value stands in a document, because there is
// no header for it.
func (f *Facade) documentOf(in *request, r dispatch.Record) (any, error) {
	d := deliveryOf(in, r.Request)
	all, err := f.outcomes(in, r, d)
	if err != nil {
		return nil, err
	}
	if d.Response == raw && len(all) == 1 && !all[0].link && all[0].Link == "" && isJSON(all[0].Media) {
		return json.RawMessage(all[0].Data), nil
	}
	a, err := written(in, r.ID, document, all)
	if err != nil {
		return nil, err
	}
	return a.Body, nil
}

// notifiedAt returns a request on behalf of the owner of a job whose links lead to the address at which its execution
// was requested.
func (f *Facade) notifiedAt(ctx context.Context, u dispatch.UserID, r dispatch.Request) *request {
	in := &request{Request: (&http.Request{Header: http.Header{}}).WithContext(ctx), user: u, message: true,
		view: view{path: root}}
	in.root = deliveryOf(in, r).Root
	if at, err := url.Parse(in.root); err == nil {
		if before, _, found := strings.Cut(at.EscapedPath(), root); found {
			in.view, _ = f.viewAt(strings.TrimPrefix(at.EscapedPath(), before))
		}
	}
	return in
}
