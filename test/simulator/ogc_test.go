package simulator_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// guest returns a client of an OGC server that accepts JSON.
func guest(t *testing.T, s *simulator.OGC) caller {
	return caller{t: t, client: serve(t, s), base: "http://ogc.test",
		header: http.Header{"Accept": {"application/json"}}}
}

// prefer is c with a Prefer header.
func (c caller) prefer(preference string) caller {
	c.header = c.header.Clone()
	c.header.Set("Prefer", preference)
	return c
}

const bbox = `"bbox":{"bbox":[4,51,4.2,51.1]}`

// Processes in the manner of other servers take what those take, and refuse what those refuse.
func TestOGC_InTheMannerOfOthers(t *testing.T) {
	const area = `"area":{"bbox":[4,51,4.2,51.1],"crs":"EPSG:4326"}`
	c := guest(t, &simulator.OGC{ZOO: true})
	for inputs, status := range map[string]int{
		area + `,"images":"aGVsbG8="`: 200,
		area +
			`,"images":[{"href":"https://data.example/a.tif","type":"image/tiff"},{"value":"aGVsbG8=","mediaType":"image/jp2"}],"levels":[1,2]`: 200,
		area + `,"images":[7]`:                                        400,
		area + `,"images":"aGVsbG8=","levels":"1"`:                    400,
		`"area":{"bbox":[4,51,4.2,51.1]},"images":"aGVsbG8="`:         400,
		`"area":{"bbox":[4,51,4.2,51.1],"crs":4326},"images":"aGVs="`: 400,
	} {
		c.must(status, "POST /processes/scenes/execution", execution(inputs))
	}
	for inputs, status := range map[string]int{`,"seconds":4,"mode":"max"`: 204, `,"seconds":[4],"mode":[]`: 204,
		`,"seconds":"4"`: 400} {
		c.must(status, "POST /processes/smooth/execution", execution(bbox+inputs))
	}
	if r := c.must(400, "GET /ns/processes/scenes", ""); r.json("detail") != "The resource is not available" {
		t.Errorf("below a namespace: %s", r.body)
	}
	if r := c.must(200, "GET "+submit(c, "scenes", area+`,"images":"aGVsbG8="`), ""); r.json("progress") != nil ||
		r.json("id") != r.json("jobID") {
		t.Errorf("an ended job: %s", r.body)
	}
}

func execution(inputs string) string { return `{"inputs":{` + inputs + `}}` }

// submit creates a job and returns its path.
func submit(c caller, process, inputs string) string {
	c.t.Helper()
	r := c.prefer("respond-async").must(201, "POST /processes/"+process+"/execution", execution(inputs))
	path, ok := strings.CutPrefix(r.header.Get("Location"), c.base)
	if !ok || path != fmt.Sprint("/jobs/", r.json("jobID")) || r.json("type") != "process" {
		c.t.Fatalf("Location %q, %s", r.header.Get("Location"), r.body)
	}
	return path
}

func TestOGC_PagesAreHTMLUnlessJSONIsAccepted(t *testing.T) {
	c := guest(t, &simulator.OGC{})
	anything := c
	anything.header = http.Header{"Accept": {"*/*"}}
	for _, path := range []string{"/", "/conformance", "/processes", "/processes/echo", "/jobs"} {
		if r := anything.must(200, "GET "+path, ""); !strings.HasPrefix(string(r.body), "<!doctype html>") ||
			r.header.Get("Content-Type") != "text/html" {
			t.Errorf("%s for */*: %s", path, r.body)
		}
		for _, r := range []response{c.must(200, "GET "+path, ""), anything.must(200, "GET "+path+"?f=json", "")} {
			if r.json() == nil {
				t.Errorf("%s is not JSON: %s", path, r.body)
			}
		}
	}
	c.refused(404, "title", "not-found", "GET /jobs/x/y/z", "")
}

func TestOGC_DescribesProcesses(t *testing.T) {
	c := guest(t, &simulator.OGC{})
	var list struct {
		Processes []struct {
			ID                string
			JobControlOptions []string
		}
	}
	if err := json.Unmarshal(c.must(200, "GET /ns/processes", "").body, &list); err != nil ||
		len(list.Processes) != 14 {
		t.Fatalf("%+v, %v", list, err)
	}
	echo := c.must(200, "GET /ns/processes/echo", "")
	for _, input := range []string{"string", "integer", "number", "boolean", "geometry", "bbox", "interval", "strings",
		"marker"} {
		if echo.json("inputs", input, "schema", "type") == nil {
			t.Errorf("echo has no input %s", input)
		}
	}
	if !strings.Contains(string(echo.body), `"http://ogc.test/ns/processes/echo/execution"`) {
		t.Errorf("links leave the namespace: %s", echo.body)
	}
	c.refused(404, "type", "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/no-such-process",
		"GET /processes/nope", "")
	if got := c.must(200, "GET /processes/ndvi", "").json("inputs", "bbox", "minOccurs"); got != 1.0 {
		t.Errorf("bbox may be absent: minOccurs %v", got)
	}
}

