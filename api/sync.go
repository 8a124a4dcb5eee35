package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
)

// syncBroker runs jobs while the client waits, and lists these runs.
type syncBroker interface {
	// RunSync runs a request while the client waits. The caller must close the result's Body.
	RunSync(context.Context, dispatch.UserID, dispatch.Request) (*dispatch.SyncResult, error)
}

// runSync returns the platform's result as it arrives, of any length.
func (a *api) runSync(ctx context.Context, in *openapi.Request) (*huma.StreamResponse, error) {
	body, err := a.ReadBody(in)
	if err != nil {
		return nil, err
	}
	r, w := humago.Unwrap(in.HTTP)
	if wait := facade.PreferencesIn(r.Header).Wait; wait > 0 {
		return a.runJob(ctx, in, body, wait)
	}
	req, faults := a.parse(ctx, body)
	if len(faults) > 0 {
		return nil, call.Invalid(faults)
	}
	result, err := a.startRun(ctx, w, req)
	if err != nil {
		if dispatch.Is(err, dispatch.Unsupported) { // nothing runs: the platform, or the process, has jobs only
			return a.runJob(ctx, in, body, usualWait)
		}
		return nil, call.RequestError(err)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) { a.stream(ctx, result) }}, nil
}

// startRun runs a request for the user of a call, and returns when its result begins. The result's Body must be closed.
func (a *api) startRun(ctx context.Context, w http.ResponseWriter, r dispatch.Request) (*dispatch.SyncResult, error) {
	if err := a.enterStreams(call.In(ctx)); err != nil {
		return nil, err
	}
	defer renewDeadline(w)
	return a.Broker.RunSync(ctx, call.User(ctx), r)
}

// renewDeadline lets a response begin after a run, which may have lasted longer than the server's write deadline.
func renewDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(live.ChunkTime)) // not of writers in tests
}

// enterStreams counts a call among the streams until it ends: streams and synchronous runs have limits of their own,
// and those that have begun go on while the service stops.
func (a *api) enterStreams(c *call.Call) error {
	c.Turn.End()
	if c.Streams {
		return nil
	}
	release, ok := a.Streaming.Enter()
	if !ok {
		return call.ErrStopping
	}
	c.Streams, c.AtEnd = true, append(c.AtEnd, release)
	return nil
}

// stream copies the result to the client. If the result breaks off, it cuts the connection, so that the client does not
// take a part for the whole.
func (a *api) stream(ctx huma.Context, result *dispatch.SyncResult) {
	defer result.Body.Close()
	_, w := humago.Unwrap(ctx)
	w.Header().Set("Content-Type", cmp.Or(result.ContentType, "application/octet-stream"))
	// a result that is a page must not act as a page of this service
	w.Header().Set("Content-Security-Policy", facade.Sandbox)
	w.WriteHeader(http.StatusOK)
	if err := a.Pass(w, result.Body); err != nil {
		a.Log.WarnContext(ctx.Context(), "synchronous result broken off", "error", err)
		panic(http.ErrAbortHandler)
	}
}
