package openeo_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

const (
	jobsPath = "/openeo/cdse/1.2/jobs"
	addition = `{"process_graph": {"one": {"process_id": "add", "arguments": {"x": 1.50, "y": 2}},
		"save": {"process_id": "save_result", "arguments": {"data": {"from_node": "one"}, "format": "GTiff"}, "result": true}}}`
)

// running returns a world whose broker runs jobs.
func running(t *testing.T, configure func(string, *simulator.OpenEO), names ...string) *world {
	t.Helper()
	w := newWorld(t, append([]string{"cdse"}, names...), configure)
	for _, b := range w.backends {
		b.Limits = dispatch.Limits{Jobs: 20, Requests: 4, Send: 30 * time.Second}
	}
	t.Cleanup(conformance.RunBroker(w.broker))
	return w
}

// create creates a batch job and returns its path.
func (w *world) create(body string, headers ...string) string {
	w.t.Helper()
	got := w.ask("POST", jobsPath, body, append([]string{"Authorization", anna}, headers...)...)
	id := got.Header().Get("OpenEO-Identifier")
	if got.Code != http.StatusCreated || got.Body.Len() > 0 || got.Header().Get("Location") != root+"/jobs/"+id {
		w.t.Fatalf("status %d, location %s, id %s: %s", got.Code, got.Header().Get("Location"), id, got.Body)
	}
	return jobsPath + "/" + id
}

// is sends a request as anna and checks the status of the response, which has no body.
func (w *world) is(status int, method, target, body string) {
	w.t.Helper()
	if got := w.ask(method, target, body, "Authorization", anna); got.Code != status || got.Body.Len() > 0 {
		w.t.Fatalf("%s %s: status %d, want %d: %s", method, target, got.Code, status, got.Body)
	}
}

