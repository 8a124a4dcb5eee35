package openeo_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/openeo"
)

func TestSubmit(t *testing.T) {
	b := newBackend(t)
	p := b.platform()
	s := b.submission()
	s.Options = json.RawMessage(`{"driver-memory":"4g","plan":"free","log_level":"debug"}`)
	step, err := p.Submit(t.Context(), token, s)
	if err != nil || step.Ref != job1 || step.Started {
		t.Fatalf("got %+v, %v", step, err)
	}
	got := b.body("POST /jobs")
	wantJSON(t, got,
		`{"title":"Field 12 [inst.7.1]","job_options":{"driver-memory":"4g"},"plan":"free","log_level":"debug",
		"process":{"process_graph":{
			"run":{"process_id":"ndvi","namespace":"`+b.URL+
			`/udp.json","arguments":{"extent":{"west":1.10,"south":12345678901234567890},"note":"a<b & ü","none":null}},
			"save":{"process_id":"save_result","arguments":{"data":{"from_node":"run"},"format":"GTiff"},"result":true}}}}`)
	for _, exact := range []string{`1.10`, `12345678901234567890`, `a<b & ü`} {
		if !strings.Contains(got, exact) {
			t.Errorf("%s has changed on its way: %s", exact, got)
		}
	}
	b.takeCalls()
	s.Ref = step.Ref
	if step, err = p.Submit(t.Context(), token, s); err != nil || !step.Started || step.Ref != job1 {
		t.Fatalf("start: got %+v, %v", step, err)
	}
	s.Ref = dispatch.Ref{}
	if _, err = p.Submit(t.Context(), token, s); err != nil {
		t.Fatal(err)
	}
	b.wantCalls("POST /jobs/j-1/results", "POST /jobs") // two requests for a job when everything else is cached
	if a := b.authorization("GET /udp.json"); a != "" {
		t.Errorf("the definition was fetched with %q", a)
	}
}

// What the back-end tells of itself is noted with the job. A version of the wrong type is not known, and no reason to
// refuse the back-end.
func TestSubmit_NotesTheVersions(t *testing.T) {
	for version, want := range map[string]dispatch.Versions{`"0.31.0"`: {Version: "0.31.0", API: "1.2.0"},
		`7`: {API: "1.2.0"}, `"<b>1</b>\n2"`: {Version: "1 2", API: "1.2.0"}} {
		b := newBackend(t)
		b.json("GET /", 200, `{"api_version":"1.2.0","backend_version":`+version+`,"conformsTo":[`+classes+
			`],"endpoints":[{"path":"/jobs","methods":["GET","POST"]}]}`)
		s := b.submission()
		document, err := b.platform().Document(t.Context(), s.Service)
		if err != nil {
			t.Fatal(err)
		}
		want.Definition = dispatch.Document{Body: document}.Hash() // as the broker knows it now
		if got, err := b.platform().Submit(t.Context(), token, s); err != nil || got.Versions != want {
			t.Errorf("%s: %+v, %v", version, got.Versions, err)
		}
		s.Definition, want.Definition = []byte(keptDefinition), "" // the job is pinned to it
		if got, err := b.platform().Submit(t.Context(), token, s); err != nil || got.Versions != want {
			t.Errorf("pinned, %s: %+v, %v", version, got.Versions, err)
		}
	}
}

func TestSubmit_WithoutBatchJobs(t *testing.T) {
	b := newBackend(t)
	b.json("GET /", 200, `{"api_version":"1.2.0","endpoints":[{"path":"/result","methods":["POST"]}]}`)
	_, err := b.platform().Submit(t.Context(), token, b.submission())
	wantKind(t, err, dispatch.Unsupported)
}

