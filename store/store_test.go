package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

func TestStore_OnSQLite(t *testing.T) { conformance.TestStore(t, sqlite) }

func TestStore_OnPostgreSQL(t *testing.T) { conformance.TestStore(t, postgresql) }

func TestProcesses_OnSQLite(t *testing.T) { conformance.TestProcesses(t, sqlite) }

func TestProcesses_OnPostgreSQL(t *testing.T) { conformance.TestProcesses(t, postgresql) }

func TestSources_OnSQLite(t *testing.T) { conformance.TestSources(t, sqlite) }

func TestSources_OnPostgreSQL(t *testing.T) { conformance.TestSources(t, postgresql) }

func TestStats_OnSQLite(t *testing.T) { conformance.TestStats(t, sqlite) }

func TestStats_OnPostgreSQL(t *testing.T) { conformance.TestStats(t, postgresql) }

func TestOperations_OnSQLite(t *testing.T) { conformance.TestOperations(t, sqlite) }

func TestOperations_OnPostgreSQL(t *testing.T) { conformance.TestOperations(t, postgresql) }

var start = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

func open(t testing.TB, dsn string, c dispatch.Clock) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dsn, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func sqlite(t *testing.T) conformance.Database {
	c := conformance.NewStillClock(start)
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "a b?%23#é.db")
	s := open(t, dsn, c)
	return conformance.Database{
		Open: func() conformance.Store { return s },
		Restart: func() conformance.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dsn, c)
			return s
		},
		Pass: c.Pass,
	}
}

// stopped has a clock that stands still, which hides the server's own.
var stopped = postgres.Template{Prepare: func(t testing.TB, url string) {
	postgres.Exec(t, url, fmt.Sprintf(`CREATE SCHEMA clock;
		CREATE TABLE clock.time (now TIMESTAMPTZ); INSERT INTO clock.time VALUES ('%s');
		CREATE FUNCTION clock.clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE SQL AS 'SELECT now FROM clock.time'`,
		start.Format(time.RFC3339Nano)))
	s, err := store.Open(t.Context(), url+slowed, nil)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}}

// slowed is the part of a URL that has the server use the clock of a copy of [stopped].
const slowed = "&search_path=clock,pg_catalog,public"

func postgresql(t *testing.T) conformance.Database {
	dsn := stopped.Database(t)
	var all []*store.Store
	more := func() conformance.Store {
		all = append(all, open(t, dsn+slowed, nil))
		return all[len(all)-1]
	}
	return conformance.Database{
		Open: more,
		Restart: func() conformance.Store {
			for _, s := range all {
				_ = s.Close()
			}
			return more()
		},
		Pass: func(d time.Duration) {
			postgres.Exec(t, dsn, fmt.Sprintf(`UPDATE clock.time SET now = now + %d * interval '1 microsecond'`,
				d.Microseconds()))
		},
	}
}
