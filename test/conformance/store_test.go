package conformance_test

import (
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// clock stands still but for pass.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestMemStore(t *testing.T) { conformance.TestStore(t, memory) }

func TestMemStore_Processes(t *testing.T) { conformance.TestProcesses(t, memory) }

func TestMemStore_Sources(t *testing.T) { conformance.TestSources(t, memory) }

func memory(*testing.T) conformance.Database {
	c := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}
	s := conformance.NewMemStore(c)
	same := func() dispatch.Store { return s }
	return conformance.Database{Open: same, Restart: same, Pass: c.pass}
}
