package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

const someResults = `{"type":"Collection","stac_version":"1.1.0","id":"theirs","extent":{"spatial":{"bbox":[[4.1,51,4.2,51.1]]},
	"temporal":{"interval":[["2026-01-01T00:00:00Z","2026-02-01T00:00:00Z"]]}},"links":[],"assets":{"a.tif":{"href":"https://x.example/a.tif?sig=<&>","roles":["data"]}}}`

// finishedTask is a task with a box, GeoJSON, a name, and a box whose job has not finished.
func finishedTask(t *testing.T, w *world, h http.Handler) {
	t.Helper()
	body := strings.Replace(goodTask, `[1.50,{"west":1e40},null]`, `[{"west":4,"south":51,"east":5,"north":52},
		{"type":"Polygon","coordinates":[[[5,51],[6,51],[6,52],[5,51]]]},"T31UFS",{"west":7,"south":51,"east":8,"north":52}]`,
		1)
	decode[any](t, ask(h, "POST", "/upscale_tasks", body), 201)
	for id := range dispatch.JobID(3) {
		j := w.jobs[id+1]
		j.Status, j.Moved, j.Phase = dispatch.Finished, moment, dispatch.Ended
		w.jobs[id+1] = j
	}
	w.results[1], w.results[3] = json.RawMessage(someResults), json.RawMessage(strings.Replace(someResults, "1.1.0",
		"1.0.0", 1))
	w.lacks = map[dispatch.JobID]error{2: &dispatch.Error{Kind: dispatch.BadUpstream, Text: "It gave a web page."}}
}

func geo[T any](t *testing.T, a *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if a.Code != 200 || a.Header().Get("Content-Type") != "application/geo+json" ||
		a.Header().Get("Cache-Control") != "private, no-cache" {
		t.Fatalf("%d, %v: %s", a.Code, a.Header(), a.Body)
	}
	if err := json.Unmarshal(a.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v: %s", err, a.Body)
	}
	return v
}

func linkOf(p wire.ItemPage, rel string) string {
	for _, l := range p.Links {
		if l.Rel == rel {
			return l.Href
		}
	}
	return ""
}

func TestTaskResults(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.PublicURL = "https://dispatch.example.org/api"
	h := New(c)
	finishedTask(t, w, h)
	got := decode[wire.TaskCollection](t, ask(h, "GET", "/upscale_tasks/1/results", ""), 200)
	const at = "https://dispatch.example.org/api/upscale_tasks/1/results"
	want := wire.TaskCollection{Type: "Collection", Version: "1.0.0", ID: "task-1", Title: "NDVI",
		License:     "proprietary",
		Description: got.Description,
		Extent: wire.Object([]byte(
			`{"spatial":{"bbox":[[4,51,6,52]]},"temporal":{"interval":[["2026-01-01T00:00:00Z","2026-02-01T00:00:00Z"]]}}`)),
		Links: []wire.Link{{Rel: "self", Href: at, Type: "application/json"}, {Rel: "root", Href: at,
			Type: "application/json"}, {Rel: "items", Href: at + "/items",
			Type: "application/geo+json", Title: "An Item for each job that has finished"},
			{Rel: "related", Href: "https://dispatch.example.org/api/upscale_tasks/1/tiles",
				Type: "application/geo+json", Title: "All jobs on a map"},
			{Rel: "http://www.w3.org/ns/prov#has_provenance",
				Href: "https://dispatch.example.org/api/upscale_tasks/1/provenance",
				Type: "application/json", Title: "How the results came about, as PROV-JSON"}},
		Providers: []map[string]any{{"name": "cdse", "roles": []any{"processor"}, "processing:facility": "cdse",
			"processing:lineage": "Task 1 ran the process https://apps.example.org/ndvi.json on cdse, a job for each " +
				"value of tile."}},
		Extensions: []string{"https://stac-extensions.github.io/processing/v1.2.0/schema.json"},
		Missing:    []wire.MissingResults{{ID: 2, Code: "PLATFORM_ERROR", Message: "It gave a web page."}}}
	if d := cmp.Diff(want, got); d != "" || got.Description != "Results of 2 of the 3 jobs that have finished, of 4." {
		t.Errorf("%s\n%s", d, got.Description)
	}
}

