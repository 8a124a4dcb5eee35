package program

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// permitting is the environment of a broker that shares one account at an openEO and an OGC server, with what the
// operator allows.
func permitting(w *simulator.World, allow string) []string {
	known := w.Credentials
	account := fmt.Sprintf(
		`{"token_url": "%s/protocol/openid-connect/token", "client_id": %q, "client_secret": %q, "allow": %s}`,
		known.Platform, known.ServiceID, known.ServiceSecret, allow)
	return append(sharing(w, `{}`), fmt.Sprintf(`EODISPATCH_PLATFORMS=[
		{"name": "eo", "protocol": "openeo", "endpoint": %q, "access": "shared", "service_account": %s},
		{"name": "ogc", "protocol": "ogc-api-processes", "endpoint": %q, "access": "shared", "service_account": %s}]`,
		w.OpenEOURL, account, w.OGCURL, account))
}

// TestPermits_SharedAccount runs the real program: options that cost money or call others, and processes that reach
// what the account stores, are refused by a text that names the switch, and nothing is kept; with the switch they pass.
func TestPermits_SharedAccount(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	w.OpenEO.SetLife(simulator.Life{Run: dispatch.Day})
	p := Start(t, permitting(w, `[]`)...)
	alice := As(w, p.Address, "alice", nil)
	plan, subscriber, stored := OpenEO(w), OGC(w), OpenEO(w)
	plan.Options = json.RawMessage(`{"plan": "premium", "validate": false}`)
	subscriber.Options = json.RawMessage(`{"subscriber": {"successUri": "https://third.example/hook"}}`)
	stored.Service.Application, stored.Parameters = "load_result", json.RawMessage(`{"id": "j-of-another"}`)
	for name, r := range map[string]dispatch.Request{"plan": plan, "subscriber": subscriber, "load_result": stored} {
		body, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a run that is not refused goes on for a day
		_, job := alice.Submit(t.Context(), r)
		_, task := alice.Upscale(t.Context(), r, dispatch.Dimension{Name: "n", Values: []json.RawMessage{[]byte("1"),
			[]byte("2")}})
		for what, err := range map[string]error{"job": job, "task": task, "run": alice.Call(ctx, http.MethodPost,
			"/sync_jobs", body, new(any))} {
			if err == nil || !strings.Contains(err.Error(), "422") ||
				!strings.Contains(err.Error(), name+" is not permitted") ||
				!strings.Contains(err.Error(), "service_account.allow") {
				t.Errorf("%s of a %s: %v", name, what, err)
			}
		}
		cancel()
	}
	var list struct {
		Tasks []any `json:"upscaling_tasks"`
		Jobs  []any `json:"processing_jobs"`
	}
	if err := alice.Call(t.Context(), http.MethodGet, "/jobs_status", nil, &list); err != nil ||
		len(list.Tasks)+len(list.Jobs) != 0 {
		t.Errorf("kept %+v, %v", list, err)
	}
	for name, r := range map[string]dispatch.Request{"openEO": OpenEO(w), "OGC": OGC(w)} {
		r.Options = json.RawMessage(`{"budget": {"amount": 50, "unit": "credits"}, "trial": 1, "validate": false}`)
		if _, err := alice.Upscale(t.Context(), r,
			dispatch.Dimension{Name: "n", Values: []json.RawMessage{[]byte("1"), []byte("2")}}); err != nil {
			t.Errorf("%s: the broker's own budget and trial of a task: %v", name, err)
		}
	}
	budget := OpenEO(w)
	budget.Options = json.RawMessage(`{"budget": 50}`)
	if _, err := alice.Submit(t.Context(), budget); err == nil ||
		!strings.Contains(err.Error(), "budget is not permitted") {
		t.Errorf("the platform's own budget of a job: %v", err)
	}
	p.Stop(t)

	p = Start(t, permitting(w, `["plan", "subscriber", "load_result"]`)...)
	alice = As(w, p.Address, "alice", nil)
	for name, r := range map[string]dispatch.Request{"plan": plan, "subscriber": subscriber} {
		if _, err := alice.Submit(t.Context(), r); err != nil {
			t.Errorf("%s that is allowed: %v", name, err)
		}
	}
	p.Stop(t)
}
