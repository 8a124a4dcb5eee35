package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

func keysOf(t *testing.T, raw []byte) []string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestCreateJob(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	a := ask(h, "POST", "/unit_jobs", goodBody)
	got := decode[map[string]any](t, a, 201)
	want := map[string]any{
		"id": 1.0, "title": "NDVI", "label": "openeo", "format": "gtiff", "status": "submitted", "platform": "cdse",
		"created":         "2026-05-01T10:30:00Z",
		"platform_job_id": "j-7",
		"service": map[string]any{"endpoint": "https://openeo.example.org", "namespace": nil,
			"application": "https://apps.example.org/ndvi.json"},
	}
	var summary map[string]json.RawMessage
	json.Unmarshal(a.Body.Bytes(), &summary)
	if p := string(summary["parameters"]); p !=
		`{"n":12345678901234567890.00100,"e":1e99,"z":-0,"none":null,"html":"<b>&"}` {
		t.Errorf("parameters %s", p)
	}
	delete(got, "parameters")
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if l := a.Header().Get("Location"); l != "/unit_jobs/1" {
		t.Errorf("Location %q", l)
	}
	if c := a.Header().Get("Cache-Control"); c != "no-store" {
		t.Errorf("Cache-Control %q", c)
	}
	if k := w.keys[0]; k != (dispatch.Key{}) {
		t.Errorf("key %v", k)
	}
	if string(w.jobs[1].Request.Parameters) != string(summary["parameters"]) {
		t.Errorf("kept %s", w.jobs[1].Request.Parameters)
	}
}

func TestCreateJob_KeepsNumbersDigitForDigit(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	for _, number := range []string{"1e399", "-1E+400", "9007199254740993", "-0", "-0.0", "1.10",
		"0.1000000000000000055511151231257827", strings.Repeat("7", 5_000)} {
		body := strings.Replace(goodBody, "1e99", number, 1)
		a := decode[map[string]json.RawMessage](t, ask(h, "POST", "/unit_jobs", body), 201)
		var id dispatch.JobID
		json.Unmarshal(a["id"], &id)
		b := decode[map[string]json.RawMessage](t, ask(h, "GET", fmt.Sprintf("/unit_jobs/%d", id), ""), 200)
		for _, p := range []string{string(a["parameters"]), string(b["parameters"]),
			string(w.jobs[id].Request.Parameters)} {
			if !strings.Contains(p, `"e":`+number+`,`) {
				t.Errorf("%.50s became %.100s", number, p)
			}
		}
	}
}

func TestCreateJob_OptionsAndUnknownMembers(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	body := strings.Replace(goodBody, `{"title"`,
		`{"user_id":"x","status":"finished","Title":"no","options":{"driver-memory":"4g"},"title"`, 1)
	decode[any](t, ask(h, "POST", "/unit_jobs", body), 201)
	r := w.jobs[1]
	if r.Owner != anna || r.Request.Title != "NDVI" || string(r.Request.Options) != `{"driver-memory":"4g"}` {
		t.Errorf("kept %+v", r)
	}
	for _, body := range []string{
		strings.Replace(goodBody, `{"title"`, `{"options":null,"title"`, 1),
		strings.Replace(goodBody, `"namespace":null,`, ``, 1),
	} {
		decode[any](t, ask(h, "POST", "/unit_jobs", body), 201)
	}
	if w.jobs[2].Request.Options != nil || w.jobs[3].Request.Service.Namespace != nil {
		t.Errorf("kept %+v, %+v", w.jobs[2].Request, w.jobs[3].Request)
	}
	for _, f := range []string{"geojson", "gtiff", "netcdf", "json"} {
		decode[any](t, ask(h, "POST", "/unit_jobs", strings.Replace(goodBody, `"gtiff"`, strconv.Quote(f), 1)), 201)
	}
	decode[any](t, ask(h, "POST", "/unit_jobs", strings.Replace(goodBody, `"openeo"`, `"ogc_api_process"`, 1)), 201)
}

