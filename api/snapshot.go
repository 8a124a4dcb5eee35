package api

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"sync"

	"github.com/eodispatch/eodispatch/dispatch"
)

// topic is what is looked at together: a user's list, or one of their tasks.
type topic struct {
	user dispatch.UserID
	task dispatch.TaskID // 0: the list
	want filter          // of the list
	bare bool            // without parameters
}

func (t topic) scope() dispatch.Scope {
	return dispatch.Scope{Task: t.task, Alone: t.want.processing, Tasks: t.want.upscaling}
}

const (
	heldBytes     = 8 << 20  // of one snapshot
	heldTogether  = 64 << 20 // of all
	smallSnapshot = 1 << 20  // held without asking for memory
	buildMemory   = 32 << 20 // what is taken for painting a larger one that is held
	elementSize   = 512      // of a job or task without parameters, about
	seenMessage   = 256 << 10
)

// snapshot is how a topic stands: read once for all who look. A small one is also encoded once. One that has more than heldBytes
// is not held: it is read and encoded anew for each client, a part at a time.
type snapshot struct {
	outline
	topic   topic
	task    *dispatch.TaskRecord // of the topic, as its jobs were counted; nil for a list. Its parameters are left out
	largest int                  // bytes of the largest request

	summary json.RawMessage // of the task
	message []byte          // as a stream sends it; nil: not held
	begin   int             // of the body, which is a JobsStatusResponse or an UpscalingTask, in message
	end     int

	mu   sync.Mutex
	was  *items // what the last difference is from
	news difference
}

// outline is what is told of a snapshot without its body.
type outline struct {
	live   bool   // something has not ended
	digest uint64 // differs where what is shown differs, but for the times of asking
	size   int    // bytes of the message, about
	items  *items
}

// items are the looks of a snapshot's jobs and tasks, and where each stands in its message.
type items map[itemID]item

type itemID struct {
	task bool
	id   int64
}

type item struct {
	digest     uint64
	begin, end int
}

// look gives a topic as it is known. Whoever asks while it is being read shares the next reading.
func (a *api) readSnapshot(ctx context.Context, t topic) (*snapshot, error) {
	return a.snapshots.get(ctx, t, func(ctx context.Context) (*snapshot, error) {
		release := a.readers.enter(t.user)
		defer release()
		saved, stop := a.Broker.Answers(t.user)
		p, err := a.buildSnapshot(ctx, t)
		if err != nil {
			stop()
			return nil, err
		}
		a.snapshots.keep(t, &kept{p, saved, stop})
		return p, nil
	})
}

// jobDigest is a job's looks: what its owner sees of it but when it was asked for.
func jobDigest(r dispatch.Record) uint64 {
	return digestOf(int64(r.ID), r.Updated.UnixMicro(), string(r.Status), string(r.Attention), r.Notice)
}

func taskDigest(r dispatch.TaskRecord) uint64 {
	counts, _ := json.Marshal(r.Counts) // of texts and numbers
	return digestOf(int64(r.ID), int64(r.Progress*1e6), string(counts), string(r.Attention))
}

func digestOf(id, n int64, texts ...string) uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(id)), uint64(n)))
	for _, t := range texts {
		h.Write([]byte(t))
		h.Write([]byte{0})
	}
	return h.Sum64()
}
