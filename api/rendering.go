package api

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Bytes that large requests may take while they are read and written, in this process.
const (
	renderMemory      = 128 << 20 // unless the configuration says otherwise
	leastRenderMemory = 64 << 20  // what the largest request takes fits into a user's half of it
)

// rendering bounds the memory for large requests, in all and for each user: one user has at most half of it.
type rendering struct {
	all   *semaphore.Weighted
	total int64

	mu sync.Mutex
	of map[dispatch.UserID]*share
}

// share is what one user may have. It is kept while somebody has a part of it, or waits for one.
type share struct {
	*semaphore.Weighted
	lists   chan struct{} // large lists that are being written
	members int
}

// listsOfUser is how many large lists of one user are read from the database and written at once. The next wait: without that a
// thousand requests of one user have all connections to the database.
const listsOfUser = 8

// enterList waits for a place among the large lists of a user.
func (r *rendering) enterList(ctx context.Context, u dispatch.UserID) (leave func(), err error) {
	own := r.join(u)
	select {
	case own.lists <- struct{}{}:
		return func() { <-own.lists; r.part(u, own) }, nil
	case <-ctx.Done():
		r.part(u, own)
		return nil, ctx.Err()
	}
}

func newRendering(total int64) *rendering {
	total = max(total, leastRenderMemory)
	return &rendering{all: semaphore.NewWeighted(total), total: total, of: map[dispatch.UserID]*share{}}
}

// acquire waits for so many bytes, at most a user's share; first for the user's own requests, so that who waits for those keeps no
// other user waiting.
func (r *rendering) acquire(ctx context.Context, u dispatch.UserID, n int64) (release func(), err error) {
	n = min(n, r.total/2)
	own := r.join(u)
	if err := own.Acquire(ctx, n); err != nil {
		r.part(u, own)
		return nil, err
	}
	if err := r.all.Acquire(ctx, n); err != nil {
		own.Release(n)
		r.part(u, own)
		return nil, err
	}
	return r.releaser(u, own, n), nil
}

// tryAcquire is acquire for who does not wait. It gives nil if there is no room.
func (r *rendering) tryAcquire(u dispatch.UserID, n int64) (release func()) {
	own := r.join(u)
	if !own.TryAcquire(n) {
		r.part(u, own)
		return nil
	}
	if !r.all.TryAcquire(n) {
		own.Release(n)
		r.part(u, own)
		return nil
	}
	return r.releaser(u, own, n)
}

func (r *rendering) releaser(u dispatch.UserID, own *share, n int64) func() {
	return func() {
		r.all.Release(n)
		own.Release(n)
		r.part(u, own)
	}
}

func (r *rendering) join(u dispatch.UserID) *share {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[u] == nil {
		r.of[u] = &share{Weighted: semaphore.NewWeighted(r.total / 2), lists: make(chan struct{}, listsOfUser)}
	}
	r.of[u].members++
	return r.of[u]
}

func (r *rendering) part(u dispatch.UserID, s *share) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.members--; s.members == 0 {
		delete(r.of, u)
	}
}
