package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	wire "github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// TestCosts_AreBookedAndBounded runs the real program on both databases: what a job cost is shown and booked, also when the job was deleted, and a user
// whose jobs have cost as much as the quota of the month permits submits no more.
func TestCosts_AreBookedAndBounded(t *testing.T) {
	for name, database := range map[string]func() string{
		"SQLite":     func() string { return "sqlite:" + filepath.Join(t.TempDir(), "d.db") },
		"PostgreSQL": func() string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			w := startWorld(t)
			p := startProgram(t, append(sharing(w, `{"costs_per_month": 2}`), "EODISPATCH_DATABASE="+database())...)
			alice := as(w, p.Address, "alice", nil)
			job, err := alice.submit(t.Context(), openEORequest(w))
			if err != nil {
				t.Fatal(err)
			}
			var is wire.Job
			path := fmt.Sprintf("/unit_jobs/%d", job.ID)
			for !is.Status.Final() {
				if err := alice.call(t.Context(), http.MethodGet, path+"?wait=30", nil, &is); err != nil {
					t.Fatal(err)
				}
			}
			if is.Costs == nil || *is.Costs != 2 || is.CostUnit != "credits" || is.Usage == nil || is.Usage.CPU == nil || is.Usage.CPU.Unit != "cpu-seconds" {
				t.Errorf("job %+v", is)
			}
			_, err = alice.submit(t.Context(), openEORequest(w))
			if err == nil || !strings.Contains(err.Error(), "429") || !strings.Contains(err.Error(), "may cost 2 credits in a month. Yours have cost 2 since the first of") {
				t.Errorf("beyond the quota: %v", err)
			}
			if _, err := as(w, p.Address, "carol", nil).submit(t.Context(), openEORequest(w)); err != nil {
				t.Errorf("another's quota: %v", err)
			}
			if err := alice.call(t.Context(), http.MethodDelete, path, nil, new(any)); err != nil {
				t.Fatal(err)
			}
			var use []wire.Usage
			if err := alice.call(t.Context(), http.MethodGet, "/usage", nil, &use); err != nil || len(use) != 1 || use[0].CostsOf == nil || *use[0].CostsOf != 2 ||
				len(use[0].Charges) != 1 || use[0].Charges[0].Costs != 2 || use[0].Charges[0].Unit != "credits" || use[0].Charges[0].Runs != 1 {
				t.Errorf("usage %+v, %v", use, err)
			}
			p.Stop(t)
		})
	}
}
