package api

import (
	"context"

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
	bytes shares[dispatch.UserID]
	lists shares[dispatch.UserID] // large lists that are being written
}

// listsOfUser is how many large lists of one user are read from the database and written at once. The next wait: without that a
// thousand requests of one user have all connections to the database.
const listsOfUser = 8

func newRendering(total int64) *rendering {
	total = max(total, leastRenderMemory)
	return &rendering{all: semaphore.NewWeighted(total),
		bytes: shares[dispatch.UserID]{most: total / 2}, lists: shares[dispatch.UserID]{most: listsOfUser}}
}

// enterList waits for a place among the large lists of a user.
func (r *rendering) enterList(ctx context.Context, u dispatch.UserID) (release func(), err error) {
	return r.lists.acquire(ctx, u, 1)
}

// acquire waits for so many bytes, at most a user's share; first for the user's own requests, so that who waits for those keeps no
// other user waiting.
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

// tryAcquire is acquire for who does not wait. It gives nil if there is no room.
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
