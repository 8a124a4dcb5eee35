package program

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/platform/echo"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// ogcServer is the program as a client of OGC API - Processes sees it.
type ogcServer struct {
	*testing.T
	base, token string
	platforms   *simulator.World
}

// reply is a response.
type reply struct {
	status int
	header http.Header
	text   []byte
}

// ogcServices are the services of the tests: one of each protocol.
const ogcServices = `[{id: composite, title: Composite, platform: openeo, application: ndvi_composite}, {id: ndvi, title: NDVI, platform: ogc, application: ndvi}]`

// startOGC starts the program with the echo process in front of a simulated world.
func startOGC(t *testing.T, life simulator.Life) ogcServer {
	t.Helper()
	s, _ := startOGCWith(t, life, ogcServices)
	return s
}

// startOGCWith starts the program with these services.
func startOGCWith(t *testing.T, life simulator.Life, services string) (ogcServer, *executable.Program) {
	t.Helper()
	w, err := simulator.Start(simulator.Options{Life: life})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	p := Start(t, "EODISPATCH_CONFIG="+configuration(t, w), "EODISPATCH_OGCAPI_ECHO=true", "EODISPATCH_FRESHNESS=500ms",
		"EODISPATCH_VAULT_KEYS="+identity.NewKey(time.Now()).Reveal(), "EODISPATCH_SERVICES="+services)
	return ogcServer{t, p.Address + "/ogcapi", SignIn(t, w, p.Address).Token, w}, p
}

// TestOGCAPI_ProcessesInTheMannerOfOthers runs a process whose box must name its reference system and whose files are
// links, on an area and on tiles, and one that only runs synchronously.
func TestOGCAPI_ProcessesInTheMannerOfOthers(t *testing.T) {
	t.Parallel()
	s, p := startOGCWith(t, simulator.Life{},
		`[{id: scenes, title: Scenes, platform: ogc, application: scenes}, {id: quick, title: Quick, platform: ogc, application: sync-only}]`)
	const inputs = `"images":[{"href":"https://data.example/a.tif","type":"image/tiff"},{"value":"aGVsbG8=","mediaType":"image/jp2"}],
		"area":{"bbox":[4.1,51,4.3,51.2],"crs":"http://www.opengis.net/def/crs/OGC/1.3/CRS84"}`
	for _, more := range []string{"", `,"eodispatch:tiles":"20x20km"`} {
		location, _ := s.execute("scenes", `{"inputs":{`+inputs+more+`}}`)
		if j := s.await(location); j.Status != "successful" {
			t.Errorf("with%s it is %+v", more, j)
		}
	}
	location, _ := s.execute("quick", `{"inputs":{"bbox":{"bbox":[4,50,5,51]}}}`)
	if j := s.await(location); j.Status != "successful" {
		t.Errorf("the process that only runs synchronously is %+v", j)
	}
	if strings.Contains(p.Log.String(), "request failed") {
		t.Errorf("the program logged a failure:\n%s", p.Log)
	}
}

func (s ogcServer) do(method, path, body string, headers ...string) reply {
	s.Helper()
	url := path
	if !strings.HasPrefix(path, "http") {
		url = s.base + path
	}
	r, err := http.NewRequestWithContext(s.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		s.Fatal(err)
	}
	return reply{a.StatusCode, a.Header, text}
}

// get reads a document into v.
func (s ogcServer) get(path string, v any) {
	s.Helper()
	s.decode(s.do("GET", path, ""), http.StatusOK, v)
}

func (s ogcServer) decode(a reply, status int, v any) {
	s.Helper()
	if a.status != status || a.header.Get("Content-Type") != "application/json" || json.Unmarshal(a.text, v) != nil {
		s.Fatalf("%d %s: %s; want %d", a.status, a.header.Get("Content-Type"), a.text, status)
	}
}

type ogcLink struct{ Href, Rel, Type string }

type ogcJob struct {
	JobID, Status, Type, ProcessID, Message string
	Progress                                json.Number
	Links                                   []ogcLink
}

func linkTo(links []ogcLink, rels ...string) string {
	for _, l := range links {
		if slices.Contains(rels, l.Rel) {
			return l.Href
		}
	}
	return ""
}

// refused fails unless the response is an exception of a type, which a suite compares as text.
func (s ogcServer) refused(a reply, status int, kind string) {
	s.Helper()
	var e struct {
		Type, Title, Detail string
		Status              int
	}
	s.decode(a, status, &e)
	if e.Type != cmp.Or(kind, "about:blank") || e.Title == "" || e.Status != status || e.Detail == "" {
		s.Errorf("exception %s", a.text)
	}
}

