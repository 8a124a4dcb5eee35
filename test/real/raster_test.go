package real

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestRaster_OfSimulatedPlatforms reads the rasters that the simulated platforms of both protocols make of an area.
func TestRaster_OfSimulatedPlatforms(t *testing.T) {
	backend := httptest.NewServer(&simulator.OpenEO{Open: true})
	defer backend.Close()
	server := httptest.NewServer(&simulator.OGC{})
	defer server.Close()
	files := map[string][]byte{
		"openEO": posted(t, backend.URL+"/openeo/1.2/result", `{"process":{"process_graph":{
			"load":{"process_id":"load_collection","arguments":{"id":"S2","spatial_extent":{"west":4,"south":51,"east":4.2,"north":51.1},"temporal_extent":null}},
			"save":{"process_id":"save_result","arguments":{"data":{"from_node":"load"},"format":"GTiff"},"result":true}}}}`),
		"OGC": posted(t, server.URL+"/processes/image/execution",
			`{"inputs":{"bbox":{"bbox":[4,51,4.2,51.1]}},"response":"raw"}`),
	}
	var read map[string]struct {
		CRS    string
		Bounds []float64
		Size   [2]int
		Bands  [][2]float64
	}
	judge(t, "pygeoapi-0.24.0", "raster.py", files, &read)
	for name := range files {
		r := read[name]
		if r.CRS != "EPSG:4326" || r.Size[0] < 100 || r.Size[1] < 100 || len(r.Bounds) != 4 || len(r.Bands) != 3 {
			t.Fatalf("%s: %+v", name, r)
		}
		for i, want := range []float64{4, 51, 4.2, 51.1} {
			if math.Abs(r.Bounds[i]-want) > 1e-9 {
				t.Errorf("%s: bounds %v", name, r.Bounds)
			}
		}
		for i, b := range r.Bands {
			if b[0] < 0 || b[1] > 1 || b[1]-b[0] < 0.05 {
				t.Errorf("%s: the values of band %d lie between %v and %v", name, i+1, b[0], b[1])
			}
		}
	}
}

// posted sends JSON and returns the body of the response, which must have status 200.
func posted(t *testing.T, address, body string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v, %.300s", address, answer.StatusCode, err, data)
	}
	return data
}
