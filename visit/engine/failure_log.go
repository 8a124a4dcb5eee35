package engine

import (
	"context"
	"log/slog"
	"time"
)

// logEvery is how often a continuing failure is logged.
const logEvery = time.Minute

// failureLog logs an operation that keeps failing: when the failures begin, once a minute while they last, and when
// they are over. It must be used by one goroutine only.
type failureLog struct {
	log       *slog.Logger
	operation string // the operation, at the beginning of each message

	failures int // consecutive
	since    time.Time
	logged   time.Time
}

// record records the result of one attempt.
func (t *failureLog) record(ctx context.Context, err error) {
	switch {
	case err == nil && t.failures > 0:
		t.log.InfoContext(ctx, t.operation+" works again", "failures", t.failures, "after",
			time.Since(t.since).Round(time.Second))
		t.failures = 0
	case err == nil:
	case t.failures == 0:
		t.failures, t.since, t.logged = 1, time.Now(), time.Now()
		t.log.WarnContext(ctx, t.operation+" failed; retrying", "error", err)
	default:
		t.failures++
		if time.Since(t.logged) >= logEvery {
			t.logged = time.Now()
			t.log.WarnContext(ctx, t.operation+" still fails", "failures", t.failures, "error", err)
		}
	}
}
