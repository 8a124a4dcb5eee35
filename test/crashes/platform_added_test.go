package crashes

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestReplicas_PlatformIsAddedToOneAfterTheOther runs one replica with a new platform and one without. It checks that
// jobs for the new platform start soon, and that neither replica shows them as platform_not_configured.
func TestReplicas_PlatformIsAddedToOneAfterTheOther(t *testing.T) {
	t.Parallel()
	dsn := postgres.Database(t)
	life := simulator.Life{Run: time.Second}
	known, added := crash{life: life}.scene(t), crash{life: life}.scene(t)
	platforms := []map[string]any{{"name": "known", "protocol": "openeo", "endpoint": known.url, "access": "open"},
		{"name": "added", "protocol": "openeo", "endpoint": added.url, "access": "open"}}
	before := launch(t, released, environment(t, dsn, platforms[:1]))
	after := launch(t, released, environment(t, dsn, platforms))
	db := database(t, dsn)
	for n := 1; n <= 8; n++ {
		began := time.Now()
		for p, job := range map[*program]map[string]any{after: added.job, before: known.job} {
			if err := p.ask(t.Context(), http.MethodPost, "/unit_jobs", "", job, nil); err != nil {
				t.Fatal(err)
			}
		}
		noted := func() bool {
			for _, p := range []*program{before, after} {
				var text json.RawMessage
				if err := p.ask(t.Context(), http.MethodGet, "/jobs_status", "", nil, &text); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(text), string(dispatch.NoPlatform)) {
					t.Fatalf("platform_not_configured after %d jobs: %s", n, text)
				}
			}
			return added.oracle.Sum().Runs == n && known.oracle.Sum().Runs == n
		}
		if !until(time.Minute, noted) {
			t.Fatalf("job %d is not started after %v: %+v", n, time.Since(began), rowsOf(t, db))
		}
	}
	ended := func() bool {
		return !slices.ContainsFunc(rowsOf(t, db), func(r row) bool { return r.status != dispatch.Finished })
	}
	if !until(3*time.Minute, ended) {
		t.Errorf("not all jobs finish: %+v", rowsOf(t, db))
	}
	before.stop(t)
	after.stop(t)
}
