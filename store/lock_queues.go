package store

import (
	"context"
	"sync"
)

// lockQueues serializes, without a connection, the callers of this process that want the same lock of the database:
// only one at a time waits for the lock itself. The zero value is ready to use.
type lockQueues struct {
	mu   sync.Mutex
	held map[string]*lockQueue
}

type lockQueue struct {
	free    chan struct{} // holds one value while nobody has the turn
	callers int
}

// acquire waits for the turn of a name and returns the function that ends the turn.
func (t *lockQueues) acquire(ctx context.Context, name string) (pass func(), err error) {
	w := t.join(name)
	select {
	case <-w.free:
		return func() { w.free <- struct{}{}; t.leave(name, w) }, nil
	case <-ctx.Done():
		t.leave(name, w)
		return nil, ctx.Err()
	}
}

func (t *lockQueues) join(name string) *lockQueue {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		t.held = map[string]*lockQueue{}
	}
	w := t.held[name]
	if w == nil {
		w = &lockQueue{free: make(chan struct{}, 1)}
		w.free <- struct{}{}
		t.held[name] = w
	}
	w.callers++
	return w
}

func (t *lockQueues) leave(name string, w *lockQueue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.callers--; w.callers == 0 {
		delete(t.held, name)
	}
}
