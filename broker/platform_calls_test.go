package broker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// silent never gives the logs of the job whose logs are asked for first, and all others at once.
type silent struct {
	talking
	mu   sync.Mutex
	hung dispatch.Ref // whose logs never come
}

func (s *silent) Logs(ctx context.Context, _ dispatch.Token, r dispatch.Ref) ([]dispatch.LogEntry, error) {
	s.mu.Lock()
	if s.hung == (dispatch.Ref{}) {
		s.hung = r // the first that are asked for
	}
	hangs := s.hung == r
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, nil
}

// TestCalls_OneUserDoesNotDelayOthers: a user whose logs, results and descriptions never come has half of a platform's
// slots for them.
func TestCalls_OneUserDoesNotDelayOthers(t *testing.T) {
	with(t, dispatch.AccessShared, &silent{}, func(t *testing.T, h *testBroker) {
		ids := map[dispatch.UserID]dispatch.JobID{}
		for _, u := range []dispatch.UserID{"ann", "bob"} {
			r, err := h.Accept(t.Context(), u, request("a"), dispatch.Key{})
			if err != nil {
				t.Fatal(err)
			}
			ids[u] = r.ID
		}
		time.Sleep(time.Minute)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { _, _ = h.Logs(t.Context(), "ann", ids["ann"]) }) // hangs, or is one too many
		}
		synctest.Wait()
		begin := time.Now()
		if _, err := h.Logs(t.Context(), "bob", ids["bob"]); err != nil || time.Since(begin) > time.Second {
			t.Errorf("another's logs after %v: %v", time.Since(begin), err)
		}
		all.Wait()
	})
}
