package simulator_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
