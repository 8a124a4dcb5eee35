package openeo_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// doubled is the definition of a service, as its author publishes it.
const doubled = `{"id": "doubled", "parameters": [{"name": "x", "description": "A number.", "schema": {"type": "number"}}, {"name": "spatial_extent", "description": "", "schema": {}, "optional": true}],
	"process_graph": {"m": {"process_id": "multiply", "arguments": {"x": {"from_parameter": "x"}, "y": 2}, "result": true}}}`

// withServices returns a world whose catalogue has services of two openEO platforms and an OGC platform, and whose
// broker runs jobs.
func withServices(t *testing.T) *world {
	t.Helper()
	author := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(doubled))
	}))
	t.Cleanup(author.Close)
	w := newWorldWith(t, []string{"east", "west"}, func(name string, s *simulator.OpenEO) {
		s.Collections = []string{"SHARED", strings.ToUpper(name)}
		s.Life = simulator.Life{Run: 300 * time.Millisecond}
	}, func(w *world) []catalogue.Service {
		return []catalogue.Service{
			{ID: "composite", Title: "Composite", Description: "Greenest pixels.", Platform: "west",
				Label:   dispatch.OpenEO,
				Service: dispatch.Service{Endpoint: w.urls["west"], Application: "ndvi_composite"}},
			{ID: "doubled", Title: "Doubled", Platform: "west", Label: dispatch.OpenEO,
				Service: dispatch.Service{Endpoint: w.urls["west"], Application: author.URL + "/doubled.json"},
				Cost:    catalogue.Cost{Estimate: new(3.0), Unit: "credits"}},
			{ID: "eastern", Title: "Eastern", Platform: "east", Label: dispatch.OpenEO,
				Service: dispatch.Service{Endpoint: w.urls["east"], Application: "ndvi_composite"}},
			{ID: "ndvi", Title: "NDVI", Platform: "ogc", Label: dispatch.OGCProcess,
				Service:  dispatch.Service{Endpoint: w.urls["ogc"], Application: "ndvi"},
				Cost:     catalogue.Cost{Estimate: new(2.0), Unit: "platform credits per km²"},
				Keywords: []string{"vegetation"},
				Formats:  []string{"gtiff", "PNG"}, Example: json.RawMessage(`{"bbox":[5,51,5.1,51.1]}`)},
		}
	})
	for _, b := range w.backends {
		b.Limits = dispatch.Limits{Jobs: 20, Requests: 4, Send: 30 * time.Second}
	}
	t.Cleanup(conformance.RunBroker(w.broker))
	return w
}

const mergedJobs = "/openeo/1.2/jobs"

// calling returns a batch job that calls a service as clients write it, and saves what it returns.
func calling(service, arguments string) string {
	return `{"title": "A call", "description": "of a service", "log_level": "info", "process": {"process_graph": {"s1": {"process_id": "` + service + `", "namespace": "catalogue", "arguments": ` + arguments + `},
		"saveresult1": {"process_id": "save_result", "arguments": {"data": {"from_node": "s1"}, "format": "GTiff", "options": {}}, "result": true}}}}`
}

const someBox = `{"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25}`

func TestServices_AreProcessesOfANamespace(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	list := w.get("/openeo/1.2/processes/catalogue", "Authorization", anna)["processes"].([]any)
	if len(list) != 4 {
		t.Fatalf("%v", list)
	}
	for _, p := range list {
		if p := p.(map[string]any); p["description"] == nil || p["returns"] == nil ||
			len(p["parameters"].([]any)) == 0 || len(p["federation:backends"].([]any)) != 1 {
			t.Errorf("%v", p)
		}
	}
	first := w.get("/openeo/1.2/processes/catalogue?limit=3", "Authorization", anna)
	next := w.get(strings.TrimPrefix(linkIn(t, first, "next"), publicURL), "Authorization", anna)
	if len(first["processes"].([]any)) != 3 || len(next["processes"].([]any)) != 1 {
		t.Errorf("pages %v and %v", first, next)
	}
	one := w.get("/openeo/1.2/processes/catalogue/ndvi", "Authorization", anna)
	if one["summary"] != "NDVI" || one["examples"] == nil || one["categories"].([]any)[0] != "vegetation" ||
		!strings.Contains(w.ask("GET", "/openeo/1.2/processes/catalogue/ndvi", "").Body.String(), `"bounding-box"`) {
		t.Errorf("%v", one)
	}
	refusedWith(t, w.ask("GET", "/openeo/1.2/processes/catalogue/none", ""), http.StatusNotFound, "ProcessUnsupported")
	refusedWith(t, w.ask("GET", "/openeo/1.2/processes/catalogue?cursor=none", ""), http.StatusBadRequest,
		"ProcessParameterInvalid")
}

