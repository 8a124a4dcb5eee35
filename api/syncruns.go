package api

import (
	"context"
	"io"
	"net/url"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// listSyncRuns returns the user's synchronous runs, newest first, as a list of jobs in pages of at most [longestPage].
// The list of all jobs does not contain them, because existing clients do not expect them there.
func (a *api) listSyncRuns(ctx context.Context, in *request, query url.Values, q pageQuery) (*encodedStatus, error) {
	u, path := user(ctx), in.http.URL().Path
	return a.awaitPart(ctx, in, func(ctx context.Context, _ time.Duration) (*listPart, string, error) {
		runs, err := a.Broker.SyncRuns(ctx, u, q.after(q.at.Job))
		if err != nil {
			return nil, "", err
		}
		part := &listPart{to: q.at, more: len(runs) > q.limit}
		runs = runs[:min(len(runs), q.limit)]
		for _, r := range runs {
			part.to.Job = r.Place()
			part.add(jobDigest(r))
		}
		if part.more {
			part.add(1)
		}
		part.write = func(ctx context.Context, w io.Writer) error { return a.writeSyncRuns(ctx, w, runs) }
		return part, a.next(u, path, query, part.more, part.to), nil
	})
}

func (a *api) writeSyncRuns(ctx context.Context, w io.Writer, runs []dispatch.Record) error {
	r := a.newRenderer(ctx, w, user(ctx), true)
	defer r.turn.releaseTurn()
	if err := r.text(`{"upscaling_tasks":[],"processing_jobs":[`); err != nil {
		return err
	}
	for _, run := range runs {
		run.Request.Parameters = nil
		if err := r.element(a.summary(run)); err != nil {
			return err
		}
	}
	return r.text(`]}`)
}