// until waits until a batch job has a status.
func (w *world) until(path, status string) map[string]any {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		j := w.get(path, "Authorization", anna)
		if j["status"] == status {
			return j
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s is %v, want %s", path, j, status)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func listed(t *testing.T, page map[string]any) (ids []string) {
	t.Helper()
	for _, j := range page["jobs"].([]any) {
		ids = append(ids, j.(map[string]any)["id"].(string))
	}
	return ids
}

// A batch job does nothing until it is started, runs as its graph was sent, and shows its results with a link that
// needs no token.
func TestJobs_FromCreateToResults(t *testing.T) {
	t.Parallel()
	w := running(t, func(_ string, s *simulator.OpenEO) { s.Life = simulator.Life{Run: 300 * time.Millisecond} })
	path := w.create(
		`{"title": "A job", "description": "of mine", "plan": null, "budget": null, "log_level": "info", "job_options": {"memory": "4g"}, "extra": [1.50], "process": ` + addition + `}`)
	j := w.get(path, "Authorization", anna)
	if j["status"] != "created" || j["title"] != "A job" || j["description"] != "of mine" || j["log_level"] != "info" ||
		j["process"] == nil {
		t.Errorf("created as %v", j)
	}
	refusedWith(t, w.ask("GET", path+"/results", "", "Authorization", anna), http.StatusBadRequest, "JobNotStarted")
	refusedWith(t, w.ask("DELETE", path+"/results", "", "Authorization", anna), http.StatusBadRequest, "JobNotStarted")
	if n := w.sims["cdse"].Oracle.Requests("POST /jobs"); n != 0 {
		t.Errorf("%d jobs at the platform before the start", n)
	}
	w.is(http.StatusAccepted, "POST", path+"/results", "{}")
	w.is(http.StatusAccepted, "POST", path+"/results", "{}") // again: no effect
	j = w.until(path, "finished")
	if j["progress"] != json.Number("100") || j["costs"] != json.Number("2") || j["description"] != "of mine" ||
		j["usage"] == nil {
		t.Errorf("finished as %v", j)
	}
	if sent := w.sims["cdse"].Oracle.Requests("POST /jobs"); sent != 1 {
		t.Errorf("%d jobs at the platform", sent)
	}
	// a batch job runs once
	refusedWith(t, w.ask("POST", path+"/results", "", "Authorization", anna), http.StatusBadRequest, "JobLocked")

	got := w.ask("GET", path+"/results", "", "Authorization", anna)
	c := object(t, got, http.StatusOK)
	if c["type"] != "Collection" || c["openeo:status"] != "finished" || got.Header().Get("OpenEO-Costs") != "2" ||
		len(c["assets"].(map[string]any)) != 1 {
		t.Errorf("results %s", got.Body)
	}
	signed := linkIn(t, c, "canonical")
	if !strings.HasPrefix(signed, root+"/results/") || linkIn(t, c, "self") != root+"/jobs/"+path[len(jobsPath)+1:]+
		"/results" {
		t.Errorf("links %v", c["links"])
	}
	again := w.get(strings.TrimPrefix(signed, "https://broker.example.org/dispatch"))
	if again["id"] != c["id"] || len(again["assets"].(map[string]any)) != 1 {
		t.Errorf("by the canonical link: %v", again)
	}
	refusedWith(t, w.ask("GET", strings.TrimPrefix(signed, publicURL)+"A", ""), http.StatusNotFound, "NotFound")
	forged := strings.TrimPrefix(signed, publicURL)
	forged = forged[:len(forged)-4] + strings.Repeat("A", 4)
	refusedWith(t, w.ask("GET", forged, ""), http.StatusNotFound, "NotFound")

	w.now = w.now.Add(7*24*time.Hour - time.Minute)
	followed := linkIn(t, w.get(strings.TrimPrefix(signed, publicURL)), "canonical")
	w.now = w.now.Add(time.Hour)
	for _, link := range []string{signed, followed} { // a link does not renew itself
		refusedWith(t, w.ask("GET", strings.TrimPrefix(link, publicURL), ""), http.StatusGone, "ResultLinkExpired")
	}
	w.now = w.now.Add(-2 * time.Hour)

	w.is(http.StatusNoContent, "DELETE", path, "")
	refusedWith(t, w.ask("GET", path, "", "Authorization", anna), http.StatusNotFound, "JobNotFound")
	refusedWith(t, w.ask("GET", strings.TrimPrefix(signed, publicURL), ""), http.StatusNotFound, "JobNotFound")
}

func linkIn(t *testing.T, doc map[string]any, rel string) string {
	t.Helper()
	for _, l := range doc["links"].([]any) {
		if l := l.(map[string]any); l["rel"] == rel {
			return l["href"].(string)
		}
	}
	t.Errorf("no link %s in %v", rel, doc["links"])
	return ""
}

// The platform gets the process and the further members as the client sent them, and the tag of the broker in the
// title.
func TestJobs_ThePlatformGetsTheGraphUntouched(t *testing.T) {
	t.Parallel()
	var sent []byte
	w := running(t, nil)
	w.front = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/jobs") {
			sent = tee(r)
		}
		return false
	}
	process :=
		`{"id": "mine", "parameters": [], "process_graph": {"one": {"process_id": "add", "arguments": {"x": 1.50, "y": 12345678901234567890, "note": "<&>"}, "result": true}}}`
	path := w.create(`{"title": "T", "process": ` + process +
		`, "job_options": {"memory": "4g", "eodispatch:max_duration": 3600}, "plan": "free", "budget": 5, "extra": {"a": 1.0}}`)
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	w.until(path, "finished")
	var body map[string]json.RawMessage
	if err := json.Unmarshal(sent, &body); err != nil {
		t.Fatal(err, string(sent))
	}
	if same(t, body["process"]) != same(t, []byte(process)) {
		t.Errorf("process %s", body["process"])
	}
	for name, want := range map[string]string{"job_options": `{"memory":"4g"}`, "plan": `"free"`, "budget": `5`,
		"extra": `{"a":1.0}`} {
		if same(t, body[name]) != want {
			t.Errorf("%s is %s", name, body[name])
		}
	}
	if _, there := body["max_duration"]; there || !strings.HasPrefix(string(body["title"]), `"T [test.`) {
		t.Errorf("sent %s", sent)
	}
	shown := w.get(path, "Authorization", anna)
	readable(t, shown, "process", process)
	readable(t, shown, "job_options", `{"memory": "4g", "eodispatch:max_duration": 3600}`)
}

// readable checks that a member is shown as it was sent.
func readable(t *testing.T, shown map[string]any, member, sent string) {
	t.Helper()
	var want any
	if err := decodeNumbers(sent, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(shown[member], want) {
		t.Errorf("%s is shown as %v, want %s", member, shown[member], sent)
	}
}

func decodeNumbers(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// A tile across the antimeridian is two boxes: openEO has no box that describes it, and one around it would span the
// globe.
func TestJobs_TilesAcrossTheAntimeridian(t *testing.T) {
	t.Parallel()
	var sent []string
	var mu sync.Mutex
	w := running(t, nil)
	w.front = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/jobs") {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, string(tee(r)))
		}
		return false
	}
	path := w.create(
		`{"process": {"process_graph": {"load": {"process_id": "load_collection", "arguments": {"id": "SENTINEL2_L2A", "spatial_extent": {"west": 179, "south": -1, "east": -179, "north": 1},
		"temporal_extent": ["2024-06-01", "2024-07-01"]}}, "save": {"process_id": "save_result", "arguments": {"data": {"from_node": "load"}, "format": "GTiff"}, "result": true}}},
		"job_options": {"eodispatch:tile_grid": "h3-2"}}`)
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	w.until(path, "finished")
	var ends, begins int
	for _, body := range sent {
		var job struct {
			Process struct {
				Graph struct {
					Load struct {
						Arguments struct {
							SpatialExtent struct{ West, East float64 } `json:"spatial_extent"`
						}
					}
				} `json:"process_graph"`
			}
		}
		if err := json.Unmarshal([]byte(body), &job); err != nil {
			t.Fatal(err)
		}
		box := job.Process.Graph.Load.Arguments.SpatialExtent
		if box.West >= box.East || box.East-box.West > 1 {
			t.Errorf("a tile %+v", box)
		}
		if box.East == 180 {
			ends++
		}
		if box.West == -180 {
			begins++
		}
	}
	if ends == 0 || begins == 0 {
		t.Errorf("%d tiles end at the antimeridian, %d begin there, of %d", ends, begins, len(sent))
	}
}

