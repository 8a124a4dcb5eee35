package histories

import (
	"flag"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

var (
	seed = flag.Uint64("seed", 0, "run only the history of this seed, and log its events")
	from = flag.Uint64("from", 1, "the first seed")
	n    = flag.Int("histories", 30,
		"number of histories, from the seed -from on; the other random tests play in proportion")
)

// share returns how many histories a test plays that plays all with -histories 100.
func share(all int) uint64 { return uint64(max(1, all**n/100)) }

func inMemory(c dispatch.Clock) (conformance.Store, func()) {
	return conformance.NewMemStore(c), func() {}
}

func TestHistories_OfRandomEvents(t *testing.T) {
	if *seed != 0 {
		h := play(t, *seed, inMemory)
		t.Logf("seed %d:\n%s", *seed, strings.Join(h.lines, "\n"))
		report(t, h)
		return
	}
	began := time.Now()
	var next, bad, ownRetries atomic.Uint64
	next.Store(*from)
	t.Run("all", func(t *testing.T) {
		for range 2 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for s := next.Add(1) - 1; s < *from+uint64(*n) && bad.Load() < 5; s = next.Add(1) - 1 {
					h := play(t, s, inMemory)
					if !report(t, h) {
						bad.Add(1)
					}
					ownRetries.Add(uint64(h.ownRetries))
				}
			})
		}
	})
	if *n >= 30 && ownRetries.Load() == 0 {
		t.Error("no job was retried by itself")
	}
	t.Logf("%d histories from seed %d, %.0f per second", *n, *from, float64(*n)/time.Since(began).Seconds())
}

// TestHistories_OfTasksWithSeveralPlacements: jobs that move between platforms are neither lost nor started twice,
// whatever happens to the processes and the platforms.
func TestHistories_OfTasksWithSeveralPlacements(t *testing.T) {
	var moves atomic.Uint64
	for s := *from; s < *from+uint64(*n); s++ {
		h := play(t, s, inMemory, func(h *history) { h.spread = true })
		moves.Add(uint64(h.moves))
		if !report(t, h) {
			break
		}
	}
	if *n >= 30 && moves.Load() < uint64(*n) {
		t.Errorf("only %d jobs moved in %d histories", moves.Load(), *n)
	}
}

func report(t *testing.T, h *history) bool {
	for i, w := range h.wrong {
		if i < 5 {
			t.Errorf("seed %d: %s", h.seed, w)
		}
	}
	return len(h.wrong) == 0
}
