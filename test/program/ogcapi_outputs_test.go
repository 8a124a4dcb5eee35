package program

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// ownServices are services of the simulated OGC server with outputs of several kinds, and one of openEO.
const ownServices = `[{id: numbers, title: Numbers, platform: ogc, application: statistics},
	{id: picture, title: Picture, platform: ogc, application: image},
	{id: file, title: File, platform: ogc, application: formats},
	{id: composite, title: Composite, platform: openeo, application: ndvi_composite}]`

const ownBox = `"bbox": {"bbox": [5.05, 51.2, 5.15, 51.25]}`

// ended runs a process as a job to its end and returns its address.
func (s ogcServer) ended(process, members string, headers ...string) string {
	s.Helper()
	if members != "" {
		members = ", " + members
	}
	location, _ := s.execute(process, `{"inputs": {`+ownBox+`}`+members+`}`, append(headers, "Prefer",
		"respond-async")...)
	if j := s.await(location); j.Status != "successful" {
		s.Fatalf("%s: %+v", process, j)
	}
	return location
}

// wants fails unless a response is the given JSON.
func (s ogcServer) wants(a reply, want string) {
	s.Helper()
	var got, wanted any
	if err := json.Unmarshal(a.text, &got); err != nil || json.Unmarshal([]byte(want), &wanted) != nil {
		s.Fatalf("%d %s, %v", a.status, a.text, err)
	}
	one, _ := json.Marshal(got)
	other, _ := json.Marshal(wanted)
	if a.status != http.StatusOK || !bytes.Equal(one, other) {
		s.Errorf("%d %s\nwant %s", a.status, a.text, want)
	}
}