func TestSubmit_CreatedIdentifier(t *testing.T) {
	cases := []struct {
		name, id, location, body, want string
	}{
		{"both", "a.b-c~d_9", "https://h.example/openeo/1.2/jobs/other", "", "a.b-c~d_9"},
		{"Location alone", "", "https://h.example/openeo/1.2/jobs/j7", "", "j7"},
		{"relative Location", "", "/openeo/1.2/jobs/j7", "", "j7"},
		{"bare Location", "", "jobs/j7/", "", ""},
		{"Location with a slash", "", "/jobs/j7/", "", "j7"},
		{"Location with a query", "", "/jobs/j7?x=1", "", "j7"},
		{"Location at another host", "", "https://evil.example/jobs/j7", "", "j7"},
		{"body alone", "", "", `{"id":"j7","status":"created"}`, "j7"},
		{"nothing", "", "", "", ""},
		{"path in the identifier", "../me", "", "", ""},
		{"query in the identifier", "j7?x", "/jobs/j8", "", "j8"},
		{"dots", "..", "/jobs/..", "", ""},
		{"escaped slash", "", "/jobs/a%2fb", "", ""},
		{"collection", "", "/openeo/1.2/jobs", "", ""},
		{"cut off", "j7", "", "cut", "j7"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t)
			b.on("POST /jobs", func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range map[string]string{"OpenEO-Identifier": c.id, "Location": c.location} {
					if value != "" {
						w.Header().Set(name, value)
					}
				}
				if c.body == "cut" {
					w.Header().Set("Content-Length", "100")
				}
				w.WriteHeader(201)
				_, _ = io.WriteString(w, c.body)
			})
			step, err := b.platform().Submit(t.Context(), token, b.submission())
			if c.want == "" {
				wantKind(t, err, dispatch.Uncertain)
			} else if err != nil || step.Ref != (dispatch.Ref{ID: c.want}) {
				t.Errorf("got %+v, %v", step, err)
			}
		})
	}
}

// errorCodes are the cases of TestErrorCodes.
var errorCodes = []struct {
	status int
	code   string
	want   dispatch.Kind
}{
	{401, "AuthenticationRequired", dispatch.SignInRequired},
	{403, "AuthenticationSchemeInvalid", dispatch.Misconfigured},
	{403, "TokenInvalid", dispatch.SignInRequired},
	{403, "CredentialsInvalid", dispatch.SignInRequired},
	{403, "PermissionsInsufficient", dispatch.Forbidden},
	{403, "", dispatch.Forbidden},
	{401, "InvalidRequest", dispatch.SignInRequired},
	{402, "PaymentRequired", dispatch.Forbidden},
	{402, "", dispatch.Forbidden},
	{400, "BudgetInvalid", dispatch.Invalid},
	{400, "BillingPlanInvalid", dispatch.Invalid},
	{400, "BillingPlanMissing", dispatch.Invalid},
	{400, "ProcessInvalid", dispatch.Invalid},
	{400, "ProcessGraphMissing", dispatch.Invalid},
	{400, "ProcessGraphInvalid", dispatch.Invalid},
	{400, "ProcessGraphComplexity", dispatch.Invalid},
	{400, "ProcessUnsupported", dispatch.Invalid},
	{400, "ProcessParameterUnsupported", dispatch.Invalid},
	{400, "ProcessParameterInvalid", dispatch.Invalid},
	{400, "ProcessParameterRequired", dispatch.Invalid},
	{400, "ProcessNamespaceInvalid", dispatch.Invalid},
	{400, "ProcessIdMismatch", dispatch.Invalid},
	{400, "JobLocked", dispatch.Conflict},
	{400, "JobNotFinished", dispatch.Conflict},
	{400, "JobNotStarted", dispatch.Conflict},
	{400, "StorageQuotaExceeded", dispatch.Forbidden},
	{400, "ConcurrentJobLimit", dispatch.Busy},
	{400, "Internal", dispatch.Invalid},
	{404, "JobNotFound", dispatch.NotFound},
	{404, "NotFound", dispatch.NotFound},
	{404, "ProcessGraphNotFound", dispatch.Invalid},
	{404, "UnsupportedApiVersion", dispatch.Misconfigured},
	{408, "RequestTimeout", dispatch.Uncertain},
	{410, "ResultLinkExpired", dispatch.NotFound},
	{429, "", dispatch.Busy},
	{500, "Internal", dispatch.Uncertain},
	{500, "StorageFailure", dispatch.Uncertain},
	{500, "OidcSupportError", dispatch.Misconfigured},
	{501, "FeatureUnsupported", dispatch.Unsupported},
	{502, "", dispatch.Uncertain},
	{503, "InfrastructureMaintenance", dispatch.Busy},
	{503, "InfrastructureBusy", dispatch.Busy},
	{503, "", dispatch.Uncertain},
	{504, "", dispatch.Uncertain},
}

