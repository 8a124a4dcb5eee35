package dispatch

import (
	"context"
	"time"
)

type idleKey struct{}

// WithIdle returns a context in which begin is called before the broker waits for something that costs it nothing: a platform, a
// document, or a change of a job. end is called when that is over, and may wait for its part. Both may be called by several
// goroutines at once.
func WithIdle(ctx context.Context, begin func() (end func(context.Context))) context.Context {
	return context.WithValue(ctx, idleKey{}, begin)
}

// idle notes that the request of ctx is idle until the function that is returned is called.
func idle(ctx context.Context) (over func()) {
	begin, ok := ctx.Value(idleKey{}).(func() func(context.Context))
	if !ok {
		return func() {}
	}
	end := begin()
	return func() { end(ctx) }
}

// slowAfter is when work that may ask a platform counts as idle.
const slowAfter = time.Second

// idleIfSlow is idle for work that may or may not wait for a platform: it counts as idle from slowAfter on.
func idleIfSlow(ctx context.Context) (over func()) {
	begun := make(chan func(), 1)
	timer := time.AfterFunc(slowAfter, func() { begun <- idle(ctx) })
	return func() {
		if !timer.Stop() {
			(<-begun)()
		}
	}
}
