package store_test

import (
	"flag"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

func TestStore_SQLiteAgreesWithTheModel(t *testing.T) {
	histories(t, "6") // the race detector makes SQLite slow
	conformance.TestAgreement(t, memory, model)
}

func TestStore_PostgreSQLAgreesWithTheModel(t *testing.T) {
	histories(t, "8") // each creates a database
	conformance.TestAgreement(t, postgresql, model)
}

// histories sets how many random histories a test tries.
func histories(t *testing.T, n string) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if err := checks.Value.Set(n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(before) })
}

func model(*testing.T) conformance.Database {
	c := &clock{now: start}
	s := conformance.NewMemStore(c)
	same := func() dispatch.Store { return s }
	return conformance.Database{Open: same, Restart: same, Pass: c.pass}
}

// memory is SQLite without a disk, which would make a hundred histories slow.
func memory(t *testing.T) conformance.Database {
	c := &clock{now: start}
	s := open(t, "sqlite::memory:", c)
	same := func() dispatch.Store { return s }
	return conformance.Database{Open: same, Restart: same, Pass: c.pass}
}
