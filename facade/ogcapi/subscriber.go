package ogcapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// subscriber says where a client is told about its execution (subscriber.yaml). The schema of version 1.0 requires a member successUrl that it
// does not describe, and describes successUri: either is read, and none is required.
type subscriber struct {
	Success    string `json:"successUri"`
	SuccessURL string `json:"successUrl"`
	InProgress string `json:"inProgressUri"`
	Failed     string `json:"failedUri"`
}

// parseSubscriber returns who is to be told about an execution.
func parseSubscriber(text json.RawMessage) (told []dispatch.Notify, err error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	var s subscriber
	if json.Unmarshal(text, &s) != nil {
		return nil, badRequest("subscriber must be an object with successUri, inProgressUri or failedUri, which are URLs.")
	}
	for _, one := range []struct {
		url string
		of  []dispatch.Status
	}{
		{cmp.Or(s.Success, s.SuccessURL), []dispatch.Status{dispatch.Finished}},
		{s.Failed, []dispatch.Status{dispatch.Failed, dispatch.Canceled}},
		{s.InProgress, []dispatch.Status{dispatch.Running}},
	} {
		if one.url != "" {
			told = append(told, dispatch.Notify{Kind: dispatch.OGCSubscriber, URL: one.url, Statuses: one.of})
		}
	}
	return told, nil
}

// patience is how long results that cannot be read are waited for, before a subscriber gets the status of its job in their place. It is shorter
// than the time for which messages are repeated.
const patience = 12 * time.Hour

// Message writes what a subscriber gets: the results of a job that was successful, in the form that its client asked for, otherwise its status.
// Results are read from the platform when the message is sent.
func (f *Facade) Message(ctx context.Context, h dispatch.Hook, d dispatch.Delivery) (text []byte, mediaType string, err error) {
	body, err := f.jobMessage(ctx, h, d)
	if err != nil {
		return nil, "", err
	}
	text, err = dispatch.Encode(body)
	return text, mediaJSON, err
}

func (f *Facade) jobMessage(ctx context.Context, h dispatch.Hook, d dispatch.Delivery) (any, error) {
	r, err := f.Broker.Read(ctx, h.Owner, d.Job, dispatch.AsKnown)
	switch {
	case dispatch.Is(err, dispatch.NotFound):
		return deleted(strconv.FormatInt(int64(d.Job), 10), statusOf(d.Status, ""), d.Happened, "The job was deleted."), nil
	case err != nil:
		return nil, err
	}
	in := toldAt(ctx, h.Owner, deliveryOf(r.Request).Root)
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

// isFinal reports whether results that could not be read never will be.
func isFinal(err error) bool {
	if _, is := errors.AsType[exception](err); is { // the job is not successful any more
		return true
	}
	switch dispatch.KindOf(err) {
	case dispatch.Conflict, dispatch.NotFound, dispatch.Unsupported, dispatch.Invalid: // as long as they may still come, Broker.Results says Busy
		return true
	}
	return false
}

func textOf(err error) string {
	if e, is := errors.AsType[exception](err); is {
		return e.Detail
	}
	return dispatch.TextFor(err)
}

// deleted returns what is known of a job or a task that its owner deleted before the message about it was sent.
func deleted(id, status string, happened time.Time, message string) statusInfo {
	return statusInfo{Type: "process", JobID: id, Status: status, Message: message, Created: happened.UTC(), Updated: happened.UTC(), Links: []link{}}.complete()
}

// documentOf returns the results of a job as a body: a link stands in a document, because there is no header for it.
func (f *Facade) documentOf(in *request, r dispatch.Record) (any, error) {
	d := deliveryOf(r.Request)
	if d.Transmission == byReference {
		d.Response = document
	}
	a, err := f.resultsAs(in, r, d)
	if err != nil {
		return nil, err
	}
	return a.body, nil
}

// toldAt returns a request on behalf of a user whose links lead to the address at which the execution was requested.
func toldAt(ctx context.Context, u dispatch.UserID, root string) *request {
	return &request{Request: (&http.Request{Header: http.Header{}}).WithContext(ctx), root: root, user: u}
}
