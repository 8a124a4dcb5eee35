package engine

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Store hands out accounts to visit, under leases.
type Store interface {
	// Dequeue leases accounts that are due and that no process holds, each for ttl, as many as r allows. It also
	// returns how long until the next account that it did not lease becomes due: an hour at most. Accounts that are due
	// already count for that only if there was room for their platform.
	Dequeue(ctx context.Context, r dispatch.Room, ttl time.Duration) ([]dispatch.Lease, time.Duration, error)
	// NoteServed stores that a process serves these platforms at present. If the last such note lies more than
	// [dispatch.ClockJump] in the future, the clock was set back since; plans for later than [dispatch.ClockJump] from
	// now, and leases that end after that note, are then moved forward by as much as it lies ahead.
	NoteServed(ctx context.Context, platforms []string) error
	// Release ends the lease and plans the next visit at due (zero: none), or now if the account was woken since it had
	// the given number of wakes. Conflict when the lease is lost.
	Release(ctx context.Context, l dispatch.Lease, wakes int64, due time.Time) error
}
