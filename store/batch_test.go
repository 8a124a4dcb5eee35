package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// joining is a store whose writer is busy until free is called.
func joining(t *testing.T) (s *store.Store, free func()) {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "eo.db"), conformance.NewStillClock(start))
	if err != nil {
		t.Fatal(err)
	}
	busy, release := make(chan struct{}), make(chan struct{})
	go func() {
		_ = store.Transact(t.Context(), s, func(store.Querier) error { close(busy); <-release; return nil })
	}()
	<-busy
	return s, func() { close(release) }
}

// TestBatch_OneCommitForAllThatWait: transactions that wait for the writer are committed together, and each returns its
// own result.
func TestBatch_OneCommitForAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, free := joining(t)
		defer s.Close()
		_, transactions := store.Count(s)
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				if err := insertAccount(t, s, fmt.Sprint("p/", i)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		free()
		all.Wait()
		if n := transactions.Load(); n != 1 {
			t.Errorf("%d transactions", n)
		}
		if err := insertAccount(t, s, "p/15"); err == nil {
			t.Error("the last was not stored")
		}
	})
}

func insertAccount(t *testing.T, s *store.Store, id string) error {
	return store.Join(t.Context(), s, func(q store.Querier) error {
		_, err := q.ExecContext(t.Context(), "INSERT INTO accounts (id, platform, wakes, due) VALUES (?, 'p', 0, 0)",
			id)
		return err
	})
}

// TestBatch_FailsAlone: a transaction that fails, or panics, takes no other one with it, and its caller gets its error.
func TestBatch_FailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, free := joining(t)
		defer s.Close()
		var all sync.WaitGroup
		good, refused := make([]error, 2), errors.New("refused")
		all.Go(func() { good[0] = insertAccount(t, s, "p/a") })
		all.Go(func() {
			if err := store.Join(t.Context(), s, func(store.Querier) error { return refused }); !errors.Is(err,
				refused) {
				t.Error(err)
			}
		})
		all.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_ = store.Join(t.Context(), s, func(store.Querier) error { panic("no") })
		})
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			if err := store.Join(ctx, s,
				func(store.Querier) error { t.Error("its caller is gone"); return nil }); !errors.Is(err,
				context.Canceled) {
				t.Error(err)
			}
		})
		all.Go(func() { good[1] = insertAccount(t, s, "p/b") })
		synctest.Wait()
		cancel()
		synctest.Wait()
		if n := store.Joining(s, ""); n != 4 {
			t.Errorf("%d wait", n)
		}
		free()
		all.Wait()
		if err := errors.Join(good...); err != nil {
			t.Error(err)
		}
		for _, a := range []string{"p/a", "p/b"} {
			if err := insertAccount(t, s, a); err == nil {
				t.Errorf("%s was not stored", a)
			}
		}
	})
}
