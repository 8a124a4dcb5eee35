package openeo_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// stored returns what the broker keeps of a batch job that was started.
func (w *world) stored(path string) dispatch.Record {
	w.t.Helper()
	n, err := strconv.ParseInt(path[strings.LastIndex(path, "/")+1:], 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.broker.Read(w.t.Context(), annaID, dispatch.JobID(n), broker.AsKnown)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// The job options of the broker do what the options of its own interface do, platforms do not get them, and their owner
// sees them as they were sent.
func TestJobs_OptionsOfTheBroker(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	const options = `{"eodispatch:pin": true, "eodispatch:retries": 2, "eodispatch:max_duration": 600, "eodispatch:labels": {"season": "2024/June"}, "memory": "2g"}`
	with := func(body, options string) string {
		return `{"job_options": ` + options + `, ` + strings.TrimPrefix(body, "{")
	}
	w.front = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/jobs") {
			if body := string(tee(r)); strings.Contains(body, "eodispatch:") || strings.Contains(body, "2024/June") {
				t.Errorf("the platform gets %s", body)
			}
		}
		return false
	}
	for _, body := range []string{calling("doubled", `{"x": 2}`), `{"process": ` + addition + `, "title": "a graph"}`} {
		path := w.createAt(with(body, strings.Replace(options, "{", `{"eodispatch:platform": "west", `, 1)), "west")
		w.is(http.StatusAccepted, "POST", path+"/results", "")
		r := w.stored(path)
		if r.Annotations.Labels["season"] != "2024/June" || r.Retries != 2 || r.MaxDuration.Seconds() != 600 ||
			!r.Request.MustPin() {
			t.Errorf("%s: labels %v, retries %d, %v, options %s", body, r.Annotations, r.Retries, r.MaxDuration,
				r.Request.Options)
		}
		if pinned := r.Request.Pin != ""; pinned != strings.Contains(body, "doubled") {
			t.Errorf("%s is pinned to %q", body, r.Request.Pin)
		}
		w.until(path, "finished")
		shown := w.get(path, "Authorization", anna)["job_options"].(map[string]any)
		if shown["memory"] != "2g" || shown["eodispatch:pin"] != true ||
			shown["eodispatch:labels"].(map[string]any)["season"] != "2024/June" {
			t.Errorf("%s is shown with %v", body, shown)
		}
	}
	for name, value := range map[string]string{"pin": `"yes"`, "retries": `99`, "max_duration": `0`, "labels": `{"a": 1}`,
		"labels ": `{"-": "x"}`} {
		name = strings.TrimSpace(name)
		got := w.ask("POST", mergedJobs, with(calling("doubled", `{"x": 2}`), `{"eodispatch:`+name+`": `+value+`}`),
			"Authorization", anna)
		if refusedWith(t, got, http.StatusBadRequest, "ProcessParameterInvalid"); !strings.Contains(got.Body.String(),
			"eodispatch:"+name) {
			t.Errorf("%s", got.Body)
		}
	}
	null := w.createAt(with(calling("doubled", `{"x": 2}`),
		`{"eodispatch:pin": null, "eodispatch:labels": null, "eodispatch:retries": null}`), "west")
	w.is(http.StatusAccepted, "POST", null+"/results", "")
}

// What cannot be pinned is refused, and not run with another definition.
func TestJobs_CannotBePinned(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	for _, body := range []string{
		// its platform keeps it
		calling("composite", `{"spatial_extent": `+someBox+`, "temporal_extent": ["2024-06-01", "2024-07-01"]}`),
		`{"process": {"process_graph": {"a": {"process_id": "doubled", "namespace": "https://author.example.org/doubled.json", "arguments": {"x": 1}, "result": true}}}}`,
	} {
		got := w.ask("POST", mergedJobs, `{"job_options": {"eodispatch:platform": "west", "eodispatch:pin": true}, `+
			strings.TrimPrefix(body, "{"), "Authorization", anna)
		refusedWith(t, got, http.StatusBadRequest, "ProcessParameterInvalid")
	}
}