func TestTaskResults_Items(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	finishedTask(t, w, h)
	page := geo[wire.ItemPage](t, ask(h, "GET", "/upscale_tasks/1/results/items?limit=2", ""))
	if page.Type != "FeatureCollection" || page.Matched != 3 || page.Returned != 1 || len(page.Features) != 1 {
		t.Fatalf("%+v", page)
	}
	first := page.Features[0]
	const at = "http://example.com/upscale_tasks/1/results"
	want := wire.Item{Type: "Feature", Version: "1.1.0", ID: "1", Collection: "task-1", Bbox: []float64{4, 51, 5, 52},
		Geometry: wire.Geometry{RawMessage: []byte(`{"type":"Polygon","coordinates":[[[4,51],[5,51],[5,52],[4,52],[4,51]]]}`)},
		Properties: map[string]any{"title": "NDVI - Processing Job 1", "created": "2026-05-01T10:30:00Z",
			"updated":  "2026-05-01T10:30:00Z",
			"datetime": nil, "start_datetime": "2026-01-01T00:00:00Z", "end_datetime": "2026-02-01T00:00:00Z",
			"eodispatch:status": "finished", "eodispatch:task": 1.0, "processing:facility": "cdse",
			"processing:lineage":  "Job 1 ran the process https://apps.example.org/ndvi.json on cdse.",
			"processing:datetime": "2026-05-01T10:30:00Z"},
		Extensions: []string{"https://stac-extensions.github.io/processing/v1.2.0/schema.json"},
		Links: []wire.Link{{Rel: "self", Href: at + "/items/1", Type: "application/geo+json"}, {Rel: "collection",
			Href: at, Type: "application/json"}, {Rel: "parent", Href: at, Type: "application/json"},
			{Rel: "root", Href: at, Type: "application/json"}, {Rel: "via",
				Href: "http://example.com/unit_jobs/1/results", Type: "application/json",
				Title: "The results as the platform describes them"},
			{Rel: "processing-execution", Href: "http://example.com/unit_jobs/1", Type: "application/json",
				Title: "The job"},
			{Rel: "http://www.w3.org/ns/prov#has_provenance", Href: "http://example.com/unit_jobs/1/provenance",
				Type:  "application/json",
				Title: "How the results came about, as PROV-JSON"}},
		Assets: map[string]wire.Asset{"a.tif": {Href: "https://x.example/a.tif?sig=<&>", Roles: []string{"data"},
			Raw: []byte(`{"href":"https://x.example/a.tif?sig=<&>","roles":["data"]}`)}}}
	if d := cmp.Diff(want, first); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(first, geo[wire.Item](t, ask(h, "GET", "/upscale_tasks/1/results/items/1", ""))); d != "" {
		t.Errorf("the Item is another: %s", d)
	}
	next := strings.TrimPrefix(linkOf(page, "next"), "http://example.com")
	rest := geo[wire.ItemPage](t, ask(h, "GET", next, ""))
	third := rest.Features[0]
	if rest.Returned != 1 || linkOf(rest, "next") != "" || linkOf(rest, "self") != linkOf(page, "next") ||
		third.ID != "3" || third.Version != "1.0.0" {
		t.Errorf("%s: %+v", next, rest)
	}
	if d := cmp.Diff([]float64{4.1, 51, 4.2, 51.1}, third.Bbox); d != "" ||
		fmt.Sprint(third.Properties["dimension"]) != "map[tile:T31UFS]" {
		t.Errorf("%+v", third)
	}
}

