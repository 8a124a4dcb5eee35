package visit

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	queuesFor  = 2 * time.Second // how long the queues of an account are reused after they were counted
	mostCached = 10_000          // entries of a cache; it is emptied when it has more
)

// Cache keeps what takes long to find out and many clients may request. The zero value is ready.
type Cache[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]*cached[V]
}

type cached[V any] struct {
	mu    sync.Mutex
	value V
	read  time.Time
}

// Get returns the value of a key, which was read up to life ago.
func (c *Cache[K, V]) Get(key K, life time.Duration, read func() (V, error)) (V, error) {
	at := c.at(key)
	at.mu.Lock()
	defer at.mu.Unlock()
	if !at.read.IsZero() && time.Since(at.read) < life {
		return at.value, nil
	}
	value, err := read()
	if err == nil {
		at.value, at.read = value, time.Now()
	}
	return value, err
}

func (c *Cache[K, V]) at(key K) *cached[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[key] == nil {
		if c.of == nil || len(c.of) > mostCached {
			c.of = map[K]*cached[V]{}
		}
		c.of[key] = &cached[V]{}
	}
	return c.of[key]
}

// Forget removes a key, so that its value is read anew.
func (c *Cache[K, V]) Forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, key)
}

// QueuesOf returns the queues of an account, which may have been counted up to [queuesFor] ago.
func (vs *Visits) QueuesOf(ctx context.Context, a dispatch.Account) ([]dispatch.Queue, error) {
	return vs.Queues.Get(a, queuesFor, func() ([]dispatch.Queue, error) { return vs.Store.Queues(ctx, a) })
}