// A task has the labels, and its jobs do not.
func TestJobs_LabelsOfATask(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	path := w.createAt(`{"job_options": {"eodispatch:tile_grid": "20x20km", "eodispatch:labels": {"season": "June"}}, `+
		strings.TrimPrefix(calling("ndvi", `{"bbox": {"west": 5.0, "south": 51.0, "east": 5.5, "north": 51.1}}`), "{"), "ogc")
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	id, err := strconv.ParseInt(path[strings.LastIndex(path, "t-")+2:], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	task, err := w.broker.Task(t.Context(), annaID, dispatch.TaskID(id))
	if err != nil || task.Annotations.Labels["season"] != "June" {
		t.Errorf("%v, %v", task.Annotations, err)
	}
	for j, err := range w.broker.TaskJobs(t.Context(), annaID, task.ID, dispatch.Page{}) {
		if err != nil || !j.Annotations.Empty() || !strings.HasPrefix(j.Name(), "20x20km-r") {
			t.Errorf("%q, %v, %v", j.Name(), j.Annotations, err)
		}
	}
}

// A service gets the format that its caller names, and not another one that its record names.
func TestServices_FormatsOfPlatforms(t *testing.T) {
	t.Parallel()
	w := withServices(t)
	formats := w.get("/openeo/1.2/file_formats")["output"].(map[string]any)
	if formats["PNG"] == nil || formats["GTiff"] == nil || formats["gtiff"] != nil {
		t.Errorf("listed are %v", formats)
	}
	for format, want := range map[string]string{"PNG": "png", "GTiff": "gtiff"} {
		path := w.createAt(strings.Replace(calling("ndvi", `{"bbox": `+someBox+`}`), "GTiff", format, 1), "ogc")
		got := w.ask("POST", path+"/results", "", "Authorization", anna)
		if got.Code != http.StatusAccepted {
			if !strings.Contains(got.Body.String(), want) {
				t.Errorf("%s: %d %s", format, got.Code, got.Body)
			}
			continue
		}
		if r := w.stored(path); r.Request.Format != want {
			t.Errorf("%s became %s", format, r.Request.Format)
		}
	}
	text, _ := json.Marshal(w.get("/openeo/1.2/processes/catalogue/ndvi", "Authorization", anna)["returns"])
	if !strings.Contains(string(text), "The formats are ") {
		t.Errorf("%s", text)
	}
}

const annaID dispatch.UserID = "https://idp.example.org anna"

// The extension for processing parameters has options beside the process: there they are the same.
func TestJobs_OptionsBesideTheProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	j := w.get(w.create(`{"eodispatch:retries": 2, "eodispatch:max_duration": 60, "job_options": {"eodispatch:retries": 3},
		"process": `+addition+`}`), "Authorization", anna)
	if text := fmt.Sprint(j["job_options"]); text != "map[eodispatch:max_duration:60 eodispatch:retries:3]" {
		t.Errorf("job options %s", text)
	}
	refusedWith(t, w.ask("POST", jobsPath, `{"eodispatch:retries": "many", "process": `+addition+`}`, "Authorization",
		anna), http.StatusBadRequest, "ProcessParameterInvalid")
}

// A long name is cut between its characters.
func TestJobs_LongNamesOfOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	a := w.ask("POST", jobsPath, `{"job_options": {"eodispatch:`+strings.Repeat("ä", 1000)+`": 1}, "process": `+addition+
		`}`, "Authorization", anna)
	if text := a.Body.String(); a.Code != http.StatusBadRequest || strings.Contains(text, `\\x`) || len(text) > 1000 {
		t.Errorf("%d: %s", a.Code, text)
	}
}

// Changes have options among the members, too: they replace what is stored, and null removes it.
func TestJobs_ChangesOfOptionsBesideTheProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	path := w.create(`{"eodispatch:retries": 2, "eodispatch:max_duration": 60, "job_options": {"memory": "2g"},
		"process": ` + addition + `}`)
	for _, c := range [][2]string{
		{`{"eodispatch:max_duration": 600}`, "map[eodispatch:max_duration:600 eodispatch:retries:2 memory:2g]"},
		{`{"eodispatch:retries": null}`, "map[eodispatch:max_duration:600 memory:2g]"},
		{`{"eodispatch:retries": 1, "job_options": {"eodispatch:retries": 3}}`, "map[eodispatch:retries:3]"},
		{`{"job_options": null, "eodispatch:retries": 1}`, "map[eodispatch:retries:1]"},
	} {
		w.is(http.StatusNoContent, "PATCH", path, c[0])
		if text := fmt.Sprint(w.get(path, "Authorization", anna)["job_options"]); text != c[1] {
			t.Errorf("job options %s after %s, want %s", text, c[0], c[1])
		}
	}
}
