package openeo_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// algorithms returns the folder of published algorithms in the catalogue named by EODISPATCH_CATALOGUE. It is not part
// of the project; without the variable the test is skipped.
func algorithms(t *testing.T) string {
	t.Helper()
	catalogue := os.Getenv("EODISPATCH_CATALOGUE")
	if catalogue == "" {
		t.Skip("EODISPATCH_CATALOGUE names no catalogue (udp/*.json, records/*.json)")
	}
	return filepath.Join(catalogue, "udp")
}

// TestCatalogue describes every published algorithm, and accepts for each parameter the value that its document
// proposes.
func TestCatalogue(t *testing.T) {
	catalogue := algorithms(t)
	files, _ := filepath.Glob(filepath.Join(catalogue, "*.json"))
	if len(files) == 0 {
		t.Fatalf("there are no published algorithms in %s", catalogue)
	}
	b := newBackend(t)
	p := b.platform()
	counts := map[dispatch.ParamType]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		b.json("GET /"+name, 200, string(text))
		s := dispatch.Service{Application: b.URL + "/" + name}
		all, err := p.Parameters(t.Context(), dispatch.Token{}, s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var document struct {
			Parameters []struct {
				Name    string
				Default json.RawMessage
			}
		}
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}
		if len(all) != len(document.Parameters) {
			t.Errorf("%s has %d parameters, not %d", name, len(document.Parameters), len(all))
		}
		proposed := map[string]json.RawMessage{}
		for i, q := range all {
			counts[q.Type]++
			if q.Name != document.Parameters[i].Name {
				t.Errorf("%s: parameter %d is %s, not %s", name, i, document.Parameters[i].Name, q.Name)
			}
			proposed[q.Name] = q.Default
			if q.Default == nil {
				proposed[q.Name] = json.RawMessage(examples[q.Type])
			}
			if len(q.Options) > 0 && q.Default == nil {
				proposed[q.Name] = q.Options[0]
			}
		}
		arguments, err := json.Marshal(proposed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Check(t.Context(), dispatch.Token{}, dispatch.Request{Service: s, Parameters: arguments},
			nil); err != nil {
			t.Errorf("%s does not take what it proposes: %v", name, err)
		}
	}
	for _, kind := range []dispatch.ParamType{dispatch.BoundingBox, dispatch.Polygon, dispatch.DateInterval,
		dispatch.DateTime,
		dispatch.Boolean, dispatch.Integer, dispatch.Double, dispatch.String, dispatch.ArrayString} {
		if counts[kind] == 0 {
			t.Errorf("none is a %s: %v", kind, counts)
		}
	}
	if counts[dispatch.Object]+counts[dispatch.Array] > 0 {
		t.Errorf("some have no type of their own: %v", counts)
	}
}

var examples = map[dispatch.ParamType]string{
	dispatch.BoundingBox:  `{"west":4,"south":50,"east":5,"north":51}`,
	dispatch.DateInterval: `["2026-01-01","2026-02-01"]`,
	dispatch.Polygon:      `{"type":"Polygon","coordinates":[[[4,50],[5,50],[5,51],[4,50]]]}`,
	dispatch.DateTime:     `"2026-01-01"`,
	dispatch.Integer:      `1`, dispatch.Double: `0.5`, dispatch.String: `"x"`, dispatch.ArrayString: `["x"]`,
	dispatch.Boolean: `true`,
}

// TestCatalogue_Types fixes what a form needs to know about parameters of every kind in the catalogue.
func TestCatalogue_Types(t *testing.T) {
	catalogue, b := algorithms(t), newBackend(t)
	for name, want := range map[string][]string{
		"max_ndvi_composite.json": {"spatial_extent bounding-box ", "temporal_extent date-interval ",
			"max_cloud_cover double 75.0", `bands array-string ["B04","B03","B02"]`},
		"timeseries_statistics.json": {`collection_id string "SENTINEL2_L2A"`, `bands array-string ["B04","B08"]`,
			"geometry polygon ", "temporal_extent date-interval ", "period string null"},
		"variabilitymap.json": {"temporal_extent date-interval ", "spatial_extent polygon ", "raw boolean false"},
		"cropsar2d.json": {"geometry polygon ", "startdate datetime ", "enddate datetime ",
			`output string "FAPAR"`},
		"worldcover_statistics.json": {"geometries polygon "},
		"sentinel1_sar_coherence.json": {"burst_id integer null", "polarization string ", "sub_swath string null",
			"temporal_extent date-interval ", "spatial_extent bounding-box null", "temporal_baseline integer ",
			"coherence_window_rg integer 10", "coherence_window_az integer 2"},
	} {
		text, err := os.ReadFile(filepath.Join(catalogue, name))
		if err != nil {
			t.Fatal(err)
		}
		b.json("GET /"+name, 200, string(text))
		got, err := b.platform().Parameters(t.Context(), dispatch.Token{},
			dispatch.Service{Application: b.URL + "/" + name})
		if err != nil || !slices.Equal(types(got), want) {
			t.Errorf("%s:\n got %q %v\nwant %q", name, types(got), err, want)
		}
	}
}