const ogcExceptions = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/"

// execute starts a job and returns its address.
func (s ogcServer) execute(process, body string, headers ...string) (location string, j ogcJob) {
	s.Helper()
	a := s.do("POST", "/processes/"+process+"/execution", body, headers...)
	s.decode(a, http.StatusCreated, &j)
	location = a.header.Get("Location")
	if location != s.base+"/jobs/"+j.JobID || j.Type != "process" || j.ProcessID != process ||
		(a.header.Get("Preference-Applied") == "respond-async") != slices.Contains(headers, "respond-async") {
		s.Fatalf("Location %q, job %+v", location, j)
	}
	return location, j
}

// await polls a job until it has ended.
func (s ogcServer) await(location string) (j ogcJob) {
	s.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for deadline := time.After(3 * time.Minute); ; {
		s.get(location, &j)
		if _, err := j.Progress.Int64(); err != nil || j.JobID == "" || j.Type != "process" ||
			linkTo(j.Links, "monitor", "status") == "" {
			s.Fatalf("status %+v", j)
		}
		results := linkTo(j.Links, "http://www.opengis.net/def/rel/ogc/1.0/results")
		switch {
		case (results != "") != (j.Status == "successful"):
			s.Fatalf("a job that is %s links its results at %q", j.Status, results)
		case j.Status != "accepted" && j.Status != "running":
			return j
		}
		select {
		case <-again.C:
		case <-deadline:
			s.Fatalf("the job does not end: %+v", j)
		}
	}
}

// TestOGCAPI_Conformance restates the assertions of the suite ets-ogcapi-processes10 (core, process description, job
// list), which needs an open instance and other servers.
func TestOGCAPI_Conformance(t *testing.T) {
	t.Parallel()
	s := startOGC(t, simulator.Life{})
	t.Run("landing page", func(t *testing.T) { s.with(t).landingPage() })
	t.Run("processes", func(t *testing.T) { s.with(t).processes() })
	t.Run("unknown", func(t *testing.T) { s.with(t).unknown() })
	t.Run("echo while one waits", func(t *testing.T) { s.with(t).echoSync() })
	t.Run("wrong inputs", func(t *testing.T) { s.with(t).wrongInputs() })
	t.Run("echo as a job", func(t *testing.T) { s.with(t).echoAsync() })
	t.Run("joined URLs", func(t *testing.T) { s.with(t).joinedURLs() })
	t.Run("ids of openEO", func(t *testing.T) { s.with(t).idsOfOpenEO() })
	t.Run("job list", func(t *testing.T) { s.with(t).jobList() })
}

// joinedURLs: what clients make of URLs is served where it was sent. After a redirect some would send a write again
// without its body.
func (s ogcServer) joinedURLs() {
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "//processes//echo/execution/", `{"inputs": {"message": "a"}}`, 200},
		{"POST", "/processes/echo/../echo/execution", `{"inputs": {"message": "a"}}`, 404},
		{"DELETE", "//jobs//4711/", "", 404},
	} {
		r, err := http.NewRequestWithContext(s.Context(), c.method, s.base+c.path, strings.NewReader(c.body))
		if err != nil {
			s.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+s.token)
		r.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultTransport.RoundTrip(r) // follows no redirects
		if err != nil {
			s.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != c.want || a.Header.Get("Location") != "" {
			s.Errorf("%s %s: %d, Location %q", c.method, c.path, a.StatusCode, a.Header.Get("Location"))
		}
	}
}

// idsOfOpenEO: a batch job that was not started is not there for clients of the OGC interface, and a job of theirs is
// none of another platform's for clients of openEO.
func (s ogcServer) idsOfOpenEO() {
	openEO := strings.TrimSuffix(s.base, "/ogcapi") + "/openeo/openeo/1.2/jobs"
	a := s.do("POST", openEO,
		`{"process": {"process_graph": {"a": {"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": true}}}}`)
	id := a.header.Get("OpenEO-Identifier")
	if a.status != http.StatusCreated || id == "" {
		s.Fatalf("%d %s", a.status, a.text)
	}
	for _, path := range []string{"/jobs/" + id, "/jobs/" + id + "/results", "/jobs/t-" + id} {
		s.refused(s.do("GET", path, ""), 404, ogcExceptions+"no-such-job")
	}
	s.refused(s.do("DELETE", "/jobs/"+id, ""), 404, ogcExceptions+"no-such-job")
	if a := s.do("DELETE", openEO+"/"+id, ""); a.status != http.StatusNoContent {
		s.Errorf("the batch job: %d %s", a.status, a.text)
	}
	_, j := s.execute("ndvi", `{"inputs": {"bbox": {"bbox": [5.05, 51.2, 5.15, 51.25]}}}`)
	for _, method := range []string{"GET", "DELETE"} {
		if a := s.do(method, openEO+"/"+j.JobID, ""); a.status != http.StatusNotFound ||
			!strings.Contains(string(a.text), "JobNotFound") {
			s.Errorf("%s: %d %s", method, a.status, a.text)
		}
	}
}

