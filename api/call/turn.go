package call

import (
	"context"
	"sync"
	"time"
)

// TurnOfRequest bounds how long a request waits for earlier requests of its user or address.
const TurnOfRequest = 10 * time.Second

// turn is a request's place among those that are served at once. It is released while the request waits for something
// outside the broker, and at its end.
type turn struct {
	enter func(context.Context) (release func(), err error)

	mu      sync.Mutex
	release func() // nil: the turn is released
	waits   int    // waits of this request that have begun and not ended
	ended   bool
}

// NewTurn takes a turn by enter, which waits for it.
func NewTurn(ctx context.Context, enter func(context.Context) (release func(), err error)) (*turn, error) {
	release, err := enter(ctx)
	return &turn{enter: enter, release: release}, err
}

// pause releases the turn until resume was called as often as pause. A nil turn belongs to a request that is not
// counted.
func (t *turn) pause() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.waits++
	t.releaseLocked()
	t.mu.Unlock()
}

// resume waits for the turn again. A request that gets no turn within TurnOfRequest continues without one: its effects
// may already be stored, so it must be answered.
func (t *turn) resume(ctx context.Context) {
	if t == nil || !t.addWaits(-1) {
		return
	}
	release, err := t.enter(ctx)
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.waits > 0 || t.release != nil {
		release()
		return
	}
	t.release = release
}

// addWaits adds to the number of waits and reports whether the turn must be taken again.
func (t *turn) addWaits(more int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits += more
	return t.waits == 0 && !t.ended && t.release == nil
}

// End releases the turn for good. It may be called more than once.
func (t *turn) End() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.ended = true
	t.releaseLocked()
	t.mu.Unlock()
}

func (t *turn) releaseLocked() {
	if t.release != nil {
		t.release()
		t.release = nil
	}
}

// PauseTurn releases the turn of a call until resume is called.
func (c *Call) PauseTurn() (resume func(context.Context)) {
	t := c.Turn
	t.pause()
	return t.resume
}
