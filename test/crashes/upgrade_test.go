package crashes

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
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
	within := time.Minute + time.Duration(want)*time.Second/2 // five slots end ten jobs a second
	if !until(within, func() bool {
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

// TestUpgrade_Killed kills the command migrate again and again while it migrates a database of the last version, each time later than before, until it
// is done. Then nothing is lost and all counts are right. The database holds 5,000 ended jobs, and 1,000,000 with -full.
func TestUpgrade_Killed(t *testing.T) {
	t.Parallel()
	rows := 5_000
	if *full {
		rows = 1_000_000
	}
	for name, dsn := range map[string]string{"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "d.db"), "PostgreSQL": postgres.Database(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environ := environment(t, dsn, []map[string]any{{"name": "p", "protocol": "openeo", "endpoint": "http://127.0.0.1:1", "access": "open"}})
			launch(t, previous, environ).stop(t)
			fillEnded(t, dsn, rows)
			kills := 0
			for after := 20 * time.Millisecond; migrateKilled(t, environ, after); after *= 2 {
				kills++
			}
			if kills == 0 {
				t.Error("no migration was killed")
			}
			t.Logf("%d migrations were killed", kills)
			if said := command(t, environ, "doctor"); !strings.Contains(said, "ok      counts of jobs ") {
				t.Errorf("output of doctor: %s", said)
			}
			var jobs, counted int
			err := database(t, dsn).QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM jobs), (SELECT CAST(sum(jobs) AS BIGINT) FROM owner_counts)").Scan(&jobs, &counted)
			if err != nil || jobs != rows || counted != rows {
				t.Errorf("%d jobs, %d counted, want %d; error %v", jobs, counted, rows, err)
			}
		})
	}
}

// migrateKilled starts the command migrate and kills it after a while. It returns false if the command had ended, which must be without an error.
func migrateKilled(t *testing.T, environ []string, after time.Duration) bool {
	t.Helper()
	path, err := released()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	c := exec.CommandContext(ctx, path, "migrate")
	c.Env, c.Dir = environ, t.TempDir()
	said, err := c.CombinedOutput()
	if err != nil && ctx.Err() == nil {
		t.Fatalf("%v: %s", err, said)
	}
	return err != nil
}

// fillEnded inserts jobs that have ended, by the columns of the last version.
func fillEnded(t *testing.T, dsn string, n int) {
	t.Helper()
	db := database(t, dsn)
	for _, statement := range []string{
		fmt.Sprintf(`WITH RECURSIVE n (g) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT g + 1 FROM n WHERE g < %d)
			INSERT INTO jobs (id, task, number, owner, account, base, desired, phase, ref_id, status, due, awaited, created, updated, moved)
			SELECT %d + g, 0, 0, 'https://id.example.org user-' || g %% 1000, 'p/open', '', 'run', 'ended', 'r' || g, 'finished', g, FALSE,
				1700000000000000 + g, 1700000000000000 + g, 1700000000000000 + g FROM n`, n-1, firstOld),
		fmt.Sprintf(`INSERT INTO requests (job, body) SELECT id, '{"title": "old", "label": "openeo", "service": {"endpoint": "x", "namespace": null, "application": "y"}, "parameters": {}, "format": "gtiff"}'
			FROM jobs WHERE id >= %d`, firstOld),
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
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
