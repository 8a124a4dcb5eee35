package engine_test

import (
	"bytes"
	"context"
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

// panicking is a store whose Dequeue and NoteServed panic at first.
type panicking struct {
	conformance.Store
	left atomic.Int32
}

func (s *panicking) Dequeue(ctx context.Context, r dispatch.Room, ttl time.Duration) ([]dispatch.Lease, time.Duration,
	error) {
	if s.left.Add(-1) >= 0 {
		panic("dequeue")
	}
	return s.Store.Dequeue(ctx, r, ttl)
}

func (s *panicking) NoteServed(ctx context.Context, platforms []string) error {
	if s.left.Add(-1) >= 0 {
		panic("serve")
	}
	return s.Store.NoteServed(ctx, platforms)
}

// TestRun_SurvivesPanics of the store and of visits: it logs them with their stacks, and continues.
func TestRun_SurvivesPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := conformance.NewMemStore(wall{})
		s := &panicking{Store: mem}
		s.left.Store(4)
		draft := dispatch.Draft{Job: dispatch.Job{Identity: dispatch.Identity{Owner: "ann"},
			Target: dispatch.Target{Account: "p/shared"}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
			Handover:  dispatch.Handover{Phase: dispatch.Waiting},
			Condition: dispatch.Condition{Status: dispatch.Accepted}}, Body: []byte(`{}`)}
		if _, err := mem.Accept(t.Context(), dispatch.Key{}, nil, []dispatch.Draft{draft}); err != nil {
			t.Fatal(err)
		}
		var visits atomic.Int32
		var log bytes.Buffer
		visit := func(ctx context.Context, l dispatch.Lease) error {
			if visits.Add(1) == 1 {
				panic("visit")
			}
			const seen = 1 // the wake of the accepted job
			return mem.Release(ctx, l, seen, time.Time{})
		}
		e := engine.New(engine.Config{Store: s, Visit: visit, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Platforms: []string{"p"}, Notifier: quiet{}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); e.Run(ctx) }()
		time.Sleep(2 * time.Minute)
		stop()
		<-ended
		if visits.Load() < 2 {
			t.Errorf("%d visits", visits.Load())
		}
		for _, said := range []string{"operation=dequeue", "operation=serve", `operation="visit p/shared"`, "goroutine"} {
			if !strings.Contains(log.String(), said) {
				t.Errorf("%s is not logged:\n%s", said, log.String())
			}
		}
	})
}

// quiet is a notifier without other processes.
type quiet struct{}

func (quiet) Notify(engine.Notification) {}

func (quiet) Run(ctx context.Context, _ func(engine.Notification)) { <-ctx.Done() }