// A box from east to west goes to the platform as it was written, because platforms differ, and the log says what that
// means.
func TestJobs_BoxesFromEastToWest(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	var sent string
	w.front = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/jobs") {
			sent = string(tee(r))
		}
		return false
	}
	for box, warned := range map[string]bool{
		`{"west": 179, "south": -1, "east": -179, "north": 1}`:                         true,
		`{"west": 179, "south": -1, "east": -179, "north": 1, "crs": 4326}`:            true,
		`{"west": 5, "south": 51, "east": 6, "north": 52}`:                             false,
		`{"west": 700000, "south": 5600000, "east": 300000, "north": 1, "crs": 32631}`: false,
	} {
		path := w.create(strings.Replace(loading("SENTINEL2_L2A"), `"spatial_extent": null`, `"spatial_extent": `+box,
			1))
		w.is(http.StatusAccepted, "POST", path+"/results", "")
		w.until(path, "finished")
		if !strings.Contains(strings.ReplaceAll(sent, " ", ""), strings.ReplaceAll(box, " ", "")) {
			t.Errorf("%s was sent as %s", box, sent)
		}
		logs := w.ask("GET", path+"/logs?level=warning", "", "Authorization", anna).Body.String()
		if strings.Contains(logs, "antimeridian") != warned {
			t.Errorf("%s: the log says %s", box, logs)
		}
	}
}

// A batch job of a platform does not name another one, and an option that is named as the broker's own and is none is
// refused with those that there are: when the job is created, and when it is changed.
func TestJobs_BadOptions(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	with := func(options string) string { return `{"process": ` + addition + `, "job_options": {` + options + `}}` }
	path := w.create(with(`"eodispatch:platform": "cdse", "unknown": 1`)) // the second is for the platform
	for _, request := range [][2]string{{"POST", jobsPath}, {"PATCH", path}} {
		for options, texts := range map[string][]string{`"eodispatch:platform": "elsewhere"`: {"cdse"},
			`"eodispatch:platform": 7`:     {"cdse"},
			`"eodispatch:max_duraton": 60`: {"eodispatch:max_duraton", "eodispatch:max_duration", "eodispatch:platform"},
		} {
			got := w.ask(request[0], request[1], with(options), "Authorization", anna)
			refusedWith(t, got, http.StatusBadRequest, "ProcessParameterInvalid")
			for _, text := range texts {
				if !strings.Contains(got.Body.String(), text) {
					t.Errorf("%s %s: no %s in %s", request[0], options, text, got.Body)
				}
			}
		}
	}
}

