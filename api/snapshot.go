package api

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
	"sync"
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
	// Watch signals when something visible to the user may have changed.
	Watch(dispatch.UserID) (changed <-chan struct{}, stop func())
	// OnChange calls changed, which must not wait, where Watch signals.
	OnChange(u dispatch.UserID, changed func()) (stop func())
	// WatchJob signals when one of the user's jobs may have changed.
	WatchJob(dispatch.UserID, dispatch.JobID) (changed <-chan struct{}, stop func())
	// Feed collects which of the user's jobs have changed.
	Feed(dispatch.UserID) (feed *dispatch.Feed, stop func())
	// WatchSaves signals when anything about the user's jobs was saved, before Watch does.
	WatchSaves(dispatch.UserID) (saved <-chan struct{}, stop func())
}

// topic is what a client watches or reads as one: a user's list, or one task.
type topic struct {
	user dispatch.UserID
	task dispatch.TaskID // 0: the user's list
	want filter          // of the list
	bare bool            // leave out parameters
	same bool            // only the digest is wanted if nothing has changed, see readIfChanged
	news bool            // only what changed is wanted, see readChanges and readListChanges
}

func (t topic) scope() dispatch.Scope {
	return dispatch.Scope{Task: t.task, Alone: t.want.processing, Tasks: t.want.upscaling}
}

const (
	heldBytes     = 8 << 20  // bytes of one snapshot that is held, packed above it
	heldTogether  = 64 << 20 // bytes of all held snapshots
	smallSnapshot = 1 << 20  // bytes up to which a snapshot is held without taking memory from rendering
	buildMemory   = 32 << 20 // bytes taken from rendering while a larger snapshot is built
	elementSize   = 512      // approximate bytes of a job or task without parameters
	seenMessage   = 256 << 10
)

// snapshot is the state of a topic, read once and shared by all clients that ask for it. Up to heldBytes its encoded
// form is held too, a longer one compressed. A snapshot that is larger even then is read and encoded again for each
// client, one part at a time.
type snapshot struct {
	outline
	topic   topic
	empty   bool                 // only the digest is known
	unsure  bool                 // a job is unsure, see dispatch.Record.TimeDependent
	task    *dispatch.TaskRecord // of the topic, with the counts of its jobs, without parameters; nil for a list
	largest int                  // bytes of the largest request
	base    *base                // nil: the next snapshot cannot be derived from this one
	texts   []jobText            // of the jobs of a task, in the order of message
	lines   []dispatch.Account   // where jobs of a task wait

	summary json.RawMessage // of the task
	message []byte          // as a stream sends it; nil: not held
	begin   int             // of the body, a JobsStatusResponse or an UpscalingTask, in message
	end     int
	packed  *packed // the body without its frame, if message is nil; nil: not held

	mu   sync.Mutex
	was  *items // the items that the last difference was computed from
	news difference
}

// outline is a snapshot without its body.
type outline struct {
	live   bool   // something has not ended
	digest uint64 // differs if the body differs, except for the times when platforms were asked
	size   int    // approximate bytes of the message
	items  *items
}

type itemID struct {
	task bool
	id   int64
}

type item struct {
	digest     uint64
	updated    int64 // see dispatch.Revision
	version    int64 // of the job
	live       bool  // it has not ended
	begin, end int
}

// readSnapshot returns the last known state of a topic. Callers that ask while it is read share the next read.
func (a *api) readSnapshot(ctx context.Context, t topic) (*snapshot, error) {
	return a.readShared(ctx, t, a.buildRevised)
}

// readShared builds a snapshot for all callers that ask for the same topic.
func (a *api) readShared(ctx context.Context, t topic, build func(context.Context, topic) (*snapshot,
	error)) (*snapshot, error) {
	return a.snapshots.get(ctx, t, func(ctx context.Context) (*snapshot, error) {
		release := a.readers.enter(t.user)
		defer release()
		saved, stop := a.Broker.WatchSaves(t.user)
		p, err := build(ctx, t)
		if err != nil {
			stop()
			return nil, err
		}
		a.snapshots.keep(t, &kept{p, saved, stop})
		return p, nil
	})
}

// jobDigest digests what the owner sees of a job, except for the time when its platform was asked.
func jobDigest(r dispatch.Record) uint64 {
	return digestOf(int64(r.ID), r.Updated.UnixMicro(), string(r.Status), string(r.Attention), r.Notice)
}

func taskDigest(r dispatch.TaskRecord) uint64 {
	counts, _ := json.Marshal(r.Counts) // texts and numbers cannot fail to encode
	return digestOf(int64(r.ID), int64(math.Round(r.Progress*1e6)), string(counts), string(r.Attention),
		strconv.FormatBool(r.Paused), strconv.FormatInt(r.Edited.UnixMicro(), 10), limitsDigest(r))
}

// limitsDigest returns a text that changes with what is shown of a task's budget and trial; "" for a task without them.
func limitsDigest(r dispatch.TaskRecord) string {
	if r.Spending == nil {
		return strconv.Itoa(r.Trial)
	}
	return fmt.Sprint(r.Trial, r.Budget.Use(*r.Spending))
}

// digestOf returns a part of a SHA-256. Digests are added up, so one that depends almost linearly on the last
// characters, such as FNV, does not suffice: the same change of several jobs would often leave their sum as it was.
func digestOf(id, n int64, texts ...string) uint64 {
	b := make([]byte, 0, 256)
	b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, uint64(id)), uint64(n))
	for _, t := range texts {
		b = append(append(b, t...), 0)
	}
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}
