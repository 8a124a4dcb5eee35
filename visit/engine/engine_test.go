package engine_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/visit/engine"
)

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

// wall is the real time, or that of a bubble.
type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// starting runs engines with the notifier of a process.
func starting(hints func() engine.Notifier) func(context.Context, conformance.Store,
	conformance.Visit) (dispatch.Engine, <-chan struct{}) {
	return func(ctx context.Context, s conformance.Store, v conformance.Visit) (dispatch.Engine, <-chan struct{}) {
		e := engine.New(engine.Config{Store: s, Visit: v, Log: slog.New(slog.DiscardHandler), Notifier: hints()})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			e.Run(ctx)
		}()
		return e, ended
	}
}

func alone() engine.Notifier { return nil }

func TestEngine_InMemory(t *testing.T) {
	conformance.TestEngine(t, func(t *testing.T, test func(*testing.T, conformance.Cluster)) {
		synctest.Test(t, func(t *testing.T) {
			s := conformance.NewMemStore(wall{})
			test(t, conformance.Cluster{Store: func() conformance.Store { return s }, Start: starting(alone)})
		})
	})
}

func TestEngine_OnSQLite(t *testing.T) {
	conformance.TestEngine(t, func(t *testing.T, test func(*testing.T, conformance.Cluster)) {
		file := filepath.Join(t.TempDir(), "engine.db")
		synctest.Test(t, func(t *testing.T) {
			s := open(t, "sqlite:"+file)
			test(t, conformance.Cluster{Store: func() conformance.Store { return s }, Start: starting(alone)})
		})
	})
}

func TestEngine_OnPostgreSQL(t *testing.T) {
	conformance.TestEngine(t, func(t *testing.T, test func(*testing.T, conformance.Cluster)) {
		url := postgres.Database(t)
		test(t, conformance.Cluster{
			Slack: time.Minute,
			Store: func() conformance.Store { return open(t, url) },
			Start: starting(func() engine.Notifier { return engine.NewPostgres(url, slog.New(slog.DiscardHandler)) }),
		})
	})
}

func open(t *testing.T, dsn string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dsn, wall{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
