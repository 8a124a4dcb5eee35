package ogcapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/dispatch"
)

const offersThree = `{"id":"p","version":"1.4.2","jobControlOptions":["async-execute"],"inputs":{},"outputs":{
	"map":{"schema":{"oneOf":[{"contentMediaType":"image/tiff; application=geotiff"},{"contentMediaType":"application/x-netcdf"},{"contentMediaType":"application/netcdf"}]}},
	"plot":{"schema":{"contentMediaType":"image/svg+xml"}},"log":{"schema":{"type":"string"}}}}`

func TestFormats_AsTheProcessOffersThem(t *testing.T) {
	s := serve(t, map[string][]reply{"GET /processes/p": {ok(offersThree)}})
	got, err := s.platform().Formats(t.Context(), token, s.submission().Service)
	want := []dispatch.OutputFormat{{Name: "netcdf", Title: "application/netcdf"}, {Name: "application/x-netcdf",
		Title: "application/x-netcdf"},
		{Name: "image/svg+xml", Title: "image/svg+xml"}, {Name: "gtiff", Title: "image/tiff; application=geotiff"}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Error(err, d)
	}
}

func TestCheck_FormatThatIsNotOffered(t *testing.T) {
	for _, c := range []struct{ outputs, format, options, refused string }{
		{"", "geojson", "",
			"The process does not offer the output format \"geojson\". It offers: application/netcdf, " +
				"application/x-netcdf, image/svg+xml, image/tiff; application=geotiff."},
		{"", "GTiff", "", ""},
		{"", "application/x-netcdf", "", ""},
		{"", "image/svg+xml", "", ""},
		{"", "zarr", "", "does not offer"},
		{"", "geojson", `{"validate":false}`, ""},
		{"", "geojson", `{"outputs":{"map":{}}}`, ""},
		{`{"a":{"schema":{"type":"object"}}}`, "gtiff", "", ""},
		{`{"a":{"schema":{"contentMediaType":"application/json"}}}`, "gtiff", "", ""},
		{`{"a":{"schema":{"oneOf":[{"contentMediaType":"application/json"},{"contentMediaType":"text/csv"}]}}}`,
			"gtiff", "", "It offers: application/json, text/csv."},
		{`7`, "gtiff", "", ""},
		// clients that know four formats, and have to name one, ask for one of theirs
		{`{"a":{"schema":{"contentMediaType":"text/xml"}},"b":{"schema":{"contentMediaType":"image/png"}}}`, "gtiff",
			"", ""},
		{`{"a":{"schema":{"contentMediaType":"text/xml"}}}`, "json", "", ""},
		{`{"a":{"schema":{"contentMediaType":"text/xml"}}}`, "zarr", "", "It offers: text/xml."},
	} {
		description := offersThree
		if c.outputs != "" {
			description = `{"id":"p","inputs":{},"outputs":` + c.outputs + `}`
		}
		s := serve(t, map[string][]reply{"GET /processes/p": {ok(description)}})
		r := s.submission().Request
		r.Format, r.Parameters = c.format, json.RawMessage("{}")
		if c.options != "" {
			r.Options = json.RawMessage(c.options)
		}
		for _, d := range []*dispatch.Dimension{nil, {Name: "x"}} {
			_, err := s.platform().Check(t.Context(), token, r, d)
			e, _ := asError(err)
			switch {
			case c.refused == "" && e != nil && strings.Contains(e.Text, "format"),
				c.refused == "" && d == nil && err != nil:
				t.Errorf("%s of %s is refused: %v", c.format, description, err)
			case c.refused != "" && (e == nil || e.Kind != dispatch.Invalid || !strings.Contains(e.Text, c.refused) ||
				len(e.Faults) != 1 || e.Faults[0].Loc[1] != "format"):
				t.Errorf("%s of %s: %v", c.format, description, err)
			}
		}
	}
}

// A job that names a format which is not used says so.
func TestCheck_WarnsOfAnUnusedFormat(t *testing.T) {
	unused := "The process offers other formats (image/png, text/xml), so that the format of the request is not used."
	for format, want := range map[string]string{"gtiff": unused, "text/xml": "", "png": "", "": ""} {
		s := serve(t, map[string][]reply{"GET /processes/p": {ok(`{"id":"p","inputs":{},"outputs":{
			"a":{"schema":{"contentMediaType":"text/xml"}},"b":{"schema":{"contentMediaType":"image/png"}}}}`)}})
		r := s.submission().Request
		r.Format, r.Parameters = format, json.RawMessage("{}")
		if warning, err := s.platform().Check(t.Context(), token, r, nil); err != nil || warning != want {
			t.Errorf("%q: %q, %v", format, warning, err)
		}
	}
}

// What the server tells of itself is noted with the job that it accepted.
func TestSubmit_NotesTheVersions(t *testing.T) {
	description := ok(offersThree)
	for header, want := range map[string]dispatch.Versions{
		"X-Powered-By: pygeoapi 0.20.0": {Software: "pygeoapi", Version: "0.20.0",
			Process: "1.4.2"},
		"X-Powered-By: ZOO-Project/2.0": {Software: "ZOO-Project", Version: "2.0",
			Process: "1.4.2"},
		"X-Powered-By: Express":                             {Process: "1.4.2"},
		"Server: nginx/1.27":                                {Process: "1.4.2"},
		"X-Powered-By: " + strings.Repeat("x", 5000) + " 1": {Process: "1.4.2"},
	} {
		description.header = "Content-Type: application/json\n" + header
		s := serve(t, map[string][]reply{"GET /processes/p": {description}, "POST " + executionPath: {job("/jobs/a")}})
		got, err := s.platform().Submit(t.Context(), token, s.submission())
		if err != nil || got.Versions != want {
			t.Errorf("%.60s: %+v, %v", header, got.Versions, err)
		}
	}
}