func TestReadJob(t *testing.T) {
	w := newWorld()
	c := w.config()
	c.SignInLink = func(a dispatch.Account) string { return "https://broker.example.org/link/" + a.Platform() }
	h := New(c)
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	a := ask(h, "GET", "/unit_jobs/1", "")
	decode[any](t, a, 200)
	want := []string{"created", "format", "id", "label", "parameters", "platform", "platform_job_id", "service",
		"status", "title", "updated"}
	if d := cmp.Diff(want, keysOf(t, a.Body.Bytes())); d != "" {
		t.Error(d)
	}
	got := decode[wire.ProcessingJob](t, a, 200)
	if !strings.Contains(a.Body.String(), `"created":"2026-05-01T10:30:00Z"`) ||
		!strings.Contains(a.Body.String(), `"updated":"2026-05-01T10:30:00Z"`) || got.ID != 1 {
		t.Errorf("body %s", a.Body)
	}
	if c := a.Header().Get("Cache-Control"); c != "private, no-cache" {
		t.Errorf("Cache-Control %q", c)
	}
	if w.fresh != 10*time.Second {
		t.Errorf("asked for %v", w.fresh)
	}

	r := w.jobs[1]
	half, cost := 50.5, 12.25
	r.Task, r.Status, r.Progress, r.Costs, r.Checked = 9, dispatch.Failed, &half, &cost, moment
	r.Started, r.Ended = moment.Add(time.Minute), moment.Add(time.Hour)
	r.Failure, r.Attention, r.Notice = "out of memory", dispatch.NeedsSignIn, "token expired"
	w.jobs[1] = r
	full := decode[map[string]any](t, ask(h, "GET", "/unit_jobs/1", ""), 200)
	for _, gone := range []string{"id", "title", "label", "format", "parameters", "service", "created", "updated",
		"platform", "platform_job_id"} {
		delete(full, gone)
	}
	attention := full["attention"].(map[string]any)
	if attention["code"] != "sign_in_required" || attention["link"] != "https://broker.example.org/link/cdse" ||
		attention["action"] != "sign_in" ||
		!strings.HasSuffix(attention["message"].(string), "The platform says: token expired") {
		t.Errorf("attention %v", attention)
	}
	c.Linked = nil
	if a := decode[wire.ProcessingJob](t, ask(New(c), "GET", "/unit_jobs/1", ""), 200).Attention; a.Action !=
		"give_access" {
		t.Errorf("without accounts to link: %+v", a)
	}
	delete(full, "attention")
	r.Attention, r.Notice = dispatch.Unreachable, ""
	w.jobs[1] = r
	other := decode[wire.ProcessingJob](t, ask(h, "GET", "/unit_jobs/1", ""), 200).Attention
	if d := cmp.Diff(&wire.JobAttention{Code: "platform_unavailable",
		Message: openapi.Attentions[dispatch.Unreachable]}, other); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]any{"status": "failed", "failure": "out of memory", "progress": 50.5, "costs": 12.25,
		"started": "2026-05-01T10:31:00Z", "ended": "2026-05-01T11:30:00Z", "checked": "2026-05-01T10:30:00Z",
		"task_id": 9.0}, full); d != "" {
		t.Error(d)
	}
}

func TestAttention_EveryCodeIsExplained(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../dispatch/job.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Attention" {
			return true
		}
		code, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if code == "" {
			return true
		}
		codes++
		if openapi.Attentions[dispatch.Attention(code)] == "" {
			t.Errorf("%s has no sentence", code)
		}
		return true
	})
	if codes != len(openapi.Attentions) || codes == 0 {
		t.Errorf("%d codes, %d sentences", codes, len(openapi.Attentions))
	}
}

