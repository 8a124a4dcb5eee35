package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/items"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// jobBroker accepts jobs, reads them and ends them.
type jobBroker interface {
	// Accept stores a job and waits a bounded time until its platform has accepted or refused it.
	Accept(context.Context, dispatch.UserID, dispatch.Request, dispatch.Key) (dispatch.Record, error)
	// RepeatedJob returns the job that was stored under a key, also if its request is refused now; refused if there is
	// none.
	RepeatedJob(ctx context.Context, u dispatch.UserID, k dispatch.Key, refused error) (dispatch.Record, error)
	// ForecastJob returns a job with its forecast.
	ForecastJob(context.Context, dispatch.Record) (dispatch.Record, error)
	// Cancel cancels a job, which stays visible.
	Cancel(context.Context, dispatch.UserID, dispatch.JobID) (dispatch.Record, error)
	// AnnotateJob changes what its owner wrote on a job.
	AnnotateJob(context.Context, dispatch.UserID, dispatch.JobID, dispatch.AnnotationChange) (dispatch.Record, error)
	// Delete cancels a job that has not ended, and hides it.
	Delete(context.Context, dispatch.UserID, dispatch.JobID) error
	// Discard deletes a job, and has it removed from its platform when it has ended.
	Discard(context.Context, dispatch.UserID, dispatch.JobID) error
	// JobResult returns a job with the STAC Collection of its results; no Collection and no error while there is none.
	JobResult(context.Context, dispatch.UserID, dispatch.JobID) (broker.JobResult, error)
	// Document returns the document that defined a job's service when the job was accepted; nil if none was stored.
	Document(context.Context, dispatch.UserID, dispatch.JobID) (*dispatch.Document, error)
}

type accepted struct {
	Location string `header:"Location" doc:"Address of the job"`
	Body     wire.ProcessingJobSummary
}

func (a *api) createJob(ctx context.Context, in *openapi.Request) (*accepted, error) {
	body, err := a.ReadBody(in)
	if err != nil {
		return nil, err
	}
	r, err := a.acceptJob(ctx, in, body)
	if err != nil {
		return nil, err
	}
	return &accepted{a.addressOf(r), a.Summary(r)}, nil
}

// acceptJob stores the job that a body asks for.
func (a *api) acceptJob(ctx context.Context, in *openapi.Request, body []byte) (r dispatch.Record, err error) {
	req, faults := a.parse(ctx, body)
	verifyMailboxes(ctx, req.Notify)
	key, bad := in.Key(body)
	if faults = append(faults, bad...); len(faults) > 0 {
		r, err = a.Broker.RepeatedJob(ctx, call.User(ctx), key, call.Invalid(faults))
	} else {
		r, err = a.Broker.Accept(ctx, call.User(ctx), req, key)
	}
	if err != nil {
		return r, call.RequestError(err)
	}
	return r, nil
}

func (a *api) addressOf(r dispatch.Record) string {
	return a.PagePath(fmt.Sprintf("/unit_jobs/%d", r.ID))
}

