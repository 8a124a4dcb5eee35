package openeo_test

import (
	"net/http"
	"strings"
	"testing"
)

const graphs = "/openeo/cdse/1.2/process_graphs"

const sum = `{"summary":"Adds.","parameters":[{"name":"a","description":"","schema":{}},{"name":"b","description":"","schema":{},"optional":true,"default":2.50}],
	"returns":{"schema":{}},"process_graph":{"add":{"process_id":"add","arguments":{"x":{"from_parameter":"a"},"y":{"from_parameter":"b"}},"result":true}}}`

func (w *world) save(id, body string) {
	w.t.Helper()
	if got := w.ask("PUT", graphs+"/"+id, body, "Authorization", anna); got.Code != http.StatusOK ||
		got.Body.Len() > 0 {
		w.t.Fatalf("%d %s", got.Code, got.Body)
	}
}

func TestProcessGraphs_AreStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	w.save("my_sum", `{"process_graph":{"one":{"process_id":"add","arguments":{},"result":true}}}`)
	w.save("my_sum", sum)
	got := w.get(graphs+"/my_sum", "Authorization", anna)
	if got["id"] != "my_sum" || got["summary"] != "Adds." || got["process_graph"] == nil {
		t.Errorf("%v", got)
	}
	if got := w.ask("DELETE", graphs+"/my_sum", "", "Authorization", anna); got.Code != http.StatusNoContent {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	refusedWith(t, w.ask("GET", graphs+"/my_sum", "", "Authorization", anna), http.StatusNotFound,
		"ProcessGraphNotFound")
	refusedWith(t, w.ask("DELETE", graphs+"/my_sum", "", "Authorization", anna), http.StatusNotFound,
		"ProcessGraphNotFound")
}

func TestProcessGraphs_BelongToTheirOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	w.save("mine", sum)
	for _, method := range []string{"GET", "DELETE"} {
		refusedWith(t, w.ask(method, graphs+"/mine", "", "Authorization", bert), http.StatusNotFound,
			"ProcessGraphNotFound")
		refusedWith(t, w.ask(method, graphs+"/mine", ""), http.StatusUnauthorized, "AuthenticationRequired")
	}
	if list := w.get(graphs, "Authorization", bert)["processes"].([]any); len(list) != 0 {
		t.Errorf("%v", list)
	}
	w.save("page-1", sum)
	next := w.get(graphs+"?limit=1", "Authorization", anna)["links"].([]any)[0].(map[string]any)["href"].(string)
	refusedWith(t, w.ask("GET", strings.TrimPrefix(next, publicURL), "", "Authorization", bert), http.StatusBadRequest,
		"ProcessParameterInvalid")
}

// withParameters returns a process whose parameters are a JSON value.
func withParameters(value string) string {
	return `{"parameters":` + value + `,"process_graph":{"one":{"process_id":"add","arguments":{},"result":true}}}`
}

func TestProcessGraphs_Refused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, nil)
	for body, code := range map[string]string{`{}`: "ProcessGraphMissing",
		`{"process_graph":[]}`: "ProcessGraphInvalid",
		`{"process_graph":{}}`: "ProcessGraphInvalid",
		`[]`:                   "ContentTypeInvalid", `{"a":1,"a":2}`: "ProcessGraphInvalid",
		withParameters(`7`): "ProcessInvalid", withParameters(`["a"]`): "ProcessInvalid",
		withParameters(`[{"schema":{}}]`): "ProcessInvalid",
		`{"process_graph":{"a":1}}`:       "ProcessGraphInvalid", `{"process_graph":{"a":null}}`: "ProcessGraphInvalid",
		`{"process_graph":{"a":{}}}`:                                  "ProcessGraphInvalid",
		`{"process_graph":{"a":{"process_id":"add","arguments":[]}}}`: "ProcessGraphInvalid"} {
		refusedWith(t, w.ask("PUT", graphs+"/p", body, "Authorization", anna), http.StatusBadRequest, code)
	}
	refusedWith(t, w.ask("PUT", graphs+"/save_result", sum, "Authorization", anna), http.StatusBadRequest,
		"PredefinedProcessExists")
	refusedWith(t, w.ask("PUT", graphs+"/a.b", sum, "Authorization", anna), http.StatusBadRequest, "ProcessInvalid")
	large := `{"process_graph":{"a":{"process_id":"add","arguments":{"x":"` + strings.Repeat("x", 2<<20) +
		`"},"result":true}}}`
	refusedWith(t, w.ask("PUT", graphs+"/p", large, "Authorization", anna), http.StatusBadRequest,
		"ProcessGraphComplexity")
}
