package openeo_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// definitions are documents of an author, by their paths.
var definitions = map[string]string{
	"/large.json": `{"id": "large",
		"parameters": [{"name": "x", "schema": {"type": "number"}, "optional": true, "default": 1}],
		"default_job_options": {"driver-memory": "8g", "executor-memory": "4g"},
		"process_graph": {"m": {"process_id": "multiply",
			"arguments": {"x": {"from_parameter": "x"}, "y": 2}, "result": true}}}`,
	"/western.json": `{"id": "western", "process_graph": {"l": {"process_id": "load_collection",
		"arguments": {"id": "WEST", "spatial_extent": null, "temporal_extent": null}, "result": true}}}`,
	"/two.json": `{"id": "two",
		"process_graph": {"a": {"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": true},
		"b": {"process_id": "add", "arguments": {"x": 1, "y": 3}, "result": true}}}`,
}

// withDefinitions returns a world with two openEO platforms that read no definitions at URLs, services of them and of
// an OGC platform, and a function that returns what was created at the platforms, by the path of the platform's host.
func withDefinitions(t *testing.T) (w *world, author string, created func() (at, body string)) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = rw.Write([]byte(definitions[r.URL.Path]))
	}))
	t.Cleanup(server.Close)
	w = newWorldWith(t, []string{"east", "west"}, func(name string, s *simulator.OpenEO) {
		s.ListedOnly, s.Collections, s.Life = true, []string{strings.ToUpper(name)},
			simulator.Life{Run: time.Millisecond}
	}, func(w *world) []catalogue.Service {
		openEO := func(id, application string) catalogue.Service {
			return catalogue.Service{ID: id, Title: id, Platform: "west", Label: dispatch.OpenEO,
				Service: dispatch.Service{Endpoint: w.urls["west"], Application: application}}
		}
		return []catalogue.Service{openEO("large", server.URL+"/large.json"), openEO("two", server.URL+"/two.json"),
			{ID: "ndvi", Title: "NDVI", Platform: "ogc", Label: dispatch.OGCProcess,
				Service: dispatch.Service{Endpoint: w.urls["ogc"], Application: "ndvi"}, Formats: []string{"gtiff"}}}
	})
	for _, b := range w.backends {
		b.Limits = dispatch.Limits{Jobs: 20, Requests: 4, Send: 30 * time.Second}
	}
	t.Cleanup(conformance.RunBroker(w.broker))
	var at, body string
	w.front = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/jobs") {
			at, body = "http://"+r.Host, string(tee(r))
		}
		return false
	}
	return w, server.URL, func() (string, string) { return at, body }
}

// run creates a batch job in the view of all platforms, starts it, and waits until it has finished.
func (w *world) run(body string) (path string) {
	w.t.Helper()
	path = w.createAt(body, "")
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	w.until(path, "finished")
	return path
}

