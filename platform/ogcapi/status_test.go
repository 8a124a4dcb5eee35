package ogcapi

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/dispatch"
)

func TestStatusWords(t *testing.T) {
	for want, words := range map[dispatch.Status][]string{
		dispatch.Accepted: {"created"},
		dispatch.Queued:   {"accepted", "ACCEPTED", "ProcessAccepted", "queued", "pending"},
		dispatch.Running: {"running", "Running", "started", "Started", "ProcessStarted", "Paused", "ProcessPaused",
			"processing"},
		dispatch.Finished: {"successful", "succeeded", "Succeeded", "ProcessSucceeded", "finished"},
		dispatch.Failed:   {"failed", "FAILED", "ProcessFailed", "error"},
		dispatch.Canceled: {"dismissed", "Dismissed", "canceled", "cancelled"},
		dispatch.Unknown:  {"", "process", "reticulating", "successful-ish"},
	} {
		for _, word := range words {
			if got := parseStatus(word); got != want {
				t.Errorf("%q: got %q, want %q", word, got, want)
			}
		}
	}
}

func TestStatus_Info(t *testing.T) {
	fifty, hundred, none := 50.0, 100.0, 0.0
	for _, c := range []struct {
		raw, id string
		report  dispatch.Report
	}{
		{`{"jobID":"a","processID":"p","type":"process","status":"running","progress":50,"message":"half"}`, "a",
			dispatch.Report{Status: dispatch.Running, Progress: &fifty, Message: "half"}},
		{`{"id":"a","processID":"https://x/api/processes/p","status":"successful"}`, "a",
			dispatch.Report{Status: dispatch.Finished}},
		{`{"id":"a","jobID":"b","status":"Started","percentCompleted":"50%"}`, "b",
			dispatch.Report{Status: dispatch.Running, Progress: &fifty}},
		{`{"job_id":7,"status":"accepted","progress":-3,"message":null}`, "7",
			dispatch.Report{Status: dispatch.Queued,
				Progress: &none}},
		{`{"jobID":"..","id":"a","status":"running","progress":1e9}`, "a", dispatch.Report{Status: dispatch.Running,
			Progress: &hundred}},
		{
			`{"id":"a","status":"failed","message":"Failed","exception":{"type":"x","title":"T","detail":"No <b>scene</b>\nthere"}}`, "a",
			dispatch.Report{Status: dispatch.Failed, Message: "No scene there"}},
		{`{"id":"a","status":"failed","message":"Failed","exception":"x"}`, "a",
			dispatch.Report{Status: dispatch.Failed, Message: "x"}},
		{`{"id":"a","status":"failed","message":"Failed","exception":[1,{"type":"x"}]}`, "a",
			dispatch.Report{Status: dispatch.Failed, Message: "Failed"}},
		{`{"id":"a","status":"failed","message":"Job failed.","exceptions":[{"Code":"RuntimeError","Locator":"run",
			"Text":"No scene"},{"Code":"NoApplicableCode"}]}`,
			"a", dispatch.Report{Status: dispatch.Failed, Message: "No scene"}},
		{`{"id":"a","status":"failed","message":"Job failed.","exceptions":["first","No scene"]}`, "a",
			dispatch.Report{Status: dispatch.Failed, Message: "No scene"}},
		{`{"id":{},"status":3,"progress":{},"message":[]}`, "", dispatch.Report{Status: dispatch.Unknown}},
	} {
		info := parseStatusInfo([]byte(c.raw))
		got := info.report()
		if info.id() != c.id || got.Status != c.report.Status ||
			got.Message != c.report.Message {
			t.Errorf("%s: got %q, %+v", c.raw, info.id(), got)
		}
		if (got.Progress == nil) != (c.report.Progress == nil) ||
			got.Progress != nil && *got.Progress != *c.report.Progress {
			t.Errorf("%s: progress is %v", c.raw, got.Progress)
		}
	}
}

// TestReport_Times: servers have their own spellings of times, and some have none.
func TestReport_Times(t *testing.T) {
	s := parseStatusInfo([]byte(`{"jobID":"a","status":"successful","started":"2026-03-01T12:00:00.5Z",
		"finished":"2026-03-01 13:30:00"}`))
	r := s.report()
	if !r.Started.Equal(time.Date(2026, 3, 1, 12, 0, 0, 5e8, time.UTC)) ||
		!r.Ended.Equal(time.Date(2026, 3, 1, 13, 30, 0, 0, time.UTC)) {
		t.Errorf("started %v, ended %v", r.Started, r.Ended)
	}
	s = parseStatusInfo([]byte(`{"jobID":"a","status":"successful","started":7}`))
	if !s.report().Started.IsZero() || !s.report().Ended.IsZero() {
		t.Errorf("%+v", s.report())
	}
}

