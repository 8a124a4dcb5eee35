package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/detector"
	"github.com/eodispatch/eodispatch/test/executable"
)

func TestWarnOfOpenFiles_ComparesWithAllConnections(t *testing.T) {
	for _, c := range []struct {
		limit, connections int
		warns              bool
	}{
		{limit: 1_048_576, connections: 10_000}, {limit: 23_000, connections: 10_000}, {limit: 0, connections: 10_000},
		{limit: 22_999, connections: 10_000, warns: true}, {limit: 1_024, connections: 100, warns: true},
	} {
		var said strings.Builder
		warnOfOpenFiles(c.limit, c.connections, slog.New(slog.NewTextHandler(&said, nil)))
		if warns := strings.Contains(said.String(), "limit of open files"); warns != c.warns {
			t.Errorf("%d files for %d connections: %q", c.limit, c.connections, said.String())
		}
	}
}

// TestServe_WarnsOfFewOpenFiles: the limit of the system reaches the program.
func TestServe_WarnsOfFewOpenFiles(t *testing.T) {
	limited := func() (string, error) {
		detector.Skip(t)
		program, err := executable.Released()
		if err != nil {
			return "", err
		}
		script := filepath.Join(t.TempDir(), "limited")
		return script, os.WriteFile(script, []byte("#!/bin/sh\nulimit -n 2000 && exec '"+program+"' \"$@\"\n"), 0o755)
	}
	p := executable.Start(t, limited, deployed(startWorld(t), asUser, asUser)...)
	if said := p.Log.String(); !strings.Contains(said, `"limit":2000,"needed":23000`) {
		t.Errorf("no warning in:\n%s", said)
	}
	p.Stop(t)
}