// A graph is refused when it is created if it uses what its platform does not list, or if it cannot be run as it is
// written.
func TestJobs_CannotRun(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	node := func(n string) string { return `{"process_graph": {"a": ` + n + `}}` }
	for name, row := range map[string]struct{ process, code, text string }{
		"process": {node(`{"process_id": "no_such", "arguments": {}, "result": true}`), "ProcessUnsupported",
			"no_such"},
		"process in one": {node(
			`{"process_id": "apply", "arguments": {"data": 1, "process": {"process_graph": {"b": {"process_id": "no_such", "arguments": {}, "result": true}}}}, "result": true}`), "ProcessUnsupported", "no_such"},
		"namespace": {node(`{"process_id": "add", "namespace": "nowhere", "arguments": {}, "result": true}`),
			"ProcessUnsupported", "nowhere"},
		"of the platform": {node(`{"process_id": "no_such", "namespace": "backend", "arguments": {}, "result": true}`),
			"ProcessUnsupported", "backend"},
		"of the user": {node(`{"process_id": "no_such", "namespace": "user", "arguments": {}, "result": true}`),
			"ProcessUnsupported", "no_such"},
		"namespace's type": {node(`{"process_id": "add", "namespace": 5, "arguments": {}, "result": true}`),
			"ProcessGraphInvalid", "namespace"},
		"arguments": {node(`{"process_id": "add", "arguments": [1, 2], "result": true}`), "ProcessGraphInvalid",
			"arguments"},
		"result": {node(`{"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": "yes"}`),
			"ProcessGraphInvalid", "result"},
		"format": {strings.Replace(addition, "GTiff", "DOCX", 1), "ProcessParameterInvalid", "GTiff"},
		"undefined value": {node(
			`{"process_id": "add", "arguments": {"x": {"from_parameter": "x"}, "y": 2}, "result": true}`),
			"ProcessGraphInvalid", `\"x\"`},
		"undefined in lists": {node(
			`{"process_id": "add", "arguments": {"x": [{"y": {"from_parameter": "p"}}]}, "result": true}`),
			"ProcessGraphInvalid", `\"p\"`},
	} {
		for _, at := range []string{jobsPath, mergedJobs} {
			got := w.ask("POST", at, `{"process": `+row.process+`}`, "Authorization", anna)
			refusedWith(t, got, http.StatusBadRequest, row.code)
			if !strings.Contains(got.Body.String(), row.text) {
				t.Errorf("%s: %s", name, got.Body)
			}
		}
	}
	for _, process := range []string{
		strings.Replace(addition, "GTiff", "gtiff", 1),
		node(`{"process_id": "add", "namespace": "backend", "arguments": {"x": 1, "y": 2}, "result": true}`),
		node(`{"process_id": "add", "namespace": null, "arguments": {"x": 1, "y": 2}, "result": true}`),
		node(
			`{"process_id": "far_away", "namespace": "https://apps.example.org/far_away.json", "arguments": {}, "result": true}`),
		node(
			`{"process_id": "apply", "arguments": {"process": {"process_graph": {"b": {"process_id": "add", "arguments": {"x": {"from_parameter": "x"}, "y": 1}, "result": true}}}}, "result": true}`),
		`{"parameters": [{"name": "p", "default": 1}], "process_graph": {"a": {"process_id": "add", "arguments": {"x": {"from_parameter": "p"}, "y": 2}, "result": true}}}`,
		node(`{"process_id": "my_ndvi", "arguments": {}, "result": true}`), // stored at the platform
	} {
		w.create(`{"process": ` + process + `}`)
	}
	if got := w.ask("PUT", "/openeo/cdse/1.2/process_graphs/no_such", addition, "Authorization",
		anna); got.Code != http.StatusOK {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	w.create(`{"process": ` + node(`{"process_id": "no_such", "arguments": {}, "result": true}`) + `}`) // stored here
}

// While the platform does not tell what it has, a graph is accepted.
func TestJobs_OnAPlatformThatIsSilent(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.down["cdse"].Close()
	for _, body := range []string{strings.Replace(addition, `"add"`, `"no_such"`, 1), strings.Replace(addition, "GTiff",
		"DOCX", 1), strings.Replace(addition, `"add"`, `"add", "namespace": "nowhere"`, 1)} {
		w.create(`{"process": ` + body + `}`)
	}
}

// Jobs that were submitted by the broker's own interface are batch jobs, too, shown with a graph that calls their
// service.
func TestJobs_OfAllDoors(t *testing.T) {
	t.Parallel()
	w := running(t, nil, "other")
	got := w.ask("POST", "/unit_jobs",
		`{"title": "By HTTP", "label": "openeo", "format": "gtiff", "parameters": {"spatial_extent": {"west": 5, "south": 51, "east": 5.1, "north": 51.1},
		"temporal_extent": ["2025-05-01", "2025-06-01"]}, "service": {"endpoint": "`+w.urls["cdse"]+
			`", "application": "ndvi_composite"}}`, "Authorization", "Bearer token-anna")
	v := object(t, got, http.StatusCreated)
	path := fmt.Sprintf("%s/%v", jobsPath, v["id"])
	j := w.until(path, "finished")
	node := j["process"].(map[string]any)["process_graph"].(map[string]any)["run"].(map[string]any)
	if j["title"] != "By HTTP" || node["process_id"] != "ndvi_composite" || node["result"] != true ||
		node["arguments"].(map[string]any)["temporal_extent"] == nil {
		t.Errorf("shown as %v", j)
	}
	if ids := listed(t, w.get("/openeo/other/1.2/jobs", "Authorization", anna)); len(ids) != 0 {
		t.Errorf("jobs of another platform: %v", ids)
	}
	refusedWith(t, w.ask("GET", strings.Replace(path, "cdse", "other", 1), "", "Authorization", anna),
		http.StatusNotFound, "JobNotFound")
	unstarted := w.create(`{"process": ` + addition + `}`)
	if own := w.ask("GET", "/unit_jobs"+unstarted[len(jobsPath):], "", "Authorization",
		"Bearer token-anna"); own.Code != http.StatusNotFound {
		t.Errorf("an unstarted job by the own interface: %d %s", own.Code, own.Body)
	}
}

// A list is whole without a limit, and in pages with one; each batch job is listed once, newest first.
func TestJobs_Pages(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	var want []string
	for i := range 7 {
		path := w.create(fmt.Sprintf(`{"title": "job %d", "process": %s}`, i, addition))
		if i%2 == 0 {
			w.is(http.StatusAccepted, "POST", path+"/results", "")
		}
		want = append(want, path[len(jobsPath)+1:])
	}
	whole := listed(t, w.get(jobsPath, "Authorization", anna))
	if len(whole) != len(want) {
		t.Fatalf("listed %v, want %v in some order", whole, want)
	}
	for _, limit := range []int{1, 2, 3, 7, 100} {
		var paged []string
		for next := fmt.Sprintf("%s?limit=%d", jobsPath, limit); next != ""; {
			page := w.get(next, "Authorization", anna)
			ids := listed(t, page)
			if len(ids) > limit {
				t.Errorf("a page of %d with limit %d", len(ids), limit)
			}
			paged, next = append(paged, ids...), ""
			if len(page["links"].([]any)) > 0 {
				next = strings.TrimPrefix(linkIn(t, page, "next"), publicURL)
			}
		}
		if fmt.Sprint(paged) != fmt.Sprint(whole) {
			t.Errorf("limit %d: %v, want %v", limit, paged, whole)
		}
	}
	page := w.get(jobsPath+"?limit=2", "Authorization", anna)
	next, err := url.Parse(linkIn(t, page, "next"))
	if err != nil {
		t.Fatal(err)
	}
	w.get(jobsPath+"?limit=99999999999999999999", "Authorization", anna) // that of the longest page
	for _, bad := range []string{"limit=0", "limit=-1", "limit=x", "limit=-99999999999999999999", "cursor=AAAA"} {
		if got := w.ask("GET", jobsPath+"?"+bad, "", "Authorization", anna); got.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, got.Code, got.Body)
		}
	}
	if got := w.ask("GET", jobsPath+"?"+next.RawQuery, "", "Authorization", bert); got.Code != http.StatusBadRequest {
		t.Errorf("a cursor of another user: %d %s", got.Code, got.Body)
	}
	if ids := listed(t, w.get(jobsPath, "Authorization", bert)); len(ids) != 0 {
		t.Errorf("another user sees %v", ids)
	}
}

