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
