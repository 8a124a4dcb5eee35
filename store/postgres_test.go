package store_test

import (
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
		if !dispatch.Is(err, dispatch.Unavailable) || dispatch.DatabaseError(err) == nil || dispatch.TextFor(err) != "The database does not answer." {
			t.Fatalf("error %v", err)
		}
	}
	t.Error("it did not come back")
}