func (s ogcServer) with(t *testing.T) ogcServer { s.T = t; return s }

func (s ogcServer) landingPage() {
	var page struct{ Links []ogcLink }
	s.get("", &page)
	s.get("/", &page)
	for _, rels := range [][]string{{"service-desc", "service-doc"},
		{"http://www.opengis.net/def/rel/ogc/1.0/conformance"}, {"http://www.opengis.net/def/rel/ogc/1.0/processes"}} {
		if linkTo(page.Links, rels...) == "" {
			s.Errorf("no link %v in %+v", rels, page)
		}
	}
	var conformance struct{ ConformsTo []string }
	s.get(linkTo(page.Links, "http://www.opengis.net/def/rel/ogc/1.0/conformance"), &conformance)
	for _, class := range []string{"core", "ogc-process-description", "json", "oas30", "job-list", "callback",
		"dismiss"} {
		if !slices.Contains(conformance.ConformsTo, "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/"+class) {
			s.Errorf("class %s is not in %v", class, conformance.ConformsTo)
		}
	}
	a := s.do("GET", linkTo(page.Links, "service-desc"), "")
	var api struct {
		OpenAPI string
		Servers []struct{ URL string }
		Paths   map[string]json.RawMessage
	}
	if err := json.Unmarshal(a.text, &api); err != nil || api.OpenAPI != "3.0.3" || len(api.Servers) != 1 ||
		api.Servers[0].URL != s.base || len(api.Paths) < 8 ||
		a.header.Get("Content-Type") != "application/vnd.oai.openapi+json;version=3.0" {
		s.Errorf("%v: %s %.200s", err, a.header.Get("Content-Type"), a.text)
	}
}

type ogcProcessDocument struct {
	ID, Version                           string
	JobControlOptions, OutputTransmission []string
	Links                                 []ogcLink
	Inputs, Outputs                       map[string]struct {
		Title                string
		MinOccurs, MaxOccurs any
		Schema               map[string]any
	}
}

func (s ogcServer) processes() {
	var all, one struct {
		Processes []ogcProcessDocument
		Links     []ogcLink
	}
	s.get("/processes", &all)
	s.get("/processes?limit=1", &one)
	if len(all.Processes) != 3 || len(all.Links) == 0 || len(one.Processes) != 1 || linkTo(one.Links, "next") == "" {
		s.Fatalf("%+v, %+v", all, one)
	}
	var found []string
	for next := s.base + "/processes?limit=1"; next != ""; next = linkTo(one.Links, "next") {
		s.get(next, &one)
		found = append(found, one.Processes[0].ID)
	}
	slices.Sort(found)
	if !slices.Equal(found, []string{"composite", "echo", "ndvi"}) {
		s.Errorf("pages of one have %v", found)
	}
	for _, p := range all.Processes {
		var d ogcProcessDocument
		s.get(linkTo(p.Links, "self"), &d)
		want := []string{"async-execute", "dismiss"}
		if p.ID == "echo" {
			want = []string{"sync-execute", "async-execute", "dismiss"}
		}
		if d.ID != p.ID || d.Version == "" || !slices.Equal(d.JobControlOptions, want) ||
			len(d.OutputTransmission) == 0 || len(d.Inputs) == 0 || len(d.Outputs) == 0 ||
			linkTo(d.Links, "http://www.opengis.net/def/rel/ogc/1.0/execute") != s.base+"/processes/"+p.ID+
				"/execution" {
			s.Errorf("%+v", d)
		}
		for name, in := range d.Inputs {
			s.openAPISchema(p.ID+" "+name, in.Schema)
		}
		for name, out := range d.Outputs {
			s.openAPISchema(p.ID+" "+name, out.Schema)
		}
	}
}

// openAPISchema fails unless a schema has the form of OpenAPI 3.0.
func (s ogcServer) openAPISchema(at string, schema map[string]any) {
	s.Helper()
	if schema == nil {
		s.Errorf("%s has no schema", at)
	}
	for word, value := range schema {
		_, isText := value.(string)
		list, isList := value.([]any)
		switch {
		case word == "type" && (!isText || value == "null"), word == "$ref", word == "const", isList && len(list) == 0:
			s.Errorf("%s has %s: %v", at, word, value)
		}
		for _, part := range append(list, value) {
			if inner, is := part.(map[string]any); is && word != "properties" && word != "default" &&
				word != "example" {
				s.openAPISchema(at+"."+word, inner)
			}
		}
	}
	members, _ := schema["properties"].(map[string]any)
	for name, member := range members {
		inner, _ := member.(map[string]any)
		s.openAPISchema(at+"."+name, inner)
	}
}

