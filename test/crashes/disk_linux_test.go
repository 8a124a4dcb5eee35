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

	"github.com/eodispatch/eodispatch/test/simulator"
)

// traced returns a binary that runs the program under strace, which records the program's writes and syncs in the file
// notes.
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
		text := "#!/bin/sh\nexec '" + strace + "' -D -f -y -qq -s 5000 -e trace=fsync,fdatasync,write,pwrite64 " +
			"-o '" + notes + "' '" + program + "' \"$@\"\n"
		return script, os.WriteFile(script, []byte(text), 0o755)
	}
}

// TestSQLite_SyncsBeforeItAnswers checks that the program syncs the database's write-ahead log after it has written a
// job to it and before it responds with 201. With synchronous(OFF) there is no such call. Only the first write of the
// job counts: the broker processes the job while the response is being sent, and writes again.
func TestSQLite_SyncsBeforeItAnswers(t *testing.T) {
	t.Parallel()
	platform := httptest.NewServer(&simulator.OpenEO{Open: true})
	t.Cleanup(platform.Close)
	folder := t.TempDir()
	notes := filepath.Join(folder, "calls")
	p := launch(t, traced(t, notes), environment(t, "sqlite:"+filepath.Join(folder, "fire.db"), []map[string]any{
		{"name": "p", "protocol": "openeo", "endpoint": platform.URL, "access": "open"}}))
	if p.Address == "" {
		t.Fatal("the program does not serve")
	}
	began := len(read(t, notes))
	const title = "kept before it is answered"
	job := map[string]any{"title": title, "label": "openeo", "format": "json",
		"service": map[string]any{"endpoint": platform.URL, "application": "ndvi_composite"},
		"parameters": map[string]any{
			"spatial_extent":  map[string]any{"west": 5.0, "south": 51.2, "east": 5.1, "north": 51.3},
			"temporal_extent": []string{"2026-05-01", "2026-06-01"}}}
	if err := p.ask(t.Context(), http.MethodPost, "/unit_jobs", "", job, nil); err != nil {
		t.Fatal(err)
	}
	var calls string
	if !until(time.Minute, func() bool {
		calls = read(t, notes)[began:]
		return strings.Contains(calls, "HTTP/1.1 201")
	}) {
		t.Fatalf("the response is not among the recorded calls:\n%s", calls)
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
		t.Errorf("written: %v, synced: %v:\n%s", written, synced, before)
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
