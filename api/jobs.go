package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

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
	// Read returns a job with a status no older than fresh, or the last known one if the platform does not respond.
	Read(ctx context.Context, u dispatch.UserID, id dispatch.JobID, fresh time.Duration) (dispatch.Record, error)
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

const revalidate = "private, no-cache" // for responses that change without a request

type (
	accepted struct {
		Location string `header:"Location" doc:"Address of the job"`
		Body     wire.ProcessingJobSummary
	}
	status[T any] struct {
		CacheControl string `header:"Cache-Control"`
		Body         T
	}
	tagged[T any] struct {
		CacheControl string `header:"Cache-Control"`
		ETag         string `header:"ETag"`
		Body         T
	}
	results struct{ Body *wire.Collection }
	nothing struct{ Body any }
)

func (a *api) createJob(ctx context.Context, in *request) (*accepted, error) {
	body, err := a.readBody(in)
	if err != nil {
		return nil, err
	}
	r, err := a.acceptJob(ctx, in, body)
	if err != nil {
		return nil, err
	}
	return &accepted{a.addressOf(r), a.summary(r)}, nil
}

// acceptJob stores the job that a body asks for.
func (a *api) acceptJob(ctx context.Context, in *request, body []byte) (r dispatch.Record, err error) {
	req, faults := a.parse(ctx, body)
	verifyMailboxes(ctx, req.Notify)
	key, bad := in.key(body)
	if faults = append(faults, bad...); len(faults) > 0 {
		r, err = a.Broker.RepeatedJob(ctx, user(ctx), key, invalid(faults))
	} else {
		r, err = a.Broker.Accept(ctx, user(ctx), req, key)
	}
	if err != nil {
		return r, requestError(err)
	}
	return r, nil
}

func (a *api) addressOf(r dispatch.Record) string {
	return a.pagePath(fmt.Sprintf("/unit_jobs/%d", r.ID))
}

