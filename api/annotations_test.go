package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/detector"
)

// withMembers returns a request with further members.
func withMembers(body, members string) string { return body[:len(body)-1] + "," + members + "}" }

func TestAnnotations_OfARealBroker(t *testing.T) {
	h := newRealAPI(t, &platform{})
	const members = `"labels":{"project":"hesbaye","season":""},"note":"first"`
	decode[any](t, ask(h, "POST", "/unit_jobs", withMembers(goodBody, members)), 201)
	decode[any](t, ask(h, "POST", "/upscale_tasks", withMembers(goodTask, members)), 201)
	for _, path := range []string{"/unit_jobs/1", "/upscale_tasks/1"} {
		read := func() (r struct {
			Labels map[string]string `json:"labels"`
			Note   string            `json:"note"`
			Jobs   []struct {
				Labels map[string]string `json:"labels"`
			} `json:"jobs"`
		}) {
			t.Helper()
			a := ask(h, "GET", path, "")
			if err := json.Unmarshal(a.Body.Bytes(), &r); err != nil || a.Code != 200 {
				t.Fatalf("%d %s", a.Code, a.Body)
			}
			return r
		}
		if r := read(); r.Note != "first" || len(r.Labels) != 2 || r.Labels["project"] != "hesbaye" ||
			slices.ContainsFunc(r.Jobs, func(j struct {
				Labels map[string]string `json:"labels"`
			}) bool {
				return j.Labels != nil
			}) {
			t.Errorf("%s: %+v", path, r)
		}
		etag := ask(h, "GET", path, "").Header().Get("ETag")
		decode[any](t, ask(h, "PATCH", path, `{"labels":{"season":null,"tile":"31UFS"}}`), 200)
		if r := read(); r.Note != "first" || fmt.Sprint(r.Labels) != "map[project:hesbaye tile:31UFS]" {
			t.Errorf("%s: %+v", path, r)
		}
		if again := ask(h, "GET", path, "", "If-None-Match", etag); again.Code != 200 {
			t.Errorf("%s: the ETag has not changed with the labels: %d", path, again.Code)
		}
		decode[any](t, ask(h, "PATCH", path, `{"labels":null,"note":null}`), 200)
		if a := ask(h, "GET", path, ""); strings.Contains(a.Body.String(), "labels") ||
			strings.Contains(a.Body.String(), "note\"") {
			t.Errorf("%s: %s", path, a.Body)
		}
		for _, who := range [][]string{{"Authorization", "Bearer token-bert"}} {
			if a := ask(h, "PATCH", path, `{"note":"mine"}`, who...); a.Code != 404 {
				t.Errorf("%s of another user: %d", path, a.Code)
			}
		}
	}
}

func TestAnnotations_Refused(t *testing.T) {
	h := newRealAPI(t, &platform{})
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	for body, place := range map[string]string{
		`{"labels":{"a":"` + strings.Repeat("x", 10<<10) + `"}}`: `["body","labels","a"]`,
		`{"labels":{"a":1}}`: `["body","labels","a"]`, `{"labels":[]}`: `["body","labels"]`,
		`{"labels":{"a b":"x"}}`: `["body","labels","a b"]`, `{"note":7}`: `["body","note"]`, `{"note":"` +
			strings.Repeat("x", 2001) + `"}`: `["body","note"]`,
	} {
		changed := failed(t, ask(h, "PATCH", "/unit_jobs/1", body), 422, "VALIDATION_ERROR")
		submitted := failed(t, ask(h, "POST", "/unit_jobs", withMembers(goodBody, body[1:len(body)-1])), 422,
			"VALIDATION_ERROR")
		for _, f := range []failure{changed, submitted} {
			if got := locs(f.Detail); len(got) != 1 || !strings.HasPrefix(got[0], place+" ") {
				t.Errorf("%.60s: the faults are at %q", body, got)
			}
		}
	}
	failed(t, ask(h, "PATCH", "/unit_jobs/1", `{"status":"finished"}`), 422, "VALIDATION_ERROR")
	failed(t, ask(h, "PATCH", "/unit_jobs/1", `[]`), 422, "VALIDATION_ERROR")
	for i := range dispatch.MostLabels {
		decode[any](t, ask(h, "PATCH", "/unit_jobs/1", fmt.Sprintf(`{"labels":{"k%d":""}}`, i)), 200)
	}
	failed(t, ask(h, "PATCH", "/unit_jobs/1", `{"labels":{"one-more":""}}`), 422, "VALIDATION_ERROR")
}

