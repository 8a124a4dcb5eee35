package store

import (
	"context"
	"sync"
)

// turns serializes, without a connection, the callers of this process that want the same lock of the database: only one at a
// time waits for the lock itself. The zero value is ready to use.
type turns struct {
	mu   sync.Mutex
	held map[string]*turn
}

type turn struct {
	free    chan struct{} // holds one value while nobody has the turn
	callers int
}

// take waits for the turn of a name and returns the function that ends the turn.
func (t *turns) take(ctx context.Context, name string) (pass func(), err error) {
	w := t.join(name)
	select {
	case <-w.free:
		return func() { w.free <- struct{}{}; t.leave(name, w) }, nil
	case <-ctx.Done():
		t.leave(name, w)
		return nil, ctx.Err()
	}
}

func (t *turns) join(name string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		t.held = map[string]*turn{}
	}
	w := t.held[name]
	if w == nil {
		w = &turn{free: make(chan struct{}, 1)}
		w.free <- struct{}{}
		t.held[name] = w
	}
	w.callers++
	return w
}

func (t *turns) leave(name string, w *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.callers--; w.callers == 0 {
		delete(t.held, name)
	}
}
