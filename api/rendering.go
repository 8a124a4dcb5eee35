package api

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Bytes of memory for reading and writing large requests in this process.
const (
	renderMemory      = 128 << 20 // default
	leastRenderMemory = 64 << 20  // half of it, the share of one user, fits the largest request
)

// rendering bounds the memory for large requests, in total and for each user. One user gets at most half of it.
type rendering struct {
	bytes *bounds.Places[dispatch.UserID]
	lists bounds.Shares[dispatch.UserID] // large lists that are being written
}

// listsOfUser bounds the large lists of one user that are read and written at once. Otherwise a thousand requests of
// one user could take all database connections.
const listsOfUser = 8

func newRendering(total int64) *rendering {
	total = max(total, leastRenderMemory)
	return &rendering{bytes: bounds.NewPlaces[dispatch.UserID](total, total/2),
		lists: bounds.Shares[dispatch.UserID]{Most: listsOfUser}}
}

// enterList waits for a place among a user's large lists.
func (r *rendering) enterList(ctx context.Context, u dispatch.UserID) (release func(), err error) {
	return r.lists.Acquire(ctx, u, 1)
}

// acquire waits for n bytes, at most a user's share.
func (r *rendering) acquire(ctx context.Context, u dispatch.UserID, n int64) (release func(), err error) {
	return r.bytes.Acquire(ctx, u, min(n, r.bytes.Own()))
}
