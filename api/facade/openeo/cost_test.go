package openeo_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// Strangers do not choose what is requested from a platform and kept: queries are those of users.
func TestPublished_QueriesOfStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	for n := range 20 {
		w.get(fmt.Sprintf("/openeo/cdse/1.2/collections?limit=%d", n+1))
		refusedWith(t, w.ask("GET", fmt.Sprintf("/openeo/cdse/1.2/collections?x=%d", n), ""), http.StatusUnauthorized,
			"AuthenticationRequired")
	}
	if n := w.sims["cdse"].Oracle.Requests("GET /collections"); n != 1 {
		t.Errorf("%d requests", n)
	}
	w.get("/openeo/cdse/1.2/collections?x=1", "Authorization", anna)
	if n := w.sims["cdse"].Oracle.Requests("GET /collections"); n != 2 {
		t.Errorf("with the query of a user %d requests", n)
	}
}

// A merged list of which a part is old says so, and which.
func TestMerged_SaysWhatIsOld(t *testing.T) {
	t.Parallel()
	w := twoPlatforms(t)
	if got := w.get("/openeo/1.2/collections"); got["eodispatch:stale"] != nil {
		t.Errorf("%v", got)
	}
	w.down["west"].Close()
	w.now = w.now.Add(time.Hour)
	for range 2 {
		got := w.ask("GET", "/openeo/1.2/collections", "")
		list := object(t, got, http.StatusOK)
		if old := fmt.Sprint(list["eodispatch:stale"]); old != "[west]" || list["eodispatch:stale_since"] == nil ||
			got.Header().Get("Warning") == "" {
			t.Errorf("%v; %s", got.Header(), got.Body)
		}
		if all := resources(t, list["collections"]); all["SHARED"] != "east west" || all["WEST"] != "west" {
			t.Errorf("%v", all)
		}
	}
	if got := w.ask("GET", "/openeo/1.2/udf_runtimes", ""); object(t, got,
		http.StatusOK)["eodispatch:stale_since"] != nil {
		t.Errorf("a runtime that is none: %s", got.Body)
	}
}

// An id that a platform might have is not given to a user's process while the platform does not respond.
func TestProcessGraphs_IdsWhileThePlatformIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	w.down["cdse"].Close()
	refusedWith(t, w.ask("PUT", "/openeo/cdse/1.2/process_graphs/save_result", addition, "Authorization", anna),
		http.StatusServiceUnavailable, "InfrastructureMaintenance")
}

// Lists of processes are whole, in order and without graphs, however many are read at once.
func TestProcessGraphs_LongLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	const all = 40
	for n := range all {
		w.save(fmt.Sprintf("p%02d", n), sum)
	}
	for _, limit := range []int{0, 1, 16, 17, 39, 40} {
		target, seen := graphs, []string{}
		if limit > 0 {
			target += fmt.Sprintf("?limit=%d", limit)
		}
		for target != "" {
			page := w.get(target, "Authorization", anna)
			for _, p := range page["processes"].([]any) {
				p := p.(map[string]any)
				if seen = append(seen, p["id"].(string)); p["process_graph"] != nil || p["parameters"] == nil {
					t.Fatalf("%v", p)
				}
			}
			target = ""
			for _, l := range page["links"].([]any) {
				target = strings.TrimPrefix(l.(map[string]any)["href"].(string), publicURL)
			}
		}
		if len(seen) != all || !slices.IsSorted(seen) {
			t.Errorf("limit %d: %d, %v", limit, len(seen), seen)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=x", "?cursor=abc"} {
		refusedWith(t, w.ask("GET", graphs+query, "", "Authorization", anna), http.StatusBadRequest,
			"ProcessParameterInvalid")
	}
}

// pieces is a client that notes how a response arrives.
type pieces struct {
	*httptest.ResponseRecorder
	largest int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.largest = max(p.largest, len(b))
	return p.ResponseRecorder.Write(b)
}

// A list of all batch jobs is written while it is read.
func TestJobs_LongListsArrive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	const all = 2_500
	for n := range all {
		if _, err := w.broker.CreateUnstarted(t.Context(), "https://idp.example.org anna", "cdse", false,
			fmt.Sprint(n, strings.Repeat("x", 200)), []byte("{}"), dispatch.Key{}); err != nil {
			t.Fatal(err)
		}
	}
	r := httptest.NewRequest("GET", jobsPath, nil)
	r.Header.Set("Authorization", anna)
	got := &pieces{ResponseRecorder: httptest.NewRecorder()}
	w.ServeHTTP(got, r)
	page := object(t, got.ResponseRecorder, http.StatusOK)
	if n := len(listed(t, page)); n != all || got.largest > 64<<10 || len(page["links"].([]any)) != 0 {
		t.Errorf("%d batch jobs, %d bytes at once", n, got.largest)
	}
}

