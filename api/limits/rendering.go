package limits

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Bytes of memory for reading and writing large requests in this process.
const (
	renderMemory      = 128 << 20 // default
	LeastRenderMemory = 64 << 20  // half of it, the share of one user, fits the largest request
)

// rendering bounds the memory for large requests, in total and for each user. One user gets at most half of it.
type rendering struct {
	Bytes *bounds.Places[dispatch.UserID]
	Lists bounds.Shares[dispatch.UserID] // large lists that are being written
}

// ListsOfUser bounds the large lists of one user that are read and written at once. Otherwise a thousand requests of
// one user could take all database connections.
const ListsOfUser = 8

func NewRendering(total int64) *rendering {
	total = max(total, LeastRenderMemory)
	return &rendering{Bytes: bounds.NewPlaces[dispatch.UserID](total, total/2),
		Lists: bounds.Shares[dispatch.UserID]{Most: ListsOfUser}}
}

// Acquire waits for n bytes, at most a user's share.
func (r *rendering) Acquire(ctx context.Context, u dispatch.UserID, n int64) (release func(), err error) {
	return r.Bytes.Acquire(ctx, u, min(n, r.Bytes.Own()))
}

// EnterList waits for one of the places of a user's lists.
func (a *Admission) EnterList(ctx context.Context, u dispatch.UserID) (release func(), err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, call.RequestWithin, facade.ErrTooSlow)
	defer cancel()
	return a.Rendering.Lists.Acquire(waiting, u, 1)
}

const weighWithin = 30 * time.Second

var errManyLarge = call.Refusal{Status: http.StatusServiceUnavailable, Code: "SERVICE_UNAVAILABLE",
	Header: call.RetryAfter(5 * time.Second),
	Message: "The memory for large requests is in use. Repeat the request in a few seconds, or list jobs with " +
		"parameters=false."}

// AwaitMemory waits until memory for requests of that many bytes is free. It takes three times the size, because a
// request is in memory as read from the database, decoded, and encoded. It returns errManyLarge after weighWithin.
func (a *Admission) AwaitMemory(ctx context.Context, u dispatch.UserID, bytes int) (release func(), err error) {
	within, cancel := context.WithTimeout(ctx, weighWithin)
	defer cancel()
	if release, err = a.Rendering.Acquire(within, u, 3*int64(bytes)); err != nil {
		return nil, cmp.Or(ctx.Err(), error(errManyLarge))
	}
	return release, nil
}
