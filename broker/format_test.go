package broker

import (
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// A format that neither the platform nor the record of a service has is refused, and one that no request names comes
// from the record.
func TestBroker_FormatsOfRecords(t *testing.T) {
	var recorded []string
	b := New(nil, dispatch.Setup{Backends: []*dispatch.Backend{
		{Name: "ogc", Label: dispatch.OGCProcess, Endpoint: "https://ogc.example.org", Platform: unformatted{}}}})
	b.Recorded = func(dispatch.Label, dispatch.Service) []string { return recorded }
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
		err := b.checkFormat(t.Context(), "u", dispatch.Request{Label: dispatch.OGCProcess,
			Service: dispatch.Service{Endpoint: "https://ogc.example.org"}, Format: c.format})
		if dispatch.Is(err, dispatch.Invalid) != c.refused || !c.refused && err != nil {
			t.Errorf("%q of %q: %v", c.format, c.recorded, err)
		}
	}
	recorded = []string{"PNG", "GeoTIFF"}
	for label, want := range map[dispatch.Label]string{dispatch.OpenEO: "gtiff", dispatch.OGCProcess: ""} {
		if got := b.withFormat(dispatch.Request{Label: label}).Format; got != want {
			t.Errorf("%s: %q, want %q", label, got, want)
		}
	}
}

// unformatted is a platform that lists no formats.
type unformatted struct{ dispatch.Platform }
