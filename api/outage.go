package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// calm is how long nothing must have failed before an outage of the database counts as over. A database that answers only in part,
// such as one that can be read and not written, is then one outage in the log, and not one for each request.
const calm = 10 * time.Second

// unhealthy is what a failed health check returns. It wraps the database's error, which only the log shows.
type unhealthy struct{ error }

func (u unhealthy) Unwrap() error { return u.error }

// ofDatabase reports whether a request failed because the database did not answer, or refused to write.
func ofDatabase(err error) bool {
	if _, ok := errors.AsType[unhealthy](err); ok {
		return true
	}
	return dispatch.OfDatabase(err) != nil
}

// outage logs a database that is away once when it is lost, and once when it is back.
type outage struct {
	mu       sync.Mutex
	since    time.Time // zero: the database answers
	last     time.Time // of the failures
	refused  int       // requests, the first included
	checking bool
}

// lost notes a request that failed.
func (a *api) lost(ctx context.Context, err error) {
	o := &a.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused++
	o.last = time.Now()
	if !o.since.IsZero() {
		return
	}
	o.since = o.last
	a.Log.ErrorContext(ctx, "the database is lost; more failures are not logged until it is back", "error", err)
}

// found notes a request that succeeded. Not each of them needs the database, so check asks it; nil: it has just answered.
func (a *api) found(ctx context.Context, check func(context.Context) error) {
	if !a.outage.check() {
		return
	}
	var err error
	if check != nil {
		err = check(ctx)
	}
	o := &a.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	o.checking = false
	if err != nil {
		o.last = time.Now()
		return
	}
	a.Log.InfoContext(ctx, "the database is back", "refused", o.refused, "after", o.last.Sub(o.since).Round(time.Second))
	o.since, o.refused = time.Time{}, 0
}

// check reports whether the caller should find out if an outage is over.
func (o *outage) check() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() || o.checking || time.Since(o.last) < calm {
		return false
	}
	o.checking = true
	return true
}
