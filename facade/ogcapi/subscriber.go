package ogcapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

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

// Message writes what a subscriber gets: the results of a job that was successful, in the form that its client asked for, otherwise its status.
// Results are read from the platform when the message is sent.
func (f *Facade) Message(ctx context.Context, h dispatch.Hook, d dispatch.Delivery) (text []byte, mediaType string, err error) {
	r, err := f.Broker.Read(ctx, h.Owner, d.Job, dispatch.AsKnown)
	if err != nil && !dispatch.Is(err, dispatch.NotFound) {
		return nil, "", err
	}
	var body any
	switch in := toldAt(ctx, h.Owner, deliveryOf(r.Request).Root); {
	case err != nil: // deleted since
		body = statusInfo{Type: "process", JobID: strconv.FormatInt(int64(d.Job), 10), Status: statusOf(d.Status, ""), Message: "The job was deleted.",
			Created: d.Happened.UTC(), Updated: d.Happened.UTC(), Links: []link{}}.complete()
	case d.Status == dispatch.Finished:
		if body, err = f.documentOf(in, r); err != nil {
			return nil, "", err
		}
	default:
		info := f.jobInfo(in, r)
		info.Status = statusOf(d.Status, "") // when it happened
		body = info
	}
	text, err = dispatch.Encode(body)
	return text, mediaJSON, err
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