// Clients that read each of their batch jobs again and again cost the platform no request for a single job.
func TestJobs_PollingCostsNoSingleReads(t *testing.T) {
	t.Parallel()
	w := running(t, func(_ string, s *simulator.OpenEO) { s.Life = simulator.Life{Run: time.Hour} })
	var paths []string
	for range 5 {
		paths = append(paths, w.create(`{"process": `+addition+`}`))
		w.is(http.StatusAccepted, "POST", paths[len(paths)-1]+"/results", "")
	}
	for _, path := range paths {
		w.until(path, "running")
	}
	before := w.sims["cdse"].Oracle.Requests("GET /jobs/{id}")
	for range 20 {
		for _, path := range paths {
			w.get(path, "Authorization", anna)
		}
		w.get(jobsPath, "Authorization", anna)
	}
	if n := w.sims["cdse"].Oracle.Requests("GET /jobs/{id}") - before; n != 0 {
		t.Errorf("%d requests for single jobs", n)
	}
}

// A batch job can be changed until it is started. Another user does not find it.
func TestJobs_Change(t *testing.T) {
	t.Parallel()
	w := running(t, func(_ string, s *simulator.OpenEO) { s.Life = simulator.Life{Run: time.Hour} })
	path := w.create(`{"title": "before", "plan": "free", "process": ` + addition + `}`)
	w.is(http.StatusNoContent, "PATCH", path, `{}`)
	w.is(http.StatusNoContent, "PATCH", path, `{"title": "after", "plan": null}`)
	if j := w.get(path, "Authorization", anna); j["title"] != "after" || j["plan"] != nil || j["process"] == nil {
		t.Errorf("changed to %v", j)
	}
	refusedWith(t, w.ask("PATCH", path, `{"process": {}}`, "Authorization", anna), http.StatusBadRequest,
		"ProcessGraphMissing")
	refusedWith(t, w.ask("PATCH", path, "", "Authorization", anna), http.StatusBadRequest, "ContentTypeInvalid")
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		refusedWith(t, w.ask(method, path, `{}`, "Authorization", bert), http.StatusNotFound, "JobNotFound")
	}
	for _, part := range []string{"/logs", "/results", "/estimate"} {
		refusedWith(t, w.ask("GET", path+part, "", "Authorization", bert), http.StatusNotFound, "JobNotFound")
	}
	refusedWith(t, w.ask("POST", path+"/results", "", "Authorization", bert), http.StatusNotFound, "JobNotFound")
	refusedWith(t, w.ask("GET", path+"/estimate", "", "Authorization", anna), http.StatusInternalServerError,
		"EstimateComplexity")
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	w.until(path, "running")
	refusedWith(t, w.ask("PATCH", path, `{"title": "late"}`, "Authorization", anna), http.StatusBadRequest, "JobLocked")
	refusedWith(t, w.ask("GET", path+"/results", "", "Authorization", anna), http.StatusBadRequest, "JobNotFinished")
	part := w.get(path+"/results?partial=true", "Authorization", anna)
	if part["openeo:status"] != "running" || len(part["assets"].(map[string]any)) != 0 {
		t.Errorf("partial results %v", part)
	}
	w.is(http.StatusNoContent, "DELETE", path+"/results", "")
	w.until(path, "canceled")
	w.is(http.StatusNoContent, "DELETE", path+"/results", "")
}