// The job options that a definition proposes reach the platform whenever the broker puts its nodes in place of the
// call. Those of the client count first.
func TestDefinitions_JobOptions(t *testing.T) {
	t.Parallel()
	w, author, created := withDefinitions(t)
	got := w.ask("PUT", "/openeo/1.2/process_graphs/mine", definitions["/large.json"], "Authorization", anna)
	if got.Code != http.StatusOK {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	call := func(process, options string) string {
		return `{"job_options": {"eodispatch:platform": "west"` + options + `},
			"process": {"process_graph": {"r": ` + process + `,
			"n": {"process_id": "add", "arguments": {"x": {"from_node": "r"}, "y": 1}, "result": true}}}}`
	}
	service := `{"process_id": "large", "namespace": "catalogue", "arguments": {}}`
	own := `"driver-memory":"16g","executor-memory":"4g"`
	proposed := `"driver-memory":"8g","executor-memory":"4g"`
	for name, row := range map[string]struct{ body, want string }{
		"a service in a graph":      {call(service, ""), proposed},
		"with options of one's own": {call(service, `, "driver-memory": "16g"`), own},
		"a process of one's own":    {call(`{"process_id": "mine", "arguments": {}}`, ""), proposed},
		"a definition at a URL": {
			call(`{"process_id": "large", "namespace": "`+author+`/large.json", "arguments": {}}`, ""), proposed},
		"a service alone": {calling("large", "{}"), proposed},
		"saved by the platform's own process": {strings.Replace(calling("large", "{}"), `"save_result"`,
			`"save_result", "namespace": "backend"`, 1), proposed},
		"split into tiles": {strings.Replace(strings.Replace(call(service,
			`, "eodispatch:tile_grid": "20x20km", "eodispatch:split_parameter": "area"`), `"y": 1`,
			`"y": 1, "area": `+someBox, 1), "\n", "", 1), proposed},
	} {
		t.Run(name, func(t *testing.T) {
			w.run(row.body)
			if _, body := created(); !strings.Contains(body, `"job_options":{`+row.want+`}`) {
				t.Errorf("created %s", body)
			}
		})
	}
}

// The namespace "backend" has the platform's own processes, as no namespace has.
func TestDefinitions_NamespaceOfThePlatform(t *testing.T) {
	t.Parallel()
	w, _, created := withDefinitions(t)
	w.run(`{"process": {"process_graph": {
		"l": {"process_id": "load_collection", "namespace": "backend",
			"arguments": {"id": "WEST", "spatial_extent": null, "temporal_extent": null}},
		"s": {"process_id": "save_result", "namespace": "backend",
			"arguments": {"data": {"from_node": "l"}, "format": "GTiff"}, "result": true}}}}`)
	if at, _ := created(); at != w.urls["west"] {
		t.Errorf("created at %s", at)
	}
	w.run(strings.Replace(calling("ndvi", `{"bbox": `+someBox+`}`), `"save_result"`,
		`"save_result", "namespace": "backend"`, 1))
}

// A definition at a URL is put in place of its call where the platform does not read it, and what it uses decides
// about the platform.
func TestDefinitions_AtURLs(t *testing.T) {
	t.Parallel()
	w, author, created := withDefinitions(t)
	w.run(`{"process": {"process_graph": {"a": {"process_id": "western", "namespace": "` + author +
		`/western.json", "arguments": {}, "result": true}}}}`)
	if at, body := created(); at != w.urls["west"] || !strings.Contains(body, `"load_collection"`) ||
		strings.Contains(body, "western") {
		t.Errorf("created at %s: %s", at, body)
	}
	for _, at := range []string{mergedJobs, "/openeo/east/1.2/jobs"} {
		got := w.ask("POST", at, `{"process": {"process_graph": {"a": {"process_id": "none",
			"namespace": "`+author+`/western.json", "arguments": {}, "result": true}}}}`, "Authorization", anna)
		refusedWith(t, got, http.StatusBadRequest, "ProcessGraphInvalid")
	}
}

// A service can be called by the address at which the broker describes it, on platforms of every protocol. What
// validation refuses is not created.
func TestDefinitions_AtTheBroker(t *testing.T) {
	t.Parallel()
	w, _, _ := withDefinitions(t)
	at := func(body, service string) string {
		return strings.Replace(body, `"catalogue"`, `"`+publicURL+"/openeo/1.2/processes/catalogue/"+service+`"`, 1)
	}
	path := w.run(at(calling("ndvi", `{"bbox": `+someBox+`}`), "ndvi"))
	shown, _ := json.Marshal(w.get(path, "Authorization", anna)["process"])
	if !strings.Contains(string(shown), `"namespace":"catalogue"`) {
		t.Errorf("shown as %s", shown)
	}
	w.run(at(calling("large", `{}`), "large"))
	bad := at(calling("none", `{}`), "none")
	refusedWith(t, w.ask("POST", mergedJobs, bad, "Authorization", anna), http.StatusBadRequest, "ProcessUnsupported")
	var job struct{ Process json.RawMessage }
	if err := json.Unmarshal([]byte(bad), &job); err != nil {
		t.Fatal(err)
	}
	got := object(t, w.ask("POST", "/openeo/1.2/validation", string(job.Process), "Authorization", anna), http.StatusOK)
	if len(got["errors"].([]any)) != 1 {
		t.Errorf("validated as %v", got)
	}
}

// A definition with two result nodes is refused, as a graph of a client is, and neither is taken by chance.
func TestDefinitions_TwoResults(t *testing.T) {
	t.Parallel()
	w, _, _ := withDefinitions(t)
	got := w.ask("PUT", "/openeo/1.2/process_graphs/mine", definitions["/two.json"], "Authorization", anna)
	if got.Code != http.StatusOK {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	for _, process := range []string{`"two", "namespace": "catalogue"`, `"mine"`} {
		body := `{"job_options": {"eodispatch:platform": "west"},
			"process": {"process_graph": {"r": {"process_id": ` + process + `, "arguments": {}},
			"n": {"process_id": "add", "arguments": {"x": {"from_node": "r"}, "y": 1}, "result": true}}}}`
		got := w.ask("POST", mergedJobs, body, "Authorization", anna)
		refusedWith(t, got, http.StatusBadRequest, "ProcessGraphInvalid")
	}
}
