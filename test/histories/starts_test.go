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

// starting is a history on a two-step platform with many faults, whose statuses lag, but never as long as it takes until a
// start in doubt is repeated. Where the clock jumps, which may cost a pause between two looks each time, half as long.
func starting(settles time.Duration) func(*history) {
	return func(h *history) {
		h.twoStep, h.atLeastOnce, h.world.Limit, h.world.Mean, h.world.Lag = true, false, h.limits.Jobs, 30, settles
		if h.jumps {
			h.world.Lag /= 2
		}
		h.platform = func(l conformance.Link) dispatch.Platform { return conformance.TwoStep{Link: l} }
	}
}

// knowing is a history at whose beginning platforms have shown to be prompt, but for a lag.
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

// No job is started twice while the lag stays below two minutes, or four times the worst that was seen.
func TestStarts_LearnedBoundInRandomHistories(t *testing.T) {
	for s := range uint64(90) {
		lag := []time.Duration{0, 20 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}[s%5]
		if !report(t, play(t, s+1, inMemory, starting(max(2*time.Minute, 4*lag)), knowing(lag))) {
			return
		}
	}
}

// No job is started twice while the lag stays below the platform's start_settles_after.
func TestStarts_ConfiguredBoundInRandomHistories(t *testing.T) {
	for s := range uint64(60) {
		settles := []time.Duration{90 * time.Second, 5 * time.Minute, time.Hour}[s%3]
		byHand := func(h *history) { h.settles = settles }
		if !report(t, play(t, s+1, inMemory, starting(settles), byHand)) {
			return
		}
	}
}

// startLoser is a two-step platform that answers one start with a 500, or not at all, and does not take it.
type startLoser struct {
	twoStep
	*startsAt
}

// startsAt counts the starts that were asked for.
type startsAt struct {
	mu       sync.Mutex
	n, lose  int
	answered bool
	lost     dispatch.Ref
	at       time.Time
}

func (p startLoser) Submit(ctx context.Context, t dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	if s.Ref != (dispatch.Ref{}) && p.loses(s.Ref) {
		return dispatch.SubmitResult{Ref: s.Ref}, &dispatch.Error{Kind: dispatch.Uncertain, Op: "loser", Text: "HTTP 500", Answered: p.answered}
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

// settledIn runs 30 jobs, the start of the last of which is lost, and returns how long it took until that was started.
func settledIn(t *testing.T, lag time.Duration, answered bool) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		h := calm(t, dispatch.Limits{Jobs: 3, Requests: 4, Send: 30 * time.Second})
		h.world.Lag = lag
		starts := &startsAt{lose: 30, answered: answered}
		h.platform = func(l conformance.Link) dispatch.Platform { return startLoser{conformance.TwoStep{Link: l}, starts} }
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

// Where a platform has shown to be prompt, a job whose start was lost is started within 150 seconds if the platform said
// that it failed, and after the time that its request could have taken longer if it said nothing.
func TestStarts_LostAtAPromptPlatform(t *testing.T) {
	for answered, within := range map[bool]time.Duration{true: 150 * time.Second, false: 3 * time.Minute} {
		if took := settledIn(t, time.Nanosecond, answered); took < 2*time.Minute || took > within {
			t.Errorf("answered %v: started after %v, want 2 minutes and %v at most", answered, took, within)
		}
	}
}

// A platform that was seen to lag is given the time that the slowest needs.
func TestStarts_LostAtALaggingPlatform(t *testing.T) {
	if took := settledIn(t, 12*time.Minute, true); took < 20*time.Minute {
		t.Errorf("started after %v", took)
	}
}
