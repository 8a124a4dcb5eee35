package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestNotesOf_FindsTheSection(t *testing.T) {
	const changelog = "# Changes\n\n## Unreleased\n\n- new\n\n## 0.2.0 (abc)\n\n- two\n  lines\n\n## 0.1.0\n\n- " +
		"first\n\n## 0.0.9\n\n"
	for version, want := range map[string]string{"0.2.0": "- two\n  lines\n", "v0.1.0": "- first\n",
		"Unreleased": "- new\n"} {
		if got, err := notesOf(changelog, version); err != nil || got != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	for _, version := range []string{"0.3.0", "0.0.9", "", "0.2"} {
		if got, err := notesOf(changelog, version); err == nil {
			t.Errorf("%s: %q", version, got)
		}
	}
}

// TestCheckChart_OfAnotherVersion: a release whose chart would run another version is refused.
func TestCheckChart_OfAnotherVersion(t *testing.T) {
	for chart, right := range map[string]bool{
		"version: 0.2.0\nappVersion: \"0.2.0\"\n": true,
		"version: 0.2.0\nappVersion: \"0.1.0\"\n": false,
		"version: 0.1.0\nappVersion: \"0.2.0\"\n": false,
		"name: eodispatch\n":                      false,
		"version: [":                              false,
	} {
		if err := checkChart([]byte(chart), "v0.2.0"); (err == nil) != right {
			t.Errorf("%q: %v", chart, err)
		}
	}
	if err := checkChart([]byte("version: 0.1.0\n"), "Unreleased"); err != nil {
		t.Error(err)
	}
}

// TestCheckPackage_OfAnotherVersion: a release whose Python package would have another version is refused.
func TestCheckPackage_OfAnotherVersion(t *testing.T) {
	const project = "[project]\nname = \"eodispatch\"\nversion = \"0.2.0\"\n"
	for version, right := range map[string]bool{"0.2.0": true, "v0.2.0": true, "Unreleased": true, "0.2": false,
		"0.2.1": false} {
		if err := checkPackage([]byte(project), version); (err == nil) != right {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// newest returns the version of the first section of the changelog.
func newest(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## ")
	title, _, _ := strings.Cut(section, "\n")
	version, _, _ := strings.Cut(title, " ")
	return version
}

// TestRelease_IsCheckedByItsSums makes a release for the machine of the test, without the image, which has tests of its
// own.
func TestRelease_IsCheckedByItsSums(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	version := newest(t)
	r := release{version: version, revision: "abc", folder: filepath.Join(t.TempDir(), "release"),
		created: time.Unix(1_700_000_000, 0),
		targets: []string{runtime.GOOS + "/" + runtime.GOARCH}, python: hatchling(t)}
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = r.folder
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	program := "eodispatch-" + version + "-" + runtime.GOOS + "-" + runtime.GOARCH
	if out, err := exec.Command(filepath.Join(r.folder, program), "version").CombinedOutput(); err != nil ||
		!strings.HasPrefix(string(out), "eodispatch "+version+" ") {
		t.Errorf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(r.folder, program+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"pkg:golang/github.com/jackc/pgx/v5@v5.", "pkg:golang/modernc.org/sqlite@v1.",
		"pkg:golang/stdlib@1."} {
		if !strings.Contains(string(text), module) {
			t.Errorf("%s is not described", module)
		}
	}
	installWheel(t, r)
	manuals := output(t, "tar", "-tzf", filepath.Join(r.folder, "eodispatch-"+version+"-man.tar.gz"))
	if !strings.Contains(manuals, "man/man1/eodispatch-run.1\n") {
		t.Errorf("manual pages: %s", manuals)
	}
	if err := (release{version: "9.9.9", folder: r.folder}).run(); err == nil {
		t.Error("a version without notes is released")
	}
}
