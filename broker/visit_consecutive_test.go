package broker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// leased counts the leases that a store gives and takes back.
type leased struct {
	conformance.Store
	begun, ended atomic.Int32
}

func (l *leased) Dequeue(ctx context.Context, r dispatch.Room, ttl time.Duration) ([]dispatch.Lease, time.Duration,
	error) {
	leases, wait, err := l.Store.Dequeue(ctx, r, ttl)
	l.begun.Add(int32(len(leases)))
	return leases, wait, err
}

func (l *leased) Release(ctx context.Context, lease dispatch.Lease, wakes int64, due time.Time) error {
	l.ended.Add(1)
	return l.Store.Release(ctx, lease, wakes, due)
}

// Jobs that a client submits one after the other are submitted by one visit. It ends soon after the last one, and at
// once when the process ends.
func TestVisit_OneForConsecutiveJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leased{Store: conformance.NewMemStore(clock{})}
		h := open(s, backend("a", dispatch.AccessShared, &script{}))
		for range 3 { // the platform has slots for one more
			h.accept(t)
			time.Sleep(20 * time.Millisecond)
		}
		if begun, ended := s.begun.Load(), s.ended.Load(); begun != 1 || ended != 0 {
			t.Errorf("%d visits began and %d ended while jobs came, want 1 and 0", begun, ended)
		}
		time.Sleep(200 * time.Millisecond)
		if ended := s.ended.Load(); ended != 1 {
			t.Errorf("%d visits ended after the last job, want 1", ended)
		}
		h.accept(t)
		stopped := time.Now()
		h.stop()
		if begun, ended, took := s.begun.Load(), s.ended.Load(),
			time.Since(stopped); begun != 2 || ended != 2 || took > 0 {
			t.Errorf("%d visits began and %d ended, the last %v after the end of the process; want 2, 2 and 0", begun,
				ended, took)
		}
	})
}