// The log of a batch job that took too long says so in words.
func TestJobs_Overdue(t *testing.T) {
	t.Parallel()
	w := running(t, func(_ string, s *simulator.OpenEO) { s.Life = simulator.Life{Run: time.Hour} })
	path := w.create(`{"process": ` + addition + `, "job_options": {"eodispatch:max_duration": 1}}`)
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	w.until(path, "canceled")
	if log := w.ask("GET", path+"/logs?level=warning", "", "Authorization", anna).Body.String(); !strings.Contains(log,
		"had not ended 1s after its start") {
		t.Errorf("the log says %s", log)
	}
}

// A batch job that failed answers 424 with the last error of its log.
func TestJobs_Failure(t *testing.T) {
	t.Parallel()
	w := running(t, func(_ string, s *simulator.OpenEO) { s.Life = simulator.Life{Fail: 1} })
	path := w.create(`{"process": ` + addition + `}`)
	if page := w.get(path+"/logs", "Authorization", anna); len(page["logs"].([]any)) != 0 {
		t.Errorf("log of an unstarted job: %v", page)
	}
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	w.until(path, "error")
	last := object(t, w.ask("GET", path+"/results", "", "Authorization", anna), http.StatusFailedDependency)
	if last["level"] != "error" || last["id"] == "" || !strings.Contains(last["message"].(string), "found no data") {
		t.Errorf("last error %v", last)
	}
	all := w.get(path+"/logs", "Authorization", anna)["logs"].([]any)
	if len(all) < 3 {
		t.Fatalf("log %v", all)
	}
	for i, e := range all {
		id := e.(map[string]any)["id"].(string)
		rest := w.get(path+"/logs?offset="+id, "Authorization", anna)["logs"].([]any)
		if len(rest) != len(all)-i-1 {
			t.Errorf("after %s: %v", id, rest)
		}
	}
	// as the JavaScript client asks first
	if first := w.get(path+"/logs?offset=&level=", "Authorization", anna)["logs"].([]any); len(first) != len(all) {
		t.Errorf("with an empty offset: %v", first)
	}
	errors := w.get(path+"/logs?level=error", "Authorization", anna)
	if n := len(errors["logs"].([]any)); n == 0 || n >= len(all) || errors["level"] != "error" {
		t.Errorf("errors %v", errors)
	}
	first := w.get(path+"/logs?limit=1", "Authorization", anna)
	second := w.get(strings.TrimPrefix(linkIn(t, first, "next"), publicURL), "Authorization", anna)
	if fmt.Sprint(second["logs"].([]any)[0]) != fmt.Sprint(all[1]) {
		t.Errorf("second page %v of %v", second, all)
	}
	for _, bad := range []string{"level=loud", "limit=0"} {
		if got := w.ask("GET", path+"/logs?"+bad, "", "Authorization", anna); got.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, got.Code)
		}
	}
}