func TestOGC_ModeFollowsTheStandardsTable(t *testing.T) {
	for _, row := range []struct {
		process, prefer string
		sync            bool
		status          int
	}{
		{"async-only", "", false, 201},
		{"async-only", "", true, 201},
		{"async-only", "respond-async", false, 201},
		{"sync-only", "", false, 200},
		{"sync-only", "respond-async", false, 200},
		{"ndvi", "", false, 200},
		{"ndvi", "respond-async", false, 201},
		{"ndvi", "return=minimal, Respond-Async; x=1", false, 201},
		{"ndvi", "respond-async", true, 200},
		{"ndvi", "wait=10", false, 200},
	} {
		s := &simulator.OGC{Sync: row.sync}
		c := guest(t, s)
		if row.prefer != "" {
			c = c.prefer(row.prefer)
		}
		r, err := c.try("POST /processes/"+row.process+"/execution", execution(bbox+`,"marker":"m"`))
		if err != nil || r.status != row.status {
			t.Errorf("%+v: %d %s %v", row, r.status, r.body, err)
		}
		if got := s.Oracle.Of("m"); got != (simulator.Counts{Creates: 1, Starts: 1, Runs: 1}) {
			t.Errorf("%+v: oracle %+v", row, got)
		}
	}
}

func TestOGC_LifeCycle(t *testing.T) {
	now := newClock()
	s := &simulator.OGC{Now: now.Now, Marker: "tag",
		Life: simulator.Life{Queue: 10 * time.Second, Run: 40 * time.Second}}
	c := guest(t, s)
	job := submit(c, "ndvi", bbox+`,"tag":"one"`)
	for _, step := range []struct {
		after    time.Duration
		status   string
		progress float64
	}{{0, "accepted", 0}, {10 * time.Second, "running", 0}, {20 * time.Second, "running", 50}} {
		now.pass(step.after)
		if r := c.must(200, "GET "+job, ""); r.json("status") != step.status || r.json("progress") != step.progress {
			t.Errorf("%s, want %s %v", r.body, step.status, step.progress)
		}
		c.refused(404, "title", "result-not-ready", "GET "+job+"/results", "")
	}
	now.pass(20 * time.Second)
	if r := c.must(200, "GET "+job, ""); r.json("status") != "successful" || r.json("processID") != "ndvi" ||
		!strings.Contains(string(r.body), job+"/results?f=json") {
		t.Errorf("at the end %s", r.body)
	}
	results := c.must(200, "GET "+job+"/results", "")
	if results.json("type") != "Collection" ||
		fmt.Sprint(results.json("extent", "spatial", "bbox")) != "[[4 51 4.2 51.1]]" {
		t.Errorf("results %s", results.body)
	}
	for _, asset := range results.json("assets").(map[string]any) {
		if r := c.must(200, "GET "+asset.(map[string]any)["href"].(string), ""); !bytes.HasPrefix(r.body,
			[]byte("II*\x00")) {
			t.Errorf("the asset is %.20q", r.body)
		}
	}
	if got := c.must(200, "DELETE "+job, "").json("status"); got != "dismissed" {
		t.Errorf("dismissed: %v", got)
	}
	c.refused(404, "title", "no-such-job", "GET "+job, "")

	second := submit(c, "ndvi", bbox+`,"tag":"two"`)
	c.must(200, "DELETE "+second, "")
	now.pass(time.Hour)
	if got := c.must(200, "GET "+second, "").json("status"); got != "dismissed" {
		t.Errorf("a job that was dismissed while it ran is %v", got)
	}
	if got := s.Oracle.Of("two"); got != (simulator.Counts{Creates: 1, Starts: 1, Runs: 1, Cancels: 1}) {
		t.Errorf("oracle %+v", got)
	}
}

func TestOGC_Failure(t *testing.T) {
	c := guest(t, &simulator.OGC{})
	job := submit(c, "fail", bbox)
	if r := c.must(200, "GET "+job, ""); r.json("status") != "failed" || r.json("message") == nil {
		t.Errorf("status %s", r.body)
	}
	c.refused(500, "title", "process-failed", "GET "+job+"/results", "")
	c.refused(500, "title", "process-failed", "POST /processes/fail/execution", execution(bbox))
}

