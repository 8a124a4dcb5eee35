package api

import (
	"context"
	"encoding/base64"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

const longestWait = time.Minute

var errTooManyWaits = refusal{status: http.StatusTooManyRequests, code: "RATE_LIMITED",
	message: "You have too many requests that wait for a change. End one, or repeat this one without wait.",
	header:  retryAfter(10 * time.Second)}

// errNotModified is the response to a client whose copy is current (RFC 9110, section 15.4.5).
var errNotModified = refusal{status: http.StatusNotModified, code: "NOT_MODIFIED"}

// waiting is what a request asks for with wait and If-None-Match.
type waiting struct {
	wait    time.Duration
	known   validators
	header  http.Header     // of the response
	changed <-chan struct{} // signals that the response may have changed; nil for a request that does not wait
	release func()          // must be called at the end
}

// await reads the query parameter wait (seconds, clamped to 0…60) and the header If-None-Match. A request that waits
// takes one of its user's places and subscribes to changes.
func (a *api) await(ctx context.Context, in *request, watch func() (changed <-chan struct{}, stop func())) (waiting,
	error) {
	wait, faults := in.wait()
	if len(faults) > 0 {
		return waiting{}, invalid(faults)
	}
	r, response := humago.Unwrap(in.http)
	w := waiting{wait: wait, header: response.Header(), known: parseValidators(r.Header.Values("If-None-Match")),
		release: func() {}}
	if wait <= 0 {
		return w, nil
	}
	release, err := a.waits.enter(user(ctx), a.Limits.Sockets)
	if err != nil {
		return w, errTooManyWaits
	}
	changed, stop := watch()
	w.changed, w.release = changed, func() {
		stop()
		release()
	}
	return w, nil
}

func (r *request) wait() (time.Duration, []dispatch.Fault) {
	u := r.http.URL()
	query := u.Query()
	if !query.Has("wait") {
		return 0, nil
	}
	seconds, err := strconv.ParseFloat(query.Get("wait"), 64)
	if math.IsNaN(seconds) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, []dispatch.Fault{{Loc: []any{"query", "wait"}, Type: "float_parsing",
			Msg: "Input should be a valid number, unable to parse string as a number"}}
	}
	return time.Duration(min(max(seconds, 0), longestWait.Seconds()) * float64(time.Second)), nil
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

// awaitChange calls see until its ETag differs from those of the client, or from the first one if the client sent none,
// until the wait is over, or until the service stops. If the client's ETag is still current then, it returns
// errNotModified.
func awaitChange[T any](ctx context.Context, a *api, w waiting, see func(ctx context.Context, fresh time.Duration) (T,
	error), tag func(T) string) (T, error) {
	end := time.Now().Add(w.wait)
	shown, err := seeOrStop(ctx, a, see, a.Freshness)
	known := w.known
	for err == nil {
		now := tag(shown)
		if known == nil {
			known = validators{strings.TrimPrefix(now, "W/")}
		}
		left := time.Until(end)
		if left <= 0 || !known.match(now) || ctx.Err() != nil || a.life.Err() != nil {
			break
		}
		shown, err = seeOrStop(ctx, a, see, a.afterChange(ctx, w.changed, left))
	}
	if err == nil && w.known.match(tag(shown)) {
		w.header.Set("ETag", tag(shown))
		w.header.Set("Cache-Control", revalidate)
		return shown, errNotModified
	}
	return shown, err
}

// seeOrStop calls see. If the service stops while see waits for a platform, it returns what is known.
func seeOrStop[T any](ctx context.Context, a *api, see func(context.Context, time.Duration) (T, error),
	fresh time.Duration) (T, error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(a.life, cancel)
	defer stop()
	shown, err := see(asking, fresh)
	if err != nil && a.life.Err() != nil {
		return see(ctx, broker.AsKnown)
	}
	return shown, err
}

// afterChange waits for a possible change. It returns the freshness to read with: as known after a signal, else with
// the platform asked.
func (a *api) afterChange(ctx context.Context, changed <-chan struct{}, left time.Duration) time.Duration {
	resume := callIn(ctx).pauseTurn()
	defer resume(ctx)
	timer := time.NewTimer(min(left, a.Freshness))
	defer timer.Stop()
	select {
	case <-changed:
		return broker.AsKnown
	case <-timer.C:
	case <-ctx.Done():
	case <-a.life.Done():
		return broker.AsKnown
	}
	return a.Freshness
}
