package clients

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// serveDeployed starts simulated platforms, and the program with the variables of the APEx Dispatch API. Two others are
// for the test's network: a free port, and addresses without TLS.
func serveDeployed(t *testing.T) map[string]any {
	t.Helper()
	life := simulator.Life{Queue: 200 * time.Millisecond, Run: 200 * time.Millisecond}
	w, err := simulator.Start(simulator.Options{Life: life})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	known := w.Credentials
	asUser := fmt.Sprintf(`{"auth_method": "USER_CREDENTIALS", "token_provider": %q, "token_prefix": "oidc/sim"}`,
		simulator.PlatformAlias)
	p := executable.Start(t, executable.Released, "EODISPATCH_DEVELOPMENT=true",
		"APP_NAME=APEx Dispatch API", "APP_ENV=production", "APP_VERSION=0.7.2",
		"KEYCLOAK_HOST="+w.IdPURL, "KEYCLOAK_REALM="+simulator.BrokerRealm,
		"KEYCLOAK_CLIENT_ID="+known.BrokerID, "KEYCLOAK_CLIENT_SECRET="+known.BrokerSecret,
		"DATABASE_URL=sqlite:///./apex.db",
		fmt.Sprintf(`BACKENDS={%q: %s, %q: %s}`, w.OpenEOURL, asUser, w.OGCURL, asUser))
	if p.Address == "" {
		t.Fatalf("it does not serve:\n%s", p.Log)
	}
	return map[string]any{"broker": p.Address, "token": tokenOf(t, known), "openeo": w.OpenEOURL, "ogc": w.OGCURL}
}

// TestDeployedClient runs all operations of the published client of the APEx Dispatch API, and of one that is generated
// from the broker's own document, whose modules and classes have the same names.
func TestDeployedClient(t *testing.T) {
	given := serveDeployed(t)
	want := map[string]any{
		"health": 200.0,
		"openeo_types": map[string]any{"spatial_extent": "bounding-box", "temporal_extent": "date-interval",
			"max_cloud_cover": "double"},
		"created": []any{"ProcessingJobSummary", "created", "openeo", given["openeo"], true},
		"job":     []any{"ProcessingJob", "finished", true, true},
		"results": []any{"Collection", true, []any{"openEO.tif"}},
		"sync":    []any{200.0, true},
		"tiles":   []any{"GeometryCollection", true, true},
		"task": []any{"UpscalingTaskSummary", "UpscalingTask", "finished",
			[]any{"NDVI - Processing Job 1", "NDVI - Processing Job 2"}},
		"list":    []any{"JobsStatusResponse", true, true},
		"deleted": []any{200.0, nil},
		"missing": []any{"ErrorResponse", "JOB_NOT_FOUND"},
		"refused": []any{"HTTPValidationError", []any{"body", "parameters", "spatial_extent"}},
	}
	for environment, more := range map[string]map[string]any{
		"apex-client":           {"package": "apex_dispatch_api_client", "generate": false},
		"openapi-python-client": {"package": "regenerated", "generate": true},
	} {
		t.Run(environment, func(t *testing.T) {
			python := folderOf(t, environment) + "/python"
			for name, value := range more {
				given[name] = value
			}
			var found map[string]any
			run(t, given, &found, python, source(t, "use_deployed_client.py"))
			types, ok := found["ogc_types"].(map[string]any)
			if delete(found, "ogc_types"); !ok || types["object"] != "string" || types["integer"] != "integer" {
				t.Errorf("types of the OGC process: %v", types)
			}
			if d := cmp.Diff(want, found); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestDeployedNotebooks sends what the published notebooks of the APEx Dispatch API send.
func TestDeployedNotebooks(t *testing.T) {
	python := folderOf(t, "apex-client") + "/python"
	want := map[string]any{"executed": "finished", "raster": true, "sync": true,
		"upscaled": "finished", "jobs": true, "tile": true, "rasters": true, "black": []any{}}
	var found map[string]any
	run(t, serveDeployed(t), &found, python, source(t, "use_notebooks.py"))
	if d := cmp.Diff(want, found); d != "" {
		t.Error(d)
	}
}
