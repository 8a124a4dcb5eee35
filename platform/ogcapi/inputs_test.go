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
		got = append(got, fmt.Sprintf("%s %s %t %t %s %s", p.Name, p.Type, p.Optional, p.Nullable, p.Default,
			p.Options))
	}
	want := []string{"zone bounding-box false false  []", "area polygon true false  []",
		`bands array-string false false  ["B02" "B03"]`,
		"years array true false  []", "cloud double true true 0.50 []", "when datetime true false  []",
		"file string true false  []", "odd object true false  []", "list array-string true false  []"}
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

// strangers are inputs as ZOO-Project and Weaver describe them, and lists of files as the process EchoProcess of the
// standard has.
const strangers = `{"jobControlOptions":["async-execute"],"inputs":{
	"images":{"minOccurs":0,"maxOccurs":150,"schema":{"oneOf":[
		{"type":"string","contentEncoding":"base64","contentMediaType":"image/tiff"},{"type":"string","contentEncoding":"base64","contentMediaType":"image/jp2"}]}},
	"image":{"minOccurs":0,"schema":{"oneOf":[
		{"type":"string","contentEncoding":"base64","contentMediaType":"image/tiff"},{"type":"string","contentEncoding":"base64","contentMediaType":"image/jp2"}]}},
	"seconds":{"minOccurs":0,"maxOccurs":1,"schema":{"type":"array","items":{"type":"number","default":3.0},"minItems":0,"maxItems":1}},
	"mode":{"minOccurs":0,"maxOccurs":1,"schema":{"type":"array","items":{"type":"string","enum":["mean","max"]},"minItems":0,"maxItems":1}},
	"zone":{"minOccurs":0,"schema":{"type":"array","items":{"type":"object","format":"ogc-bbox","required":["bbox","crs"],"properties":{
		"bbox":{"type":"array","items":{"type":"number"}},"crs":{"type":"string","default":"EPSG:4326"}}},"maxItems":1}},
	"file":{"minOccurs":0,"schema":{"type":"array","items":{"type":"string","contentMediaType":"image/tiff"},"maxItems":1}},
	"few":{"minOccurs":0,"schema":{"type":"array","items":{"type":"string"},"maxItems":1,"title":"At most one"}},
	"counts":{"minOccurs":0,"maxOccurs":5,"schema":{"type":"integer"}}}}`

func TestDescribeInputs_OfStrangers(t *testing.T) {
	d, err := parseDescription([]byte(strangers))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range d.parameters {
		got = append(got, fmt.Sprintf("%s %s %t %s %s", p.Name, p.Type, p.Optional, p.Default, p.Options))
	}
	want := []string{"images array-string true  []", "image string true  []", "seconds double true 3.0 []",
		`mode string true  ["mean" "max"]`,
		"zone bounding-box true  []", "file string true  []", "few array-string true  []", "counts array true  []"}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// TestInputs_OfStrangers has the inputs that these servers take, which reach them unchanged; and those that they do not
// take.
func TestInputs_OfStrangers(t *testing.T) {
	d, err := parseDescription([]byte(strangers))
	if err != nil {
		t.Fatal(err)
	}
	const same = "same"
	for given, want := range map[string]string{
		`{"images":"aGVsbG8="}`:                                                same,
		`{"images":["aGVsbG8="]}`:                                              same,
		`{"images":{"value":"aGVsbG8=","mediaType":"image/jp2"}}`:              same,
		`{"images":[{"value":"aGVsbG8=","mediaType":"image/jp2"},"aGVsbG8="]}`: same,
		`{"images":[{"href":"https://x.example/a.tif","type":"image/tiff"},{"href":"https://x.example/b"}]}`: same,
		`{"images":{"href":"https://x.example/a.tif"}}`:                                                      same,
		`{"images":[7]}`: "[body parameters images 0]",
		`{"images":[{"href":"https://x.example/b"},7]}`:            "[body parameters images 1]",
		`{"images":[{"value":7}]}`:                                 "[body parameters images 0]",
		`{"images":{"value":7}}`:                                   "[body parameters images]",
		`{"image":{"value":"aGVsbG8=","mediaType":"image/jp2"}}`:   same,
		`{"image":[{"value":"aGVsbG8=","mediaType":"image/jp2"}]}`: "[body parameters image]",
		`{"image":[{"href":"https://x.example/a.tif"}]}`:           "[body parameters image]",
		`{"mode":"max","seconds":4}`:                               same,
		`{"mode":["max"],"seconds":[4]}`:                           same,
		`{"seconds":[]}`:                                           same,
		`{"seconds":[4,5]}`:                                        "[body parameters seconds]",
		`{"seconds":"4"}`:                                          "[body parameters seconds]",
		`{"mode":"min"}`:                                           "[body parameters mode]",
		`{"mode":["min"]}`:                                         "[body parameters mode 0]",
		`{"zone":{"west":4,"south":50,"east":5,"north":51}}`:       `{"zone":{"bbox":[4,50,5,51],"crs":"EPSG:4326"}}`,
		`{"zone":[{"bbox":[4,50,5,51],"crs":"EPSG:4326"}]}`:        same,
		`{"file":{"href":"https://x.example/a.tif"}}`:              same,
		`{"file":[{"href":"https://x.example/a.tif"}]}`:            same,
		`{"few":["a"]}`:                                            same,
		`{"few":"a"}`:                                              "[body parameters few]",
		`{"counts":[1,2]}`:                                         same,
		`{"counts":7}`:                                             same,
	} {
		body, err := executeBody(t.Context(), dispatch.Request{Parameters: json.RawMessage(given)}, d, "")
		if want[0] == '[' {
			e, typed := err.(*dispatch.Error)
			if !typed || e.Kind != dispatch.Invalid || fmt.Sprint(e.Faults[0].Loc) != want {
				t.Errorf("%s: %s %+v, want a fault at %s", given, body["inputs"], err, want)
			}
			continue
		}
		if want == same {
			want = given
		}
		if err != nil || string(body["inputs"]) != want {
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
