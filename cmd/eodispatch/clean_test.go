package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// TestOperators_AreNotSteered: what platforms and users wrote reaches an operator's terminal as text alone.
func TestOperators_AreNotSteered(t *testing.T) {
	const hostile = "job\x1b[2J\u009b1m\u202e"
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"id": 1, "ref": "job\u001b[2J\u009b1m\u202e", "text": "é"}]`)
	}))
	defer listener.Close()
	w := startWorld(t)
	environ := append(acting(t, w, "127.0.0.1:0", "sqlite:"+filepath.Join(t.TempDir(), "d.db"), named("k")),
		"EODISPATCH_TELEMETRY_LISTEN="+strings.TrimPrefix(listener.URL, "http://"))
	if code, said := try(t, environ, "migrate"); code != exitDone {
		t.Fatal(said)
	}
	var doctor strings.Builder
	if err := (&doctorCommand{}).print(&doctor, nil, nil, []string{hostile}); err != nil {
		t.Fatal(err)
	}
	for name, said := range map[string]string{"operator": operators(t, environ, "jobs"), "doctor": doctor.String()} {
		if !strings.Contains(said, "job [2J 1m") || strings.ContainsAny(said, "\x1b\u009b\u202e") {
			t.Errorf("%s: %q", name, said)
		}
	}
}
