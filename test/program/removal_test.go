package program

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestDelete_AtThePlatformToo runs the real program on both protocols: a job that its user deletes at the platform too
// is removed there when the platform answers again, and one that is only deleted stays.
func TestDelete_AtThePlatformToo(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	p := Start(t, deployed(w, asUser, asUser)...)
	c := SignIn(t, w, p.Address)
	for name, s := range map[string]struct {
		request dispatch.Request
		oracle  *simulator.Oracle
		faults  *simulator.Faults
	}{
		"openEO": {OpenEO(w), &w.OpenEO.Oracle, &w.OpenEO.Faults},
		"OGC":    {OGC(w), &w.OGC.Oracle, &w.OGC.Faults},
	} {
		t.Run(name, func(t *testing.T) {
			ended := func() string {
				t.Helper()
				j, err := c.Submit(t.Context(), s.request)
				for limit := time.Now().Add(3 * time.Minute); err == nil && !j.Ended() && time.Now().Before(limit); {
					err = c.Call(t.Context(), http.MethodGet, fmt.Sprintf("/unit_jobs/%d?wait=5", j.ID), nil, &j)
				}
				if err != nil || j.Status != string(dispatch.Finished) {
					t.Fatalf("%+v, %v", j, err)
				}
				return fmt.Sprintf("/unit_jobs/%d", j.ID)
			}
			kept, removed := ended(), ended()
			s.faults.Add(simulator.Fault{Route: "DELETE /jobs/{id}", Status: 503, Times: 2})
			for _, path := range []string{kept, removed + "?platform=true"} {
				if err := c.Call(t.Context(), http.MethodDelete, path, nil, new(any)); err != nil {
					t.Fatal(err)
				}
			}
			ticks := time.NewTicker(100 * time.Millisecond)
			defer ticks.Stop()
			for limit := time.Now().Add(3 * time.Minute); s.oracle.Sum().Cancels < 1; <-ticks.C {
				if time.Now().After(limit) {
					t.Fatalf("nothing was removed; %d requests", s.oracle.Requests("DELETE /jobs/{id}"))
				}
			}
			if n := s.oracle.Requests("DELETE /jobs/{id}"); n != 3 || s.oracle.Sum().Cancels != 1 {
				t.Errorf("%d requests, %d jobs removed, want 3 and 1", n, s.oracle.Sum().Cancels)
			}
		})
	}
	p.Stop(t)
}
