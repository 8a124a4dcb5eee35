package real

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// seenByClient is what a script of the openEO Python client found.
type seenByClient struct {
	Status, Asset                      string
	Costs, Executed                    float64
	Files                              map[string]string
	Logs, Collections, Faults, Unknown []string
	Processes                          int
}

// TestOpenEOFacade_Driver runs a script of the openEO Python client against openeo_driver, the framework that CDSE and
// Terrascope use, and then against the broker in front of it, with only the address and the token changed.
func TestOpenEOFacade_Driver(t *testing.T) {
	environment(t, "openeo-0.53")
	w, err := simulator.Start(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	driver := startOpenEO(t)
	broker := serveProcesses(t, w, fmt.Sprintf(`
- {name: driver, protocol: openeo, endpoint: %s, access: shared, assets: proxy, token_prefix: oidc/test,
   service_account: {token_url: %s/oidc/token, client_id: broker, client_secret: secret}}
`, driver, driver))
	run := func(root, token string) (found seenByClient) {
		judge(t, "openeo-0.53", "openeo_client.py", map[string]any{"root": root, "token": token,
			"collection": "S2_FOOBAR"}, &found)
		if found.Status != "finished" || found.Files["result.json"] != `{"ndvi": 0.5}` || len(found.Logs) == 0 ||
			found.Executed != 8 || len(found.Collections) < 3 || len(found.Unknown) != 1 {
			t.Errorf("at %s: %+v", root, found)
		}
		return found
	}
	there, here := run(driver+"/openeo/1.2", "user.anna"), run(broker+"/openeo/driver/1.2", userToken(t, w))
	if !strings.HasPrefix(there.Asset, driver) || !strings.HasPrefix(here.Asset, broker) {
		t.Errorf("the files are at %s and %s", there.Asset, here.Asset)
	}
	there.Asset, here.Asset, there.Logs, here.Logs = "", "", nil, nil
	if diff := cmp.Diff(there, here); diff != "" {
		t.Errorf("the broker shows something else than the platform:\n%s", diff)
	}
}