func TestStatuses(t *testing.T) {
	for _, compat := range []bool{false, true} {
		w := newWorld()
		c := w.config()
		c.Compat.SubmittedAsCreated = compat
		h := New(c)
		decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
		for _, s := range []dispatch.Status{"created", "submitted", "queued", "running", "finished", "canceled",
			"failed", "unknown"} {
			r := w.jobs[1]
			r.Status = s
			w.jobs[1] = r
			want := wire.Status(s)
			if compat && s == "submitted" {
				want = "created"
			}
			if got := decode[wire.ProcessingJob](t, ask(h, "GET", "/unit_jobs/1", ""), 200).Status; got != want {
				t.Errorf("compat %v: %s is shown as %s", compat, s, got)
			}
			list := decode[wire.JobsStatusResponse](t, ask(h, "GET", "/jobs_status", ""), 200)
			if got := list.ProcessingJobs[0].Status; got != want {
				t.Errorf("compat %v: %s is listed as %s", compat, s, got)
			}
		}
	}
}

// TestJob_ShowsItsOptions, with their numbers as they were sent, so that it can be submitted again; a job without
// options has no such member.
func TestJob_ShowsItsOptions(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	const options = `{"max_duration":3600,"x":1.10}`
	decode[any](t, ask(h, "POST", "/unit_jobs", strings.Replace(goodBody, `{"title"`, `{"options":`+options+`,"title"`,
		1)), 201)
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	if got := ask(h, "GET", "/unit_jobs/1", "").Body.String(); !strings.Contains(got, `"options":`+options) {
		t.Errorf("the options are not in %s", got)
	}
	if got := ask(h, "GET", "/unit_jobs/2", "").Body.String(); strings.Contains(got, "options") {
		t.Errorf("options in %s", got)
	}
}

func TestResults(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	a := ask(h, "GET", "/unit_jobs/1/results", "")
	decode[any](t, a, 200)
	if strings.TrimSpace(a.Body.String()) != "null" {
		t.Errorf("no results are %s", a.Body)
	}
	w.results[1] = json.RawMessage(`{"type":"Collection","id":"c","x":1.10}`)
	w.set(1, func(r *dispatch.Record) {
		r.Ref, r.Moved, r.Versions = dispatch.Ref{ID: "j-7"}, moment, dispatch.Versions{Software: "pygeoapi",
			Version: "0.20.0", Process: "1.2"}
	})
	a = ask(h, "GET", "/unit_jobs/1/results", "")
	decode[any](t, a, 200)
	const want = `{"id":"c","links":[{"href":"http://example.com/unit_jobs/1","rel":"processing-execution","title":"The job","type":"application/json"},` +
		`{"href":"http://example.com/unit_jobs/1/provenance","rel":"http://www.w3.org/ns/prov#has_provenance","title":"How the results came about, as PROV-JSON","type":"application/json"}],` +
		`"providers":[{"name":"cdse","processing:datetime":"2026-05-01T10:30:00Z","processing:facility":"cdse",` +
		`"processing:lineage":"Job 1 ran the process https://apps.example.org/ndvi.json on cdse, there job j-7, with pygeoapi 0.20.0.",` +
		`"processing:software":{"https://apps.example.org/ndvi.json":"1.2","pygeoapi":"0.20.0"},"roles":["processor"],"url":"https://openeo.example.org"}],` +
		`"stac_extensions":["https://stac-extensions.github.io/processing/v1.2.0/schema.json"],"type":"Collection","x":1.10}`
	if got := strings.TrimSpace(a.Body.String()); got != want || a.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("results %s, %v", a.Body, a.Header())
	}
}

func TestDelete_AtThePlatformToo(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	failed(t, ask(h, "DELETE", "/unit_jobs/1?platform=perhaps", ""), 422, "VALIDATION_ERROR")
	if decode[any](t, ask(h, "DELETE", "/unit_jobs/1?platform=true", ""), 200); w.discarded != 1 {
		t.Errorf("%d jobs were to be removed from the platform, want 1", w.discarded)
	}
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	if decode[any](t, ask(h, "DELETE", "/unit_jobs/1?platform=false", ""), 200); w.discarded != 1 {
		t.Error("platform=false removed a job from the platform")
	}
	decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
	failed(t, ask(h, "DELETE", "/upscale_tasks/1?platform=perhaps", ""), 422, "VALIDATION_ERROR")
	if decode[any](t, ask(h, "DELETE", "/upscale_tasks/1?platform=true", ""), 200); w.discarded != 2 {
		t.Error("the task was not to be removed from the platform")
	}
}