// codes of https://api.openeo.org/draft/errors.json, and unofficial ones, that matter to a broker.
func TestErrorCodes(t *testing.T) {
	cases := errorCodes
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d %s", c.status, c.code), func(t *testing.T) {
			b := newBackend(t)
			b.json("POST /jobs", c.status, fmt.Sprintf(`{"id":"r-1","code":%q,"message":"Too <b>many</b>"}`, c.code))
			step, err := b.platform().Submit(t.Context(), token, b.submission())
			e := wantKind(t, err, c.want)
			if e.Text != "Too many" || step.Ref != (dispatch.Ref{}) {
				t.Errorf("got text %q, step %+v", e.Text, step)
			}
		})
	}
}

// Proxies answer in HTML, and their 404 is not about a job.
func TestSubmit_ProxyPages(t *testing.T) {
	for status, want := range map[int]dispatch.Kind{404: dispatch.Unavailable, 502: dispatch.Unavailable,
		200: dispatch.BadUpstream} {
		b := newBackend(t)
		b.on("GET /jobs/j-1", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html><h1>nginx</h1></html>")
		})
		_, err := b.platform().Status(t.Context(), token, job1)
		if e := wantKind(t, err, want); strings.Contains(e.Text, "<") {
			t.Errorf("got text %q", e.Text)
		}
	}
}

func TestStart(t *testing.T) {
	cases := []struct {
		name    string
		status  int
		body    string
		started bool
		kind    dispatch.Kind
	}{
		{"accepted", 202, "", true, 0},
		{"ok", 200, "", true, 0},
		{"locked, so it is queued or runs", 400, `{"code":"JobLocked","message":"locked"}`, true, 0},
		{"limit of jobs", 400,
			`{"code":"ConcurrentJobLimit","message":"Job was not started because concurrent job limit (2) is reached."}`, false,
			dispatch.Busy},
		{"started nonetheless, perhaps", 500, `{"code":"Internal","message":"boom"}`, false, dispatch.Uncertain},
		{"bad gateway", 502, `<html>`, false, dispatch.Uncertain},
		{"a firewall's page", 200, "\n<html><title>Request Rejected</title>", false, dispatch.Uncertain},
		{"vanished", 404, `{"code":"JobNotFound","message":"gone"}`, false, dispatch.NotFound},
		{"token expired", 403, `{"code":"TokenInvalid","message":"expired"}`, false, dispatch.SignInRequired},
		{"no credits", 402, `{"code":"PaymentRequired","message":"pay"}`, false, dispatch.Forbidden},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t)
			b.json("POST /jobs/j-1/results", c.status, c.body)
			step, err := b.platform().Submit(t.Context(), token, dispatch.Submission{Ref: job1})
			if step.Ref != job1 || step.Started != c.started {
				t.Errorf("got %+v", step)
			}
			if c.started && err != nil {
				t.Error(err)
			}
			if !c.started {
				wantKind(t, err, c.kind)
			}
		})
	}
}

