package openeo_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// loading is a batch job that loads a collection.
func loading(collection string) string {
	return strings.Replace(
		`{"process": {"process_graph": {"l": {"process_id": "load_collection", "arguments": {"id": "ID", "spatial_extent": null, "temporal_extent": null}},
		"s": {"process_id": "save_result", "arguments": {"data": {"from_node": "l"}, "format": "GTiff"}, "result": true}}}}`,
		"ID", collection, 1)
}

// TestCollections_Unknown: a batch job that loads what its platform does not have is refused when it is created or
// changed. A platform that does not say so decides when the job starts.
func TestCollections_Unknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, func(_ string, s *simulator.OpenEO) { s.Collections = []string{"S2", "S1"} })
	var silent, hiding atomic.Bool
	w.front = func(rw http.ResponseWriter, r *http.Request) bool {
		switch {
		case silent.Load():
			rw.WriteHeader(http.StatusBadGateway)
		case hiding.Load() && strings.HasSuffix(r.URL.Path, "/collections/SECRET"):
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write([]byte(`{"id": "SECRET"}`))
		default:
			return false
		}
		return true
	}
	const jobs = "/openeo/cdse/1.2/jobs"
	path := w.create(loading("S2"))
	refusedWith(t, w.ask("POST", jobs, loading("NONE"), "Authorization", anna), http.StatusNotFound,
		"CollectionNotFound")
	refusedWith(t, w.ask("POST", mergedJobs, loading("NONE"), "Authorization", anna), http.StatusNotFound,
		"CollectionNotFound")
	refusedWith(t, w.ask("PATCH", path, loading("NONE"), "Authorization", anna), http.StatusNotFound,
		"CollectionNotFound")
	hiding.Store(true)
	w.create(loading("SECRET")) // in no list, and there
	two := strings.Replace(loading("SECRET"), `"s": {`,
		`"m": {"process_id": "load_collection", "arguments": {"id": "VOID"}}, "s": {`, 1)
	refusedWith(t, w.ask("POST", jobs, two, "Authorization", anna), http.StatusNotFound, "CollectionNotFound")
	silent.Store(true)
	w.create(loading("UNSEEN"))
}

// TestCreate_ReadsListsTogether: the lists against which a batch job is checked are requested at once.
func TestCreate_ReadsListsTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"cdse"}, func(_ string, s *simulator.OpenEO) { s.Collections = []string{"S2"} })
	lists := []string{"/processes", "/collections", "/file_formats"}
	var asked atomic.Int64
	all := make(chan struct{})
	w.front = func(_ http.ResponseWriter, r *http.Request) bool {
		if !slices.ContainsFunc(lists, func(list string) bool { return strings.HasSuffix(r.URL.Path, list) }) {
			return false
		}
		if asked.Add(1) == int64(len(lists)) {
			close(all)
		}
		select {
		case <-all:
		case <-time.After(2 * time.Second):
			t.Errorf("%s is read alone", r.URL.Path)
		}
		return false
	}
	w.create(loading("S2"))
}

// TestNamespaces_AreFew: a process graph that names many namespaces costs the platforms no requests, also from somebody
// who has not signed in.
func TestNamespaces_AreFew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"east", "west"}, nil)
	var asked atomic.Int64
	w.front = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/processes/") {
			asked.Add(1)
		}
		return false
	}
	graph := `{"process_graph": {"r": {"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": true}`
	for i := range 200 {
		graph += fmt.Sprintf(`, "n%d": {"process_id": "p", "namespace": "space%d", "arguments": {}}`, i, i)
	}
	graph += `}}`
	got := w.ask("POST", "/openeo/1.2/validation", graph)
	if !strings.Contains(got.Body.String(), "ProcessGraphComplexity") || asked.Load() > 0 {
		t.Errorf("%d requests: %s", asked.Load(), got.Body)
	}
	refusedWith(t, w.ask("POST", mergedJobs, `{"process": `+graph+`}`, "Authorization", anna), http.StatusBadRequest,
		"ProcessGraphComplexity")
}
