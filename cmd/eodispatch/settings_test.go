package main

import (
	"slices"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/config"
)

// TestFixedSettings_StayAsTheyAre: a reload keeps what needs a restart, names it, and takes the rest.
func TestFixedSettings_StayAsTheyAre(t *testing.T) {
	running := config.Config{Listen: "a:1", Freshness: time.Second, Limits: config.Limits{Connections: 10, UserJobs: 1}}
	again := config.Config{Listen: "b:2", Freshness: time.Minute, Limits: config.Limits{Connections: 20, UserJobs: 2}}
	got, fixed := fixedSettings(running, again)
	if got.Listen != "a:1" || got.Limits.Connections != 10 || got.Limits.UserJobs != 2 || got.Freshness != time.Minute {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(fixed, []string{"listen", "limits.connections"}) {
		t.Errorf("fixed: %q", fixed)
	}
	if changed := changedKeys(running, got); !slices.Equal(changed, []string{"limits", "freshness"}) {
		t.Errorf("changed: %q", changed)
	}
	if _, fixed := fixedSettings(running, running); len(fixed) > 0 {
		t.Errorf("fixed: %q", fixed)
	}
}
