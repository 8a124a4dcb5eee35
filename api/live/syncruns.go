package live

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
)

// ListSyncRuns returns the user's synchronous runs, newest first, as a list of jobs in pages of at most [LongestPage].
// The list of all jobs does not contain them, because existing clients do not expect them there.
func (a *Lists) ListSyncRuns(ctx context.Context, in *openapi.Request, query url.Values, q pageQuery) (*EncodedStatus,
	error) {
	u, path := call.User(ctx), in.HTTP.URL().Path
	w, err := a.Await(ctx, in, func() (<-chan struct{}, func()) { return a.Broker.Watch(u) })
	if err != nil {
		return nil, err
	}
	defer w.Release()
	see := func(ctx context.Context, _ time.Duration) ([]dispatch.Record, string, error) {
		runs, err := a.Broker.SyncRuns(ctx, u, q.after(q.at.Job))
		return runs, tagOfRuns(runs), err
	}
	runs, tag, err := AwaitChange(ctx, a, w, see, func([]dispatch.Record) bool { return false })
	if err != nil {
		return nil, err
	}
	part := ListPart{to: q.at, more: len(runs) > q.limit}
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
		fmt.Fprint(h, JobTag(r))
	}
	return etag(h.Sum(nil)[:8])
}

func (a *Lists) writeSyncRuns(ctx context.Context, w io.Writer, runs []dispatch.Record) error {
	r := a.NewRenderer(ctx, w, Topic{User: call.User(ctx), Bare: true})
	defer r.Close()
	r.Text(beforeLists + betweenLists)
	for _, run := range runs {
		run.Request.Parameters = nil
		r.Element(a.Summary(run))
	}
	r.Text(afterLists)
	return r.Err()
}
