package ogcapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

const inputs = `{"jobControlOptions":["async-execute"],"inputs":{
	"zone":{"title":"Where","schema":{"allOf":[{"format":"ogc-bbox"},{"$ref":"https://schemas.example.org/bbox.yaml"}]}},
	"area":{"minOccurs":0,"schema":{"allOf":[{"format":"geojson-geometry"},{"$ref":"https://schemas.example.org/geometryGeoJSON.yaml"}]}},
	"bands":{"maxOccurs":"unbounded","schema":{"type":"string","enum":["B02","B03"]}},
	"years":{"minOccurs":0,"maxOccurs":3,"schema":{"type":"integer","minimum":2015}},
	"cloud":{"minOccurs":0,"schema":{"type":"number","nullable":true,"minimum":0,"exclusiveMinimum":true,"default":0.50}},
	"when":{"minOccurs":0,"schema":{"type":"string","format":"date-time"}},
	"file":{"minOccurs":0,"schema":{"oneOf":[{"type":"string","contentMediaType":"image/tiff","contentEncoding":"base64"},{"type":"object","required":["href"]}]}},
	"odd":{"minOccurs":0},
	"list":{"minOccurs":0,"schema":{"type":"array","items":{"type":"string"}}}}}`

func TestDescribeInputs(t *testing.T) {
	d, err := parseDescription([]byte(inputs))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range d.parameters {
		got = append(got, fmt.Sprintf("%s %s %t %t %s %s", p.Name, p.Type, p.Optional, p.Nullable, p.Default, p.Options))
	}
	want := []string{"zone bounding-box false false  []", "area polygon true false  []", `bands array-string false false  ["B02" "B03"]`,
		"years array true false  []", "cloud double true true 0.50 []", "when datetime true false  []", "file string true false  []",
		"odd object true false  []", "list array-string true false  []"}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// TestInputs_AreShaped passes values in equivalent forms, and wrapped as the standard allows.
func TestInputs_AreShaped(t *testing.T) {
	d, err := parseDescription([]byte(inputs))
	if err != nil {
		t.Fatal(err)
	}
	const zone = `"zone":{"bbox":[4.10,50,5,51]},`
	for given, want := range map[string]string{
		`{"zone":{"west":4.10,"south":50,"east":5,"north":51},"bands":"B02"}`:                 `{"bands":"B02","zone":{"bbox":[4.10,50,5,51]}}`,
		`{` + zone + `"bands":["B02","B03"],"years":[2020,2021]}`:                             `{"bands":["B02","B03"],"years":[2020,2021],"zone":{"bbox":[4.10,50,5,51]}}`,
		`{` + zone + `"bands":[],"cloud":null}`:                                               `{"bands":[],"cloud":null,"zone":{"bbox":[4.10,50,5,51]}}`,
		`{` + zone + `"bands":"B02","when":"2026-01-01"}`:                                     `{"bands":"B02","when":"2026-01-01T00:00:00Z","zone":{"bbox":[4.10,50,5,51]}}`,
		`{` + zone + `"bands":{"value":"B02"},"file":{"href":"https://x.example.org/a.tif"}}`: `{"bands":{"value":"B02"},"file":{"href":"https://x.example.org/a.tif"},"zone":{"bbox":[4.10,50,5,51]}}`,
		`{"zone":{"href":"https://x.example.org/zone.json"},"bands":"B03"}`:                   `{"bands":"B03","zone":{"href":"https://x.example.org/zone.json"}}`,
		`{` + zone + `"bands":"B99"}`:                                                         "",
		`{` + zone + `"bands":{"value":"B99"}}`:                                               "",
		`{` + zone + `"bands":"B02","years":[2000]}`:                                          "",
		`{` + zone + `"bands":"B02","cloud":0}`:                                               "",
		`{` + zone + `"bands":"B02","cloudy":0}`:                                              "",
		`{"bands":"B02"}`:                                                                     "",
	} {
		body, err := executeBody(t.Context(), dispatch.Request{Parameters: json.RawMessage(given)}, d, "")
		switch {
		case want == "" && !dispatch.Is(err, dispatch.Invalid):
			t.Errorf("%s was taken: %s %v", given, body["inputs"], err)
		case want != "" && (err != nil || string(body["inputs"]) != want):
			t.Errorf("%s\n got %s, %v\nwant %s", given, body["inputs"], err, want)
		}
	}
}

func TestInputs_None(t *testing.T) {
	for _, document := range []string{`{}`, `{"inputs":5}`} {
		d, err := parseDescription([]byte(document))
		if err != nil || d.set != nil || len(d.parameters) > 0 {
			t.Errorf("%s: %+v %v", document, d, err)
		}
	}
}
