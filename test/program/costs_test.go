package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestCosts_AreBookedAndBounded runs the real program on both databases: what a job cost is shown and booked, also when
// the job was deleted, and a user whose jobs have cost as much as the quota of the month permits submits no more.
func TestCosts_AreBookedAndBounded(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func() string{
		"SQLite":     func() string { return "sqlite:" + filepath.Join(t.TempDir(), "d.db") },
		"PostgreSQL": func() string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			w := startWorld(t)
			p := Start(t, append(sharing(w, `{"costs_per_month": 6}`), "EODISPATCH_DATABASE="+database())...)
			alice := As(w, p.Address, "alice", nil)
			var paths []string
			for range 3 {
				job, err := alice.Submit(t.Context(), OpenEO(w))
				if err != nil {
					t.Fatal(err)
				}
				paths = append(paths, fmt.Sprintf("/unit_jobs/%d", job.ID))
			}
			for _, path := range paths {
				var is wire.ProcessingJob
				for wait := ""; !is.Status.Final(); wait = "?wait=30" { // an ended job does not change any more
					if err := alice.Call(t.Context(), http.MethodGet, path+wait, nil, &is); err != nil {
						t.Fatal(err)
					}
				}
				if is.Costs == nil || *is.Costs != 2 || is.CostUnit != "credits" || is.Usage == nil ||
					is.Usage.CPU == nil || is.Usage.CPU.Unit != "cpu-seconds" {
					t.Errorf("job %+v", is)
				}
			}
			checkEstimates(t, w, alice, As(w, p.Address, "carol", nil))
			if _, err := alice.Submit(t.Context(), OpenEO(w)); err == nil || !strings.Contains(err.Error(), "429") ||
				!strings.Contains(err.Error(), "may cost 6 credits in a month. Yours have cost 6 since the first of") {
				t.Errorf("beyond the quota: %v", err)
			}
			if _, err := As(w, p.Address, "carol", nil).Submit(t.Context(), OpenEO(w)); err != nil {
				t.Errorf("another's quota: %v", err)
			}
			if err := alice.Call(t.Context(), http.MethodDelete, paths[0], nil, new(any)); err != nil {
				t.Fatal(err)
			}
			var use []wire.Usage
			if err := alice.Call(t.Context(), http.MethodGet, "/usage", nil, &use); err != nil || len(use) != 1 ||
				use[0].CostsOf == nil || *use[0].CostsOf != 6 ||
				len(use[0].Charges) != 1 || use[0].Charges[0].Costs != 6 || use[0].Charges[0].Unit != "credits" ||
				use[0].Charges[0].Runs != 3 {
				t.Errorf("usage %+v, %v", use, err)
			}
			p.Stop(t)
		})
	}
}

// checkEstimates estimates a job and a task for a user of whom three jobs have finished, and for one who has none.
func checkEstimates(t *testing.T, w *simulator.World, experienced, novice Client) {
	t.Helper()
	job := OpenEO(w)
	task := struct {
		dispatch.Request
		Dimension dispatch.Dimension `json:"dimension"`
	}{job, dispatch.Dimension{Name: "temporal_extent", Values: []json.RawMessage{[]byte(`["2024-06-01", "2024-06-02"]`),
		[]byte(`["2024-06-02", "2024-06-03"]`)}}}
	task.Parameters = json.RawMessage(`{"spatial_extent": ` + Area + `}`)
	for _, c := range []struct {
		by      Client
		request any
		jobs    int
		likely  float64 // 0: not known
	}{{experienced, job, 1, 2}, {experienced, task, 2, 4}, {novice, job, 1, 0}} {
		body, err := json.Marshal(c.request)
		if err != nil {
			t.Fatal(err)
		}
		var is wire.Estimate
		if err := c.by.Call(t.Context(), http.MethodPost, "/estimate", body, &is); err != nil {
			t.Error(err)
		}
		if known := is.Costs != nil; is.Jobs != c.jobs || known != (c.likely > 0) ||
			known && (is.Costs.Likely != c.likely || is.CostRuns != 3 || is.CostUnit != "credits") {
			t.Errorf("want %d jobs, likely %v: %+v", c.jobs, c.likely, is)
		}
	}
}
