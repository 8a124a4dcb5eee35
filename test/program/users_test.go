package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/client/cli"
	"github.com/eodispatch/eodispatch/test/documents"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// person runs the users' commands of the real program, with files of their own, and a browser in which alice agrees to
// every sign-in.
type person struct {
	*testing.T
	folder  string // the working directory
	environ []string
}

func newPerson(t *testing.T, environ ...string) *person {
	t.Helper()
	folder := t.TempDir()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("%v: install it, for example by apt-get install curl", err)
	}
	script := "#!/bin/sh\nexec curl -sL \"$1&as=alice\" -o /dev/null\n"
	if err := os.WriteFile(filepath.Join(folder, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	path := folder + ":" + filepath.Dir(program) + ":" + os.Getenv("PATH")
	return &person{t, folder, append([]string{"HOME=" + folder, "DISPLAY=:0", "PATH=" + path}, environ...)}
}

// do runs a command and returns its exit code and its two outputs.
func (u *person) do(args ...string) (code int, out, said string) {
	u.Helper()
	program, err := executable.Released()
	if err != nil {
		u.Fatal(err)
	}
	var stdout, stderr strings.Builder
	command := exec.CommandContext(u.Context(), program, args...)
	command.Dir, command.Env, command.Stdout, command.Stderr = u.folder, u.environ, &stdout, &stderr
	if err := command.Run(); command.ProcessState == nil {
		u.Fatal(err)
	}
	return command.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// must runs a command that must end well, and returns what it prints to standard output.
func (u *person) must(args ...string) string {
	u.Helper()
	code, out, said := u.do(args...)
	if code != exitDone {
		u.Fatalf("eodispatch %s: exit %d\n%s%s", strings.Join(args, " "), code, out, said)
	}
	return out
}

// refused runs a command that must fail with a code and say a text.
func (u *person) refused(code int, want string, args ...string) {
	u.Helper()
	got, out, said := u.do(args...)
	if got != code || !strings.Contains(said, want) {
		u.Errorf("eodispatch %s: exit %d, not %d, with %q in:\n%s%s", strings.Join(args, " "), got, code, want, out,
			said)
	}
}

// holds fails unless a text contains all parts.
func (u *person) holds(text string, parts ...string) {
	u.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			u.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

const usersBox = "5.05,51.2,5.15,51.25"

// TestUsers_ControlATask pauses, resumes, cancels and retries a task and jobs of it.
func TestUsers_ControlATask(t *testing.T) {
	t.Parallel()
	s := startDemo(t)
	token := SignIn(t, s.world, s.broker).Token
	u := newPerson(t, "EODISPATCH_BROKER="+s.broker, "EODISPATCH_TOKEN="+token)
	said := func(args ...string) string {
		t.Helper()
		code, _, said := u.do(args...)
		if code != exitDone {
			t.Errorf("%v: exit %d: %s", args, code, said)
		}
		return said
	}
	tiled := []string{"--platform", "simulated-ogc", "--area", "5.05,51.05,5.75,51.45", "--grid", "20x20km"}
	s.world.OGC.SetLife(simulator.Life{Run: time.Hour})
	u.must(append([]string{"upscale", "ndvi", "--label", "project=hesbaye", "--note", "a first try"}, tiled...)...)
	u.holds(u.must("list", "--label", "project=hesbaye"), "task-1")
	u.holds(said("label", "task-1", "project-", "season=spring"), "task-1: season=spring")
	u.holds(u.must("show", "task-1"), "season=spring", "a first try")
	if found := u.must("list", "--label", "project=hesbaye"); strings.Contains(found, "task-1") {
		t.Error(found)
	}
	u.refused(cli.ExitUsage, "write KEY=VALUE", "label", "task-1", "season")
	u.holds(said("pause", "task-1"), "task-1: ", ", paused")
	u.holds(u.must("show", "task-1"), ", paused")
	u.refused(cli.ExitUsage, "job-1 is a job; pause takes a task", "pause", "job-1")
	if after := said("resume", "task-1"); strings.Contains(after, "paused") {
		t.Error(after)
	}
	u.refused(cli.ExitUsage, "unknown status", "cancel", "task-1", "--status", "sleeping")
	u.refused(cli.ExitUsage, "select jobs of a task", "cancel", "job-1", "--job", "1")
	said("cancel", "task-1", "--job", "1,2", "--status", "created,submitted,queued,running")
	u.refused(cli.ExitCanceled, "job-2 was canceled", "wait", "job-2")
	u.holds(u.must("list", "--task", "task-1", "--status", "created,submitted,queued,running"), "job-3")
	said("cancel", "task-1")
	u.refused(cli.ExitCanceled, "task-1 was canceled", "wait", "task-1")

	s.world.OGC.SetLife(simulator.Life{})
	u.must(append([]string{"upscale", "fail"}, tiled...)...)
	u.refused(cli.ExitUnsuccessful, "task-2 has ended: 14 failed", "wait", "task-2")
	u.holds(said("retry", "job-15"), "task-2: ", "13 failed")
	u.refused(cli.ExitUnsuccessful, "job-15 failed", "wait", "job-15")
	u.must("run", "ndvi", "--platform", "simulated-ogc", "--area", usersBox)
	u.refused(cli.ExitUsage, "only jobs of tasks can be retried, and job-29 is not one", "retry", "job-29")

	showsOf := func(task, want string, flags ...string) {
		t.Helper()
		show := append([]string{"show", task}, flags...)
		for end := time.Now().Add(2 * time.Minute); !strings.Contains(u.must(show...), want); {
			if time.Now().After(end) {
				t.Fatalf("not shown: %s\n%s", want, u.must(show...))
			}
		}
	}
	shows := func(want string) {
		t.Helper()
		showsOf("task-3", want)
	}
	tiled[1] = "simulated-openeo"
	limited := append([]string{"upscale", "ndvi_composite", "--time", "2024-06-01/2024-07-01", "--trial", "1",
		"--budget"}, tiled[2:]...)
	u.refused(cli.ExitUsage, "write an amount above 0", slices.Insert(slices.Clone(limited), 7, "much")...)
	u.must(slices.Insert(slices.Clone(limited), 7, "9 credits")...)
	u.refused(cli.ExitPaused, "eodispatch resume task-3", "wait", "task-3")
	shows("which ran on trial, have ended")
	shows("2 of 9 credits spent")
	said("resume", "task-3")
	shows("Another job would exceed the budget")
	u.refused(cli.ExitPaused, "eodispatch resume task-3 --budget AMOUNT", "watch", "task-3")
	shows("8 of 9 credits spent")
	u.refused(cli.ExitFailed, "Resume it with a higher budget", "resume", "task-3", "--budget", "9.5")
	said("resume", "task-3", "--budget", "11")
	shows("10 of 11 credits spent")
	said("cancel", "task-3")
	u.holds(u.must(append([]string{"upscale", "ndvi_composite", "--time", "2024-06-01/2024-07-01", "--estimate"},
		tiled[2:]...)...), "jobs      14\n", " 28 credits, from 5 finished jobs")
	u.holds(u.must("run", "ndvi", "--platform", "simulated-ogc", "--area", usersBox, "--estimate"), "jobs      1\n",
		"costs     unknown")

	s.neighbour.OGC.SetLife(simulator.Life{Run: time.Hour})
	for line := range strings.Lines(documents.Block(t, "docs/upscaling.md", "## Several platforms", "sh")) {
		u.must(strings.Fields(line)[1:]...)
	}
	showsOf("task-4", "12 finished", "--by", "platform")
	showsOf("task-4", "20x20km", "--by", "bbox")
	if err := s.neighbour.Close(); err != nil {
		t.Fatal(err)
	}
	showsOf("task-4", "unreachable since ", "--by", "platform")
}

// splitsRegion splits a region with each option, and runs a task with several of them.
func (u *person) splitsRegion() {
	u.Helper()
	const region = "5.05,51.05,5.75,51.45"
	tiles := func(options ...string) int {
		u.Helper()
		return strings.Count(u.must(append([]string{"tiles", region}, options...)...), `"type":"Feature",`)
	}
	for want, options := range map[int][]string{14: {"--grid", "20x20km", "--order", "centre"},
		2: {"--grid", "mgrs-100km", "--buffer", "500"}} {
		if got := tiles(options...); got != want {
			u.Errorf("%v: %d tiles, not %d", options, got, want)
		}
	}
	rest, joined := tiles("--grid", "20x20km", "--min-area", "1e8"), tiles("--grid", "20x20km", "--min-area", "1e8",
		"--merge")
	if rest != joined || rest == 0 || rest == 14 {
		u.Errorf("%d tiles without slivers, and %d with joined ones", rest, joined)
	}
	const cell = `{"type":"Feature","id":"%s","properties":{},"geometry":{"type":"Polygon","coordinates":[[[%[2]d,51],[%[3]d,51],[%[3]d,52],[%[2]d,52],[%[2]d,51]]]}}`
	own := `{"type":"FeatureCollection","features":[` + fmt.Sprintf(cell, "a", 4, 5) + "," +
		fmt.Sprintf(cell, "b", 5, 6) + `]}`
	if err := os.WriteFile(filepath.Join(u.folder, "cells.geojson"), []byte(own), 0o600); err != nil {
		u.Fatal(err)
	}
	u.holds(u.must("tiles", region, "--grid", "cells.geojson"), `"id":"b"`)
	u.refused(cli.ExitUsage, "cell.geojson", "tiles", region, "--grid", "cell.geojson")
	u.refused(cli.ExitUsage, "--min-area, --merge, --buffer and --order need --grid", "run", "ndvi", "--platform",
		"simulated-ogc", "--area", region, "--merge")
	for says, option := range map[string]string{"buffer: Input should be greater": "--buffer=-1",
		"order: Input should be": "--order=north", "min_area: Input should be greater": "--min-area=-1"} {
		u.refused(exitFailed, says, "tiles", region, "--grid", "20x20km", option)
	}
	made := u.must("request", "ndvi", "--platform", "simulated-ogc", "--area", region, "--grid", "mgrs-100km",
		"--min-area", "1e8", "--merge", "--order", "centre")
	u.holds(made, `"dimension"`, `"bbox"`, `"names"`, `"31UFS"`)
}

// TestUsers_FromSignInToFiles goes the whole way on both protocols, with the real program in processes of their own.
func TestUsers_FromSignInToFiles(t *testing.T) {
	t.Parallel()
	s, u := startDemo(t), newPerson(t)
	u.refused(cli.ExitSignIn, "eodispatch login URL", "whoami")
	u.must("login", s.broker, "--name", "demo")
	u.holds(u.must("whoami", "--json"), `"user":"alice"`, `"broker":"`+s.broker+`"`)
	u.holds(u.must("platforms"), "simulated-openeo", "ogc_api_process")
	u.holds(u.must("services", "numbers", "--json"), `"id":"ndvi_statistics"`)
	u.holds(u.must("service", "ndvi_composite"), "simulated-openeo", "temporal_extent")
	u.holds(u.must("params", "ndvi", "--platform", "simulated-ogc"), "bbox", "bounding-box")
	u.holds(u.must("usage"), "LIVE JOBS")
	u.holds(u.must("tiles", "4,50,5,51", "--grid", "250x250km"),
		`{"type":"FeatureCollection","features":[{"type":"Feature","id":`)
	u.holds(u.must("grids"), "20x20km", "mgrs-100km")
	u.splitsRegion()

	u.holds(u.must("run", "ndvi", "--platform", "simulated-ogc", "--area", usersBox, "--download", "one"), "job-1")
	u.hasFiles("one", "openEO.tif")
	u.must("run", s.documents+"/ndvi_composite.json", "--platform", "simulated-openeo", "--area",
		"5.05,51.05,5.75,51.45", "--grid", "20x20km",
		"--time", "2024-06-01/2024-07-01", "--title", "by tile", "--download", "many")
	u.hasFiles("many", "openEO.tif")
	items, _ := filepath.Glob(filepath.Join(u.folder, "many", "*", "item.json"))
	if len(items) != 14 {
		t.Errorf("%d items of 14 tiles", len(items))
	}

	if shown := u.openInPystac("many"); shown != "14 items, 14 files\n" {
		t.Errorf("pystac finds %s", shown)
	}

	var again struct{ Fetched, Present int }
	decodeInto(t, u.must("download", "task-1", "--to", "many", "--json"), &again)
	if again.Fetched != 0 || again.Present != 14 {
		t.Errorf("downloaded again: %+v", again)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(items[0]), "openEO.tif")); err != nil {
		t.Fatal(err)
	}
	decodeInto(t, u.must("download", "@latest", "--to", "many", "--json"), &again)
	if again.Fetched != 1 || again.Present != 13 {
		t.Errorf("one file was missing: %+v", again)
	}
	u.refused(cli.ExitUsage, "holds other results", "download", "task-1", "--to", "one")

	u.holds(u.must("list"), "task-1", "job-1", "by tile", "14 finished")
	u.holds(u.must("list", "--task", "task-1", "--status", "finished", "--limit", "3", "--json"),
		`"message_type":"job"`)
	u.holds(u.must("show", "job-1"), "finished", "bbox")
	u.holds(u.must("watch", "task-1", "--json"),
		`{"message_type":"summary","id":"task-1","status":"finished","counts":{"finished":14}}`)
	u.must("wait", "@latest")
	u.holds(u.must("results", "task-1", "--json"), `"stac_version"`)
	u.must("request", "ndvi", "--platform", "simulated-ogc", "--area", usersBox, "--to", "request.json")
	u.holds(u.must("run", "-f", "request.json", "--wait"), "job-")

	u.must("run", s.documents+"/ndvi_composite.json", "--platform", "simulated-openeo", "--area",
		"5.05,51.05,5.75,51.45", "--grid", "mgrs-100km",
		"--time", "2024-06-15/2024-08-15", "--split", "month", "--download", "months")
	items, _ = filepath.Glob(filepath.Join(u.folder, "months", "*", "item.json"))
	if len(items) != 6 {
		t.Fatalf("%d items of two tiles in three months", len(items))
	}
	border := 0
	for _, file := range items {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		u.holds(string(text), `"temporal_extent"`)
		border += strings.Count(string(text), `"2024-07-01"`)
	}
	if border != 4 {
		t.Errorf("%d items begin or end on the first of July, not 4", border)
	}

	u.must("logout")
	u.refused(cli.ExitSignIn, "Run: eodispatch login "+s.broker, "--broker", s.broker, "whoami")
}

// openInPystac returns how many items and how many files of theirs pystac finds by the collection in a folder, which it
// must accept.
func (u *person) openInPystac(folder string) string {
	u.Helper()
	environment, err := exec.Command("bash", "../../test/real/install.sh", "--bin", "stac-1.1").Output()
	if err != nil {
		u.Fatal(err)
	}
	const script = `import os, sys, pystac
items = list(pystac.Collection.from_file(sys.argv[1]).get_items(recursive=True))
print(len(items), "items,", sum(os.path.getsize(a.get_absolute_href()) > 0 for i in items for a in i.assets.values()), "files")`
	command := exec.CommandContext(u.Context(), filepath.Join(strings.TrimSpace(string(environment)), "python"), "-c",
		script, filepath.Join(u.folder, folder, "collection.json"))
	shown, err := command.Output()
	if err != nil {
		u.Fatalf("pystac (installed by test/real/install.sh): %v", err)
	}
	return string(shown)
}

// hasFiles checks that the collection in a folder refers to files that are there, by relative links, and to a name
// among them.
func (u *person) hasFiles(folder, name string) {
	u.Helper()
	documents := []string{filepath.Join(u.folder, folder, "collection.json")}
	found := 0
	for len(documents) > 0 {
		path := documents[0]
		documents = documents[1:]
		text, err := os.ReadFile(path)
		if err != nil {
			u.Fatal(err)
		}
		var stac struct {
			Links  []struct{ Rel, Href string }
			Assets map[string]struct{ Href string }
		}
		decodeInto(u.T, string(text), &stac)
		for _, l := range stac.Links {
			if local := strings.HasPrefix(l.Href, "."); !local &&
				slices.Contains([]string{"self", "root", "parent", "collection", "item"}, l.Rel) {
				u.Errorf("%s has the link %s to %s", path, l.Rel, l.Href)
			}
			if l.Rel == "item" {
				documents = append(documents, filepath.Join(filepath.Dir(path), l.Href))
			}
		}
		for _, a := range stac.Assets {
			info, err := os.Stat(filepath.Join(filepath.Dir(path), a.Href))
			if err != nil || info.Size() == 0 || !strings.HasPrefix(a.Href, "./") {
				u.Errorf("%s refers to %s: %v", path, a.Href, err)
			}
			if filepath.Base(a.Href) == name {
				found++
			}
		}
	}
	if found == 0 {
		u.Errorf("%s has no %s", folder, name)
	}
	if left, _ := filepath.Glob(filepath.Join(u.folder, folder, "*.part*")); len(left) > 0 {
		u.Errorf("left behind: %v", left)
	}
}

func decodeInto(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
}

// TestUsers_KeepTheirSignIn checks the stored sign-in: only its owner can read it, several processes renew it once, and
// a sign-in that has ended differs from other failures.
func TestUsers_KeepTheirSignIn(t *testing.T) {
	t.Parallel()
	s, u := startDemo(t), newPerson(t)
	s.world.IdP.RefreshOnce = true // a second renewal with the same token ends the sign-in
	u.must("login", s.broker, "--name", "demo")
	file := filepath.Join(u.folder, ".local", "state", "eodispatch", "demo.json")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	expire(t, file)
	codes := make(chan string, 4)
	for range cap(codes) {
		go func() {
			code, out, said := u.do("whoami")
			codes <- fmt.Sprintf("%d: %s%s", code, out, said)
		}()
	}
	for range cap(codes) {
		if got := <-codes; !strings.HasPrefix(got, "0: alice at ") {
			t.Error(got)
		}
	}
	expire(t, file)
	s.world.IdP.Logout(simulator.BrokerRealm, "alice")
	u.refused(cli.ExitSignIn, "your sign-in to "+s.broker+" has expired. Run: eodispatch login", "list")

	token := SignIn(t, s.world, s.broker).Token
	u.environ = append(u.environ, "EODISPATCH_TOKEN="+token)
	u.must("list")
	u.environ = append(u.environ, "EODISPATCH_TOKEN=not-a-token") // the last one counts
	u.refused(cli.ExitSignIn, "set a new one, or unset it", "list")
}

// expire lets the access token of a stored sign-in end.
func expire(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]any
	decodeInto(t, string(text), &stored)
	stored["grant"].(map[string]any)["expiry"] = "2020-01-01T00:00:00Z"
	if text, err = json.Marshal(stored); err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestUsers_LearnWhatIsWrong runs commands with wrong input. None of them submits anything.
func TestUsers_LearnWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := startDemo(t)
	token := SignIn(t, s.world, s.broker).Token
	folder := t.TempDir()
	for name, text := range map[string]string{
		"two.geojson": `{"type": "FeatureCollection", "features": [
			{"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [[[5,51],[5.1,51],[5.1,51.1],[5,51]]]}},
			{"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [[[6,51],[6.1,51],[6.1,51.1],[6,51]]]}}]}`,
		"point.geojson":  `{"type": "Point", "coordinates": [5, 51]}`,
		"metres.geojson": `{"type": "Polygon", "crs": {"properties": {"name": "EPSG:3035"}}, "coordinates": []}`,
		"box.json":       `{"bbox": [5.05, 51.2, 5.15, 51.25]}`, "torn.json": `{"bbox":`, "area.zip": "PK",
		"area.kml": `<kml xmlns="http://www.opengis.net/kml/2.2"><Placemark><Polygon><outerBoundaryIs><LinearRing><coordinates>5,51,0 5.1,51,0 5.1,51.1,0 5,51,0</coordinates></LinearRing></outerBoundaryIs></Polygon></Placemark></kml>`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environ := []string{"HOME=" + folder, "EODISPATCH_TOKEN=" + token, "EODISPATCH_BROKER=" + s.broker}
	page := newPage(t)
	ndvi := []string{"run", "ndvi", "--platform", "simulated-ogc"}
	for _, row := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"list", "--broker", "http://127.0.0.1:1"}, exitFailed, "cannot reach http://127.0.0.1:1"},
		{[]string{"list", "--broker", page}, exitFailed, "does not answer as a broker does: it sent text/html"},
		{[]string{"watch", "task-1", "--broker", page}, exitFailed,
			"does not answer as a broker does: it sent text/html"},
		{[]string{"list", "--broker", "ftp://x"}, exitUsage, "is not a URL like https://"},
		{[]string{"list", "--status", "sleeping"}, exitUsage, "unknown status"},
		{append(ndvi, "--area", "point.geojson"), exitUsage, `a "Point" is not an area`},
		{append(ndvi, "--area", "metres.geojson"), exitUsage, "convert it to longitude and latitude"},
		{append(ndvi, "--area", "area.zip"), exitUsage, "not a zip archive"},
		{append(ndvi, "--area", "5,51,4,52"), exitUsage, "west < east"},
		{append(ndvi, "--area", "nowhere.geojson"), exitUsage, "nowhere.geojson"},
		{append(ndvi, "-p", "bbox=@torn.json"), exitUsage, "torn.json is not JSON"},
		{append(ndvi, "-p", "box=@box.json"), exitUsage, "the service has no such parameter; it has: bbox"},
		{append(ndvi, "-p", "bbox=@box.json", "--time", "2024-01-01/2025-01-01"), exitUsage,
			"no parameter of the type date-interval"},
		{append(ndvi, "--grid", "20x20km"), exitUsage, "--grid needs --area"},
		{ndvi, exitFailed, `parameter "bbox" (bounding-box) is required`},
		{append(ndvi, "-p", "bbox=@box.json", "--also", "ndvi_composite"), exitUsage, "--also is for tasks"},
		{append(ndvi, "--area", "5,51,5.5,51.5", "--grid", "20x20km", "--also", "ndvi_composite"), exitFailed,
			"have different parameters"},
		{[]string{"run", "ndvi", "--platform", "nowhere"}, exitUsage,
			"the platforms are: simulated-openeo, simulated-ogc"},
		{[]string{"run", "-f", "box.json", "--area", "1,1,2,2"}, exitUsage, "the request is in the file"},
		{[]string{"show", "job-99"}, exitFailed, "no such job"},
		{[]string{"show", "seven"}, exitUsage, "job-42, task-7 or @latest"},
		{[]string{"show", "@latest"}, exitFailed, "you have no jobs or tasks"},
		{[]string{"watch", "task-99"}, exitFailed, "no such task"},
		{[]string{"retry", "job-1"}, exitFailed, "no such job"},
		{[]string{"download", "task-99", "--to", "results"}, exitFailed, "no such task"},
	} {
		code, printed := tryIn(t, folder, environ, row.args...)
		if code != row.code || !strings.Contains(printed, row.want) {
			t.Errorf("%v: exit %d, not %d, with %q in:\n%s", row.args, code, row.code, row.want, printed)
		}
	}
	for _, args := range [][]string{append(ndvi, "-p", "bbox=@box.json"), append(ndvi, "--area", "two.geojson"),
		append(ndvi, "--area", "area.kml")} {
		if code, printed := tryIn(t, folder, environ, args...); code != exitDone {
			t.Errorf("%v: exit %d:\n%s", args, code, printed)
		}
	}
	for range 2 {
		if code, printed := tryIn(t, folder, environ, append(ndvi, "--area", usersBox, "--key", "once",
			"--json")...); code != exitDone || !strings.Contains(printed, `"id":4,`) {
			t.Errorf("with the same key: exit %d:\n%s", code, printed)
		}
	}
}

// newPage serves a page of HTML at every address, and returns its URL.
func newPage(t *testing.T) string {
	t.Helper()
	return Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>Welcome</html>")
	}))
}
