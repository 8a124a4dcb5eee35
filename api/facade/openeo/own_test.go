package openeo_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

// withoutOpenEO returns a world whose only platform speaks OGC API - Processes.
func withoutOpenEO(t *testing.T) *world {
	t.Helper()
	w := newWorldWith(t, nil, nil, func(w *world) []catalogue.Service {
		return []catalogue.Service{{ID: "ndvi", Title: "NDVI", Platform: "ogc", Label: dispatch.OGCProcess,
			Service: dispatch.Service{Endpoint: w.urls["ogc"], Application: "ndvi"}}}
	})
	w.backends[0].Limits = dispatch.Limits{Jobs: 20, Requests: 4, Send: 30 * time.Second}
	t.Cleanup(conformance.RunBroker(w.broker))
	return w
}

// TestOnlyOGC_ServesWhatClientsReadFirst: what clients ask for before they do anything is there, and it lists what can
// be run.
func TestOnlyOGC_ServesWhatClientsReadFirst(t *testing.T) {
	t.Parallel()
	w := withoutOpenEO(t)
	versions := w.get("/.well-known/openeo")["versions"].([]any)
	if len(versions) != 2 || versions[0].(map[string]any)["url"] != publicURL+"/openeo/1.2" {
		t.Errorf("versions %v", versions)
	}
	for path, member := range map[string]string{"/": "endpoints", "/conformance": "conformsTo",
		"/collections": "collections", "/processes": "processes", "/file_formats": "output",
		"/processes/catalogue": "processes", "/processing_parameters": "create_job_parameters"} {
		if v := w.get("/openeo/1.2"+path, "Authorization", anna); v[member] == nil {
			t.Errorf("%s has no %s: %v", path, member, v)
		}
	}
	for _, path := range []string{"/udf_runtimes", "/service_types"} {
		if v := w.get("/openeo/1.2" + path); len(v) > 0 {
			t.Errorf("%s: %v", path, v)
		}
	}
	if text := w.ask("GET", "/openeo/1.2/processing_parameters", "").Body.String(); strings.Contains(text, "null") {
		t.Errorf("an option without values: %s", text)
	}
	refusedWith(t, w.ask("GET", "/openeo/1.2/collections/S2", ""), http.StatusNotFound, "CollectionNotFound")
	refusedWith(t, w.ask("GET", "/openeo/1.2/collections/S2/queryables", ""), http.StatusNotFound, "CollectionNotFound")
	refusedWith(t, w.ask("GET", "/openeo/1.2/processes/none", ""), http.StatusNotFound, "NotFound")
	refusedWith(t, w.ask("GET", "/openeo/ogc/1.2/", ""), http.StatusNotFound, "NotFound")
}

// TestOnlyOGC_RunsServices: a call of a service runs, in each format that is listed; every other graph is refused, and
// says what is possible.
func TestOnlyOGC_RunsServices(t *testing.T) {
	t.Parallel()
	w := withoutOpenEO(t)
	for format := range w.get("/openeo/1.2/file_formats")["output"].(map[string]any) {
		path := w.createAt(strings.Replace(calling("ndvi", `{"bbox": `+someBox+`}`), "GTiff", format, 1), "ogc")
		w.is(http.StatusAccepted, "POST", path+"/results", "")
		w.until(path, "finished")
		if c := w.get(path+"/results", "Authorization", anna); len(c["assets"].(map[string]any)) == 0 {
			t.Errorf("%s: results %v", format, c)
		}
	}
	for _, path := range []string{mergedJobs, "/openeo/1.2/validation"} {
		got := w.ask("POST", path, `{"process": `+addition+
			`, "process_graph": {"a": {"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": true}}}`, "Authorization",
			anna)
		if text := got.Body.String(); !strings.Contains(text, "ProcessUnsupported") ||
			!strings.Contains(text, "/processes/catalogue") {
			t.Errorf("%s: %d %s", path, got.Code, text)
		}
	}
	refusedWith(t, w.ask("PUT", "/openeo/1.2/process_graphs/save_result", addition, "Authorization", anna),
		http.StatusBadRequest, "PredefinedProcessExists")
}