func TestStart_CutOff(t *testing.T) {
	b := newBackend(t)
	b.on("POST /jobs/j-1/results", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	step, err := b.platform().Submit(t.Context(), token, dispatch.Submission{Ref: job1})
	wantKind(t, err, dispatch.Uncertain)
	if step.Ref != job1 || step.Started {
		t.Errorf("got %+v", step)
	}
}

func TestStatus_IdentifiersAreNotPaths(t *testing.T) {
	b := newBackend(t)
	p := b.platform()
	for _, id := range []string{"", ".", "..", "../me", "a/b", "a%2fb", "a?b", "a#b", "a@b", "a b"} {
		ref := dispatch.Ref{ID: id}
		_, err := p.Status(t.Context(), token, ref)
		wantKind(t, err, dispatch.NotFound)
		_, err = p.Results(t.Context(), token, ref)
		wantKind(t, err, dispatch.NotFound)
		_, err = p.Logs(t.Context(), token, ref)
		wantKind(t, err, dispatch.NotFound)
		wantKind(t, p.Cancel(t.Context(), token, ref), dispatch.NotFound)
		if id != "" {
			_, err = p.Submit(t.Context(), token, dispatch.Submission{Ref: ref})
			wantKind(t, err, dispatch.NotFound)
		}
	}
	b.wantCalls()
}

func TestStatusWords(t *testing.T) {
	cases := []struct {
		body     string
		want     dispatch.Status
		progress float64 // -1: none
	}{
		{`{"id":"j-1","status":"created","progress":0}`, dispatch.Accepted, 0},
		{`{"id":"j-1","status":"queued"}`, dispatch.Queued, -1},
		{`{"id":"j-1","status":"running","progress":37.5}`, dispatch.Running, 37.5},
		{`{"id":"j-1","status":"RUNNING","progress":101}`, dispatch.Running, 100},
		{`{"id":"j-1","status":"running","progress":"50%"}`, dispatch.Running, -1},
		{`{"id":"j-1","status":"finished","progress":100,"costs":2.5}`, dispatch.Finished, 100},
		{`{"id":"j-1","status":"canceled","progress":null}`, dispatch.Canceled, -1},
		{`{"id":"j-1","status":"error"}`, dispatch.Failed, -1},
		{`{"id":"j-1","status":"queued_for_start"}`, dispatch.Unknown, -1},
		{`{"id":"j-1","status":7}`, dispatch.Unknown, -1},
		{`{"id":"j-1"}`, dispatch.Unknown, -1},
	}
	for _, c := range cases {
		b := newBackend(t)
		b.json("GET /jobs/j-1", 200, c.body)
		r, err := b.platform().Status(t.Context(), token, job1)
		if err != nil || r.Status != c.want {
			t.Errorf("%s: got %+v, %v", c.body, r, err)
		}
		if c.progress < 0 && r.Progress != nil || c.progress >= 0 && (r.Progress == nil || *r.Progress != c.progress) {
			t.Errorf("%s: got progress %v", c.body, r.Progress)
		}
		if c.want == dispatch.Finished && (r.Costs == nil || *r.Costs != 2.5) {
			t.Errorf("got costs %v", r.Costs)
		}
	}
}

// TestStatus_Times: the end of a job is the last change of its status; since version 1.3 back-ends say when it started.
func TestStatus_Times(t *testing.T) {
	start, end := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC)
	for job, want := range map[string]dispatch.Report{
		`"started":"2026-03-01T12:00:00Z","updated":"2026-03-01T13:00:00Z"`: {Started: start, Ended: end},
		`"updated":"2026-03-01T13:00:00Z"`:                                  {Ended: end},
		`"started":7,"updated":"soon"`:                                      {},
	} {
		b := newBackend(t)
		b.json("GET /jobs/j-1", 200, `{"id":"j-1","status":"finished",`+job+`}`)
		if r, err := b.platform().Status(t.Context(), token, job1); err != nil || !r.Started.Equal(want.Started) ||
			!r.Ended.Equal(want.Ended) {
			t.Errorf("%s: %+v, %v", job, r, err)
		}
	}
}

func TestDuration(t *testing.T) {
	for usage, want := range map[string]time.Duration{
		`{"duration":{"value":2700,"unit":"seconds"}}`:     45 * time.Minute,
		`{"duration":{"value":1.5,"unit":"Hours"}}`:        90 * time.Minute,
		`{"cpu":{"value":9,"unit":"cpu-seconds"}}`:         0,
		`{"duration":{"value":2700,"unit":"cpu-seconds"}}`: 0,
		`{"duration":{"value":-1,"unit":"s"}}`:             0,
		`{"duration":{"value":1e300,"unit":"s"}}`:          0,
		`{"duration":{"value":"1","unit":"s"}}`:            0,
		`{"duration":[]}`:                                  0, `[]`: 0, `null`: 0,
	} {
		b := newBackend(t)
		b.json("GET /jobs/j-1", 200, `{"id":"j-1","status":"finished","usage":`+usage+`}`)
		if r, err := b.platform().Status(t.Context(), token, job1); err != nil || r.Duration != want {
			t.Errorf("%s: %v, not %v, %v", usage, r.Duration, want, err)
		}
	}
}