// A graph that calls a service runs it where it is, whatever the protocol of its platform.
func TestServices_RunOnTheirPlatforms(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	for _, row := range []struct{ service, arguments, platform string }{
		{"composite", `{"spatial_extent": ` + someBox + `, "temporal_extent": ["2024-06-01", "2024-07-01"]}`, "west"},
		{"doubled", `{"x": 1.50}`, "west"},
		{"ndvi", `{"bbox": ` + someBox + `}`, "ogc"},
	} {
		path := w.createAt(calling(row.service, row.arguments), row.platform)
		w.is(http.StatusAccepted, "POST", path+"/results", "")
		j := w.until(path, "finished")
		text, _ := json.Marshal(j["process"])
		if j["title"] != "A call" || j["description"] != "of a service" || j["log_level"] != "info" ||
			!strings.Contains(string(text), `"namespace":"catalogue","process_id":"`+row.service+`"`) {
			t.Errorf("%s is shown as %v, %s", row.service, j, text)
		}
		if c := w.get(path+"/results", "Authorization", anna); len(c["assets"].(map[string]any)) == 0 {
			t.Errorf("%s has the results %v", row.service, c)
		}
	}
}

// createAt creates a batch job in the view of all platforms and checks where it is.
func (w *world) createAt(body, platform string) (path string) {
	w.t.Helper()
	got := w.ask("POST", mergedJobs, body, "Authorization", anna)
	id := got.Header().Get("OpenEO-Identifier")
	if got.Code != http.StatusCreated {
		w.t.Fatalf("%d %s", got.Code, got.Body)
	}
	if at := w.ask("GET", "/openeo/"+platform+"/1.2/jobs/"+id, "", "Authorization", anna).Code; platform != "ogc" &&
		platform != "" && at != http.StatusOK {
		w.t.Errorf("%s is not at %s: %d", body, platform, at)
	}
	return mergedJobs + "/" + id
}

// A graph that does more than call a service gets the nodes of its definition, because platforms do not know the
// catalogue.
func TestServices_AsNodesOfAGraph(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	const process = `{"process_graph": {"a": {"process_id": "doubled", "namespace": "catalogue", "arguments": {"x": 3}},
		"b": {"process_id": "doubled", "namespace": "catalogue", "arguments": {"x": {"from_node": "a"}}, "result": true}}}`
	var ran string
	w.front = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/jobs") {
			ran = string(tee(r))
		}
		return false
	}
	path := w.createAt(`{"process": `+process+`}`, "west")
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	readable(t, w.until(path, "finished"), "process", process)
	if strings.Contains(ran, "catalogue") || strings.Count(ran, "multiply") != 2 {
		t.Errorf("ran %s", ran)
	}
}

