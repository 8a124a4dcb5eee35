package engine

import (
	"context"
	"log/slog"
	"time"
)

// toldEvery is how often the log says that something goes on failing.
const toldEvery = time.Minute

// trouble logs something that fails again and again: when that begins, once a minute while it lasts, and when it is over. It
// belongs to one goroutine.
type trouble struct {
	log *slog.Logger
	of  string // what fails, as it stands at the begin of a message

	failures int // since it worked last
	since    time.Time
	told     time.Time
}

// heed notes how one attempt ended.
func (t *trouble) heed(ctx context.Context, err error) {
	switch {
	case err == nil && t.failures > 0:
		t.log.InfoContext(ctx, t.of+" works again", "failures", t.failures, "after", time.Since(t.since).Round(time.Second))
		t.failures = 0
	case err == nil:
	case t.failures == 0:
		t.failures, t.since, t.told = 1, time.Now(), time.Now()
		t.log.WarnContext(ctx, t.of+" failed; it is tried again and again", "error", err)
	default:
		t.failures++
		if time.Since(t.told) >= toldEvery {
			t.told = time.Now()
			t.log.WarnContext(ctx, t.of+" goes on failing", "failures", t.failures, "error", err)
		}
	}
}
