package limits

import (
	"context"
	"iter"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// HeavyAfter is how many bytes of a list are read or written before the rest counts as heavy work.
const HeavyAfter = 64 << 10

// A user with several large lists waits rest times as long as a turn took for the next one, at most mostRest: a turn
// also takes long while the database does not respond. On two cores, without it the 99th percentile of others' short
// requests was 1.5 to 2 times as long.
const (
	rest     = 2
	mostRest = time.Second
)

// heavyWork bounds how many goroutines read and encode large lists at the same time to one less than the number of
// cores, so that short requests find a free core. A user has one turn at a time, and while further lists of the user
// wait, the user's turns take up a third of the time.
type heavyWork struct {
	all *semaphore.Weighted
	Own bounds.Shares[dispatch.UserID]
}

func NewHeavyWork(cores int) *heavyWork {
	return &heavyWork{all: semaphore.NewWeighted(int64(max(1, cores-1))), Own: bounds.Shares[dispatch.UserID]{Most: 1}}
}

// Acquire waits for a turn, first among those of the user: a user who waits for their own holds no common turn.
func (h *heavyWork) Acquire(ctx context.Context, u dispatch.UserID) (release func(), err error) {
	own, err := h.Own.Acquire(ctx, u, 1)
	if err != nil {
		return nil, err
	}
	if err := h.all.Acquire(ctx, 1); err != nil {
		own()
		return nil, err
	}
	began := time.Now()
	return func() {
		h.all.Release(1)
		if !h.Own.Awaited(u) {
			own()
			return
		}
		time.AfterFunc(min(rest*time.Since(began), mostRest), own)
	}, nil
}

// HeavyTurn is the turn of one list. It is held only while the list is read from the database and encoded, not while
// the list waits for its client or for memory. It is for one goroutine.
type HeavyTurn struct {
	Work    *heavyWork
	User    dispatch.UserID
	done    int    // bytes so far
	held    int    // bytes since the turn was taken
	release func() // nil: not held
}

// Acquire takes the turn unless it is held already.
func (t *HeavyTurn) Acquire(ctx context.Context) (err error) {
	if t.release == nil {
		t.release, err = t.Work.Acquire(ctx, t.User)
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
