package simulator_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

const graph = `{"title":"NDVI [t-1]","process":{"process_graph":{
	"load":{"process_id":"load_collection","arguments":{"id":"S2","spatial_extent":{"west":4,"south":51,"east":4.2,"north":51.1},"temporal_extent":null}},
	"ndvi":{"process_id":"ndvi","arguments":{"data":{"from_node":"load"}}},
	"save":{"process_id":"save_result","arguments":{"data":{"from_node":"ndvi"},"format":"gtiff"},"result":true}}}}`

func ann(t *testing.T, s *simulator.OpenEO) caller {
	return caller{t: t, client: serve(t, s), base: "http://eo.test/openeo/1.2", bearer: "oidc/sim/ann"}
}

// create creates a job and returns its id.
func create(c caller, body string) string {
	c.t.Helper()
	r := c.must(201, "POST /jobs", body)
	id := r.header.Get("OpenEO-Identifier")
	if id == "" || r.header.Get("Location") != c.base+"/jobs/"+id || len(r.body) != 0 {
		c.t.Fatalf("created %q at %q, body %q", id, r.header.Get("Location"), r.body)
	}
	return id
}

func (c caller) status(id string) any {
	c.t.Helper()
	return c.must(200, "GET /jobs/"+id, "").json("status")
}

func TestOpenEO_Discovery(t *testing.T) {
	c := ann(t, &simulator.OpenEO{})
	c.bearer = ""
	versions, _ := c.must(200, "GET http://eo.test/.well-known/openeo", "").json("versions").([]any)
	if len(versions) != 2 || versions[1].(map[string]any)["url"] != c.base+"/" {
		t.Errorf("versions %v", versions)
	}
	capabilities := c.must(200, "GET /", "")
	if capabilities.json("api_version") != "1.2.0" || capabilities.json("stac_version") != "1.0.0" {
		t.Errorf("capabilities %s", capabilities.body)
	}
	for _, want := range []string{`{"path":"/jobs/{job_id}/results","methods":["GET","POST","DELETE"]}`,
		"remote-process-definition/0.1.0"} {
		if !strings.Contains(string(capabilities.body), want) {
			t.Errorf("capabilities lack %s", want)
		}
	}
	if got := c.must(200, "GET /conformance", "").json("conformsTo"); len(got.([]any)) != 2 {
		t.Errorf("conforms to %v", got)
	}
	providers := c.must(200, "GET /credentials/oidc", "").json("providers").([]any)
	if p := providers[0].(map[string]any); p["id"] != "sim" || p["issuer"] != "https://idp.invalid/realms/platform" {
		t.Errorf("provider %v", p)
	}
	if c.must(200, "GET /file_formats", "").json("output", "GTiff", "title") != "GeoTIFF" {
		t.Error("GTiff is no output format")
	}
	var list struct {
		Processes []struct{ ID, Description string }
	}
	if err := json.Unmarshal(c.must(200, "GET /processes", "").body, &list); err != nil || len(list.Processes) < 130 {
		t.Errorf("%d processes, %v", len(list.Processes), err)
	}
	c.refused(404, "code", "NotFound", "GET /nowhere", "")
}

func TestOpenEO_Bearer(t *testing.T) {
	for name, row := range map[string]struct {
		header string
		jwt    bool
		status int
		code   string
	}{
		"none":              {"", false, 401, "AuthenticationRequired"},
		"basic":             {"Basic eA==", false, 403, "AuthenticationSchemeInvalid"},
		"plain":             {"Bearer a.b.c", false, 403, "TokenInvalid"},
		"another provider":  {"Bearer oidc/other/ann", false, 403, "TokenInvalid"},
		"empty":             {"Bearer oidc/sim/", false, 403, "TokenInvalid"},
		"refused":           {"Bearer oidc/sim/eve", false, 403, "TokenInvalid"},
		"good":              {"Bearer oidc/sim/ann", false, 200, ""},
		"plain where taken": {"Bearer ann", true, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := ann(t, &simulator.OpenEO{JWT: row.jwt, Check: func(token string) (string, error) {
				if token != "ann" {
					return "", http.ErrNoCookie
				}
				return "Ann", nil
			}})
			c.bearer = ""
			if row.header != "" {
				c.header = http.Header{"Authorization": {row.header}}
			}
			r := c.must(row.status, "GET /me", "")
			if row.code != "" && r.json("code") != row.code {
				t.Errorf("code %v", r.json("code"))
			}
			if row.status == 200 && r.json("user_id") != "Ann" {
				t.Errorf("me %s", r.body)
			}
		})
	}
	open := ann(t, &simulator.OpenEO{Open: true})
	open.bearer = ""
	open.must(200, "GET /me", "")
}