func (s ogcServer) unknown() {
	s.refused(s.do("GET", "/processes/nothing", ""), 404, ogcExceptions+"no-such-process")
	s.refused(s.do("POST", "/processes/nothing/execution", `{"inputs":{}}`), 404, ogcExceptions+"no-such-process")
	for _, id := range []string{"nothing", "4711", "t-4711", "0", "-1", "007", "99999999999999999999"} {
		s.refused(s.do("GET", "/jobs/"+id, ""), 404, ogcExceptions+"no-such-job")
		s.refused(s.do("GET", "/jobs/"+id+"/results", ""), 404, ogcExceptions+"no-such-job")
		s.refused(s.do("DELETE", "/jobs/"+id, ""), 404, ogcExceptions+"no-such-job")
	}
	s.refused(s.do("GET", "/nothing", ""), 404, "")
	s.refused(s.do("PUT", "/jobs", "{}"), 405, "")
	if a := s.do("GET", "/jobs/nothing", "", "Accept", "application/problem+json"); a.status != 404 ||
		a.header.Get("Content-Type") != "application/problem+json" {
		s.Errorf("%d %v", a.status, a.header)
	}
	s.token = ""
	for _, path := range []string{"/processes", "/jobs", "/jobs/1"} {
		a := s.do("GET", path, "")
		s.refused(a, 401, "")
		if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
			s.Errorf("%v", a.header)
		}
	}
	var page map[string]any
	s.get("", &page)
	if a := s.do("OPTIONS", "/jobs", "", "Origin", "https://editor.example.org"); a.status != 204 ||
		a.header.Get("Access-Control-Allow-Origin") != "*" ||
		!strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		s.Errorf("preflight: %d %v", a.status, a.header)
	}
}

const echoPath = "/processes/echo/execution"

// echoSync: the first string input comes back in the output of the same id. A sync response has no header Link.
func (s ogcServer) echoSync() {
	for _, body := range []string{`{"inputs": {"message": "teststring"}}`,
		`{"inputs": {"message": "teststring"}, "response": "raw", "outputs": {"message": {"transmissionMode": "value"}}}`,
		`{"inputs": {"message": {"value": "teststring"}, "pause": 0}}`} {
		a := s.do("POST", echoPath, body)
		var text string
		if s.decode(a, 200, &text); text != "teststring" || a.header.Values("Link") != nil {
			s.Errorf("%s: %s, %v", body, a.text, a.header)
		}
	}
	var document map[string]string
	s.decode(s.do("POST", echoPath, `{"inputs": {"message": "teststring"}, "response": "document"}`), 200, &document)
	if len(document) != 1 || document["message"] != "teststring" {
		s.Errorf("%v", document)
	}
}

func (s ogcServer) wrongInputs() {
	for _, body := range []string{``, `[]`, `{}`, `{"inputs": {}}`, `{"inputs": []}`, `{"inputs": {"message": 1}}`,
		`{"inputs": {"message": "a", "pause": "long"}}`,
		`{"inputs": {"message": "a", "pause": -1}}`, `{"inputs": {"message": "a", "other": 1}}`,
		`{"inputs": {"message": "a"}, "response": "other"}`,
		`{"inputs": {"message": "a"}, "outputs": {"message": {"transmissionMode": "reference"}}}`, `{"inputs"`} {
		s.refused(s.do("POST", echoPath, body), 400, "")
		s.refused(s.do("POST", echoPath, body, "Prefer", "respond-async"), 400, "")
	}
	// without a job
	s.refused(s.do("POST", echoPath,
		`{"inputs": {"message": "a"}, "subscriber": {"successUri": "https://example.org"}}`), 400, "")
	s.refused(s.do("POST", echoPath, `{"inputs": {"message": "a"}, "outputs": {"other": {}}}`), 400, ogcExceptions+
		"no-such-output")
	s.refused(s.do("POST", "/processes/ndvi/execution", `{"inputs": {}}`), 400, "")
	s.refused(s.do("POST", "/processes/composite/execution",
		`{"inputs": {"spatial_extent": {"bbox": [5, 51, 6, 52], "crs": "http://www.opengis.net/def/crs/EPSG/0/31370"}}}`),
		400, "")
	for box, why := range map[string]string{`{"bbox": [500, 51, 501, 52]}`: "Longitudes lie",
		`{"bbox": [5, 51, 6, 52], "crs": "EPSG:99"}`: "no reference system EPSG:99"} {
		a := s.do("POST", "/processes/ndvi/execution", `{"inputs": {"bbox": `+box+`}}`)
		if s.refused(a, 400, ""); !strings.Contains(string(a.text), why) {
			s.Errorf("%s: %s", box, a.text)
		}
	}
	s.refused(s.do("POST", echoPath, `{"inputs": {"message": "`+strings.Repeat("a", 11<<20)+`"}}`), 413, "")
}

