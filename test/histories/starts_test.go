package histories

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// starting changes a history to a two-step platform with many faults, whose statuses lag by less than the time after
// which a start in doubt is repeated. If the clock jumps, the lag is half as long, because each jump may shorten a
// pause between two polls.
func starting(settles time.Duration) func(*history) {
	return func(h *history) {
		h.twoStep, h.atLeastOnce, h.world.Limit, h.world.Mean, h.world.Lag = true, false, h.limits.Jobs, 30, settles
		if h.jumps {
			h.world.Lag /= 2
		}
		h.platform = func(l conformance.Link) dispatch.Platform { return conformance.TwoStep{Link: l} }
	}
}

// knowing changes a history so that the platforms are known to show starts promptly, with the given lag, from the
// beginning.
func knowing(lag time.Duration) func(*history) {
	return func(h *history) {
		seen := dispatch.StartsSeen{Prompt: dispatch.PromptStarts, Lag: lag}
		for _, platform := range []string{"p", "q"} {
			if err := h.store.NoteStarts(h.t.Context(), platform, seen); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}

// TestStarts_LearnedBoundInRandomHistories checks that no job is started twice while the lag stays below two minutes or
// four times the longest lag observed.
func TestStarts_LearnedBoundInRandomHistories(t *testing.T) {
	for s := range share(90) {
		lag := []time.Duration{0, 20 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}[s%5]
		if !report(t, play(t, s+1, inMemory, starting(max(2*time.Minute, 4*lag)), knowing(lag))) {
			return
		}
	}
}

// TestStarts_ConfiguredBoundInRandomHistories checks that no job is started twice while the lag stays below the
// platform's start_settles_after.
func TestStarts_ConfiguredBoundInRandomHistories(t *testing.T) {
	for s := range share(60) {
		settles := []time.Duration{90 * time.Second, 5 * time.Minute, time.Hour}[s%3]
		byHand := func(h *history) { h.settles = settles }
		if !report(t, play(t, s+1, inMemory, starting(settles), byHand)) {
			return
		}
	}
}

// startLoser is a two-step platform that loses one start: it responds with 500, or not at all, and does not start the
// job.
type startLoser struct {
	twoStep
	*startsAt
}

// startsAt counts the requested starts, of which it loses one.
type startsAt struct {
	mu       sync.Mutex
	n, lose  int
	answered bool
	lost     dispatch.Ref
	at       time.Time
}

func (p startLoser) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult,
	error) {
	if s.Ref != (dispatch.Ref{}) && p.loses(s.Ref) {
		return dispatch.SubmitResult{Ref: s.Ref}, &dispatch.Error{Kind: dispatch.Uncertain, Op: "loser",
			Text: "HTTP 500", Answered: p.answered}
	}
	return p.twoStep.Submit(ctx, t, s)
}

func (s *startsAt) loses(ref dispatch.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n++; s.n != s.lose {
		return false
	}
	s.lost, s.at = ref, time.Now()
	return true
}

// settledIn runs 30 jobs and loses the start of the last one. It returns the time from the lost start until that job
// was started.
func settledIn(t *testing.T, lag time.Duration, answered bool) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 3, Requests: 4, Send: 30 * time.Second})
		h.world.Lag = lag
		starts := &startsAt{lose: 30, answered: answered}
		h.platform = func(l conformance.Link) dispatch.Platform {
			return startLoser{conformance.TwoStep{Link: l}, starts}
		}
		p := h.start("one")
		h.procs = []*process{p}
		time.Sleep(time.Second)
		p.acceptTask("ann", request(), 30)
		time.Sleep(6 * time.Hour)
		for _, r := range h.world.Runs() {
			if len(r.Starts) != 1 {
				t.Errorf("%s was started %d times", r.Ref, len(r.Starts))
			}
			if r.Ref == starts.lost && len(r.Starts) > 0 {
				took = r.Starts[0].Sub(starts.at)
			}
		}
		h.end()
	})
	return took
}

// TestStarts_LostAtAPromptPlatform checks when a job whose start was lost is started again at a platform known to be
// prompt: within 150 s if the platform responded with an error, and within 3 minutes without a response, because the
// request may take up to limits.send.
func TestStarts_LostAtAPromptPlatform(t *testing.T) {
	for answered, within := range map[bool]time.Duration{true: 150 * time.Second, false: 3 * time.Minute} {
		if took := settledIn(t, time.Nanosecond, answered); took < 2*time.Minute || took > within {
			t.Errorf("answered %v: started after %v, want 2 minutes to %v", answered, took, within)
		}
	}
}

// TestStarts_LostAtALaggingPlatform checks that a lost start is repeated only after 20 minutes at a platform known to
// lag.
func TestStarts_LostAtALaggingPlatform(t *testing.T) {
	if took := settledIn(t, 12*time.Minute, true); took < 20*time.Minute {
		t.Errorf("started after %v, want at least 20 minutes", took)
	}
}
