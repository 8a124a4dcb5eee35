package store_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestLock_ExcludesOtherProcesses, here other stores, from one name and from no other.
func TestLock_ExcludesOtherProcesses(t *testing.T) {
	dsn := postgres.Database(t)
	first, second := open(t, dsn, nil), open(t, dsn, nil)
	unlock, err := first.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := second.Lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	go func() {
		_, err := second.Lock(ctx, "a")
		waited <- err
	}()
	awaitWaiter(t, dsn)
	cancel()
	if err := <-waited; err == nil {
		t.Error("two have the lock")
	}
	go func() {
		again, err := second.Lock(t.Context(), "a")
		if err == nil {
			again()
		}
		waited <- err
	}()
	awaitWaiter(t, dsn)
	unlock()
	if err := <-waited; err != nil {
		t.Errorf("nobody has the lock: %v", err)
	}
}

// awaitWaiter waits until somebody waits for a lock of the database.
func awaitWaiter(t *testing.T, dsn string) {
	t.Helper()
	postgres.Exec(t, dsn, `DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) LOOP
		PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$`)
}

// TestLock_EndsWithItsConnection: a process that ends releases its locks.
func TestLock_EndsWithItsConnection(t *testing.T) {
	dsn := postgres.Database(t)
	first, second := open(t, dsn, nil), open(t, dsn, nil)
	unlock, err := first.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	postgres.Exec(t, dsn, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	again, err := second.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	again()
	unlock() // late, and without effect
}

// TestLock_UnderLoad: of many callers one holds the lock, and renewals of leases are not delayed.
func TestLock_UnderLoad(t *testing.T) {
	dsn := postgres.Database(t)
	stores := []interface {
		Lock(context.Context, string) (func(), error)
		ReserveSendTime(context.Context, dispatch.SendTimeRequest) (dispatch.SendTime, error)
	}{open(t, dsn, nil), open(t, dsn, nil)}
	var holders, most atomic.Int32
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			unlock, err := stores[i%2].Lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			most.Store(max(most.Load(), holders.Add(1)))
			if _, err := stores[i%2].ReserveSendTime(t.Context(), dispatch.SendTimeRequest{Account: "p/shared",
				Pace: time.Nanosecond}); err != nil {
				t.Error(err)
			}
			holders.Add(-1)
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d held the lock at once", most.Load())
	}
}

// TestLock_OnSQLite excludes nothing: there is only one process.
func TestLock_OnSQLite(t *testing.T) {
	s := open(t, "sqlite:"+filepath.Join(t.TempDir(), "eo.db"), conformance.NewStillClock(start))
	for range 2 {
		if _, err := s.Lock(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLock_WithoutDatabase returns a temporary error.
func TestLock_WithoutDatabase(t *testing.T) {
	s := open(t, postgres.Database(t), nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock(t.Context(), "a"); !dispatch.Is(err, dispatch.Unavailable) &&
		!dispatch.Is(err, dispatch.Internal) {
		t.Error(err)
	}
}
