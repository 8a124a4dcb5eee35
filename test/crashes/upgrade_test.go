package crashes

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/simulator"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// firstOld is the id of the first of the ended jobs that fill the database.
const firstOld = 1_000_000_000

// TestUpgrade_UnderLoad migrates a database of the last version in CHANGELOG.md by the command migrate, while a replica of that version works: it holds 5,000 ended
// jobs, and 1,000,000 with -full. Jobs that are submitted meanwhile run once, and the new version reads them all. It logs how long the migration took, and the
// longest time of a submission meanwhile.
func TestUpgrade_UnderLoad(t *testing.T) {
	t.Parallel()
	rows := 5_000
	if *full {
		rows = 1_000_000
	}
	dsn := postgres.Database(t)
	s := crash{life: simulator.Life{Run: 200 * time.Millisecond}}.scene(t)
	environ := environment(t, dsn, []map[string]any{{"name": "p", "protocol": "openeo", "endpoint": s.url, "access": "open", "limits": map[string]any{"jobs": 5, "min_poll": "100ms"}}})
	old := launch(t, previous, environ)
	fillEnded(t, dsn, rows)
	s.overMany(3)
	stop, tasks, longest := submittingTimed(t, old, s.job)
	begun := time.Now()
	said := command(t, environ, "migrate")
	took := time.Since(begun)
	if !strings.Contains(said, "and has schema") {
		t.Errorf("output of migrate: %s", said)
	}
	stop()
	t.Logf("%d jobs migrated in %v; the longest submission of %d meanwhile took %v", rows, took.Round(time.Millisecond), *tasks, longest.Round(time.Millisecond))
	present := launch(t, released, environ)
	old.stop(t)
	if err := present.ask(t.Context(), http.MethodPost, "/upscale_tasks", "", s.job, nil); err != nil {
		t.Fatal(err)
	}
	db, want := database(t, dsn), 3*(*tasks+1)
	var live, finished int
	if !until(5*time.Minute, func() bool {
		err := db.QueryRowContext(t.Context(), "SELECT count(*) FILTER (WHERE phase <> 'ended'), count(*) FILTER (WHERE status = 'finished') FROM jobs WHERE id < $1", firstOld).Scan(&live, &finished)
		if err != nil {
			t.Fatal(err)
		}
		return live == 0
	}) {
		t.Errorf("%d jobs have not ended", live)
	}
	if n := s.oracle.Sum(); n.Runs != want || n.Starts != want || finished != want {
		t.Errorf("%d jobs finished of %d, at the platform: %+v", finished, want, n)
	}
	if said := command(t, environ, "doctor"); !strings.Contains(said, "ok      counts of jobs ") {
		t.Errorf("output of doctor: %s", said)
	}
	present.stop(t)
}

// fillEnded inserts jobs that have ended, by the columns of the last version.
func fillEnded(t *testing.T, dsn string, n int) {
	t.Helper()
	postgres.Exec(t, dsn, fmt.Sprintf(`INSERT INTO jobs (id, task, number, owner, account, base, desired, phase, ref_id, status, due, awaited, created, updated, moved)
		SELECT %d + g, 0, 0, 'https://id.example.org user-' || g %% 1000, 'p/open', '', 'run', 'ended', 'r' || g, 'finished', g, FALSE, 1700000000000000 + g, 1700000000000000 + g, 1700000000000000 + g
		FROM generate_series(0, %d) AS g;
		INSERT INTO requests (job, body) SELECT id, '{"title": "old", "label": "openeo", "service": {"endpoint": "x", "namespace": null, "application": "y"}, "parameters": {}, "format": "gtiff"}'
		FROM jobs WHERE id >= %[1]d`, firstOld, n-1))
}

// submittingTimed submits tasks until stop is called. It counts them, and keeps the longest time that one took. Read both after stop.
func submittingTimed(t *testing.T, p *program, task map[string]any) (stop func(), tasks *int, longest *time.Duration) {
	tasks, longest = new(int), new(time.Duration)
	ending := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for {
			begun := time.Now()
			if err := p.ask(t.Context(), http.MethodPost, "/upscale_tasks", "", task, nil); err != nil {
				t.Error(err)
				return
			}
			*tasks++
			*longest = max(*longest, time.Since(begun))
			select {
			case <-ending:
				return
			case <-again.C:
			}
		}
	})
	return func() {
		close(ending)
		done.Wait()
	}, tasks, longest
}
