package api

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Bytes of memory for reading and writing large requests in this process.
const (
	renderMemory      = 128 << 20 // default
	leastRenderMemory = 64 << 20  // half of it, the share of one user, fits the largest request
)

// rendering bounds the memory for large requests, in total and for each user. One user gets at most half of it.
type rendering struct {
	all   *semaphore.Weighted
	bytes shares[dispatch.UserID]
	lists shares[dispatch.UserID] // large lists that are being written
}

// listsOfUser bounds the large lists of one user that are read and written at once. Otherwise a thousand requests of
// one user could take all database connections.
const listsOfUser = 8

func newRendering(total int64) *rendering {
	total = max(total, leastRenderMemory)
	return &rendering{all: semaphore.NewWeighted(total),
		bytes: shares[dispatch.UserID]{most: total / 2}, lists: shares[dispatch.UserID]{most: listsOfUser}}
}

// enterList waits for a place among a user's large lists.
func (r *rendering) enterList(ctx context.Context, u dispatch.UserID) (release func(), err error) {
	return r.lists.acquire(ctx, u, 1)
}

// acquire waits for n bytes, at most a user's share. It takes them from the user's share first, so that a user who
// waits for their own requests keeps no other user waiting.
func (r *rendering) acquire(ctx context.Context, u dispatch.UserID, n int64) (release func(), err error) {
	n = min(n, r.bytes.most)
	own, err := r.bytes.acquire(ctx, u, n)
	if err != nil {
		return nil, err
	}
	if err := r.all.Acquire(ctx, n); err != nil {
		own()
		return nil, err
	}
	return r.releaser(own, n), nil
}

// tryAcquire is acquire without waiting. It returns nil if there is no room.
func (r *rendering) tryAcquire(u dispatch.UserID, n int64) (release func()) {
	own := r.bytes.tryAcquire(u, n)
	if own == nil {
		return nil
	}
	if !r.all.TryAcquire(n) {
		own()
		return nil
	}
	return r.releaser(own, n)
}

func (r *rendering) releaser(own func(), n int64) func() {
	return func() {
		r.all.Release(n)
		own()
	}
}
