package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/executable"
)

// TestServe_WarnsOfFewOpenFiles: the limit of the system reaches the program.
func TestServe_WarnsOfFewOpenFiles(t *testing.T) {
	limited := func() (string, error) {
		program, err := executable.Released()
		if err != nil {
			return "", err
		}
		script := filepath.Join(t.TempDir(), "limited")
		return script, os.WriteFile(script, []byte("#!/bin/sh\nulimit -n 2000 && exec '"+program+"' \"$@\"\n"), 0o755)
	}
	p := executable.Start(t, limited, deployed(startWorld(t), asUser, asUser)...)
	if said := p.Log.String(); !strings.Contains(said, `"limit":2000,"needed":11000`) {
		t.Errorf("no warning in:\n%s", said)
	}
	p.Stop(t)
}
