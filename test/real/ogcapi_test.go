package real

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/documents"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

func TestMain(m *testing.M) {
	code := postgres.Run(m)
	executable.CleanUp()
	os.Exit(code)
}

// TestOGCAPI_Clients runs clients of OGC API - Processes against the program, with services on both protocols: those of
// docs/clients.md, a client with strict models, and pystac-client for the Items of a task. All results are valid STAC,
// also those that the openEO API has of the same jobs.
func TestOGCAPI_Clients(t *testing.T) {
	environment(t, "ogcapi-clients")
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	broker := serveProcesses(t, w, fmt.Sprintf(`
- {name: openeo, protocol: openeo, endpoint: %s, access: open}
- {name: ogc, protocol: ogc-api-processes, endpoint: %s, access: open}
services:
- {id: ndvi_composite, title: Composite, platform: openeo, application: ndvi_composite}
- {id: ndvi_scene, title: NDVI, platform: ogc, application: ndvi}
`, w.OpenEOURL, w.OGCURL))
	got := useClients(t, w, broker, map[string]any{
		"ndvi_composite": map[string]any{"spatial_extent": map[string]any{"bbox": []float64{5.05, 51.2, 5.15, 51.25}},
			"temporal_extent": []string{"2024-06-01", "2024-07-01"}},
		"ndvi_scene": map[string]any{"bbox": map[string]any{"bbox": []float64{5.05, 51.2, 5.15, 51.25}}},
	}, map[string]any{"ndvi_scene": map[string]any{"bbox": map[string]any{"bbox": []float64{5.05, 51.05, 5.75, 51.45}},
		"eodispatch:tiles": "20x20km"}}, "### OWSLib", "### ogc-api-processes-client")
	for client, status := range got.Lines {
		if status != "successful" {
			t.Errorf("%s: %s", client, status)
		}
	}
	if len(got.Lines) != 2 || !slices.Equal(got.Dismissed, []string{"dismissed", "dismissed"}) || len(got.Items) != 14 {
		t.Errorf("%+v, %d Items of 14 tiles", got.Lines, len(got.Items))
	}
	objects := map[string]json.RawMessage{}
	for i, c := range slices.Concat(got.Results, got.Items, got.Found) {
		objects[fmt.Sprint(i)] = c
	}
	batchJobs := batchJobResults(t, broker, userToken(t, w))
	if len(batchJobs) < 10 {
		t.Errorf("the openEO API has the results of %v, want four jobs and a task, each twice",
			slices.Sorted(maps.Keys(batchJobs)))
	}
	maps.Copy(objects, batchJobs)
	for name, faults := range stacFaults(t, objects) {
		if len(faults) > 0 {
			t.Errorf("results %s: %v\n%s", name, faults, objects[name])
		}
	}
}

// TestOGCAPI_Cuiman runs Eozilla's client by the lines of docs/clients.md, and its other operations.
func TestOGCAPI_Cuiman(t *testing.T) {
	environment(t, "cuiman")
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	broker := serveProcesses(t, w,
		fmt.Sprintf("\n- {name: ogc, protocol: ogc-api-processes, endpoint: %s, access: open}\nservices:\n- {id: "+
			"ndvi_scene, title: NDVI, platform: ogc, application: ndvi}\n", w.OGCURL))
	var got struct {
		Links, Classes, Jobs       int
		Processes, Inputs          []string
		Status, Dismissed, Unknown string
		Results                    json.RawMessage
	}
	judge(t, "cuiman", "cuiman_client.py", map[string]any{"broker": broker, "token": userToken(t, w),
		"lines": documents.Block(t, "docs/clients.md", "### cuiman", "python")}, &got)
	if got.Status != "successful" || got.Dismissed != "dismissed" ||
		!strings.HasSuffix(got.Unknown, "/no-such-process") || got.Jobs != 2 || got.Links == 0 || got.Classes < 7 ||
		!slices.Equal(got.Processes, []string{"ndvi_scene"}) || !slices.Contains(got.Inputs, "bbox") {
		t.Errorf("%+v", got)
	}
	if faults := stacFaults(t, map[string]json.RawMessage{"results": got.Results})["results"]; len(faults) > 0 {
		t.Errorf("results: %v\n%s", faults, got.Results)
	}
}

