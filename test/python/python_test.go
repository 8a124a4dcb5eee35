// Package python runs the tests of the Python package in python/ against the real program: built as a wheel, and
// installed into an environment of its own.
package python

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
)

func TestMain(m *testing.M) {
	code := m.Run()
	executable.CleanUp()
	os.Exit(code)
}

// interpreter returns the Python of an environment that install.sh makes. Without it the test is skipped; in CI it
// fails.
func interpreter(t *testing.T, environment string) string {
	t.Helper()
	folder, err := exec.Command("bash", "../real/install.sh", "--bin", environment).Output()
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(strings.TrimSpace(string(folder)), "python")
	if _, err := os.Stat(python); err != nil {
		installed.Missing(t, environment, "test/real/install.sh "+environment)
	}
	return python
}

// output runs a program in a folder and returns what it prints.
func output(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = folder
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(c.Args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// install builds the wheel of a copy of the sources, installs it into a new environment, which sees the packages of
// another one, and returns its Python.
func install(t *testing.T, python, folder string) string {
	t.Helper()
	if err := os.CopyFS(filepath.Join(folder, "source"), os.DirFS("../../python")); err != nil {
		t.Fatal(err)
	}
	output(t, filepath.Join(folder, "source"), interpreter(t, "hatchling"), "-m", "hatchling", "build", "-t", "wheel",
		"-d", folder)
	wheels, err := filepath.Glob(filepath.Join(folder, "*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("wheels: %v, %v", wheels, err)
	}
	venv := filepath.Join(folder, "venv")
	output(t, folder, python, "-m", "venv", "--without-pip", venv)
	own := filepath.Join(venv, "bin", "python")
	const site = "import sysconfig; print(sysconfig.get_path('purelib'))"
	if err := os.WriteFile(filepath.Join(output(t, folder, own, "-c", site), "libraries.pth"),
		[]byte(output(t, folder, python, "-c", site)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	output(t, folder, python, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", own, "install",
		"--no-deps", "--no-index", wheels[0])
	return own
}

// TestPackage_AgainstTheProgram runs the tests of the package, the lines of its documentation, and its notebook. They
// wait for jobs most of the time, so all run at once, each part with a demonstration of its own.
func TestPackage_AgainstTheProgram(t *testing.T) {
	python, folder := interpreter(t, "python"), t.TempDir()
	binary, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	own := install(t, python, folder)
	tests, err := filepath.Abs("../../python/tests")
	if err != nil {
		t.Fatal(err)
	}
	parts, others := map[string][]string{}, []string{tests}
	for _, name := range []string{"documents", "guide", "results", "runs"} { // those that take longest
		file := filepath.Join(tests, "test_"+name+".py")
		parts[name], others = []string{file}, append(others, "--ignore", file)
	}
	parts["others"] = others
	ended := make(chan string)
	for name, chosen := range parts { // not parallel subtests: of those run only as many at once as there are cores
		go func() { ended <- judged(t, own, binary, folder, name, chosen) }()
	}
	for range parts {
		if fault := <-ended; fault != "" {
			t.Error(fault)
		}
	}
}

// judged runs chosen tests, and returns what is wrong; "" if they pass.
func judged(t *testing.T, python, binary, folder, name string, chosen []string) string {
	c := exec.CommandContext(t.Context(), python, append([]string{"-m", "pytest", "-p", "no:cacheprovider", "-o",
		"faulthandler_timeout=600"}, chosen...)...)
	c.Dir, c.WaitDelay = folder, time.Minute
	c.Env = append(os.Environ(), "EODISPATCH_PROGRAM="+binary, "PYTHONDONTWRITEBYTECODE=1", "HOME="+folder)
	began := time.Now()
	out, err := c.CombinedOutput()
	t.Logf("%s: %v", name, time.Since(began).Round(time.Second))
	if err != nil {
		return fmt.Sprintf("%s: %v\n%s", name, err, out)
	}
	return ""
}