// What a client writes about a batch job is bounded, and a time limit is one.
func TestJobs_MembersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	for _, members := range []string{`"title": "` + strings.Repeat("x", 1_001) + `"`, `"description": "` +
		strings.Repeat("x", 20_001) + `"`, `"plan": "` + strings.Repeat("x", 1_001) + `"`,
		`"job_options": {"eodispatch:max_duration": "soon"}`, `"job_options": {"eodispatch:max_duration": 0}`,
		`"job_options": {"eodispatch:max_duration": 9300000000}`,
		`"max_duration": 92233720368547758070`, `"max_duration": 9223372036854775807`, `"max_duration": 1.5`} {
		refusedWith(t, w.ask("POST", jobsPath, `{`+members+`, "process": `+addition+`}`, "Authorization", anna),
			http.StatusBadRequest, "ProcessParameterInvalid")
	}
	path := w.create(`{"title": "` + strings.Repeat("é", 1_000) +
		`", "job_options": {"eodispatch:max_duration": 60}, "process": ` + addition + `}`)
	refusedWith(t, w.ask("PATCH", path, `{"title": "`+strings.Repeat("x", 1_001)+`"}`, "Authorization", anna),
		http.StatusBadRequest, "ProcessParameterInvalid")
}

// The results of a task have a bound, and the error says where they are in pages.
func TestJobs_ResultsOfALargeTask(t *testing.T) {
	t.Parallel()
	w := running(t, func(_ string, s *simulator.OpenEO) { s.Life = simulator.Life{} })
	path := w.create(
		`{"process": {"process_graph": {"load": {"process_id": "load_collection", "arguments": {"id": "SENTINEL2_L2A",
		"spatial_extent": {"west": 5.0, "south": 51.0, "east": 5.2, "north": 51.1}, "temporal_extent": ["2024-06-01", "2024-07-01"]}},
		"save": {"process_id": "save_result", "arguments": {"data": {"from_node": "load"}, "format": "GTiff"}, "result": true}}}, "job_options": {"eodispatch:tile_grid": "20x20km"}}`)
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	w.until(path, "finished")
	most := bounds.TaskResults.Most
	bounds.TaskResults.Most = 10
	defer func() { bounds.TaskResults.Most = most }()
	got := w.ask("GET", path+"/results", "", "Authorization", anna)
	refusedWith(t, got, http.StatusRequestEntityTooLarge, "FileSizeExceeded")
	if !strings.Contains(got.Body.String(), publicURL+"/upscale_tasks/"+strings.TrimPrefix(path, jobsPath+"/t-")+
		"/results/items") {
		t.Errorf("%s", got.Body)
	}
}

// Errors of bodies say what is wrong, and where.
func TestErrors_OfBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	for body, want := range map[string][2]string{
		`{"process": `: {"ContentTypeInvalid", "unexpected end"},
		`{"process": ` + strings.Repeat(`{"a":`, 80) + `1` + strings.Repeat(`}`, 81): {"ProcessGraphComplexity",
			"at most 64 levels"},
		`{"process": {"a": 1, "a": 2}}`: {"ProcessGraphInvalid", "process.a: Member given more than once"},
	} {
		got := w.ask("POST", jobsPath, body, "Authorization", anna)
		if refusedWith(t, got, http.StatusBadRequest, want[0]); !strings.Contains(got.Body.String(), want[1]) {
			t.Errorf("%.30s: %s", body, got.Body)
		}
	}
}

// The log of a job whose user has no account at the platform leads to the page where accounts are linked.
func TestLogs_LeadToTheSignIn(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.tokens.err = &dispatch.Error{Kind: dispatch.SignInRequired, Op: "test", Text: "Link your account."}
	for _, b := range w.backends {
		b.Access = dispatch.AccessUser
	}
	path := w.create(`{"process": ` + addition + `}`)
	w.is(http.StatusAccepted, "POST", path+"/results", "")
	refusedWith(t, w.ask("GET", path+"/logs?offset=zzz", "", "Authorization", anna), http.StatusBadRequest,
		"ProcessParameterInvalid")
	for end := time.Now().Add(time.Minute); ; {
		got := w.ask("GET", path+"/logs", "", "Authorization", anna)
		if strings.Contains(got.Body.String(), `"href":"`+signInPage+`cdse"`) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s", got.Body)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// Under an account that users share, a process is validated only if it may be run there.
func TestValidation_UnderASharedAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	const stored = `{"process_graph": {"a": {"process_id": "load_uploaded_files", "arguments": {"paths": ["other.tif"]}, "result": true}}}`
	w.share("cdse")
	got := w.ask("POST", "/openeo/cdse/1.2/validation", stored, "Authorization", anna)
	if errors := object(t, got, http.StatusOK)["errors"].([]any); len(errors) != 1 ||
		w.sims["cdse"].Oracle.Requests("POST /validation") != 0 {
		t.Errorf("%s", got.Body)
	}
	if got := w.ask("POST", "/openeo/cdse/1.2/validation", addition, "Authorization", anna); object(t, got,
		http.StatusOK)["errors"] == nil || w.sims["cdse"].Oracle.Requests("POST /validation") != 1 {
		t.Errorf("%s", got.Body)
	}
}
