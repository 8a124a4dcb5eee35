package program

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/documents"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
)

// keepDemo starts `demo --keep` and returns what it prints for pasting: assignments, the lines after them, and
// commands.
func keepDemo(t *testing.T) (assignments, lines, commands string) {
	t.Helper()
	p := executable.Launch(t, executable.Released, nil, "demo", "--keep")
	t.Cleanup(func() {
		if got := p.Stop(t); got != exitDone {
			t.Errorf("exit %d:\n%s", got, p.Log)
		}
	})
	p.Log.Await(t, "ls june tiles")
	_, pasted, _ := strings.Cut(p.Log.String(), "\nB=")
	assignments, lines, _ = strings.Cut("B="+pasted, "\n\n")
	lines, commands, _ = strings.Cut(lines, "\nOr, ")
	_, commands, _ = strings.Cut(commands, "\n\n")
	return assignments + "\n", lines, commands
}

// pasteInto runs lines in a shell that stops at the first failure, and returns the output.
func pasteInto(t *testing.T, lines string) string {
	t.Helper()
	installed.Program(t, "bash")
	installed.Program(t, "curl")
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	shown, err := exec.CommandContext(ctx, "bash", "-c", "set -eu\n"+lines).CombinedOutput()
	if err != nil {
		t.Fatalf("%v of\n%s\nwhich shows:\n%s", err, lines, shown)
	}
	return string(shown)
}

// The demonstration prints what docs/portals.md shows, and it works when it is pasted into a shell.
func TestPortals_LinesWorkAgainstTheDemo(t *testing.T) {
	t.Parallel()
	shown := documents.Block(t, "docs/portals.md", "## Submit, wait, fetch", "sh")
	assignments, printed, _ := keepDemo(t)
	if printed != shown {
		t.Errorf("demo --keep prints\n%s\ndocs/portals.md shows\n%s", printed, shown)
	}
	renewal := assignments[strings.Index(assignments, "\nA=")+1:]
	answers := pasteInto(t, assignments+shown+renewal+
		"curl -s $B/platforms -H \"$A\"\ncurl -s $B/openapi.json\ncurl -s $B/\n"+
		"for O in http://127.0.0.1:8077 https://portal.example.org; do\n"+
		"curl -s -i -X OPTIONS -H \"Origin: $O\" -H 'Access-Control-Request-Method: POST' $B/unit_jobs |\n"+
		"grep -oE 'Access-Control-Allow-Origin.*|Its operator can allow [^(]*'; done")
	endpoint := Between(assignments, "OPENEO=", "\n")
	for what, want := range map[string]string{
		"the submission": `"title":"NDVI, June"`, "its end": `"status":"finished"`,
		"its results":    `"type":"Collection"`,
		"the parameters": `"name":"spatial_extent","type":"bounding-box"`, "all jobs": `{"upscaling_tasks":[`,
		"the tiles":                           `{"type":"GeometryCollection"`,
		"the platforms, with a renewed token": `"name":"simulated-ogc"`,
		"the document's examples":             `"service":{"application":"https://apps.example.org/ndvi_composite.json","endpoint":"` + endpoint,
		"the root":                            `"documentation":"/docs"`,
		"a page of this machine":              "Access-Control-Allow-Origin: http://127.0.0.1:8077",
		"a page of another":                   "Its operator can allow the origin with cors.allowed_origins",
	} {
		if !strings.Contains(answers, want) {
			t.Errorf("%s: %s is not in:\n%s", what, want, answers)
		}
	}
	if strings.Contains(answers, `"status":"error"`) {
		t.Errorf("an answer is an error:\n%s", answers)
	}
}

// The commands for scientists work as they stand in README, with a browser in which alice agrees, and so do the lines
// of docs/notebook.md.
func TestReadme_CommandsForScientistsWork(t *testing.T) {
	t.Parallel()
	assignments, _, printed := keepDemo(t)
	shown := documents.Block(t, "README.md", "## From nothing to files", "sh")
	if shown != printed {
		t.Errorf("demo --keep prints\n%s\nREADME shows\n%s", printed, shown)
	}
	if readme, err := os.ReadFile("../../README.md"); err != nil ||
		!strings.Contains(string(readme), "`export PATH=\"$PWD/bin:$PATH\"`") {
		t.Errorf("README does not say where the program is: %v", err)
	}
	u := newPerson(t)
	var lines strings.Builder
	for _, variable := range u.environ {
		lines.WriteString("export '" + variable + "'\n")
	}
	lines.WriteString("cd '" + u.folder + "'\n" + assignments + shown)
	u.holds(pasteInto(t, lines.String()), "Signed in to ", "Greenest NDVI of a season", "job-", "task-", "14 finished",
		"1 file downloaded", "14 files downloaded", "collection.json")
	u.hasFiles("june", "openEO.tif")
	u.hasFiles("tiles", "openEO.tif")
	t.Run("from Python", func(t *testing.T) { runNotebook(t, assignments) })
}

// runNotebook runs the lines of docs/notebook.md with the system's Python.
func runNotebook(t *testing.T, assignments string) {
	installed.Program(t, "python3")
	folder := t.TempDir()
	page := func(language string) string { return documents.Block(t, "docs/notebook.md", "# From Python", language) }
	shown := pasteInto(t, "cd '"+folder+"'\n"+assignments+page("sh")+"python3 - <<'END'\n"+page("python")+"END\n")
	if shown != "finished openEO.tif\n" {
		t.Errorf("it shows:\n%s", shown)
	}
	if file, err := os.ReadFile(filepath.Join(folder, "openEO.tif")); err != nil ||
		!strings.HasPrefix(string(file), "II*\x00") {
		t.Errorf("openEO.tif is no TIFF: %.20q, %v", file, err)
	}
}
