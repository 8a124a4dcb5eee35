package limits

import (
	"context"
	"iter"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// HeavyAfter is how many bytes of a list are read or written before the rest counts as heavy work.
const HeavyAfter = 64 << 10

// NewCores returns the bound on work that takes a core: reading and encoding large lists, and splitting areas. One user
// or, without one, one address has one core at a time, and all together have one less than there are, so that short
// requests find a free one.
func NewCores(cores int) *bounds.Places[string] {
	return bounds.NewPlaces[string](int64(max(1, cores-1)), 1)
}

// ClientOf returns the name under which a request counts: its user or, if that is not known, its address.
func ClientOf(ctx context.Context) string {
	c := call.In(ctx)
	if c.Caller.User != "" {
		return nameOf(c.Caller.User)
	}
	return "address " + Network(c.Address).String()
}

func nameOf(u dispatch.UserID) string { return "user " + string(u) }

// HeavyTurn returns a turn of heavy work for a user.
func (a *Admission) HeavyTurn(u dispatch.UserID) HeavyTurn { return HeavyTurn{Cores: a.Cores, User: u} }

// HeavyTurn is the turn of one list. It is held only while the list is read from the database and encoded, not while
// the list waits for its client or for memory. It is for one goroutine.
type HeavyTurn struct {
	Cores   *bounds.Places[string]
	User    dispatch.UserID
	done    int    // bytes so far
	held    int    // bytes since the turn was taken
	release func() // nil: not held
}

// Acquire takes the turn unless it is held already.
func (t *HeavyTurn) Acquire(ctx context.Context) (err error) {
	if t.release == nil {
		t.release, err = t.Cores.Acquire(ctx, nameOf(t.User), 1)
	}
	return err
}

// ReleaseTurn releases the turn. It may be called more than once.
func (t *HeavyTurn) ReleaseTurn() {
	if t.release != nil {
		t.release()
		t.release, t.held = nil, 0
	}
}

// Count adds n bytes. After each PieceSize bytes it releases the turn for a moment, so that other lists get one:
// passing it on for each element made two lists of 10,000 jobs take four times as long. A short list has no turn.
func (t *HeavyTurn) Count(ctx context.Context, n int) error {
	t.done += n
	if t.held += n; t.held >= PieceSize {
		t.ReleaseTurn()
	}
	if t.done <= HeavyAfter {
		return nil
	}
	return t.Acquire(ctx)
}

// readCost is how many bytes each element of a list counts that is read, whether or not it is written.
const readCost = 512

// InTurns returns a list whose reading counts as work of the turn. It is for lists of which many elements may be read
// and few are written.
func InTurns[T any](ctx context.Context, t *HeavyTurn, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range all {
			if err == nil {
				err = t.Count(ctx, readCost)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

const PieceSize = 64 << 10 // bytes that are sent to a client at once
