package broker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// The test of this file runs in a bubble of testing/synctest, see with.

// largeTasks is a store in which a change of a task takes a second.
type largeTasks struct {
	conformance.Store
	mu         sync.Mutex
	begun      map[dispatch.UserID]int
	most, busy map[dispatch.UserID]int
}

func (s *largeTasks) change(u dispatch.UserID) {
	s.mu.Lock()
	s.begun[u]++
	s.busy[u]++
	s.most[u] = max(s.most[u], s.busy[u])
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.mu.Lock()
	s.busy[u]--
	s.mu.Unlock()
}

func (s *largeTasks) PauseTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID) (dispatch.Account, error) {
	s.change(u)
	return s.Store.PauseTask(ctx, u, id)
}

func (s *largeTasks) RetryTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID, c dispatch.Choice,
	within ...dispatch.Quota) (dispatch.Account, int, error) {
	s.change(u)
	return s.Store.RetryTask(ctx, u, id, c, within...)
}

// TestChangeTask_OneAtATime checks that of the changes of a user who changes large tasks in loops one is made at a
// time, that other users' changes do not wait for them, and that a change which waits for too long is refused.
func TestChangeTask_OneAtATime(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		large := &largeTasks{Store: h.Store, begun: map[dispatch.UserID]int{}, busy: map[dispatch.UserID]int{},
			most: map[dispatch.UserID]int{}}
		h.Broker.Store = large
		var tasks []dispatch.TaskRecord
		for range 14 {
			task, err := h.AcceptTask(t.Context(), "ann", request("a"), tiles(2), dispatch.Key{})
			if err != nil {
				t.Fatal(err)
			}
			tasks = append(tasks, task)
		}
		bobs, err := h.AcceptTask(t.Context(), "bob", request("a"), tiles(2), dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var loops sync.WaitGroup
		var refused atomic.Int64
		for i, task := range tasks {
			loops.Go(func() {
				for ctx.Err() == nil {
					var err error
					if i%2 == 0 {
						_, err = h.PauseTask(ctx, "ann", task.ID)
					} else {
						_, err = h.RetryTask(ctx, "ann", task.ID, dispatch.Choice{})
					}
					switch {
					case dispatch.Is(err, dispatch.LimitReached):
						refused.Add(1)
					case err != nil && ctx.Err() == nil:
						t.Error(err)
					}
				}
			})
		}
		time.Sleep(10 * time.Second)
		began := time.Now()
		if _, err := h.PauseTask(t.Context(), "bob", bobs.ID); err != nil || time.Since(began) > 1100*time.Millisecond {
			t.Errorf("another user's change took %s: %v", time.Since(began), err)
		}
		loops.Wait()
		if n := large.begun["ann"]; n < 50 || n > 61 || large.most["ann"] != 1 || refused.Load() == 0 {
			t.Errorf("%d changes of a second in a minute, %d at once, %d refused", n, large.most["ann"], refused.Load())
		}
	})
}
