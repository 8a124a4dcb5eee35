package real

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/api"
	"github.com/eodispatch/eodispatch/api/items"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/platform/ogcapi"
	"github.com/eodispatch/eodispatch/platform/openeo"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// process is the process graph that the simulated back-end runs for an area.
const process = `{"id":"ndvi","parameters":[{"name":"area","description":"where","schema":{"type":"object","subtype":"geojson"}}],
	"process_graph":{"load":{"process_id":"load_collection","arguments":{"id":"S2","spatial_extent":{"from_parameter":"area"},"temporal_extent":null},"result":true}}}`

// stack is the broker's API in front of one simulated platform for each protocol.
type stack struct {
	url, openEO, ogc, process string
	backend                   *simulator.OpenEO
	server                    *simulator.OGC
}

// ann verifies every client as the same user, and provides empty tokens: the platforms require none.
type ann struct{}

func (ann) Verify(context.Context, dispatch.Secret) (identity.Caller, error) {
	return identity.Caller{User: "https://idp.example ann"}, nil
}
func (ann) Token(context.Context, dispatch.Account) (dispatch.Token, error) {
	return dispatch.Token{}, nil
}
func (ann) Invalidate(dispatch.Account, dispatch.Token) {}

func newStack(t *testing.T) *stack {
	t.Helper()
	serve := func(h http.Handler) string {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server.URL
	}
	w := &stack{backend: &simulator.OpenEO{Open: true, Namespaces: http.DefaultClient}, server: &simulator.OGC{}}
	w.openEO, w.ogc = serve(w.backend), serve(w.server)
	w.process = serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, process)
	})) + "/ndvi.json"
	s, err := store.Open(t.Context(), "sqlite:"+t.TempDir()+"/jobs.db", conformance.WallClock{})
	if err != nil {
		t.Fatal(err)
	}
	limits := dispatch.Limits{Jobs: 20, Requests: 4, Send: 10 * time.Second, MinPoll: 10 * time.Millisecond}
	b := conformance.NewBroker(s, ann{},
		&dispatch.Backend{Name: "openeo", Label: dispatch.OpenEO, Endpoint: w.openEO, Access: dispatch.AccessOpen,
			Limits:   limits,
			Platform: openeo.New(openeo.Config{Name: "openeo", Endpoint: w.openEO, Client: client()})},
		&dispatch.Backend{Name: "ogc", Label: dispatch.OGCProcess, Endpoint: w.ogc, Access: dispatch.AccessOpen,
			Limits:   limits,
			Platform: ogcapi.New(ogcapi.Config{Name: "ogc", Endpoint: w.ogc, Client: client()})})
	b.Describe = items.Describe
	stop := conformance.RunBroker(b)
	t.Cleanup(func() { stop(); s.Close() })
	w.url = serve(api.New(api.Config{Broker: b, Verifier: ann{}, Health: s.Ping, Log: b.Log,
		Freshness: time.Millisecond}))
	return w
}

// ask sends a request to a path of the broker or to an absolute URL, and returns the body of the response. It expects a
// status.
func (w *stack) ask(t *testing.T, method, at, body string, status int) []byte {
	t.Helper()
	if !strings.HasPrefix(at, "http") {
		at = w.url + at
	}
	r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer x")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	answer, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != status {
		t.Fatalf("%s %s: %d, %v: %s", method, at, a.StatusCode, err, answer)
	}
	return answer
}

