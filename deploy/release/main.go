// Command release makes everything that a release consists of, in one folder: programs for Linux, macOS and Windows,
// the image, a description of what they contain (SBOM), the Python package with and without the program, manual pages,
// notes from the changelog, and checksums. The same commit gives the same bytes. It publishes nothing.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eodispatch/eodispatch/deploy/sbom"
)

// targets are the systems for which programs are built.
var targets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

// release is what is to be made.
type release struct {
	version, revision, folder string
	created                   time.Time
	targets                   []string
	image                     bool
	python                    string // with hatchling, which builds the Python package; "": it is left out
}

func main() {
	var r release
	created, systems := "", ""
	flag.StringVar(&r.version, "version", "", "version of the release; CHANGELOG.md has a section of that name")
	flag.StringVar(&r.revision, "revision", "", "commit that is built")
	flag.StringVar(&created, "created", "0", "time of that commit, in seconds since 1970")
	flag.StringVar(&r.folder, "out", "dist/release", "folder of the release; a previous one in it is replaced")
	flag.StringVar(&systems, "targets", strings.Join(targets, ","), "systems to build for")
	flag.BoolVar(&r.image, "image", true, "also make the image")
	flag.StringVar(&r.python, "python", "", "Python with hatchling, by which the Python package is built; default: "+
		"it is "+"left out")
	flag.Parse()
	seconds, err := strconv.ParseInt(created, 10, 64)
	if err == nil {
		r.created, r.targets = time.Unix(seconds, 0).UTC(), strings.Split(systems, ",")
		err = r.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run makes the release.
func (r release) run() error {
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	notes, err := notesOf(string(changelog), r.version)
	if err != nil {
		return err
	}
	chart, err := os.ReadFile("deploy/chart/Chart.yaml")
	if err != nil {
		return err
	}
	if err := checkChart(chart, r.version); err != nil {
		return err
	}
	project, err := os.ReadFile("python/pyproject.toml")
	if err != nil {
		return err
	}
	if err := checkPackage(project, r.version); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.folder), os.MkdirAll(r.folder, 0o755)); err != nil {
		return err
	}
	for _, target := range r.targets {
		if err := r.program(target); err != nil {
			return err
		}
	}
	if err := r.manuals(); err != nil {
		return err
	}
	if r.image {
		if err := r.command(nil, "go", "run", "./deploy/image", "-out", filepath.Join(r.folder, "image"), "-version",
			r.version, "-revision", r.revision,
			"-created", strconv.FormatInt(r.created.Unix(), 10)); err != nil {
			return err
		}
	}
	if r.python != "" {
		if err := r.packages(); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(r.folder, "NOTES.md"), []byte(notes), 0o644); err != nil {
		return err
	}
	return writeChecksums(r.folder)
}

// file returns the path of the program for one system.
func (r release) file(target string) string {
	system, architecture, _ := strings.Cut(target, "/")
	file := filepath.Join(r.folder, "eodispatch-"+r.version+"-"+system+"-"+architecture)
	if system == "windows" {
		file += ".exe"
	}
	return file
}

// program builds the program for one system, and describes it.
func (r release) program(target string) error {
	system, architecture, _ := strings.Cut(target, "/")
	file := r.file(target)
	if err := r.command([]string{"CGO_ENABLED=0", "GOOS=" + system, "GOARCH=" + architecture},
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version="+r.version, "-o",
		file, "./cmd/eodispatch"); err != nil {
		return err
	}
	lock := "web/package-lock.json"
	if _, err := os.Stat("web/dist/index.html"); errors.Is(err, fs.ErrNotExist) {
		lock = "" // the program has no page
	}
	text, err := sbom.Of(file, r.version, lock, r.created)
	if err != nil {
		return err
	}
	return os.WriteFile(file+".cdx.json", text, 0o644)
}

func (r release) command(environ []string, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Env, c.Stderr = append(os.Environ(), environ...), os.Stderr
	return c.Run()
}

// notesOf returns the section of the changelog for a version. A release without one is a mistake.
func notesOf(changelog, version string) (string, error) {
	for section := range strings.SplitSeq(changelog, "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		if name, _, _ := strings.Cut(title, " "); name == strings.TrimPrefix(version, "v") &&
			strings.TrimSpace(body) != "" {
			return strings.TrimSpace(body) + "\n", nil
		}
	}
	return "", fmt.Errorf("CHANGELOG.md has no section %q: name the version there first",
		strings.TrimPrefix(version, "v"))
}

// checkChart refuses a version that is not the chart's: its default image would be another one. What is not released
// yet has no chart.
func checkChart(chart []byte, version string) error {
	var named struct {
		Version    string `yaml:"version"`
		AppVersion string `yaml:"appVersion"`
	}
	if err := yaml.Unmarshal(chart, &named); err != nil {
		return err
	}
	version = strings.TrimPrefix(version, "v")
	if version != "Unreleased" && (named.Version != version || named.AppVersion != version) {
		return fmt.Errorf(
			"deploy/chart/Chart.yaml has version %s and appVersion %s, not %s: name the version there first, and run "+
				"make charts", named.Version, named.AppVersion, version)
	}
	return nil
}

// writeChecksums writes SHA256SUMS, which sha256sum -c reads, of all files below the folder.
func writeChecksums(folder string) error {
	var lines []string
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		lines = append(lines, hex.EncodeToString(sum[:])+"  "+path+"\n")
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