// What is another's, or cannot be, is answered as what does not exist, and only what may be is looked for.
func TestNotFound_IsOneResponse(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	decode[any](t, ask(h, "POST", "/upscale_tasks", goodTask), 201)
	impossible := []string{"0", "-1", "9223372036854775808", "-99999999999999999999999"}
	for path, row := range map[string]struct{ code, id, requests string }{
		"/unit_jobs/":     {"JOB_NOT_FOUND", "job_id", "GET,DELETE,GET/results,POST/cancel"},
		"/upscale_tasks/": {"TASK_NOT_FOUND", "task_id", "GET,DELETE,POST/retry,POST/cancel,POST/pause,POST/resume"},
	} {
		w.fail = nil
		want := ask(h, "GET", path+"77", "", "X-Correlation-ID", "same").Body.String()
		for request := range strings.SplitSeq(row.requests, ",") {
			method, below, _ := strings.Cut(request, "/")
			below = strings.TrimSuffix("/"+below, "/")
			for _, id := range append(impossible, "1", "77") {
				who := map[bool]string{true: "bert", false: "anna"}[id == "1"]
				a := ask(h, method, path+id+below, "", "Authorization", "Bearer token-"+who, "X-Correlation-ID", "same")
				if failed(t, a, 404, row.code); a.Body.String() != want {
					t.Errorf("%s %s%s: %s, want %s", request, path, id, a.Body, want)
				}
			}
			for _, bad := range []string{"x", "1.0", "1e3", "0x1", "%20", "-", "+", "1%00", "%F0%9F%92%A5"} {
				f := failed(t, ask(h, method, path+bad+below, ""), 422, "VALIDATION_ERROR")
				if d := cmp.Diff([]string{`["path","` + row.id + `"] int_parsing`}, locs(f.Detail)); d != "" {
					t.Errorf("%s %s%s: %s", request, path, bad, d)
				}
			}
		}
		w.fail = errors.New("asked for what cannot be")
		for _, id := range impossible {
			failed(t, ask(h, "GET", path+id, ""), 404, row.code)
		}
	}
}

func TestJobsStatus(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	empty := ask(h, "GET", "/jobs_status", "")
	if decode[any](t, empty,
		200); strings.TrimSpace(empty.Body.String()) != `{"upscaling_tasks":[],"processing_jobs":[]}` {
		t.Errorf("nothing is %s", empty.Body)
	}
	for range 3 {
		decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	}
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody, "Authorization", "Bearer token-bert"), 201)
	for query, want := range map[string]string{
		"": "[3 2 1]", "?filter=processing": "[3 2 1]", "?filter=upscaling": "[]", "?other=1": "[3 2 1]",
		"?filter=upscaling&filter=processing": "[3 2 1]", "?filter=processing&filter=processing": "[3 2 1]",
	} {
		a := ask(h, "GET", "/jobs_status"+query, "")
		ids := []int64{}
		for _, j := range decode[wire.JobsStatusResponse](t, a, 200).ProcessingJobs {
			ids = append(ids, j.ID)
		}
		if fmt.Sprint(ids) != want {
			t.Errorf("%s: %v, want %s", query, ids, want)
		}
		if c := a.Header().Get("Cache-Control"); c != "private, no-cache" {
			t.Errorf("Cache-Control %q", c)
		}
	}
	for query, want := range map[string][]string{
		"?filter=":                             {`["query","filter",0] enum`},
		"?filter=processing&filter=x&filter=y": {`["query","filter",1] enum`, `["query","filter",2] enum`},
		"?filter=upscaling,processing":         {`["query","filter",0] enum`},
		"?filter=Processing":                   {`["query","filter",0] enum`},
	} {
		f := failed(t, ask(h, "GET", "/jobs_status"+query, ""), 422, "VALIDATION_ERROR")
		if d := cmp.Diff(want, locs(f.Detail)); d != "" {
			t.Errorf("%s: %s", query, d)
		}
	}
}