// partsOf returns the parts of a multipart response by their ids.
func (s ogcServer) partsOf(a reply) map[string]string {
	s.Helper()
	media, params, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if a.status != http.StatusOK || err != nil || media != "multipart/related" || params["type"] == "" {
		s.Fatalf("%d %v %s", a.status, a.header, a.text)
	}
	parts := map[string]string{}
	for r := multipart.NewReader(bytes.NewReader(a.text), params["boundary"]); ; {
		part, err := r.NextPart()
		if err == io.EOF {
			return parts
		}
		if err != nil {
			s.Fatal(err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			s.Fatal(err)
		}
		parts[part.Header.Get("Content-ID")] = string(text) + part.Header.Get("Content-Location")
	}
}

// TestOGCAPI_OwnOutputs: a process has the outputs of its platform beside the Collection, in each form of results.
func TestOGCAPI_OwnOutputs(t *testing.T) {
	t.Parallel()
	s, _ := startOGCWith(t, simulator.Life{}, ownServices)
	for process, want := range map[string][]string{"numbers": {"mean", "stac", "unit"}, "picture": {"image", "stac"},
		"composite": {"stac"}} {
		var d ogcProcessDocument
		if s.get("/processes/"+process, &d); !slices.Equal(slices.Sorted(maps.Keys(d.Outputs)), want) {
			t.Errorf("%s: %+v", process, d.Outputs)
		}
	}
	t.Run("numbers", func(t *testing.T) { s.with(t).ownNumbers() })
	t.Run("by reference", func(t *testing.T) { s.with(t).ownReferences() })
	t.Run("bytes", func(t *testing.T) { s.with(t).ownBytes() })
	for _, body := range []string{`"outputs": {"other": {}}`, `"outputs": {"../mean": {}}`} {
		s.refused(s.do("POST", "/processes/numbers/execution", `{"inputs": {`+ownBox+`}, `+body+`}`), 400,
			ogcExceptions+"no-such-output")
	}
	for _, body := range []string{`"outputs": {"mean": {"transmissionMode": "pigeon"}}`,
		`"outputs": {"mean": {"format": "text"}}`, `"outputs": {"mean": 1}`, `"outputs": []`} {
		s.refused(s.do("POST", "/processes/numbers/execution", `{"inputs": {`+ownBox+`}, `+body+`}`), 400, "")
	}
	s.refused(s.do("POST", "/processes/numbers/execution", `{"inputs": {`+ownBox+
		`, "eodispatch:format": "json"}, "outputs": {"mean": {}}}`), 400, "")
}

func (s ogcServer) ownNumbers() {
	at := s.ended("numbers", `"response": "document"`)
	var all map[string]json.RawMessage
	s.get(at+"/results", &all)
	var whole struct{ Value json.RawMessage }
	if string(all["mean"]) != "0.77" || string(all["unit"]) != `"one"` || len(all) != 3 ||
		json.Unmarshal(all["stac"], &whole) != nil {
		s.Errorf("%s", all)
	}
	s.collection(whole.Value)
	s.wants(s.do("GET", at+"/results/mean", ""), `0.77`)
	s.wants(s.do("GET", at+"/results?outputs=unit", ""), `{"unit": "one"}`)
	s.collection(s.do("GET", at+"/results/stac", "").text)
	for _, name := range []string{"median", "..", "%2e%2e", "mean%2F..", "%00", strings.Repeat("x", 5_000)} {
		if a := s.do("GET", at+"/results/"+name, ""); a.status != http.StatusNotFound {
			s.Errorf("output %.20s: %d %.200s", name, a.status, a.text)
		}
	}
	// as it is
	at = s.ended("numbers", `"outputs": {"mean": {}}`)
	s.wants(s.do("GET", at+"/results", ""), `0.77`)
	at = s.ended("numbers", `"outputs": {"mean": {}, "unit": {"transmissionMode": "reference"}}`)
	if parts := s.partsOf(s.do("GET", at+"/results", "")); !maps.Equal(parts, map[string]string{"mean": "0.77",
		"unit": at + "/results/unit"}) {
		s.Errorf("%v", parts)
	}
	s.wants(s.do("GET", at+"/results", "", "Accept", "application/json"),
		`{"mean": 0.77, "unit": {"href": "`+at+`/results/unit", "type": "application/json"}}`)
	s.collection(s.do("GET", s.ended("numbers", "")+"/results", "").text)
}

func (s ogcServer) ownReferences() {
	at := s.ended("numbers",
		`"outputs": {"mean": {"transmissionMode": "reference"}, "unit": {"transmissionMode": "reference"}}`)
	a := s.do("GET", at+"/results", "")
	if links := a.header.Values("Link"); a.status != http.StatusNoContent || len(links) != 2 ||
		!slices.Contains(links, "<"+at+`/results/mean>; rel="mean"; type="application/json"`) {
		s.Errorf("%d %v", a.status, a.header)
	}
	at = s.ended("numbers", `"outputs": {"mean": {}}, "response": "document"`)
	s.wants(s.do("GET", at+"/results", "", "Prefer", "return=minimal"),
		`{"mean": {"href": "`+at+`/results/mean", "type": "application/json"}}`)
	// a file of the platform, in the format that the output is asked for
	at = s.ended("file",
		`"outputs": {"result": {"format": {"mediaType": "application/geo+json"}}}, "response": "document"`)
	var document struct{ Result ogcLink }
	if s.get(at+"/results", &document); document.Result.Type != "application/geo+json" ||
		!strings.HasPrefix(document.Result.Href, s.platforms.OGCURL) {
		s.Errorf("%+v", document)
	}
	var one ogcLink
	if s.get(at+"/results/result", &one); one.Href != document.Result.Href {
		s.Errorf("%+v", one)
	}
}

// ownBytes: what is not JSON comes as it is, or in JSON to a client that accepts nothing else.
func (s ogcServer) ownBytes() {
	at := s.ended("picture", `"outputs": {"image": {}}`)
	a := s.do("GET", at+"/results", "")
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "image/tiff") ||
		!bytes.HasPrefix(a.text, []byte("II*\x00")) || a.header.Get("Content-Security-Policy") != "sandbox" {
		s.Errorf("%d %v %.20q", a.status, a.header, a.text)
	}
	whole := a.text
	if a := s.do("GET", at+"/results/image", "", "Accept", "image/*;q=0.5, application/json;q=0"); !bytes.Equal(a.text,
		whole) {
		s.Errorf("%d %v", a.status, a.header)
	}
	var q struct {
		Value               []byte
		Encoding, MediaType string
	}
	s.decode(s.do("GET", at+"/results/image", "", "Accept", "application/json"), 200, &q)
	if !bytes.Equal(q.Value, whole) || q.Encoding != "base64" || !strings.HasPrefix(q.MediaType, "image/tiff") {
		s.Errorf("%s %s, %d bytes", q.Encoding, q.MediaType, len(q.Value))
	}
	s.refused(s.do("GET", at+"/results/image", "", "Accept", "text/html"), http.StatusNotAcceptable, "")
}