func TestOpenEO_LifeCycle(t *testing.T) {
	now := newClock()
	s := &simulator.OpenEO{Now: now.Now, Life: simulator.Life{Queue: 10 * time.Second, Run: 40 * time.Second}}
	c := ann(t, s)
	id := create(c, graph)
	job := c.must(200, "GET /jobs/"+id, "")
	if job.json("status") != "created" || job.json("title") != "NDVI [t-1]" ||
		job.json("process", "process_graph", "save", "result") != true {
		t.Errorf("job %s", job.body)
	}
	if !bytes.Equal(s.Sent(id), []byte(graph)) {
		t.Error("Sent is not what was sent")
	}
	c.must(202, "POST /jobs/"+id+"/results", "")
	c.must(202, "POST /jobs/"+id+"/results", "") // no effect
	for _, step := range []struct {
		after    time.Duration
		status   string
		progress float64
	}{{0, "queued", 0}, {10 * time.Second, "running", 0}, {10 * time.Second, "running", 25}} {
		now.pass(step.after)
		r := c.must(200, "GET /jobs/"+id, "")
		if r.json("status") != step.status || r.json("progress") != step.progress {
			t.Errorf("%s, want %s %v", r.body, step.status, step.progress)
		}
	}
	c.refused(400, "code", "JobNotFinished", "GET /jobs/"+id+"/results", "")
	c.refused(400, "code", "JobLocked", "PATCH /jobs/"+id, `{"title":"x"}`)
	if r := c.must(200, "GET /jobs/"+id+"/results?partial=true", ""); r.json("openeo:status") != "running" {
		t.Errorf("partial results %s", r.body)
	}
	now.pass(30 * time.Second)
	r := c.must(200, "GET /jobs/"+id, "")
	if r.json("status") != "finished" || r.json("progress") != 100.0 || r.json("costs") != 2.0 {
		t.Errorf("at the end %s", r.body)
	}
	c.must(204, "PATCH /jobs/"+id, `{"title":"renamed"}`)
	if got := c.must(200, "GET /jobs/"+id, "").json("title"); got != "renamed" {
		t.Errorf("title %v", got)
	}
	if got, want := s.Oracle.Of("t-1"), (simulator.Counts{Creates: 1, Starts: 2, Runs: 1}); got != want {
		t.Errorf("oracle %+v, want %+v", got, want)
	}
	c.must(202, "POST /jobs/"+id+"/results", "") // runs it again, as the specification says
	if got := s.Oracle.Of("t-1").Runs; got != 2 || c.status(id) != "queued" {
		t.Errorf("%d runs, %v", got, c.status(id))
	}
	c.must(204, "DELETE /jobs/"+id, "")
	c.refused(404, "code", "JobNotFound", "GET /jobs/"+id, "")
}

// TestOpenEO_PagesReadRangesOfFiles: a page of another origin reads a part of a file, as previews of GeoTIFFs do.
func TestOpenEO_PagesReadRangesOfFiles(t *testing.T) {
	c := ann(t, &simulator.OpenEO{})
	id := create(c, graph)
	c.must(202, "POST /jobs/"+id+"/results", "")
	assets := c.must(200, "GET /jobs/"+id+"/results", "").json("assets").(map[string]any)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		assets["openEO.tif"].(map[string]any)["href"].(string), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Range", "bytes=0-3")
	answer, err := c.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	part, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusPartialContent || string(part) != "II*\x00" || err != nil ||
		answer.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%d, %q, %v, headers %v", answer.StatusCode, part, err, answer.Header)
	}
}

