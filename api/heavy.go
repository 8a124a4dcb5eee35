package api

import (
	"context"
	"iter"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// heavyAfter is how many bytes of a list are read or written before the rest counts as heavy work.
const heavyAfter = 64 << 10

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
	own bounds.Shares[dispatch.UserID]
}

func newHeavyWork(cores int) *heavyWork {
	return &heavyWork{all: semaphore.NewWeighted(int64(max(1, cores-1))), own: bounds.Shares[dispatch.UserID]{Most: 1}}
}

// acquire waits for a turn, first among those of the user: a user who waits for their own holds no common turn.
func (h *heavyWork) acquire(ctx context.Context, u dispatch.UserID) (release func(), err error) {
	own, err := h.own.Acquire(ctx, u, 1)
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
		if !h.own.Awaited(u) {
			own()
			return
		}
		time.AfterFunc(min(rest*time.Since(began), mostRest), own)
	}, nil
}

// heavyTurn is the turn of one list. It is held only while the list is read from the database and encoded, not while
// the list waits for its client or for memory. It is for one goroutine.
type heavyTurn struct {
	work    *heavyWork
	user    dispatch.UserID
	done    int    // bytes so far
	held    int    // bytes since the turn was taken
	release func() // nil: not held
}

// acquire takes the turn unless it is held already.
func (t *heavyTurn) acquire(ctx context.Context) (err error) {
	if t.release == nil {
		t.release, err = t.work.acquire(ctx, t.user)
	}
	return err
}

// releaseTurn releases the turn. It may be called more than once.
func (t *heavyTurn) releaseTurn() {
	if t.release != nil {
		t.release()
		t.release, t.held = nil, 0
	}
}

// count adds n bytes. After each pieceSize bytes it releases the turn for a moment, so that other lists get one:
// passing it on for each element made two lists of 10,000 jobs take four times as long. A short list has no turn.
func (t *heavyTurn) count(ctx context.Context, n int) error {
	t.done += n
	if t.held += n; t.held >= pieceSize {
		t.releaseTurn()
	}
	if t.done <= heavyAfter {
		return nil
	}
	return t.acquire(ctx)
}

// readCost is how many bytes each element of a list counts that is read, whether or not it is written.
const readCost = 512

// inTurns returns a list whose reading counts as work of the turn. It is for lists of which many elements may be read
// and few are written.
func inTurns[T any](ctx context.Context, t *heavyTurn, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range all {
			if err == nil {
				err = t.count(ctx, readCost)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}