func TestServices_SplitIntoTiles(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	for service, arguments := range map[string]string{"composite": `{"spatial_extent": AREA, "temporal_extent": ["2024-06-01", "2024-07-01"]}`, "ndvi": `{"bbox": AREA}`} {
		body := calling(service, strings.ReplaceAll(arguments, "AREA",
			`{"west": 5.0, "south": 51.0, "east": 5.5, "north": 51.1}`))
		got := w.ask("POST", mergedJobs, strings.TrimSuffix(body, "}")+
			`, "job_options": {"eodispatch:tile_grid": "20x20km"}}`, "Authorization", anna)
		if got.Code != http.StatusCreated {
			t.Fatalf("%s: %d %s", service, got.Code, got.Body)
		}
		path := mergedJobs + "/" + got.Header().Get("OpenEO-Identifier")
		before := w.get(path, "Authorization", anna)
		w.is(http.StatusAccepted, "POST", path+"/results", "")
		after := w.until(path, "finished")
		for _, member := range []string{"process", "job_options", "description", "log_level"} {
			if before[member] == nil || !reflect.DeepEqual(after[member], before[member]) {
				t.Errorf("%s: %s was %v and is %v", service, member, before[member], after[member])
			}
		}
		if c := w.get(path+"/results", "Authorization", anna); len(c["assets"].(map[string]any)) < 2 {
			t.Errorf("%s: %v", service, c["assets"])
		}
	}
}

func TestServices_Refused(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	for name, row := range map[string]struct{ body, code, text string }{
		"no such service":        {calling("none", `{}`), "ProcessUnsupported", "none"},
		"a parameter is missing": {calling("doubled", `{}`), "ProcessParameterInvalid", `"x"`},
		"another platform is named": {strings.TrimSuffix(calling("doubled", `{"x": 1}`), "}") +
			`, "job_options": {"eodispatch:platform": "east"}}`, "ProcessUnsupported", "is at: west"},
		"services of two platforms": {`{"process": {"process_graph": {"a": {"process_id": "doubled", "namespace": "catalogue", "arguments": {"x": 3}}, "b": {"process_id": "eastern", "namespace": "catalogue", "arguments": {"x": {"from_node": "a"}}, "result": true}}}}`, "ProcessUnsupported", "is at: east"},
		"an OGC service in a graph": {`{"process": {"process_graph": {"a": {"process_id": "ndvi", "namespace": "catalogue", "arguments": {}}, "b": {"process_id": "add", "arguments": {"x": {"from_node": "a"}, "y": 1}, "result": true}}}}`, "ProcessUnsupported", "ogc"},
		"an OGC platform by its name": {strings.Replace(addition, "{",
			`{"job_options": {"eodispatch:platform": "ogc"}, "process": {`, 1) + "}", "ProcessUnsupported",
			"east, west"},
		"a format of no platform": {strings.Replace(calling("doubled", `{"x": 1}`), "GTiff", "DOCX", 1),
			"ProcessParameterInvalid", "netCDF"},
		"a service without an area": {strings.TrimSuffix(calling("doubled", `{"x": 1}`), "}") +
			`, "job_options": {"eodispatch:tile_grid": "20x20km"}}`, "ProcessParameterRequired", "spatial_extent"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.ask("POST", mergedJobs, row.body, "Authorization", anna)
			refusedWith(t, got, http.StatusBadRequest, row.code)
			if v := object(t, got, http.StatusBadRequest)["message"].(string); !strings.Contains(v, row.text) {
				t.Errorf("message %s", v)
			}
		})
	}
}

// A batch job stays at its platform, so it cannot be changed to call a service of another one.
func TestServices_OfOtherPlatforms(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	got := w.ask("POST", "/openeo/east/1.2/jobs", calling("doubled", `{"x": 1}`), "Authorization", anna)
	refusedWith(t, got, http.StatusBadRequest, "ProcessUnsupported")
	path := w.createAt(calling("eastern", `{"spatial_extent": `+someBox+
		`, "temporal_extent": ["2024-06-01", "2024-07-01"]}`), "east")
	for _, service := range []string{"doubled", "ndvi"} {
		got := w.ask("PATCH", path, calling(service, `{"x": 1}`), "Authorization", anna)
		refusedWith(t, got, http.StatusBadRequest, "ProcessUnsupported")
	}
}

