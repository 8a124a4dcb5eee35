package broker

import (
	"context"
	"time"
)

type idleKey struct{}

// WithIdle returns a context with which the broker calls begin before it waits for a platform, a document, or a change
// of a job, because it uses no CPU while it waits. It calls end after the wait; end may block until the request may
// continue. Several goroutines may call both at once.
func WithIdle(ctx context.Context, begin func() (end func(context.Context))) context.Context {
	return context.WithValue(ctx, idleKey{}, begin)
}

// idle marks the request of ctx as idle until the returned function is called.
func idle(ctx context.Context) (over func()) {
	begin, ok := ctx.Value(idleKey{}).(func() func(context.Context))
	if !ok {
		return func() {}
	}
	end := begin()
	return func() { end(ctx) }
}

// slowAfter is how long work that may wait for a platform runs before it counts as idle.
const slowAfter = time.Second

// idleIfSlow marks the request of ctx as idle from slowAfter on, until the returned function is called. It is for work
// that may or may not wait for a platform.
func idleIfSlow(ctx context.Context) (over func()) {
	begun := make(chan func(), 1)
	timer := time.AfterFunc(slowAfter, func() { begun <- idle(ctx) })
	return func() {
		if !timer.Stop() {
			(<-begun)()
		}
	}
}
