package call

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// calm is how long no request must have failed before an outage of the database counts as over. A database that works
// in part, such as one that can be read but not written, then causes one outage in the log instead of one for each
// request.
const calm = 10 * time.Second

// unhealthy is the error of a failed health check. It wraps the database's error, which is only logged.
type unhealthy struct{ error }

// Unhealthy returns the error of a health check that failed with err.
func Unhealthy(err error) error { return unhealthy{err} }

func (u unhealthy) Unwrap() error { return u.error }

// IsDatabaseFailure reports whether a request failed because the database did not respond or refused to write.
func IsDatabaseFailure(err error) bool {
	if _, ok := errors.AsType[unhealthy](err); ok {
		return true
	}
	return dispatch.DatabaseError(err) != nil
}

// Answers answers requests that fail, and logs why.
type Answers struct {
	log    *slog.Logger
	outage outage
}

// NewAnswers returns answers that are logged to log.
func NewAnswers(log *slog.Logger) *Answers { return &Answers{log: log} }

// outage logs the begin and the end of an outage of the database once each.
type outage struct {
	mu       sync.Mutex
	since    time.Time // zero: the database answers
	last     time.Time // of the last failure
	refused  int       // failed requests, including the first
	checking bool
}

// DatabaseFailed records a request that failed because of the database.
func (a *Answers) DatabaseFailed(ctx context.Context, err error) {
	o := &a.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused++
	o.last = time.Now()
	if !o.since.IsZero() {
		return
	}
	o.since = o.last
	a.log.ErrorContext(ctx, "database unavailable; further failures are not logged until it responds", "error", err)
}

// DatabaseAnswered records a request that succeeded. During an outage it runs check, because not every request needs
// the database; nil means that the database has just answered.
func (a *Answers) DatabaseAnswered(ctx context.Context, check func(context.Context) error) {
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
	a.log.InfoContext(ctx, "database available again", "refused", o.refused, "after",
		o.last.Sub(o.since).Round(time.Second))
	o.since, o.refused = time.Time{}, 0
}

// check reports whether the caller should find out if the outage is over.
func (o *outage) check() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() || o.checking || time.Since(o.last) < calm {
		return false
	}
	o.checking = true
	return true
}
