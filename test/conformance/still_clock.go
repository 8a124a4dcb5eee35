package conformance

import (
	"sync"
	"time"
)

// StillClock is a clock that stands still except for Pass.
type StillClock struct {
	mu  sync.Mutex
	now time.Time
}

// NewStillClock returns a clock that shows a time.
func NewStillClock(now time.Time) *StillClock { return &StillClock{now: now} }

// Now implements dispatch.Clock.
func (c *StillClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pass sets the clock forward, or back if d is negative.
func (c *StillClock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
