package dispatch

import "testing"

func TestUsualFormat(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"PNG", "GTiff", "netCDF"}, "GTiff"},
		{[]string{"netCDF", "GeoTIFF"}, "GeoTIFF"},
		{[]string{"PNG", "application/x-netcdf"}, "application/x-netcdf"},
		{[]string{"PNG", "Zarr"}, "PNG"},
		{nil, ""},
	} {
		if got := UsualFormat(c.names); got != c.want {
			t.Errorf("%q: %q, want %q", c.names, got, c.want)
		}
	}
}

func TestFormatName(t *testing.T) {
	for text, want := range map[string]string{"GeoTIFF": "gtiff", "GTiff": "gtiff",
		"image/tiff; application=geotiff": "gtiff", "application/geo+json": "geojson", "Zarr": "zarr",
		"text/html": "text/html", "": ""} {
		if got := FormatName(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A format that neither the platform nor the record of a service has is refused, and one that no request names comes
// from the record.
func TestBroker_FormatsOfRecords(t *testing.T) {
	var recorded []string
	b := NewBroker(nil, Setup{Backends: []*Backend{{Name: "ogc", Label: OGCProcess, Endpoint: "https://ogc.example.org",
		Platform: unformatted{}}}})
	b.Recorded = func(Label, Service) []string { return recorded }
	for _, c := range []struct {
		recorded []string
		format   string
		refused  bool
	}{
		{[]string{"GeoTIFF"}, "gtiff", false},
		{[]string{"GeoTIFF"}, "image/tiff", false},
		{[]string{"GeoTIFF"}, "json", false},
		{[]string{"GeoTIFF"}, "", false},
		{[]string{"GeoTIFF"}, "pdf", true},
		{[]string{"GeoTIFF", "PNG"}, "netcdf", true},
		{[]string{"GeoTIFF", "a table"}, "netcdf", false},
		{nil, "netcdf", false},
	} {
		recorded = c.recorded
		err := b.checkFormat(t.Context(), "u", Request{Label: OGCProcess,
			Service: Service{Endpoint: "https://ogc.example.org"}, Format: c.format})
		if Is(err, Invalid) != c.refused || !c.refused && err != nil {
			t.Errorf("%q of %q: %v", c.format, c.recorded, err)
		}
	}
	recorded = []string{"PNG", "GeoTIFF"}
	for label, want := range map[Label]string{OpenEO: "gtiff", OGCProcess: ""} {
		if got := b.withFormat(Request{Label: label}).Format; got != want {
			t.Errorf("%s: %q, want %q", label, got, want)
		}
	}
}

// unformatted is a platform that lists no formats.
type unformatted struct{ Platform }