// titlesIn reads all pages of a list, and returns the titles of its elements in order: tasks, then jobs, of each page.
func titlesIn(t *testing.T, h http.Handler, path string) (titles []string, pages int) {
	t.Helper()
	for path != "" {
		a := ask(h, "GET", path, "")
		list := decode[wire.JobsStatusResponse](t, a, 200)
		for _, task := range list.UpscalingTasks {
			titles = append(titles, task.Title)
		}
		for _, job := range list.ProcessingJobs {
			titles = append(titles, job.Title)
		}
		path, pages = nextOf(t, a), pages+1
	}
	return titles, pages
}

func TestFilters_OfAList(t *testing.T) {
	h := newRealAPI(t, &platform{})
	titled := func(body, title, labels string) string {
		return withMembers(strings.Replace(body, `"NDVI"`, `"`+title+`"`, 1), `"labels":`+labels)
	}
	var middle time.Time
	for i, title := range []string{"Burnt AREA", "ndvi of Liège", "burnt area 2", "Été"} {
		decode[any](t, ask(h, "POST", "/unit_jobs", titled(goodBody, title,
			fmt.Sprintf(`{"project":"p%d","odd":"%d"}`, i/2,
				i%2))), 201)
		if i == 1 {
			r := decode[wire.ProcessingJob](t, ask(h, "GET", "/unit_jobs/2", ""), 200)
			middle = r.Created.Add(time.Microsecond)
		}
	}
	decode[any](t, ask(h, "POST", "/upscale_tasks", titled(goodTask, "burnt tiles", `{"project":"p1"}`)), 201)
	at := url.QueryEscape(middle.Format(time.RFC3339Nano))
	const service = "https%3A%2F%2Fapps.example.org%2Fndvi.json"
	for query, want := range map[string]string{
		"labels=project%3Dp1":                   "burnt tiles,Été,burnt area 2",
		"labels=project%3Dp1&labels=odd%3D0":    "burnt area 2",
		"labels=project%3Dp1&limit=1":           "burnt tiles,Été,burnt area 2",
		"labels=project%3Dp2":                   "",
		"title=BURNT":                           "burnt tiles,burnt area 2,Burnt AREA",
		"title=BURNT&filter=processing&limit=1": "burnt area 2,Burnt AREA",
		"title=%C3%89T%C3%89":                   "Été",
		"service=" + service: "burnt tiles,Été,burnt area 2,ndvi of " +
			"Liège,Burnt AREA",
		"service=other":                                               "",
		"created_after=" + at:                                         "burnt tiles,Été,burnt area 2",
		"created_before=" + at:                                        "ndvi of Liège,Burnt AREA",
		"created_before=" + at + "&limit=1":                           "ndvi of Liège,Burnt AREA",
		"created_after=" + at + "&created_before=" + at:               "",
		"labels=odd%3D0&title=area&created_before=" + at + "&limit=1": "Burnt AREA",
		"sort=-created&title=ndvi":                                    "ndvi of Liège",
		"sort=created": "burnt tiles,Burnt AREA,ndvi of Liège,burnt " +
			"area 2,Été",
		"sort=created&limit=1":                      "Burnt AREA,ndvi of Liège,burnt area 2,Été,burnt tiles",
		"sort=created&limit=2&platform=cdse":        "Burnt AREA,ndvi of Liège,burnt area 2,Été,burnt tiles",
		"sort=created&limit=1&created_after=" + at:  "burnt area 2,Été,burnt tiles",
		"sort=created&limit=1&created_before=" + at: "Burnt AREA,ndvi of Liège",
		"sort=created&title=BURNT&limit=2":          "Burnt AREA,burnt area 2,burnt tiles",
		"sort=created&labels=project%3Dp1&limit=2":  "burnt area 2,Été,burnt tiles",
	} {
		if got, _ := titlesIn(t, h, "/jobs_status?"+query); strings.Join(got, ",") != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	decode[any](t, ask(h, "PATCH", "/unit_jobs/6", `{"labels":{"checked":"yes"}}`), 200)
	for query, want := range map[string]int{"labels=checked%3Dyes": 1, "title=job%202": 1, "created_after=" + at: 3,
		"created_before=" + at: 0, "labels=checked%3Dno": 0} {
		if got := decode[wire.UpscalingTask](t, ask(h, "GET", "/upscale_tasks/1?"+query, ""),
			200).Jobs; len(got) != want {
			t.Errorf("of the task, %s: %d jobs, want %d", query, len(got), want)
		}
	}
	for _, bad := range []string{"labels=project", "labels=%3Dx", "title=" + strings.Repeat("x", 201),
		"created_after=today", "created_before=1", "filter=sync&title=x", "filter=sync&labels=a=b", "sort=updated",
		"sort=", "filter=sync&sort=created"} {
		failed(t, ask(h, "GET", "/jobs_status?"+bad, ""), 422, "VALIDATION_ERROR")
	}
}

// A filter by a service of the catalogue selects what runs at any of the platforms that offer it, in any spelling of
// their addresses, and nothing of the same name in another namespace.
func TestFilters_ServiceAtSeveralPlatforms(t *testing.T) {
	w := newWorld()
	c := w.config()
	area, other := "area", "other"
	first := dispatch.Service{Endpoint: "https://openeo.example.org", Application: "https://apps.example.org/ndvi.json"}
	second := dispatch.Service{Endpoint: "https://ogc.example.org", Namespace: &area, Application: "ndvi"}
	c.Services = shelf{{ID: "ndvi", Label: dispatch.OpenEO, Service: first, Platform: "cdse",
		Also: []catalogue.Placement{{Label: dispatch.OGCProcess, Service: second, Platform: "ogc"}}}}
	h := New(c)
	spelled := dispatch.Service{Endpoint: "https://OGC.example.org:443/", Namespace: &area, Application: "ndvi"}
	for i, s := range []dispatch.Service{first, second, spelled,
		{Endpoint: second.Endpoint, Namespace: &other, Application: "ndvi"},
		{Endpoint: second.Endpoint, Application: "ndvi"}} {
		id := dispatch.JobID(i + 1)
		w.jobs[id] = dispatch.Record{Request: dispatch.Request{Title: fmt.Sprint("job ", id), Service: s},
			Job: dispatch.Job{Identity: dispatch.Identity{ID: id, Owner: anna,
				Created: moment.Add(time.Duration(i) * time.Second)}, Target: dispatch.Target{Account: "cdse/shared"},
				Handover:  dispatch.Handover{Phase: dispatch.Ended},
				Condition: dispatch.Condition{Status: dispatch.Finished, Updated: moment}}}
	}
	fire := dispatch.Service{Endpoint: "https://ogc.example.org", Application: "fire"}
	for i, placements := range [][]dispatch.Placement{{{Service: fire}, {Service: second}}, {{Service: fire}}} {
		id := dispatch.TaskID(i + 1)
		w.tasks[id] = dispatch.TaskRecord{Counts: dispatch.Counts{dispatch.Finished: 1},
			Task: dispatch.Task{ID: id, Owner: anna, Account: "cdse/shared",
				Request: dispatch.Request{Title: fmt.Sprint("task ", id), Service: fire, Placements: placements},
				Created: moment.Add(time.Hour)}}
	}
	for query, want := range map[string]string{"service=ndvi": "[task 1 job 3 job 2 job 1]",
		"service=fire": "[task 2 task 1]"} {
		if titles, _ := titlesIn(t, h, "/jobs_status?"+query); fmt.Sprint(titles) != want {
			t.Errorf("%s: %v, want %s", query, titles, want)
		}
	}
}

// A cursor of one order is not accepted in the other; the default order may be named.
func TestSort_CursorsBelongToOneOrder(t *testing.T) {
	h := newRealAPI(t, &platform{})
	for range 3 {
		decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	}
	decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
	oldest, newest := nextOf(t, ask(h, "GET", "/jobs_status?limit=1&sort=created", "")),
		nextOf(t, ask(h, "GET", "/jobs_status?limit=1", ""))
	for _, bad := range []string{strings.Replace(oldest, "&sort=created", "", 1), newest + "&sort=created"} {
		if bad == oldest {
			t.Fatalf("the next page is not in the same order: %s", oldest)
		}
		if f := failed(t, ask(h, "GET", bad, ""), 422, "VALIDATION_ERROR"); len(f.Detail) != 1 ||
			f.Detail[0].Loc[1] != "cursor" {
			t.Errorf("%s: %v", bad, f.Detail)
		}
	}
	decode[any](t, ask(h, "GET", newest+"&sort=-created", ""), 200)
	if f := failed(t, ask(h, "GET", "/upscale_tasks/1?sort=created", ""), 422,
		"VALIDATION_ERROR"); f.Detail[0].Loc[1] != "sort" {
		t.Errorf("jobs of a task: %v", f.Detail)
	}
}

// A page for a rare title reads a bounded number of jobs; its Link goes on behind them, and nothing is passed over or
// shown twice.
func TestFilters_GivesUpAndGoesOn(t *testing.T) {
	detector.Skip(t)
	w := newWorld()
	h := New(w.config())
	for i := range 2*live.MostScanned + 10 {
		id := dispatch.JobID(i + 1)
		r := dispatch.Record{Request: dispatch.Request{Title: "common"}, Job: dispatch.Job{
			Identity: dispatch.Identity{ID: id, Owner: anna, Created: moment.Add(time.Duration(i) * time.Second)},
			Target:   dispatch.Target{Account: "cdse/shared"}, Handover: dispatch.Handover{Phase: dispatch.Ended},
			Condition: dispatch.Condition{Status: dispatch.Finished, Updated: moment}}}
		if i == 0 || i == live.MostScanned || i == 2*live.MostScanned {
			r.Request.Title = fmt.Sprint("rare ", i)
		}
		w.jobs[id] = r
	}
	for i := range 3 {
		id := dispatch.TaskID(i + 1)
		w.tasks[id] = dispatch.TaskRecord{Counts: dispatch.Counts{dispatch.Finished: 1},
			Task: dispatch.Task{ID: id, Owner: anna, Account: "cdse/shared",
				Request: dispatch.Request{Title: fmt.Sprint("rare task ", i)},
				Created: moment.Add(time.Duration(i) * live.MostScanned * time.Second)}}
	}
	titles, pages := titlesIn(t, h, "/jobs_status?title=rare&limit=2")
	want := fmt.Sprint([]string{"rare task 2", fmt.Sprint("rare ", 2*live.MostScanned), "rare task 1",
		fmt.Sprint("rare ", live.MostScanned), "rare task 0", "rare 0"})
	if fmt.Sprint(titles) != want || pages > 6 {
		t.Errorf("%d pages: %q", pages, titles)
	}
	if whole, _ := titlesIn(t, h, "/jobs_status?title=rare"); fmt.Sprint(whole) != want {
		t.Errorf("in pages of 1,000: %q", whole)
	}
	titles, pages = titlesIn(t, h, "/jobs_status?title=rare&limit=1&sort=created")
	if want := "[rare 0 rare task 0 rare 10000 rare task 1 rare 20000 rare task 2]"; fmt.Sprint(titles) != want ||
		pages > 9 {
		t.Errorf("oldest first, %d pages: %q, want %s", pages, titles, want)
	}
}
