package openeo_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// shortLived is a store whose unstarted jobs expire at once.
type shortLived struct{ broker.Store }

func (s shortLived) CreateUnstarted(ctx context.Context, n *dispatch.Unstarted, task bool, _ time.Duration,
	within ...dispatch.Quota) error {
	return s.Store.CreateUnstarted(ctx, n, task, 0, within...)
}

// A batch job that was never started and has expired is gone for every operation, and nothing reaches its platform.
func TestJobs_Expired(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.broker.Store = shortLived{w.broker.Store}
	tiled := strings.Replace(loading("SENTINEL2_L2A"), `{"process"`,
		`{"job_options": {"eodispatch:tile_grid": "20x20km"}, "process"`, 1)
	tiled = strings.Replace(tiled, `"spatial_extent": null`,
		`"spatial_extent": {"west": 5.0, "south": 51.0, "east": 5.5, "north": 51.1}`, 1)
	for _, body := range []string{`{"process": ` + addition + `}`, tiled} {
		path := w.create(body)
		for _, request := range []string{"GET ", "PATCH ", "DELETE ", "POST /results", "GET /results",
			"DELETE /results", "GET /logs", "GET /estimate"} {
			method, below, _ := strings.Cut(request, " ")
			sent := ""
			if method == "PATCH" {
				sent = `{"title": "late"}`
			}
			refusedWith(t, w.ask(method, path+below, sent, "Authorization", anna), http.StatusNotFound, "JobNotFound")
		}
	}
	if ids := listed(t, w.get(jobsPath, "Authorization", anna)); len(ids) != 0 {
		t.Errorf("listed %v", ids)
	}
	if n := w.sims["cdse"].Oracle.Requests("POST /jobs"); n != 0 {
		t.Errorf("%d jobs at the platform", n)
	}
}

// What clients make of URLs when they join them is served where it was sent: after a redirect some would send a write
// again without its body, others as a GET. Paths that lead elsewhere are refused.
func TestWrites_AreNotRedirected(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	got := w.ask("POST", "//openeo//cdse/1.2//jobs/", `{"process": `+addition+`}`, "Authorization", anna)
	if got.Code != http.StatusCreated || got.Header().Get("Location") != root+"/jobs/"+
		got.Header().Get("OpenEO-Identifier") {
		t.Fatalf("status %d, location %s: %s", got.Code, got.Header().Get("Location"), got.Body)
	}
	path := strings.Replace(jobsPath, "/jobs", "//jobs//", 1) + got.Header().Get("OpenEO-Identifier")
	w.is(http.StatusNoContent, "PATCH", path+"/", `{"title": "after"}`)
	w.is(http.StatusAccepted, "POST", path+"//results/", "")
	w.is(http.StatusNoContent, "DELETE", path+"/results//", "")
	w.is(http.StatusNoContent, "DELETE", "/"+path, "")
	process := "/openeo//cdse/1.2/process_graphs//mine/"
	if got := w.ask("PUT", process, addition, "Authorization", anna); got.Code != http.StatusOK {
		t.Errorf("status %d: %s", got.Code, got.Body)
	}
	w.is(http.StatusNoContent, "DELETE", process, "")
	for _, elsewhere := range []string{"/openeo/cdse/1.2/jobs/../jobs", "/openeo/../openeo/cdse/1.2/jobs",
		"/openeo/cdse/1.2/./jobs", "/openeo/cdse/1.2/jobs/%2e%2e/jobs"} {
		if got := w.ask("POST", elsewhere, `{"process": `+addition+`}`, "Authorization",
			anna); got.Code != http.StatusNotFound {
			t.Errorf("%s: status %d, location %s", elsewhere, got.Code, got.Header().Get("Location"))
		}
	}
}

// A process that its platform lists no more is refused by the platform, whose reason the log of the batch job and its
// results show.
func TestJobs_UnknownProcess(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.front = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/processes") {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"processes": [{"id": "no_such_process"}, {"id": "save_result"}], "links": []}`))
		return true
	}
	path := w.create(strings.Replace(`{"process": `+addition+`}`, `"add"`, `"no_such_process"`, 1))
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	w.until(path, "error")
	for _, part := range []string{"/results", "/logs"} {
		if got := w.ask("GET", path+part, "", "Authorization", anna); !strings.Contains(got.Body.String(),
			"no_such_process") {
			t.Errorf("%s: %d %s", part, got.Code, got.Body)
		}
	}
}

// Errors do not grow with what is wrong.
func TestErrors_AreShort(t *testing.T) {
	t.Parallel()
	w := twoPlatforms(t)
	long, many := strings.Repeat("x", 100_000), ""
	for i := range 5_000 {
		many += fmt.Sprintf(`"n%d": {"process_id": "load_collection", "arguments": {"id": "NONE%d"}}, `, i, i)
	}
	const result, end = `"r": {"process_id": "load_collection", "arguments": {"id": "SHARED"}, "result": true}`, `}}`
	for name, body := range map[string]string{
		"collections": many + result + end,
		"cycle":       `"LONG": {"process_id": "add", "arguments": {"x": {"from_node": "LONG"}}, "result": true}` + end,
		"reference":   `"a": {"process_id": "add", "arguments": {"x": {"from_node": "LONG"}}, "result": true}` + end,
		"results":     `"LONG": {"process_id": "add", "result": true}, ` + result + end,
		"node":        `"LONG": 1` + end,
		"service":     `"a": {"process_id": "LONG", "namespace": "catalogue", "arguments": {}, "result": true}` + end,
		"collection":  `"a": {"process_id": "load_collection", "arguments": {"id": "LONG"}, "result": true}` + end,
		"platform":    result + end + `, "job_options": {"eodispatch:platform": "LONG"}`,
		"grid":        result + end + `, "job_options": {"eodispatch:tile_grid": "LONG"}`,
		"argument": result + end +
			`, "job_options": {"eodispatch:tile_grid": "20x20km", "eodispatch:split_parameter": "LONG"}`,
		"level": result + end + `, "log_level": "LONG"`,
	} {
		got := w.ask("POST", mergedJobs, strings.ReplaceAll(`{"process": {"process_graph": {`+body+`}`, "LONG", long),
			"Authorization", anna)
		if got.Code != http.StatusBadRequest || got.Body.Len() > 5_000 {
			t.Errorf("%s: %d, %d bytes: %.300s", name, got.Code, got.Body.Len(), got.Body)
		}
	}
}

// A number that no program can hold is an error of the process, not of the server.
func TestBadInput_Number(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	large := strings.Replace(addition, "1.50", "1e400", 1)
	path := w.create(`{"process": ` + addition + `}`)
	for _, request := range [][2]string{{"POST", jobsPath}, {"POST", mergedJobs}, {"PATCH", path}} {
		refusedWith(t, w.ask(request[0], request[1], `{"process": `+large+`}`, "Authorization", anna),
			http.StatusBadRequest, "ProcessGraphInvalid")
	}
	refusedWith(t, w.ask("PUT", "/openeo/cdse/1.2/process_graphs/mine", large, "Authorization", anna),
		http.StatusBadRequest, "ProcessGraphInvalid")
	got := object(t, w.ask("POST", "/openeo/cdse/1.2/validation", large, "Authorization", anna), http.StatusOK)
	if errors := got["errors"].([]any); len(errors) != 1 ||
		errors[0].(map[string]any)["code"] != "ProcessGraphInvalid" {
		t.Errorf("validation: %v", got)
	}
}