func TestOGC_InputsAreChecked(t *testing.T) {
	s := &simulator.OGC{}
	c := guest(t, s)
	for _, body := range []string{
		`{bad`, `{"inputs":[]}`, execution(`"integer":"1"`), execution(`"integer":1.5`), execution(`"number":null`),
		execution(`"geometry":{"type":"Point","coordinates":[1,2]}`), execution(`"strings":"a"`),
	} {
		c.refused(400, "title", "invalid-input", "POST /processes/echo/execution", body)
	}
	c.refused(400, "title", "invalid-input", "POST /processes/ndvi/execution", execution(""))
	if sum := s.Oracle.Sum(); sum.Creates != 0 {
		t.Errorf("refused requests made %d jobs", sum.Creates)
	}
	inputs :=
		`"integer":12345678901234567890,"number":1.10,"nothing":null,"string":"Zürich < 5","boolean":true,"object":{"value":{"href":"x"}},` +
			`"geometry":{"value":{"type":"Point","coordinates":[1.0,2]}},"bbox":{"bbox":[1,2,3,4]},"strings":["a"],"interval":["2024-01-01T00:00:00Z","2024-02-01T00:00:00Z"]`
	r := c.must(200, "POST /processes/echo/execution", execution(inputs))
	var got map[string]json.RawMessage
	if err := json.Unmarshal(r.body, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"integer": "12345678901234567890", "number": "1.10", "nothing": "null",
		"geometry": `{"type":"Point","coordinates":[1.0,2]}`} {
		if string(got[name]) != want {
			t.Errorf("%s came back as %s, want %s", name, got[name], want)
		}
	}
}

func TestOGC_ResultShapes(t *testing.T) {
	c := guest(t, &simulator.OGC{})
	tiff := []byte("II*\x00")
	answer := func(status int, process, response string) response {
		t.Helper()
		return c.must(status, "POST /processes/"+process+"/execution",
			fmt.Sprintf(`{"inputs":{%s},"response":%q}`, bbox, response))
	}
	run := func(process, response string) response { t.Helper(); return answer(200, process, response) }
	if r := run("ndvi-reference", "document"); r.json("result", "href") == nil ||
		r.json("result", "type") != "image/tiff; application=geotiff" {
		t.Errorf("by reference: %s", r.body)
	}
	if link := answer(204, "ndvi-reference", "raw").header.Get("Link"); !strings.Contains(link, `rel="result"`) {
		t.Errorf("by reference, raw: %q", link)
	}
	if r := run("formats", "document"); r.json("result", "type") != "image/tiff; application=geotiff" {
		t.Errorf("no choice of a format: %s", r.body)
	}
	chosen := `{"inputs":{` + bbox + `},"response":"document","outputs":{"result":{"format":{"mediaType":"MEDIA"}}}}`
	if r := c.must(200, "POST /processes/formats/execution", strings.Replace(chosen, "MEDIA", "application/x-netcdf",
		1)); r.json("result", "type") != "application/x-netcdf" {
		t.Errorf("a choice of a format: %s", r.body)
	}
	c.refused(400, "title", "invalid-input", "POST /processes/formats/execution", strings.Replace(chosen, "MEDIA",
		"text/csv", 1))
	if r := run("image", "raw"); !bytes.HasPrefix(r.body, tiff) ||
		r.header.Get("Content-Type") != "image/tiff; application=geotiff" {
		t.Errorf("bytes: %.20q", r.body)
	}
	encoded := run("image", "document")
	if data, err := base64.StdEncoding.DecodeString(fmt.Sprint(encoded.json("image", "value"))); err != nil ||
		!bytes.HasPrefix(data, tiff) {
		t.Errorf("bytes in a document: %.80s", encoded.body)
	}
	if r := run("statistics", "document"); r.json("mean") != 0.3 || r.json("unit") != "one" {
		t.Errorf("literals: %s", r.body)
	}
	if got := run("statistics", "raw").parts(t); !slices.Equal(got, []string{"mean=0.3", `unit="one"`}) {
		t.Errorf("parts %v", got)
	}
	if r := run("ndvi", "document"); r.json("result", "value", "type") != "Collection" {
		t.Errorf("collection in a document: %s", r.body)
	}
	if r := run("ndvi-item", "raw"); r.json("type") != "Feature" ||
		r.header.Get("Content-Type") != "application/geo+json" {
		t.Errorf("item: %s", r.body)
	}
	features := run("ndvi-catalogue", "raw").json("features").([]any)
	link := features[0].(map[string]any)["links"].([]any)[0].(map[string]any)
	if link["rel"] != "collection" || c.must(200, "GET "+link["href"].(string), "").json("type") != "Collection" {
		t.Errorf("link %v", link)
	}
}

