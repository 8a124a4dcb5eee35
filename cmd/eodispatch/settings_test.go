package main

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/store"
)

// TestReload_KeepsWhatIsFixed: a reload keeps what needs a restart, names it, and takes the rest.
func TestReload_KeepsWhatIsFixed(t *testing.T) {
	running := config.Config{Listen: "a:1", Freshness: time.Second, Limits: config.Limits{Connections: 10, UserJobs: 1}}
	again := config.Config{Listen: "b:2", Freshness: time.Minute, Limits: config.Limits{Connections: 20, UserJobs: 2}}
	fixed := again.KeepFixed(&running)
	if again.Listen != "a:1" || again.Limits.Connections != 10 || again.Limits.UserJobs != 2 ||
		again.Freshness != time.Minute {
		t.Errorf("%+v", again)
	}
	if !slices.Equal(fixed, []string{"listen", "limits.connections"}) {
		t.Errorf("fixed: %q", fixed)
	}
	if changed := changedKeys(running, again); !slices.Equal(changed, []string{"freshness", "limits"}) {
		t.Errorf("changed: %q", changed)
	}
	if fixed := running.KeepFixed(&running); len(fixed) > 0 {
		t.Errorf("fixed: %q", fixed)
	}
}

// TestReload_WithoutDatabase: settings that could not be compared with the jobs in the database change nothing, not
// even the level of the log, and the log gives the reason.
func TestReload_WithoutDatabase(t *testing.T) {
	kept, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "d.db"), wallClock{})
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	s := &service{store: kept, level: &slog.LevelVar{}, log: slog.New(slog.NewTextHandler(&said, nil)),
		settings: &config.Config{}}
	s.reload(t.Context(), &config.Config{Freshness: time.Second, Log: config.Log{Level: slog.LevelDebug}})
	if s.level.Level() != slog.LevelInfo || s.settings.Freshness != 0 {
		t.Errorf("level %v, settings %+v", s.level, s.settings)
	}
	if text := said.String(); !strings.Contains(text, "the old ones stay in use") ||
		strings.Contains(text, "platforms") {
		t.Error(text)
	}
}
