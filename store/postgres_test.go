package store_test

import (
	"database/sql"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

func TestOpen_ReplicasMigrateTogether(t *testing.T) {
	url := postgres.Database(t)
	var all sync.WaitGroup
	names := make(chan string, 4)
	for range cap(names) {
		all.Go(func() {
			s, err := store.Open(t.Context(), url, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			name, _ := s.Installation(t.Context())
			names <- name
		})
	}
	all.Wait()
	close(names)
	first := <-names
	for name := range names {
		if name != first {
			t.Errorf("installations %s and %s", first, name)
		}
	}
}

func TestStore_ReconnectsAfterARestart(t *testing.T) {
	url := postgres.Database(t)
	s := open(t, url, nil)
	cut := `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
	postgres.Exec(t, url, cut)
	for range 20 { // closed connections are detected by using them
		_, err := s.Accept(t.Context(), dispatch.Key{}, nil, drafts(1))
		if err == nil {
			return
		}
		if !dispatch.Is(err, dispatch.Unavailable) || dispatch.DatabaseError(err) == nil ||
			dispatch.TextFor(err) != "The database does not respond." {
			t.Fatalf("error %v", err)
		}
	}
	t.Error("it did not come back")
}

// Operators see in pg_stat_activity whose connections they are, and whether one process may need more than the server
// allows.
func TestConnections_AreNamedAndCounted(t *testing.T) {
	url := postgres.Database(t)
	s := open(t, url, nil)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	host, _ := os.Hostname()
	named := 0
	if err := db.QueryRow(`SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE $1 || '%'`,
		"eodispatch "+host+" ").Scan(&named); err != nil || named == 0 {
		t.Errorf("%d connections are named, %v", named, err)
	}
	own, allowed, err := s.Connections(t.Context())
	if err != nil || own != 17+2*max(4, runtime.NumCPU()) || allowed < own {
		t.Errorf("%d of %d, %v", own, allowed, err)
	}
	postgres.Exec(t, url, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT 14', current_database()); END $$`)
	if _, allowed, err := s.Connections(t.Context()); err != nil || allowed != 14 {
		t.Errorf("%d are allowed, %v", allowed, err)
	}
}
