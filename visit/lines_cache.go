package visit

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	linesFor  = 2 * time.Second // how long the lines of an account are reused after they were counted
	manyLines = 10_000          // accounts in the cache; it is emptied when it has more
)

// queues caches the lines of accounts. Reading them takes longer the more lines there are, and many clients may request
// it.
type queues struct {
	mu sync.Mutex
	of map[dispatch.Account]*queue
}

type queue struct {
	mu    sync.Mutex
	lines []dispatch.Line
	read  time.Time
}

// Lines returns the lines of an account, which may have been counted up to [linesFor] ago.
func (q *queues) Lines(ctx context.Context, s Store, a dispatch.Account) (lines []dispatch.Line, err error) {
	at := q.at(a)
	at.mu.Lock()
	defer at.mu.Unlock()
	if !at.read.IsZero() && time.Since(at.read) < linesFor {
		return at.lines, nil
	}
	if lines, err = s.Lines(ctx, a); err == nil {
		at.lines, at.read = lines, time.Now()
	}
	return lines, err
}

func (q *queues) at(a dispatch.Account) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of[a] == nil {
		if q.of == nil || len(q.of) > manyLines {
			q.of = map[dispatch.Account]*queue{}
		}
		q.of[a] = &queue{}
	}
	return q.of[a]
}

// Forget removes the lines of an account from the cache, so that they are counted anew.
func (q *queues) Forget(a dispatch.Account) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.of, a)
}
