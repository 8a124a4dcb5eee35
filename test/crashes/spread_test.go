package crashes

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestSpread_Crashes kills the program while it moves the tiles of a task between two platforms and submits them. No
// tile is lost, and none runs twice at one platform or at both.
func TestSpread_Crashes(t *testing.T) {
	for name, dsn := range map[string]func(t *testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "spread.db") },
		"PostgreSQL": func(t *testing.T) string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spreadThroughCrashes(t, dsn(t))
		})
	}
}

func spreadThroughCrashes(t *testing.T, dsn string) {
	const tiles = 16
	var platforms [2]*simulator.OpenEO
	var configured, services []map[string]any
	for i := range platforms {
		platforms[i] = &simulator.OpenEO{Open: true, Life: simulator.Life{Run: 2 * time.Second, Slots: 2}}
		server := httptest.NewServer(platforms[i])
		t.Cleanup(server.Close)
		configured = append(configured, map[string]any{"name": fmt.Sprintf("p%d", i), "protocol": "openeo",
			"access": "open", "endpoint": server.URL, "limits": map[string]any{"jobs": 2, "send": send.String()}})
		services = append(services, map[string]any{"endpoint": server.URL, "application": "ndvi_composite"})
	}
	values := make([]any, tiles)
	for i := range values {
		values[i] = map[string]any{"west": float64(i), "south": 51.2, "east": float64(i) + .5, "north": 51.3}
	}
	task := map[string]any{"title": "spread", "label": "openeo", "format": "json", "services": services,
		"parameters": map[string]any{"temporal_extent": []string{"2026-05-01", "2026-06-01"}},
		"dimension":  map[string]any{"name": "spatial_extent", "values": values}}
	environ := environment(t, dsn, configured)
	submit := func(p *program) bool {
		return until(3*time.Minute, func() bool {
			err := p.ask(t.Context(), http.MethodPost, "/upscale_tasks", "once", task, nil)
			if err != nil {
				t.Log(err)
			}
			return err == nil || p.EndsWithin(time.Second)
		})
	}
	for _, at := range []string{"move before", "move after", "create sent 3", "start after 3"} {
		p := launch(t, mortal, environ, "EODISPATCH_DIE="+at)
		submit(p)
		if !p.dies(t, 3*time.Minute) {
			t.Fatalf("the process exited before the crash point %q", at)
		}
	}
	p := launch(t, mortal, environ)
	if !submit(p) {
		t.Fatal("the surviving broker does not accept the task")
	}
	db := database(t, dsn)
	if !until(5*time.Minute, func() bool {
		for _, r := range rowsOf(t, db) {
			if !r.rests() {
				return false
			}
		}
		return true
	}) {
		t.Errorf("the tiles do not come to rest: %+v", rowsOf(t, db))
	}
	p.stop(t)
	checkSpread(t, db, platforms, tiles)
}

// checkSpread compares what ran at two platforms with the jobs.
func checkSpread(t *testing.T, db *sql.DB, platforms [2]*simulator.OpenEO, tiles int) {
	t.Helper()
	runs, at := map[string]int{}, [2]int{}
	for i, p := range platforms {
		for tag, n := range p.Oracle.Tally().Tags {
			words := strings.Split(tag, ".")
			runs[words[1]] += n.Runs // by the id of the job
			at[i] += n.Runs
		}
	}
	for id, n := range runs {
		if n > 1 {
			t.Errorf("job %s ran %d times", id, n)
		}
	}
	rows := rowsOf(t, db)
	for _, r := range rows {
		if r.status != dispatch.Finished {
			t.Errorf("a tile is %s: %+v", r.status, r)
		}
	}
	if len(rows) != tiles || at[0]+at[1] != tiles || at[0] == 0 || at[1] == 0 {
		t.Errorf("%d jobs, of which %d and %d ran at the platforms", len(rows), at[0], at[1])
	}
}