func TestDuration(t *testing.T) {
	for times, want := range map[string]time.Duration{
		`"started":"2026-03-01T12:00:00Z","finished":"2026-03-01T13:30:00+01:00"`: 30 * time.Minute,
		`"started":"2026-03-01T12:00:00Z"`:                                        0,
		`"finished":"2026-03-01T12:00:00Z"`:                                       0,
		`"started":"2026-03-01T12:00:01Z","finished":"2026-03-01T12:00:00Z"`:      0,
		`"started":null,"finished":7`:                                             0,
	} {
		s := parseStatusInfo([]byte(`{"jobID":"a","status":"successful",` + times + `}`))
		if got := s.report().Duration; got != want {
			t.Errorf("%s: %v, not %v", times, got, want)
		}
	}
}

func TestStatus_TimesOfServers(t *testing.T) {
	want := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, s := range []string{"2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000000Z", "2026-03-01T14:00:00+02:00",
		"2026-03-01T12:00:00", "2026-03-01 12:00:00"} {
		info := statusInfo{"created": marshal(s)}
		if got := info.time("created"); !got.Equal(want) {
			t.Errorf("%s: %v", s, got)
		}
	}
	if got := (statusInfo{"created": marshal("yesterday")}).time("created"); !got.IsZero() {
		t.Error(got)
	}
}

