package api

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const longestWait = time.Minute

// patience is how long a client waits for a change, and from which looks: those that it knows, or if it does not say
// those that it finds.
type patience struct {
	wait  time.Duration
	known string // an ETag, "" for none
}

// patience reads wait, in seconds, and If-None-Match. What is out of bounds is brought within.
func (r *request) patience() (p patience, faults []dispatch.Fault) {
	u := r.http.URL()
	if query := u.Query(); query.Has("wait") {
		seconds, err := strconv.ParseFloat(query.Get("wait"), 64)
		if math.IsNaN(seconds) || err != nil && !errors.Is(err, strconv.ErrRange) {
			return p, []dispatch.Fault{{Loc: []any{"query", "wait"}, Type: "float_parsing",
				Msg: "Input should be a valid number, unable to parse string as a number"}}
		}
		p.wait = time.Duration(min(max(seconds, 0), longestWait.Seconds()) * float64(time.Second))
	}
	p.known = r.http.Header("If-None-Match")
	return p, nil
}

// etag is a weak validator (RFC 9110 section 8.8.1): it leaves out when the platform was asked.
func etag(look uint64) string { return `W/"` + strconv.FormatUint(look, 36) + `"` }

// awaitChange gives what see sees, fresh, as soon as it looks different from what is known, or when the time is over.
// state tells the looks, and whether they can change.
func awaitChange[T any](ctx context.Context, a *api, p patience, see func(fresh time.Duration) (T, error), state func(T) (look uint64, live bool)) (T, error) {
	changed, stop := a.Broker.Watch(user(ctx))
	defer stop()
	end := time.Now().Add(p.wait)
	seen, err := see(a.Freshness)
	for known := p.known; err == nil; {
		look, live := state(seen)
		if known == "" {
			known = etag(look)
		}
		left := time.Until(end)
		if left <= 0 || !live || etag(look) != known {
			break
		}
		seen, err = see(a.afterChange(ctx, changed, left))
	}
	return seen, err
}

// afterChange returns when there may be something new, with the freshness to look with: as known after a signal, else
// the platform is to be asked.
func (a *api) afterChange(ctx context.Context, changed <-chan struct{}, left time.Duration) time.Duration {
	timer := time.NewTimer(min(left, a.Freshness))
	defer timer.Stop()
	select {
	case <-changed:
		return dispatch.AsKnown
	case <-timer.C:
	case <-ctx.Done():
	}
	return a.Freshness
}