func TestOpenEO_ResultsServeBytesUntilTheyExpire(t *testing.T) {
	for format, magic := range map[string]string{"GTiff": "II*\x00", "netcdf": "CDF\x01", "GeoJSON": `{"features"`,
		"JSON": `{"ndvi"`} {
		for _, items := range []bool{false, true} {
			t.Run(fmt.Sprint(format, items), func(t *testing.T) {
				now := newClock()
				c := ann(t, &simulator.OpenEO{Now: now.Now, Items: items, LinkLife: time.Minute})
				id := create(c, strings.Replace(graph, "gtiff", format, 1))
				c.must(202, "POST /jobs/"+id+"/results", "")
				results := c.must(200, "GET /jobs/"+id+"/results", "")
				if want := map[bool]string{false: "Collection", true: "Feature"}[items]; results.json("type") != want {
					t.Errorf("type %v", results.json("type"))
				}
				if !items && fmt.Sprint(results.json("extent", "spatial", "bbox")) != "[[4 51 4.2 51.1]]" {
					t.Errorf("extent %v", results.json("extent"))
				}
				var links []string
				for _, asset := range results.json("assets").(map[string]any) {
					links = append(links, asset.(map[string]any)["href"].(string))
				}
				canonical := results.json("links").([]any)[1].(map[string]any)["href"].(string)
				anybody := c
				anybody.bearer = ""
				if len(links) != 1 || !strings.HasPrefix(string(anybody.must(200, "GET "+links[0], "").body), magic) {
					t.Errorf("assets %v do not give a %s", links, format)
				}
				anybody.must(200, "GET "+canonical, "")
				anybody.refused(403, "code", "CredentialsInvalid", "GET "+canonical+"x", "")
				now.pass(time.Minute)
				anybody.refused(410, "code", "ResultLinkExpired", "GET "+links[0], "")
			})
		}
	}
}

func TestOpenEO_Cancel(t *testing.T) {
	now := newClock()
	s := &simulator.OpenEO{Now: now.Now, Life: simulator.Life{Queue: time.Minute, Run: time.Minute}}
	c := ann(t, s)
	for _, row := range []struct {
		started bool
		after   time.Duration
		want    string
	}{{false, 0, "created"}, {true, 0, "created"}, {true, time.Minute, "canceled"}, {true, time.Hour, "finished"}} {
		id := create(c, graph)
		if row.started {
			c.must(202, "POST /jobs/"+id+"/results", "")
		}
		now.pass(row.after)
		c.must(204, "DELETE /jobs/"+id+"/results", "")
		now.pass(time.Hour)
		if got := c.status(id); got != row.want {
			t.Errorf("canceled %v after its start, it is %v, want %s", row.after, got, row.want)
		}
	}
	if got := s.Oracle.Of("t-1").Cancels; got != 4 {
		t.Errorf("%d cancels", got)
	}
}

func TestOpenEO_AnotherAccountSeesNothing(t *testing.T) {
	s := &simulator.OpenEO{}
	a := ann(t, s)
	id := create(a, graph)
	b := a
	b.bearer = "oidc/sim/bob"
	for _, what := range []string{"GET /jobs/" + id, "POST /jobs/" + id + "/results", "GET /jobs/" + id + "/results",
		"DELETE /jobs/" + id, "GET /jobs/" + id + "/logs"} {
		b.refused(404, "code", "JobNotFound", what, "")
	}
	if jobs := b.must(200, "GET /jobs", "").json("jobs"); len(jobs.([]any)) != 0 {
		t.Errorf("bob sees %v", jobs)
	}
}