// A page names the finished jobs that lack results and why, its link next leads past them, and the Item of each is an
// error with the same reason.
func TestTaskResults_Missing(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	finishedTask(t, w, h)
	for _, c := range []struct {
		kind      dispatch.Kind
		code      string
		status    int
		temporary bool
	}{
		{dispatch.BadUpstream, "PLATFORM_ERROR", 502, false}, {dispatch.NotFound, "RESULTS_NOT_FOUND", 404, false},
		{dispatch.Conflict, "CONFLICT", 409, false},
		{dispatch.Unavailable, "PLATFORM_UNAVAILABLE", 503, true}, {dispatch.Forbidden, "FORBIDDEN", 403, true},
		{dispatch.SignInRequired, "SIGN_IN_REQUIRED", 409, true},
	} {
		w.lacks[2] = &dispatch.Error{Kind: c.kind, Text: "Because."}
		page := geo[wire.ItemPage](t, ask(h, "GET", "/upscale_tasks/1/results/items?limit=2", ""))
		if d := cmp.Diff([]wire.MissingResults{{ID: 2, Code: c.code, Message: "Because.", Temporary: c.temporary}},
			page.Missing); d != "" || len(page.Features) != 1 || page.Features[0].ID != "1" {
			t.Errorf("%s: %s, %+v", c.kind, d, page.Features)
		}
		f := failed(t, ask(h, "GET", "/upscale_tasks/1/results/items/2", ""), c.status, c.code)
		if f.Message != "Because." {
			t.Errorf("%s: %q", c.kind, f.Message)
		}
		rest := geo[wire.ItemPage](t, ask(h, "GET", strings.TrimPrefix(linkOf(page, "next"), "http://example.com"), ""))
		if len(rest.Features) != 1 || rest.Features[0].ID != "3" || len(rest.Missing) != 0 {
			t.Errorf("%s, the page after it: %+v", c.kind, rest)
		}
	}
	w.lacks, w.results[2] = nil, w.results[1]
	if page := geo[wire.ItemPage](t, ask(h, "GET", "/upscale_tasks/1/results/items?limit=2", "")); page.Returned != 2 ||
		len(page.Missing) != 0 {
		t.Errorf("when the results can be read: %+v", page)
	}
}

