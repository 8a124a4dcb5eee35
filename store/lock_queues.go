package store

import (
	"context"
	"sync"
)

// lockQueues serializes, without a connection, the callers of this process that want the same lock of the database:
// only one at a time waits for the lock itself. The zero value is ready to use.
type lockQueues struct{ held sync.Map } // by name, a channel that is closed at the end of the turn

// acquire waits for the turn of a name and returns the function that ends the turn.
func (t *lockQueues) acquire(ctx context.Context, name string) (pass func(), err error) {
	own := make(chan struct{})
	for {
		held, taken := t.held.LoadOrStore(name, own)
		if !taken {
			return func() { t.held.Delete(name); close(own) }, nil
		}
		select {
		case <-held.(chan struct{}):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
