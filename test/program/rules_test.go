package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// TestServiceRules_OfTheRealProgram runs the real program with rules for a service of its catalogue: they are shown,
// give a request its options and format, limit it, and say who may run it.
func TestServiceRules_OfTheRealProgram(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	job := OpenEO(w)
	application, err := json.Marshal(job.Service.Application)
	if err != nil {
		t.Fatal(err)
	}
	p := Start(t, append(sharing(w, `{"jobs": 5}`),
		fmt.Sprintf(`EODISPATCH_SERVICES=[{"id": "ndvi", "platform": "eo", "application": %s}]`, application),
		`EODISPATCH_SERVICE_RULES=[{"services": ["ndvi"], "options": {"retries": 2}, "max_duration": "1h", "format": "gtiff", "users": {"claim": "realm_access.roles", "any_of": ["staff"]}}]`)...)
	role := map[string]any{"realm_access": map[string]any{"roles": []string{"staff"}}}
	alice, bob := As(w, p.Address, "alice", role), As(w, p.Address, "bob", nil)
	for who, c := range map[bool]Client{true: alice, false: bob} {
		var shown struct {
			Rules struct {
				Permitted   bool
				Format      string
				MaxDuration int64 `json:"max_duration"`
				Options     map[string]any
			}
		}
		if err := c.Call(t.Context(), http.MethodGet, "/services/ndvi", nil, &shown); err != nil ||
			shown.Rules.Permitted != who || shown.Rules.Format != "gtiff" || shown.Rules.MaxDuration != 3600 ||
			shown.Rules.Options["retries"] != 2. {
			t.Errorf("shown %+v, %v", shown.Rules, err)
		}
	}
	ask := func(c Client, options string) error {
		body := fmt.Sprintf(`{"title": "t", "service": {"id": "ndvi"}, "parameters": %s, "options": %s}`,
			job.Parameters, options)
		var made struct {
			ID         dispatch.JobID
			Parameters struct{}
		}
		if err := c.Call(t.Context(), http.MethodPost, "/unit_jobs", []byte(body), &made); err != nil {
			return err
		}
		var kept struct {
			Format  string
			Retries struct{ Limit int }
		}
		if err := c.Call(t.Context(), http.MethodGet, fmt.Sprintf("/unit_jobs/%d", made.ID), nil, &kept); err != nil ||
			kept.Format != "gtiff" {
			t.Errorf("kept %+v, %v", kept, err)
		}
		return nil
	}
	if err := ask(alice, `{}`); err != nil {
		t.Error(err)
	}
	if err := ask(alice, `{"max_duration": 7200}`); err == nil ||
		!strings.Contains(err.Error(), "may run for 3600 seconds") {
		t.Errorf("%v", err)
	}
	if err := ask(bob, `{}`); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("%v", err)
	}
	p.Stop(t)
}