func TestHealth(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	a := ask(h, "GET", "/health", "", "Authorization", "")
	if a.Code != 200 || a.Body.Len() != 0 {
		t.Errorf("%d %q", a.Code, a.Body)
	}
	w.down = &dispatch.Error{Kind: dispatch.Unavailable, Op: "store.Ping", Text: "dial tcp 10.1.1.1: refused"}
	a = ask(h, "GET", "/health", "", "Authorization", "")
	failed(t, a, 503, "SERVICE_UNAVAILABLE")
	if strings.Contains(a.Body.String(), "10.1.1.1") || a.Header().Get("Retry-After") == "" {
		t.Errorf("%v %s", a.Header(), a.Body)
	}
}

func TestReadDocument(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	failed(t, ask(h, "GET", "/unit_jobs/1/document", ""), 404, "DOCUMENT_NOT_FOUND")
	w.document = []byte(`{"id": "ndvi", "none":null}`)
	a := ask(h, "GET", "/unit_jobs/1/document", "")
	if a.Code != 200 || a.Body.String() != string(w.document) || a.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s", a.Code, a.Header(), a.Body)
	}
	want := `"` + (dispatch.Document{Body: w.document}).Hash() + `"`
	if etag := a.Header().Get("ETag"); len(etag) != 66 || etag != want {
		t.Errorf("ETag %s", etag)
	}
	failed(t, ask(h, "GET", "/unit_jobs/1/document", "", "Authorization", "Bearer token-bert"), 404, "JOB_NOT_FOUND")
}

func TestRequest_OptionsOfTheBroker(t *testing.T) {
	h := New(newWorld().config())
	for option, values := range map[string]map[string]string{ // to the type of the fault
		"max_duration": {"1": "", "31622400": "", "null": "", "0": "greater_than_equal", "-5": "greater_than_equal",
			"31622401": "less_than_equal", "1.5": "int_type", `"PT1H"`: "int_type", "1e99": "int_type",
			"{}": "int_type"},
		"validate": {"true": "", "false": "", "null": "", `"no"`: "bool_type", "0": "bool_type", "[]": "bool_type",
			"{}": "bool_type"},
	} {
		for value, kind := range values {
			for path, body := range map[string]string{"/unit_jobs": goodBody, "/upscale_tasks": goodTask} {
				a := ask(h, "POST", path, withMembers(body, `"options":{"driver-memory":"4g","`+option+`":`+value+`}`))
				if kind == "" {
					decode[any](t, a, 201)
					continue
				}
				if got := locs(failed(t, a, 422, "VALIDATION_ERROR").Detail); len(got) != 1 ||
					got[0] != `["body","options","`+option+`"] `+kind {
					t.Errorf("%s with %s %s: %v", path, option, value, got)
				}
			}
		}
	}
}

// What the broker itself says of a job is not put into the platform's mouth.
func TestAttention_QuotesOnlyPlatforms(t *testing.T) {
	w := newWorld()
	h := New(w.config())
	defer h.Close()
	decode[any](t, ask(h, "POST", "/unit_jobs", goodBody), 201)
	for why, notice := range map[dispatch.Attention]string{
		dispatch.NeedsOperator: dispatch.RestoredNotice,
		dispatch.NoPlatform:    "The platform of this job is not configured any more.",
	} {
		w.set(1, func(r *dispatch.Record) { r.Attention, r.Notice = why, notice })
		got := decode[wire.ProcessingJob](t, ask(h, "GET", "/unit_jobs/1", ""), 200).Attention
		if got == nil || got.Code != string(why) || strings.Contains(got.Message, "The platform says") ||
			strings.Contains(got.Message, "credentials") {
			t.Errorf("%s: %+v", why, got)
		}
	}
}