func (a *api) readJob(ctx context.Context, in *request) (*tagged[wire.ProcessingJob], error) {
	id, err := in.jobID()
	if err != nil {
		return nil, err
	}
	w, err := a.await(ctx, in, func() (<-chan struct{}, func()) { return a.Broker.WatchJob(user(ctx), id) })
	if err != nil {
		return nil, err
	}
	defer w.release()
	see := func(ctx context.Context, fresh time.Duration) (dispatch.Record, error) {
		return a.Broker.Read(ctx, user(ctx), id, fresh)
	}
	r, err := awaitChange(ctx, a, w, see, jobTag)
	if err == nil {
		r, err = a.Broker.ForecastJob(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	return &tagged[wire.ProcessingJob]{revalidate, jobTag(r), a.job(r)}, nil
}

// cancelJob cancels a job, which stays in its owner's list.
func (a *api) cancelJob(ctx context.Context, in *request) (*tagged[wire.ProcessingJob], error) {
	id, err := in.jobID()
	if err != nil {
		return nil, err
	}
	r, err := a.Broker.Cancel(ctx, user(ctx), id)
	if err != nil {
		return nil, err
	}
	return &tagged[wire.ProcessingJob]{revalidate, jobTag(r), a.job(r)}, nil
}

func (a *api) readResults(ctx context.Context, in *request) (*results, error) {
	id, err := in.jobID()
	if err != nil {
		return nil, err
	}
	p, err := a.Broker.JobResult(ctx, user(ctx), id)
	if p.Collection == nil || err != nil {
		return &results{}, err
	}
	return &results{&wire.Collection{Raw: withProcessing(p, a.baseURL(in.http.Host(), in.http.TLS() != nil))}},
		nil
}

// definition is the document that defined a job's service.
type definition struct {
	ContentType string `header:"Content-Type"`
	ETag        string `header:"ETag"`
	Body        []byte
}

func (a *api) readDocument(ctx context.Context, in *request) (*definition, error) {
	id, err := in.jobID()
	if err != nil {
		return nil, err
	}
	d, err := a.Broker.Document(ctx, user(ctx), id)
	switch {
	case err != nil:
		return nil, err
	case d == nil:
		return nil, errNoDocument
	}
	return &definition{"application/json", `"` + d.Hash() + `"`, d.Body}, nil
}

func (a *api) deleteJob(ctx context.Context, in *request) (*nothing, error) {
	id, err := in.jobID()
	if err != nil {
		return nil, err
	}
	everywhere, err := in.alsoAtPlatform()
	if err != nil {
		return nil, err
	}
	if everywhere {
		return &nothing{}, a.Broker.Discard(ctx, user(ctx), id)
	}
	return &nothing{}, a.Broker.Delete(ctx, user(ctx), id)
}

// alsoAtPlatform reads the query parameter platform.
func (r *request) alsoAtPlatform() (bool, error) {
	u := r.http.URL()
	var faults []dispatch.Fault
	on := switchOf(u.Query(), "platform", false, &faults)
	if faults != nil {
		return false, &dispatch.Error{Kind: dispatch.Invalid, Op: "api.delete",
			Text: "The query parameter platform is true or false.", Faults: faults}
	}
	return on, nil
}

// listJobs returns the whole list, or the page that the query asks for.
func (a *api) listJobs(ctx context.Context, in *request) (*encodedStatus, error) {
	address := in.http.URL()
	query, u := address.Query(), user(ctx)
	want, faults := filterOf(query)
	q, paged, bad := a.pageOf(u, address.Path, query)
	if faults = append(faults, bad...); len(faults) > 0 {
		return nil, invalid(faults)
	}
	t := topic{user: u, want: want, bare: !switchOf(query, "parameters", true, &faults)}
	switch {
	case len(faults) > 0:
		return nil, invalid(faults)
	case want.sync && q.sifts():
		return nil, invalid([]dispatch.Fault{{Loc: []any{"query", "filter"}, Type: "value_error",
			Msg: "Synchronous runs are not filtered by labels, title, service or time"}})
	case want.sync && q.oldest:
		return nil, invalid([]dispatch.Fault{{Loc: []any{"query", "sort"}, Type: "value_error",
			Msg: "Synchronous runs are listed newest first only"}})
	case want.sync:
		return a.listSyncRuns(ctx, in, query, q)
	case !paged:
		return a.awaitList(ctx, in, t, func() (*listPart, error) { return a.wholeList(t), nil })
	}
	return a.awaitList(ctx, in, t, func() (*listPart, error) { return a.listPart(ctx, t, q) })
}

// awaitList returns what read returns of a list, or a task, with the ETag and the address of the next page, after the
// list has changed or the client's wait has ended.
func (a *api) awaitList(ctx context.Context, in *request, t topic, read func() (*listPart, error)) (*encodedStatus,
	error) {
	w, err := a.await(ctx, in, func() (<-chan struct{}, func()) { return a.Broker.Watch(t.user) })
	if err != nil {
		return nil, err
	}
	defer w.release()
	address := in.http.URL()
	query := address.Query()
	about := maps.Clone(query)
	about.Del("wait")
	see := func(ctx context.Context, fresh time.Duration) (string, error) {
		if err := a.Broker.Freshen(ctx, t.user, t.scope(), fresh); err != nil {
			return "", err
		}
		c, err := a.numberOf(ctx, t)
		return listTag(c, about.Encode()), err
	}
	tag, err := awaitChange(ctx, a, w, see, func(tag string) string { return tag })
	if err != nil {
		return nil, err
	}
	part, err := read()
	if err != nil {
		return nil, err
	}
	return a.encoded(tag, a.next(t.user, address.Path, query, part.more, part.to), part.write), nil
}

// encodedStatus is a response whose body is read from the database while it is written.
type encodedStatus struct {
	CacheControl string `header:"Cache-Control"`
	ContentType  string `header:"Content-Type"`
	ETag         string `header:"ETag"`
	Link         string `header:"Link"`
	Body         func(huma.Context)
}

func (a *api) encoded(tag, next string, write func(context.Context, io.Writer) error) *encodedStatus {
	return &encodedStatus{CacheControl: revalidate, ContentType: "application/json", ETag: tag, Link: next,
		Body: a.body(write)}
}

// filter is which kinds of jobs a list shows.
type filter struct{ upscaling, processing, sync bool }

// filterOf reads the query parameter filter, which may be repeated. Without it, everything is listed but synchronous
// runs, which are listed separately.
func filterOf(query url.Values) (want filter, faults []dispatch.Fault) {
	words := query["filter"]
	want = filter{upscaling: len(words) == 0, processing: len(words) == 0}
	for i, word := range words {
		switch word {
		case "processing":
			want.processing = true
		case "upscaling":
			want.upscaling = true
		case "sync":
			want.sync = true
		default:
			faults = append(faults, dispatch.Fault{Loc: []any{"query", "filter", i}, Type: "enum",
				Msg: "Input should be 'upscaling', 'processing' or 'sync'"})
		}
	}
	if want.sync && len(words) > 1 {
		faults = append(faults, dispatch.Fault{Loc: []any{"query", "filter"}, Type: "value_error",
			Msg: "Synchronous runs are listed separately: give 'sync' as the only filter"})
	}
	return want, faults
}

// health answers 200 with an empty body.
func (a *api) health(ctx context.Context, _ *request) (*struct{}, error) {
	if err := a.Health(ctx); err != nil {
		return nil, unhealthy{err}
	}
	a.databaseAnswered(ctx, nil)
	return nil, nil
}

// requestError turns NotFound into Invalid for requests that create something: the platform does not know what the
// request names, and no job is concerned.
func requestError(err error) error {
	e, ok := errors.AsType[*dispatch.Error](err)
	if !ok || e.Kind != dispatch.NotFound {
		return err
	}
	about := *e
	about.Kind = dispatch.Invalid
	return &about
}

func invalid(faults []dispatch.Fault) error {
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "api", Text: "The request is not valid.", Faults: faults}
}