func TestOpenEO_FailedJobTellsWhy(t *testing.T) {
	s := &simulator.OpenEO{Life: simulator.Life{Fail: 1}}
	c := ann(t, s)
	id := create(c, graph)
	c.must(202, "POST /jobs/"+id+"/results", "")
	if got := c.status(id); got != "error" {
		t.Errorf("status %v", got)
	}
	c.must(424, "GET /jobs/"+id+"/results", "")
	logs := c.must(200, "GET /jobs/"+id+"/logs?level=error", "").json("logs").([]any)
	if len(logs) != 1 || !strings.Contains(fmt.Sprint(logs), "found no data") {
		t.Errorf("logs %v", logs)
	}
	all := c.must(200, "GET /jobs/"+id+"/logs", "").json("logs").([]any)
	rest := c.must(200, "GET /jobs/"+id+"/logs?offset=0&limit=2", "").json("logs").([]any)
	if len(all) != 4 || len(rest) != 2 || fmt.Sprint(rest[0]) != fmt.Sprint(all[1]) {
		t.Errorf("all %v, after the first %v", all, rest)
	}
}

func TestOpenEO_GraphIsChecked(t *testing.T) {
	definitions := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token went to the definition's host")
		}
		switch r.URL.Path {
		case "/one.json":
			fmt.Fprint(w, `{"id":"one","process_graph":{"a":{"process_id":"add","arguments":{},"result":true}}}`)
		case "/list.json":
			fmt.Fprint(w, `{"processes":[{"id":"other"},{"id":"one"}]}`)
		case "/page.json":
			fmt.Fprint(w, `<html>`)
		case "/empty.json":
			fmt.Fprint(w, `{}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer definitions.Close()
	c := ann(t, &simulator.OpenEO{Namespaces: definitions.Client()})
	remote := func(id, namespace string) string {
		return fmt.Sprintf(
			`{"process":{"process_graph":{"u":{"process_id":%q,"namespace":%q,"arguments":{},"result":true}}}}`, id,
			namespace)
	}
	for name, row := range map[string]struct{ body, code string }{
		"not JSON":      {`{bad`, "Internal"},
		"no graph":      {`{"process":{}}`, "ProcessGraphMissing"},
		"no process id": {`{"process":{"process_graph":{"a":{"result":true}}}}`, "ProcessGraphInvalid"},
		"no result": {`{"process":{"process_graph":{"a":{"process_id":"add","arguments":{}}}}}`,
			"ProcessGraphInvalid"},
		"two results": {
			`{"process":{"process_graph":{"a":{"process_id":"add","arguments":{},"result":true},"b":{"process_id":"add","arguments":{},"result":true}}}}`, "ProcessGraphInvalid"},
		"dangling node": {
			`{"process":{"process_graph":{"a":{"process_id":"add","arguments":{"x":{"from_node":"z"}},"result":true}}}}`, "ProcessGraphInvalid"},
		"unknown process": {`{"process":{"process_graph":{"a":{"process_id":"foo","arguments":{},"result":true}}}}`,
			"ProcessUnsupported"},
		"unknown format":             {strings.Replace(graph, "gtiff", "geotiff", 1), "FormatUnsuitable"},
		"unknown namespace":          {remote("one", "elsewhere"), "ProcessUnsupported"},
		"relative URL":               {remote("one", "ftp://host/one.json"), "ProcessNamespaceInvalid"},
		"no such file":               {remote("one", definitions.URL+"/none.json"), "ProcessNamespaceInvalid"},
		"a page":                     {remote("one", definitions.URL+"/page.json"), "ProcessNamespaceInvalid"},
		"no definition":              {remote("one", definitions.URL+"/empty.json"), "ProcessNamespaceInvalid"},
		"another id":                 {remote("two", definitions.URL+"/one.json"), "ProcessIdMismatch"},
		"one":                        {remote("one", definitions.URL+"/one.json"), ""},
		"in a list":                  {remote("one", definitions.URL+"/list.json"), ""},
		"own":                        {remote("my_ndvi", "user"), ""},
		"predefined":                 {remote("ndvi_composite", "backend"), ""},
		"predefined, not the user's": {remote("ndvi_composite", "user"), "ProcessUnsupported"},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			c.t = t
			var job struct{ Process json.RawMessage } // the body of a validation
			if json.Unmarshal([]byte(row.body), &job) != nil {
				job.Process = json.RawMessage(row.body)
			}
			errors := c.must(200, "POST /validation", string(job.Process)).json("errors").([]any)
			if row.code == "" {
				create(c, row.body)
				if len(errors) != 0 {
					t.Errorf("validation finds %v", errors)
				}
				return
			}
			c.refused(400, "code", row.code, "POST /jobs", row.body)
			if len(errors) != 1 || errors[0].(map[string]any)["code"] != row.code {
				t.Errorf("validation finds %v", errors)
			}
		})
	}
}

func TestOpenEO_ListPages(t *testing.T) {
	now := newClock()
	s := &simulator.OpenEO{Now: now.Now, PageMax: 40}
	c := ann(t, s)
	var want []string
	for range 101 {
		want = append([]string{create(c, graph)}, want...)
	}
	c.must(204, "DELETE /jobs/"+want[50], "")
	want = append(want[:50:50], want[51:]...)
	for _, first := range []string{"/jobs", "/jobs?limit=7", "/jobs?limit=1000", "/jobs?limit=100"} {
		var got []string
		pages := 0
		for next := first; next != ""; pages++ {
			page := c.must(200, "GET "+next, "")
			next = ""
			for _, j := range page.json("jobs").([]any) {
				job := j.(map[string]any)
				got = append(got, job["id"].(string))
				if job["status"] != "created" || job["title"] != "NDVI [t-1]" || job["process"] != nil {
					t.Fatalf("listed %v", job)
				}
			}
			for _, l := range page.json("links").([]any) {
				next = l.(map[string]any)["href"].(string)
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") || pages < 3 {
			t.Errorf("%s: %d jobs on %d pages, want %d, newest first", first, len(got), pages, len(want))
		}
	}
	c.refused(400, "code", "ParameterInvalid", "GET /jobs?limit=0", "")
}

func TestOpenEO_LifeMisbehaves(t *testing.T) {
	now := newClock()
	s := &simulator.OpenEO{Now: now.Now}
	c := ann(t, s)
	started := func(l simulator.Life) string {
		s.SetLife(l)
		id := create(c, graph)
		c.must(202, "POST /jobs/"+id+"/results", "")
		return id
	}
	at := func(id string, after time.Duration, want string) {
		t.Helper()
		now.pass(after)
		if got := c.status(id); got != want {
			t.Errorf("status %v, want %s", got, want)
		}
	}
	t.Run("stale", func(t *testing.T) {
		id := started(simulator.Life{Run: time.Minute, Lag: 10 * time.Second})
		at(id, 0, "created")
		at(id, 10*time.Second, "running")
		at(id, 50*time.Second, "running")
		at(id, 10*time.Second, "finished")
	})
	t.Run("a passing error", func(t *testing.T) {
		id := started(simulator.Life{Queue: time.Minute, Flicker: 5 * time.Second})
		at(id, 0, "error")
		at(id, 5*time.Second, "queued")
	})
	t.Run("unlisted at first", func(t *testing.T) {
		before := len(c.must(200, "GET /jobs", "").json("jobs").([]any))
		started(simulator.Life{Unlisted: time.Minute})
		now.pass(59 * time.Second)
		if n := len(c.must(200, "GET /jobs", "").json("jobs").([]any)); n != before {
			t.Errorf("%d jobs listed, want %d", n, before)
		}
		now.pass(time.Second)
		if n := len(c.must(200, "GET /jobs", "").json("jobs").([]any)); n != before+1 {
			t.Errorf("%d jobs listed, want %d", n, before+1)
		}
	})
	t.Run("slots", func(t *testing.T) {
		l := simulator.Life{Run: time.Minute, Slots: 2}
		first := started(l)
		started(l)
		third := create(c, graph)
		c.refused(400, "code", "ConcurrentJobLimit", "POST /jobs/"+third+"/results", "")
		c.must(204, "DELETE /jobs/"+first+"/results", "")
		c.must(202, "POST /jobs/"+third+"/results", "")
		now.pass(time.Minute)
		started(l)
	})
	t.Run("any word", func(t *testing.T) {
		id := started(simulator.Life{})
		s.SetStatus(id, "perplexed")
		at(id, 0, "perplexed")
		s.SetStatus(id, "error")
		c.must(424, "GET /jobs/"+id+"/results", "")
		s.SetStatus(id, "")
		at(id, 0, "finished")
		if s.SetStatus("nope", "x") {
			t.Error("a job that is not there was changed")
		}
	})
}

func TestOpenEO_Synchronous(t *testing.T) {
	c := ann(t, &simulator.OpenEO{})
	if r := c.must(200, "POST /result", graph); r.header.Get("Content-Type") != "image/tiff; application=geotiff" ||
		!bytes.HasPrefix(r.body, []byte("II*\x00")) {
		t.Errorf("%s, %.20q", r.header.Get("Content-Type"), r.body)
	}
	if r := c.must(200, "POST /result",
		`{"process":{"process_graph":{"a":{"process_id":"add","arguments":{"x":3,"y":5},"result":true}}}}`); strings.TrimSpace(string(r.body)) != "8" {
		t.Errorf("3+5 = %s", r.body)
	}
	c.refused(400, "code", "ProcessGraphMissing", "POST /result", `{}`)
}

func TestOpenEO_SeedDecides(t *testing.T) {
	outcome := func(seed uint64) (ids, statuses string) {
		now := newClock()
		s := &simulator.OpenEO{Now: now.Now, Seed: seed, Life: simulator.Life{Run: time.Minute, Spread: 0.5, Fail: 0.3}}
		c := ann(t, s)
		var all []string
		for range 20 {
			id := create(c, graph)
			c.must(202, "POST /jobs/"+id+"/results", "")
			all = append(all, id)
		}
		now.pass(time.Minute)
		for _, id := range all {
			statuses += fmt.Sprint(c.status(id), " ")
		}
		return strings.Join(all, " "), statuses
	}
	ids, statuses := outcome(7)
	again, same := outcome(7)
	if ids != again || statuses != same {
		t.Error("the same seed gives another life")
	}
	if other, _ := outcome(8); other == ids {
		t.Error("another seed gives the same ids")
	}
	for _, word := range []string{"running", "finished", "error"} {
		if !strings.Contains(statuses, word) {
			t.Errorf("none is %s: %s", word, statuses)
		}
	}
}

// TestOpenEO_TenThousandJobs checks the cost of a job: no goroutine, a few kilobytes, and listings that stay fast.
func TestOpenEO_TenThousandJobs(t *testing.T) {
	now := newClock()
	s := &simulator.OpenEO{Now: now.Now, Life: simulator.Life{Queue: time.Hour, Run: time.Hour}}
	const n = 10_000
	before := runtime.NumGoroutine()
	send := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://eo.test/openeo/1.2"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer oidc/sim/ann")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	begin := time.Now()
	for i := range n {
		w := send("POST", "/jobs", strings.Replace(graph, "t-1", fmt.Sprint("t-", i), 1))
		if w = send("POST", "/jobs/"+w.Header().Get("OpenEO-Identifier")+"/results", ""); w.Code != 202 {
			t.Fatal(w.Code, w.Body)
		}
	}
	now.pass(3 * time.Hour)
	var list struct{ Jobs []struct{ Status string } }
	if err := json.Unmarshal(send("GET", "/jobs?"+url.Values{"limit": {fmt.Sprint(n)}}.Encode(), "").Body.Bytes(),
		&list); err != nil || len(list.Jobs) != n {
		t.Fatalf("%d listed, %v", len(list.Jobs), err)
	}
	for _, j := range list.Jobs {
		if j.Status != "finished" {
			t.Fatalf("one is %s", j.Status)
		}
	}
	t.Logf("%d jobs created, started and listed in %v", n, time.Since(begin))
	if got := runtime.NumGoroutine(); got > before+5 {
		t.Errorf("%d goroutines, %d before", got, before)
	}
	if sum := s.Oracle.Sum(); sum != (simulator.Counts{Creates: n, Starts: n, Runs: n}) {
		t.Errorf("oracle %+v", sum)
	}
}
