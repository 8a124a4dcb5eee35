package visit

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	queuesFor  = 2 * time.Second // how long the queues of an account are reused after they were counted
	mostCached = 10_000          // accounts in the cache; it is emptied when it has more
)

// queueCache caches the queues of accounts. Reading them takes longer the more queues there are, and many clients may
// request it.
type queueCache struct {
	mu sync.Mutex
	of map[dispatch.Account]*cachedQueues
}

type cachedQueues struct {
	mu     sync.Mutex
	queues []dispatch.Queue
	read   time.Time
}

// Read returns the queues of an account, which may have been counted up to [queuesFor] ago.
func (q *queueCache) Read(ctx context.Context, s Store, a dispatch.Account) (queues []dispatch.Queue, err error) {
	at := q.at(a)
	at.mu.Lock()
	defer at.mu.Unlock()
	if !at.read.IsZero() && time.Since(at.read) < queuesFor {
		return at.queues, nil
	}
	if queues, err = s.Queues(ctx, a); err == nil {
		at.queues, at.read = queues, time.Now()
	}
	return queues, err
}

func (q *queueCache) at(a dispatch.Account) *cachedQueues {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of[a] == nil {
		if q.of == nil || len(q.of) > mostCached {
			q.of = map[dispatch.Account]*cachedQueues{}
		}
		q.of[a] = &cachedQueues{}
	}
	return q.of[a]
}

// Forget removes the queues of an account from the cache, so that they are counted anew.
func (q *queueCache) Forget(a dispatch.Account) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.of, a)
}