func (a *api) readJob(ctx context.Context, in *openapi.Request,
	id dispatch.JobID) (*openapi.Tagged[wire.ProcessingJob], error) {
	w, err := a.Await(ctx, in, func() (<-chan struct{}, func()) { return a.Broker.WatchJob(call.User(ctx), id) })
	if err != nil {
		return nil, err
	}
	defer w.Release()
	see := func(ctx context.Context, fresh time.Duration) (dispatch.Record, string, error) {
		r, err := a.Broker.Read(ctx, call.User(ctx), id, fresh)
		return r, live.JobTag(r), err
	}
	r, tag, err := live.AwaitChange(ctx, a.Lists, w, see, func(r dispatch.Record) bool { return r.Status.Final() })
	if err == nil {
		r, err = a.Broker.ForecastJob(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	return openapi.TaggedOf(tag, a.Job(r)), nil
}

// tagged returns the response with a job, and its ETag.
func (a *api) tagged(r dispatch.Record, err error) (*openapi.Tagged[wire.ProcessingJob], error) {
	if err != nil {
		return nil, err
	}
	return openapi.TaggedOf(live.JobTag(r), a.Job(r)), nil
}

// cancelJob cancels a job, which stays in its owner's list.
func (a *api) cancelJob(ctx context.Context, in *openapi.Request,
	id dispatch.JobID) (*openapi.Tagged[wire.ProcessingJob], error) {
	return a.tagged(a.Broker.Cancel(ctx, call.User(ctx), id))
}

func (a *api) readResults(ctx context.Context, in *openapi.Request,
	id dispatch.JobID) (*openapi.Plain[*wire.Collection], error) {
	p, err := a.Broker.JobResult(ctx, call.User(ctx), id)
	if p.Collection == nil || err != nil {
		return &openapi.Plain[*wire.Collection]{}, err
	}
	c := items.WithProcessing(p, a.BaseURL(in.HTTP.Host(), in.HTTP.TLS() != nil), a.Files)
	return &openapi.Plain[*wire.Collection]{Body: &wire.Collection{Raw: c}}, nil
}

// definition is the document that defined a job's service.
type definition struct {
	ContentType string `header:"Content-Type"`
	ETag        string `header:"ETag"`
	Body        []byte
}

func (a *api) readDocument(ctx context.Context, in *openapi.Request, id dispatch.JobID) (*definition, error) {
	d, err := a.Broker.Document(ctx, call.User(ctx), id)
	switch {
	case err != nil:
		return nil, err
	case d == nil:
		return nil, errNoDocument
	}
	return &definition{"application/json", `"` + d.Hash() + `"`, d.Body}, nil
}

func (a *api) deleteJob(ctx context.Context, in *openapi.Request, id dispatch.JobID) (*openapi.Nothing, error) {
	if openapi.Switch(in.Query(), "platform", false) {
		return &openapi.Nothing{}, a.Broker.Discard(ctx, call.User(ctx), id)
	}
	return &openapi.Nothing{}, a.Broker.Delete(ctx, call.User(ctx), id)
}

// listJobs returns the whole list, or the page that the query asks for.
func (a *api) listJobs(ctx context.Context, in *openapi.Request) (*live.EncodedStatus, error) {
	address := in.HTTP.URL()
	query, u := address.Query(), call.User(ctx)
	want, faults := live.FilterOf(query)
	q, paged, bad := a.PageOf(u, address.Path, query)
	if faults = append(faults, bad...); len(faults) > 0 {
		return nil, call.Invalid(faults)
	}
	t := live.Topic{User: u, Want: want, Bare: !openapi.Switch(query, "parameters", true)}
	switch {
	case want.Sync && (q.Filtered() || query.Has("labels")):
		return nil, call.InvalidQuery("filter",
			"Synchronous runs are not filtered by labels, title, service or time")
	case want.Sync && q.Oldest:
		return nil, call.InvalidQuery("sort", "Synchronous runs are listed newest first only")
	case want.Sync:
		return a.ListSyncRuns(ctx, in, query, q)
	case !paged:
		return a.AwaitList(ctx, in, t, func() (*live.ListPart, error) { return a.WholeList(t), nil })
	}
	return a.AwaitList(ctx, in, t, func() (*live.ListPart, error) { return a.ListPart(ctx, t, q) })
}

// health answers 200 with an empty body.
func (a *api) health(ctx context.Context, _ *openapi.Request) (*struct{}, error) {
	if err := a.Health(ctx); err != nil {
		return nil, call.Unhealthy(err)
	}
	a.DatabaseAnswered(ctx, nil)
	return nil, nil
}

var errNoDocument = call.Refusal{Status: http.StatusNotFound, Code: "DOCUMENT_NOT_FOUND",
	Message: "No document is stored for this job. Its platform stores the service itself, or the document could not " +
		"be read when the job was accepted."}
