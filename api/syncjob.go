package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/items"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
)

// usualWait is how long a synchronous request waits for a job if its client does not say.
const usualWait = 30 * time.Second

// runJob submits a request as a job, and answers with its results if it finishes within the wait after that. Otherwise
// the job goes on.
func (a *api) runJob(ctx context.Context, in *openapi.Request, body []byte, wait time.Duration) (*huma.StreamResponse,
	error) {
	job, err := a.acceptJob(ctx, in, body)
	if err != nil {
		return nil, err
	}
	_, w := humago.Unwrap(in.HTTP)
	defer renewDeadline(w)
	job = a.AwaitEnd(ctx, job, wait)
	header := map[string]string{"Location": a.addressOf(job), "Preference-Applied": fmt.Sprintf("wait=%d",
		int(wait/time.Second))}
	switch job.Status {
	case dispatch.Failed:
		return nil, call.Refusal{Status: http.StatusBadGateway, Code: "PLATFORM_ERROR",
			Message: fmt.Sprintf("Job %d failed: %s", job.ID, job.Failure), Header: header}
	case dispatch.Canceled:
		return nil,
			call.Refusal{Status: http.StatusConflict, Code: "CONFLICT", Message: fmt.Sprintf("Job %d was canceled.",
				job.ID), Header: header}
	case dispatch.Finished:
		if p, err := a.Broker.JobResult(ctx, call.User(ctx), job.ID); err == nil && p.Collection != nil {
			return a.Respond(http.StatusOK, header, items.WithProcessing(p,
				a.BaseURL(in.HTTP.Host(), in.HTTP.TLS() != nil), a.Files))
		} // the job has results, and its client learns where: after an error it would run it again
	}
	return a.Respond(http.StatusAccepted, header, a.Summary(job))
}