func TestTaskResults_RefusesInvalidRequests(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	finishedTask(t, w, h)
	for query, want := range map[string]string{
		"limit=0": `["query","limit"] greater_than_equal`, "limit=x": `["query","limit"] int_parsing`,
		"limit=10001": `["query","limit"] less_than_equal`, "token=x": `["query","token"] value_error`,
		"token=1-x": `["query","token"] value_error`, "token=%ff": `["query","token"] string_unicode`,
		"limit=%zz": `["query"] value_error`, "limit=1;token=x": `["query"] value_error`,
	} {
		f := failed(t, ask(h, "GET", "/upscale_tasks/1/results/items?"+query, ""), 422, "VALIDATION_ERROR")
		if got := locs(f.Detail); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	if n := geo[wire.ItemPage](t, ask(h, "GET", "/upscale_tasks/1/results/items?limit=10000", "")).Returned; n != 2 {
		t.Errorf("%d Items", n)
	}
	for _, path := range []string{"/results", "/results/items", "/results/items/1", "/tiles"} {
		failed(t, ask(h, "GET", "/upscale_tasks/9"+path, ""), 404, "TASK_NOT_FOUND")
		failed(t, ask(h, "GET", "/upscale_tasks/1"+path, "", "Authorization", "Bearer token-bert"), 404,
			"TASK_NOT_FOUND")
	}
	failed(t, ask(h, "GET", "/upscale_tasks/1/results/items/4", ""), 404, "JOB_NOT_FOUND")
	failed(t, ask(h, "GET", "/upscale_tasks/1/results/items/x", ""), 422, "VALIDATION_ERROR")
}

func TestTaskResults_Tiles(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	finishedTask(t, w, h)
	tiles := geo[wire.TaskTiles](t, ask(h, "GET", "/upscale_tasks/1/tiles", ""))
	var got []string
	for _, f := range tiles.Features {
		got = append(got, fmt.Sprintf("%s %d %s %v %s", f.Type, f.ID, f.Properties.Status, f.Bbox, f.Properties.Title))
	}
	want := []string{"Feature 1 finished [4 51 5 52] NDVI - Processing Job 1",
		"Feature 2 finished [5 51 6 52] NDVI - Processing Job 2",
		"Feature 3 finished [] NDVI - Processing Job 3", "Feature 4 created [7 51 8 52] NDVI - Processing Job 4"}
	if d := cmp.Diff(want, got); d != "" || tiles.Type != "FeatureCollection" ||
		string(tiles.Features[2].Geometry.RawMessage) != "null" {
		t.Errorf("%s\n%+v", d, tiles)
	}
}

// A task of two tiles in two months: each job's place is that of its tile, and its Item names the month.
func TestTaskDimensions(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	body := goodBody[:len(goodBody)-1] +
		`,"dimensions":[{"name":"tile","values":[{"west":4,"south":51,"east":5,"north":52},{"west":5,"south":51,"east":6,"north":52}]},
		{"name":"when","interval":["2024-01-15","2024-03-01"],"split":"month"}]}`
	if got := decode[wire.UpscalingTaskSummary](t, ask(h, "POST", "/upscale_tasks", body),
		201); got.Counts["created"] != 4 {
		t.Fatalf("%+v", got)
	}
	w.set(3, func(r *dispatch.Record) { r.Status = dispatch.Finished })
	got := decode[wire.TaskDimensions](t, ask(h, "GET", "/upscale_tasks/1/dimensions", ""), 200)
	want := wire.TaskDimensions{Dimensions: []wire.DimensionProgress{{Name: "tile", Values: []wire.ValueProgress{
		{Value: []byte(`{"west":4,"south":51,"east":5,"north":52}`), Status: "created",
			Counts: map[wire.Status]int{"created": 2}, Jobs: []int64{1, 2}},
		{Value: []byte(`{"west":5,"south":51,"east":6,"north":52}`), Status: "running",
			Counts: map[wire.Status]int{"created": 1, "finished": 1}, Progress: 50, Jobs: []int64{3, 4}}}},
		{Name: "when", Values: []wire.ValueProgress{
			{Value: []byte(`["2024-01-15","2024-02-01"]`), Status: "running", Counts: map[wire.Status]int{"created": 1,
				"finished": 1}, Progress: 50, Jobs: []int64{1, 3}},
			{Value: []byte(`["2024-02-01","2024-03-01"]`), Status: "created", Counts: map[wire.Status]int{"created": 2},
				Jobs: []int64{2, 4}}}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	tiles := geo[wire.TaskTiles](t, ask(h, "GET", "/upscale_tasks/1/tiles", "")).Features
	if fmt.Sprint(tiles[1].Bbox, tiles[2].Bbox) != "[4 51 5 52] [5 51 6 52]" {
		t.Errorf("%v and %v", tiles[1].Bbox, tiles[2].Bbox)
	}
	item := geo[wire.Item](t, ask(h, "GET", "/upscale_tasks/1/results/items/3", ""))
	if fmt.Sprint(item.Bbox, item.Properties["dimension"]) != "[5 51 6 52] map[when:[2024-01-15 2024-02-01]]" {
		t.Errorf("%v %v", item.Bbox, item.Properties)
	}
	failed(t, ask(h, "GET", "/upscale_tasks/9/dimensions", ""), 404, "TASK_NOT_FOUND")
	failed(t, ask(h, "GET", "/upscale_tasks/1/dimensions", "", "Authorization", "Bearer token-bert"), 404,
		"TASK_NOT_FOUND")
}

// The names of values are those of jobs, tiles and Items, and of the values themselves, so that equal values with other
// names stay apart.
func TestTaskDimensions_Names(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	body := goodBody[:len(goodBody)-1] +
		`,"dimensions":[{"name":"tile","values":[[4,51,5,52],[4,51,5,52]],"names":["31UFS","31UGS"]},{"name":"crop","values":[1,2],"names":["","maize"]}]}`
	decode[wire.UpscalingTaskSummary](t, ask(h, "POST", "/upscale_tasks", body), 201)
	w.set(4, func(r *dispatch.Record) { r.Status = dispatch.Finished })
	want := []string{"31UFS", "31UFS, maize", "31UGS", "31UGS, maize"}
	for _, query := range []string{"", "?parameters=false", "?limit=10"} {
		for i, j := range decode[wire.UpscalingTask](t, ask(h, "GET", "/upscale_tasks/1"+query, ""), 200).Jobs {
			if title := fmt.Sprintf(" - Processing Job %d (%s)", i+1, want[i]); j.Name != want[i] ||
				!strings.HasSuffix(j.Title, title) {
				t.Errorf("%q: job %d is %q with the title %q", query, j.ID, j.Name, j.Title)
			}
		}
	}
	if j := decode[wire.ProcessingJob](t, ask(h, "GET", "/unit_jobs/2", ""), 200); j.Name != want[1] {
		t.Errorf("a job read alone is %q", j.Name)
	}
	for i, tile := range geo[wire.TaskTiles](t, ask(h, "GET", "/upscale_tasks/1/tiles", "")).Features {
		if tile.Properties.Name != want[i] {
			t.Errorf("tile %d is %q", i, tile.Properties.Name)
		}
	}
	if name := geo[wire.Item](t, ask(h, "GET", "/upscale_tasks/1/results/items/4",
		"")).Properties["name"]; name != want[3] {
		t.Errorf("the Item is %q", name)
	}
	var got []string
	for _, d := range decode[wire.TaskDimensions](t, ask(h, "GET", "/upscale_tasks/1/dimensions", ""), 200).Dimensions {
		for _, v := range d.Values {
			got = append(got, fmt.Sprint(v.Name, v.Jobs))
		}
	}
	if fmt.Sprint(got) != "[31UFS[1 2] 31UGS[3 4] [1 3] maize[2 4]]" {
		t.Error(got)
	}
}

func TestTask_RefusesNames(t *testing.T) {
	h := New(newWorld().config())
	for members, loc := range map[string]string{
		`"values":[1,2],"names":["a",7]`: "[body dimension names 1]",
		`"values":[1,2],"names":"a"`:     "[body dimension names]",
		`"values":[1,2],"names":[]`:      "[body dimension names]",
		`"interval":["2024-01-01","2024-03-01"],"split":"month","names":["a","b"]`: "[body dimension names]",
	} {
		e := failed(t, ask(h, "POST", "/upscale_tasks",
			goodBody[:len(goodBody)-1]+`,"dimension":{"name":"n2",`+members+`}}`), 422, "VALIDATION_ERROR")
		if len(e.Detail) != 1 || fmt.Sprint(e.Detail[0].Loc) != loc {
			t.Errorf("%s: %+v", members, e)
		}
	}
}

// A value that is larger than a page of the list is read whole, and not repeated to the client.
func TestTaskDimensions_LargeValues(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	large := strings.Repeat("x", 20<<10)
	body := goodBody[:len(goodBody)-1] + `,"dimensions":[{"name":"tile","values":["` + large + `","` + large +
		`y"]},{"name":"n2","values":[1,2]}],"combine":"zip"}`
	decode[any](t, ask(h, "POST", "/upscale_tasks", body), 201)
	got := decode[wire.TaskDimensions](t, ask(h, "GET", "/upscale_tasks/1/dimensions", ""), 200)
	if len(got.Dimensions) != 2 || len(got.Dimensions[0].Values) != 2 || got.Dimensions[0].Values[0].Value != nil ||
		fmt.Sprint(got.Dimensions[1].Values[1].Jobs) != "[2]" {
		t.Errorf("%+v", got)
	}
}

// TestTaskResults_OfSeveralPlatforms names each platform at which jobs of the task have finished as a processor.
func TestTaskResults_OfSeveralPlatforms(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	spreadTask(t, w, h)
	got := decode[wire.TaskCollection](t, ask(h, "GET", "/upscale_tasks/1/results", ""), 200)
	want := []map[string]any{}
	for _, platform := range []string{"a", "b"} {
		want = append(want, map[string]any{"name": platform, "roles": []any{"processor"},
			"processing:facility": platform,
			"processing:lineage": "Task 1 ran the process https://apps.example.org/" + platform + ".json " +
				"on " + platform + " for some of the values of tile."})
	}
	if d := cmp.Diff(want, got.Providers); d != "" {
		t.Error(d)
	}
}
