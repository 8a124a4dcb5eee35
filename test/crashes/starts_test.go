package crashes

import (
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// manyStarts is the number of jobs. The start request with this number is lost.
const manyStarts = 30

// TestStarts_OneOfThirtyIsLost loses one of thirty starts at a platform that shows each start at once: it responds with
// 500 and does not start the job. The broker must start the job again soon, and no job may run twice. Without -full, a
// minute lasts a second.
func TestStarts_OneOfThirtyIsLost(t *testing.T) {
	t.Run("a minute is a second", func(t *testing.T) {
		t.Parallel()
		loseStart(t, mortal, 2*time.Minute)
	})
	if *full {
		t.Run("in real time", func(t *testing.T) {
			t.Parallel()
			loseStart(t, released, 6*time.Minute)
		})
	}
}

func loseStart(t *testing.T, binary func() (string, error), within time.Duration) {
	t.Helper()
	c := crash{life: simulator.Life{Run: 2 * time.Second},
		faults: []simulator.Fault{{Route: begin, Skip: manyStarts - 1, Times: 1,
			Status: http.StatusInternalServerError}}}
	s, dsn := c.scene(t), "sqlite:"+filepath.Join(t.TempDir(), "fire.db")
	p := launch(t, binary, environment(t, dsn, []map[string]any{{"name": "p", "protocol": "openeo", "endpoint": s.url,
		"access": "open",
		"limits": map[string]any{"jobs": 10}}}))
	s.overMany(manyStarts)
	if err := p.ask(t.Context(), http.MethodPost, "/upscale_tasks", "", s.job, nil); err != nil {
		t.Fatal(err)
	}
	asked := func(n int) func() bool { return func() bool { return s.oracle.Requests(begin) >= n } }
	if !until(5*time.Minute, asked(manyStarts)) {
		t.Fatalf("the platform received only %d starts", s.oracle.Requests(begin))
	}
	lost := time.Now()
	if !until(within, asked(manyStarts+1)) {
		t.Fatalf("the job is not started again within %v: %+v", within, rowsOf(t, database(t, dsn)))
	}
	t.Logf("the job was started again after %v", time.Since(lost).Round(100*time.Millisecond))
	db := database(t, dsn)
	ended := func() bool {
		for _, r := range rowsOf(t, db) {
			if r.status != dispatch.Finished {
				return false
			}
		}
		return true
	}
	if !until(5*time.Minute, ended) {
		t.Errorf("not all jobs finish: %+v", rowsOf(t, db))
	}
	p.stop(t)
	if n := s.oracle.Sum(); n.Runs != manyStarts || n.Starts != manyStarts || n.Creates != manyStarts {
		t.Errorf("at the platform: %+v", n)
	}
}

// overMany turns the scene's job into a task of n jobs.
func (s scene) overMany(n int) {
	parameters := s.job["parameters"].(map[string]any)
	for _, name := range []string{"temporal_extent", "bbox"} { // the dimension for openEO, and for OGC API - Processes
		if value, given := parameters[name]; given {
			delete(parameters, name)
			s.job["dimension"] = map[string]any{"name": name, "values": []any{value}}
		}
	}
	dimension := s.job["dimension"].(map[string]any)
	dimension["values"] = slices.Repeat(dimension["values"].([]any)[:1], n)
}
