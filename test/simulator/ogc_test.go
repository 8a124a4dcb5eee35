package simulator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

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
