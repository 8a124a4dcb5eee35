package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/dispatch"
)

// usualWait is how long a synchronous request waits for a job if its client does not say.
const usualWait = 30 * time.Second

// runJob submits a request as a job, and answers with its results if it finishes within the wait after that. Otherwise
// the job goes on.
func (a *api) runJob(ctx context.Context, in *request, body []byte, wait time.Duration) (*huma.StreamResponse, error) {
	job, err := a.acceptJob(ctx, in, body)
	if err != nil {
		return nil, err
	}
	job = a.awaitEnd(ctx, job, wait)
	header := map[string]string{"Location": a.addressOf(job), "Preference-Applied": fmt.Sprintf("wait=%d",
		int(wait/time.Second))}
	switch job.Status {
	case dispatch.Failed:
		return nil, refusal{status: http.StatusBadGateway, code: "PLATFORM_ERROR", message: fmt.Sprintf("Job %d failed: %s",
			job.ID, job.Failure), header: header}
	case dispatch.Canceled:
		return nil, refusal{status: http.StatusConflict, code: "CONFLICT", message: fmt.Sprintf("Job %d was canceled.",
			job.ID), header: header}
	case dispatch.Finished:
		if p, err := a.Broker.JobResult(ctx, user(ctx), job.ID); err == nil && p.Collection != nil {
			return a.respond(http.StatusOK, header, withProcessing(p, a.baseURL(in.http.Host(), in.http.TLS() != nil)))
		} // the job has results, and its client learns where: after an error it would run it again
	}
	return a.respond(http.StatusAccepted, header, a.summary(job))
}

// awaitEnd returns a job when it has ended, or as it was last read when the wait is over, the service stops, or the job
// cannot be read. A user with too many requests that wait does not wait.
func (a *api) awaitEnd(ctx context.Context, job dispatch.Record, wait time.Duration) dispatch.Record {
	release, err := a.waits.enter(user(ctx), a.Limits.Sockets)
	if err != nil {
		return job
	}
	defer release()
	changed, stop := a.Broker.WatchJob(user(ctx), job.ID)
	defer stop()
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	end, fresh := time.Now().Add(wait), a.Freshness
	see := func(ctx context.Context, fresh time.Duration) (dispatch.Record, error) {
		return a.Broker.Read(ctx, user(ctx), job.ID, fresh)
	}
	for {
		now, err := seeOrStop(waiting, a, see, fresh)
		if err != nil {
			return job
		}
		job = now
		if job.Status.Final() || waiting.Err() != nil || a.life.Err() != nil {
			return job
		}
		fresh = a.afterChange(waiting, changed, time.Until(end))
	}
}

// respond returns a response in JSON.
func (a *api) respond(status int, header map[string]string, v any) (*huma.StreamResponse, error) {
	text, err := dispatch.Encode(v)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) { a.write(ctx, status, header, text) }}, nil
}

// write writes a response whose body is a text of JSON.
func (a *api) write(ctx huma.Context, status int, header map[string]string, text []byte) {
	ctx.SetHeader("Content-Type", "application/json")
	for name, value := range header {
		ctx.SetHeader(name, value)
	}
	ctx.SetStatus(status)
	if _, err := ctx.BodyWriter().Write(text); err != nil {
		a.Log.DebugContext(ctx.Context(), "answer not written", "error", err)
	}
}