func FuzzStatusInfo(f *testing.F) {
	f.Add([]byte(`{"jobID":"a","status":"running","progress":5,"exception":{"detail":"x"}}`))
	f.Add([]byte(`{"id":1e999,"status":"ProcessSucceeded","progress":"NaN"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		info := parseStatusInfo(raw)
		r := info.report()
		if r.Status == "" || !utf8.ValidString(r.Message) || len([]rune(r.Message)) > 500 {
			t.Fatalf("%+v", r)
		}
		if r.Progress != nil && !(*r.Progress >= 0 && *r.Progress <= 100) {
			t.Fatalf("progress %v", *r.Progress)
		}
		if id := info.id(); id != "" && !isJobID(id) {
			t.Fatalf("id %q", id)
		}
		info.time("created")
	})
}

func TestStatus(t *testing.T) {
	s := serve(t, map[string][]reply{
		"GET /jobs/a":   {ok(`{"jobID":"a","status":"running","progress":5}`)},
		"GET /jobs/bad": {ok(`{"jobID":"bad","status":"failed"}`)},
		"GET /jobs/bad/results": {{500, "Content-Type: application/problem+json",
			`{"type":"x","title":"T","detail":"No scene found"}`}},
		"GET /jobs/list":         {ok(`{"jobID":"list","status":"failed"}`)},
		"GET /jobs/list/results": {{400, "Content-Type: application/json", `[{"Code":"x","Text":"No list"}]`}},
		"GET /jobs/text":         {ok(`{"jobID":"text","status":"failed"}`)},
		"GET /jobs/text/results": {{200, "Content-Type: text/plain; charset=utf-8", "No text"}},
		"GET /jobs/gone": {{404, "Content-Type: application/json",
			`{"code":"InvalidParameterValue","type":"InvalidParameterValue","description":"gone"}`}},
		"GET /jobs/html":    {{200, "Content-Type: text/html", "<html>"}},
		"GET /jobs/odd":     {ok(`{"id":"odd"}`)},
		"GET /jobs/a%2Fb":   {ok(`{"id":"a/b","status":"accepted"}`)},
		"GET /jobs/removed": {{410, "", ""}},
		"GET /jobs/ill":     {{502, "", "bad gateway"}},
		"GET /jobs/page":    {{404, "Content-Type: text/html", "<html>default backend</html>"}},
		"GET /jobs/router":  {{404, "Content-Type: text/plain", "404 page not found"}},
		"GET /jobs/empty":   {{404, "", ""}},
	})
	p := s.platform()
	for id, want := range map[string]dispatch.Report{
		"a": {Status: dispatch.Running}, "bad": {Status: dispatch.Failed, Message: "No scene found"},
		"a/b":  {Status: dispatch.Queued},
		"list": {Status: dispatch.Failed, Message: "No list"}, "text": {Status: dispatch.Failed, Message: "No text"},
	} {
		got, err := p.Status(t.Context(), token, dispatch.Ref{ID: id})
		if err != nil || got.Status != want.Status || got.Message != want.Message {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	for id, kind := range map[string]dispatch.Kind{
		"gone": dispatch.NotFound, "removed": dispatch.NotFound, "html": dispatch.BadUpstream,
		"odd": dispatch.BadUpstream, "ill": dispatch.Unavailable, "page": dispatch.Unavailable,
		"router": dispatch.Unavailable, "empty": dispatch.Unavailable,
	} {
		_, err := p.Status(t.Context(), token, dispatch.Ref{ID: id})
		wantKind(t, err, kind)
	}
	asked := s.requests("GET", "/jobs/a")[0]
	if asked.header.Get("Accept") != "application/json" || asked.header.Get("Authorization") != "Bearer secret-token" {
		t.Error(asked.header)
	}
}

func TestException(t *testing.T) {
	for body, want := range map[string]string{
		`{"type":"http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/no-such-job"}`: "nosuchjob",
		`{"code":"ResultNotReady","type":"ResultNotReady","description":"x"}`:                 "resultnotready",
		`{"type":"about:blank","title":"Not Found"}`:                                          "",
		`{"detail":"Not Found"}`: "", `null`: "", `x`: "", `{"code":404}`: "", `{"type":"%"}`: "%",
	} {
		if got := exception([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestCancel(t *testing.T) {
	s := serve(t, map[string][]reply{
		"DELETE /jobs/a": {{200, "Content-Type: text/html", `{"jobID":"a","status":"dismissed"}`}},
		"DELETE /jobs/b": {{405, "", ""}},
		"DELETE /jobs/c": {{501, "", ""}},
		"DELETE /jobs/d": {{403, "Content-Type: application/json", `{"code":"NotImplemented","description":"no"}`}},
		"DELETE /jobs/e": {{403, "Content-Type: application/json",
			`{"code":"Forbidden","description":"not yours"}`}},
		"DELETE /jobs/f":    {{404, "Content-Type: application/json", `{"code":"NoSuchJob"}`}},
		"DELETE /jobs/g":    {{410, "", ""}},
		"DELETE /jobs/h":    {{500, "", ""}},
		"DELETE /jobs/j":    {{404, "Content-Type: text/html", "<html>default backend</html>"}},
		"DELETE /jobs/k":    {{200, "Content-Type: text/html", "<html><title>Request Rejected</title>"}},
		"DELETE /ns/jobs/i": {{204, "", ""}},
	})
	p := s.platform()
	for id, kind := range map[string]dispatch.Kind{
		"b": dispatch.Unsupported, "c": dispatch.Unsupported, "d": dispatch.Unsupported, "e": dispatch.Forbidden,
		"f": dispatch.NotFound, "g": dispatch.NotFound, "h": dispatch.Uncertain, "j": dispatch.Unavailable,
		"k": dispatch.Uncertain,
	} {
		wantKind(t, p.Cancel(t.Context(), token, dispatch.Ref{ID: id}), kind)
	}
	for _, ref := range []dispatch.Ref{{ID: "a"}, {Base: s.URL + "/ns", ID: "i"}} {
		if err := p.Cancel(t.Context(), token, ref); err != nil {
			t.Error(err)
		}
	}
}

func TestStatus_FailureWithoutMessage(t *testing.T) {
	const status = `{"jobID":"a","type":"process","status":"failed","links":[{"rel":"related","title":"Tool log stage-in.log","href":"/logs/in"},{"rel":"related","title":"Tool log node.log","href":"/logs/node"}]}`
	logs := map[string][]reply{
		"GET /jobs/a": {ok(status)}, "GET /logs/in": {{200, "Content-Type: text/plain", "reading\ndone\n"}},
		"GET /logs/node": {{200, "Content-Type: text/plain", "INFO start\nERROR No <b>scene</b> found\nexiting\n"}},
	}
	for name, c := range map[string]struct {
		results reply
		node    string
		want    string
	}{
		"an exception": {results: reply{500, "Content-Type: application/json", `{"title":"No memory"}`},
			want: "No memory"},
		"an error in a log": {results: reply{404, "", ""}, want: "ERROR No scene found"},
		"a log":             {results: reply{404, "", ""}, node: "start\nexit 137", want: "exit 137"},
	} {
		script := maps.Clone(logs)
		script["GET /jobs/a/results"] = []reply{c.results}
		if c.node != "" {
			script["GET /logs/node"] = []reply{{200, "Content-Type: text/plain", c.node}}
		}
		r, err := serve(t, script).platform().Status(t.Context(), token, dispatch.Ref{ID: "a"})
		if err != nil || r.Status != dispatch.Failed || r.Message != c.want {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestLogs(t *testing.T) {
	s := serve(t, map[string][]reply{
		"GET /jobs/a": {ok(
			`{"jobID":"a","status":"failed","message":"out of memory","created":"2026-03-01T12:00:00Z","finished":"2026-03-01T13:00:00Z",
			"links":[{"rel":"related","title":"Tool log stage_in.log","href":"HOST/logs/1"},{"rel":"related","title":"Manual","href":"HOST/manual"},{"rel":"http://x/logs","href":"/logs/2"}]}`)},
		"GET /logs/1": {{200, "Content-Type: text/plain", "one\n\n<i>two</i>\n"}},
		"GET /logs/2": {ok(`["three"]`)},
	})
	got, err := s.platform().Logs(t.Context(), token, dispatch.Ref{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range got {
		lines = append(lines, e.Level+" "+e.Message)
		if e.Time.Hour() != 13 {
			t.Error(e.Time)
		}
	}
	if text := strings.Join(lines, ","); text != "info one,info two,info three,error out of memory" {
		t.Error(text)
	}
	if len(s.requests("GET", "/manual")) > 0 {
		t.Error("what is no log was read")
	}
}

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		script map[string][]reply
		kind   dispatch.Kind
		well   bool
	}{
		"list":        {script: map[string][]reply{"GET /processes": {ok(`{"processes":[]}`)}}, well: true},
		"conformance": {script: map[string][]reply{"GET /conformance": {ok(`{"conformsTo":[]}`)}}, well: true},
		"ZOO": {script: map[string][]reply{"GET /processes": {{400, "", ""}},
			"GET /conformance": {ok(`{"conformsTo":[]}`)}}, well: true},
		"no method": {script: map[string][]reply{"GET /processes": {{405, "", ""}},
			"GET /conformance": {ok(`{"conformsTo":[]}`)}}, well: true},
		"refused": {script: map[string][]reply{"GET /processes": {{400, "", ""}}, "GET /conformance": {{400, "", ""}},
			"GET /": {{400, "", ""}}}, kind: dispatch.Misconfigured},
		"nothing": {kind: dispatch.Misconfigured},
		"html": {script: map[string][]reply{"GET /processes": {{200, "Content-Type: text/html", "<html>"}}},
			kind: dispatch.BadUpstream},
		"token": {script: map[string][]reply{"GET /processes": {{401, "", ""}}}, kind: dispatch.SignInRequired},
		"down":  {script: map[string][]reply{"GET /processes": {{503, "Retry-After: 3", ""}}}, kind: dispatch.Busy},
	} {
		err := serve(t, c.script).platform().Probe(t.Context(), token)
		if c.well != (err == nil) || err != nil && dispatch.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func listAll(t *testing.T, p *Platform, base string) (jobs []dispatch.Listed, err error) {
	t.Helper()
	for job, e := range p.List(t.Context(), token, base) {
		if e != nil {
			return jobs, e
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

func TestList(t *testing.T) {
	page := func(ids, next string) reply {
		var jobs []map[string]string
		for id := range strings.FieldsSeq(ids) {
			jobs = append(jobs, map[string]string{"jobID": id, "status": "running", "processID": "p",
				"created": "2026-03-01T12:00:00Z"})
		}
		raw, _ := json.Marshal(map[string]any{"jobs": append([]map[string]string{}, jobs...),
			"links": []map[string]string{{"rel": "self", "href": "x"}, {"rel": "next", "href": next}}})
		return ok(strings.Replace(string(raw), `,{"href":"","rel":"next"}`, "", 1))
	}
	for name, c := range map[string]struct {
		script map[string][]reply
		want   string
		kind   dispatch.Kind
		fails  bool
	}{
		"offset": {script: map[string][]reply{"GET /ns/jobs": {page("a b", "HOST/ns/jobs?limit=100&offset=2")},
			"GET /ns/jobs?limit=100&offset=2": {page("c", "")}}, want: "a b c"},
		"relative": {script: map[string][]reply{"GET /ns/jobs": {page("a", "/ns/jobs?cursor=xyz")},
			"GET /ns/jobs?cursor=xyz": {page("b", "")}}, want: "a b"},
		"full": {script: map[string][]reply{"GET /ns/jobs": {page("a", "HOST/ns/jobs?skip=1")},
			"GET /ns/jobs?skip=1": {page("", "HOST/ns/jobs?skip=2")}}, want: "a"},
		"header": {script: map[string][]reply{"GET /ns/jobs": {{200,
			"Content-Type: application/json\nLink: </x>; rel=prev, <HOST/ns/jobs?page=2>; rel=\"next\"",
			`{"jobs":[{"id":"a"}]}`}}, "GET /ns/jobs?page=2": {page("b", "")}}, want: "a b"},
		"names only": {script: map[string][]reply{"GET /ns/jobs": {ok(`{"jobs":["a","b"],"total":2}`)}}, want: "a b"},
		"entries askew": {script: map[string][]reply{"GET /ns/jobs": {ok(
			`{"jobs":[{"id":"a","status":"running"},{"x":1},null,[]]}`)}}, want: "a"},
		"empty": {script: map[string][]reply{"GET /ns/jobs": {ok(`{"jobs":[]}`)}}},
		"loop": {script: map[string][]reply{"GET /ns/jobs": {page("a", "HOST/ns/jobs?limit=100")}}, want: "a",
			fails: true, kind: dispatch.BadUpstream},
		"elsewhere": {script: map[string][]reply{"GET /ns/jobs": {page("a", "https://evil.example/jobs")}}, want: "a",
			fails: true, kind: dispatch.BadUpstream},
		"no list": {fails: true, kind: dispatch.Unsupported},
		"not allowed": {script: map[string][]reply{"GET /ns/jobs": {{405, "", ""}}}, fails: true,
			kind: dispatch.Unsupported},
		"broken off": {script: map[string][]reply{"GET /ns/jobs": {page("a", "/ns/jobs?2")},
			"GET /ns/jobs?2": {{504, "", ""}}}, want: "a", fails: true, kind: dispatch.Unavailable},
		"other JSON": {script: map[string][]reply{"GET /ns/jobs": {ok(`{"items":[]}`)}}, fails: true,
			kind: dispatch.BadUpstream},
	} {
		s := serve(t, c.script)
		jobs, err := listAll(t, s.platform(), s.URL+"/ns")
		if c.fails != (err != nil) || err != nil && dispatch.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
		var ids []string
		for _, j := range jobs {
			ids = append(ids, j.Ref.ID)
			if j.Tag != "" || j.Ref.Base != s.URL+"/ns" {
				t.Errorf("%s: %+v", name, j)
			}
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if q := s.requests("GET", "/ns/jobs")[0].query; q != "limit=100" {
			t.Errorf("%s: asked with %q", name, q)
		}
	}
}

func TestList_Job(t *testing.T) {
	s := serve(t, map[string][]reply{"GET /jobs": {ok(
		`{"jobs":[{"jobID":"a","processID":"p","status":"successful","progress":100,"created":"2026-03-01T12:00:00Z"},"b"]}`)}})
	jobs, err := listAll(t, s.platform(), "")
	if err != nil || len(jobs) != 2 {
		t.Fatal(jobs, err)
	}
	a, b := jobs[0], jobs[1]
	if a.Ref != (dispatch.Ref{ID: "a"}) || a.Report.Status != dispatch.Finished ||
		a.Created.Year() != 2026 {
		t.Errorf("%+v", a)
	}
	if b.Ref.ID != "b" || b.Report.Status != "" {
		t.Errorf("%+v", b)
	}
}

// A reader that stops early requests no further page.
func TestList_Stops(t *testing.T) {
	s := serve(t, map[string][]reply{"GET /jobs": {ok(`{"jobs":["a","b"],"links":[{"rel":"next","href":"/more"}]}`)}})
	for range s.platform().List(t.Context(), token, "") {
		break
	}
	if len(s.requests("GET", "/more")) > 0 {
		t.Error("the next page was read")
	}
}
