// Package installed says what becomes of a test on a machine that lacks what it needs: in continuous integration, which
// sets CI, it fails; elsewhere it is skipped.
package installed

import (
	"os"
	"os/exec"
	"testing"
)

// Missing ends a test that needs something which is not there. how is the command that installs it.
func Missing(t testing.TB, what, how string) {
	t.Helper()
	if Required() {
		t.Fatalf("%s is not installed: run %s", what, how)
	}
	t.Skipf("%s is not installed: run %s", what, how)
}

// Required reports whether tests must not be skipped.
func Required() bool { return os.Getenv("CI") != "" }

// Program returns the path of a program, which has the given name or is one of the given files.
func Program(t testing.TB, name string, files ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	Missing(t, name, "make ready")
	return ""
}