// TestOGCAPI_ViewOfAPlatform: below the name of a platform, clients of the platform find what it has.
func TestOGCAPI_ViewOfAPlatform(t *testing.T) {
	t.Parallel()
	s, _ := startOGCWith(t, simulator.Life{}, ownServices)
	whole := s
	other, _ := whole.execute("composite",
		`{"inputs": {"spatial_extent": {"bbox": [5.05, 51.2, 5.15, 51.25]}, "temporal_extent": ["2024-06-01", "2024-07-01"]}}`)
	s.base += "/ogc"
	s.landingPage()
	var list, first struct {
		Processes []ogcProcessDocument
		Links     []ogcLink
	}
	s.get("/processes", &list)
	s.get("/processes?limit=1", &first)
	if len(list.Processes) < 10 || len(first.Processes) != 1 || linkTo(first.Links, "next") == "" {
		t.Fatalf("%d processes, %+v", len(list.Processes), first)
	}
	for _, p := range list.Processes {
		var d ogcProcessDocument
		if s.get(linkTo(p.Links, "self"), &d); d.ID != p.ID || d.Inputs["eodispatch:labels"].Schema == nil ||
			d.Outputs["stac"].Schema == nil || linkTo(d.Links,
			"http://www.opengis.net/def/rel/ogc/1.0/execute") != s.base+"/processes/"+p.ID+"/execution" {
			t.Errorf("%+v", d)
		}
	}
	t.Run("while one waits", func(t *testing.T) { s.with(t).awaitedInView() })
	t.Run("as a job", func(t *testing.T) { s.with(t).jobsInView(other[strings.LastIndex(other, "/")+1:]) })
	t.Run("a namespace", func(t *testing.T) { s.with(t).namespaceInView() })
	s.T = t
	s.refused(s.do("GET", "/processes/nothing", ""), 404, ogcExceptions+"no-such-process")
	s.refused(s.do("POST", "/processes/nothing/execution", `{"inputs": {}}`), 404, ogcExceptions+"no-such-process")
	for _, path := range []string{"/nothing/processes", "/openeo/processes", "/ogc/../ogc/jobs", "/ogc/%2e%2e/jobs",
		"/ogc/a%2Fb/jobs", "/ogc/" + strings.Repeat("x", 300) + "/jobs", "/jobs/processes/x", "/ogc/processes/a%2Fb"} {
		if a := whole.do("GET", path, ""); a.status != http.StatusNotFound {
			t.Errorf("%.40s: %d %.200s", path, a.status, a.text)
		}
	}
}

