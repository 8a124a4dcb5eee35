package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/documents"
)

// keepDemo starts `demo --keep` with more arguments and returns what it prints for pasting: assignments, and the lines
// after them.
func keepDemo(t *testing.T, args ...string) (assignments, lines string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var out screen
	code := make(chan int, 1)
	go func() { code <- run(append([]string{"demo", "--keep"}, args...), testConsole(ctx, &out)) }()
	t.Cleanup(func() {
		stop()
		if got := <-code; got != exitDone {
			t.Errorf("exit %d:\n%s", got, &out)
		}
	})
	out.await(t, "curl -s $B/tiles")
	_, pasted, _ := strings.Cut(out.String(), "\nB=")
	assignments, lines, _ = strings.Cut("B="+pasted, "\n\n")
	lines, _, _ = strings.Cut(lines, "\nOr, ")
	return assignments + "\n", lines
}

// needPrograms skips the test where a program is not installed; with CI set it fails.
func needPrograms(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		_, err := exec.LookPath(program)
		switch {
		case err == nil:
		case os.Getenv("CI") == "":
			t.Skipf("%v: install it, for example by apt-get install %s", err, program)
		default:
			t.Fatalf("%v: install it, for example by apt-get install %s", err, program)
		}
	}
}

// pasteInto runs lines in a shell that stops at the first failure, and returns the output.
func pasteInto(t *testing.T, lines string) string {
	t.Helper()
	needPrograms(t, "bash", "curl")
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
	shown := documents.Block(t, "docs/portals.md", "## Submit, wait, fetch", "sh")
	assignments, printed := keepDemo(t)
	if printed != shown {
		t.Errorf("demo --keep prints\n%s\ndocs/portals.md shows\n%s", printed, shown)
	}
	renewal := assignments[strings.Index(assignments, "\nA=")+1:]
	answers := pasteInto(t, assignments+shown+renewal+
		"curl -s $B/platforms -H \"$A\"\ncurl -s $B/openapi.json\ncurl -s $B/")
	endpoint := between(assignments, "OPENEO=", "\n")
	for what, want := range map[string]string{
		"the submission": `"title":"NDVI, June"`, "its end": `"status":"finished"`, "its results": `"type":"Collection"`,
		"the parameters": `"name":"spatial_extent","type":"bounding-box"`, "all jobs": `{"upscaling_tasks":[`,
		"the tiles":                           `{"type":"GeometryCollection"`,
		"the platforms, with a renewed token": `"name":"simulated-ogc"`,
		"the document's examples":             `"service":{"application":"https://apps.example.org/ndvi_composite.json","endpoint":"` + endpoint,
		"the root":                            `"documentation":"/docs"`,
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
	assignments, _ := keepDemo(t)
	if documents.Block(t, "README.md", "## From nothing to files", "sh") != demoCommands {
		t.Error("demo --keep prints other commands than README")
	}
	u := newPerson(t)
	var lines strings.Builder
	for _, variable := range u.environ {
		lines.WriteString("export '" + variable + "'\n")
	}
	lines.WriteString("cd '" + u.folder + "'\n" + assignments + documents.Block(t, "README.md", "## From nothing to files", "sh"))
	shown := pasteInto(t, lines.String())
	u.holds(shown, "Signed in at ", "Greenest NDVI of a season", "job-", "task-", "14 finished", "1 files downloaded",
		"14 files downloaded", "collection.json")
	u.hasFiles("june", "openEO.tif")
	u.hasFiles("tiles", "openEO.tif")
	t.Run("from Python", func(t *testing.T) { runNotebook(t, assignments) })
}

// runNotebook runs the lines of docs/notebook.md with the system's Python.
func runNotebook(t *testing.T, assignments string) {
	needPrograms(t, "python3")
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

// With another application the lines submit that application.
func TestDemo_PrintsLinesForAnotherApplication(t *testing.T) {
	file := filepath.Join(t.TempDir(), "it's.json")
	text := `{"id": "it's", "parameters": [{"name": "x", "schema": {"type": "number", "default": 2}}],
		"process_graph": {"add": {"process_id": "add", "arguments": {"x": {"from_parameter": "x"}, "y": 1}, "result": true}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	assignments, lines := keepDemo(t, "--application", file)
	if answers := pasteInto(t, assignments+lines); !strings.Contains(answers, `"title":"it's"`) ||
		!strings.Contains(answers, `"status":"finished"`) {
		t.Errorf("it shows:\n%s", answers)
	}
}
