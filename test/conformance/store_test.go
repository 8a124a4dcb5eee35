package conformance_test

import (
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/conformance"
)

func TestMemStore(t *testing.T) { conformance.TestStore(t, memory) }

func TestMemStore_Processes(t *testing.T) { conformance.TestProcesses(t, memory) }

func TestMemStore_Sources(t *testing.T) { conformance.TestSources(t, memory) }

func memory(*testing.T) conformance.Database {
	c := conformance.NewStillClock(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
	s := conformance.NewMemStore(c)
	same := func() conformance.Store { return s }
	return conformance.Database{Open: same, Restart: same, Pass: c.Pass}
}
