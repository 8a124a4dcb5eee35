package engine_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/visit/engine"
)

// shifted is a clock that somebody sets.
type shifted struct{ by atomic.Int64 }

func (s *shifted) Now() time.Time { return time.Now().Add(time.Duration(s.by.Load())) }

// TestEngine_ClockSetBackOnSQLite checks that an account whose visits are planned goes on within two minutes after the
// clock was set back by a day, where this is the only process and the database has no clock of its own.
func TestEngine_ClockSetBackOnSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "engine.db")
	synctest.Test(t, func(t *testing.T) {
		clock := &shifted{}
		s, err := store.Open(t.Context(), "sqlite:"+file, clock)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		wake(t, s, "p/shared")
		const wakes = 1
		var visits atomic.Int64
		visit := func(ctx context.Context, l dispatch.Lease) error {
			visits.Add(1)
			return s.Release(context.WithoutCancel(ctx), l, wakes, clock.Now().Add(30*time.Second))
		}
		stop := run(t, engine.Config{Store: s, Visit: visit, Platforms: []string{"p"}})
		defer stop()
		time.Sleep(10*time.Minute + time.Second)
		before := visits.Load()
		clock.by.Store(int64(-24 * time.Hour))
		time.Sleep(2 * time.Minute)
		if n := visits.Load(); before < 20 || n == before {
			t.Errorf("%d visits in ten minutes, and %d in the two minutes after the clock was set back by a day",
				before, n-before)
		}
	})
}
