package main

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"runtime/debug"
	"testing"

	"github.com/eodispatch/eodispatch/config"
)

// TestMemoryLimit_FollowsItsSources: GOMEMLIMIT takes precedence over limits.memory, and that over the container's
// limit; the garbage collector is set to the result.
func TestMemoryLimit_FollowsItsSources(t *testing.T) {
	const mib = 1 << 20
	container := func() (uint64, error) { return 800 * mib, nil }
	none := func() (uint64, error) { return 0, errors.New("no limit") }
	for name, c := range map[string]struct {
		environ    string
		collector  int64 // set by the runtime from the environment
		configured config.Size
		container  func() (uint64, error)
		want       memoryLimit
		towards    int64
		rendering  int64
	}{
		"GOMEMLIMIT": {"300MiB", 300 * mib, 1000 * mib, container, memoryLimit{300 * mib, "GOMEMLIMIT"}, 300 * mib,
			300 * mib / 8},
		"off": {"off", math.MaxInt64, 1000 * mib, container, memoryLimit{0, "GOMEMLIMIT"}, math.MaxInt64, 0},
		"configured": {"", math.MaxInt64, 1000 * mib, container, memoryLimit{1000 * mib, "limits.memory"}, 900 * mib,
			125 * mib},
		"container": {"", math.MaxInt64, 0, container, memoryLimit{800 * mib, "container"}, 720 * mib, 100 * mib},
		"unlimited": {"", math.MaxInt64, 0, func() (uint64, error) { return math.MaxUint64, nil },
			memoryLimit{0, "container"}, math.MaxInt64, 0},
		"none": {"", math.MaxInt64, 0, none, memoryLimit{0, "none"}, math.MaxInt64, 0},
		"large": {"", math.MaxInt64, 64 << 30, none, memoryLimit{64 << 30, "limits.memory"}, 64 << 30 / 10 * 9,
			512 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", c.environ)
			before := debug.SetMemoryLimit(c.collector)
			defer debug.SetMemoryLimit(before)
			got := findMemoryLimit(&config.Config{Limits: config.Limits{Memory: c.configured}}, c.container)
			if got != c.want || got.rendering() != c.rendering {
				t.Errorf("%+v with %d for large requests, want %+v with %d", got, got.rendering(), c.want, c.rendering)
			}
			got.apply(slog.New(slog.NewTextHandler(io.Discard, nil)))
			if towards := debug.SetMemoryLimit(-1); max(towards, c.towards)-min(towards, c.towards) > 16 {
				t.Errorf("the collector works towards %d, want %d", towards, c.towards)
			}
		})
	}
}
