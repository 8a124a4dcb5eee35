package api

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// listSyncRuns returns the user's synchronous runs, newest first, as a list of jobs in pages of at most [longestPage].
// The list of all jobs does not contain them, because existing clients do not expect them there.
func (a *api) listSyncRuns(ctx context.Context, in *request, query url.Values, q pageQuery) (*encodedStatus, error) {
	u, path := user(ctx), in.http.URL().Path
	w, err := a.await(ctx, in, func() (<-chan struct{}, func()) { return a.Broker.Watch(u) })
	if err != nil {
		return nil, err
	}
	defer w.release()
	see := func(ctx context.Context, _ time.Duration) ([]dispatch.Record, error) {
		return a.Broker.SyncRuns(ctx, u, q.after(q.at.Job))
	}
	runs, err := awaitChange(ctx, a, w, see, tagOfRuns)
	if err != nil {
		return nil, err
	}
	part := listPart{to: q.at, more: len(runs) > q.limit}
	tag := tagOfRuns(runs)
	runs = runs[:min(len(runs), q.limit)]
	if len(runs) > 0 {
		part.to.Job = runs[len(runs)-1].Place()
	}
	part.write = func(ctx context.Context, w io.Writer) error { return a.writeSyncRuns(ctx, w, runs) }
	return a.encoded(tag, a.next(u, path, query, part.more, part.to), part.write), nil
}

// tagOfRuns returns the ETag of a page of synchronous runs: that one lapses takes no number.
func tagOfRuns(runs []dispatch.Record) string {
	h := sha256.New()
	for _, r := range runs {
		fmt.Fprint(h, jobTag(r))
	}
	return etag(h.Sum(nil)[:8])
}

func (a *api) writeSyncRuns(ctx context.Context, w io.Writer, runs []dispatch.Record) error {
	r := a.newRenderer(ctx, w, topic{user: user(ctx), bare: true})
	defer r.close()
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
