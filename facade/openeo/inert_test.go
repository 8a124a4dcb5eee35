package openeo

import "testing"

// Files that are passed on can never act as a script or a style sheet of this service's own pages.
func TestInertType(t *testing.T) {
	for media, want := range map[string]string{
		"image/tiff; application=geotiff; profile=cloud-optimized": "image/tiff; application=geotiff; profile=cloud-optimized",
		"application/json": "application/json", "application/x-netcdf": "application/x-netcdf", "text/html": "text/html", "application/geo+json": "application/geo+json",
		"": "application/octet-stream", "text/javascript": "application/octet-stream", "Application/X-JavaScript;charset=utf-8": "application/octet-stream",
		"text/jscript": "application/octet-stream", "application/ecmascript": "application/octet-stream", "text/livescript": "application/octet-stream",
		"text/css": "application/octet-stream", "application/wasm": "application/octet-stream", "application/manifest+json": "application/octet-stream",
	} {
		if got := inertType(media); got != want {
			t.Errorf("%q: %q, want %q", media, got, want)
		}
	}
}