// parts returns the parts of a multipart response, each as id=content.
func (r response) parts(t *testing.T) (all []string) {
	_, params, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	for reader := multipart.NewReader(bytes.NewReader(r.body), params["boundary"]); ; {
		part, err := reader.NextPart()
		if err != nil {
			return all
		}
		data, _ := io.ReadAll(part)
		all = append(all, part.Header.Get("Content-ID")+"="+string(data))
	}
}

func TestOGC_NamespacesAndAccountsAreApart(t *testing.T) {
	s := &simulator.OGC{Check: func(token string) (string, error) {
		if token == "bad" {
			return "", errors.New("bad")
		}
		return token, nil
	}}
	c := guest(t, s)
	c.bearer = "ann"
	inNamespace := c
	inNamespace.base += "/f00"
	job := submit(inNamespace, "ndvi", bbox)
	inNamespace.must(200, "GET "+job+"/results", "")
	c.refused(404, "title", "no-such-job", "GET "+job, "")
	if jobs := c.must(200, "GET /jobs", "").json("jobs").([]any); len(jobs) != 0 {
		t.Errorf("the other namespace lists %v", jobs)
	}
	bob := inNamespace
	bob.bearer = "bob"
	bob.refused(404, "title", "no-such-job", "GET "+job, "")
	for _, bearer := range []string{"bad", ""} {
		bob.bearer = bearer
		bob.refused(401, "title", "unauthorized", "GET "+job, "")
		bob.must(200, "GET /processes/ndvi", "")
	}
}

func TestOGC_ListsTenUnlessAsked(t *testing.T) {
	s := &simulator.OGC{}
	c := guest(t, s)
	for range 23 {
		submit(c, "ndvi", bbox)
	}
	submit(c, "fail", bbox)
	count := func(path string) (n, pages int) {
		for next := path; next != ""; pages++ {
			page := c.must(200, "GET "+next, "")
			next = ""
			n += len(page.json("jobs").([]any))
			for _, l := range page.json("links").([]any) {
				if link := l.(map[string]any); link["rel"] == "next" {
					next = link["href"].(string)
				}
			}
		}
		return n, pages
	}
	for path, want := range map[string][2]int{"/jobs": {24, 3}, "/jobs?limit=12": {24, 2}, "/jobs?limit=1000": {24, 1},
		"/jobs?processID=fail": {1, 1}, "/jobs?status=successful,running&limit=20": {23, 2},
		"/jobs?status=dismissed": {0, 1}} {
		if n, pages := count(path); n != want[0] || pages != want[1] {
			t.Errorf("%s: %d jobs on %d pages, want %v", path, n, pages, want)
		}
	}
	c.refused(400, "title", "invalid-parameter-value", "GET /jobs?limit=x", "")
	s.PageMax = 5
	if n, pages := count("/jobs?limit=1000"); n != 24 || pages != 5 {
		t.Errorf("%d jobs on %d pages of at most five", n, pages)
	}
}

func TestOGC_Slots(t *testing.T) {
	now := newClock()
	s := &simulator.OGC{Now: now.Now, Life: simulator.Life{Run: time.Minute, Slots: 1}}
	c := guest(t, s)
	submit(c, "ndvi", bbox)
	c.refused(429, "title", "too-many-jobs", "POST /processes/async-only/execution", execution(bbox))
	now.pass(time.Minute)
	submit(c, "async-only", bbox)
	if sum := s.Oracle.Sum(); sum.Runs != 2 {
		t.Errorf("%d runs", sum.Runs)
	}
}

// TestOGC_OnAFakeClock runs the server inside a synctest bubble, where an hour of waiting takes no time.
func TestOGC_OnAFakeClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulator.OGC{Life: simulator.Life{Run: time.Hour}}
		c := guest(t, s)
		begin := time.Now()
		if r := c.must(200, "POST /processes/ndvi/execution", execution(bbox)); r.json("type") != "Collection" {
			t.Errorf("%s", r.body)
		}
		if took := time.Since(begin); took != time.Hour {
			t.Errorf("a synchronous run of an hour took %v", took)
		}
		job := submit(c, "ndvi", bbox)
		time.Sleep(time.Hour)
		if got := c.must(200, "GET "+job, "").json("status"); got != "successful" {
			t.Errorf("after an hour it is %v", got)
		}
	})
}
