package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/installed"
)

// hatchling returns the Python of the environment that builds the Python package. Without it the test is skipped; in
// CI it fails.
func hatchling(t *testing.T) string {
	t.Helper()
	folder, err := exec.Command("bash", "test/real/install.sh", "--bin", "hatchling").Output()
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(strings.TrimSpace(string(folder)), "python")
	if _, err := os.Stat(python); err != nil {
		installed.Missing(t, "hatchling", "test/real/install.sh hatchling")
	}
	return python
}

// packagesWith builds the Python package with a text in place of each program, and returns the folder.
func packagesWith(t *testing.T, python, program string) string {
	t.Helper()
	r := release{version: "Unreleased", folder: t.TempDir(), created: time.Unix(1_700_000_000, 0), targets: targets,
		python: python}
	for _, target := range targets {
		if err := os.WriteFile(r.file(target), []byte(program), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.packages(); err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		if err := os.Remove(r.file(target)); err != nil {
			t.Fatal(err)
		}
	}
	return r.folder
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestPackages_AreReproducible: the same commit gives the same bytes.
func TestPackages_AreReproducible(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	python := hatchling(t)
	first, second := packagesWith(t, python, "program"), packagesWith(t, python, "program")
	for _, file := range files(t, first) {
		one, err := os.ReadFile(filepath.Join(first, file))
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(filepath.Join(second, file))
		if err != nil || !bytes.Equal(one, other) {
			t.Errorf("%s differs: %v", file, err)
		}
	}
	if got := files(t, first); len(got) != len(targets)+2 {
		t.Errorf("packages: %v", got)
	}
}

func files(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestWheels_OfEachSystem: Python's own library reads the names, and the record has the hash of each file.
func TestWheels_OfEachSystem(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	python := hatchling(t)
	folder := packagesWith(t, python, "program")
	systems := map[string]bool{}
	for _, file := range files(t, folder) {
		if !strings.HasSuffix(file, ".whl") {
			continue
		}
		parsed := output(t, python, "-c", "import sys; from packaging.utils import parse_wheel_filename as p\n"+
			"print(*sorted(t.platform for t in p(sys.argv[1])[3]))", file)
		for system := range strings.FieldsSeq(parsed) {
			systems[system] = true
		}
		script := "eodispatch-0.2.0.data/scripts/eodispatch"
		if strings.Contains(file, "win_") {
			script += ".exe"
		}
		if contained := checkRecord(t, filepath.Join(folder, file), script); contained != (parsed != "any") {
			t.Errorf("%s has the program: %v", file, contained)
		}
	}
	for _, want := range []string{"any", "manylinux_2_17_x86_64", "manylinux_2_17_aarch64", "musllinux_1_1_x86_64",
		"macosx_12_0_arm64", "macosx_12_0_x86_64", "win_amd64"} {
		if !systems[want] {
			t.Errorf("no wheel is for %s: %v", want, systems)
		}
	}
}

// checkRecord compares the files of a wheel with its record, and reports whether one of them is the program.
func checkRecord(t *testing.T, file, program string) (found bool) {
	t.Helper()
	opened, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	texts := map[string][]byte{}
	for _, f := range opened.File {
		if texts[f.Name], err = contentOf(f); err != nil {
			t.Fatal(err)
		}
		if f.Name == program && f.Mode().Perm() == 0o755 {
			found = true
		}
	}
	const record = "eodispatch-0.2.0.dist-info/RECORD"
	lines, err := csv.NewReader(bytes.NewReader(texts[record])).ReadAll()
	if err != nil || len(lines) != len(texts) {
		t.Errorf("%s: the record has %d of %d files: %v", file, len(lines), len(texts), err)
	}
	for _, line := range lines {
		sum := sha256.Sum256(texts[line[0]])
		want := []string{line[0], "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]),
			fmt.Sprint(len(texts[line[0]]))}
		if line[0] == record {
			want = []string{record, "", ""}
		}
		if strings.Join(line, ",") != strings.Join(want, ",") {
			t.Errorf("%s: %v, not %v", file, line, want)
		}
	}
	return found
}

// installWheel installs the wheel for the machine of the test as pip chooses it from a release, and runs the program
// and the package that it brings.
func installWheel(t *testing.T, r release) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the folder of programs has another name there")
	}
	venv := filepath.Join(t.TempDir(), "venv")
	output(t, r.python, "-m", "venv", "--without-pip", venv)
	own := filepath.Join(venv, "bin", "python")
	output(t, r.python, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", own, "install", "--no-deps",
		"--no-index", "--find-links", r.folder, "eodispatch")
	if got := output(t, filepath.Join(venv, "bin", "eodispatch"), "version"); !strings.HasPrefix(got,
		"eodispatch "+r.version+" ") {
		t.Errorf("the program of the wheel: %s", got)
	}
	const where = "import importlib.util, sys; " +
		"print(importlib.util.find_spec('eodispatch').origin.startswith(sys.prefix))"
	if got := output(t, own, "-c", where); got != "True" {
		t.Errorf("the package of the wheel: %s", got)
	}
}