// awaitedInView: an execution without a preference runs as it does at the platform.
func (s ogcServer) awaitedInView() {
	const at = "/processes/statistics/execution"
	s.wants(s.do("POST", at, `{"inputs": {`+ownBox+`}, "response": "document"}`), `{"mean": 0.77, "unit": "one"}`)
	if a := s.do("POST", at, `{"inputs": {`+ownBox+`}}`); !strings.HasPrefix(a.header.Get("Content-Type"),
		"multipart/related") {
		s.Errorf("%d %v", a.status, a.header)
	}
	a := s.do("POST", "/processes/image/execution", `{"inputs": {`+ownBox+`}}`)
	if a.status != 200 || !bytes.HasPrefix(a.text, []byte("II*\x00")) {
		s.Errorf("%d %v", a.status, a.header)
	}
	s.refused(s.do("POST", at, `{"inputs": {}}`), 400, "")
	s.refused(s.do("POST", at, `{"inputs"`), 400, "")
	s.refused(s.do("POST", at, `{"inputs": {`+ownBox+`}, "outputs": {"other": {}}}`), 400,
		ogcExceptions+"no-such-output")
}

func (s ogcServer) jobsInView(other string) {
	at := s.ended("statistics", `"response": "document"`)
	s.wants(s.do("GET", at+"/results", ""), `{"mean": 0.77, "unit": "one"}`)
	s.collection(s.do("GET", at+"/results/stac", "").text)
	if at := s.ended("image", ""); !bytes.HasPrefix(s.do("GET", at+"/results", "").text, []byte("II*\x00")) {
		s.Error("one output is not as it is")
	}
	at = s.ended("ndvi", `"outputs": {"stac": {}}`)
	s.collection(s.do("GET", at+"/results", "").text)
	_, task := s.execute("ndvi",
		`{"inputs": {"bbox": {"bbox": [5.05, 51.05, 5.75, 51.45]}, "eodispatch:tiles": "20x20km"}}`)
	var list struct{ Jobs []ogcJob }
	if s.get("/jobs?limit=1000", &list); len(list.Jobs) != 4 || list.Jobs[0].JobID != task.JobID {
		s.Errorf("%+v", list)
	}
	for _, path := range []string{"", "/results", "/results/stac", "/inputs", "/prov"} {
		s.refused(s.do("GET", "/jobs/"+other+path, ""), 404, ogcExceptions+"no-such-job")
	}
	for _, method := range []string{"DELETE", "PATCH"} {
		s.refused(s.do(method, "/jobs/"+other, "{}"), 404, ogcExceptions+"no-such-job")
	}
}

// namespaceInView: a namespace of the platform is a view, too.
func (s ogcServer) namespaceInView() {
	whole := s.base
	s.base += "/apex"
	s.landingPage()
	at := s.ended("statistics", `"response": "document"`)
	s.wants(s.do("GET", at+"/results", ""), `{"mean": 0.77, "unit": "one"}`)
	var list struct{ Jobs []ogcJob }
	if s.get("/jobs", &list); len(list.Jobs) != 1 || list.Jobs[0].ProcessID != "statistics" {
		s.Errorf("%+v", list)
	}
	var j ogcJob
	s.get(whole+"/jobs/"+list.Jobs[0].JobID, &j)
	var d ogcProcessDocument
	if s.get(linkTo(j.Links, "process"), &d); d.ID != "statistics" {
		s.Errorf("%+v, %+v", j, d)
	}
}