// echoAsync: the result is not ready before the end.
func (s ogcServer) echoAsync() {
	location, j := s.execute("echo", `{"inputs": {"message": "teststring", "pause": 3}}`, "Prefer", "respond-async")
	s.refused(s.do("GET", location+"/results", ""), 404, ogcExceptions+"result-not-ready")
	if j = s.await(location); j.Status != "successful" || j.Progress != "100" {
		s.Fatalf("%+v", j)
	}
	var text string
	if s.get(linkTo(j.Links, "http://www.opengis.net/def/rel/ogc/1.0/results"), &text); text != "teststring" {
		s.Errorf("raw result %q", text)
	}
	location, _ = s.execute("echo", `{"inputs": {"message": "teststring"}, "response": "document"}`, "Prefer",
		"respond-async")
	s.await(location)
	var document map[string]string
	if s.get(location+"/results", &document); document["message"] != "teststring" {
		s.Errorf("document %v", document)
	}
	if s.get(location+"/results/message", &text); text != "teststring" {
		s.Errorf("output %q", text)
	}
	s.refused(s.do("GET", location+"/results/other", ""), 404, ogcExceptions+"no-such-output")
	s.decode(s.do("POST", echoPath, `{"inputs": {"message": "teststring", "pause": 1}}`, "Prefer",
		"respond-async, wait=60"), 200, &text)
	if text != "teststring" {
		s.Errorf("result after a wait %q", text)
	}
}

// jobList lists jobs in pages, newest first, and by the standard's filters.
func (s ogcServer) jobList() {
	var first struct {
		Jobs  []ogcJob
		Links []ogcLink
	}
	_, task := s.execute("composite",
		`{"inputs": {"spatial_extent": {"bbox": [5.05, 51.05, 5.75, 51.45]}, "temporal_extent": ["2024-06-01", "2024-07-01"], "eodispatch:tiles": "20x20km"}}`)
	_, last := s.execute("echo", `{"inputs": {"message": "last", "pause": 600}}`, "Prefer", "respond-async")
	var ids []string
	for next := s.base + "/jobs?limit=2"; next != ""; next = linkTo(first.Links, "next") {
		first.Links = nil
		s.get(next, &first)
		if len(first.Jobs) == 0 || len(first.Jobs) > 2 {
			s.Fatalf("%+v", first)
		}
		for _, j := range first.Jobs {
			ids = append(ids, j.JobID)
		}
	}
	if len(ids) < 4 || ids[0] != last.JobID || ids[1] != task.JobID ||
		len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		s.Errorf("listed %v", ids)
	}
	for query, want := range map[string]int{"processID=composite": 1, "processID=nothing": 0, "type=process&limit=1": 1,
		"type=openeo": 0, "datetime=2000-01-01T00:00:00Z/2001-01-01T00:00:00Z": 0,
		"datetime=2000-01-01T00:00:00Z/..&limit=1000": len(ids), "minDuration=100000": 0,
		"maxDuration=100000&limit=1000": len(ids), "limit=99999": len(ids), "limit=99999999999999999999": len(ids)} {
		if s.get("/jobs?"+query, &first); len(first.Jobs) != want {
			s.Errorf("%s: %d jobs, want %d", query, len(first.Jobs), want)
		}
	}
	s.get("/jobs?status=successful,dismissed&limit=1000", &first)
	for _, j := range first.Jobs {
		if j.Status != "successful" && j.Status != "dismissed" {
			s.Errorf("%+v", j)
		}
	}
	for _, query := range []string{"limit=0", "limit=-1", "limit=x", "limit=1e9", "limit=-99999999999999999999",
		"status=gone", "datetime=now", "minDuration=-1", "cursor=x"} {
		s.refused(s.do("GET", "/jobs?"+query, ""), 400, ogcExceptions+"invalid-query-parameter-value")
	}
	s.decode(s.do("DELETE", "/jobs/"+last.JobID, ""), 200, &last)
	if last.Status != "dismissed" {
		s.Errorf("dismissed: %+v", last)
	}
	s.refused(s.do("DELETE", "/jobs/"+last.JobID, ""), 410, "")
}