// Processes that no platform could run are refused when the job is created.
func TestJobs_BadProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	node := func(id, arguments string, result bool) string {
		return fmt.Sprintf(`%q: {"process_id": "add", "arguments": %s, "result": %v}`, id, arguments, result)
	}
	for body, code := range map[string]string{
		`{}`:                                       "ProcessInvalid",
		`{"process": null}`:                        "ProcessInvalid",
		`{"process": []}`:                          "ProcessInvalid",
		`{"process": {}}`:                          "ProcessGraphMissing",
		`{"process": {"process_graph": {}}}`:       "ProcessGraphMissing",
		`{"process": {"process_graph": []}}`:       "ProcessGraphInvalid",
		`{"process": {"process_graph": {"a": 1}}}`: "ProcessGraphInvalid",
		`{"process": {"process_graph": {` + node("a", `{}`, false) + `, ` + node("b", `{}`, false) +
			`}}}`: "ProcessGraphInvalid",
		`{"process": {"process_graph": {` + node("a", `{}`, true) + `, ` + node("b", `{}`, true) +
			`}}}`: "ProcessGraphInvalid",
		`{"process": {"process_graph": {` + node("a", `{"x": {"from_node": "b"}}`, true) + `, ` +
			node("b", `{"x": [{"y": {"from_node": "a"}}]}`, false) + `}}}`: "ProcessGraphInvalid",
		`{"process": {"process_graph": {` + node("a", `{"x": {"from_node": "gone"}}`, true) +
			`}}}`: "ProcessGraphInvalid",
		`{"process": ` + addition + `, "title": 5}`:             "ProcessParameterInvalid",
		`{"process": ` + addition + `, "log_level": "loud"}`:    "ProcessParameterInvalid",
		`{"process": ` + addition + `, "budget": "much"}`:       "ProcessParameterInvalid",
		`{"process": ` + addition + `, "job_options": "large"}`: "ProcessParameterInvalid",
		`[]`: "ContentTypeInvalid",
		`{`:  "ContentTypeInvalid",
		``:   "ContentTypeInvalid",
	} {
		got := w.ask("POST", jobsPath, body, "Authorization", anna)
		if v := object(t, got, http.StatusBadRequest); v["code"] != code {
			t.Errorf("%s: %s, want %s", body, got.Body, code)
		}
	}
	large := `{"process": {"process_graph": {` + node("a", `{"x": "`+strings.Repeat("x", 10<<20)+`"}`, true) + `}}}`
	if got := w.ask("POST", jobsPath, large, "Authorization", anna); got.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("10 MiB: %d", got.Code)
	}
	refusedWith(t, w.ask("POST", jobsPath, `{}`), http.StatusUnauthorized, "AuthenticationRequired")
	for _, id := range []string{"0", "-1", "x", "t-0", "t-x", "1.0", "99999999999999999999", "%2e%2e"} {
		if got := w.ask("GET", jobsPath+"/"+id, "", "Authorization", anna); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", id, got.Code, got.Body)
		}
	}
}

// A batch job with the option of a grid is a task: its results have the assets of all tiles, each of which ran with its
// part of the area.
func TestJobs_Tiles(t *testing.T) {
	t.Parallel()
	var boxes []string
	var mu sync.Mutex
	w := running(t, func(_ string, s *simulator.OpenEO) { s.Life = simulator.Life{Run: 300 * time.Millisecond} })
	w.front = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/jobs") {
			mu.Lock()
			defer mu.Unlock()
			boxes = append(boxes, string(tee(r)))
		}
		return false
	}
	graph :=
		`{"process_graph": {"load": {"process_id": "load_collection", "arguments": {"id": "SENTINEL2_L2A", "spatial_extent": {"west": 5.0, "south": 51.0, "east": 5.5, "north": 51.1},
		"temporal_extent": ["2024-06-01", "2024-07-01"]}}, "save": {"process_id": "save_result", "arguments": {"data": {"from_node": "load"}, "format": "GTiff"}, "result": true}}}`
	path := w.create(`{"title": "Tiles", "process": ` + graph +
		`, "job_options": {"eodispatch:tile_grid": "20x20km", "eodispatch:split_parameter": "spatial_extent"}}`)
	if !strings.HasPrefix(path, jobsPath+"/t-") {
		t.Fatalf("the id of a task: %s", path)
	}
	refusedWith(t, w.ask("PATCH", path, `{"job_options": null}`, "Authorization", anna), http.StatusBadRequest,
		"PropertyNotEditable")
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	part := w.get(path+"/results?partial=true", "Authorization", anna)
	if part["assets"] == nil || part["openeo:status"] == "created" {
		t.Errorf("partial results %v", part)
	}
	j := w.until(path, "finished")
	if j["title"] != "Tiles" {
		t.Errorf("shown as %v", j)
	}
	readable(t, j, "process", graph)
	readable(t, j, "job_options", `{"eodispatch:tile_grid": "20x20km", "eodispatch:split_parameter": "spatial_extent"}`)
	c := w.get(path+"/results", "Authorization", anna)
	mu.Lock()
	all := slices.Clone(boxes)
	mu.Unlock()
	if n := len(c["assets"].(map[string]any)); n < 2 || n != len(all) {
		t.Errorf("%d assets, %d jobs at the platform", n, len(all))
	}
	if want := json.Number(strconv.Itoa(2 * len(all))); j["costs"] != want { // each costs 2
		t.Errorf("costs %v, want %v", j["costs"], want)
	}
	for name := range c["assets"].(map[string]any) {
		if !regexp.MustCompile(`^\d+_[\w-]+_[\w.-]+\.\w+$`).MatchString(name) {
			t.Errorf("asset %s", name)
		}
	}
	for i, sent := range all {
		if strings.Contains(sent, "from_parameter") || strings.Contains(sent, "eodispatch:") ||
			strings.Contains(strings.Join(all[:i], " "), sent) {
			t.Errorf("sent %s", sent)
		}
	}
	if ids := listed(t, w.get(jobsPath, "Authorization", anna)); len(ids) != 1 {
		t.Errorf("listed %v", ids)
	}
	w.is(http.StatusNoContent, "DELETE", path, "")
	refusedWith(t, w.ask("GET", path, "", "Authorization", anna), http.StatusNotFound, "JobNotFound")

	w.sims["cdse"].SetLife(simulator.Life{Run: time.Hour})
	path = w.create(`{"process": ` + graph + `, "job_options": {"eodispatch:tile_grid": "20x20km"}}`)
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	w.until(path, "running")
	w.is(http.StatusNoContent, "DELETE", path+"/results", "")
	w.until(path, "canceled")

	for _, options := range []string{`{"eodispatch:tile_grid": "no grid"}`,
		`{"eodispatch:tile_grid": "20x20km", "eodispatch:split_parameter": "nothing"}`} {
		got := w.ask("POST", jobsPath, `{"process": `+graph+`, "job_options": `+options+`}`, "Authorization", anna)
		if got.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", options, got.Code, got.Body)
		}
	}
}

