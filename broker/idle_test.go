package broker_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// idleTime adds up how long requests are idle.
type idleTime struct {
	mu    sync.Mutex
	since time.Time
	all   time.Duration
}

func (i *idleTime) begin() (end func(context.Context)) {
	i.mu.Lock()
	i.since = time.Now()
	i.mu.Unlock()
	return func(context.Context) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.all += time.Since(i.since)
		i.since = time.Time{}
	}
}

// checking is a platform that takes two seconds for each thing.
type checking struct{ script }

func (*checking) Check(context.Context, dispatch.Token, dispatch.Request, *dispatch.Dimension) (string, error) {
	time.Sleep(2 * time.Second)
	return "", nil
}

// TestIdle_CoversWaitsForPlatforms: requests are idle while a platform has not answered. A check counts as idle from
// one second on.
func TestIdle_CoversWaitsForPlatforms(t *testing.T) {
	slowly := func() { time.Sleep(2 * time.Second) }
	var finished atomic.Bool
	p := &checking{script{
		submit: func(_ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
			slowly()
			return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true}, nil
		},
		status: func(dispatch.Token) (dispatch.Report, error) {
			slowly()
			if finished.Load() {
				return dispatch.Report{Status: dispatch.Finished}, nil
			}
			return dispatch.Report{Status: dispatch.Running}, nil
		},
		results: func(dispatch.Token) (json.RawMessage, error) {
			slowly()
			return json.RawMessage(`{}`), nil
		},
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		var job dispatch.JobID
		for _, step := range []struct {
			name string
			want time.Duration
			do   func(context.Context) error
		}{
			{"submit", 3 * time.Second, func(ctx context.Context) error {
				r, err := h.Accept(ctx, "ann", request("a"), dispatch.Key{})
				job = r.ID
				return err
			}},
			{"read", 2 * time.Second, func(ctx context.Context) error {
				time.Sleep(time.Hour)
				_, err := h.Read(ctx, "ann", job, time.Second)
				return err
			}},
			{"list", 2 * time.Second, func(ctx context.Context) error {
				time.Sleep(time.Hour)
				return h.Freshen(ctx, "ann", dispatch.Scope{Alone: true}, time.Second)
			}},
			{"results", 2 * time.Second, func(ctx context.Context) error {
				finished.Store(true)
				time.Sleep(time.Hour)
				synctest.Wait()
				_, err := h.Results(ctx, "ann", job)
				return err
			}},
		} {
			var idle idleTime
			if err := step.do(broker.WithIdle(t.Context(), idle.begin)); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if idle.all < step.want-time.Millisecond || idle.all > step.want+500*time.Millisecond ||
				!idle.since.IsZero() {
				t.Errorf("%s: idle for %v, want %v", step.name, idle.all, step.want)
			}
		}
	})
}