// TestOGCAPI_EchoHasOneName: the configuration keeps others from taking the name of the echo.
func TestOGCAPI_EchoHasOneName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{echo.Name, echo.Process} {
		if name != config.EchoName {
			t.Errorf("%s is not %s", name, config.EchoName)
		}
	}
}

// TestOGCAPI_Services runs a service of each protocol from its description to its results, in each form of results.
func TestOGCAPI_Services(t *testing.T) {
	t.Parallel()
	s := startOGC(t, simulator.Life{})
	for process, inputs := range map[string]string{
		"composite": `"spatial_extent": {"bbox": [5.05, 51.2, 5.15, 51.25], "crs": "http://www.opengis.net/def/crs/OGC/1.3/CRS84"}, "temporal_extent": {"value": ["2024-06-01", "2024-07-01"]}`,
		"ndvi":      `"bbox": {"bbox": [5.05, 51.2, 5.15, 51.25]}`,
	} {
		t.Run(process, func(t *testing.T) { s.with(t).service(process, inputs) })
	}
}

func (s ogcServer) service(process, inputs string) {
	var document struct {
		STAC struct {
			Value     json.RawMessage
			MediaType string
			Href      string
		}
	}
	location, _ := s.execute(process, `{"inputs": {`+inputs+`}, "response": "document"}`)
	if j := s.await(location); j.Status != "successful" {
		s.Fatalf("%+v", j)
	}
	s.get(location+"/results", &document)
	s.collection(document.STAC.Value)
	s.collection(s.do("GET", location+"/results/stac", "").text)

	location, _ = s.execute(process, `{"inputs": {`+inputs+
		`}, "response": "document", "outputs": {"stac": {"transmissionMode": "reference"}}}`)
	s.await(location)
	s.get(location+"/results", &document)
	s.collection(s.do("GET", document.STAC.Href, "").text)

	location, _ = s.execute(process, `{"inputs": {`+inputs+
		`}, "response": "raw", "outputs": {"stac": {"transmissionMode": "reference"}}}`)
	s.await(location)
	if a := s.do("GET", location+"/results", ""); a.status != 204 || a.header.Get("Link") != "<"+location+
		`/results/stac>; rel="stac"; type="application/json"` {
		s.Errorf("%d %v", a.status, a.header)
	}

	a := s.do("POST", "/processes/"+process+"/execution", `{"inputs": {`+inputs+`}}`, "Prefer",
		"respond-async, wait=60")
	if a.status != 200 {
		s.Errorf("%d %s", a.status, a.text)
	}
	s.collection(a.text)

	key := []string{"Idempotency-Key", "once-" + process}
	_, first := s.execute(process, `{"inputs": {`+inputs+`}}`, key...)
	if _, again := s.execute(process, `{"inputs": {`+inputs+`}}`, key...); again.JobID != first.JobID {
		s.Errorf("the key gives %s and %s", first.JobID, again.JobID)
	}
	s.await(s.base + "/jobs/" + first.JobID)
	s.dismissed(first.JobID)
	s.refused(s.do("GET", "/jobs/"+first.JobID, ""), 404, ogcExceptions+"no-such-job")
}

// dismissed dismisses a job, and once more.
func (s ogcServer) dismissed(id string) {
	s.Helper()
	var j ogcJob
	if s.decode(s.do("DELETE", "/jobs/"+id, ""), 200, &j); j.Status != "dismissed" || j.JobID != id ||
		linkTo(j.Links, "http://www.opengis.net/def/rel/ogc/1.0/results") != "" {
		s.Errorf("%+v", j)
	}
	s.refused(s.do("DELETE", "/jobs/"+id, ""), 410, "")
}

// collection fails unless a text is a STAC Collection with assets.
func (s ogcServer) collection(text []byte) {
	s.Helper()
	var c struct {
		Type, ID string
		Version  string `json:"stac_version"`
		Assets   map[string]struct{ Href string }
	}
	if err := json.Unmarshal(text, &c); err != nil || c.Type != "Collection" || c.Version == "" || c.ID == "" ||
		len(c.Assets) == 0 {
		s.Errorf("%v: %s", err, text)
	}
}

