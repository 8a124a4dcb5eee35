package main

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/eodispatch/eodispatch/config"
)

const (
	// share of the limit that the garbage collector works towards; the rest is for memory that it does not manage, such
	// as SQLite's caches
	heapShare   = 0.9
	renderShare = 8 // large requests together may use 1/8 of the limit
	mostRender  = 512 << 20
)

// memoryLimit is how much memory the process may use.
type memoryLimit struct {
	bytes  int64  // 0: unknown
	source string // the setting that the limit comes from
}

// findMemoryLimit returns GOMEMLIMIT if it is set, else limits.memory, else the limit of the container.
func findMemoryLimit(settings *config.Config, container memlimit.Provider) memoryLimit {
	if os.Getenv("GOMEMLIMIT") != "" {
		return memoryLimit{known(debug.SetMemoryLimit(-1)), "GOMEMLIMIT"}
	}
	if settings.Limits.Memory > 0 {
		return memoryLimit{int64(settings.Limits.Memory), "limits.memory"}
	}
	limit, err := container()
	if err != nil { // no limit, or no container
		return memoryLimit{source: "none"}
	}
	return memoryLimit{known(int64(min(limit, math.MaxInt64))), "container"}
}

// known returns 0 for a value that means "no limit".
func known(limit int64) int64 {
	if limit == math.MaxInt64 {
		return 0
	}
	return limit
}

// apply makes the garbage collector work towards the limit, and logs the limit. For GOMEMLIMIT the runtime does so by
// itself.
func (m memoryLimit) apply(log *slog.Logger) {
	if m.bytes > 0 && m.source != "GOMEMLIMIT" {
		debug.SetMemoryLimit(int64(heapShare * float64(m.bytes)))
	}
	log.Info("memory limit", "source", m.source, "bytes", m.bytes)
}

// rendering returns how many bytes large requests may use together; 0: no known limit.
func (m memoryLimit) rendering() int64 { return min(m.bytes/renderShare, mostRender) }