// TestStatus_ExplainsFailures: the cause of a failure is in the log. Only where the log gives none are the results
// requested.
func TestStatus_ExplainsFailures(t *testing.T) {
	b := newBackend(t)
	b.json("GET /jobs/j-1", 200, `{"id":"j-1","status":"error"}`)
	p := b.platform()
	if r, err := p.Status(t.Context(), token, job1); err != nil || r.Status != dispatch.Failed || r.Message != "" {
		t.Errorf("without logs: got %+v, %v", r, err)
	}
	b.json("GET /jobs/j-1/results", 424, `{"id":"r","code":"ProcessFailed","message":"out of memory"}`)
	if r, err := p.Status(t.Context(), token, job1); err != nil || r.Message != "out of memory" {
		t.Errorf("without logs, but with a verdict: got %+v, %v", r, err)
	}
	b.json("GET /jobs/j-1/logs", 200, `{"level":"error","logs":[{"id":"1","level":"info","message":"loading"},
		{"id":"2","level":"error","message":"first"},{"id":"3","level":"error","message":"No <i>data</i>\n found"},{"id":"4","level":"error","message":"No <i>data</i>\n found"},{"id":5,"level":"ERROR"}],"links":[]}`)
	b.takeCalls()
	if r, err := p.Status(t.Context(), token, job1); err != nil || r.Message != "first No data found" {
		t.Errorf("got %+v, %v", r, err)
	}
	if calls := b.takeCalls(); slices.Contains(calls, "GET /jobs/j-1/results") {
		t.Errorf("the log gives the cause, but the results were requested as well: %v", calls)
	}
}

func list(t *testing.T, p *openeo.Platform) (jobs []dispatch.Listed, err error) {
	t.Helper()
	for j, e := range p.List(t.Context(), token, "") {
		if e != nil {
			return jobs, e
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func TestList(t *testing.T) {
	b := newBackend(t)
	b.on("GET /jobs", func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case q.Get("after") == "2":
			_, _ = io.WriteString(w, `{"jobs":[{"id":"c","status":"error"}],"links":[{"rel":"prev","href":"x"}]}`)
		case q.Get("after") == "1": // a page without jobs is not the end
			_, _ = io.WriteString(w, `{"jobs":[],"links":[{"rel":"next","href":"/openeo/1.2/jobs?after=2"}]}`)
		default:
			_, _ = io.WriteString(w,
				`{"jobs":[{"id":"a","title":"T [inst.7.1]","status":"running","created":"2026-01-02T03:04:05Z","progress":5},
				{"id":"b","title":null,"status":"created","created":"?"}],"links":[{"rel":"next","href":"`+b.URL+
					`/openeo/1.2/jobs?after=1"}]}`)
		}
	})
	jobs, err := list(t, b.platform())
	if err != nil || len(jobs) != 3 {
		t.Fatalf("got %+v, %v", jobs, err)
	}
	a := jobs[0]
	if a.Ref.ID != "a" || a.Tag != "inst.7.1" || !a.Created.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) ||
		a.Report.Status != dispatch.Running || *a.Report.Progress != 5 {
		t.Errorf("got %+v", a)
	}
	if jobs[1].Tag != "" || !jobs[1].Created.IsZero() || jobs[2].Report.Status != dispatch.Failed {
		t.Errorf("got %+v", jobs[1:])
	}
	b.takeCalls()
	for range b.platform(func(c *openeo.Config) { c.Endpoint = b.URL + "/openeo/1.2" }).List(t.Context(), token, "") {
		break // a reader that stops early requests one page
	}
	if calls := b.takeCalls(); len(calls) == 0 || slices.Index(calls, "GET /jobs") != len(calls)-1 {
		t.Errorf("got calls %q", calls)
	}
}

func TestList_Incomplete(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want dispatch.Kind
	}{
		"a loop": {`{"jobs":[],"links":[{"rel":"next","href":"jobs?limit=1000"}]}`, dispatch.BadUpstream},
		"another origin": {`{"jobs":[],"links":[{"rel":"next","href":"https://elsewhere.example/jobs"}]}`,
			dispatch.BadUpstream},
		"part of a federation": {`{"jobs":[{"id":"a"}],"links":[],"federation:missing":["b4"]}`,
			dispatch.Unavailable},
		"a list of another kind": {`[]`, dispatch.BadUpstream},
	} {
		b := newBackend(t)
		b.json("GET /jobs", 200, c.body)
		_, err := list(t, b.platform())
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		wantKind(t, err, c.want)
	}
	endless := newBackend(t)
	n := 0
	endless.on("GET /jobs", func(w http.ResponseWriter, _ *http.Request) {
		n++
		_, _ = fmt.Fprintf(w, `{"jobs":[],"links":[{"rel":"next","href":"jobs?page=%d"}]}`, n)
	})
	_, err := list(t, endless.platform())
	wantKind(t, err, dispatch.BadUpstream)
}