// TestOGCAPI_Tiles: the input eodispatch:tiles makes a task, whose result is a link to a Collection of all tiles.
func TestOGCAPI_Tiles(t *testing.T) {
	t.Parallel()
	s := startOGC(t, simulator.Life{})
	for process, inputs := range map[string]string{
		"composite": `"spatial_extent": {"bbox": [5.05, 51.05, 5.75, 51.45]}, "temporal_extent": ["2024-06-01", "2024-07-01"]`,
		"ndvi":      `"bbox": {"bbox": [5.05, 51.05, 5.75, 51.45]}`,
	} {
		t.Run(process, func(t *testing.T) { s.with(t).tiled(process, inputs) })
	}
	s.refused(s.do("POST", "/processes/ndvi/execution",
		`{"inputs": {"bbox": {"bbox": [5, 51, 6, 52]}, "eodispatch:tiles": "of gold"}}`), 400, "")
	s.refused(s.do("POST", "/processes/ndvi/execution", `{"inputs": {"eodispatch:tiles": "20x20km"}}`), 400, "")
	s.refused(s.do("POST", "/processes/ndvi/execution",
		`{"inputs": {"bbox": {"bbox": [-180, -80, 180, 80]}, "eodispatch:tiles": "20x20km"}}`), 400, "")
	s.refused(s.do("POST", "/processes/ndvi/execution",
		`{"inputs": {"bbox": "everywhere", "eodispatch:tiles": "20x20km"}}`), 400, "")
}

func (s ogcServer) tiled(process, inputs string) {
	location, j := s.execute(process, `{"inputs": {`+inputs+`, "eodispatch:tiles": "20x20km"}, "response": "document"}`)
	if !strings.HasPrefix(j.JobID, "t-") {
		s.Errorf("%+v", j)
	}
	if j = s.await(location); j.Status != "successful" || !strings.Contains(j.Message, "14 finished") {
		s.Fatalf("%+v", j)
	}
	var document struct{ STAC struct{ Href string } }
	s.get(location+"/results", &document)
	var c struct {
		Type  string
		Links []ogcLink
	}
	s.get(document.STAC.Href, &c)
	var items struct{ NumberMatched int }
	if err := json.Unmarshal(s.do("GET", linkTo(c.Links, "items"), "").text, &items); err != nil ||
		items.NumberMatched != 14 {
		s.Errorf("%v: %+v, %+v", err, c, items)
	}
	s.removed(location)
}

// removed removes a job that has ended. The response says what holds from then on.
func (s ogcServer) removed(location string) {
	s.Helper()
	var gone ogcJob
	if s.decode(s.do("DELETE", location, ""), 200, &gone); gone.Status != "dismissed" || gone.Progress != "" ||
		gone.Message == "" || len(gone.Links) != 1 || linkTo(gone.Links, "up") != s.base+"/jobs" {
		s.Errorf("%+v", gone)
	}
	s.refused(s.do("GET", location, ""), 404, ogcExceptions+"no-such-job")
	s.refused(s.do("GET", location+"/results", ""), 404, ogcExceptions+"no-such-job")
}

// TestOGCAPI_Dismiss: a job that runs is canceled, stays listed as dismissed, and has no results. A job that failed
// says why.
func TestOGCAPI_Dismiss(t *testing.T) {
	t.Parallel()
	s := startOGC(t, simulator.Life{Stuck: true, Run: time.Hour})
	for process, inputs := range map[string]string{
		"composite": `"spatial_extent": {"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25}, "temporal_extent": ["2024-06-01", "2024-07-01"]`,
		"ndvi":      `"bbox": {"bbox": [5.05, 51.2, 5.15, 51.25]}`,
	} {
		location, j := s.execute(process, `{"inputs": {`+inputs+`}}`)
		s.refused(s.do("GET", location+"/results", ""), 404, ogcExceptions+"result-not-ready")
		s.dismissed(j.JobID)
		if j = s.await(location); j.Status != "dismissed" {
			t.Errorf("%+v", j)
		}
		s.refused(s.do("GET", location+"/results", ""), 410, "")
	}
	_, j := s.execute("ndvi", `{"inputs": {"bbox": {"bbox": [5.05, 51.2, 5.15, 51.25]}}}`, "Prefer", "wait=1")
	if j.Status != "accepted" && j.Status != "running" {
		t.Errorf("after a wait of a second: %+v", j)
	}

	// a job that its platform does not cancel is dismissed all the same, also in the list
	s.platforms.OGC.Faults.Set(simulator.Fault{Route: "DELETE /jobs/{id}", Status: http.StatusServiceUnavailable})
	s.dismissed(j.JobID)
	var list struct{ Jobs []ogcJob }
	s.get("/jobs", &list)
	if at := slices.IndexFunc(list.Jobs, func(o ogcJob) bool { return o.JobID == j.JobID }); at < 0 ||
		list.Jobs[at].Status != "dismissed" {
		t.Errorf("the list says %+v", list.Jobs)
	}
}

