package broker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/detector"
)

// stages is a platform where a job is queued for so long after its start, and runs for so long then.
type stages struct {
	script
	queue, run time.Duration

	mu     sync.Mutex
	starts map[dispatch.Ref]time.Time
}

func newStages(queue, run time.Duration) *stages {
	p := &stages{queue: queue, run: run, starts: map[dispatch.Ref]time.Time{}}
	p.submit = func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		r := dispatch.Ref{ID: s.Tag}
		p.starts[r] = time.Now()
		return dispatch.SubmitResult{Ref: r, Started: true}, nil
	}
	return p
}

func (p *stages) Status(_ context.Context, _ dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statuses.Add(1)
	switch age := time.Since(p.starts[r]); {
	case age < p.queue:
		return dispatch.Report{Status: dispatch.Queued}, nil
	case age < p.queue+p.run:
		return dispatch.Report{Status: dispatch.Running}, nil
	}
	return dispatch.Report{Status: dispatch.Finished}, nil
}

// noticed is how long after its end a job was seen to have ended.
func (p *stages) noticed(t *testing.T, h *testBroker, id dispatch.JobID) time.Duration {
	t.Helper()
	for h.stored(t, id).Phase != dispatch.Ended {
		time.Sleep(100 * time.Millisecond)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for r, start := range p.starts {
		if r == h.stored(t, id).Ref {
			return time.Since(start.Add(p.queue + p.run))
		}
	}
	t.Fatal("the job was never started")
	return 0
}

// The pause between two status reads grows with the time since a job moved at its platform, whatever it waited for a
// slot. So its slot is free soon after its end.
func TestPoll_PauseGrowsWithTheTimeSinceTheJobMoved(t *testing.T) {
	detector.Skip(t)
	for name, c := range map[string]struct {
		wait, queue, run, within time.Duration
	}{
		"a fresh job":                           {0, 0, 10 * time.Second, 5 * time.Second},
		"a job that waited here":                {2 * time.Hour, 0, 10 * time.Second, 5 * time.Second},
		"a job that was queued at its platform": {0, 2 * time.Hour, 2 * time.Minute, 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := newStages(c.queue, c.run), conformance.NewMemStore(clock{})
				h := open(s, backend("a", dispatch.AccessShared, p))
				if err := s.Hold(t.Context(), "a/shared", c.wait, dispatch.NotTaken, ""); err != nil {
					t.Fatal(err)
				}
				r := h.accept(t)
				if late := p.noticed(t, h, r.ID); late > c.within {
					t.Errorf("its end was noticed after %v", late)
				}
				h.stop()
			})
		})
	}
}

// A job that does not move is read once a minute in the end.
func TestPoll_JobThatDoesNotMoveIsReadRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newStages(0, 24*time.Hour)
		h := open(conformance.NewMemStore(clock{}), backend("a", dispatch.AccessShared, p))
		h.accept(t)
		time.Sleep(10 * time.Hour)
		if n := p.statuses.Load(); n > 10*60+50 {
			t.Errorf("it was read %d times in 10 hours", n)
		}
		h.stop()
	})
}
