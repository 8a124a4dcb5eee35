package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// sharing is the environment of a broker whose platforms have one shared account with quotas for each user.
func sharing(w *simulator.World, users string) []string {
	known := w.Credentials
	account := fmt.Sprintf(`{"token_url": "%s/protocol/openid-connect/token", "client_id": %q, "client_secret": %q}`,
		known.Platform, known.ServiceID, known.ServiceSecret)
	return []string{"EODISPATCH_DEVELOPMENT=true", "EODISPATCH_IDENTITY_ISSUER=" + known.Issuer,
		"EODISPATCH_IDENTITY_AUDIENCE=" + known.BrokerID, "EODISPATCH_DATABASE=sqlite:d.db",
		fmt.Sprintf(`EODISPATCH_PLATFORMS=[{"name": "eo", "protocol": "openeo", "endpoint": %q, "access": "shared",
			"service_account": %s, "users": %s}]`, w.OpenEOURL, account, users)}
}

// TestSharedAccount_OnlyForEntitledUsers runs the real program: a user without the role is refused with 403, a user
// with it has a quota of their own, beyond which the answer is 429, and a request cannot change either.
func TestSharedAccount_OnlyForEntitledUsers(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	w.OpenEO.SetLife(simulator.Life{Run: dispatch.Day})
	p := Start(t,
		sharing(w, `{"jobs": 2, "jobs_per_day": 3, "claim": "realm_access.roles", "any_of": ["eo-users"]}`)...)
	role := map[string]any{"realm_access": map[string]any{"roles": []string{"eo-users"}}}
	alice, carol, bob := As(w, p.Address, "alice", role), As(w, p.Address, "carol", role), As(w, p.Address, "bob", nil)
	refused := func(err error, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%v, want %s", err, text)
			}
		}
	}
	job := OpenEO(w)
	for range 2 {
		if _, err := alice.Submit(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	_, err := alice.Submit(t.Context(), job)
	refused(err, "429", `"RATE_LIMITED"`, "A user may have 2 unfinished jobs at eo. You have 2, and request 1.")
	tiles := job
	tiles.Parameters = json.RawMessage(`{"spatial_extent": ` + Area + `}`)
	_, err = carol.Upscale(t.Context(), tiles, dispatch.Dimension{Name: "temporal_extent",
		Values: []json.RawMessage{[]byte(Span), []byte(Span), []byte(Span)}})
	refused(err, "429", "You have 0, and request 3.")
	if _, err := carol.Submit(t.Context(), job); err != nil {
		t.Errorf("another's quota: %v", err)
	}
	_, err = bob.Submit(t.Context(), job)
	refused(err, "403", `"FORBIDDEN"`, "You are not permitted to use eo.")
	job.Options = json.RawMessage(`{"auth_method": "USER_CREDENTIALS", "roles": ["eo-users"], "claim": "sub"}`)
	_, err = bob.Submit(t.Context(), job)
	refused(err, "403")
	body, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	refused(bob.Call(t.Context(), http.MethodPost, "/sync_jobs", body, new(any)), "403")
	var use []struct {
		Platform string
		Live     int
		Limit    int `json:"live_limit"`
		Day      int `json:"last_day"`
		DayLimit int `json:"last_day_limit"`
	}
	if err := alice.Call(t.Context(), http.MethodGet, "/usage", nil, &use); err != nil || len(use) != 1 ||
		use[0].Platform != "eo" || use[0].Live != 2 || use[0].Limit != 2 || use[0].Day != 2 || use[0].DayLimit != 3 {
		t.Errorf("usage %+v, %v", use, err)
	}
	p.Stop(t)
}
