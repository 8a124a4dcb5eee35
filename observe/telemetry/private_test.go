package telemetry

import (
	"net/http/httptest"
	"testing"
)

// A page in a browser on the broker's own machine, whose name leads to the private listener, reads nothing there.
func TestHandler_RefusesForeignNames(t *testing.T) {
	for from, hosts := range map[string]map[string]int{
		"127.0.0.1:5000": {"127.0.0.1:9090": 200, "[::1]:9090": 200, "localhost:9090": 200, "broker:9090": 200,
			"10.0.0.5":              200,
			"page.example.com:9090": 421, "page.example.com": 421, "127.0.0.1.example.com": 421},
		"[::1]:5000":    {"page.example.com:9090": 421},
		"10.0.0.7:5000": {"broker.example.com:9090": 200},
	} {
		for host, want := range hosts {
			for _, path := range []string{"/metrics", "/debug/pprof/"} {
				r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
				r.RemoteAddr, r.Host = from, host
				if full().Handler().ServeHTTP(w, r); w.Code != want {
					t.Errorf("%s of %s from %s: %d, want %d", path, host, from, w.Code, want)
				}
			}
		}
	}
}