// The results of a task have what the platform gives, and name the jobs that lack theirs. If it gives none, they are an
// error.
func TestJobs_ResultsOfATaskWithoutSomeOfItsJobs(t *testing.T) {
	t.Parallel()
	w := running(t, func(_ string, s *simulator.OpenEO) { s.Life = simulator.Life{} })
	path := w.create(`{"process": {"process_graph": {"load": {"process_id": "load_collection",
		"arguments": {"id": "SENTINEL2_L2A",
		"spatial_extent": {"west": 5.0, "south": 51.0, "east": 5.5, "north": 51.1}, "temporal_extent": ["2024-06-01",
			"2024-07-01"]}},
		"save": {"process_id": "save_result", "arguments": {"data": {"from_node": "load"}, "format": "GTiff"},
			"result": true}}}, "job_options": {"eodispatch:tile_grid": "20x20km"}}`)
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	w.until(path, "finished")
	const results = "GET /jobs/{id}/results"
	w.sims["cdse"].Faults.Set(simulator.Fault{Route: results, Status: 500, Code: "Internal", Message: "No such file"})
	refusedWith(t, w.ask("GET", path+"/results", "", "Authorization", anna), http.StatusServiceUnavailable,
		"InfrastructureMaintenance")
	w.sims["cdse"].Faults.Set(simulator.Fault{Route: results, Times: 1, Status: 500, Code: "Internal",
		Message: "No such file"})
	part := w.get(path+"/results", "Authorization", anna)
	w.sims["cdse"].Faults.Set()
	whole := w.get(path+"/results", "Authorization", anna)
	n := len(whole["assets"].(map[string]any))
	if d := whole["description"]; d != fmt.Sprintf("Results of the %d jobs that have finished, of %d.", n, n) ||
		n < 2 || len(whole["eodispatch:missing"].([]any)) != 0 {
		t.Errorf("the whole results: %v", whole)
	}
	missing := part["eodispatch:missing"].([]any)
	if len(missing) != 1 || len(part["assets"].(map[string]any)) != n-1 {
		t.Fatalf("%v", part)
	}
	one := missing[0].(map[string]any)
	if one["code"] != "InfrastructureMaintenance" || one["message"] != "No such file" || one["temporary"] != true ||
		one["name"] == nil {
		t.Errorf("%v", one)
	}
	want := fmt.Sprintf("Results of %d of the %d jobs that have finished, of %d. Missing: tile %v (%v), No such file.",
		n-1, n, n, one["tile"], one["name"])
	if part["description"] != want {
		t.Errorf("%v\nwant %s", part["description"], want)
	}
}

// same returns a text of JSON without white space.
func same(t *testing.T, text []byte) string {
	t.Helper()
	raw, err := dispatch.Encode(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// tee returns the body of a request, which can be read again.
func tee(r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body
}