// TestOGCAPI_JobManagement: a job that is created is changed and started by further requests (Part 4).
func TestOGCAPI_JobManagement(t *testing.T) {
	t.Parallel()
	s, p := startOGCWith(t, simulator.Life{}, ownServices)
	a := s.do("POST", "/jobs", `{"process": "`+s.base+`/processes/numbers", "inputs": {`+ownBox+
		`}, "response": "document"}`, "Prefer", `status="created"`)
	var j ogcJob
	s.decode(a, http.StatusCreated, &j)
	at := a.header.Get("Location")
	if j.Status != "created" || at != s.base+"/jobs/"+j.JobID || j.ProcessID != "numbers" ||
		a.header.Get("Preference-Applied") != "status=created" {
		t.Fatalf("%+v %v", j, a.header)
	}
	s.unstartedJob(at, j.JobID)
	s.decode(s.do("PATCH", at, `{"inputs": {"bbox": {"bbox": [4, 51, 4.1, 51.1]}}, "outputs": {"unit": {}}}`), 200, &j)
	s.wants(s.do("GET", at+"/inputs", ""),
		`{"inputs": {"bbox": {"bbox": [4, 51, 4.1, 51.1]}}, "outputs": {"unit": {}}}`)
	for _, body := range []string{`{"inputs": {"bbox": null}}`, `{"inputs": 1}`, `[]`, `{"process": "file"}`,
		`{"inputs": {"eodispatch:tiles": "20x20km"}}`, `{"outputs": {"other": {}}}`, `{`} {
		if a := s.do("PATCH", at, body); a.status != 400 {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	if s.decode(s.do("POST", at+"/results", ""), 200, &j); j.Status == "created" {
		t.Errorf("started: %+v", j)
	}
	if j := s.await(at); j.Status != "successful" {
		t.Fatalf("%+v", j)
	}
	s.wants(s.do("GET", at+"/results", ""), `{"unit": "one"}`)
	s.decode(s.do("POST", at+"/results", ""), 200, &j)
	s.refused(s.do("PATCH", at, `{"inputs": {}}`), http.StatusLocked,
		"http://www.opengis.net/def/exceptions/ogcapi-processes-4/1.0/locked")
	var prov struct{ Activity, Entity map[string]any }
	if s.get(at+"/prov", &prov); len(prov.Activity) != 1 || len(prov.Entity) != 3 {
		t.Errorf("%+v", prov)
	}
	var defined struct{ Entity string }
	if s.get(at+"/definition", &defined); defined.Entity != s.base+"/processes/numbers" {
		t.Errorf("%+v", defined)
	}
	s.createdTask()
	s.createdWrongly()
	if strings.Contains(p.Log.String(), "request failed") {
		t.Errorf("the program logged a failure:\n%s", p.Log)
	}
}

// unstartedJob: a job that was not started is listed as created, has no results, and is none of openEO's.
func (s ogcServer) unstartedJob(at, id string) {
	s.refused(s.do("GET", at+"/results", ""), 404, ogcExceptions+"result-not-ready")
	var list struct{ Jobs []ogcJob }
	for query, want := range map[string]int{"status=created": 1, "status=accepted": 0, "processID=numbers": 1,
		"processID=" + s.base + "/processes/numbers": 1, "processID=other": 0} {
		if s.get("/jobs?"+query, &list); len(list.Jobs) != want || want == 1 && (list.Jobs[0].JobID != id ||
			list.Jobs[0].Status != "created") {
			s.Errorf("%s: %+v", query, list)
		}
	}
	openEO := strings.TrimSuffix(s.base, "/ogcapi") + "/openeo/1.2/jobs"
	var batch struct{ Jobs []any }
	if s.get(openEO, &batch); len(batch.Jobs) != 0 {
		s.Errorf("openEO lists %v", batch.Jobs)
	}
	for method, path := range map[string]string{"GET": "/" + id, "DELETE": "/" + id, "POST": "/" + id + "/results"} {
		if a := s.do(method, openEO+path, ""); a.status != 404 {
			s.Errorf("openEO, %s: %d %s", method, a.status, a.text)
		}
	}
}

// createdTask: a job over tiles that is created becomes a task. Without the preference it starts at once.
func (s ogcServer) createdTask() {
	const tiles = `"inputs": {"bbox": {"bbox": [5.05, 51.05, 5.75, 51.45]}, "eodispatch:tiles": "20x20km"}`
	var j ogcJob
	s.decode(s.do("POST", "/jobs", `{"process": "numbers", "status": "create", `+tiles+`}`), 201, &j)
	if !strings.HasPrefix(j.JobID, "t-") {
		s.Errorf("%+v", j)
	}
	s.decode(s.do("POST", "/jobs/"+j.JobID+"/results", ""), 200, &j)
	if j := s.await("/jobs/" + j.JobID); j.Status != "successful" {
		s.Errorf("%+v", j)
	}
	var prov struct{ Activity map[string]any }
	if s.get("/jobs/"+j.JobID+"/prov", &prov); len(prov.Activity) != 15 {
		s.Errorf("%d activities of 14 jobs and their task", len(prov.Activity))
	}
	s.decode(s.do("POST", "/jobs", `{"process": "numbers", `+tiles+`}`), 201, &j)
	if j.Status == "created" {
		s.Errorf("%+v", j)
	}
	s.createdOnce(`{"process": "numbers", "inputs": {` + ownBox + `}}`)
	s.createdOnce(`{"process": "numbers", ` + tiles + `}`)
	s.decode(s.do("POST", "/jobs", `{"process": "numbers", `+tiles+`}`, "Prefer", "status=created"), 201, &j)
	s.decode(s.do("DELETE", "/jobs/"+j.JobID, ""), 200, &j)
	s.refused(s.do("GET", "/jobs/"+j.JobID, ""), 404, ogcExceptions+"no-such-job")
}

// createdOnce creates a job by a key, also after it was started.
func (s ogcServer) createdOnce(body string) {
	s.Helper()
	keyed := []string{"Prefer", "status=created", "Idempotency-Key", "key of " + strconv.Itoa(len(body))}
	var first, again ogcJob
	s.decode(s.do("POST", "/jobs", body, keyed...), 201, &first)
	s.decode(s.do("POST", "/jobs", body, keyed...), 201, &again)
	if first.Status != "created" || again.JobID != first.JobID || again.Status != "created" {
		s.Errorf("%+v, then %+v", first, again)
	}
	s.decode(s.do("POST", "/jobs/"+first.JobID+"/results", ""), 200, &again)
	s.decode(s.do("POST", "/jobs", body, keyed...), 201, &again)
	if again.JobID != first.JobID || again.Status == "created" {
		s.Errorf("%+v, and after the start %+v", first, again)
	}
	for _, other := range [][]string{{body + " ", keyed[1]}, {body, "respond-async"}} {
		if a := s.do("POST", "/jobs", other[0], "Prefer", other[1], keyed[2], keyed[3]); a.status != 400 {
			s.Errorf("the key of another request: %d %s", a.status, a.text)
		}
	}
}

func (s ogcServer) createdWrongly() {
	created := []string{"Prefer", "status=created"}
	for _, body := range []string{``, `[]`, `{}`, `{"process": 1}`, `{"process": "numbers"}`, `{"process": "numbers"`,
		`{"process": "numbers", "inputs": {"bbox": {"bbox": [500, 51, 501, 52]}}}`,
		`{"process": "http://h/processes/%zz", "inputs": {}}`} {
		if a := s.do("POST", "/jobs", body, created...); a.status != 400 {
			s.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	for _, id := range []string{"nothing", "http://h/processes/nothing", "../numbers"} {
		s.refused(s.do("POST", "/jobs", `{"process": "`+id+`", "inputs": {}}`, created...), 404, ogcExceptions+
			"no-such-process")
	}
	s.refused(s.do("PATCH", "/jobs/4711", `{"inputs": {}}`), 404, ogcExceptions+"no-such-job")
	s.refused(s.do("POST", "/jobs/4711/results", ""), 404, ogcExceptions+"no-such-job")
	s.refused(s.do("GET", "/jobs/4711/inputs", ""), 404, ogcExceptions+"no-such-job")
	s.refused(s.do("GET", "/jobs/4711/prov", ""), 404, ogcExceptions+"no-such-job")
	var j ogcJob
	s.decode(s.do("POST", "/jobs", `{"process": "numbers", "inputs": {`+ownBox+`}}`, created...), 201, &j)
	mine := s.token
	s.token = ""
	s.refused(s.do("POST", "/jobs/"+j.JobID+"/results", ""), 401, "")
	s.token = mine
	s.decode(s.do("DELETE", "/jobs/"+j.JobID, ""), 200, &j)
	s.refused(s.do("POST", "/jobs/"+j.JobID+"/results", ""), 404, ogcExceptions+"no-such-job")
}
