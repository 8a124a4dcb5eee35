package api

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// listBroker reads lists as they are stored, and reports changes.
type listBroker interface {
	// Tasks reads a page of the user's tasks as they are stored, newest first.
	Tasks(context.Context, dispatch.UserID, dispatch.Page) iter.Seq2[dispatch.TaskRecord, error]
	// Jobs reads a page of the user's jobs that belong to no task as they are stored, newest first.
	Jobs(context.Context, dispatch.UserID, dispatch.Page) iter.Seq2[dispatch.Record, error]
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

// topic is what a client watches or reads as one: a user's list, or one task.
type topic struct {
	user dispatch.UserID
	task dispatch.TaskID // 0: the user's list
	want filter          // of the list
	bare bool            // leave out parameters
}

func (t topic) scope() dispatch.Scope {
	return dispatch.Scope{Task: t.task, Alone: t.want.processing, Tasks: t.want.upscaling}
}

// numberOf returns the present number of a topic, and what its jobs show of their accounts.
func (a *api) numberOf(ctx context.Context, t topic) (dispatch.ChangedPage, error) {
	c, err := a.Broker.Changes(ctx, t.user, t.task, dispatch.NumberOnly, 1)
	return c, taskError(err)
}

// listTag returns the ETag of what a query selects of a list or a task. It changes with the number of that, and with
// what jobs show of their accounts, and is the same in every process.
func listTag(c dispatch.ChangedPage, query string) string {
	accounts, _ := dispatch.Encode(c.Accounts) // texts cannot fail to encode
	sum := sha256.Sum256(append(accounts, query...))
	return etag(append(binary.LittleEndian.AppendUint64(nil, uint64(c.Number)), sum[:8]...))
}

// jobTag returns the ETag of a job. It changes with what the owner sees of it, except for the time when its platform
// was asked and its place in the queue.
func jobTag(r dispatch.Record) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %s %s %q", r.ID, r.Updated.UnixMicro(), r.Status, r.Attention, r.Notice))
	return etag(sum[:8])
}
