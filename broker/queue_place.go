package broker

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// placesByQueue holds, for queues, how many jobs are ahead of their waiting jobs.
type placesByQueue map[queueAt]*queuePlaces

// queuePlaces are those of one queue: of all its jobs, if several parts of a list needed them.
type queuePlaces struct {
	ahead    map[dispatch.JobID]int
	complete bool
}

type queueAt struct {
	dispatch.Account
	dispatch.UserID
	dispatch.TaskID
}

// setQueuePlaces sets Ahead of the records that wait for their turn. Of the jobs of a queue, it reads those between the
// first and the last record. known is that of the records before in the same list: a queue that occurs there is read as
// a whole, once.
func (b *Broker) setQueuePlaces(ctx context.Context, records []dispatch.Record, known placesByQueue) ([]dispatch.Record,
	error) {
	between := waitingBetween(records)
	for queue, ends := range between {
		again := known[queue] != nil
		if again && known[queue].complete {
			continue
		}
		if again {
			ends = [2]dispatch.Rank{{}, {Due: dispatch.Never}}
		}
		ahead, err := b.placesBetween(ctx, queue, ends[0], ends[1])
		if err != nil {
			return records, err
		}
		known[queue] = &queuePlaces{ahead, again}
	}
	for i, r := range records {
		queue := queueAt{r.Account, r.Owner, r.Task}
		if _, asked := between[queue]; !asked || !r.WaitsForSlot() {
			continue
		}
		if n, waits := known[queue].ahead[r.ID]; waits {
			records[i].Ahead = &n
		}
	}
	return records, nil
}

// waitingBetween returns, for each queue of which records wait for their turn, the first and the last of them.
func waitingBetween(records []dispatch.Record) map[queueAt][2]dispatch.Rank {
	between := map[queueAt][2]dispatch.Rank{}
	for _, r := range records {
		if !r.WaitsForSlot() || r.Due.IsZero() {
			continue
		}
		queue, at := queueAt{r.Account, r.Owner, r.Task}, r.Rank()
		ends, ok := between[queue]
		if !ok || at.Compare(ends[0]) < 0 {
			ends[0] = at
		}
		if !ok || at.Compare(ends[1]) > 0 {
			ends[1] = at
		}
		between[queue] = ends
	}
	return between
}

// placesBetween returns how many jobs are ahead of the waiting jobs of a queue from one to another.
func (b *Broker) placesBetween(ctx context.Context, queue queueAt, from, to dispatch.Rank) (map[dispatch.JobID]int,
	error) {
	l := dispatch.Queue{Owner: queue.UserID, Task: queue.TaskID}
	queues, err := b.queuesOf(ctx, queue.Account)
	if err != nil {
		return nil, err
	}
	before := 0
	if from != (dispatch.Rank{}) {
		if before, err = b.Records.WaitingBefore(ctx, queue.Account, l, from); err != nil {
			return nil, err
		}
	}
	ids := []dispatch.JobID{to.ID}
	if from != to {
		ids, err = b.Records.Waiting(ctx, queue.Account, l, from, to)
	}
	places, place := make(map[dispatch.JobID]int, len(ids)), dispatch.Ahead(queues, l)
	for i, id := range ids {
		places[id] = place(before + i)
	}
	return places, err
}

func (b *Broker) setQueuePlace(ctx context.Context, r dispatch.Record) (dispatch.Record, error) {
	one, err := b.setQueuePlaces(ctx, []dispatch.Record{r}, placesByQueue{})
	return one[0], err
}

// queuesFor is how long the queues of an account are reused after they were counted: that takes long if many users
// wait, and all of them may look.
const queuesFor = 2 * time.Second

// countedQueues are the queues of an account, which are forgotten after [queuesFor].
type countedQueues struct {
	mu     sync.Mutex
	queues []dispatch.Queue
	known  bool
}

// queuesOf returns the queues of an account, which may have been counted up to queuesFor ago, but not before this
// process changed them for an owner.
func (b *Broker) queuesOf(ctx context.Context, a dispatch.Account) (_ []dispatch.Queue, err error) {
	entry, _ := b.counted.LoadOrStore(a, &countedQueues{})
	counted := entry.(*countedQueues)
	counted.mu.Lock()
	defer counted.mu.Unlock()
	if !counted.known {
		if counted.queues, err = b.Visits.Store.Queues(ctx, a); err == nil {
			counted.known = true
			time.AfterFunc(queuesFor, func() { b.counted.CompareAndDelete(a, entry) })
		}
	}
	return counted.queues, err
}
