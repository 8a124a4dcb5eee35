package api

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// slowly is a broker that takes a second to read a task.
type slowly struct{ *world }

func (s slowly) ReadTask(ctx context.Context, u dispatch.UserID, id dispatch.TaskID,
	fresh time.Duration) (dispatch.TaskRecord, []dispatch.Record, error) {
	time.Sleep(time.Second)
	return s.world.ReadTask(ctx, u, id, fresh)
}

// A user who reads hundreds of tasks at once delays no other user, and nothing is kept afterwards.
func TestReaders_OneUserDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.config()
		c.Broker = slowly{w}
		h := New(c)
		defer h.Close()
		a := h.(*api)
		done := make(chan struct{})
		const many = 400
		for n := range many {
			go func() {
				// there are none: that is read, too
				_, _ = a.readSnapshot(t.Context(), topic{user: anna, task: dispatch.TaskID(n + 1)})
				done <- struct{}{}
			}()
		}
		synctest.Wait()
		begin := time.Now()
		_, _ = a.readSnapshot(t.Context(), topic{user: bert, task: 1})
		if took := time.Since(begin); took > time.Second {
			t.Errorf("another user waited %v for a read that takes 1 s", took)
		}
		for range many {
			<-done
		}
		synctest.Wait()
		if n := a.readers.Clients(); n > 0 {
			t.Errorf("%d users are kept", n)
		}
	})
}
