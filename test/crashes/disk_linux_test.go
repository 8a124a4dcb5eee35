package crashes

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/simulator"
)

// traced builds a way to start the program under strace, which notes what the program writes and what it has the disk keep.
func traced(t *testing.T, notes string) func() (string, error) {
	return func() (string, error) {
		program, err := released()
		if err != nil {
			return "", err
		}
		strace, err := exec.LookPath("strace")
		if err != nil {
			return "", err
		}
		script := filepath.Join(t.TempDir(), "traced")
		text := "#!/bin/sh\nexec '" + strace + "' -D -f -y -qq -s 5000 -e trace=fsync,fdatasync,write,pwrite64 -o '" + notes + "' '" + program + "' \"$@\"\n"
		return script, os.WriteFile(script, []byte(text), 0o755)
	}
}

// TestSQLite_SyncsBeforeItAnswers: after the first write of the job to the database's journal, and before the 201, the program has the
// disk keep the journal. With synchronous(OFF) there is no such call. Later writes do not count: they are of the broker that takes up the
// job while the answer is on its way.
func TestSQLite_SyncsBeforeItAnswers(t *testing.T) {
	t.Parallel()
	platform := httptest.NewServer(&simulator.OpenEO{Open: true})
	t.Cleanup(platform.Close)
	folder := t.TempDir()
	notes := filepath.Join(folder, "calls")
	p := launch(t, traced(t, notes), environment(t, "sqlite:"+filepath.Join(folder, "fire.db"), []map[string]any{
		{"name": "p", "protocol": "openeo", "endpoint": platform.URL, "access": "open"}}))
	if p.Address == "" {
		t.Fatal("it does not serve")
	}
	began := len(read(t, notes))
	const title = "kept before it is answered"
	job := map[string]any{"title": title, "label": "openeo", "format": "json", "service": map[string]any{"endpoint": platform.URL, "application": "ndvi_composite"},
		"parameters": map[string]any{"spatial_extent": map[string]any{"west": 5.0, "south": 51.2, "east": 5.1, "north": 51.3}, "temporal_extent": []string{"2026-05-01", "2026-06-01"}}}
	if err := p.ask(t.Context(), http.MethodPost, "/unit_jobs", "", job, nil); err != nil {
		t.Fatal(err)
	}
	var calls string
	if !until(time.Minute, func() bool {
		calls = read(t, notes)[began:]
		return strings.Contains(calls, "HTTP/1.1 201")
	}) {
		t.Fatalf("the answer is not among the calls:\n%s", calls)
	}
	before, _, _ := strings.Cut(calls, "HTTP/1.1 201")
	written, synced := false, false
	for line := range strings.Lines(before) {
		if !strings.Contains(line, "fire.db-wal>") {
			continue
		}
		written = written || strings.Contains(line, "write") && strings.Contains(line, title)
		synced = synced || written && strings.Contains(line, "sync(")
	}
	if !written || !synced {
		t.Errorf("written %v, on the disk %v:\n%s", written, synced, before)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