// TestOGCAPI_Fails: the results of a job that failed are its failure.
func TestOGCAPI_Fails(t *testing.T) {
	t.Parallel()
	s := startOGC(t, simulator.Life{Fail: 1})
	location, _ := s.execute("ndvi", `{"inputs": {"bbox": {"bbox": [5.05, 51.2, 5.15, 51.25]}}}`)
	if j := s.await(location); j.Status != "failed" || j.Message == "" {
		t.Errorf("%+v", j)
	}
	a := s.do("GET", location+"/results", "")
	s.refused(a, 500, "")
	if !bytes.Contains(a.text, []byte("The job failed: ")) {
		t.Errorf("%s", a.text)
	}
}

// TestOGCAPI_InputsOfTheBroker: the format as the process offers it, the pin and labels are inputs that the description
// has and services do not get.
func TestOGCAPI_InputsOfTheBroker(t *testing.T) {
	t.Parallel()
	s := startOGC(t, simulator.Life{})
	unitJobs := strings.TrimSuffix(s.base, "/ogcapi")
	for process, inputs := range map[string]string{
		"composite": `"spatial_extent": {"bbox": [5.05, 51.2, 5.15, 51.25]}, "temporal_extent": ["2024-06-01", "2024-07-01"]`,
		"ndvi":      `"bbox": {"bbox": [5.05, 51.2, 5.15, 51.25]}`,
	} {
		var described struct {
			Inputs map[string]struct {
				MinOccurs int
				Schema    struct {
					Type string
					Enum []string
				}
			}
		}
		s.get("/processes/"+process, &described)
		formats := described.Inputs["eodispatch:format"].Schema.Enum
		if process == "composite" && len(formats) == 0 || described.Inputs["eodispatch:pin"].Schema.Type != "boolean" ||
			described.Inputs["eodispatch:labels"].Schema.Type != "object" {
			t.Errorf("%s is described with the inputs %+v", process, described.Inputs)
			continue
		}
		// the process ndvi names no formats, so that it may offer any
		last := append([]string{"png"}, formats...)[len(formats)]
		location, j := s.execute(process, `{"inputs": {`+inputs+`, "eodispatch:format": "`+last+
			`", "eodispatch:labels": {"season": "June"}}}`)
		if s.await(location).Status != "successful" {
			t.Errorf("%s in the format %s: %+v", process, last, s.await(location))
		}
		var stored struct {
			Format     string
			Labels     map[string]string
			Parameters map[string]any
		}
		if err := json.Unmarshal(s.do("GET", unitJobs+"/unit_jobs/"+j.JobID, "").text, &stored); err != nil ||
			stored.Format != last || stored.Labels["season"] != "June" ||
			stored.Parameters["eodispatch:format"] != nil {
			t.Errorf("%s is stored as %+v, %v", process, stored, err)
		}
		for _, refused := range []string{`"eodispatch:format": 1`, `"eodispatch:pin": "yes"`,
			`"eodispatch:labels": {"a": 1}`, `"eodispatch:labels": {"-": "x"}`, `"eodispatch:tile": "20x20km"`} {
			a := s.do("POST", "/processes/"+process+"/execution", `{"inputs": {`+inputs+`, `+refused+`}}`)
			if s.refused(a, 400, ""); !bytes.Contains(a.text, []byte("eodispatch:")) {
				t.Errorf("%s: %s", refused, a.text)
			}
		}
		s.refused(s.do("POST", "/processes/"+process+"/execution", `{"inputs": {`+inputs+
			`, "eodispatch:format": "gtiff"}, "outputs": {"stac": {"format": {"mediaType": "image/tiff"}}}}`), 400, "")
	}
	location, _ := s.execute("ndvi",
		`{"inputs": {"bbox": {"bbox": [5.05, 51.2, 5.15, 51.25]}}, "outputs": {"stac": {"format": {"mediaType": "image/tiff; application=geotiff"}}}}`)
	if j := s.await(location); j.Status != "successful" {
		t.Errorf("%+v", j)
	}
	const composite = `{"inputs": {"spatial_extent": {"bbox": [5.05, 51.2, 5.15, 51.25]}, "temporal_extent": ["2024-06-01", "2024-07-01"]`
	s.refused(s.do("POST", "/processes/composite/execution", composite+
		`}, "outputs": {"stac": {"format": {"mediaType": "application/x-gold"}}}}`), 400, "")
	s.refused(s.do("POST", "/processes/composite/execution", composite+`, "eodispatch:format": "gold"}}`), 400, "")
	// its platform keeps it
	s.refused(s.do("POST", "/processes/composite/execution", composite+`, "eodispatch:pin": true}}`), 400, "")
}
