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
	heapShare   = 0.9 // of the limit that the collector works towards; the rest is for what it does not know, such as SQLite's caches
	renderShare = 8   // one part in so many of the limit is for large requests
	mostRender  = 512 << 20
)

// memoryLimit is how much memory the process may use.
type memoryLimit struct {
	bytes  int64  // 0: not known
	source string // where that is from
}

// findMemoryLimit gives GOMEMLIMIT where it is set, else limits.memory, else the limit of the container.
func findMemoryLimit(settings *config.Config, container memlimit.Provider) memoryLimit {
	if os.Getenv("GOMEMLIMIT") != "" {
		return memoryLimit{known(debug.SetMemoryLimit(-1)), "GOMEMLIMIT"}
	}
	if settings.Limits.Memory > 0 {
		return memoryLimit{int64(settings.Limits.Memory), "limits.memory"}
	}
	limit, err := container()
	if err != nil { // there is no limit, or no container
		return memoryLimit{source: "none"}
	}
	return memoryLimit{known(int64(min(limit, math.MaxInt64))), "container"}
}

// known is 0 for a limit that is none.
func known(limit int64) int64 {
	if limit == math.MaxInt64 {
		return 0
	}
	return limit
}

// heed has the collector work towards the limit, which it does for GOMEMLIMIT by itself, and says which limit it is.
func (m memoryLimit) heed(log *slog.Logger) {
	if m.bytes > 0 && m.source != "GOMEMLIMIT" {
		debug.SetMemoryLimit(int64(heapShare * float64(m.bytes)))
	}
	log.Info("memory limit", "source", m.source, "bytes", m.bytes)
}

// rendering is how many bytes large requests may take at once; 0: as many as without a limit.
func (m memoryLimit) rendering() int64 { return min(m.bytes/renderShare, mostRender) }
