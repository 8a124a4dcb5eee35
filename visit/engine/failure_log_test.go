package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/visit/engine"
)

// gone is a store that leases no accounts and stores nothing while it is unavailable.
type gone struct {
	conformance.Store
	away atomic.Bool
}

func (g *gone) Dequeue(ctx context.Context, r dispatch.Room, ttl time.Duration) ([]dispatch.Lease, time.Duration,
	error) {
	if g.away.Load() {
		return nil, 0, errors.New("canary-cause")
	}
	return g.Store.Dequeue(ctx, r, ttl)
}

func (g *gone) NoteServed(ctx context.Context, platforms []string) error {
	if g.away.Load() {
		return errors.New("canary-cause")
	}
	return g.Store.NoteServed(ctx, platforms)
}

// TestEngine_LogsAnOutageOncePerMinute: the store fails each attempt for ten minutes, twice. Each of the two operations
// that are attempted once a second is logged when it begins to fail, once a minute while it fails, and when it works
// again.
func TestEngine_LogsAnOutageOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := &gone{Store: conformance.NewMemStore(wall{})}
		e := engine.New(engine.Config{Store: g, Log: slog.New(slog.NewTextHandler(&log, nil)), Notifier: deaf{},
			Platforms: []string{"p"},
			Visit:     func(context.Context, dispatch.Lease) error { return nil }})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); e.Run(ctx) }()
		for range 2 {
			g.away.Store(true)
			time.Sleep(10*time.Minute + 30*time.Second)
			g.away.Store(false)
			time.Sleep(5 * time.Minute)
		}
		stop()
		<-ended
		for _, of := range []string{"dequeue", "noting which platforms this process serves"} {
			began, over := strings.Count(log.String(), `"`+of+" failed; retrying"), strings.Count(log.String(), `"`+of+
				` works again"`)
			if lasts := strings.Count(log.String(), `"`+of+` still fails"`); began != 2 || over != 2 || lasts < 16 ||
				lasts > 20 {
				t.Errorf("%s: logged %d times as begun, %d as lasting, %d as over", of, began, lasts, over)
			}
		}
		if n := strings.Count(log.String(), "canary-cause"); n > 44 {
			t.Errorf("%d lines for two outages of ten minutes", n)
		}
	})
}