func TestCancel(t *testing.T) {
	const status, stop, remove = "GET /jobs/j-1", "DELETE /jobs/j-1/results", "DELETE /jobs/j-1"
	cases := []struct {
		status string
		calls  []string
	}{
		{"created", []string{status, remove}},
		{"queued", []string{status, stop}},
		{"running", []string{status, stop}},
		{"paused", []string{status, stop}},
		{"finished", []string{status}},
		{"canceled", []string{status}},
		{"error", []string{status}},
	}
	for _, c := range cases {
		t.Run(c.status, func(t *testing.T) {
			b := newBackend(t)
			b.json(status, 200, `{"id":"j-1","status":"`+c.status+`"}`)
			b.json(stop, 204, "")
			b.json(remove, 204, "")
			p := b.platform()
			if err := p.Probe(t.Context(), dispatch.Token{}); err != nil {
				t.Fatal(err)
			}
			b.takeCalls()
			if err := p.Cancel(t.Context(), token, job1); err != nil {
				t.Error(err)
			}
			b.wantCalls(c.calls...)
		})
	}
}

// TestCancel_PageInstead: firewalls and sign-in pages come with a status of success.
func TestCancel_PageInstead(t *testing.T) {
	b := newBackend(t)
	b.json("GET /jobs/j-1", 200, `{"id":"j-1","status":"running"}`)
	for _, route := range []string{"DELETE /jobs/j-1/results", "DELETE /jobs/j-1"} {
		b.json(route, 200, "<html><title>Request Rejected</title>")
	}
	wantKind(t, b.platform().Cancel(t.Context(), token, job1), dispatch.Uncertain)
	wantKind(t, b.platform().Remove(t.Context(), token, job1), dispatch.Uncertain)
}

// By the specification a canceled job without results returns to created. Canceling it again removes it, so that it is
// gone.
func TestCancel_Repeated(t *testing.T) {
	b := newBackend(t)
	status := "queued"
	b.on("GET /jobs/j-1", func(w http.ResponseWriter, _ *http.Request) {
		if status == "" {
			w.WriteHeader(404)
			_, _ = io.WriteString(w, `{"code":"JobNotFound","message":"gone"}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"id":"j-1","status":%q}`, status)
	})
	b.on("DELETE /jobs/j-1/results", func(w http.ResponseWriter, _ *http.Request) {
		status = "created"
		w.WriteHeader(204)
	})
	b.on("DELETE /jobs/j-1", func(w http.ResponseWriter, _ *http.Request) { status = ""; w.WriteHeader(204) })
	p := b.platform()
	for _, want := range []string{"created", "", ""} {
		if err := p.Cancel(t.Context(), token, job1); err != nil || status != want {
			t.Errorf("got status %q, %v; want %q", status, err, want)
		}
	}
	b.json("GET /jobs/j-1", 200, `{"id":"j-1","status":"running"}`)
	b.json("DELETE /jobs/j-1/results", 501, `{"code":"FeatureUnsupported","message":"no"}`)
	wantKind(t, p.Cancel(t.Context(), token, job1), dispatch.Unsupported)
	b.json("DELETE /jobs/j-1/results", 404, `{"code":"JobNotFound","message":"gone meanwhile"}`)
	if err := p.Cancel(t.Context(), token, job1); err != nil {
		t.Error(err)
	}
}

// entries returns log entries from the id on.
func entries(from, n int) string {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf(
			`{"id":"%d","level":"info","message":"line %d","time":"2026-01-02T03:04:05Z"}`, from+i, from+i))
	}
	return strings.Join(lines, ",")
}