func read[T any](t *testing.T, raw []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

// task creates a task, waits until it is finished and returns its id.
func (w *stack) task(t *testing.T, label, endpoint, application, dimension string, values []json.RawMessage) int64 {
	t.Helper()
	list, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	id := read[struct{ ID int64 }](t, w.ask(t, "POST", "/upscale_tasks",
		fmt.Sprintf(`{"title":"NDVI","label":%q,"format":"geojson",
		"service":{"endpoint":%q,"namespace":null,"application":%q},"parameters":{},"dimension":{"name":%q,"values":%s}}`,
			label, endpoint, application, dimension, list), 201)).ID
	for end := time.Now().Add(3 * time.Minute); ; { // each request waits for fresh statuses
		task := read[struct{ Status string }](t, w.ask(t, "GET", fmt.Sprintf("/upscale_tasks/%d", id), "", 200))
		if task.Status == "finished" {
			return id
		}
		if time.Now().After(end) || task.Status == "failed" {
			t.Fatalf("the task is %s", task.Status)
		}
	}
}

type page struct {
	Features       []json.RawMessage
	Links          []struct{ Rel, Href string }
	NumberMatched  int
	NumberReturned int
}

func (p page) next() string {
	for _, l := range p.Links {
		if l.Rel == "next" {
			return l.Href
		}
	}
	return ""
}

// evidence holds the documents to validate, by where they came from.
type evidence struct{ stac, geo, provenance map[string]json.RawMessage }

// results adds all responses about the results of a task and of its jobs to the evidence, and returns the number of
// items.
func (w *stack) results(t *testing.T, name string, id int64, all evidence) (items int) {
	t.Helper()
	at := fmt.Sprintf("/upscale_tasks/%d", id)
	all.stac[name+" results"] = w.ask(t, "GET", at+"/results", "", 200)
	all.provenance[name+" task"] = w.ask(t, "GET", at+"/provenance", "", 200)
	all.geo[name+" tiles"] = w.ask(t, "GET", at+"/tiles", "", 200)
	for next := at + "/results/items?limit=3"; next != ""; {
		raw := w.ask(t, "GET", next, "", 200)
		p := read[page](t, raw)
		all.geo[fmt.Sprintf("%s items behind %d", name, items)] = raw
		for _, f := range p.Features {
			item := read[struct {
				ID     string
				Assets map[string]any
			}](t, f)
			items++
			all.stac[name+" item "+item.ID] = f
			all.provenance[name+" job "+item.ID] = w.ask(t, "GET", "/unit_jobs/"+item.ID+"/provenance", "", 200)
			all.stac[name+" job "+item.ID] = w.ask(t, "GET", "/unit_jobs/"+item.ID+"/results", "", 200)
			if single := w.ask(t, "GET", at+"/results/items/"+item.ID, "", 200); len(item.Assets) == 0 ||
				read[struct{ ID string }](t, single).ID != item.ID {
				t.Errorf("%s: %s", name, single)
			}
		}
		if next = p.next(); p.NumberReturned != len(p.Features) {
			t.Errorf("%s: %d features, but numberReturned is %d", name, len(p.Features), p.NumberReturned)
		}
	}
	return items
}

// TestResponses_AreValid runs tasks over real tiles on both protocols and validates all output: STAC with its schemas,
// GeoJSON against RFC 7946, PROV-JSON with the library prov.
func TestResponses_AreValid(t *testing.T) {
	w := newStack(t)
	all := evidence{map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]json.RawMessage{}}
	all.geo["tiles"] = w.ask(t, "POST", "/tiles",
		`{"grid":"20x20km","aoi":{"type":"Polygon","coordinates":[[[4.2,50.7],[4.6,50.7],[4.6,51],[4.4,51.1],[4.2,51],[4.2,50.7]]]}}`, 201)
	all.geo["tiles beyond the antimeridian"] = w.ask(t, "POST", "/tiles",
		`{"grid":"250x250km","clip":false,"aoi":{"type":"Polygon","coordinates":[[[177,-19],[182,-19],[182,-16],[177,-16],[177,-19]]]}}`, 201)
	tiles := read[struct{ Geometries []json.RawMessage }](t, all.geo["tiles"]).Geometries
	id := w.task(t, "openeo", w.openEO, w.process, "area", tiles)
	if n := w.results(t, "openEO", id, all); n != len(tiles) {
		t.Errorf("%d items for %d tiles", n, len(tiles))
	}
	boxes := []json.RawMessage{[]byte(`{"bbox":[4,51,4.1,51.1]}`), []byte(`{"bbox":[4.1,51,4.2,51.1]}`)}
	for _, process := range []string{"ndvi", "ndvi-item", "ndvi-reference", "ndvi-catalogue", "statistics", "image",
		"formats"} {
		id := w.task(t, "ogc_api_process", w.ogc, process, "bbox", boxes)
		if n := w.results(t, process, id, all); n != len(boxes) {
			t.Errorf("%s: %d items", process, n)
		}
	}
	if len(all.stac) < 40 || len(all.geo) < 15 {
		t.Errorf("validated only %d STAC and %d GeoJSON documents", len(all.stac), len(all.geo))
	}
	faults := stacFaults(t, all.stac)
	for name, raw := range all.geo {
		if f := geoJSONFaults(raw); len(f) > 0 {
			faults[name] = f
		}
	}
	for name, found := range provenanceFaults(t, all.provenance) {
		t.Errorf("provenance of %s: %q\n%s", name, found, all.provenance[name])
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		t.Errorf("%s: %q\n%s%s", name, faults[name], all.stac[name], all.geo[name])
	}
}

// TestResults_PagesRequestEachJobOnce counts the results requests that the platform receives while pages of a task's
// results are read.
func TestResults_PagesRequestEachJobOnce(t *testing.T) {
	w := newStack(t)
	w.backend.LinkLife = time.Hour
	tiles := []json.RawMessage{[]byte(`{"type":"Polygon","coordinates":[[[4,51],[4.1,51],[4.1,51.1],[4,51]]]}`),
		[]byte(`{"type":"Polygon","coordinates":[[[5,51],[5.1,51],[5.1,51.1],[5,51]]]}`)}
	id := w.task(t, "openeo", w.openEO, w.process, "area", tiles)
	const route = "GET /jobs/{id}/results"
	before := w.backend.Oracle.Requests(route)
	for i := range 3 {
		if p := read[page](t, w.ask(t, "GET", fmt.Sprintf("/upscale_tasks/%d/results/items", id), "",
			200)); p.NumberReturned != 2 || p.NumberMatched != 2 {
			t.Errorf("%+v", p)
		}
		if n := w.backend.Oracle.Requests(route) - before; n != 2 {
			t.Errorf("after %d pages the platform received %d results requests for 2 jobs", i+1, n)
		}
	}
	extent := read[struct {
		Extent struct{ Spatial struct{ Bbox [][]float64 } }
	}](t, w.ask(t, "GET", fmt.Sprintf("/upscale_tasks/%d/results", id), "", 200))
	if got := fmt.Sprint(extent.Extent.Spatial.Bbox); got != "[[4 51 5.1 51.1]]" {
		t.Errorf("extent %s", got)
	}
	if n := w.backend.Oracle.Requests(route) - before; n != 2 {
		t.Errorf("the platform received %d results requests for 2 jobs", n)
	}
}