func TestServices_AreValidated(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	validate := func(service, arguments string) []any {
		var job map[string]json.RawMessage
		if err := json.Unmarshal([]byte(calling(service, arguments)), &job); err != nil {
			t.Fatal(err)
		}
		return object(t, w.ask("POST", "/openeo/1.2/validation", string(job["process"]), "Authorization", anna),
			http.StatusOK)["errors"].([]any)
	}
	if faults := validate("doubled", `{"x": 1}`); len(faults) > 0 {
		t.Errorf("%v", faults)
	}
	if faults := validate("doubled", `{"x": "one"}`); len(faults) != 1 ||
		faults[0].(map[string]any)["code"] != "ProcessParameterInvalid" {
		t.Errorf("%v", faults)
	}
	if faults := validate("ndvi", `{}`); len(faults) != 1 {
		t.Errorf("%v", faults)
	}
	if faults := validate("ndvi", `{"bbox": {"from_parameter": "p"}}`); len(faults) != 1 ||
		faults[0].(map[string]any)["code"] != "ProcessUnsupported" {
		t.Errorf("%v", faults)
	}
}

// After three finished jobs of a service, or of the same process, more of them are estimated by what those cost.
// Another process is not.
func TestJobs_AreEstimatedByThoseBefore(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	composite := calling("composite", `{"spatial_extent": `+someBox+
		`, "temporal_extent": ["2024-06-01", "2024-07-01"]}`)
	graph := `{"process": ` + addition + `, "job_options": {"eodispatch:platform": "west"}}`
	var paths []string
	for _, body := range []string{composite, graph, composite, graph, composite, graph} {
		path := w.createAt(body, "")
		refusedWith(t, w.ask("GET", path+"/estimate", "", "Authorization", anna), http.StatusInternalServerError,
			"EstimateComplexity")
		w.is(http.StatusAccepted, "POST", path+"/results", "")
		paths = append(paths, path)
	}
	for _, path := range paths {
		w.until(path, "finished")
	}
	for _, body := range []string{composite, graph} {
		path := w.createAt(body, "")
		for range 2 { // before the start and after it
			e := w.get(path+"/estimate", "Authorization", anna)
			if e["costs"] != json.Number("2") || !strings.Contains(e["eodispatch:basis"].(string),
				"your 3 finished jobs") {
				t.Errorf("%v", e)
			}
			w.is(http.StatusAccepted, "POST", path+"/results", "")
		}
	}
	refusedWith(t, w.ask("GET", w.createAt(strings.Replace(graph, "1.50", "1.51", 1), "")+"/estimate", "",
		"Authorization", anna), http.StatusInternalServerError, "EstimateComplexity")
	tiles := strings.Replace(composite, `"title"`, `"job_options": {"eodispatch:tile_grid": "20x20km"}, "title"`, 1)
	tiles = strings.Replace(tiles, `"east": 5.15`, `"east": 5.95`, 1)
	e := w.get(w.createAt(tiles, "")+"/estimate", "Authorization", anna)
	if costs, err := e["costs"].(json.Number).Int64(); err != nil || costs < 4 || costs%2 != 0 || e["duration"] != nil {
		t.Errorf("of tiles: %v", e)
	}
}

// The costs of a service that its provider states by area are those of the area of a job.
func TestServices_AreEstimated(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	for _, row := range []struct {
		service, arguments string
		from, to           float64
	}{
		// 7,702 km² at 2 credits
		{"ndvi", `{"bbox": {"west": 5, "south": 51, "east": 6, "north": 52}}`, 2 * 7600, 2 * 7800},
		{"doubled", `{"x": 1}`, 3, 3},
		{"composite", `{"spatial_extent": ` + someBox + `, "temporal_extent": ["2024-06-01", "2024-07-01"]}`, 0, 0},
	} {
		path := w.createAt(calling(row.service, row.arguments), "")
		for range 2 { // before the start and after it
			got := w.ask("GET", path+"/estimate", "", "Authorization", anna)
			if row.to == 0 {
				refusedWith(t, got, http.StatusInternalServerError, "EstimateComplexity")
			} else if costs, err := object(t, got, http.StatusOK)["costs"].(json.Number).Float64(); err != nil ||
				costs < row.from || costs > row.to {
				t.Errorf("%s: %s, want %v to %v", row.service, got.Body, row.from, row.to)
			}
			w.is(http.StatusAccepted, "POST", path+"/results", "")
		}
	}
}
