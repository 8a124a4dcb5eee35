package ogcapi

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const opSync = "ogcapi.RunSync"

const (
	firstPause   = time.Second
	longestPause = 10 * time.Second
	cancelTime   = 10 * time.Second
	appears      = 30 * time.Second // how long a platform may not find a job that it has just created

	maxStatusInfo = 1 << 20 // bytes
)

// RunSync executes the process while the caller waits, and streams the result: the bytes of a single output, or one
// JSON document for several. Results that are all references come as a STAC Collection. A server may create a job
// nonetheless, and must where the process supports nothing else; then RunSync follows the job until it ends and streams
// its results, if Submission.Created permits it. If ctx ends first, the job is dismissed. ctx must live until the
// result is read.
func (p *Platform) RunSync(ctx context.Context, t dispatch.Token, s dispatch.Submission) (*dispatch.SyncResult, error) {
	at, d, err := p.describe(ctx, t, s.Service)
	if err != nil {
		return nil, err
	}
	response := ""
	if len(d.outputs) > 1 && !hasOption(s.Request, "response") {
		response = "document"
	}
	if err := p.Permitted(s.Request); err != nil {
		return nil, err
	}
	body, err := executeBody(ctx, s.Request, d, response)
	if err != nil {
		return nil, err
	}
	call := p.call(opSync, http.MethodPost, "", t)
	call.Header.Set("Accept", "*/*")
	call.Effect, call.Blind = true, true
	a, err := p.post(ctx, at, body, call, p.Client.Stream)
	if err != nil {
		return nil, err
	}
	switch a.Status {
	case http.StatusCreated, http.StatusAccepted:
		return p.await(ctx, t, at, a, s.Created)
	case http.StatusNoContent:
		return p.linked(ctx, t, a, at.process)
	}
	return streamed(a), nil
}

// linked returns results that consist only of links in the response's headers.
func (p *Platform) linked(ctx context.Context, t dispatch.Token, a *upstream.Answer, id string) (*dispatch.SyncResult,
	error) {
	a.Stream.Close()
	result, err := p.collection(ctx, t, a, id)
	if err != nil {
		return nil, err
	}
	return &dispatch.SyncResult{ContentType: mediaJSON, Body: io.NopCloser(bytes.NewReader(result))}, nil
}

func streamed(a *upstream.Answer) *dispatch.SyncResult {
	return &dispatch.SyncResult{ContentType: cmp.Or(a.Header.Get("Content-Type"), "application/octet-stream"),
		Body: a.Stream}
}

// await follows the job that a server created for a synchronous execution.
func (p *Platform) await(
	ctx context.Context, t dispatch.Token, at place, a *upstream.Answer,
	created func(context.Context, dispatch.Ref) error,
) (*dispatch.SyncResult, error) {
	var err error
	a.Body, err = io.ReadAll(io.LimitReader(a.Stream, maxStatusInfo))
	a.Stream.Close()
	a.Body = upstream.Finite(a.Body)
	step, err := p.step(ctx, t, at, a, err)
	if err != nil {
		return nil, err
	}
	if created != nil {
		if err := created(ctx, step.Ref); err != nil {
			return nil, err
		}
	}
	return p.follow(ctx, t, step.Ref)
}

// follow waits until a job has ended and streams its results.
func (p *Platform) follow(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (*dispatch.SyncResult, error) {
	begun := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		report, err := p.Status(ctx, t, ref)
		switch {
		case dispatch.Is(err, dispatch.NotFound) && time.Since(begun) > appears:
			return nil, &dispatch.Error{Kind: dispatch.BadUpstream, Op: opSync,
				Text: "The platform does not know the job any more that it created for this request.", Err: err}
		case err != nil && !slices.Contains(temporary, dispatch.KindOf(err)):
			return nil, err
		case report.Status == dispatch.Finished:
			return p.streamResults(ctx, t, ref)
		case report.Status.Final():
			return nil, &dispatch.Error{Kind: dispatch.BadUpstream, Op: opSync, Text: endedText(report)}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			p.abandon(ctx, t, ref)
			return nil, &dispatch.Error{Kind: dispatch.Uncertain, Op: opSync,
				Text: "The process did not finish in time.", Err: ctx.Err()}
		}
	}
}

// temporary are the failures that may be temporary. A new job may not be found at first.
var temporary = []dispatch.Kind{dispatch.Busy, dispatch.Unavailable, dispatch.Uncertain, dispatch.NotFound}

// abandon dismisses a job although ctx has ended. The caller's result does not depend on its success.
func (p *Platform) abandon(ctx context.Context, t dispatch.Token, ref dispatch.Ref) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	_ = p.Cancel(ctx, t, ref)
}

func (p *Platform) streamResults(ctx context.Context, t dispatch.Token, ref dispatch.Ref) (*dispatch.SyncResult,
	error) {
	call := p.call(opSync, http.MethodGet, p.job(ref, "results"), t)
	a, err := p.Client.Stream(ctx, call)
	if a != nil && a.Status == http.StatusNotAcceptable {
		call.Header.Set("Accept", "*/*")
		a, err = p.Client.Stream(ctx, call)
	}
	switch {
	case err != nil:
		return nil, err
	case a.Status == http.StatusNoContent:
		return p.linked(ctx, t, a, ref.ID)
	}
	return streamed(a), nil
}