func TestLogs(t *testing.T) {
	cases := map[string]struct {
		serve func(r *http.Request) string
		want  int
	}{
		"one page": {func(*http.Request) string { return `{"logs":[` + entries(0, 3) + `],"links":[]}` }, 3},
		"by offset": {func(r *http.Request) string {
			if r.URL.Query().Get("offset") == "999" {
				return `{"logs":[` + entries(1000, 5) + `]}`
			}
			return `{"logs":[` + entries(0, 1000) + `]}`
		}, 1005},
		"offset is ignored": {func(*http.Request) string { return `{"logs":[` + entries(0, 1000) + `]}` }, 1000},
		"limit is ignored": {func(r *http.Request) string {
			if r.URL.Query().Get("offset") != "" {
				return `{"logs":[]}`
			}
			return `{"logs":[` + entries(0, 3000) + `]}`
		}, 3000},
		"by links": {func(r *http.Request) string {
			if r.URL.Query().Get("offset") == "1" {
				return `{"logs":[` + entries(2, 2) + `],"links":[]}`
			}
			return `{"logs":[` + entries(0, 2) + `],"links":[{"rel":"next","href":"logs?offset=1"}]}`
		}, 4},
		"ids are missing": {func(*http.Request) string {
			return `{"logs":[{"message":"a"},{"message":"b","level":7}]}`
		}, 2},
		"endless": {func(r *http.Request) string {
			from := 0
			_, _ = fmt.Sscan(r.URL.Query().Get("offset"), &from)
			return `{"logs":[` + entries(from+1, 1000) + `]}`
		}, 20000},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.on("GET /jobs/j-1/logs", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, c.serve(r))
			})
			logs, err := b.platform().Logs(t.Context(), token, job1)
			if err != nil || len(logs) != c.want {
				t.Fatalf("got %d entries, %v; want %d", len(logs), err, c.want)
			}
			if name == "one page" && (logs[1].Message != "line 1" || logs[1].Level != "info" || logs[1].Time.IsZero()) {
				t.Errorf("got %+v", logs[1])
			}
		})
	}
	b := newBackend(t)
	b.json("GET /jobs/j-1/logs", 404, `{"code":"JobNotFound","message":"gone"}`)
	_, err := b.platform().Logs(t.Context(), token, job1)
	wantKind(t, err, dispatch.NotFound)
}

func TestSync(t *testing.T) {
	b := newBackend(t)
	b.on("POST /result", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/tiff; application=geotiff")
		w.Header().Set("OpenEO-Costs", "6.5")
		_, _ = io.WriteString(w, "II*\x00")
	})
	p := b.platform()
	r, err := p.RunSync(t.Context(), token, b.submission())
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r.Body)
	if err != nil || string(data) != "II*\x00" || r.Costs == nil || *r.Costs != 6.5 ||
		r.ContentType != "image/tiff; application=geotiff" {
		t.Errorf("got %q of %q, %v", data, r.ContentType, err)
	}
	if err := r.Body.Close(); err != nil {
		t.Error(err)
	}
	if body := b.body("POST /result"); strings.Contains(body, "title") || !strings.Contains(body, "save_result") {
		t.Errorf("got %s", body)
	}
	for status, want := range map[string]dispatch.Kind{"ProcessGraphComplexity": dispatch.Invalid,
		"TokenInvalid": dispatch.SignInRequired} {
		b.json("POST /result", 400, `{"code":"`+status+`","message":"no"}`)
		_, err = p.RunSync(t.Context(), token, b.submission())
		wantKind(t, err, want)
	}
	b.json("POST /result", 500, `{"code":"Internal","message":"no such process"}`)
	_, err = p.RunSync(t.Context(), token, b.submission())
	wantKind(t, err, dispatch.Uncertain)
}

// A run that takes too long, whoever says so, differs from one that fails.
func TestSync_TooLong(t *testing.T) {
	b := newBackend(t)
	for _, c := range []struct {
		status int
		body   string
		want   bool
	}{{400, `{"code":"ProcessGraphComplexity","message":"no"}`, true}, {408, `{"code":"RequestTimeout"}`, true},
		{500, `{"code":"RequestTimeout"}`, true}, {504, `<html>Gateway Time-out</html>`, true},
		{400, `{"code":"ProcessGraphInvalid"}`, false}, {500, `{"code":"Internal"}`, false}, {502, `bad`, false}} {
		b.json("POST /result", c.status, c.body)
		_, err := b.platform().RunSync(t.Context(), token, b.submission())
		if err == nil || errors.Is(err, dispatch.ErrTooLong) != c.want {
			t.Errorf("%d %s: %v", c.status, c.body, err)
		}
	}
}

// A platform that lists no synchronous runs gets no request for one, and its jobs can be used.
func TestSync_NotOffered(t *testing.T) {
	b := newBackend(t)
	b.json("GET /", 200, `{"api_version":"1.2.0","endpoints":[{"path":"/jobs","methods":["POST"]}]}`)
	b.on("POST /result", func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	_, err := b.platform().RunSync(t.Context(), token, b.submission())
	wantKind(t, err, dispatch.Unsupported)
}
