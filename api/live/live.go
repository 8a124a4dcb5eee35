package live

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Broker reads lists as they are stored, and reports changes.
type Broker interface {
	// Read returns a job with a status no older than fresh, or the last known one if the platform does not respond.
	Read(ctx context.Context, u dispatch.UserID, id dispatch.JobID, fresh time.Duration) (dispatch.Record, error)
	// Task returns a task as it is stored.
	Task(context.Context, dispatch.UserID, dispatch.TaskID) (dispatch.TaskRecord, error)
	// ForecastTask returns a task with its forecast, or with what the rest of it needs.
	ForecastTask(context.Context, dispatch.TaskRecord) (dispatch.TaskRecord, error)
	// SyncRuns returns a page of the user's synchronous runs, newest first.
	SyncRuns(context.Context, dispatch.UserID, dispatch.Page) ([]dispatch.Record, error)
	// Tasks reads a page of the user's tasks as they are stored, newest first.
	Tasks(context.Context, dispatch.UserID, dispatch.Page) iter.Seq2[dispatch.TaskRecord, error]
	// Jobs reads a page of the user's jobs that belong to no task as they are stored, newest first.
	Jobs(context.Context, dispatch.UserID, dispatch.Page) iter.Seq2[dispatch.Record, error]
	// History reads jobs that belong to no task, and tasks, by creation, as they are stored.
	History(context.Context, dispatch.UserID, broker.Position, broker.Kinds,
		dispatch.Page) iter.Seq2[broker.Entry, error]
	// AwaitEnd returns a job when it has ended, or as it was last read when ctx ends or it cannot be read.
	AwaitEnd(ctx context.Context, r dispatch.Record, fresh time.Duration) dispatch.Record
	// TaskJobs reads a page of the jobs of a task as they are stored, ordered by number.
	TaskJobs(context.Context, dispatch.UserID, dispatch.TaskID, dispatch.Page) iter.Seq2[dispatch.Record, error]
	// Request returns the whole request of a record that was read with a part of it.
	Request(context.Context, dispatch.Record) (dispatch.Request, error)
	// Freshen waits a bounded time until the statuses in the scope are no older than fresh.
	Freshen(ctx context.Context, u dispatch.UserID, s dispatch.Scope, fresh time.Duration) error
	// Changes returns what changed of the user's list, or of a task, after a place, n jobs and tasks at most.
	Changes(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, after dispatch.ChangedPlace, n int) (
		dispatch.ChangedPage, error)
	// Watch signals when something visible to the user may have changed.
	Watch(dispatch.UserID) (changed <-chan struct{}, stop func())
	// OnChange calls changed, which must not wait, where Watch signals.
	OnChange(u dispatch.UserID, changed func()) (stop func())
	// WatchJob signals when one of the user's jobs may have changed.
	WatchJob(dispatch.UserID, dispatch.JobID) (changed <-chan struct{}, stop func())
}

// Topic is what a client watches or reads as one: a user's list, or one task.
type Topic struct {
	User dispatch.UserID
	Task dispatch.TaskID // 0: the user's list
	Want Filter          // of the list
	Bare bool            // leave out parameters
}

func (t Topic) scope() dispatch.Scope {
	return dispatch.Scope{Task: t.Task, Alone: t.Want.Processing, Tasks: t.Want.Upscaling}
}

// NumberOf returns the present number of a topic, and what its jobs show of their accounts.
func (a *Lists) NumberOf(ctx context.Context, t Topic) (dispatch.ChangedPage, error) {
	c, err := a.Broker.Changes(ctx, t.User, t.Task, dispatch.NumberOnly, 1)
	return c, call.TaskError(err)
}

// listTag returns the ETag of what a query selects of a list or a task. It changes with the number of that, and with
// what jobs show of their accounts, and is the same in every process.
func listTag(c dispatch.ChangedPage, query string) string {
	accounts, _ := dispatch.Encode(c.Accounts) // texts cannot fail to encode
	sum := sha256.Sum256(append(accounts, query...))
	return etag(append(binary.LittleEndian.AppendUint64(nil, uint64(c.Number)), sum[:8]...))
}

// JobTag returns the ETag of a job. It changes with what the owner sees of it, except for the time when its platform
// was asked and its place in the queue.
func JobTag(r dispatch.Record) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %t %s %s %q", r.ID, r.Updated.UnixMicro(), r.Pruned, r.Status,
		r.Attention, r.Notice))
	return etag(sum[:8])
}

// AwaitList returns what read returns of a list, or a task, with the ETag and the address of the next page, after the
// list has changed or the client's wait has ended.
func (a *Lists) AwaitList(ctx context.Context, in *openapi.Request, t Topic,
	read func() (*ListPart, error)) (*EncodedStatus, error) {
	w, err := a.Await(ctx, in, func() (<-chan struct{}, func()) { return a.Broker.Watch(t.User) })
	if err != nil {
		return nil, err
	}
	defer w.Release()
	address := in.HTTP.URL()
	query := address.Query()
	about := maps.Clone(query)
	about.Del("wait")
	see := func(ctx context.Context, fresh time.Duration) (none struct{}, tag string, err error) {
		if err := a.Broker.Freshen(ctx, t.User, t.scope(), fresh); err != nil {
			return none, "", err
		}
		c, err := a.NumberOf(ctx, t)
		return none, listTag(c, about.Encode()), err
	}
	_, tag, err := AwaitChange(ctx, a, w, see, func(struct{}) bool { return a.taskHasEnded(ctx, t) })
	if err != nil {
		return nil, err
	}
	part, err := read()
	if err != nil {
		return nil, err
	}
	return a.encoded(tag, a.next(t.User, address.Path, query, part.more, part.to), part.write), nil
}

// taskHasEnded reports whether a topic is a task whose jobs have all ended.
func (a *Lists) taskHasEnded(ctx context.Context, t Topic) bool {
	if t.Task == 0 {
		return false
	}
	r, err := a.Broker.Task(ctx, t.User, t.Task)
	return err == nil && r.Counts.Status().Final()
}

// EncodedStatus is a response whose body is read from the database while it is written.
type EncodedStatus struct {
	CacheControl string `header:"Cache-Control"`
	ContentType  string `header:"Content-Type"`
	ETag         string `header:"ETag"`
	Link         string `header:"Link"`
	Body         func(huma.Context)
}

func (a *Lists) encoded(tag, next string, write func(context.Context, io.Writer) error) *EncodedStatus {
	return &EncodedStatus{CacheControl: openapi.Revalidate, ContentType: "application/json", ETag: tag, Link: next,
		Body: a.Body(write)}
}

// Filter is which kinds of jobs a list shows.
type Filter struct{ Upscaling, Processing, Sync bool }

// FilterOf returns which kinds a query selects by the parameter filter. Without it, everything is listed but
// synchronous runs, which are listed separately.
func FilterOf(query url.Values) (want Filter, faults []dispatch.Fault) {
	words := query["filter"]
	want = Filter{Upscaling: len(words) == 0 || slices.Contains(words, "upscaling"),
		Processing: len(words) == 0 || slices.Contains(words, "processing"), Sync: slices.Contains(words, "sync")}
	if want.Sync && len(words) > 1 {
		faults = append(faults, dispatch.Fault{Loc: []any{"query", "filter"}, Type: "value_error",
			Msg: "Synchronous runs are listed separately: give 'sync' as the only filter"})
	}
	return want, faults
}
