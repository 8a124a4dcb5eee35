package deploy_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
)

// release has release.sh make parts of a release, for the machine of the test unless SYSTEMS is set.
func release(t testing.TB, version, folder string, parts ...string) {
	t.Helper()
	if os.Getenv("SYSTEMS") == "" {
		t.Setenv("SYSTEMS", runtime.GOOS+"/"+runtime.GOARCH)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	output(t, "bash", append([]string{"release.sh", version, folder}, parts...)...)
}

func output(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestNotes_AreOfTheVersion: notes are the section of the changelog. A version without one is refused, and one that the
// chart, whose image would be another one, or the Python package does not have.
func TestNotes_AreOfTheVersion(t *testing.T) {
	const changelog = "# Changes\n\n## Unreleased\n\n- new\n\n## 0.2.0 (abc)\n\n- two\n\n  lines\n\n## 0.1.0\n\n- " +
		"first\n\n## 0.0.9\n\n"
	const chart, project = "version: 0.2.0\nappVersion: \"0.2.0\"\n", "[project]\nversion = \"0.2.0\"\n"
	tree := t.TempDir()
	put := func(file, text string) {
		path := filepath.Join(tree, file)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	put("deploy/release.sh", string(read(t, "release.sh")))
	put("CHANGELOG.md", changelog)
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	for _, c := range []struct{ version, chart, project, notes, refusal string }{
		{"0.2.0", chart, project, "- two\n\n  lines\n", ""},
		{"v0.2.0", chart, project, "- two\n\n  lines\n", ""},
		{"Unreleased", "", "", "- new\n", ""},
		{"0.3.0", chart, project, "", "CHANGELOG.md has no section '0.3.0'"},
		{"0.0.9", chart, project, "", "CHANGELOG.md has no section '0.0.9'"},
		{"0.2", chart, project, "", "CHANGELOG.md has no section '0.2'"},
		{"0.1.0", chart, project, "", "Chart.yaml does not have the line 'version: 0.1.0'"},
		{"0.2.0", "version: 0.2.0\nappVersion: \"0.1.0\"\n", project, "", "line 'appVersion: \"0.2.0\"'"},
		{"0.2.0", chart, "[project]\nversion = \"0.2.1\"\n", "", "pyproject.toml does not have the line"},
	} {
		put("deploy/chart/Chart.yaml", c.chart)
		put("python/pyproject.toml", c.project)
		folder := t.TempDir()
		script := filepath.Join(tree, "deploy/release.sh")
		out, err := exec.Command("bash", script, c.version, folder, "notes").CombinedOutput()
		if (err == nil) != (c.refusal == "") || !strings.Contains(string(out), c.refusal) {
			t.Errorf("%+v: %v: %s", c, err, out)
		} else if c.notes != "" && string(read(t, filepath.Join(folder, "NOTES.md"))) != c.notes {
			t.Errorf("%+v: %q", c, read(t, filepath.Join(folder, "NOTES.md")))
		}
	}
}

// TestSBOM_ListsWhatIsInTheProgram: modules and packages of the page, without the tools that build it, in the same
// bytes for the same program.
func TestSBOM_ListsWhatIsInTheProgram(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "package-lock.json")
	if err := os.WriteFile(lock, []byte(`{"packages": {"": {"name": "page"},
		"node_modules/ol": {"version": "10.11.0", "license": "BSD-2-Clause"},
		"node_modules/ol/node_modules/@a/b": {"version": "1.0.0", "license": "(MIT OR GPL-2.0)"},
		"node_modules/ol/node_modules/c": {"version": "1.0.0"}, "node_modules/d/node_modules/c": {"version": "1.0.0"},
		"node_modules/vite": {"version": "9.9.9", "dev": true}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	describe := func() string {
		return output(t, "go", "run", "-C", "../tools", "./sbom", "-version", "1.2.3", "-created", "1700000000",
			"-lock", lock, program)
	}
	text := describe()
	if describe() != text {
		t.Error("the same program is described in another way")
	}
	for part, times := range map[string]int{
		`"bomFormat": "CycloneDX"`:                                          1,
		`"timestamp": "2023-11-14T22:13:20Z"`:                               1,
		`"purl": "pkg:golang/github.com/eodispatch/eodispatch@1.2.3"`:       1,
		`"purl": "pkg:golang/github.com/jackc/pgx/v5@v5.`:                   1,
		`"purl": "pkg:golang/modernc.org/sqlite@v1.`:                        1,
		`"purl": "pkg:golang/stdlib@` + runtime.Version()[len("go"):] + `"`: 1,
		`"purl": "pkg:npm/ol@10.11.0"`:                                      1,
		`"purl": "pkg:npm/%40a/b@1.0.0"`:                                    1,
		`"purl": "pkg:npm/c@1.0.0"`:                                         1,
		`"expression": "BSD-2-Clause"`:                                      1,
		"vite":                                                              0,
		"serialNumber":                                                      0,
	} {
		if got := strings.Count(text, part); got != times {
			t.Errorf("%d times %s", got, part)
		}
	}
}

// hatchling returns the Python of the environment that builds the Python package. Without it the test is skipped; in
// CI it fails.
func hatchling(t *testing.T) string {
	t.Helper()
	python := filepath.Join(output(t, "bash", "../test/real/install.sh", "--bin", "hatchling"), "python")
	if _, err := os.Stat(python); err != nil {
		installed.Missing(t, "hatchling", "test/real/install.sh hatchling")
	}
	return python
}

// TestRelease_IsCheckedByItsSums makes all parts of a release for the machine of the test.
func TestRelease_IsCheckedByItsSums(t *testing.T) {
	python, folder := hatchling(t), t.TempDir()
	_, section, _ := strings.Cut(string(read(t, "../CHANGELOG.md")), "\n## ")
	version := strings.Fields(section)[0]
	release(t, version, folder)
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = folder
	if out, err := check.CombinedOutput(); err != nil || bytes.Count(out, []byte(": OK\n")) != 13 {
		t.Errorf("%v: %s", err, out)
	}
	program := filepath.Join(folder, "eodispatch-"+version+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	if got := output(t, program, "version"); !strings.HasPrefix(got, "eodispatch "+version+" ") {
		t.Error(got)
	}
	installWheel(t, python, folder, version)
	manuals := output(t, "tar", "-tzf", filepath.Join(folder, "eodispatch-"+version+"-man.tar.gz"))
	if !strings.Contains(manuals, "man/man1/eodispatch-run.1\n") {
		t.Errorf("manual pages: %s", manuals)
	}
}

// installWheel installs the wheel for the machine of the test as pip chooses it from a release, and runs the program
// and the package that it brings.
func installWheel(t *testing.T, python, folder, version string) {
	t.Helper()
	venv := filepath.Join(t.TempDir(), "venv")
	output(t, python, "-m", "venv", "--without-pip", venv)
	own := filepath.Join(venv, "bin", "python")
	output(t, python, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", own, "install", "--no-deps",
		"--no-index", "--find-links", folder, "eodispatch")
	if got := output(t, filepath.Join(venv, "bin", "eodispatch"), "version"); !strings.HasPrefix(got,
		"eodispatch "+version+" ") {
		t.Errorf("the program of the wheel: %s", got)
	}
	const where = "import importlib.util, sys; " +
		"print(importlib.util.find_spec('eodispatch').origin.startswith(sys.prefix))"
	if got := output(t, own, "-c", where); got != "True" {
		t.Errorf("the package of the wheel: %s", got)
	}
}

// TestWheels_OfEachSystem: the Python package is built in the same bytes each time, for every system without the
// program and for each system with it. Python's own library reads the names.
func TestWheels_OfEachSystem(t *testing.T) {
	python, folder := hatchling(t), t.TempDir()
	t.Setenv("SYSTEMS", "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64")
	for system := range strings.FieldsSeq(os.Getenv("SYSTEMS")) {
		program := filepath.Join(folder, "eodispatch-1.2.3-"+strings.ReplaceAll(system, "/", "-"))
		if strings.HasPrefix(system, "windows") {
			program += ".exe"
		}
		if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	release(t, "1.2.3", folder, "wheels", "sums")
	first := string(read(t, filepath.Join(folder, "SHA256SUMS")))
	release(t, "1.2.3", folder, "wheels", "sums")
	if second := string(read(t, filepath.Join(folder, "SHA256SUMS"))); second != first {
		t.Errorf("%s\nnow\n%s", first, second)
	}
	wheels, err := filepath.Glob(filepath.Join(folder, "*.whl"))
	if err != nil || len(wheels) != 6 {
		t.Errorf("%v: %v", wheels, err)
	}
	var systems []string
	for _, file := range wheels {
		parsed := output(t, python, "-c", "import sys; from packaging.utils import parse_wheel_filename as p\n"+
			"print(*sorted(t.platform for t in p(sys.argv[1])[3]))", filepath.Base(file))
		systems = append(systems, strings.Fields(parsed)...)
		if program := programIn(t, file); strings.HasSuffix(program, ".exe") != strings.HasPrefix(parsed, "win") ||
			(program == "") != (parsed == "any") {
			t.Errorf("%s has the program %q", file, program)
		}
	}
	for _, want := range []string{"any", "manylinux_2_17_x86_64", "manylinux_2_17_aarch64", "musllinux_1_1_x86_64",
		"musllinux_1_1_aarch64", "macosx_12_0_arm64", "macosx_12_0_x86_64", "win_amd64"} {
		if !strings.Contains(" "+strings.Join(systems, " ")+" ", " "+want+" ") {
			t.Errorf("no wheel is for %s: %v", want, systems)
		}
	}
}

// programIn returns the name of the program in a wheel, which may be executed; "" if it has none.
func programIn(t *testing.T, wheel string) (name string) {
	t.Helper()
	opened, err := zip.OpenReader(wheel)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for _, f := range opened.File {
		if _, script, found := strings.Cut(f.Name, ".data/scripts/"); found && f.Mode().Perm() == 0o755 {
			name = script
		}
	}
	return name
}
