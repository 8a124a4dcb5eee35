package program

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestIssuers_EachWithItsAudienceAndExchange runs the real program with two issuers: the broker's realm, whose users
// are linked to accounts at the platform, and the platform's own realm, whose users bring the platform's tokens.
func TestIssuers_EachWithItsAudienceAndExchange(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	known := w.Credentials
	// what the tokens of the client apex-broker are for
	const platformAPI, platformSecret = "platform-api", "platform-api-secret"
	p := Start(t, "EODISPATCH_DEVELOPMENT=true", "EODISPATCH_DATABASE=sqlite:d.db",
		"EODISPATCH_PUBLIC_URL=https://broker.example.org",
		"EODISPATCH_VAULT_KEYS="+identity.NewKey(time.Now()).Reveal(),
		"EODISPATCH_IDENTITY_ISSUER="+known.Issuer, "EODISPATCH_IDENTITY_CLIENT_ID="+known.BrokerID,
		"EODISPATCH_IDENTITY_CLIENT_SECRET="+known.BrokerSecret, fmt.Sprintf(
			`EODISPATCH_PLATFORMS=[{"name": "eo", "protocol": "openeo", "endpoint": %q, "access": "user", "issuer": %q,
			"exchange": {"driver": "keycloak-requested-issuer", "alias": %q}}, {"name": "ogc", "protocol": "ogc-api-processes", "endpoint": %q, "access": "open"}]`,
			w.OpenEOURL, known.Platform, simulator.PlatformAlias, w.OGCURL), fmt.Sprintf(
			`EODISPATCH_ISSUERS=[{"issuer": %q, "client_id": %q, "client_secret": %q, "platforms": [{"name": "eo", "exchange": {"driver": "passthrough"}}]}]`,
			known.Platform, platformAPI, platformSecret))
	mint := func(realm, user, of string, claims map[string]any) Client {
		return Client{p.Address, w.IdP.Mint(realm, user, of, simulator.TokenFaults{Claims: claims})}
	}
	alice := mint(simulator.BrokerRealm, "alice", known.Client, nil)
	there := mint(simulator.PlatformRealm, "alice-p", "apex-broker", nil)
	finish := func(c Client) int64 {
		t.Helper()
		j, err := c.Submit(t.Context(), OpenEO(w))
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(3 * time.Minute); !j.Ended() && time.Now().Before(deadline) && err == nil; {
			err = c.Call(t.Context(), http.MethodGet, fmt.Sprintf("/unit_jobs/%d?wait=30", j.ID), nil, &j)
		}
		if err != nil || j.Status != string(dispatch.Finished) {
			t.Fatalf("%+v, %v", j, err)
		}
		return j.ID
	}
	mine, theirs := finish(alice), finish(there)

	var shown any
	for path, c := range map[string]Client{fmt.Sprintf("/unit_jobs/%d", theirs): alice, fmt.Sprintf("/unit_jobs/%d",
		mine): there} {
		if err := c.Call(t.Context(), http.MethodGet, path, nil, &shown); err == nil ||
			!strings.Contains(err.Error(), "404") {
			t.Errorf("another identity of the same person reads %s: %v", path, err)
		}
	}
	for name, c := range map[string]Client{
		"the first issuer's for the second's audience": mint(simulator.BrokerRealm, "alice", known.Client,
			map[string]any{"aud": platformAPI}),
		"the second issuer's for the first's audience": mint(simulator.PlatformRealm, "alice-p", "apex-broker",
			map[string]any{"aud": known.BrokerID}),
		"the first's signature, the second's name": mint(simulator.BrokerRealm, "alice", known.Client,
			map[string]any{"iss": known.Platform, "aud": platformAPI}),
	} {
		if err := c.Call(t.Context(), http.MethodGet, "/jobs_status", nil, &shown); err == nil ||
			!strings.Contains(err.Error(), "401") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := there.Submit(t.Context(), OGC(w)); err == nil || !strings.Contains(err.Error(), "403") ||
		!strings.Contains(err.Error(), "ogc") {
		t.Errorf("a platform that is not listed for the issuer: %v", err)
	}
	if _, err := alice.Submit(t.Context(), OGC(w)); err != nil {
		t.Errorf("the same platform for the first issuer: %v", err)
	}
	if err := there.Call(t.Context(), http.MethodPost, "/grants", nil, &shown); err == nil ||
		!strings.Contains(err.Error(), "501") {
		t.Errorf("a permission, for which the page would sign in another identity: %v", err)
	}
	if err := alice.Call(t.Context(), http.MethodPost, "/grants", nil, &shown); err != nil {
		t.Error(err)
	}
	var listed struct {
		Servers []string `json:"authorization_servers"`
	}
	if err := alice.Call(t.Context(), http.MethodGet, "/.well-known/oauth-protected-resource", nil,
		&listed); err != nil || strings.Join(listed.Servers, " ") != known.Issuer+" "+known.Platform {
		t.Errorf("%v, %v", listed, err)
	}
	p.Stop(t)
}