// TestOGCAPI_Pygeoapi runs a process of the real pygeoapi through the broker, from its description to its results.
func TestOGCAPI_Pygeoapi(t *testing.T) {
	environment(t, "ogcapi-clients")
	w, err := simulator.Start(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	broker := serveProcesses(t, w, fmt.Sprintf(`
- {name: pygeoapi, protocol: ogc-api-processes, endpoint: %s, access: open}
services:
- {id: sums, title: Sums, platform: pygeoapi, application: literals}
`, startPygeoapi(t, "0.24.0")))
	got := useClients(t, w, broker, map[string]any{"sums": map[string]any{"numbers": []float64{1, 2, 3.5}}}, nil)
	if !slices.Equal(got.Dismissed, []string{"dismissed"}) {
		t.Errorf("%+v", got)
	}
}

// batchJobResults returns what the openEO API over all platforms has as results of the user's finished batch jobs,
// among them tasks, by the address: with a token, and by the canonical link without one.
func batchJobResults(t *testing.T, broker, token string) map[string]json.RawMessage {
	t.Helper()
	var list struct{ Jobs []struct{ ID, Status string } }
	if err := json.Unmarshal(document(t, broker+"/openeo/1.2/jobs", token), &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]json.RawMessage{}
	for _, j := range list.Jobs {
		if j.Status != "finished" {
			continue
		}
		at := broker + "/openeo/1.2/jobs/" + j.ID + "/results"
		found[at] = document(t, at, token)
		var results struct {
			Links []struct{ Rel, Href string }
		}
		if err := json.Unmarshal(found[at], &results); err != nil {
			t.Fatal(err)
		}
		for _, l := range results.Links {
			if l.Rel == "canonical" {
				found["canonical of "+at] = document(t, l.Href, "")
			}
		}
	}
	return found
}

// document reads a document, with a token unless that is "".
func document(t *testing.T, at, token string) json.RawMessage {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", at, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", at, a.Status, err, text)
	}
	return text
}

// serveProcesses starts the program with platforms, a YAML list, in front of a simulated identity provider.
func serveProcesses(t *testing.T, w *simulator.World, platforms string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "broker.yaml")
	text := fmt.Sprintf(
		"development: true\nfreshness: 500ms\ndatabase: sqlite:%s/eodispatch.db\nidentity: {issuer: %s, client_id: "+
			"%s}\nplatforms:%s", filepath.Dir(file), w.Credentials.Issuer, w.Credentials.BrokerID, platforms)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := executable.Start(t, executable.Released, "EODISPATCH_CONFIG="+file)
	if p.Address == "" {
		t.Fatalf("it does not serve:\n%s", p.Log)
	}
	return p.Address
}

// userToken signs the simulated world's user in.
func userToken(t *testing.T, w *simulator.World) string {
	t.Helper()
	known := w.Credentials
	a, err := http.PostForm(known.Issuer+"/protocol/openid-connect/token",
		url.Values{"grant_type": {"password"}, "client_id": {known.Client}, "username": {known.User},
			"password": {known.Password}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	var got struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(a.Body).Decode(&got); err != nil || got.Token == "" {
		t.Fatalf("sign-in: %s, %v", a.Status, err)
	}
	return got.Token
}

// clientsUsed is what the clients found.
type clientsUsed struct {
	Lines     map[string]string
	Results   []json.RawMessage
	Dismissed []string
	Items     []json.RawMessage
	Found     []json.RawMessage
}

// useClients runs the lines of docs/clients.md below the headings, and the strict clients with the processes and
// inputs.
func useClients(t *testing.T, w *simulator.World, broker string, processes, tiled map[string]any,
	headings ...string) (got clientsUsed) {
	t.Helper()
	lines := map[string]string{}
	for _, heading := range headings {
		lines[heading] = documents.Block(t, "docs/clients.md", "## OGC API - Processes", "python") +
			documents.Block(t, "docs/clients.md", heading, "python")
	}
	judge(t, "ogcapi-clients", "ogcapi.py", map[string]any{"broker": broker, "token": userToken(t, w), "lines": lines,
		"processes": processes, "tiled": tiled}, &got)
	return got
}
