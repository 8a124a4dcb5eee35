package engine

import (
	"context"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	// Unserved is how long no process must have served a platform before processes that do not know it visit its
	// accounts, which marks their jobs as "platform not configured". It is longer than one process takes to restart
	// during a rolling change of the configuration.
	Unserved = 5 * time.Minute

	beat       = time.Minute // interval of noting the platforms that a process serves
	perUnknown = 10          // concurrent visits of accounts at unknown platforms
	fewest     = 100         // minimum of concurrent visits per platform
)

// room returns how many visits can start now; any is false if none can.
func (e *Engine) room() (r dispatch.Room, any bool) {
	running, total := e.visitsByPlatform()
	if len(e.Platforms) == 0 {
		r.Others = e.Visits - total
		return r, r.Others > 0
	}
	each := max(e.Visits/len(e.Platforms), min(e.Visits, fewest))
	r.Platforms = make(map[string]int, len(e.Platforms))
	for _, name := range e.Platforms {
		free := each - running[name]
		r.Platforms[name] = free
		any = any || free > 0
		total -= running[name]
	}
	r.Others, r.Unserved = e.roomForUnknown(total)
	return r, any || r.Others > 0
}

// roomForUnknown returns how many accounts of unknown platforms can be visited, and for how long no process must have
// served their platform. Where there are other processes, the store must have answered during that time: otherwise they
// could not have noted what they serve.
func (e *Engine) roomForUnknown(running int) (n int, unserved time.Duration) {
	switch {
	case e.Notifier == nil:
		return perUnknown - running, 0
	case time.Since(e.since) < Unserved:
		return 0, Unserved
	}
	return perUnknown - running, Unserved
}

// noteServedRegularly notes every minute which platforms this process serves. If the clock was set back since, that
// also moves what is planned, see [Store].
func (e *Engine) noteServedRegularly(ctx context.Context) {
	noting := failureLog{log: e.Log, operation: "noting which platforms this process serves"}
	for ctx.Err() == nil && len(e.Platforms) > 0 {
		err := e.noteServed(ctx)
		next := beat
		if ctx.Err() == nil {
			noting.record(ctx, err)
		}
		if err != nil {
			next = repair
		}
		_ = dispatch.Sleep(ctx, next)
	}
}

func (e *Engine) noteServed(ctx context.Context) (err error) {
	defer dispatch.RecoverAsError(ctx, e.Log, "serve", &err)
	asking, stop := context.WithTimeout(ctx, answer)
	defer stop()
	return e.Store.NoteServed(asking, e.Platforms)
}

func (e *Engine) visitsByPlatform() (visits map[string]int, total int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	visits = map[string]int{}
	for a, n := range e.running {
		visits[a.Platform()] += n
		total += n
	}
	return visits, total
}
