package live

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// errNotModified is the response to a client whose copy is current (RFC 9110, section 15.4.5).
var errNotModified = call.Refusal{Status: http.StatusNotModified}

// waiting is what a request asks for with wait and If-None-Match.
type waiting struct {
	wait    time.Duration
	known   validators
	header  http.Header     // of the response
	changed <-chan struct{} // signals that the response may have changed; nil for a request that does not wait
	Release func()          // must be called at the end
}

const longestWait = time.Minute

// Await reads the query parameter wait (seconds, clamped to 0…60) and the header If-None-Match. A request that waits
// takes one of its user's places and subscribes to changes.
func (a *Lists) Await(ctx context.Context, in *openapi.Request,
	watch func() (changed <-chan struct{}, stop func())) (waiting, error) {
	wait := openapi.Seconds(in.Query(), "wait", 0, 0, longestWait)
	r, response := humago.Unwrap(in.HTTP)
	w := waiting{wait: wait, header: response.Header(), known: parseValidators(r.Header.Values("If-None-Match")),
		Release: func() {}}
	if wait <= 0 {
		return w, nil
	}
	release, err := a.EnterWait(call.User(ctx))
	if err != nil {
		return w, err
	}
	changed, stop := watch()
	w.changed, w.Release = changed, func() {
		stop()
		release()
	}
	return w, nil
}

// validators are the entity tags of If-None-Match without the prefix W/, which does not matter there (RFC 9110, section
// 13.1.2), or the single element *.
type validators []string

// parseValidators reads a list of entity tags up to the first malformed one.
func parseValidators(lines []string) (all validators) {
	rest := strings.Join(lines, ",")
	if strings.TrimSpace(rest) == "*" {
		return validators{"*"}
	}
	for {
		rest = strings.TrimPrefix(strings.TrimLeft(rest, " \t,"), "W/")
		tag, after, ok := strings.Cut(strings.TrimPrefix(rest, `"`), `"`)
		if !ok || !strings.HasPrefix(rest, `"`) {
			return all
		}
		all, rest = append(all, `"`+tag+`"`), after
	}
}

func (v validators) match(tag string) bool {
	return slices.Contains(v, "*") || slices.Contains(v, strings.TrimPrefix(tag, "W/"))
}

// etag returns a weak validator (RFC 9110, section 8.8.1), because responses also contain the time when the platform
// was asked.
func etag(digest []byte) string { return `W/"` + base64.RawURLEncoding.EncodeToString(digest) + `"` }

// AwaitChange calls see until the ETag that it returns differs from those of the client, or from the first one if the
// client sent none, until the wait is over, or until the service stops. If the client's ETag is still current then, it
// returns errNotModified. A client that sent none does not wait for a change of what has ended.
func AwaitChange[T any](ctx context.Context, a *Lists, w waiting, see func(ctx context.Context, fresh time.Duration) (T,
	string, error), ended func(T) bool) (T, string, error) {
	end := time.Now().Add(w.wait)
	shown, tag, err := seeOrStop(ctx, a, see, a.Freshness)
	for known := w.known; err == nil; {
		left := time.Until(end)
		if left <= 0 || known == nil && ended(shown) {
			break
		}
		if known == nil {
			known = validators{strings.TrimPrefix(tag, "W/")}
		}
		if !known.match(tag) || ctx.Err() != nil || a.Life.Err() != nil {
			break
		}
		shown, tag, err = seeOrStop(ctx, a, see, a.afterChange(ctx, w.changed, left))
	}
	if err == nil && w.known.match(tag) {
		w.header.Set("ETag", tag)
		w.header.Set("Cache-Control", openapi.Revalidate)
		err = errNotModified
	}
	return shown, tag, err
}

// seeOrStop calls see. If the service stops while see waits for a platform, it returns what is known.
func seeOrStop[T any](ctx context.Context, a *Lists, see func(context.Context, time.Duration) (T, string, error),
	fresh time.Duration) (T, string, error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.Life, cancel)()
	shown, tag, err := see(asking, fresh)
	if err != nil && a.Life.Err() != nil {
		return see(ctx, broker.AsKnown)
	}
	return shown, tag, err
}

// afterChange waits for a possible change. It returns the freshness to read with: as known after a signal, else with
// the platform asked.
func (a *Lists) afterChange(ctx context.Context, changed <-chan struct{}, left time.Duration) time.Duration {
	resume := call.In(ctx).PauseTurn()
	defer resume(ctx)
	timer := time.NewTimer(min(left, a.Freshness))
	defer timer.Stop()
	select {
	case <-changed:
		return broker.AsKnown
	case <-timer.C:
	case <-ctx.Done():
	case <-a.Life.Done():
		return broker.AsKnown
	}
	return a.Freshness
}

// BeginWait counts a request among those of its user that wait, and no longer among those that are served at once,
// until end is called. The returned context also ends when the service stops.
func (a *Lists) BeginWait(ctx context.Context) (waiting context.Context, end func(), err error) {
	release, err := a.EnterWait(call.User(ctx))
	if err != nil {
		return nil, nil, err
	}
	resume := call.In(ctx).PauseTurn()
	waiting, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(a.Life, cancel)
	return waiting, func() {
		stop()
		cancel()
		resume(ctx)
		release()
	}, nil
}

// AwaitEnd returns a job when it has ended, or as it was last read when the wait is over, the service stops, or the job
// cannot be read. A user with too many requests that wait does not wait.
func (a *Lists) AwaitEnd(ctx context.Context, job dispatch.Record, wait time.Duration) dispatch.Record {
	waiting, end, err := a.BeginWait(ctx)
	if err != nil {
		return job
	}
	defer end()
	waiting, cancel := context.WithTimeout(waiting, wait)
	defer cancel()
	return a.Broker.AwaitEnd(waiting, job, a.Freshness)
}
