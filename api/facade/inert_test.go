package facade

import "testing"

// Files that are passed on can never act as a script or a style sheet of this service's own pages.
func TestInertType(t *testing.T) {
	for _, kept := range []string{"image/tiff; application=geotiff; profile=cloud-optimized", "application/json",
		"application/x-netcdf", "text/html", "application/geo+json", "text/xml", "multipart/byteranges; boundary=x"} {
		if got := InertType(kept); got != kept {
			t.Errorf("%q: %q", kept, got)
		}
	}
	for _, active := range []string{"", "text/javascript", "Application/X-JavaScript;charset=utf-8", "text/jscript",
		"application/ecmascript", "text/livescript", "text/css", "application/wasm", "application/manifest+json",
		"multipart/x-mixed-replace; boundary=x", "Multipart/Related", "message/rfc822",
		" multipart/x-mixed-replace", "text/html, text/javascript"} {
		if got := InertType(active); got != "application/octet-stream" {
			t.Errorf("%q: %q", active, got)
		}
	}
}
